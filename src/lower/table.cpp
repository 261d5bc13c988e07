#include <algorithm>
#include <cmath>
#include <optional>

#include "lower/lowering.h"

namespace swoop {

// The function of a unary node between its types, on codes.
class CodeFunction {
 public:
  static constexpr int kHalf = 256;      // samples on either side of a 16-bit table's middle
  static constexpr double kApart = 128;  // codes between them

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
      auto code = static_cast<double>(
          std::clamp(first + step * static_cast<int64_t>(i), from_.quant->qmin, from_.quant->qmax + (step > 1)));
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

  // How far the function is from the straight line between the samples of a 16-bit table that begins at code `from`, at
  // most, in steps of the result. A code of the table is `unit` codes.
  double bend(double from, double unit) const {
    constexpr int kBetween = 8;
    const double to = from + unit * kApart, left = at(from), right = at(to);
    double most = 0;
    for (int i = 1; i < kBetween; ++i) {
      const double share = static_cast<double>(i) / kBetween;
      float y = of(from + share * (to - from));
      if (!std::isnan(y))
        most = std::max(most, std::fabs(left + share * (right - left) - static_cast<double>(code_of(y))));
    }
    return most;
  }

  double bend() const {
    double most = 0;
    for (int i = -kHalf; i < kHalf; ++i) most = std::max(most, bend(kApart * i, 1.0));
    return most;
  }

  // Whether the table bends by more than it may. Next to where the type cuts the results off, they are less exact.
  bool steep(double from, double unit) const {
    auto cut = [&](double y) {
      return y <= static_cast<double>(to_.quant->qmin) || y >= static_cast<double>(to_.quant->qmax);
    };
    const double share = cut(at(from)) || cut(at(from + unit * kApart)) ? kTableOff : kTableOff / 4;
    return bend(from, unit) > share * static_cast<double>(std::max(-to_.quant->qmin, to_.quant->qmax));
  }

  bool steep() const {
    for (int i = -kHalf; i < kHalf; ++i)
      if (steep(kApart * i, 1.0)) return true;
    return false;
  }

  // The result for a code, which may be between two; zero where it is not defined.
  double at(double code) const {
    float y = of(code);
    return std::isnan(y) ? 0.0 : static_cast<double>(std::max<int64_t>(code_of(y), -32767));
  }

 private:
  float of(double code) const {
    code = std::clamp(code, static_cast<double>(from_.quant->qmin), static_cast<double>(from_.quant->qmax + 1));
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

namespace {

// Above this bend a function with a normal form takes that: half a step is what rounding costs anyway.
constexpr double kStraight = 2;

// What bends by more, as a share of the largest result, no table follows. What bends by less does so at few codes: next
// to where the type cuts the results off.
constexpr double kCoarse = 5e-3;

bool has_normal_form(std::string_view fn) {
  for (std::string_view known : {"reciprocal", "rsqrt", "sqrt", "log", "log2", "log10"})
    if (fn == known) return true;
  return false;
}

// The codes of x that a 16-bit table spreads its own over.
struct Window {
  double centre = 0;
  double unit = 1;  // codes of x per code of the table

  double sample(int i) const { return centre + unit * CodeFunction::kApart * i; }  // -kHalf .. kHalf
  double cut(double code) const { return std::clamp(code, centre - unit * 32768, centre + unit * 32767); }
};

struct WindowTable {
  Window window;
  std::vector<int64_t> entries;
};

// A function as a sum of tables. Where one over all codes bends too much between two samples, it is level, and a table
// over a sixteenth of its codes, which is level outside, adds what is missing; and so on inside that. A table over a
// window is zero in the middle between its ends.
class WindowTables {
 public:
  explicit WindowTables(const CodeFunction& function) : function_(function) {}

  // False: it is too steep, or in too many places.
  bool add(const Window& window, double middle = 0) {
    constexpr size_t kMost = 8;
    if (tables_.size() == kMost) return false;
    const std::vector<Window> inner = steep_inside(window);
    std::vector<int64_t> entries;
    for (int i = -kHalf; i <= kHalf; ++i) {
      double entry = function_.at(window.sample(i)) - middle;
      for (const Window& w : inner) entry -= function_.at(w.cut(window.sample(i))) - middle_of(w);
      const double before = entries.empty() ? entry : static_cast<double>(entries.back());
      if (std::fabs(entry) > 32767 || std::fabs(entry - before) > 32767) return false;
      entries.push_back(static_cast<int64_t>(entry));
    }
    tables_.push_back({window, std::move(entries)});
    return std::all_of(inner.begin(), inner.end(), [&](const Window& w) { return add(w, middle_of(w)); });
  }

  std::span<const WindowTable> tables() const { return tables_; }

 private:
  static constexpr int kHalf = CodeFunction::kHalf;

  double middle_of(const Window& w) const {
    return std::nearbyint((function_.at(w.cut(-INFINITY)) + function_.at(w.cut(INFINITY))) / 2);
  }

  std::vector<Window> steep_inside(const Window& outer) const {
    constexpr int kReach = 16;  // samples on either side of a window's centre
    std::vector<Window> windows;
    if (outer.unit * CodeFunction::kApart <= 1) return windows;  // every code is a sample
    for (int centre = -kHalf; centre <= kHalf; centre += 2 * kReach) {
      bool steep = false;
      for (int i = std::max(centre - kReach, -kHalf); i < std::min(centre + kReach, kHalf); ++i)
        steep |= function_.steep(outer.sample(i), outer.unit);
      if (steep) windows.push_back({outer.sample(centre), outer.unit * kReach / kHalf});
    }
    return windows;
  }

  const CodeFunction& function_;
  std::vector<WindowTable> tables_;
};

}  // namespace

// TABLE of 16 bits, rounded back to them: as one op on the cores.
tosa::TensorId Lowering::interpolate(Id x, std::span<const int64_t> entries, std::string_view name) {
  Id table = b.table(x, b.constant(tosa::DType::I16, {513}, entries, std::string(name)));
  return rescale(table, 1.0 / 128, 0, 0, tosa::DType::I16);
}

// A difference of 8-bit codes in 16 bits, 128 for each of theirs: every one is a sample of a table, whatever the
// function does in between.
bool Lowering::is_on_samples(ValueId x) const {
  const Node* sub = graph_.producer(x);
  if (!sub || sub->op != Op::Sub) return false;
  return std::all_of(sub->inputs.begin(), sub->inputs.end(), [&](ValueId operand) {
    const Type& type = graph_.type(operand);
    return type.dtype == DType::I8 && type.quantized() && type.scale() == 128 * graph_.type(x).scale();
  });
}

// x is i16; `unit`: a step of `function`'s results in steps of n's.
Result<tosa::TensorId> Lowering::unary_by_windows(const Node& n, const CodeFunction& function, Id x, double unit) {
  WindowTables windows(function);
  if (!windows.add({})) return cannot(n, "its function is too steep for tables of 16 bits");
  const Id wide = rescale(x, 1.0, 0, 0, tosa::DType::I32);
  std::optional<Id> sum;
  for (const WindowTable& table : windows.tables()) {
    Id inside = x;
    if (table.window.unit < 1) {
      const auto centre = static_cast<int64_t>(table.window.centre);
      inside = centre == 0 ? wide : b.sub(wide, number(centre, wide));
      inside = rescale(inside, 1 / table.window.unit, 0, 0, tosa::DType::I16);  // cuts what is outside
    }
    Id part = interpolate(inside, table.entries, fmt::format("{}_table", n.name));
    part = rescale(part, 1.0, 0, 0, tosa::DType::I32);
    sum = sum ? b.add(*sum, part) : part;
  }
  return narrow(*sum, unit, n);
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
  // Codes that x never has need not be followed: those of an absolute value below zero.
  const tosa::CodeRange codes = bounds_.of(x);
  wide.quant->qmin = std::clamp(static_cast<int64_t>(codes.low), wide.quant->qmin, wide.quant->qmax);
  wide.quant->qmax = std::clamp(static_cast<int64_t>(codes.high), wide.quant->qmin, wide.quant->qmax);
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
  if (from.dtype == DType::I16) {
    if (has_normal_form(n.text(Key::Fn)) && function.bend() > kStraight) return normal_unary(n);
    if (function.steep() && !is_on_samples(n.inputs[0])) {
      Result<Id> sum = unary_by_windows(n, function, x, whole.scale() / to.scale());
      const auto largest = static_cast<double>(std::max(-whole.quant->qmin, whole.quant->qmax));
      if (sum || function.bend() > kCoarse * largest) return sum;
    }
  }
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

double lowered_off(Op op, int bits) {
  if (op == Op::Div) return kNormalOff;
  if (op == Op::Unary && bits == 16) return kTableOff;
  return 0;
}

}  // namespace swoop
