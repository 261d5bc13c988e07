// One compile, from the .pt2 to the .pte on disk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "driver/options.h"
#include "driver/pipeline.h"
#include "ir/ir.h"
#include "report/report.h"
#include "support/file.h"

namespace swoop {

struct CompileResult {
  Summary summary;
  std::string stopped;  // the text of --stop-after; empty when the compile went to its end
  std::string stats;    // of --stats
};

// A .pt2, or the text form of a graph with its constants (what `swoop inspect --data` prints). Every value is its own
// origin. `opened`: the file, whose bytes the constants are.
Result<Graph> read_model(const std::string& path, const OpenSizes& sizes = {},
                         std::vector<std::string>* warnings = nullptr,
                         std::shared_ptr<const MappedFile>* opened = nullptr);

Result<CompileResult> compile(const CompileOptions& options);

// All of that up to the file. In place of writing it, `use` gets the types that it has, with what they were chosen by.
Result<void> compile_for_types(const CompileOptions& options, const std::function<Result<void>(const Pipeline&)>& use);

// What `swoop accuracy` prints, of those types.
Result<std::string> accuracy(const CompileOptions& options);

}  // namespace swoop
