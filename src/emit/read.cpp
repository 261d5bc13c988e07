// read_pte: every offset, index and length of the file is checked before it is used; FlatBuffers' verifier covers the
// tables, the checks here cover what the schema cannot say.
#include <algorithm>
#include <set>

#include "emit/emit.h"
#include "emit/method_memory.h"
#include "schema/program.h"

namespace swoop {

namespace {

namespace fb = executorch_flatbuffer;
namespace flat = swoop_flatbuffers;
using emit::length;
using emit::method_memory;

constexpr size_t kMaxTables = 10'000'000;  // the verifier's own default of 1,000,000 is less than a long program has
constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr size_t kMaxListed = 32;  // list items shown in a line of text

Error broken(std::string_view what) { return error("This is not a sound ExecuTorch program: {}.", what); }

struct ScalarName {
  int type;
  std::string_view name;
  int bytes;
};
constexpr ScalarName kScalars[] = {{0, "uint8", 1},  {1, "int8", 1},      {2, "int16", 2},   {3, "int32", 4},
                                   {4, "int64", 8},  {5, "float16", 2},   {6, "float32", 4}, {7, "float64", 8},
                                   {11, "bool", 1},  {15, "bfloat16", 2}, {27, "uint16", 2}, {28, "uint32", 4},
                                   {29, "uint64", 8}};

// An element of a vector of numbers. The verifier does not check that wide ones are aligned, so they are not read in
// place.
template <typename T>
T number_at(const flat::Vector<T>* vector, size_t index) {
  return load<T>(reinterpret_cast<const std::byte*>(vector->Data()) + index * sizeof(T));
}

std::string text(const flat::String* string) { return string ? string->str() : std::string(); }

class Reader {
 public:
  explicit Reader(Bytes file) : file_(file) {}

  Result<ProgramInfo> run() {
    if (file_.size() < 8 || text_of(file_.subspan(4, 4)) != "ET12")
      return error("This is not an ExecuTorch program (.pte).");
    TRY(read_header());
    // The tables must be readable at their alignment, wherever the caller's bytes are.
    Bytes flatbuffer = file_.first(program_size_);
    if (reinterpret_cast<uintptr_t>(file_.data()) % alignof(std::max_align_t) != 0) {
      copy_.assign(flatbuffer.begin(), flatbuffer.end());
      flatbuffer = copy_;
    }
    flat::Verifier verifier(reinterpret_cast<const uint8_t*>(flatbuffer.data()), flatbuffer.size(), 64, kMaxTables);
    if (!fb::VerifyProgramBuffer(verifier)) return broken("its tables point outside the file");
    base_ = flatbuffer.data();
    program_ = fb::GetProgram(flatbuffer.data());
    info_.file_bytes = static_cast<int64_t>(file_.size());
    info_.program_bytes = static_cast<int64_t>(program_size_);
    TRY(read_data());
    if (length(program_->execution_plan()) == 0) return broken("it has no method");
    for (const fb::ExecutionPlan* plan : *program_->execution_plan()) TRY(read_method(*plan));
    return std::move(info_);
  }

 private:
  Result<void> read_header() {
    program_size_ = file_.size();
    if (file_.size() < 40 || text_of(file_.subspan(8, 4)) != "eh00") return {};
    uint32_t header = load<uint32_t>(file_.data() + 12);
    uint64_t program = load<uint64_t>(file_.data() + 16);
    uint64_t base = load<uint64_t>(file_.data() + 24);
    uint64_t bytes =
        header >= 32 ? load<uint64_t>(file_.data() + 32) : (base <= file_.size() ? file_.size() - base : 0);
    if (header < 24 || program > file_.size() || program < 40) return broken("its extended header gives a wrong size");
    if (base != 0 && (base < program || !contains(file_, base, bytes)))
      return broken("its segments end outside the file; it may be cut off");
    program_size_ = program;
    if (base != 0) segment_area_ = file_.subspan(base, bytes);
    return {};
  }

  Result<Bytes> segment(uint64_t index) const {
    if (index >= length(program_->segments())) return broken("it names a segment that it does not have");
    const fb::DataSegment* segment = program_->segments()->Get(static_cast<flat::uoffset_t>(index));
    if (!contains(segment_area_, segment->offset(), segment->size())) return broken("a segment is outside the file");
    return segment_area_.subspan(segment->offset(), segment->size());
  }

  Result<void> read_data() {
    std::set<uint64_t> seen;
    if (const fb::SubsegmentOffsets* constants = program_->constant_segment();
        constants && length(constants->offsets()) > 1) {
      TRY_ASSIGN(Bytes bytes, segment(constants->segment_index()));
      info_.constant_bytes = static_cast<int64_t>(bytes.size());
    }
    if (const auto* buffers = program_->constant_buffer())
      for (const fb::Buffer* buffer : *buffers) info_.constant_bytes += static_cast<int64_t>(length(buffer->storage()));
    if (const auto* initial = program_->mutable_data_segments()) {
      for (const fb::SubsegmentOffsets* offsets : *initial) {
        TRY_ASSIGN(Bytes bytes, segment(offsets->segment_index()));
        if (seen.insert(offsets->segment_index()).second) info_.initial_bytes += static_cast<int64_t>(bytes.size());
      }
    }
    return {};
  }

  Result<ProgramTensor> read_tensor(const fb::Tensor& tensor) const {
    ProgramTensor result;
    const auto* scalar = std::find_if(std::begin(kScalars), std::end(kScalars), [&](const ScalarName& s) {
      return s.type == static_cast<int>(tensor.scalar_type());
    });
    if (scalar == std::end(kScalars)) return broken("a tensor has an element type that nobody knows");
    result.dtype = scalar->name;
    int64_t count = 1;
    for (size_t i = 0; i < length(tensor.sizes()); ++i) {
      int32_t size = tensor.sizes()->Get(static_cast<flat::uoffset_t>(i));
      if (size < 0) return broken("a tensor has a negative size");
      if (size > 0 && count > kMaxElements / size) return broken("a tensor is absurdly large");
      count *= size;
      result.shape.push_back(size);
    }
    result.bytes = count * scalar->bytes;
    if (const fb::AllocationDetails* place = tensor.allocation_info())
      result.arena_offset =
          static_cast<int64_t>(uint64_t{place->memory_offset_high()} << 32 | place->memory_offset_low());
    if (const fb::ExtraTensorInfo* extra = tensor.extra_tensor_info())
      result.name = text(extra->fully_qualified_name());
    return result;
  }

  Result<std::vector<ProgramTensor>> read_ports(const fb::ExecutionPlan& plan,
                                                const flat::Vector<int32_t>* indices) const {
    std::vector<ProgramTensor> ports;
    for (size_t i = 0; i < length(indices); ++i) {
      int32_t index = indices->Get(static_cast<flat::uoffset_t>(i));
      const fb::EValue* value = value_at(plan, index);
      if (!value) return broken("an input or output is a value that it does not have");
      const fb::Tensor* tensor = value->val_as_Tensor();
      ProgramTensor port;
      if (tensor) {
        TRY_ASSIGN(port, read_tensor(*tensor));
      } else {
        port.dtype = fb::EnumNameKernelTypes(value->val_type());
      }
      ports.push_back(std::move(port));
    }
    return ports;
  }

  static const fb::EValue* value_at(const fb::ExecutionPlan& plan, int64_t index) {
    if (index < 0 || static_cast<uint64_t>(index) >= length(plan.values())) return nullptr;
    return plan.values()->Get(static_cast<flat::uoffset_t>(index));
  }

  // "%7" for tensors, the literal itself for the rest.
  std::string value_text(const fb::ExecutionPlan& plan, int64_t index, int depth = 0) const {
    const fb::EValue* value = value_at(plan, index);
    if (!value || !value->val()) return "?";
    auto list = [&](const auto* items, auto show) {
      std::string joined;
      for (size_t i = 0; i < length(items) && i < kMaxListed; ++i) {
        if (i > 0) joined += ", ";
        joined += show(number_at(items, i));
      }
      return fmt::format("[{}{}]", joined, length(items) > kMaxListed ? ", ..." : "");
    };
    auto item = [&](int64_t i) {
      return i < 0 ? std::string("none") : depth > 0 ? std::string("?") : value_text(plan, i, depth + 1);
    };
    switch (value->val_type()) {
      case fb::KernelTypes::Tensor: return fmt::format("%{}", index);
      case fb::KernelTypes::Int: return fmt::format("{}", value->val_as_Int()->int_val());
      case fb::KernelTypes::Bool: return value->val_as_Bool()->bool_val() ? "true" : "false";
      case fb::KernelTypes::Double: return fmt::format("{}", value->val_as_Double()->double_val());
      case fb::KernelTypes::String: return fmt::format("\"{}\"", text(value->val_as_String()->string_val()));
      case fb::KernelTypes::IntList: return list(value->val_as_IntList()->items(), item);
      case fb::KernelTypes::TensorList: return list(value->val_as_TensorList()->items(), item);
      case fb::KernelTypes::OptionalTensorList: return list(value->val_as_OptionalTensorList()->items(), item);
      case fb::KernelTypes::DoubleList:
        return list(value->val_as_DoubleList()->items(), [](double d) { return fmt::format("{}", d); });
      case fb::KernelTypes::BoolList:
        return list(value->val_as_BoolList()->items(), [](bool b) { return std::string(b ? "true" : "false"); });
      case fb::KernelTypes::Null:
      case fb::KernelTypes::NONE: return "none";
    }
    return "?";
  }

  std::string arguments(const fb::ExecutionPlan& plan, const flat::Vector<int32_t>* args) const {
    std::string joined;
    for (size_t i = 0; i < length(args); ++i) {
      if (i > 0) joined += ", ";
      joined += value_text(plan, args->Get(static_cast<flat::uoffset_t>(i)));
    }
    return joined;
  }

  Result<void> read_instruction(const fb::ExecutionPlan& plan, const fb::Instruction& instruction,
                                ProgramMethod& method) const {
    if (const fb::KernelCall* call = instruction.instr_args_as_KernelCall()) {
      if (call->op_index() < 0 || static_cast<size_t>(call->op_index()) >= method.operators.size())
        return broken("an instruction calls an operator that it does not have");
      const std::string& name = method.operators[static_cast<size_t>(call->op_index())];
      std::string stem = name.ends_with(".out") ? name.substr(0, name.size() - 4) : name;
      ++method.kernel_calls[stem];
      method.instructions.push_back(fmt::format("{}({})", name, arguments(plan, call->args())));
      note_quantization(plan, name, call->args(), method);
    } else if (const fb::DelegateCall* delegate = instruction.instr_args_as_DelegateCall()) {
      if (delegate->delegate_index() < 0 || static_cast<size_t>(delegate->delegate_index()) >= method.delegates.size())
        return broken("an instruction calls a delegate that it does not have");
      ++method.delegate_calls;
      method.instructions.push_back(
          fmt::format("delegate {}({})", delegate->delegate_index(), arguments(plan, delegate->args())));
    } else if (const fb::JumpFalseCall* jump = instruction.instr_args_as_JumpFalseCall()) {
      method.instructions.push_back(fmt::format("jump to {} unless {}", jump->destination_instruction(),
                                                value_text(plan, jump->cond_value_index())));
    } else if (const fb::MoveCall* move = instruction.instr_args_as_MoveCall()) {
      method.instructions.push_back(fmt::format("%{} = {}", move->move_to(), value_text(plan, move->move_from())));
    } else if (const fb::FreeCall* free_call = instruction.instr_args_as_FreeCall()) {
      method.instructions.push_back(fmt::format("free %{}", free_call->value_index()));
    } else {
      return broken("an instruction is of a kind that nobody knows");
    }
    return {};
  }

  // The border's scale and zero point, for those who feed or read integers.
  void note_quantization(const fb::ExecutionPlan& plan, std::string_view name, const flat::Vector<int32_t>* args,
                         ProgramMethod& method) const {
    bool into = name == "quantized_decomposed::quantize_per_tensor.out";
    if ((!into && name != "quantized_decomposed::dequantize_per_tensor.out") || length(args) < 8) return;
    const fb::EValue* scale = value_at(plan, args->Get(1));
    const fb::EValue* zero_point = value_at(plan, args->Get(2));
    if (!scale || !scale->val_as_Double() || !zero_point || !zero_point->val_as_Int()) return;
    int32_t port = into ? args->Get(0) : args->Get(args->size() - 1);
    const flat::Vector<int32_t>* indices = into ? plan.inputs() : plan.outputs();
    std::vector<ProgramTensor>& ports = into ? method.inputs : method.outputs;
    for (size_t i = 0; i < ports.size(); ++i) {
      if (indices->Get(static_cast<flat::uoffset_t>(i)) != port) continue;
      ports[i].scale = scale->val_as_Double()->double_val();
      ports[i].zero_point = zero_point->val_as_Int()->int_val();
    }
  }

  Result<ProgramDelegate> read_delegate(const fb::BackendDelegate& delegate) {
    ProgramDelegate result;
    result.id = text(delegate.id());
    for (size_t i = 0; i < length(delegate.compile_specs()); ++i) {
      const fb::CompileSpec* spec = delegate.compile_specs()->Get(static_cast<flat::uoffset_t>(i));
      std::string value;
      if (spec->value()) value.assign(spec->value()->begin(), spec->value()->end());
      result.compile_specs.emplace_back(text(spec->key()), std::move(value));
    }
    const fb::BackendDelegateDataReference* reference = delegate.processed();
    if (!reference) return broken("a delegate has no data");
    result.in_segment = reference->location() == fb::DataLocation::SEGMENT;
    if (result.in_segment) {
      TRY_ASSIGN(result.blob, segment(reference->index()));
    } else {
      if (reference->index() >= length(program_->backend_delegate_data()))
        return broken("a delegate names data that it does not have");
      const auto* data = program_->backend_delegate_data()->Get(reference->index())->data();
      if (data) {  // as a part of the caller's bytes
        size_t offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(data->data()) - base_);
        result.blob = file_.subspan(offset, data->size());
      }
    }
    if (blobs_.emplace(result.blob.data(), result.blob.size()).second)
      info_.delegate_bytes += static_cast<int64_t>(result.blob.size());
    if (result.id == kNpuBackend) result.scratch_bytes = scratch_of(result.blob);
    return result;
  }

  // The scratch_size block of a vela_bin_stream: 16 bytes of name, its size, 12 more bytes, the payload padded to 16.
  static std::optional<uint64_t> scratch_of(Bytes blob) {
    for (size_t at = 0; contains(blob, at, 32);) {
      std::string_view name = text_of(blob.subspan(at, 16));
      uint64_t size = load<uint32_t>(blob.data() + at + 16);
      if (!contains(blob, at + 32, size)) return std::nullopt;
      if (name.starts_with("scratch_size") && size == 4) return load<uint32_t>(blob.data() + at + 32);
      at += 32 + (size + 15) / 16 * 16;
    }
    return std::nullopt;
  }

  Result<void> read_method(const fb::ExecutionPlan& plan) {
    ProgramMethod method;
    method.name = text(plan.name());
    if (const fb::ContainerMetadata* container = plan.container_meta_type()) {
      method.in_spec = text(container->encoded_inp_str());
      method.out_spec = text(container->encoded_out_str());
    }
    method.values = length(plan.values());
    for (size_t i = 0; i < length(plan.operators()); ++i) {
      const fb::Operator* op = plan.operators()->Get(static_cast<flat::uoffset_t>(i));
      std::string overload = text(op->overload());
      method.operators.push_back(overload.empty() ? text(op->name())
                                                  : fmt::format("{}.{}", text(op->name()), overload));
    }
    for (size_t i = 0; i < length(plan.delegates()); ++i) {
      TRY_ASSIGN(ProgramDelegate delegate, read_delegate(*plan.delegates()->Get(static_cast<flat::uoffset_t>(i))));
      method.temp_bytes = std::max(method.temp_bytes, static_cast<int64_t>(delegate.scratch_bytes.value_or(0)));
      method.delegates.push_back(std::move(delegate));
    }
    TRY_ASSIGN(method.inputs, read_ports(plan, plan.inputs()));
    TRY_ASSIGN(method.outputs, read_ports(plan, plan.outputs()));
    for (size_t i = 0; i < length(plan.values()); ++i) {
      const fb::Tensor* tensor = plan.values()->Get(static_cast<flat::uoffset_t>(i))->val_as_Tensor();
      if (!tensor || !tensor->allocation_info() || tensor->data_buffer_idx() == 0) continue;
      TRY_ASSIGN(ProgramTensor state, read_tensor(*tensor));
      method.states.push_back(std::move(state));
    }
    for (size_t i = 1; i < length(plan.non_const_buffer_sizes()); ++i) {
      int64_t bytes = number_at(plan.non_const_buffer_sizes(), i);
      if (bytes < 0 || bytes > int64_t{1} << 48) return broken("an arena has an absurd size");
      method.planned_bytes += bytes;
    }
    for (size_t c = 0; c < length(plan.chains()); ++c) {
      const auto* instructions = plan.chains()->Get(static_cast<flat::uoffset_t>(c))->instructions();
      for (size_t i = 0; i < length(instructions); ++i)
        TRY(read_instruction(plan, *instructions->Get(static_cast<flat::uoffset_t>(i)), method));
    }
    method.method_bytes = method_memory(plan, method.temp_bytes);
    info_.methods.push_back(std::move(method));
    return {};
  }

  Bytes file_;
  Buffer copy_;
  const std::byte* base_ = nullptr;
  uint64_t program_size_ = 0;
  Bytes segment_area_;
  const fb::Program* program_ = nullptr;
  ProgramInfo info_;
  std::set<std::pair<const std::byte*, size_t>> blobs_;
};

}  // namespace

Result<ProgramInfo> read_pte(Bytes file) { return Reader(file).run(); }

}  // namespace swoop
