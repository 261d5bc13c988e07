// The folder beside the output with what shows a fault of a region: send it to us, or run the vela.sh in it.
#pragma once

#include <string>

#include "driver/fault.h"

namespace swoop {

// REGION.tosa, vela.ini, vela.sh and, where the finished file showed the fault, program.pte and the region's inputs.
Result<void> keep_bundle(const std::string& folder, const RegionFault& fault, std::string_view region, Bytes tosa,
                         Bytes pte, const Pipeline& pipeline);

// What keep_bundle() has written, in this build or an earlier one, and the folder when nothing else is in it.
void remove_bundle(const std::string& folder);

}  // namespace swoop
