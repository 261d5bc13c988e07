# The stock ExecuTorch runtime of the wheel, as the target executorch_sdk. The wheel's own CMake package needs CMake 3.28 for its
# targets and Debian 12 has 3.25, so the same facts (headers, definitions, libraries) are spelled out here.
# Kernel libraries register themselves when they are loaded: --no-as-needed keeps the linker from dropping them.
add_library(executorch_sdk INTERFACE)
target_include_directories(executorch_sdk SYSTEM INTERFACE
  ${EXECUTORCH_ROOT}/include ${EXECUTORCH_ROOT}/include/executorch/runtime/core/portable_type/c10)
target_compile_definitions(executorch_sdk INTERFACE C10_USING_CUSTOM_GENERATED_MACROS ET_EVENT_TRACER_ENABLED ET_USE_THREADPOOL)
# The libraries are copied beside what is built and found there ($ORIGIN): the program can be moved, and needs no .venv. What CMake
# would write for the build folder ends in an empty entry, which the loader reads as the current folder.
set(CMAKE_INSTALL_RPATH "$ORIGIN")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(executorch_libraries "")
foreach(name executorch executorch_threadpool executorch_kernels_optimized executorch_kernels_quantized)
  file(COPY ${EXECUTORCH_ROOT}/lib/lib${name}.so DESTINATION ${CMAKE_BINARY_DIR})
  list(APPEND executorch_libraries ${CMAKE_BINARY_DIR}/lib${name}.so)
endforeach()
target_link_libraries(executorch_sdk INTERFACE -Wl,--push-state,--no-as-needed ${executorch_libraries} -Wl,--pop-state)

# libswoop_run.so: the runtime and our delegate, loaded by `swoop run` and by Python only when needed (src/run/runtime.h).
file(GLOB run_library_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/run/executorch/*.cpp)
add_library(swoop_run_library SHARED ${run_library_sources})
target_link_libraries(swoop_run_library PRIVATE swoop_run executorch_sdk)
target_link_options(swoop_run_library PRIVATE -Wl,--exclude-libs,ALL)  # our rooms' symbols stay inside
set_target_properties(swoop_run_library PROPERTIES
  OUTPUT_NAME swoop_run LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} CXX_VISIBILITY_PRESET hidden)
set(SWOOP_run_LIBRARIES ${CMAKE_DL_LIBS})
