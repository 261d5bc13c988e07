// The program as plain structs, between the graph and the file: values by index, instructions in order, storage not yet
// placed. Invariants: every index points into its list; a tensor has a storage, or a constant, never both.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/bytes.h"

namespace swoop::emit {

// A piece of the arena. Lifetimes are positions of instructions, both ends included; -1 is before the first.
struct Storage {
  int64_t bytes = 0;
  int first = 0;
  int last = -2;
  int64_t offset = 0;
};

struct TensorValue {
  DType dtype = DType::F32;
  Shape shape;
  int storage = -1;
  int constant = -1;
  int initial = -1;      // index of the initial data of a buffer
  bool dynamic = false;  // the shape is an upper bound: kernels that append rows resize it
  std::string name;
};

struct Nothing {
  bool operator==(const Nothing&) const = default;
};
struct IntList {
  std::vector<int> items;  // indices of integer values, not the integers
};
struct DoubleList {
  std::vector<double> items;
};
struct BoolList {
  std::vector<bool> items;
};
struct TensorList {
  std::vector<int> items;  // indices of tensors
};
struct OptionalTensorList {
  std::vector<int> items;  // indices of tensors, -1 where absent
};
using PlanValue = std::variant<Nothing, int64_t, bool, double, std::string, TensorValue, IntList, DoubleList, BoolList,
                               TensorList, OptionalTensorList>;

struct KernelCall {
  int op = 0;
  std::vector<int> args;
};
struct DelegateCall {
  int delegate = 0;
  std::vector<int> args;
};
struct JumpFalse {
  int condition = 0;
  int destination = 0;
};
using Instruction = std::variant<KernelCall, DelegateCall, JumpFalse>;

// A storage that must stay untouched between two instructions although nothing there mentions it.
struct Hold {
  int storage = 0;
  int first = 0;
  int last = 0;
};

struct Plan {
  std::deque<PlanValue> values;  // references to values stay valid while the plan grows
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<Instruction> instructions;
  std::vector<std::pair<std::string, std::string>> operators;  // name, overload
  std::vector<Storage> storages;
  std::vector<Hold> holds;
  std::vector<Bytes> constants;
  std::vector<Bytes> initials;
  std::deque<Buffer> owned;  // bytes of constants made here
  int64_t arena_bytes = 0;
};

}  // namespace swoop::emit
