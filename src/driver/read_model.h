// The file of a model, as a graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/options.h"
#include "ir/ir.h"
#include "support/file.h"

namespace swoop {

// A .pt2, or the text form of a graph with its constants (what `swoop inspect --data` prints). Every value is its own
// origin. `opened`: the file, whose bytes the constants are.
Result<Graph> read_model(const std::string& path, const OpenSizes& sizes = {},
                         std::vector<std::string>* warnings = nullptr,
                         std::shared_ptr<const MappedFile>* opened = nullptr);

}  // namespace swoop
