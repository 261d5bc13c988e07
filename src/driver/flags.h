// The flags that `compile` and `accuracy` share.
#pragma once

#include <CLI/CLI.hpp>

#include "driver/options.h"

namespace swoop {

// What CLI11 fills in before it can be understood.
struct ModelFlags {
  CLI::App* command = nullptr;  // that has them
  CompileOptions options;
  std::vector<std::string> targets;  // of --target
  std::string board;
  std::vector<std::string> shapes;   // of --shape
  std::vector<std::string> configs;  // of --config: settings (.toml), a vela.ini
  std::string optimise = "Performance";
  std::string precision = "auto";
  std::string method = "mse";
  std::string quantize_config;
  bool per_tensor = false;
  bool no_bias_correction = false;
  int threads = 0;
};

inline constexpr const char* kQuantizationGroup = "Quantization";

// Turns the text of a size ("262144", "256KiB", "72.5k") into its number of bytes. k, M and G are powers of 1024.
CLI::Validator as_bytes();

void add_model_flags(CLI::App& command, ModelFlags& flags);

// Reads the files that flags name, settings first, and turns words into options. The target is the first of `targets`.
Result<void> understand(ModelFlags& flags);

}  // namespace swoop
