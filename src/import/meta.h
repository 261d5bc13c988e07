// Tensor types as the `.pt2` writes them, and the symbols of dynamic shapes. Only shapes with a value get through.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "import/json.h"
#include "ir/ir.h"

namespace swoop {

// Symbols have a value where range_constraints allows only one, or where the caller gave one; any other is refused.
class Symbols {
 public:
  Symbols() = default;
  explicit Symbols(Json program);

  // SymInt: {"as_int": n} or {"as_expr": {"expr_str": ..., "hint": ...}}. Throws Malformed when the value is open.
  int64_t value(Json symint, std::string_view what) const;

  // "s77, 2 to 64" when the size has no value; empty when it has.
  std::string open_symbol(Json symint) const;

  // Gives the symbol that this size is the value `size`. False: the symbol's range, or what it was given before,
  // forbids it. A size of several open symbols is left alone.
  bool give(Json symint, int64_t size);

 private:
  struct Range {
    std::optional<int64_t> min;
    std::optional<int64_t> max;
  };
  std::optional<int64_t> value_of(std::string_view symbol) const;

  std::unordered_map<std::string_view, Range> ranges_;
};

struct TensorMeta {
  Type type;
  Ints strides;  // in elements; empty when the file has none
  int64_t offset = 0;
  bool complex = false;  // the last axis holds the real and the imaginary part; the file has no such axis

  bool contiguous() const;  // row-major
};

TensorMeta read_meta(Json meta, const Symbols& symbols, std::string_view what);

// torch.export's own numbering (neither c10's nor the .pte's). Of complex numbers: what their parts are. Throws
// Malformed for types we have no numbers for.
DType dtype_from_code(int64_t code, std::string_view what);

// Elements of a type, after checking that sizes are neither negative nor absurd.
int64_t checked_count(const Shape& shape, std::string_view what);

}  // namespace swoop
