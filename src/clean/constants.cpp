#include "clean/clean.h"

namespace swoop {

namespace {

// Folding must not blow up the file: a result much larger than its operands (an expanded mask, say) stays computed.
constexpr int64_t kMaxFoldedElements = int64_t{1} << 24;

// op(constants)  ->  constant
bool fold_constants(Rewriter& rw, const Node& n) {
  if (n.outputs.size() != 1 || element_count(rw.type(n.outputs[0]).shape) > kMaxFoldedElements) return false;
  std::optional<ValueId> folded = rw.folded(n);
  if (!folded) return false;
  rw.replace(n, *folded);
  return true;
}

// A dequantized constant is not folded: its codes are what the quantizer chose, and the types take them in.
std::vector<Op> foldable_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (info(static_cast<Op>(i)).kernel && static_cast<Op>(i) != Op::Dequantize) ops.push_back(static_cast<Op>(i));
  return ops;
}

}  // namespace

std::span<const Rule> constant_rules() {
  static const Rule kRules[] = {{"fold-constants", foldable_ops(), fold_constants}};
  return kRules;
}

}  // namespace swoop
