#include <algorithm>
#include <cstring>

#include "clean/clean.h"
#include "clean/floats.h"

namespace swoop {

namespace {

// Folding must not blow up the file: a large result that is larger than its operands (an expanded mask, say) stays
// computed.
constexpr int64_t kMaxFoldedElements = int64_t{1} << 24;

bool blows_up(const Rewriter& rw, const Node& n) {
  const int64_t elements = element_count(rw.type(n.outputs[0]).shape);
  int64_t operands = 0;
  for (ValueId input : n.inputs)
    if (input != kNone) operands += element_count(rw.type(input).shape);
  return elements > std::max(kMaxFoldedElements, operands);
}

// op(constants)  ->  constant
bool fold_constants(Rewriter& rw, const Node& n) {
  if (n.outputs.size() != 1 || blows_up(rw, n)) return false;
  std::optional<ValueId> folded = rw.folded(n);
  if (!folded) return false;
  rw.replace(n, *folded);
  return true;
}

// a result without elements, as of a layer without channels  ->  a constant without elements
bool fold_nothing(Rewriter& rw, const Node& n) {
  if (n.outputs.size() != 1 || element_count(rw.type(n.outputs[0]).shape) != 0) return false;
  rw.replace(n, rw.constant(rw.type(n.outputs[0]), {}, n.name));
  return true;
}

// softmax over an axis of one  ->  ones; log_softmax  ->  zeros
bool fold_softmax_of_one(Rewriter& rw, const Node& n) {
  const Type& type = rw.type(n.outputs[0]);
  if (!plain_floats(rw, n) || type.dtype != DType::F32 || type.shape[static_cast<size_t>(n.integer(Key::Axis))] != 1)
    return false;
  const std::vector<float> values(static_cast<size_t>(element_count(type.shape)), n.op == Op::Softmax ? 1.0F : 0.0F);
  rw.replace(n, float_constant(rw, type.shape, values, n.name));
  return true;
}

// rows of a table of which all elements are alike, as the token types of a text  ->  a constant
bool fold_gather_of_alike(Rewriter& rw, const Node& n) {
  const Value& table = rw.value(n.inputs[0]);
  const Type type = rw.type(n.outputs[0]);
  const size_t width = byte_size(type.dtype), count = static_cast<size_t>(element_count(type.shape));
  if (!table.constant || table.type.quantized() || count > size_t{kMaxFoldedElements} || table.data.size() < width)
    return false;
  const std::byte* first = table.data.data();
  for (size_t at = width; at < table.data.size(); at += width)
    if (std::memcmp(first + at, first, width) != 0) return false;
  Buffer rows(count * width);
  for (size_t i = 0; i < count; ++i) std::memcpy(rows.data() + i * width, first, width);
  rw.replace(n, rw.constant(type, std::move(rows), n.name));
  return true;
}

// an integer and nothing  ->  the integer: positions begin somewhere, and mostly at 0
bool drop_added_nothing(Rewriter& rw, const Node& n) {
  const Type& type = rw.type(n.outputs[0]);
  if (!is_integer(type.dtype) || type.quantized() || n.has(Key::ActMin) || n.has(Key::ActMax)) return false;
  for (size_t i = n.op == Op::Sub ? 1 : 0; i < 2; ++i) {
    const Value& nothing = rw.value(n.inputs[i]);
    const bool zero = nothing.constant && std::all_of(nothing.data.begin(), nothing.data.end(),
                                                      [](std::byte byte) { return byte == std::byte{0}; });
    if (!zero || rw.type(n.inputs[1 - i]) != type) continue;
    rw.replace(n, n.inputs[1 - i]);
    return true;
  }
  return false;
}

// A dequantized constant is not folded: its codes are what the quantizer chose, and the types take them in.
bool is_foldable(const OpInfo& op) { return op.kernel && op.op != Op::Dequantize; }

}  // namespace

std::span<const Rule> constant_rules() {
  static const Rule kRules[] = {{"fold-constants", ops_where(is_foldable), fold_constants},
                                {"fold-nothing", ops_where(is_foldable), fold_nothing},
                                {"fold-softmax-of-one", {Op::Softmax, Op::LogSoftmax}, fold_softmax_of_one},
                                {"fold-gather-of-alike", {Op::Gather}, fold_gather_of_alike},
                                {"drop-added-nothing", {Op::Add, Op::Sub}, drop_added_nothing}};
  return kRules;
}

}  // namespace swoop
