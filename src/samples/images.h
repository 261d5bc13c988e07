// Images as samples: .png, .jpg and .ppm/.pgm files become channels-first floats in 0..1.
#pragma once

#include <string>

#include "samples/samples.h"
#include "support/bytes.h"

namespace swoop {

bool is_image(const std::string& path);

// For a model whose only input is an image of one channel (luminance) or three.
Result<Sample> sample_from_image(Bytes bytes, const std::string& path, const Graph& graph,
                                 const SampleOptions& options);

}  // namespace swoop
