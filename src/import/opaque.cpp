// Operators that no core operator expresses: kept whole, arguments as tokens (import.h gives their grammar), to run on
// the host.
#include <cmath>

#include "import/importer.h"

namespace swoop {

namespace {

std::string real_token(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string quoted_token(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

template <typename List, typename Convert>
std::string list_token(const List& list, Convert convert) {
  std::string text = "[";
  for (const auto& one : list) text += fmt::format("{}{}", text.size() > 1 ? "," : "", convert(one));
  return text + "]";
}

struct Tokenizer {
  Call& call;
  std::vector<ValueId>& inputs;

  std::string operator()(const TensorArg& arg) {
    if (!arg.binding || arg.binding->absent) return "none";
    if (arg.binding->counted) malformed("one of its numbers depends on the data; compute with tensors instead");
    inputs.push_back(call.scope.read(*arg.binding, call));
    return fmt::format("%{}", inputs.size() - 1);
  }
  std::string operator()(const std::vector<TensorArg>& list) {
    return list_token(list, [this](const TensorArg& arg) { return (*this)(arg); });
  }
  std::string operator()(std::monostate) { return "none"; }
  std::string operator()(bool value) { return value ? "true" : "false"; }
  std::string operator()(int64_t value) { return fmt::format("{}", value); }
  std::string operator()(double value) { return real_token(value); }
  std::string operator()(const std::string& value) { return quoted_token(value); }
  std::string operator()(DType value) { return fmt::format("dtype:{}", name_of(value)); }
  std::string operator()(const Ints& list) {
    return list_token(list, [](int64_t value) { return fmt::format("{}", value); });
  }
  std::string operator()(const Doubles& list) { return list_token(list, real_token); }
  std::string operator()(const std::vector<bool>& list) {
    return list_token(list, [](bool value) { return value ? "true" : "false"; });
  }
  std::string operator()(const Strings& list) { return list_token(list, quoted_token); }
  std::string operator()(const OtherArg& other) { return other.token; }
  std::string operator()(const ComplexArg& value) {
    return fmt::format("complex:{},{}", real_token(value.real), real_token(value.imag));
  }
};

}  // namespace

std::vector<ValueId> GraphImporter::make_opaque(Call& call, std::string_view target) {
  std::vector<ValueId> inputs;
  Strings tokens;
  Tokenizer tokenizer{call, inputs};
  for (size_t i = 0; i < call.args.size(); ++i)
    tokens.push_back(fmt::format("{}={}", call.names[i], std::visit(tokenizer, call.args[i])));
  size_t first = target.find('.');
  size_t last = target.rfind('.');
  if (first == std::string_view::npos || last == first) malformed("`{}` is not the name of an operator", target);
  std::string_view op = target.substr(first + 1, last - first - 1);
  std::string_view overload = target.substr(last + 1);
  if (op.ends_with('_') && target.starts_with("aten."))
    op.remove_suffix(1);  // the functional kernel does the same and writes elsewhere
  Attrs attrs = {{Key::Target, fmt::format("{}::{}", target.substr(0, first), op)},
                 {Key::Overload, std::string(overload == "default" ? std::string_view() : overload)},
                 {Key::Args, std::move(tokens)}};
  std::vector<Type> types = call.results;
  return graph_.add_node(Op::Opaque, std::move(inputs), std::move(types), std::move(attrs), call.loc, call.name)
      .outputs;
}

}  // namespace swoop
