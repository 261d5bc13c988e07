#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/ir.h"

namespace swoop {

namespace {

std::optional<std::string> check_type(const Type& type) {
  for (int64_t size : type.shape)
    if (size < 0) return "has a negative dimension";
  if (!type.quant) return std::nullopt;
  const Quant& quant = *type.quant;
  if (!is_integer(type.dtype)) return "is quantized but not an integer";
  size_t channels = 1;
  if (quant.per_channel()) {
    if (quant.axis >= type.rank()) return "has its quantization axis outside its rank";
    channels = static_cast<size_t>(type.shape[static_cast<size_t>(quant.axis)]);
  }
  if (quant.scale.size() != channels || quant.zero_point.size() != channels)
    return "has a wrong number of scales or zero points";
  for (double scale : quant.scale)
    if (!(scale > 0) || !std::isfinite(scale)) return "has a scale that is not a positive number";
  if (quant.qmin > quant.qmax || quant.qmin < dtype_min(type.dtype) || quant.qmax > dtype_max(type.dtype))
    return "has a code range outside its element type";
  for (int64_t zero_point : quant.zero_point)
    if (zero_point < dtype_min(type.dtype) || zero_point > dtype_max(type.dtype))
      return "has a zero point outside its element type";
  return std::nullopt;
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.value_slots()) {}

  std::optional<std::string> run() {
    for (ValueId id : graph_.inputs()) define(id);
    for (NodeId id = graph_.first(); id != kNone && fault_.empty(); id = graph_.node(id).next) node(graph_.node(id));
    for (size_t i = 0; i < graph_.outputs().size() && fault_.empty(); ++i)
      use(graph_.outputs()[i], {kNone, static_cast<uint32_t>(i)}, "the graph's output list");
    check_names();
    if (fault_.empty()) return std::nullopt;
    return fault_;
  }

 private:
  // Sorted, not in a hash table: with 100,000 names every look into that is a miss of the cache.
  void check_names() {
    std::sort(names_.begin(), names_.end());
    for (size_t i = 0; i < names_.size(); ++i)
      for (size_t j = i + 1; j < names_.size() && names_[j].first == names_[i].first; ++j)
        if (const std::string& name = graph_.value(names_[i].second).name; name == graph_.value(names_[j].second).name)
          return fail(name, "is a name that occurs twice");
  }

  void define(ValueId id) {
    const Value& value = graph_.value(id);
    if (defined_[id]) return fail(value.name, "is defined twice");
    defined_[id] = true;
    names_.emplace_back(std::hash<std::string>()(value.name), id);
    if (std::optional<std::string> fault = check_type(value.type)) return fail(value.name, *fault);
    for (const Use& user : value.uses) {
      bool listed = user.node == kNone
                        ? user.index < graph_.outputs().size() && graph_.outputs()[user.index] == id
                        : graph_.node(user.node).alive && user.index < graph_.node(user.node).inputs.size() &&
                              graph_.node(user.node).inputs[user.index] == id;
      if (!listed) return fail(value.name, "lists a use that does not exist");
    }
  }

  void use(ValueId id, Use expected, std::string_view where) {
    if (id >= graph_.value_slots()) return fail(where, "refers to a value that does not exist");
    const Value& value = graph_.value(id);
    if (value.constant && !defined_[id]) {
      define(id);
      size_t expected_size = static_cast<size_t>(element_count(value.type.shape)) * byte_size(value.type.dtype);
      if (value.data.size() != expected_size)
        return fail(value.name,
                    fmt::format("is a constant with {} bytes where {} are needed", value.data.size(), expected_size));
    }
    if (!defined_[id]) return fail(value.name, fmt::format("is used by {} before it is computed", where));
    if (value.uses.size() > 64) return;  // long lists are checked from the other side in define()
    for (const Use& listed : value.uses)
      if (listed == expected) return;
    fail(value.name, fmt::format("does not list its use by {}", where));
  }

  void node(const Node& node) {
    if (!node.alive) return fail(node.name, "is erased but still in the order");
    for (size_t i = 0; i < node.inputs.size() && fault_.empty(); ++i)
      if (node.inputs[i] != kNone) use(node.inputs[i], {node.id, static_cast<uint32_t>(i)}, node.name);
    for (Key key : attributes_of(node.op))
      if (!node.has(key))
        return fail(node.name, fmt::format("({}) lacks attribute {}", name_of(node.op), name_of(key)));
    for (const auto& [key, attr] : node.attrs)
      if (!has_type_of(key, attr))
        return fail(node.name, fmt::format("({}) has attribute {} of another type", name_of(node.op), name_of(key)));
    for (ValueId output : node.outputs) define(output);
    for (const auto& body : node.bodies)
      if (std::optional<std::string> fault = verify(*body)) return fail(node.name, "has a faulty body: " + *fault);
  }

  void fail(std::string_view what, std::string_view fault) {
    if (fault_.empty()) fault_ = fmt::format("%{} {}", what, fault);
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<std::pair<size_t, ValueId>> names_;  // by their hash
  std::string fault_;
};

}  // namespace

std::optional<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace swoop
