// Which elements of a float value are minus infinity, are no numbers, or hide what they are added to: said of booleans
// that the model has at run time, because codes of 8 or 16 bits hold neither infinities nor NaN. An expression is found
// without changing the graph, and then made.
#pragma once

#include <optional>
#include <vector>

#include "clean/floats.h"

namespace swoop {

struct Truth {
  enum class Kind : uint8_t {
    Never,
    Always,
    Known,   // a constant
    Given,   // a boolean of the graph
    Lowest,  // an input of the graph that is compared with minus infinity
    Not,
    And,
    Or,
    Moved,  // as `node` moves its operand
    All,    // along the axis of the softmax `node`
    Any,    // along the rows of the first matrix of the product `node`
  };
  Kind kind = Kind::Never;
  Shape shape = {};  // broadcasts to that of the value it is about
  ValueId id = kNone;
  const Node* node = nullptr;
  std::vector<uint8_t> known = {};
  std::vector<Truth> of = {};
};

Truth negated(Truth truth);

Truth lowest_in(const Rewriter& rw, ValueId id);
Truth no_numbers_in(const Rewriter& rw, ValueId id);

// A value that is 0 but where it hides: minus infinity, or one number far below zero.
struct PureMask {
  Truth hidden;
  float depth = 0;
};
std::optional<PureMask> pure_mask(const Rewriter& rw, ValueId id);

ValueId make_truth(Rewriter& rw, const Truth& truth, const Shape& shape);

// The one value that all elements of a float constant have.
std::optional<float> uniform_value(const Rewriter& rw, ValueId id);

// What hides a score, whatever the score is.
bool hides(float x);

}  // namespace swoop
