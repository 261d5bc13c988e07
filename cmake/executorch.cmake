# The stock ExecuTorch runtime of the wheel, as the target executorch_sdk. The wheel's own CMake package needs CMake 3.28 for its
# targets and Debian 12 has 3.25, so the same facts (headers, definitions, libraries) are spelled out here.
# Kernel libraries register themselves when they are loaded: --no-as-needed keeps the linker from dropping them.
add_library(executorch_sdk INTERFACE)
target_include_directories(executorch_sdk SYSTEM INTERFACE
  ${EXECUTORCH_ROOT}/include ${EXECUTORCH_ROOT}/include/executorch/runtime/core/portable_type/c10)
target_compile_definitions(executorch_sdk INTERFACE C10_USING_CUSTOM_GENERATED_MACROS ET_EVENT_TRACER_ENABLED ET_USE_THREADPOOL)
target_link_libraries(executorch_sdk INTERFACE
  -Wl,--push-state,--no-as-needed
  ${EXECUTORCH_ROOT}/lib/libexecutorch.so
  ${EXECUTORCH_ROOT}/lib/libexecutorch_threadpool.so
  ${EXECUTORCH_ROOT}/lib/libexecutorch_kernels_optimized.so
  ${EXECUTORCH_ROOT}/lib/libexecutorch_kernels_quantized.so
  -Wl,--pop-state)
