// Masks: numbers far below all scores (minus infinity, -1e9, -1e4) that are added to the scores of a softmax, or chosen
// in their place. The scores that they hide must not make a range: 8 bits would be spent on what softmax throws away.
#pragma once

#include <set>

#include "ir/ir.h"
#include "quantize/statistics.h"

namespace swoop {

struct Measured;

// Sums with (or choices of) a mask constant that softmax sees next, by value id.
std::vector<bool> masked_scores(const Graph& graph);

// Sums that softmax sees next, and what is added in them at run time: only samples show which of them are masks.
std::set<ValueId> possible_masks(const Graph& graph);

// What the samples show of a possible mask.
struct Depths {
  Statistics above;      // of the elements that hide nothing
  bool deep = false;     // some hide: they are 1000 or more below zero
  bool between = false;  // some are neither: then it is no mask

  void add(std::span<const float> values);
  bool hides() const { return deep && !between; }
};

// Finds the masks among them and gives them, and the scores that they are added to, the range of what they leave.
void settle_masks(const Graph& graph, Measured& measured);

}  // namespace swoop
