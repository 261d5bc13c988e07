// Every integer form against the error that it declares (ErrorBound), over all that its operands can be: every code,
// rows of every deviation, the ends of the type; 8 and 16 bits; numbers from 1e-6 to 1e6; every family.
#include <algorithm>
#include <optional>

#include "driver/forecast.h"
#include "driver/numerics_for_tests.h"
#include "support/check.h"
#include "support/sanitized.h"

namespace swoop {
namespace {

struct Form {
  Op op;
  std::string_view operands;  // {0}: i8 or i16; {1}: the step of the first operand
  std::string_view node;
  std::string_view shape;  // of the result
};

const Form kRowForms[] = {
    {Op::Softmax, "%x : {0}[48,64] q({1}, 0)", "softmax %x axis=1", "48,64"},
    {Op::Softmax, "%x : {0}[4,768] q({1}, 0)", "softmax %x axis=1", "4,768"},
    {Op::LogSoftmax, "%x : {0}[48,64] q({1}, 0)", "log_softmax %x axis=1", "48,64"},
    {Op::LayerNorm, "%x : {0}[48,64] q({1}, 0)", "layer_norm %x, _, _ axis=1 eps={2}", "48,64"},
    {Op::LayerNorm, "%x : {0}[12,256] q({1}, 0)", "layer_norm %x, _, _ axis=1 eps={2}", "12,256"},
    {Op::RmsNorm, "%x : {0}[48,64] q({1}, 0)", "rms_norm %x, _ axis=1 eps={2}", "48,64"},
    {Op::GroupNorm, "%x : {0}[48,4,4,4] q({1}, 0)", "group_norm %x, _, _ groups=1 eps={2}", "48,4,4,4"},
    {Op::Var, "%x : {0}[48,64] q({1}, 0)", "var %x axes=[1] keepdim=true correction=1.0", "48,1"},
    {Op::Attention, "%q : {0}[1,48,64] q({1}, 0), %k : {0}[1,48,64] q({1}, 0), %v : {0}[1,48,64] q({1}, 0)",
     "attention %q, %k, %v scale={3} causal=false inner=d[-130.0, 130.0]", "1,48,64"},
};

const Form kQuotients[] = {
    {Op::Div, "%a : {0}[4096] q({1}, 0), %b : {0}[4096] q(0.003, 0)", "div %a, %b", "4096"},
    {Op::Div, "%a : {0}[4096] q({1}, 0), %b : i16[4096] q(0.003, 0)", "div %a, %b", "4096"},
};

// A row of 64: the ends of the type in several orders, one number that stands out, and then normal numbers with several
// means and deviations, down to two codes of 8 bits: what is less is mostly x's own rounding.
int64_t row_code(const Type& type, size_t input, int64_t i) {
  const int64_t row = i / 64, low = type.quant->qmin, high = type.quant->qmax;
  const auto top = static_cast<double>(high);
  std::mt19937 engine(static_cast<uint32_t>(i * 3 + static_cast<int64_t>(input)));
  double normal = std::normal_distribution<double>()(engine);
  switch (row) {
    case 0: return low;
    case 1: return high;
    case 2: return i % 2 ? low : high;
    case 3: return i % 64 == 7 ? high : 0;
    case 4: return i % 64 == 7 ? high : low;
    default: break;
  }
  const double deviation = top / 2 * std::pow(2.0, -static_cast<double>(row % 6));
  const double mean = row % 3 == 0 ? 0 : top / 3 * (row % 2 ? 1 : -1);
  return std::clamp(static_cast<int64_t>(std::nearbyint(mean + normal * deviation)), low, high);
}

// What the form gives in float, without the few largest of a thousand: calibration clips those too.
double largest_in_float(const std::string& text, const Codes& codes) {
  Result<Graph> graph = parse(text);
  CHECK(graph, "{}", graph.error().message);
  std::vector<Tensor> inputs;
  for (ValueId id : graph->inputs()) {
    const Type& type = graph->type(id);
    Tensor& tensor = inputs.emplace_back(make_tensor(DType::F32, type.shape));
    int64_t at = 0;
    for (float& x : tensor.as<float>())
      x = static_cast<float>(static_cast<double>(codes(type, inputs.size() - 1, at++)) * type.scale());
  }
  Result<std::vector<Tensor>> outputs = execute(*graph, inputs);
  CHECK(outputs, "{}", outputs.error().message);
  std::vector<double> sizes;
  for (float y : (*outputs)[0].as<float>())
    if (std::isfinite(y)) sizes.push_back(std::fabs(static_cast<double>(y)));
  std::sort(sizes.begin(), sizes.end());
  return sizes.empty() ? 0 : sizes[sizes.size() - 1 - sizes.size() / 500];
}

// How far off the form is, at most, with operands and results of these types. Null: no tables can follow it, and it
// goes to the host.
std::optional<double> off(const Form& form, std::string_view type, std::string_view result, double size,
                          const std::string& target, const Codes& typical, const Codes& codes) {
  const double top = type == "i8" ? 127 : 32767, step = size / top;
  std::string text = fmt::format(fmt::runtime(form.operands), type, step);
  text = "graph \"main\" (" + text +
         ")\n%y = " + fmt::format(fmt::runtime(form.node), type, step, 1e-5 * size * size, 2 / (size * size)) + " : ";
  const double largest = largest_in_float(fmt::format("{}f32[{}]\nreturn %y\n", text, form.shape), typical);
  if (!(largest > 1e-30 && largest < 1e30)) return 0.0;  // there is no type for that
  text += fmt::format("{}[{}] q({}, 0)\nreturn %y\n", result, form.shape, largest / (result == "i8" ? 127 : 32767));
  Result<LoweredGraph> made = lowered(text, target);
  if (!made && made.error().message.find("too steep") != std::string::npos) return std::nullopt;
  return run(text, target, 0, codes).off;
}

// The result's type is chosen for `typical` codes. Returns how often it went to the host.
int holds(const Form& form, const Codes& typical, const Codes& codes) {
  // The sanitizers look at the code, which is the same for all.
  const auto targets = SWOOP_SANITIZED ? std::vector{kU55} : std::vector{kU55, kU65, kU85};
  const auto sizes = SWOOP_SANITIZED ? std::vector{1.1} : std::vector{1.1e-6, 1.1e-3, 1.1, 1.1e3, 1.1e6};
  int refused = 0;
  for (std::string_view type : {"i8", "i16"})
    for (std::string_view result : {"i8", "i16"})
      for (const std::string& target : targets) {
        double most = 0;
        for (double size : sizes) {
          std::optional<double> share = off(form, type, result, size, target, typical, codes);
          most = std::max(most, share.value_or(0));
          refused += !share;
        }
        const ErrorBound declared = declared_off(form.op);
        EXPECT_LE(most, type == "i8" ? declared.of_8_bits : declared.of_16_bits)
            << form.node << " of " << type << " as " << result << " on " << target;
      }
  return refused;
}

TEST(Bounds, of_forms_of_rows) {
  for (const Form& form : kRowForms) EXPECT_EQ(holds(form, row_code, row_code), 0);
}

TEST(Bounds, of_quotients) {
  for (const Form& form : kQuotients) EXPECT_EQ(holds(form, any_size, any_size), 0);
}

// Whether it is defined there, and no jump is nearer than floats can tell.
bool is_smooth(const UnaryFunction& function, double x) {
  auto at = [&](double share) { return function.of(static_cast<float>(x * (1 + share)), 0.7f, 0.5f); };
  const float y = at(0), below = at(-1e-6), above = at(1e-6);
  return std::isfinite(y) && std::fabs(above - below) <= 1e-3f * std::max(1e-3f, std::fabs(y));
}

// All codes, 16 apart, and all that are near zero.
TEST(Bounds, of_functions) {
  int refused = 0;
  for (const UnaryFunction& function : unary_functions()) {
    const std::string node = fmt::format("unary %x fn=\"{}\" alpha=0.7 beta=0.5", function.name);
    const Form form = {Op::Unary, "%x : {0}[4096] q({1}, 0)", node, "4096"};
    auto grid = [&](int64_t apart) {
      return [&function, apart](const Type& type, size_t, int64_t i) {
        const int64_t code = type.dtype == DType::I8 ? i % 256 - 128 : apart * (i - 2048);
        return is_smooth(function, static_cast<double>(code) * type.scale()) ? code : type.quant->qmax;
      };
    };
    refused += holds(form, grid(16), grid(16)) + holds(form, grid(16), grid(1));
  }
  // Sines and remainders of a million, tangents over many poles, a logit between its ends, and x - tanh(x) of 0.001,
  // where floats are noise: under two in a hundred.
  EXPECT_LE(refused, 120);
}

}  // namespace
}  // namespace swoop
