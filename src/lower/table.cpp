#include <algorithm>
#include <cmath>

#include "lower/lowering.h"

namespace swoop {

namespace {

// The function of a unary node between its types, on codes.
class CodeFunction {
 public:
  CodeFunction(const Node& n, const Type& from, const Type& to)
      : from_(from),
        to_(to),
        function_(unary_function(n.text(Key::Fn))),
        alpha_(static_cast<float>(n.real(Key::Alpha, 0.0))),
        beta_(static_cast<float>(n.real(Key::Beta, 0.0))),
        min_(static_cast<float>(n.real(Key::ActMin, -INFINITY))),
        max_(static_cast<float>(n.real(Key::ActMax, INFINITY))) {}

  bool known() const { return function_ != nullptr; }

  // The results for `count` codes from `first`, `step` apart. The last sample of a 16-bit table is one past the
  // codes. Where the function is not defined (the logarithm of a negative number, the arcsine of a code just above 1),
  // the table goes on as it begins to the right, or as it ends to the left.
  std::vector<int64_t> table(int64_t first, int64_t step, size_t count) const {
    std::vector<int64_t> entries(count);
    std::vector<bool> defined(count);
    for (size_t i = 0; i < count; ++i) {
      int64_t code =
          std::clamp(first + step * static_cast<int64_t>(i), from_.quant->qmin, from_.quant->qmax + (step > 1));
      float y = of(code);
      entries[i] = code_of(y);
      defined[i] = !std::isnan(y);
    }
    auto go_on = [&](size_t to, size_t from) {
      if (defined[to] || !defined[from]) return;
      entries[to] = entries[from];
      defined[to] = true;
    };
    for (size_t i = count - 1; i-- > 0;) go_on(i, i + 1);
    for (size_t i = 1; i < count; ++i) go_on(i, i - 1);
    return entries;
  }

  // How far the function is from the straight line between two samples of a 16-bit table, at most, in steps of the
  // result.
  double bend(std::span<const int64_t> entries) const {
    double most = 0;
    for (size_t i = 0; i + 1 < entries.size(); ++i) {
      float y = of(-32768 + 128 * static_cast<int64_t>(i) + 64);
      double line = static_cast<double>(entries[i] + entries[i + 1]) / 2;
      if (!std::isnan(y)) most = std::max(most, std::fabs(line - static_cast<double>(code_of(y))));
    }
    return most;
  }

 private:
  float of(int64_t code) const {
    float x = (static_cast<float>(code) - static_cast<float>(from_.zero_point())) * static_cast<float>(from_.scale());
    return std::clamp(function_->of(x, alpha_, beta_), min_, max_);
  }
  int64_t code_of(float y) const {
    return quantize_value(y, to_.scale(), to_.zero_point(), to_.quant->qmin, to_.quant->qmax);
  }

  const Type& from_;
  const Type& to_;
  const UnaryFunction* function_;
  float alpha_;
  float beta_;
  float min_;
  float max_;
};

// Above this bend a function with a normal form takes that: half a step is what rounding costs anyway.
constexpr double kStraight = 2;

bool has_normal_form(std::string_view fn) {
  for (std::string_view known : {"reciprocal", "rsqrt", "sqrt", "log", "log2", "log10"})
    if (fn == known) return true;
  return false;
}

}  // namespace

// TABLE of 16 bits, rounded back to them: as one op on the cores.
tosa::TensorId Lowering::interpolate(Id x, std::span<const int64_t> entries, std::string_view name) {
  Id table = b.table(x, b.constant(tosa::DType::I16, {513}, entries, std::string(name)));
  return rescale(table, 1.0 / 128, 0, 0, tosa::DType::I16);
}

// Its only reader is a table, whose entries beyond the codes of n's type are those of the last one. A clamp between
// them would be an operation: only one function is fused (U55-128: 2.2 kcycles for 12 elements).
bool Lowering::clamped_by_table(const Node& n) const {
  const std::vector<Use>& uses = graph_.value(n.outputs[0]).uses;
  if (uses.size() != 1 || uses[0].node == kNone || n.has(Key::ActMin) || n.has(Key::ActMax)) return false;
  const Node& reader = graph_.node(uses[0].node);
  if (reader.op != Op::Unary || out(n).dtype != DType::I16 || has_normal_form(reader.text(Key::Fn))) return false;
  const Quant& codes = *out(n).quant;
  return codes.qmin % 128 == 0 && codes.qmax % 128 == 0;  // both are samples
}

Result<tosa::TensorId> Lowering::unary(const Node& n) {
  const Type& from = in(n, 0);
  const Type& to = out(n);
  if (!from.quantized() || !to.quantized()) return cannot(n, "it is a function of an unquantized integer");
  if (from.dtype == DType::I8 && to.dtype == DType::I8) {
    CodeFunction function(n, from, to);
    if (!function.known()) return cannot(n, "its function is unknown");
    return b.table(operand(n.inputs[0]),
                   b.constant(tosa::DType::I8, {256}, function.table(-128, 1, 256), fmt::format("{}_table", n.name)));
  }
  if (from.dtype == DType::I32 && has_normal_form(n.text(Key::Fn))) return normal_unary(n);
  if (from.dtype != DType::I8 && from.dtype != DType::I16)
    return cannot(n, fmt::format("tables map 8 and 16 bits, not {}", name_of(from.dtype)));
  // 8 bits to more: the codes become every 128th of 16 bits, each a sample of the table, so nothing is interpolated.
  Id x = operand(n.inputs[0]);
  Type wide = from;
  if (from.dtype == DType::I8) {
    wide = quantized(DType::I16, from.shape, from.scale() / 128, 0);
    wide.quant->qmin = 128 * (from.quant->qmin - from.zero_point());
    wide.quant->qmax = 128 * (from.quant->qmax - from.zero_point());
    x = rescale(x, 128.0, from.zero_point(), 0, tosa::DType::I16);
  }
  // TOSA 1.0, TABLE: 513 samples, 128 codes apart; the result has 7 more fraction bits. The result's zero point waits
  // for the rescale.
  Type whole = to.dtype == DType::I32 ? quantized(DType::I16, to.shape, to.scale() * 65536, 0) : to;
  if (to.dtype == DType::I8) {
    whole = quantized(DType::I16, to.shape, to.scale() / 64, 0);
    whole.quant->qmin = 64 * (to.quant->qmin - to.zero_point());
    whole.quant->qmax = 64 * (to.quant->qmax - to.zero_point());
  }
  CodeFunction function(n, wide, whole);
  if (!function.known()) return cannot(n, "its function is unknown");
  std::vector<int64_t> entries = function.table(-32768, 128, 513);
  if (from.dtype == DType::I16 && has_normal_form(n.text(Key::Fn)) && function.bend(entries) > kStraight)
    return normal_unary(n);
  // Neighbours further apart than 16 bits are halved.
  bool steep = false;
  for (size_t i = 1; i < entries.size(); ++i) steep |= std::abs(entries[i] - entries[i - 1]) > 32767;
  if (steep)
    for (int64_t& entry : entries) entry /= 2;
  if (!steep && from.dtype == DType::I16 && from.quant->qmax <= 0) add_reciprocals(entries);
  Id result = b.table(x, b.constant(tosa::DType::I16, {513}, entries, fmt::format("{}_table", n.name)));
  double unit = steep ? 1.0 / 64 : 1.0 / 128;
  if (to.dtype == DType::I8) {  // by way of 16 bits: only a rescale by 2^-7 to 16 bits is one op with the table (U55: 4
                                // against 19 cycles)
    result = rescale(result, unit, 0, 0, tosa::DType::I16);
    unit = 1;
  }
  return rescale(result, unit * whole.scale() / to.scale(), 0, to.zero_point(),
                 tosa_dtype(to.dtype));  // the fused clamp is in the table
}

}  // namespace swoop
