#include <algorithm>

#include "lower/lowering.h"

namespace swoop {

// sum and mean: exact in 32 bits; the mean's 1/N is part of the one rescale at the end. What could leave 32 bits is
// divided by a power of two first, as far as its type makes necessary: of a sum of more than 65536 numbers of 16 bits
// the lowest bits go.
Result<tosa::TensorId> Lowering::sum(const Node& n) {
  const Type& from = in(n, 0);
  if (!n.flag(Key::Keepdim)) return cannot(n, "it drops its dims");
  if (!from.quantized()) return cannot(n, "its operand is not quantized");
  double count = 1;
  for (int64_t axis : n.ints(Key::Axes)) count *= static_cast<double>(from.shape[static_cast<size_t>(axis)]);
  Id x = widen(n, 0, 1.0);
  double scale = from.scale() / out(n).scale() / (n.op == Op::Mean ? count : 1.0);
  for (int64_t axis : n.ints(Key::Axes)) {
    auto length = static_cast<double>(from.shape[static_cast<size_t>(axis)]);
    tosa::CodeRange codes = bounds_.of(x);
    double unit = 1;
    while (std::max(-codes.low, codes.high) * length / unit >= 0x1p31) unit *= 2;
    x = b.reduce_sum(rescale(x, 1 / unit, 0, 0, tosa::DType::I32), static_cast<int32_t>(axis));
    scale *= unit;
  }
  return narrow(x, scale, n);
}

Result<tosa::TensorId> Lowering::reduce(const Node& n) {
  if (!n.flag(Key::Keepdim)) return cannot(n, "it drops its dims");
  tosa::Op op = n.op == Op::ReduceMax   ? tosa::Op::ReduceMax
                : n.op == Op::ReduceMin ? tosa::Op::ReduceMin
                : n.op == Op::Any       ? tosa::Op::ReduceAny
                                        : tosa::Op::ReduceAll;
  Id x = operand(n.inputs[0]);
  for (int64_t axis : n.ints(Key::Axes)) x = b.reduce(op, x, static_cast<int32_t>(axis));
  if (!in(n, 0).quantized()) return x;
  return activate(requantize(x, in(n, 0), out(n)), n);
}

Result<tosa::TensorId> Lowering::argmax(const Node& n) {
  Id index = b.argmax(operand(n.inputs[0]), static_cast<int32_t>(n.integer(Key::Axis)));
  return n.flag(Key::Keepdim) ? b.reshape(index, tosa_shape(out(n).shape)) : index;
}

}  // namespace swoop
