// What the codes of each tensor may be, from types, constants and operators alone: no input of these types gives
// another one. A value that the specification forbids (a sum beyond 32 bits) is counted as it would be without limits,
// so that whoever builds a program can see it coming.
#pragma once

#include "tosa/tosa.h"

namespace swoop::tosa {

struct CodeRange {
  double low, high;

  bool within(double least, double most) const { return low >= least && high <= most; }
  double magnitude() const { return high > -low ? high : -low; }
};

// Of a type.
CodeRange code_range(DType dtype);

class Bounds {
 public:
  Bounds(const Program& program, BodyId body) : program_(&program), body_(body) {}

  // Of a tensor that an operator added so far makes, a constant or an input.
  CodeRange of(TensorId id);

  // Whether some input could make one of the operators added so far leave its type, or a RESCALE what the specification
  // lets it multiply.
  bool overflow();

  // The operators added since the last question are arithmetic of the model's own integers: where a result leaves its
  // type, it does in the model too.
  void accept_overflow();

 private:
  const Body& body() const { return program_->bodies[body_]; }
  CodeRange of_operand(TensorId id);
  CodeRange of_constant(const Tensor& tensor) const;
  CodeRange of_result(const Operator& op);
  CodeRange of_product(const Operator& op, int64_t count);
  CodeRange centred(const Operator& op, size_t i, size_t zero_point);
  double largest_sum(const Operator& op, double reach);
  bool fits(const Operator& op);
  void follow(bool accepts = false);

  const Program* program_;
  BodyId body_;
  size_t seen_ = 0;                 // operators
  bool overflow_ = false;           // of those
  std::vector<CodeRange> results_;  // by tensor
  std::vector<bool> known_;
};

}  // namespace swoop::tosa
