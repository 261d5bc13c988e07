// Cycles per node in the format that Google's Model Explorer calls node data, for the nodes that Arm's adapters show:
// the operators of a .tosa file, the calls of NPU regions of a .pte.
#pragma once

#include <string>

#include "emit/emit.h"
#include "report/report.h"

namespace swoop {

// `program`: the .pte, if that was written.
std::string overlay_json(const Summary& summary, const ProgramInfo* program);

}  // namespace swoop
