#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/ir.h"

namespace swoop {

namespace {

constexpr int kMaxBodyDepth = 64;
constexpr int64_t kMaxElements = int64_t{1} << 32;

// A recursive-descent reader. The first fault is kept with its line; after it every reader returns at once.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Graph> run() {
    Graph graph = parse_graph(0);
    skip_space();
    if (ok() && at_ != text_.size()) fail("text after the end of the graph");
    if (!ok()) return error("line {}: {}", line_of_fault_, fault_);
    return graph;
  }

 private:
  bool ok() const { return fault_.empty(); }

  void fail(std::string message) {
    if (!ok()) return;
    fault_ = std::move(message);
    line_of_fault_ = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line_of_fault_ += text_[i] == '\n';
  }

  void skip_space() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == ';') {  // a comment runs to the end of the line
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (!ok() || peek() != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (ok() && !accept(c)) fail(fmt::format("expected '{}'", c));
  }

  static bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

  std::string_view peek_word() {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && word_char(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  std::string_view word() {
    std::string_view found = peek_word();
    if (found.empty()) fail("expected a word");
    at_ += found.size();
    return found;
  }

  bool accept_word(std::string_view expected) {
    if (!ok() || peek_word() != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::string string() {
    std::string result;
    expect('"');
    while (ok()) {
      if (at_ >= text_.size()) {
        fail("a string does not end");
        break;
      }
      char c = text_[at_++];
      if (c == '"') break;
      if (c != '\\') {
        result += c;
        continue;
      }
      char escape = at_ < text_.size() ? text_[at_++] : '\0';
      if (escape == 'n') {
        result += '\n';
      } else if (escape == 'x') {
        result += static_cast<char>(hex_byte());
      } else {
        result += escape;
      }
    }
    return result;
  }

  unsigned hex_byte() {
    std::string_view digits = text_.substr(at_, 2);
    unsigned value = 0;
    if (digits.size() != 2 || std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr != digits.data() + 2)
      fail("bad hexadecimal byte");
    at_ += digits.size();
    return value;
  }

  std::string_view number_text() {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && (word_char(text_[end]) || text_[end] == '-' || text_[end] == '+')) {
      if (text_.substr(end, 2) == "..") break;
      ++end;
    }
    std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  int64_t integer() {
    std::string_view digits = number_text();
    int64_t value = 0;
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || digits.empty())
      fail(fmt::format("'{}' is not an integer", digits));
    return value;
  }

  double real() {
    std::string_view digits = number_text();
    double value = 0;
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || digits.empty())
      fail(fmt::format("'{}' is not a number", digits));
    return value;
  }

  template <typename T, typename Item>
  std::vector<T> list(Item item) {
    std::vector<T> items;
    expect('[');
    if (accept(']')) return items;
    do items.push_back(item());
    while (ok() && accept(','));
    expect(']');
    return items;
  }
  Ints int_list() {
    return list<int64_t>([this] { return integer(); });
  }
  Doubles real_list() {
    return list<double>([this] { return real(); });
  }

  Type type() {
    Type result;
    std::string_view name = word();
    std::optional<DType> dtype = dtype_from(name);
    if (!dtype) fail(fmt::format("'{}' is not an element type", name));
    result.dtype = dtype.value_or(DType::F32);
    result.shape = int_list();
    int64_t elements = 1;
    for (int64_t size : result.shape) {
      if (size < 0 || (size > 0 && elements > kMaxElements / size)) fail("a shape is negative or too large");
      if (!ok()) return result;
      elements *= size;
    }
    if (!accept_word("q")) return result;
    Quant quant{{}, {}, -1, dtype_min(result.dtype), dtype_max(result.dtype)};
    expect('(');
    if (accept_word("axis")) {
      expect('=');
      quant.axis = static_cast<int>(integer());
      expect(',');
      quant.scale = real_list();
      expect(',');
      quant.zero_point = int_list();
    } else {
      quant.scale = {real()};
      expect(',');
      quant.zero_point = {integer()};
    }
    if (accept(',')) {
      quant.qmin = integer();
      expect('.');
      expect('.');
      quant.qmax = integer();
    }
    expect(')');
    result.quant = std::move(quant);
    return result;
  }

  Buffer hex_data() {
    Buffer data;
    if (accept_word("x")) {
      expect('"');
      while (ok() && at_ < text_.size() && text_[at_] != '"') data.push_back(static_cast<std::byte>(hex_byte()));
      expect('"');
    }
    return data;
  }

  // One stored number of an element type, for constants that are written by hand and short ones that print() shows.
  void append_number(Buffer& data, DType dtype) {
    if (dtype == DType::F32) return append(data, static_cast<float>(real()));
    if (dtype == DType::F64) return append(data, real());
    if (!is_integer(dtype) && dtype != DType::Bool) return fail("numbers of half precision are given as bytes");
    int64_t value = integer();
    bool fits =
        dtype == DType::Bool ? value == 0 || value == 1 : value >= dtype_min(dtype) && value <= dtype_max(dtype);
    if (!fits) return fail(fmt::format("{} does not fit {}", value, name_of(dtype)));
    append(data,
           std::as_bytes(std::span(&value, 1)).first(byte_size(dtype)));  // little endian: the low bytes come first
  }

  // "fill N" gives every element the same stored number.
  Buffer fill_data(const Type& type_of_constant) {
    Buffer number, data;
    append_number(number, type_of_constant.dtype);
    for (int64_t i = 0, n = element_count(type_of_constant.shape); ok() && i < n; ++i) append(data, Bytes(number));
    return data;
  }

  // "[1,2,3]" gives all of them, row-major.
  Buffer list_data(DType dtype) {
    Buffer data;
    expect('[');
    if (accept(']')) return data;
    do append_number(data, dtype);
    while (ok() && accept(','));
    expect(']');
    return data;
  }

  // A number without a fraction is one of either kind: the key says which.
  Attr attr(Key key) {
    Attr value = attr();
    const int64_t* whole = std::get_if<int64_t>(&value);
    return whole && has_type_of(key, 0.0) ? Attr(static_cast<double>(*whole)) : value;
  }

  Attr attr() {
    char c = peek();
    if (c == '"') return string();
    if (c == '[') return int_list();
    std::string_view next = peek_word();
    if (next == "true" || next == "false") return word() == "true";
    if (next == "d" && text_.substr(at_ + 1, 1) == "[") {
      word();
      return real_list();
    }
    if (next == "s" && text_.substr(at_ + 1, 1) == "[") {
      word();
      return list<std::string>([this] { return string(); });
    }
    if (std::optional<DType> dtype = dtype_from(next)) {
      word();
      return *dtype;
    }
    size_t start = at_;
    std::string_view digits = number_text();
    at_ = start;
    if (digits.find_first_of(".en") != std::string_view::npos) return real();
    return integer();
  }

  std::string value_name() {
    expect('%');
    return at_ < text_.size() && text_[at_] == '"' ? string() : std::string(word());
  }

  ValueId reference(const std::unordered_map<std::string, ValueId>& scope) {
    if (accept_word("_")) return kNone;
    std::string name = value_name();
    auto found = scope.find(name);
    if (found == scope.end()) {
      fail(fmt::format("%{} is used before it is defined", name));
      return kNone;
    }
    return found->second;
  }

  Port port() {
    Port result;
    if (accept_word("as"))
      result.name = string();
    else if (accept_word("state"))
      result = {Port::Role::State, string(), {}};
    else if (accept_word("mutates"))
      result = {Port::Role::Mutation, string(), {}};
    return result;
  }

  Graph parse_graph(int depth) {
    Graph graph;
    if (depth > kMaxBodyDepth) fail("bodies are nested too deeply");
    if (!accept_word("graph")) fail("expected 'graph'");
    std::unordered_map<std::string, ValueId> scope;
    graph.name = string();
    expect('(');
    if (!accept(')')) {
      do {
        std::string name = value_name();
        expect(':');
        Type input_type = type();
        Port input_port = port();
        if (accept('=')) input_port.initial = graph.store(hex_data());
        if (!ok()) return graph;
        if (!scope.emplace(name, graph.add_input(input_type, name, input_port)).second)
          fail(fmt::format("%{} is defined twice", name));
      } while (ok() && accept(','));
      expect(')');
    }
    if (accept_word("spec")) {
      graph.in_spec = string();
      graph.out_spec = string();
    }
    while (ok() && !accept_word("return")) statement(graph, scope, depth);
    while (ok() && peek() == '%') {
      ValueId output = reference(scope);
      if (!ok()) break;
      graph.add_output(output, port());
      if (!accept(',')) break;
    }
    return graph;
  }

  void statement(Graph& graph, std::unordered_map<std::string, ValueId>& scope, int depth) {
    std::vector<std::string> results;
    while (ok() && peek() == '%') {
      results.push_back(value_name());
      if (!accept(',')) break;
    }
    if (!results.empty()) expect('=');
    std::string_view op_name = word();
    if (!ok()) return;
    if (op_name == "const") return constant(graph, scope, results);
    std::optional<Op> op = op_from(op_name);
    if (!op) return fail(fmt::format("'{}' is not an operator", op_name));
    std::vector<ValueId> inputs;
    while (ok() && (peek() == '%' || peek_word() == "_")) {
      inputs.push_back(reference(scope));
      if (!accept(',')) break;
    }
    Attrs attrs;
    while (ok() && peek() != ':') {
      std::string_view key_name = word();
      std::optional<Key> key = key_from(key_name);
      if (!key) return fail(fmt::format("'{}' is not an attribute", key_name));
      expect('=');
      attrs.set(*key, attr(*key));
    }
    expect(':');
    std::vector<Type> types;
    for (size_t i = 0; ok() && i < results.size(); ++i) {
      if (i) expect(',');
      types.push_back(type());
    }
    LocId loc = accept('@') ? location(graph) : kNone;
    std::string name = accept_word("name") ? string() : (results.empty() ? "" : results[0]);
    if (!ok()) return;
    Node& node = graph.add_node(*op, std::move(inputs), std::move(types), std::move(attrs), loc, name);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!scope.emplace(results[i], node.outputs[i]).second)
        return fail(fmt::format("%{} is defined twice", results[i]));
      graph.rename(node.outputs[i], results[i]);
    }
    while (accept('{')) {
      node.bodies.push_back(std::make_unique<Graph>(parse_graph(depth + 1)));
      expect('}');
    }
  }

  void constant(Graph& graph, std::unordered_map<std::string, ValueId>& scope,
                const std::vector<std::string>& results) {
    Type constant_type = type();
    Buffer data;
    expect('=');
    if (!ok()) return;
    data = accept_word("fill") ? fill_data(constant_type) : peek() == '[' ? list_data(constant_type.dtype) : hex_data();
    size_t expected = static_cast<size_t>(element_count(constant_type.shape)) * byte_size(constant_type.dtype);
    if (results.size() != 1 || data.size() != expected)
      return fail("a constant needs one name and as many elements as its type has");
    ValueId id = graph.add_constant(constant_type, graph.store(std::move(data)), results[0]);
    if (!scope.emplace(results[0], id).second) fail(fmt::format("%{} is defined twice", results[0]));
  }

  LocId location(Graph& graph) {
    Loc loc;
    loc.file = string();
    expect(':');
    loc.line = static_cast<int>(integer());
    loc.code = string();
    loc.module_path = string();
    loc.module_type = string();
    return graph.intern(loc);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string fault_;
  int line_of_fault_ = 0;
};

}  // namespace

Result<Graph> parse(std::string_view text) {
  Result<Graph> graph = Parser(text).run();
  if (graph)
    if (std::optional<std::string> fault = verify(*graph)) return error("{}", *fault);
  return graph;
}

}  // namespace swoop
