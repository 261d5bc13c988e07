// Loads the program of model.h into exactly the memory that it needs, and runs it on each set of inputs that the board
// gives it.
#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include "board.h"
#include "model.h"

namespace {

namespace et = executorch::runtime;

constexpr size_t at_least_one(size_t bytes) { return bytes == 0 ? 1 : bytes; }  // C++ has no empty arrays

alignas(16) uint8_t planned_pool[at_least_one(MODEL_PLANNED_BYTES)];
alignas(16) uint8_t method_pool[at_least_one(MODEL_METHOD_BYTES)];
alignas(16) BOARD_NPU_MEMORY uint8_t temp_pool[at_least_one(MODEL_TEMP_BYTES)];

int fail(const char* what, et::Error error) {
  board_fail(what, static_cast<unsigned>(error));
  return 1;
}

// The runtime itself does not check that the pool is as large as the plan.
bool plan_fits(const et::MethodMeta& meta) {
  if (meta.num_memory_planned_buffers() > 1) return false;
  return meta.num_memory_planned_buffers() == 0 ||
         static_cast<size_t>(meta.memory_planned_buffer_size(0).get()) <= MODEL_PLANNED_BYTES;
}

// The runtime copies the board's bytes into the planned memory.
et::Error set_input(et::Method& method, const et::TensorInfo& info, size_t index, const void* data) {
  using executorch::aten::DimOrderType;
  using executorch::aten::SizesType;
  executorch::aten::TensorImpl tensor(info.scalar_type(), static_cast<ssize_t>(info.sizes().size()),
                                      const_cast<SizesType*>(info.sizes().data()), const_cast<void*>(data),
                                      const_cast<DimOrderType*>(info.dim_order().data()));
  return method.set_input(et::EValue(executorch::aten::Tensor(&tensor)), index);
}

// One inference. `more`: the board had inputs, and may have others.
et::Error infer(et::Method& method, const et::MethodMeta& meta, bool& more) {
  more = false;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    auto info = meta.input_tensor_meta(i);
    if (!info.ok()) return info.error();
    const void* data = board_read_input(i, info->nbytes());
    more = data != nullptr;
    if (!more) return et::Error::Ok;
    const et::Error error = set_input(method, *info, i, data);
    if (error != et::Error::Ok) return error;
  }
  const et::Error error = method.execute();
  if (error != et::Error::Ok) return error;
  for (size_t i = 0; i < method.outputs_size(); ++i) {
    const auto& tensor = method.get_output(i).toTensor();
    board_write_output(i, tensor.const_data_ptr(), tensor.nbytes());
  }
  return et::Error::Ok;
}

}  // namespace

// Dedicated SRAM of the NPU, which ExecuTorch's Ethos-U backend looks for under these names.
#if MODEL_FAST_BYTES > 0
extern "C" {
alignas(16) BOARD_FAST_MEMORY static unsigned char fast_pool[MODEL_FAST_BYTES];
unsigned char* ethosu_fast_scratch = fast_pool;
size_t ethosu_fast_scratch_size = MODEL_FAST_BYTES;
}
#endif

int main() {
  if (board_init() != 0) return fail("board_init", et::Error::Internal);
  et::runtime_init();

  executorch::extension::BufferDataLoader loader(model_program, sizeof(model_program));
  auto program = et::Program::load(&loader);
  if (!program.ok()) return fail("Program::load", program.error());
  auto meta = program->method_meta(MODEL_METHOD_NAME);
  if (!meta.ok()) return fail("method_meta", meta.error());
  if (!plan_fits(*meta)) return fail("planned_pool", et::Error::MemoryAllocationFailed);

  et::Span<uint8_t> planned(planned_pool, MODEL_PLANNED_BYTES);
  et::HierarchicalAllocator planned_memory({&planned, 1});
  et::MemoryAllocator method_memory(MODEL_METHOD_BYTES, method_pool);
  et::MemoryAllocator temp_memory(MODEL_TEMP_BYTES, temp_pool);
  et::MemoryManager memory(&method_memory, &planned_memory, &temp_memory);
  auto method = program->load_method(MODEL_METHOD_NAME, &memory);
  if (!method.ok()) return fail("load_method", method.error());

  for (bool more = true; more;) {
    const et::Error error = infer(*method, *meta, more);
    if (error != et::Error::Ok) return fail("execute", error);
  }
  return 0;
}
