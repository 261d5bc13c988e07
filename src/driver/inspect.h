// swoop inspect: what is in a .pt2, .pte or .tosa file.
#pragma once

#include <string>

#include "support/result.h"

namespace swoop {

Result<std::string> inspect(const std::string& path, bool data);

}  // namespace swoop
