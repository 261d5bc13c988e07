// Sizes of dynamic shapes, as torch.export writes them: sympy's own notation, Add(Mul(Integer(2), Symbol('s0', ...)),
// ...).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace swoop {

// The value where every symbol has one. Null: a symbol has none, the text has a function that we do not know, or the
// result is no integer.
std::optional<int64_t> evaluate_size(std::string_view expression,
                                     const std::function<std::optional<int64_t>(std::string_view)>& value_of);

}  // namespace swoop
