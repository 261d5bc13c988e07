# Warnings are errors. Every target of the project inherits these flags; third-party headers come in as SYSTEM.
add_library(swoop_flags INTERFACE)
target_compile_options(swoop_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
                                             -Wswitch -Wundef -Werror)
if(SWOOP_SANITIZE OR SWOOP_FUZZ)
  target_compile_options(swoop_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(swoop_flags INTERFACE -fsanitize=address,undefined)
endif()
if(SWOOP_FUZZ)
  target_compile_options(swoop_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
