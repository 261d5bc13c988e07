#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "ir/ir.h"
#include "support/hash.h"

namespace swoop {

namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// Doubles always look like doubles, so that 1 and 1.0 stay different attributes.
std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

struct AttrText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
  std::string operator()(const Ints& value) const { return fmt::format("[{}]", fmt::join(value, ",")); }
  std::string operator()(const Doubles& value) const {
    std::vector<std::string> items;
    for (double item : value) items.push_back(number(item));
    return fmt::format("d[{}]", fmt::join(items, ","));
  }
  std::string operator()(const Strings& value) const {
    std::vector<std::string> items;
    for (const std::string& item : value) items.push_back(quoted(item));
    return fmt::format("s[{}]", fmt::join(items, ","));
  }
};

constexpr size_t kShownElements = 32;  // of a constant that is printed number by number

template <typename T>
std::string element(Bytes data, size_t index) {
  return fmt::format("{}", load<T>(data.data() + index * sizeof(T)));
}

// One stored number. Empty for half precision, which has no text form.
std::string element(const Value& constant, size_t index) {
  switch (constant.type.dtype) {
    case DType::F32: return element<float>(constant.data, index);
    case DType::F64: return element<double>(constant.data, index);
    case DType::I4:
    case DType::I8: return element<int8_t>(constant.data, index);
    case DType::I16: return element<int16_t>(constant.data, index);
    case DType::I32: return element<int32_t>(constant.data, index);
    case DType::I48:
    case DType::I64: return element<int64_t>(constant.data, index);
    case DType::U8:
    case DType::Bool: return element<uint8_t>(constant.data, index);
    case DType::F16:
    case DType::BF16: return "";
  }
  return "";
}

// A constant as a person reads it: "= fill 3" when all numbers are the same, a list of a few, else a hash.
std::string shown(const Value& constant) {
  const size_t width = byte_size(constant.type.dtype), count = constant.data.size() / width;
  if (count == 0) return " = []";
  bool numbers = !element(constant, 0).empty();
  if (numbers && std::memcmp(constant.data.data(), constant.data.data() + width, (count - 1) * width) == 0)
    return " = fill " + element(constant, 0);
  if (!numbers || count > kShownElements) return fmt::format(" #{:016x}", hash_bytes(constant.data));
  std::vector<std::string> items;
  for (size_t i = 0; i < count; ++i) items.push_back(element(constant, i));
  return fmt::format(" = [{}]", fmt::join(items, ","));
}

class Printer {
 public:
  Printer(const Graph& graph, TextOptions options, int depth)
      : graph_(graph), options_(options), indent_(2 * depth, ' ') {}

  std::string run() {
    out_ += fmt::format("{}graph {} (", indent_, quoted(graph_.name));
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      ValueId input = graph_.inputs()[i];
      out_ +=
          fmt::format("{}{}: {}{}", i ? ", " : "", ref(input), to_text(graph_.type(input)), port(graph_.input_port(i)));
      if (options_.constant_data && !graph_.input_port(i).initial.empty())
        out_ += " = " + hex(graph_.input_port(i).initial);
    }
    out_ += ")";
    if (options_.locations && !(graph_.in_spec.empty() && graph_.out_spec.empty()))
      out_ += fmt::format(" spec {} {}", quoted(graph_.in_spec), quoted(graph_.out_spec));
    out_ += "\n";
    printed_.resize(graph_.value_slots());
    for (NodeId id : graph_.order()) {
      for (ValueId input : graph_.node(id).inputs) constant(input);
      node(graph_.node(id));
    }
    for (ValueId output : graph_.outputs()) constant(output);
    out_ += fmt::format("{}  return", indent_);
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      out_ += fmt::format("{} {}{}", i ? "," : "", ref(graph_.outputs()[i]), port(graph_.output_port(i)));
    out_ += "\n";
    return std::move(out_);
  }

 private:
  std::string ref(ValueId id) const {
    if (id == kNone) return "_";
    const std::string& name = graph_.value(id).name;
    for (char c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return "%" + quoted(name);
    return "%" + name;
  }

  static std::string port(const Port& port) {
    switch (port.role) {
      case Port::Role::User: return port.name.empty() ? "" : fmt::format(" as {}", quoted(port.name));
      case Port::Role::State: return fmt::format(" state {}", quoted(port.name));
      case Port::Role::Mutation: return fmt::format(" mutates {}", quoted(port.name));
    }
    return "";
  }

  static std::string hex(Bytes data) {
    std::string text = "x\"";
    for (std::byte b : data) text += fmt::format("{:02x}", static_cast<unsigned>(b));
    return text + "\"";
  }

  // Constants are printed once, before their first use.
  void constant(ValueId id) {
    if (id == kNone || printed_[id] || !graph_.value(id).constant) return;
    printed_[id] = true;
    const Value& value = graph_.value(id);
    out_ += fmt::format("{}  {} = const {}", indent_, ref(id), to_text(value.type));
    out_ += options_.constant_data ? " = " + hex(value.data) : shown(value);
    out_ += "\n";
  }

  void node(const Node& node) {
    out_ += indent_ + "  ";
    for (size_t i = 0; i < node.outputs.size(); ++i) out_ += (i ? ", " : "") + ref(node.outputs[i]);
    out_ += fmt::format("{}{}", node.outputs.empty() ? "" : " = ", name_of(node.op));
    for (size_t i = 0; i < node.inputs.size(); ++i) out_ += (i ? ", " : " ") + ref(node.inputs[i]);
    for (const auto& [key, value] : node.attrs)
      out_ += fmt::format(" {}={}", name_of(key), std::visit(AttrText{}, value));
    out_ += " :";
    for (size_t i = 0; i < node.outputs.size(); ++i) out_ += (i ? ", " : " ") + to_text(graph_.type(node.outputs[i]));
    if (options_.locations) {
      if (const Loc* loc = graph_.loc(node.loc))
        out_ += fmt::format(" @ {}:{} {} {} {}", quoted(loc->file), loc->line, quoted(loc->code),
                            quoted(loc->module_path), quoted(loc->module_type));
      out_ += fmt::format(" name {}", quoted(node.name));
    }
    for (const auto& body : node.bodies)
      out_ += fmt::format(" {{\n{}{}  }}", Printer(*body, options_, static_cast<int>(indent_.size() / 2) + 2).run(),
                          indent_);
    out_ += "\n";
  }

  const Graph& graph_;
  TextOptions options_;
  std::string indent_;
  std::string out_;
  std::vector<bool> printed_;
};

}  // namespace

std::string print(const Graph& graph, TextOptions options) { return Printer(graph, options, 0).run(); }

bool same(const Graph& a, const Graph& b) { return print(a, {true, true}) == print(b, {true, true}); }

}  // namespace swoop
