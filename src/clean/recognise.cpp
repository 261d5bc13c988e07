// Functions and norms that a model spells out. Exports after decompositions write mish as x * tanh(log(1 + exp(x))),
// and many models write their norms by hand. In integers every step of such a chain would be rounded (exp alone spans
// many orders of magnitude) and cost a layer; as one operator it is one table, or a norm with an integer form of its
// own.
#include <algorithm>
#include <cmath>

#include "clean/clean.h"
#include "clean/truths.h"

namespace swoop {

namespace {

bool is_plain_f32(const Type& type) { return type.dtype == DType::F32 && !type.quantized(); }

// -- functions of one value: recognised by what they compute

constexpr size_t kMaxSteps = 16;  // nodes of a function; mish has 6 after decompositions

// The elementwise nodes that a node is computed from, operands first. The node itself is the last one.
void collect_steps(const Rewriter& rw, const Node& n, std::vector<const Node*>& steps) {
  if (steps.size() >= kMaxSteps) return;
  for (ValueId input : n.inputs) {
    const Node* producer = rw.graph().producer(input);
    if (!producer || !info(producer->op).traits.elementwise || rw.type(input).quantized()) continue;
    if (std::find(steps.begin(), steps.end(), producer) == steps.end()) collect_steps(rw, *producer, steps);
  }
  steps.push_back(&n);
}

// The number that all elements of a constant are
std::optional<double> one_number(const Rewriter& rw, ValueId id) {
  const Value& value = rw.value(id);
  int64_t count = element_count(value.type.shape);
  if (!value.constant || value.type.quantized() || count == 0 || count > 64) return std::nullopt;
  double first = real_at(value, 0);
  for (int64_t i = 1; i < count; ++i)
    if (real_at(value, i) != first) return std::nullopt;
  return first;
}

// Where functions are compared: at zero, densely around it, and far out
const std::vector<float>& sample_points() {
  static const std::vector<float> points = [] {
    std::vector<float> list = {0.0f};
    for (int i = -96; i <= 96; ++i) list.push_back(static_cast<float>(i) / 8 + 0.01f);
    for (int e = -8; e <= 6; ++e)
      for (float sign : {-1.0f, 1.0f}) list.push_back(sign * std::ldexp(1.0f, e));
    return list;
  }();
  return points;
}

Tensor filled_with(const std::vector<float>& values) {
  Tensor tensor = make_tensor(DType::F32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

// What the steps compute of x at the sample points; empty when a kernel refuses.
std::vector<float> computed_at_points(const Rewriter& rw, std::span<const Node* const> steps, ValueId x) {
  std::vector<std::pair<ValueId, Tensor>> known;
  known.emplace_back(x, filled_with(sample_points()));
  known.reserve(2 + 4 * steps.size());  // tensors are pointed to
  for (const Node* step : steps) {
    std::vector<const Tensor*> inputs;
    for (ValueId input : step->inputs) {
      auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == input; });
      if (found == known.end()) {
        Tensor equal = to_tensor(rw.value(input));  // of numbers: one stands for all
        Tensor number = make_tensor(equal.dtype, {});
        std::copy_n(equal.data.data(), number.data.size(), number.data.data());
        known.emplace_back(input, std::move(number));
        found = known.end() - 1;
      }
      inputs.push_back(&found->second);
    }
    DType dtype = rw.type(step->outputs[0]).dtype;
    std::vector<Tensor> results;
    results.push_back(make_tensor(is_integer(dtype)      ? DType::I64
                                  : dtype == DType::Bool ? dtype
                                                         : DType::F32,
                                  known.front().second.shape));
    if (!evaluate(*step, inputs, results)) return {};
    known.emplace_back(step->outputs[0], std::move(results[0]));
  }
  std::span<const float> result = std::as_const(known.back().second).as<float>();
  return {result.begin(), result.end()};
}

bool same_number(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-5f * std::max(1.0f, std::fabs(b));
}

// At zero a small number counts: sqrt(x) + 1e-8 is there so that nobody divides by nothing.
bool same_at(float point, float a, float b) { return same_number(a, b) && (point != 0 || (a == 0) == (b == 0)); }

// Most functions differ at the first points already.
template <typename Function>
bool computes(const std::vector<float>& numbers, Function of) {
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!same_at(sample_points()[i], numbers[i], of(sample_points()[i]))) return false;
  return true;
}

// The function of ops/unary.def that gives these numbers, with 1 or one of the constants as its parameter
std::optional<Attrs> function_of(const std::vector<float>& numbers, const std::vector<double>& constants) {
  constexpr float kThreshold = 20;  // softplus is linear from there on in PyTorch
  if (computes(numbers, [](float x) { return x; })) return std::nullopt;
  // One number everywhere: what it does beyond the points is not seen.
  if (computes(numbers, [&](float) { return numbers[0]; })) return std::nullopt;
  for (const UnaryFunction& function : unary_functions())
    for (double constant : constants) {
      auto alpha = static_cast<float>(constant);
      auto with = [&](float parameter) {
        return [&, parameter](float x) { return function.of(x, parameter, kThreshold); };
      };
      if (!computes(numbers, with(alpha))) continue;
      Attrs attrs{{Key::Fn, std::string(function.name)}};
      if (computes(numbers, with(alpha + 1))) return attrs;  // it has no parameter
      attrs.set(Key::Alpha, constant);
      attrs.set(Key::Beta, double{kThreshold});
      return attrs;
    }
  return std::nullopt;
}

// elementwise steps that compute a known function of one value  ->  that function
bool recognise_function(Rewriter& rw, const Node& n) {
  const Type type = rw.type(n.outputs[0]);
  if (!is_plain_f32(type)) return false;
  std::vector<const Node*> steps;
  collect_steps(rw, n, steps);
  if (steps.size() < 2) return false;
  // From the node upwards: whenever all that is taken in is one value, the steps so far are a function of it.
  std::vector<ValueId> open;
  std::vector<double> constants = {1};
  for (size_t first = steps.size(); first-- > 0;) {
    const Node& step = *steps[first];
    if (&step != &n && std::erase(open, step.outputs[0]) == 0) continue;
    for (ValueId input : step.inputs) {
      if (std::optional<double> number = one_number(rw, input)) {
        constants.push_back(*number);
        if (*number != 0) constants.push_back(1 / *number);
      } else if (std::find(open.begin(), open.end(), input) == open.end()) {
        open.push_back(input);
      }
    }
    bool enough = first + 1 < steps.size() && open.size() == 1;
    if (!enough || !is_plain_f32(rw.type(open[0])) || rw.type(open[0]).shape != type.shape) continue;
    std::vector<const Node*> used(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end());
    std::erase_if(used, [&](const Node* one) { return one->outputs[0] == open[0]; });
    std::vector<float> numbers = computed_at_points(rw, used, open[0]);
    if (numbers.empty()) continue;
    bool relu = computes(numbers, [](float at) { return std::max(at, 0.0f); });
    std::optional<Attrs> function = relu ? std::nullopt : function_of(numbers, constants);
    if (!relu && !function) continue;
    rw.replace(n, relu ? rw.make(Op::Clamp, {open[0]}, {{Key::Min, 0.0}}) : rw.make(Op::Unary, {open[0]}, *function));
    return true;
  }
  return false;
}

// -- norms

// x * x, in any spelling: x
std::optional<ValueId> squared(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  if (!n) return std::nullopt;
  if (n->op == Op::Mul && n->inputs[0] == n->inputs[1]) return n->inputs[0];
  if (n->op != Op::Unary) return std::nullopt;
  bool square = n->text(Key::Fn) == "square" || (n->text(Key::Fn) == "pow" && n->real(Key::Alpha) == 2);
  return square ? std::optional(n->inputs[0]) : std::nullopt;
}

// The first of the axes, when they are the last ones and stay as ones; -1 otherwise
int64_t first_of_last(const Rewriter& rw, const Node& n) {
  const Ints& axes = n.ints(Key::Axes);
  int64_t rank = rw.type(n.inputs[0]).rank();
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return -1;
  return n.flag(Key::Keepdim) && !axes.empty() ? axes[0] : -1;
}

// centred - mean: what of
const Node* centred_of(const Rewriter& rw, ValueId id, int64_t axis) {
  const Node* sub = rw.graph().producer(id);
  if (!sub || sub->op != Op::Sub) return nullptr;
  const Node* mean = rw.producer(*sub, 1, Op::Mean);
  return mean && mean->inputs[0] == sub->inputs[0] && first_of_last(rw, *mean) == axis ? sub : nullptr;
}

// What stands under the root: the spread of something along the last axes, and eps
struct Spread {
  const Node* of;  // mean of squares, or variance
  double eps;
};

std::optional<Spread> spread_under_root(const Rewriter& rw, ValueId id) {
  const Node* add = rw.graph().producer(id);
  if (!add || add->op != Op::Add) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* of = rw.graph().producer(add->inputs[1 - i]);
    std::optional<double> eps = one_number(rw, add->inputs[i]);
    if (of && eps && *eps > 0 && (of->op == Op::Mean || of->op == Op::Var)) return Spread{of, *eps};
  }
  return std::nullopt;
}

// The operand of a root that is divided by: rsqrt(x), 1 / sqrt(x)
std::optional<ValueId> under_inverse_root(const Rewriter& rw, ValueId id) {
  const Node* n = rw.graph().producer(id);
  if (!n || n->op != Op::Unary) return std::nullopt;
  if (n->text(Key::Fn) == "rsqrt") return n->inputs[0];
  const Node* root = n->text(Key::Fn) == "reciprocal" ? rw.producer(*n, 0, Op::Unary) : nullptr;
  return root && root->text(Key::Fn) == "sqrt" ? std::optional(root->inputs[0]) : std::nullopt;
}

// x * rsqrt(mean(x^2) + eps)  ->  rms_norm(x);  with x = y - mean(y), or its variance  ->  layer_norm(y)
bool recognise_norm(Rewriter& rw, const Node& n) {
  if (!is_plain_f32(rw.type(n.outputs[0])) || n.has(Key::ActMin) || n.has(Key::ActMax) || n.has(Key::Mode))
    return false;
  for (size_t i = 0; i < (n.op == Op::Mul ? 2u : 1u); ++i) {
    ValueId x = n.inputs[i], factor = n.inputs[1 - i];
    std::optional<ValueId> root = under_inverse_root(rw, factor);
    if (n.op == Op::Div) {
      const Node* sqrt = rw.producer(n, 1, Op::Unary);
      root = sqrt && sqrt->text(Key::Fn) == "sqrt" ? std::optional(sqrt->inputs[0]) : std::nullopt;
    }
    std::optional<Spread> spread = root ? spread_under_root(rw, *root) : std::nullopt;
    int64_t axis = spread ? first_of_last(rw, *spread->of) : -1;
    if (axis < 0) continue;
    const Node* centred = centred_of(rw, x, axis);
    bool variance = spread->of->op == Op::Var;
    Attrs attrs{{Key::Axis, axis}, {Key::Eps, spread->eps}};
    if (variance) {
      if (!centred || centred->inputs[0] != spread->of->inputs[0] || spread->of->real(Key::Correction) != 0) continue;
    } else if (squared(rw, spread->of->inputs[0]) != x) {
      continue;
    }
    ValueId norm = centred ? rw.make(Op::LayerNorm, {centred->inputs[0], kNone, kNone}, attrs)
                           : rw.make(Op::RmsNorm, {x, kNone}, attrs);
    rw.replace(n, norm);
    return true;
  }
  return false;
}

// The constant as the parameter of a norm along the last axes of `shape`; nullopt when it has other dims.
std::optional<ValueId> norm_parameter(Rewriter& rw, ValueId id, const Shape& shape, int64_t axis) {
  const Value& value = rw.value(id);
  if (!value.constant || !is_plain_f32(value.type)) return std::nullopt;
  Shape wanted(shape.begin() + axis, shape.end()), has = value.type.shape;
  while (has.size() > wanted.size() && has[0] == 1) has.erase(has.begin());
  if (has != wanted) return std::nullopt;
  Tensor tensor = to_tensor(value);
  return float_constant(rw, wanted, tensor.as<float>(), value.name);
}

// norm(x) * w  ->  norm(x, w);  layer_norm(x) + b  ->  layer_norm(x, w, b)
bool give_norm_parameter(Rewriter& rw, const Node& n) {
  if (!is_plain_f32(rw.type(n.outputs[0])) || n.has(Key::ActMin) || n.has(Key::ActMax)) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Node* norm = rw.graph().producer(n.inputs[i]);
    if (!norm || (norm->op != Op::LayerNorm && norm->op != Op::RmsNorm) || !rw.used_once(n.inputs[i])) continue;
    std::vector<ValueId> inputs = norm->inputs;
    size_t place = n.op == Op::Mul ? 1 : 2;
    inputs.resize(norm->op == Op::RmsNorm ? 2 : 3, kNone);
    bool taken = place >= inputs.size() || inputs[place] != kNone || inputs.back() != kNone;
    if (taken || rw.type(n.inputs[i]) != rw.type(n.outputs[0])) continue;
    std::optional<ValueId> parameter =
        norm_parameter(rw, n.inputs[1 - i], rw.type(n.outputs[0]).shape, norm->integer(Key::Axis));
    if (!parameter) continue;
    inputs[place] = *parameter;
    rw.replace(n, rw.make(norm->op, std::move(inputs), norm->attrs));
    return true;
  }
  return false;
}

// -- what codes cannot hold

// x compared with itself or with an infinity  ->  what holds for every number: values that become codes are finite
bool compare_known(Rewriter& rw, const Node& n) {
  if (!is_float(rw.type(n.inputs[0]).dtype) || !is_float(rw.type(n.inputs[1]).dtype)) return false;
  std::optional<double> a = one_number(rw, n.inputs[0]), b = one_number(rw, n.inputs[1]);
  int order = 0;  // of the first operand to the second
  if (b && std::isinf(*b))
    order = *b > 0 ? -1 : 1;
  else if (a && std::isinf(*a))
    order = *a > 0 ? 1 : -1;
  else if (n.inputs[0] != n.inputs[1])
    return false;
  if (order != 0 && lowest_in(rw, n.inputs[b && std::isinf(*b) ? 0 : 1]).kind != Truth::Kind::Never) return false;
  const std::string& fn = n.text(Key::Fn);
  bool holds = order == 0  ? fn == "eq" || fn == "le" || fn == "ge"
               : order < 0 ? fn == "lt" || fn == "le" || fn == "ne"
                           : fn == "gt" || fn == "ge" || fn == "ne";
  Type type{DType::Bool, rw.type(n.outputs[0]).shape, {}};
  Buffer data(static_cast<size_t>(element_count(type.shape)), std::byte{holds});
  rw.replace(n, rw.constant(std::move(type), std::move(data), n.name));
  return true;
}

// where(all true, a, b)  ->  a
bool take_known_choice(Rewriter& rw, const Node& n) {
  std::optional<double> choice;
  const Value& condition = rw.value(n.inputs[0]);
  if (condition.constant && !condition.data.empty()) {
    auto first = condition.data.front();
    if (std::all_of(condition.data.begin(), condition.data.end(), [&](std::byte b) { return b == first; }))
      choice = first != std::byte{0};
  }
  if (!choice) return false;
  ValueId taken = n.inputs[*choice != 0 ? 1 : 2];
  if (rw.type(taken) != rw.type(n.outputs[0])) return false;
  rw.replace(n, taken);
  return true;
}

}  // namespace

std::span<const Rule> recognise_rules() {
  static const Rule kRules[] = {
      {"recognise-norm", {Op::Mul, Op::Div}, recognise_norm},
      {"give-norm-parameter", {Op::Mul, Op::Add}, give_norm_parameter},
      {"recognise-function", ops_where([](const OpInfo& op) { return op.traits.elementwise; }), recognise_function},
      {"compare-known", {Op::Compare}, compare_known},
      {"take-known-choice", {Op::Where}, take_known_choice},
  };
  return kRules;
}

}  // namespace swoop
