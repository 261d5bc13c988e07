// NumPy arrays as samples. An array of exactly the input's shape is one sample; one more axis in front holds several.
#pragma once

#include <string>
#include <vector>

#include "samples/samples.h"
#include "support/npz.h"

namespace swoop {

// The array as tensors of the type's shape, one per sample.
Result<std::vector<Tensor>> split(const NamedArray& named, const Type& type, const std::string& path);

// An array for each input, by its name. A model with one input also takes an array of another name, if it is the only
// one that fits.
Result<std::vector<Sample>> samples_from(const std::vector<NamedArray>& arrays, const std::string& path,
                                         const Graph& graph);

}  // namespace swoop
