// The ATen table: one row per overload, the only place where its name is spelled. In-place forms (`add_`) and copies of
// views (`view_copy`) need no row: they are the same row under PyTorch's own naming scheme.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "import/call.h"

namespace swoop {

// What a builder gives back: one value per result; kNone for a result the file does not use.
struct Results {
  std::vector<ValueId> values;
  Results(ValueId value) : values{value} {}
  Results(std::vector<ValueId> list) : values(std::move(list)) {}
};

enum class RowKind : uint8_t {
  Value,             // fresh results
  View,              // the results are views of the first argument
  ViewIfContiguous,  // PyTorch copies only when it has to
  Drop,              // an assertion or a hint: nothing remains
  Number,            // gives a Python number, known at import
};

struct Row {
  std::string_view name;              // "aten.add.Tensor"
  std::string_view schema;            // "self, other, *, alpha=1": names, order and defaults as in PyTorch
  Results (*build)(Call&) = nullptr;  // null: stays opaque
  std::string_view detail = {};       // for rows that share a builder
  RowKind kind = RowKind::Value;
};

// The families, each in its own file.
std::span<const Row> conv_rows();
std::span<const Row> pool_rows();
std::span<const Row> resize_rows();
std::span<const Row> window_rows();
std::span<const Row> unary_rows();
std::span<const Row> binary_rows();
std::span<const Row> reduce_rows();
std::span<const Row> move_rows();
std::span<const Row> split_rows();
std::span<const Row> norm_rows();
std::span<const Row> product_rows();
std::span<const Row> recurrent_rows();
std::span<const Row> factory_rows();
std::span<const Row> index_rows();
std::span<const Row> scatter_rows();
std::span<const Row> sort_rows();
std::span<const Row> group_rows();
std::span<const Row> diagonal_rows();
std::span<const Row> loss_rows();
std::span<const Row> quant_rows();
std::span<const Row> host_rows();

struct Found {
  const Row* row = nullptr;  // null: unknown
  bool in_place = false;
  bool copy = false;  // the copying form of a view
};
Found find_row(std::string_view target);
// For complex operands or results (complex.h). Views without a row of their own move each part.
Found find_complex_row(std::string_view target);

struct Param {
  std::string_view name;
  bool required = true;
  ArgValue fallback;
};
// Our own text: a mistake in it is a bug.
std::vector<Param> parse_schema(std::string_view schema);

}  // namespace swoop
