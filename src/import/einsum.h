// einsum as permutations, one batched matrix product per pair of operands, and sums.
#pragma once

#include <string_view>
#include <vector>

#include "import/call.h"

namespace swoop {

ValueId make_einsum(Call& c, std::string_view equation, std::vector<ValueId> operands);

}  // namespace swoop
