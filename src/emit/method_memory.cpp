#include "emit/method_memory.h"

namespace swoop::emit {

namespace {

namespace fb = executorch_flatbuffer;
namespace flat = swoop_flatbuffers;

// sizeof on 64-bit machines, executorch 1.5.1
constexpr size_t kPointer = 8;
constexpr size_t kEValue = 16;
constexpr size_t kTensorImpl = 64;
constexpr size_t kStride = 4;
constexpr size_t kBoxedList = 24;
constexpr size_t kDelegate = 56;
constexpr size_t kCompileSpec = 24;
constexpr size_t kChain = 32;
constexpr size_t kSpan = 16;
constexpr size_t kTensorMeta = 24;
constexpr size_t kMaxDimensions = 16;

class Bump {
 public:
  void take(size_t size, size_t alignment = 8) { used_ = (used_ + alignment - 1) / alignment * alignment + size; }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

template <typename T>
auto at(const flat::Vector<T>* vector, size_t index) {
  return vector->Get(static_cast<flat::uoffset_t>(index));
}

void take_value(Bump& bump, const fb::EValue& value) {
  if (const fb::Tensor* tensor = value.val_as_Tensor()) {
    bump.take(length(tensor->sizes()) * kStride, 4);
    bump.take(kTensorImpl);
    if (tensor->shape_dynamism() !=
        fb::TensorShapeDynamism::STATIC) {  // its sizes and order change, so they are copied
      bump.take(length(tensor->sizes()) * 4, 4);
      bump.take(length(tensor->sizes()), 1);
    }
  }
  auto boxed = [&](size_t items, size_t item) {
    bump.take(items * kPointer);
    bump.take(items * item);
    bump.take(kBoxedList);
  };
  if (const fb::IntList* list = value.val_as_IntList()) boxed(length(list->items()), 8);
  if (const fb::TensorList* list = value.val_as_TensorList()) boxed(length(list->items()), kPointer);
  if (const fb::OptionalTensorList* list = value.val_as_OptionalTensorList())
    boxed(length(list->items()), 2 * kPointer);
}

// Pointers to the arguments, and for kernels the key by which the runtime looks for the specialised kernel, unless it
// finds room for that in the temporary allocator.
void take_instruction(Bump& bump, const fb::ExecutionPlan& plan, const fb::Instruction& instruction,
                      size_t temp_bytes) {
  const fb::KernelCall* kernel = instruction.instr_args_as_KernelCall();
  const fb::DelegateCall* delegate = instruction.instr_args_as_DelegateCall();
  const flat::Vector<int32_t>* args = kernel ? kernel->args() : delegate ? delegate->args() : nullptr;
  if (!args) return;
  bump.take(length(args) * kPointer);
  if (!kernel) return;
  if (temp_bytes > 0 && temp_bytes >= length(args) * (kTensorMeta + kMaxDimensions)) return;
  bump.take(length(args) * kTensorMeta);
  auto order = [&](int64_t index) {
    if (index < 0 || static_cast<uint64_t>(index) >= length(plan.values())) return;
    if (const fb::Tensor* tensor = at(plan.values(), static_cast<size_t>(index))->val_as_Tensor())
      bump.take(length(tensor->sizes()), 1);
  };
  for (size_t i = 0; i < length(args); ++i) {
    int32_t index = at(args, i);
    order(index);
    if (index < 0 || static_cast<size_t>(index) >= length(plan.values())) continue;
    const fb::TensorList* list = at(plan.values(), static_cast<size_t>(index))->val_as_TensorList();
    if (list && length(list->items()) > 0) order(at(list->items(), 0));
  }
}

}  // namespace

int64_t method_memory(const fb::ExecutionPlan& plan, int64_t temp_bytes) {
  Bump bump;
  bump.take(length(plan.values()) * kEValue);
  bump.take(length(plan.inputs()), 1);
  for (size_t i = 0; i < length(plan.values()); ++i) take_value(bump, *at(plan.values(), i));
  bump.take(length(plan.delegates()) * kDelegate);
  for (size_t i = 0; i < length(plan.delegates()); ++i)
    bump.take(length(at(plan.delegates(), i)->compile_specs()) * kCompileSpec);
  bump.take(length(plan.chains()) * kChain);
  for (size_t c = 0; c < length(plan.chains()); ++c) {
    const fb::Chain* chain = at(plan.chains(), c);
    bump.take(length(chain->instructions()) * kPointer);
    bump.take(length(chain->instructions()) * kSpan);
    for (size_t i = 0; i < length(chain->instructions()); ++i)
      take_instruction(bump, plan, *at(chain->instructions(), i), static_cast<size_t>(temp_bytes));
  }
  return static_cast<int64_t>(bump.used());
}

}  // namespace swoop::emit
