// What is larger than SRAM, in pieces that are not, where feature maps are in DRAM. An elementwise operation reads DRAM
// at 1.5 to 6 cycles per element on U85, and SRAM at 0.25 to 0.4.
#include <algorithm>

#include "legalize/compose.h"

namespace swoop {

namespace {

// layer_norm(x), rms_norm(x) of more rows than SRAM holds  ->  of pieces of the rows. Two tensors of twice the
// operand's bits must fit: [1500,384] on U85-256 takes 1.13 instead of 1.72 Mcycles.
bool cut_normed_rows(Rewriter& rw, const Node& n) {
  const NpuTarget& target = target_of(rw);
  if (!target.facts().slow_elementwise_from_dram || target.staging_bytes == 0) return false;
  if (!computes_on_codes(rw, n)) return false;
  const Type out = rw.type(n.outputs[0]);
  const int64_t rows_axis = n.integer(Key::Axis);
  int64_t axis = 0;
  while (axis < rows_axis && out.shape[static_cast<size_t>(axis)] == 1) ++axis;
  if (axis == rows_axis) return false;  // one row
  const int64_t size = out.shape[static_cast<size_t>(axis)];
  const int64_t bytes = 4 * byte_count(rw.type(n.inputs[0]));
  constexpr int64_t kMostPieces = 64;  // each is 1.6 KB of commands; parts of a CONCAT (TOSA 1.0, level 8K)
  const int64_t pieces = std::min((bytes + target.staging_bytes - 1) / target.staging_bytes, size);
  if (pieces < 2 || pieces > kMostPieces) return false;
  const int64_t piece = (size + pieces - 1) / pieces;
  std::vector<ValueId> parts;
  for (int64_t at = 0; at < size; at += piece) {
    std::vector<ValueId> inputs = n.inputs;
    inputs[0] = slice(rw, n.inputs[0], axis, at, std::min(at + piece, size));
    const Type type = with_shape(out, rw.type(inputs[0]).shape);
    parts.push_back(rw.make(n.op, std::move(inputs), n.attrs, type));
  }
  rw.replace(n, concat(rw, std::move(parts), axis));
  return true;
}

}  // namespace

std::span<const Rule> piece_rules() {
  static const Rule kRules[] = {
      {"cut-normed-rows", {Op::LayerNorm, Op::RmsNorm}, cut_normed_rows},
  };
  return kRules;
}

}  // namespace swoop
