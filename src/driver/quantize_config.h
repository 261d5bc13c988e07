// --quantize-config: TOML text to the quantizer's options.
#pragma once

#include "quantize/quantize.h"

namespace swoop {

// Fills precision, method, ..., scopes and keep_float; what the file does not say stays. `path` is for messages.
Result<void> read_quantize_config(std::string_view text, const std::string& path, QuantizeOptions& options);

}  // namespace swoop
