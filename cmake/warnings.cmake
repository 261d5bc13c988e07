# Warnings are errors. Every target of the project inherits these flags; third-party headers come in as SYSTEM.
add_library(swoop_flags INTERFACE)
target_compile_options(swoop_flags INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Wold-style-cast -Wswitch -Wundef -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # False positives of GCC 12: restrict on std::string operator+ (bug 105651), stringop-overflow on std::vector::insert.
  target_compile_options(swoop_flags INTERFACE -Wshadow=local -Wno-restrict -Wno-stringop-overflow)
endif()
if(SWOOP_SANITIZE)
  target_compile_options(swoop_flags INTERFACE -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(swoop_flags INTERFACE -fsanitize=address,undefined)
endif()
