// What is supported, from the tables that decide it: PyTorch's operators (import), core operators and their ways to the
// NPU (target, legalize), the NPUs' limits (limits) and the rewrite rules.
#include "driver/ops_tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "driver/forecast.h"
#include "driver/pipeline.h"
#include "import/import.h"
#include "legalize/legalize.h"
#include "limits/limits.h"
#include "ops/ops.h"
#include "support/codes.h"

namespace swoop {

namespace {

std::string range_words(Range range) {
  bool low = std::isfinite(range.min), high = std::isfinite(range.max);
  if (low && high) return fmt::format("{:.6g} to {:.6g}", range.min, range.max);
  if (low) return fmt::format("at least {:.6g}", range.min);
  return high ? fmt::format("at most {:.6g}", range.max) : "all reals";
}

// How quantization finds the range of an operator's results.
std::string range_text(Op op) {
  switch (info(op).policy) {
    case Policy::SameAsInput: return "its operand's";
    case Policy::Joins: return "measured; its operands may take it";
    case Policy::OwnRange:
      if (op == Op::Unary) return "measured, within its function's";
      if (op == Op::Clamp) return "measured, within its bounds";
      return info(op).bounds == kAllReals ? "measured" : fmt::format("measured, {}", range_words(info(op).bounds));
    case Policy::ReadsCodes: return "none: reads codes";
    case Policy::KeepFloat: return op == Op::Quantize ? "given by its type" : "none";
  }
  return "";
}

// "0.1 %", with the bits of the operand where they matter. Nothing: exact up to rounding.
std::string off_text(ErrorBound off) {
  auto percent = [](double share) {
    return share == 0 ? std::string("rounding") : fmt::format("{:.3g} %", 100 * share);
  };
  if (off.of_8_bits == off.of_16_bits) return off.of_8_bits == 0 ? "" : percent(off.of_8_bits);
  return fmt::format("{} of 8 bits, {} of 16", percent(off.of_8_bits), percent(off.of_16_bits));
}

// "U55" of Ethos-U55.
std::string short_name(NpuFamily family) {
  return std::string(facts_of(family).name.substr(std::string_view("Ethos-").size()));
}

std::vector<NpuFamily> asked_families(const std::optional<NpuTarget>& target) {
  return target ? std::vector{target->family} : npu_families();
}

// A rule that has operators with an NPU form among its roots adapts a form; one that has none makes operators that have
// one.
bool is_rewritten(Op op, NpuFamily family) {
  std::span<const Rule> rules = expand_rules();
  return std::any_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return std::find(rule.roots.begin(), rule.roots.end(), op) != rule.roots.end() &&
           std::none_of(rule.roots.begin(), rule.roots.end(), [&](Op root) { return has_npu_form(root, family); });
  });
}

// Where an operator on quantized values goes: to the NPU as it is, to the NPU after a rewrite, or to a kernel of the
// host.
std::string way_of(Op op, NpuFamily family) {
  if (op == Op::Quantize || op == Op::Dequantize) return "border";
  if (has_npu_form(op, family)) return "NPU";
  return is_rewritten(op, family) ? "rewritten" : "host";
}

SupportTable core_table(const std::optional<NpuTarget>& target) {
  SupportTable table{
      "Core operators",
      "PyTorch's operators are mapped to these.\n\n"
      "- `NPU`: runs on the NPU, within the limits below.\n"
      "- `rewritten`: a rule below makes operators of it that run on the NPU.\n"
      "- `border`: converts between floats and codes, where the NPU and the host meet.\n"
      "- `host`: a kernel of the stock runtime.\n\n"
      "The range of a bilinear resize is measured.\n\n"
      "`off by`: what the integer form may add to the rounding of its result, as a share of the largest\n"
      "number that the result's type holds; nothing means rounding alone. Every build compares each layer with it\n"
      "([check.md](check.md)).",
      {"operator", "range of the result", "off by"},
      {}};
  std::vector<NpuFamily> families = asked_families(target);
  for (NpuFamily family : families) table.head.push_back(short_name(family));
  for (int i = 0; i < kOpCount; ++i) {
    auto op = static_cast<Op>(i);
    std::vector<std::string> row = {std::string(name_of(op)), range_text(op), off_text(declared_off(op))};
    for (NpuFamily family : families) row.push_back(way_of(op, family));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The same for all parameters, or the word that it is not.
std::string function_range(const UnaryFunction& function) {
  constexpr std::pair<double, double> kParameters[] = {{0.25, 4}, {-0.25, -4}, {3, 1}, {-3, -1}};
  Range first = function.range(kParameters[0].first, kParameters[0].second);
  for (auto [alpha, beta] : kParameters)
    if (function.range(alpha, beta) != first) return "by its parameters";
  return range_words(first);
}

std::string integers_give(const UnaryFunction& function) {
  if (!function.keeps_integers) return "floats";
  return function.keeps_integers(0.5) ? "integers" : "integers, if its parameter is one";
}

SupportTable function_table() {
  SupportTable table{
      "Functions of one value",
      "What `unary` computes: on the NPU a look-up table. A measured range is cut to the function's own.",
      {"function", "range of the result", "integers give"},
      {}};
  for (const UnaryFunction& function : unary_functions())
    table.rows.push_back({std::string(function.name), function_range(function), integers_give(function)});
  return table;
}

SupportTable constraint_table(const std::optional<NpuTarget>& target) {
  SupportTable table{"Limits",
                     "A node that exceeds a limit stays on the host. The summary then shows the label and the value.",
                     {"label", "NPUs", "operators", "limit", "advice"},
                     {}};
  for (const Constraint& constraint : constraints()) {
    const std::vector<NpuFamily>& families = constraint.families;
    if (target && std::find(families.begin(), families.end(), target->family) == families.end()) continue;
    std::vector<std::string> names(families.size());
    std::ranges::transform(families, names.begin(), short_name);
    std::string cores = families == npu_families() ? "all" : fmt::format("{}", fmt::join(names, ", "));
    table.rows.push_back({std::string(constraint.label), cores, std::string(constraint.ops), constraint.limit,
                          std::string(constraint.advice)});
  }
  return table;
}

SupportTable aten_table() {
  SupportTable table{"PyTorch operators",
                     "The known overloads. In-place (`add_`) and `_copy` forms are included.\n\n"
                     "- `core`: becomes core operators.\n"
                     "- `host`: stays one kernel of the stock runtime.\n\n"
                     "An operator that is not listed also stays on the host, if the runtime has a kernel for it.\n"
                     "[operators.md](operators.md) names what is refused of PyTorch's own database of operators.",
                     {"operator", "overloads", "becomes"},
                     {}};
  std::map<std::pair<std::string, bool>, std::vector<std::string>>
      overloads;  // by operator and whether it stays opaque
  for (const AtenOperator& op : aten_operators()) {
    size_t dot = op.name.rfind('.');
    overloads[{std::string(op.name.substr(0, dot)), op.opaque}].push_back(std::string(op.name.substr(dot + 1)));
  }
  for (auto& [key, names] : overloads) {
    std::sort(names.begin(), names.end());
    table.rows.push_back({key.first, fmt::format("{}", fmt::join(names, ", ")), key.second ? "host" : "core"});
  }
  return table;
}

SupportTable rule_table() {
  SupportTable table{
      "Rewrite rules",
      "Each rule is listed under the first step that runs it. A rule sees only nodes of its root operators.\n"
      "A step whose roots are absent is skipped. `off by` as above.",
      {"step", "rule", "roots", "off by"},
      {}};
  std::set<std::string_view> seen;
  for (const Step& step : pipeline_steps()) {
    for (const Rule& rule : step.rules) {
      if (!seen.insert(rule.name).second) continue;
      std::vector<std::string_view> roots;
      for (Op op : rule.roots) roots.push_back(name_of(op));
      std::string text =
          roots.size() > 12 ? fmt::format("{} operators", roots.size()) : fmt::format("{}", fmt::join(roots, ", "));
      table.rows.push_back({std::string(step.name), std::string(rule.name), std::move(text), off_text(rule.off)});
    }
  }
  return table;
}

SupportTable code_table() {
  SupportTable table{"Warnings and other reasons",
                     "What stands in brackets after a warning, or after a host operator that breaks no limit.",
                     {"code", "meaning", "advice"},
                     {}};
  for (const CodeInfo& info : codes())
    table.rows.push_back({std::string(info.code), std::string(info.meaning), std::string(info.advice)});
  return table;
}

}  // namespace

std::vector<SupportTable> support_tables(const std::optional<NpuTarget>& target) {
  return {core_table(target), function_table(), constraint_table(target), code_table(), aten_table(), rule_table()};
}

}  // namespace swoop
