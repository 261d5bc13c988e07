// Builds a Plan: literals (each distinct one stored once), tensors, constants (shared by content) and instructions.
// Values are indices into plan.values. A kernel's result may be given a place beforehand, so that both branches of a
// conditional write to the same tensor and nothing has to be moved.
#pragma once

#include <map>
#include <string_view>

#include "emit/plan.h"
#include "ir/graph.h"

namespace swoop::emit {

constexpr int kAbsent = -1;  // an optional tensor that is not there

class PlanBuilder {
 public:
  Plan plan;

  // -- literals
  int null();
  int integer(int64_t value);
  int boolean(bool value);
  int real(double value);
  int text(std::string_view value);
  int integers(const Ints& values);
  int reals(const Doubles& values);
  int booleans(const std::vector<bool>& values);
  int tensors(std::vector<int> values);
  int optional_tensors(std::vector<int> values);
  int scalar(DType dtype, double value);  // an integer literal for integer tensors, else a real one
  int or_null(int value) { return value == kAbsent ? null() : value; }
  int fresh(PlanValue value);  // never shared: for values that instructions change

  // -- tensors
  int planned(DType dtype, Shape shape, std::string name = {});
  int like(int value) { return planned(tensor(value).dtype, tensor(value).shape); }
  int alias(int value, Shape shape);  // the same bytes in another shape
  int constant(DType dtype, Shape shape, Bytes data);
  int constant(DType dtype, Shape shape, Buffer data);
  const TensorValue& tensor(int value) const { return std::get<TensorValue>(plan.values[static_cast<size_t>(value)]); }
  TensorValue& tensor(int value) { return std::get<TensorValue>(plan.values[static_cast<size_t>(value)]); }
  Bytes constant_bytes(int value) const { return plan.constants[static_cast<size_t>(tensor(value).constant)]; }
  bool is_constant(int value) const { return tensor(value).constant >= 0; }

  // -- instructions
  int position() const { return static_cast<int>(plan.instructions.size()); }
  // "aten::add.out": the arguments of the schema, then the results, which the convention repeats as the returned value.
  void kernel(std::string_view name, std::vector<int> args, std::vector<int> results);
  void primitive(std::string_view name, std::vector<int> args);  // executorch_prim: nothing is repeated
  void in_place(std::string_view name, std::vector<int> args);   // aten::copy_: the first argument is returned
  void delegate(int index, std::vector<int> args);
  int jump_false(int condition, int destination = 0);  // position of the jump, for land()
  void land(int jump);                                 // its destination is the next instruction
  void hold(int value, int first, int last);

  // -- small compositions, each into `out` or, when kAbsent, into a new tensor
  int copy(int from, int out = kAbsent);
  int permute(int value, const Ints& perm, int out = kAbsent);  // of constants: at compile time
  int unary(std::string_view name, int x, int out = kAbsent);
  int binary(std::string_view name, int a, int b,
             int out = kAbsent);  // aten::mul.out and others without further arguments
  int add(int a, int b, int out = kAbsent);
  int sub(int a, int b, int out = kAbsent);
  int add_scalar(int x, double value, int out = kAbsent);
  int mul_scalar(int x, double value, int out = kAbsent);
  int clamp(int x, std::optional<double> min, std::optional<double> max, int out = kAbsent);
  int cast(int x, DType dtype, int out = kAbsent);
  int greater(int x, double value);  // bool tensor
  int where(int condition, int a, int b, int out = kAbsent);

 private:
  int op_index(std::string_view name);
  template <typename T, typename Make>
  int shared(std::map<T, int>& cache, const T& key, Make make);

  std::map<int64_t, int> integers_;
  std::map<uint64_t, int> reals_;  // by bit pattern, so that -0.0 and 0.0 stay apart
  std::map<std::string, int> texts_;
  std::map<Ints, int> int_lists_;
  std::map<std::vector<uint64_t>, int> real_lists_;
  std::map<std::vector<int>, int> tensor_lists_;
  std::map<std::string, int> ops_;
  std::map<uint64_t, std::vector<int>> constants_;  // content hash -> constants
  int null_ = kAbsent;
  int booleans_[2] = {kAbsent, kAbsent};
};

// Broadcasting of two shapes; the caller knows that they fit.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace swoop::emit
