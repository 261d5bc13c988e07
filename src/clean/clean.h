// Rules that are true on any target: quantize/dequantize pairs become types, batch norms fold into weights, clamps into
// their producers, movement is merged, constants are folded. They run before ranges are measured, and some again
// wherever the driver lists them.
#pragma once

#include <span>

#include "rewriter/rewriter.h"

namespace swoop {

// quantize and dequantize nodes of an already quantized model move into the types of the values around them.
std::span<const Rule> qdq_rules();

// A movement op that is still float although its operand is quantized takes the operand's type. Runs after qdq_rules,
// which first give every result the type that its own quantize node asks for.
std::span<const Rule> carry_rules();

// Folding into weights and producers: batch norm, clamps, scalar arithmetic.
std::span<const Rule> fold_rules();

// Before ranges are measured: forms that quantize better or that later rooms have an integer form for.
std::span<const Rule> prepare_rules();

// Sums and products with constants go into the layers beside them. After the step above: what a model spells out with
// them has been recognised.
std::span<const Rule> affine_rules();

// What asks for minus infinity or for NaN. Before the step above, whose forms hold neither.
std::span<const Rule> infinity_rules();

// Masks that come at run time, in the form that quantizes well. Part of the same step.
std::span<const Rule> mask_rules();

// Layers with parameters that are no constants. Part of the same step.
std::span<const Rule> computed_rules();

// Functions and norms that the model spells out, as one operator each. Part of the same step, for the same reason.
std::span<const Rule> recognise_rules();

// Softmax and its like that the model spells out. Part of the same step.
std::span<const Rule> exponential_rules();

// Merging and dropping of data movement.
std::span<const Rule> movement_rules();

// A node whose operands are all constants becomes a constant.
std::span<const Rule> constant_rules();

}  // namespace swoop
