// The name that a person may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace swoop {

// Of `names`, the one with the fewest letters to change, or to add or leave out, or that holds `wanted` as a part.
// Empty: none is near.
std::string_view nearest(std::string_view wanted, std::span<const std::string> names);

// "; did you mean X?" for the end of a sentence, or nothing.
std::string did_you_mean(std::string_view wanted, std::span<const std::string> names);

}  // namespace swoop
