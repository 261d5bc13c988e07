// Images as samples: .png, .jpg and .ppm/.pgm files become channels-first floats in 0..1.
#pragma once

#include <string>

#include "ops/ops.h"
#include "support/bytes.h"

namespace swoop {

bool is_image(const std::string& path);

// [channels, height, width]; `channels` is 1 (luminance) or 3.
Result<Tensor> read_image(Bytes bytes, const std::string& path, int64_t channels);

}  // namespace swoop
