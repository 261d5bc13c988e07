// Puts core nodes into a graph for one exported node: shapes come from ops' inference, a move that moves nothing makes
// no node, and every node carries the exported node's name and source line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/budget.h"
#include "import/meta.h"
#include "ir/ir.h"

namespace swoop {

class NodeBuilder {
 public:
  NodeBuilder(Graph& graph_, Budget& budget_) : graph(graph_), budget(budget_) {}

  Graph& graph;
  Budget& budget;
  LocId loc = kNone;
  std::string name;       // of the exported node
  ValueId named = kNone;  // the value that got exactly this name

  const Type& type(ValueId value) const { return graph.type(value); }
  const Shape& shape(ValueId value) const { return graph.type(value).shape; }
  int rank(ValueId value) const { return graph.type(value).rank(); }
  DType dtype(ValueId value) const { return graph.type(value).dtype; }
  int64_t dim(ValueId value, int64_t axis) const;  // throws when there is no such axis

  // -- constants
  ValueId scalar(double value, DType dtype);  // rank 0
  ValueId constant(Type type, Buffer data);
  ValueId counted(int64_t count, DType dtype = DType::I64);  // 0, 1, 2, ...
  template <typename Fill>                                   // fill(i) -> double, or int64_t for exact integers
  ValueId filled(DType dtype, Shape shape, Fill fill);

  // -- nodes
  std::vector<ValueId> make_all(Op op, std::vector<ValueId> inputs, Attrs attrs,
                                std::vector<std::unique_ptr<Graph>> bodies = {});
  ValueId make(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId cast(ValueId x, DType dtype);
  ValueId unary(std::string_view fn, ValueId x);
  ValueId unary(std::string_view fn, ValueId x, double alpha, double beta = 0);
  ValueId clamp(ValueId x, std::optional<double> min, std::optional<double> max);
  ValueId add(ValueId a, ValueId b) { return make(Op::Add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return make(Op::Sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return make(Op::Mul, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return make(Op::Div, {a, b}); }
  ValueId matmul(ValueId a, ValueId b) { return make(Op::MatMul, {a, b}); }
  ValueId compare(std::string_view fn, ValueId a, ValueId b);
  ValueId where(ValueId condition, ValueId a, ValueId b) { return make(Op::Where, {condition, a, b}); }
  ValueId log_add_exp(ValueId a, ValueId b);  // log(exp(a) + exp(b)), without large numbers in between
  ValueId angle_of(ValueId y, ValueId x);     // of a point, from -pi to pi; of two zeros it is 0
  ValueId scaled(ValueId x, double factor);   // x * factor, x itself for 1
  ValueId reduce(Op op, ValueId x, Ints axes, bool keepdim);
  ValueId norm(ValueId x, double p, const Ints& axes, bool keepdim);  // (sum |x|^p)^(1/p), or its limit
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, Ints perm);
  ValueId swap(ValueId x, int64_t a, int64_t b);
  ValueId pad(ValueId x, int64_t axis, int64_t before, int64_t after, double value);
  ValueId slice(ValueId x, int64_t axis, int64_t start, int64_t end,
                int64_t step = 1);  // clamps as Python does; step > 0
  ValueId select(ValueId x, int64_t axis, int64_t index);
  ValueId concat(std::vector<ValueId> parts, int64_t axis);
  ValueId expand(ValueId x, const Shape& shape);  // adds leading dims, repeats dims of size 1
  ValueId unsqueeze(ValueId x, int64_t axis);
  ValueId linear(ValueId x, ValueId weight, ValueId bias = kNone);

  void start(LocId loc_, std::string_view name_);  // the next exported node
  // The value that users look for under the exported name is the last one of an expansion, not the first.
  void give_name_to(ValueId result);

 private:
  ValueId made(ValueId value);
};

int64_t normalised_axis(int64_t axis, int rank);
void store_element(std::byte* to, DType dtype, double value);
void store_element(std::byte* to, DType dtype, int64_t value);
double load_element(const std::byte* from, DType dtype);

template <typename Fill>
ValueId NodeBuilder::filled(DType dtype, Shape shape, Fill fill) {
  int64_t count = checked_count(shape, name);
  uint64_t size = static_cast<uint64_t>(count) * byte_size(dtype);
  budget.take(size, name);
  Buffer data(size);
  for (int64_t i = 0; i < count; ++i)
    store_element(data.data() + static_cast<size_t>(i) * byte_size(dtype), dtype, fill(i));
  return made(graph.add_constant(Type{dtype, std::move(shape), std::nullopt}, graph.store(std::move(data)), name));
}

}  // namespace swoop
