// Any text as a configuration file: an error or a system, never a crash.
#include "npu/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  swoop::NpuOptions options;
  options.config.assign(reinterpret_cast<const char*>(data), size);
  if (options.config.empty()) return 0;
  const auto systems = swoop::system_configs(options);
  const auto modes = swoop::memory_modes(options);
  if (!systems || !modes) return 0;
  for (const auto& system : *systems) {
    for (const auto& mode : *modes) {
      options.system_config = system;
      options.memory_mode = mode;
      swoop::resolve_system(swoop::npu_targets().front(), options).has_value();
    }
  }
  return 0;
}
