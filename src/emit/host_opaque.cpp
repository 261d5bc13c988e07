#include <algorithm>
#include <charconv>
#include <cmath>

#include "emit/host.h"
#include "emit/kernel_table.h"

namespace swoop::emit {

namespace {

// Overloads whose out variant is not called after them.
struct Renamed {
  std::string_view name, overload, out_overload;
};
constexpr Renamed kRenamed[] = {
    {"aten::topk", "", "values"},   {"aten::max", "dim", "dim_max"},          {"aten::min", "dim", "dim_min"},
    {"aten::max", "", "unary_out"}, {"aten::min", "", "unary_out"},           {"aten::any", "", "all_out"},
    {"aten::any", "dim", "out"},    {"aten::div", "Tensor_mode", "out_mode"},
};

// Splits "[a,b,\"c,d\"]" or "a" into its elements; quotes protect commas.
std::vector<std::string_view> elements(std::string_view token) {
  std::vector<std::string_view> list;
  if (!token.starts_with('[')) return {token};
  token = token.substr(1, token.size() - 2);
  size_t start = 0;
  bool quoted = false;
  for (size_t i = 0; i <= token.size(); ++i) {
    if (i < token.size() && token[i] == '"' && (i == 0 || token[i - 1] != '\\')) quoted = !quoted;
    if (i < token.size() && (token[i] != ',' || quoted)) continue;
    if (i > start) list.push_back(token.substr(start, i - start));
    start = i + 1;
  }
  return list;
}

bool to_integer(std::string_view token, int64_t& value) {
  auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), value);
  return failure == std::errc() && end == token.data() + token.size();
}

bool to_real(std::string_view token, double& value) {
  auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), value);
  return failure == std::errc() && end == token.data() + token.size();
}

std::string unquoted(std::string_view token) {
  std::string text;
  if (token.size() < 2 || (token[0] != '"' && token[0] != '\'')) return std::string(token);
  for (size_t i = 1; i + 1 < token.size(); ++i) {
    if (token[i] == '\\' && i + 2 < token.size()) ++i;
    text += token[i];
  }
  return text;
}

class Arguments {
 public:
  Arguments(PlanBuilder& b, const std::vector<int>& in) : b_(b), in_(in) {}

  // The value of a token for an argument of this kind; nullopt when it cannot be one.
  std::optional<int> value(char kind, std::string_view token) {
    if (token == "none") return b_.null();
    switch (kind) {
      case 't': return tensor(token);
      case 'T':
      case 'O': return tensor_list(kind, token);
      case 'i': return integer(token);
      case 'I': return integer_list(token);
      case 'f': return real(token);
      case 'F': return real_list(token);
      case 'b': return flag(token);
      case 'B': return flag_list(token);
      case 's': return b_.text(unquoted(token));
      case 'S': return scalar(token);
      case 'd': return element_type(token);
      case 'm': return memory_format(token);
      default: return std::nullopt;
    }
  }

 private:
  std::optional<int> tensor(std::string_view token) {
    int64_t index = 0;
    if (!token.starts_with('%') || !to_integer(token.substr(1), index)) return std::nullopt;
    if (index < 0 || static_cast<size_t>(index) >= in_.size()) return std::nullopt;
    return b_.or_null(in_[static_cast<size_t>(index)]);
  }
  std::optional<int> tensor_list(char kind, std::string_view token) {
    std::vector<int> items;
    for (std::string_view element : elements(token)) {
      int64_t index = 0;
      bool absent = element == "none";
      if (absent && kind == 'T') return std::nullopt;
      if (!absent && (!element.starts_with('%') || !to_integer(element.substr(1), index))) return std::nullopt;
      if (!absent && (index < 0 || static_cast<size_t>(index) >= in_.size())) return std::nullopt;
      items.push_back(absent ? kAbsent : in_[static_cast<size_t>(index)]);
    }
    return kind == 'T' ? b_.tensors(items) : b_.optional_tensors(items);
  }
  std::optional<int> integer(std::string_view token) {
    int64_t value = 0;
    if (token == "true" || token == "false") return b_.integer(token == "true");
    if (!to_integer(token, value)) return std::nullopt;
    return b_.integer(value);
  }
  std::optional<int> integer_list(std::string_view token) {
    Ints values;
    for (std::string_view element : elements(token)) {
      int64_t value = 0;
      if (!to_integer(element, value)) return std::nullopt;
      values.push_back(value);
    }
    return b_.integers(values);
  }
  std::optional<int> real(std::string_view token) {
    double value = 0;
    if (!to_real(token, value)) return std::nullopt;
    return b_.real(value);
  }
  std::optional<int> real_list(std::string_view token) {
    Doubles values;
    for (std::string_view element : elements(token)) {
      double value = 0;
      if (!to_real(element, value)) return std::nullopt;
      values.push_back(value);
    }
    return b_.reals(values);
  }
  std::optional<int> flag(std::string_view token) {
    if (token != "true" && token != "false") return std::nullopt;
    return b_.boolean(token == "true");
  }
  std::optional<int> flag_list(std::string_view token) {
    std::vector<bool> values;
    for (std::string_view element : elements(token)) values.push_back(element == "true");
    return b_.booleans(values);
  }
  std::optional<int> scalar(std::string_view token) {
    int64_t value = 0;
    if (token == "true" || token == "false") return b_.boolean(token == "true");
    if (to_integer(token, value)) return b_.integer(value);
    return real(token);
  }
  std::optional<int> element_type(std::string_view token) {
    if (!token.starts_with("dtype:")) return std::nullopt;
    auto dtype = dtype_from(token.substr(6));
    if (!dtype || scalar_type(*dtype) < 0) return std::nullopt;
    return b_.integer(scalar_type(*dtype));
  }
  // torch.export's numbers: 1 contiguous, 4 preserve; every tensor here is contiguous, so both say nothing.
  std::optional<int> memory_format(std::string_view token) {
    if (token == "memory_format:1" || token == "memory_format:4") return b_.null();
    return std::nullopt;
  }

  PlanBuilder& b_;
  const std::vector<int>& in_;
};

using Tokens = std::vector<std::pair<std::string_view, std::string_view>>;  // name, value

// The kernel must know every argument that the node gives a value to; what only says where or how to allocate does not
// count.
bool accepts(const Kernel& kernel, const Tokens& tokens) {
  std::vector<KernelArgument> arguments = kernel.argument_list();
  for (const auto& [name, value] : tokens) {
    bool known =
        std::any_of(arguments.begin(), arguments.end(), [n = name](const KernelArgument& a) { return a.name == n; });
    bool idle = value == "none" || value.starts_with("layout:") || value.starts_with("device:") ||
                name == "pin_memory" || name == "dtype";
    if (!known && !idle) return false;
  }
  return true;
}

const Kernel* kernel_for(std::string_view target, std::string_view overload, const Tokens& tokens) {
  std::vector<std::string> overloads;
  for (const Renamed& renamed : kRenamed)
    if (renamed.name == target && renamed.overload == overload) overloads.emplace_back(renamed.out_overload);
  if (!overload.empty()) overloads.push_back(std::string(overload) + "_out");
  overloads.emplace_back("out");
  for (const char* suffix : {"", "_copy"}) {  // views become copies: every tensor has memory of its own
    for (const std::string& candidate : overloads) {
      const Kernel* kernel = find_kernel(std::string(target) + suffix, candidate);
      if (kernel && accepts(*kernel, tokens)) return kernel;
    }
  }
  return nullptr;
}

}  // namespace

Result<void> emit_opaque(PlanBuilder& b, const Graph& graph, const Node& node, const std::vector<int>& in,
                         const std::vector<int>& out) {
  const std::string& target = node.text(Key::Target);
  std::string_view overload = node.text(Key::Overload, "");
  const Attr* attr = node.attrs.find(Key::Args);
  const auto* spelled = attr ? std::get_if<Strings>(attr) : nullptr;
  Tokens tokens;
  if (spelled) {
    for (const std::string& token : *spelled) {
      size_t equals = token.find('=');
      if (equals != std::string::npos)
        tokens.emplace_back(std::string_view(token).substr(0, equals), std::string_view(token).substr(equals + 1));
    }
  }
  const Kernel* kernel = kernel_for(target, overload, tokens);
  if (!kernel) {
    std::string full = overload.empty() ? target : fmt::format("{}.{}", target, overload);
    return no_kernel(graph, node,
                     fmt::format("the stock runtime has no kernel for {}; write it with other operators", full));
  }
  Arguments arguments(b, in);
  std::vector<int> args;
  for (const KernelArgument& argument : kernel->argument_list()) {
    std::string_view token = argument.fallback;
    for (const auto& [name, value] : tokens)
      if (name == argument.name) token = value;
    std::optional<int> value = token.empty() ? std::nullopt : arguments.value(argument.kind, token);
    if (!value) {
      return no_kernel(graph, node,
                       fmt::format("its argument {} ({}) is not one that the kernel {}.{} takes", argument.name,
                                   token.empty() ? "missing" : token, kernel->name, kernel->overload));
    }
    args.push_back(*value);
  }
  if (!kernel->list_result() && kernel->result_count() != out.size())
    return no_kernel(graph, node,
                     fmt::format("the kernel {}.{} has {} results and the node {}", kernel->name, kernel->overload,
                                 kernel->result_count(), out.size()));
  std::string name = fmt::format("{}.{}", kernel->name, kernel->overload);
  if (kernel->list_result())
    b.kernel(name, std::move(args), {b.tensors(out)});
  else
    b.kernel(name, std::move(args), out);
  return {};
}

}  // namespace swoop::emit
