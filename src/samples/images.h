// Images as samples: what torchvision makes of a file with Resize and CenterCrop to the input's size, ToTensor and
// Normalize. PNG, JPEG, BMP, PPM and PGM files are read, by Leptonica.
#pragma once

#include <string>

#include "samples/samples.h"
#include "support/bytes.h"

namespace swoop {

bool is_image(const std::string& path);  // by the ending of its name

// For a model whose only input is an image of one channel (luminance) or three.
Result<Sample> sample_from_image(Bytes bytes, const std::string& path, const Graph& graph,
                                 const SampleOptions& options);

// -- its steps

// [channels, height, width] in 0..1. An alpha channel is ignored.
Result<Tensor> decode_image(Bytes bytes, const std::string& path, int64_t channels);

// The image, scaled so that it just covers height x width, and of that the middle.
Tensor cover(const Tensor& image, int64_t height, int64_t width);

}  // namespace swoop
