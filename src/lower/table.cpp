#include <algorithm>
#include <cmath>

#include "lower/lowering.h"

namespace swoop {

namespace {

// The function of a unary node between its types, on codes.
class CodeFunction {
 public:
  CodeFunction(const Node& n, const Type& from, const Type& to)
      : from_(from), to_(to), function_(unary_function(n.text(Key::Fn))), alpha_(static_cast<float>(n.real(Key::Alpha, 0.0))),
        beta_(static_cast<float>(n.real(Key::Beta, 0.0))), min_(static_cast<float>(n.real(Key::ActMin, -INFINITY))),
        max_(static_cast<float>(n.real(Key::ActMax, INFINITY))) {}

  bool known() const { return function_ != nullptr; }

  // The code may lie one past the range (the last sample of a 16-bit table).
  int64_t at(int64_t code, bool clamp_code) const {
    const Quant& q = *from_.quant;
    if (clamp_code) code = std::clamp(code, q.qmin, q.qmax);
    float x = (static_cast<float>(code) - static_cast<float>(from_.zero_point())) * static_cast<float>(from_.scale());
    float y = std::clamp(function_(x, alpha_, beta_), min_, max_);
    return quantize_value(y, to_.scale(), to_.zero_point(), to_.quant->qmin, to_.quant->qmax);
  }

 private:
  const Type& from_;
  const Type& to_;
  UnaryFn function_;
  float alpha_;
  float beta_;
  float min_;
  float max_;
};

}  // namespace

Result<tosa::TensorId> Lowering::unary(const Node& n) {
  const Type& from = in(n, 0);
  const Type& to = out(n);
  if (!from.quantized() || !to.quantized()) return cannot(n, "it is a function of an unquantized integer");
  CodeFunction function(n, from, to);
  if (!function.known()) return cannot(n, "its function is unknown");

  if (from.dtype == DType::I8 && to.dtype == DType::I8) {
    std::vector<int64_t> table(256);
    for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = function.at(i - 128, true);
    return b.table(operand(n.inputs[0]), b.constant(tosa::DType::I8, {256}, table, fmt::format("{}_table", n.name)));
  }
  if (from.dtype == DType::I16 && to.dtype != DType::I32) {
    // TOSA 1.0, TABLE: 513 samples, 128 codes apart; the result has 7 more fraction bits.
    std::vector<int64_t> table(513);
    for (int i = 0; i < 513; ++i) table[static_cast<size_t>(i)] = function.at(-32768 + 128 * i, false);
    Id result = b.table(operand(n.inputs[0]), b.constant(tosa::DType::I16, {513}, table, fmt::format("{}_table", n.name)));
    return rescale(result, 1.0 / 128.0, 0, 0, tosa_dtype(to.dtype));
  }
  return cannot(n, fmt::format("tables map i8 to i8 and i16 to i8 or i16, not {} to {}", name_of(from.dtype), name_of(to.dtype)));
}

}  // namespace swoop
