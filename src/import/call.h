// What a builder of the ATen table sees: the arguments of one exported node, and the means to put core nodes into the
// graph (NodeBuilder). Accessors throw Malformed when the file has another kind of value there; builders throw
// Unsupported for forms that the core operators do not express (refuse.h).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "import/archive.h"
#include "import/node_builder.h"
#include "ir/ir.h"

namespace swoop {

struct Binding;
struct Row;
class Scope;

struct TensorArg {
  Binding* binding = nullptr;  // null: None in a list
};
struct ComplexArg {
  double real = 0;
  double imag = 0;
};
// A layout, memory format or device: only opaque nodes care. "memory_format:1"
struct OtherArg {
  std::string token;
};
using ArgValue = std::variant<std::monostate, TensorArg, std::vector<TensorArg>, bool, int64_t, double, std::string,
                              DType, Ints, Doubles, std::vector<bool>, Strings, OtherArg, ComplexArg>;

class Call : public NodeBuilder {
 public:
  Call(Scope& scope_, Graph& graph_, Budget& budget_) : NodeBuilder(graph_, budget_), scope(scope_) {}

  Scope& scope;
  const Row* row = nullptr;
  std::vector<std::string_view> names;  // of the arguments
  std::vector<ArgValue> args;           // in the schema's order, defaults filled in
  std::vector<Type> results;            // as the file declares them
  std::vector<bool> wanted;             // false for results the file marks as unused
  std::string warning;                  // what the user should know about what the builder did

  bool none(size_t index) const;
  ValueId tensor(size_t index);  // the value as it stands now
  ValueId tensor_or_none(size_t index);
  std::vector<ValueId> tensors(size_t index);  // kNone where the list has None
  int64_t integer(size_t index) const;
  int64_t integer(size_t index, int64_t if_none) const { return none(index) ? if_none : integer(index); }
  double real(size_t index) const;  // integers and flags count too
  std::optional<double> real_or_none(size_t index) const;
  bool flag(size_t index) const;
  std::string_view text(size_t index) const;
  Ints ints(size_t index) const;                // a single integer counts as a list of one
  Ints ints(size_t index, size_t count) const;  // one value stands for all
  Doubles reals(size_t index) const;
  DType dtype_arg(size_t index, DType if_none) const;
  bool is_number(size_t index) const;  // a number, not a tensor
  // A number or tensor as an operand of type `as`; numbers become constants of rank 0.
  ValueId operand(size_t index, DType as);
  int64_t axis(size_t index, int rank) const;  // normalised; rank 0 counts as 1
  Ints axes(size_t index, int rank) const;     // sorted; none or empty: all
  // The constant that a tensor argument is, or null. Reading it makes no value.
  const StoredTensor* constant_arg(size_t index) const;
  // The constant that a value is, computed from constants alone; kNone when it depends on the inputs.
  ValueId known(ValueId x);
  // The one element of a value that is computed from constants alone; nullopt when it depends on the inputs.
  std::optional<double> known_number(ValueId x);
  // The exporter's strides say that the argument is row-major.
  bool contiguous(size_t index) const;
  std::string_view detail() const;  // the row's
  const Type& result(size_t index = 0) const;
  bool wants(size_t index) const { return index < wanted.size() && wanted[index]; }
};

}  // namespace swoop
