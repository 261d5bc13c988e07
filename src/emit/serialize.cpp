#include "emit/serialize.h"

#include <algorithm>
#include <map>

#include "emit/host.h"
#include "schema/program.h"
#include "support/check.h"

namespace swoop::emit {

namespace {

namespace fb = executorch_flatbuffer;
namespace flat = swoop_flatbuffers;

constexpr uint64_t kSegmentAlignment = 128;  // exir's default segment_alignment
constexpr uint64_t kTensorAlignment = 16;    // @executorch-tensor-alignment
constexpr size_t kHeaderAt = 8;              // after the root offset and the identifier
constexpr uint32_t kHeaderLength = 32;       // already a multiple of the largest alignment in the schema, 16
constexpr uint64_t kMaxProgramBytes = uint64_t{1} << 31;  // FlatBuffers' offsets are signed 32-bit

uint64_t round_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

struct Segment {
  uint64_t offset = 0;  // from the segment base
  std::vector<Bytes> pieces;
  std::vector<uint64_t> piece_offsets;
  uint64_t size = 0;
};

class Writer {
 public:
  Writer(const Plan& plan, std::span<const Region> delegates, const Graph& graph, const EmitOptions& options)
      : plan_(plan), delegates_(delegates), graph_(graph), options_(options) {}

  Result<Buffer> run() {
    TRY(check_sizes());
    make_segments();
    share_blobs();
    auto program = write_program();
    builder_.Finish(program, fb::ProgramIdentifier());
    return assemble();
  }

 private:
  Result<void> check_sizes() const {
    uint64_t inside = 0;
    for (const Region& region : delegates_) inside += region.blob.size();
    if (!options_.delegate_segments && inside >= kMaxProgramBytes - (uint64_t{1} << 26))
      return error(
          "The NPU regions take {} bytes, more than the 2 GiB that fit inside a program; place them after it "
          "(--segments).",
          inside);
    if (plan_.arena_bytes >= int64_t{1} << 31)
      return error("The program plans an arena of {} bytes; 2 GiB is the most that a 32-bit device can address.",
                   plan_.arena_bytes);
    return {};
  }

  // Tensors one after the other at multiples of 16; entry 0 is reserved.
  static std::vector<uint64_t> lay_out(Segment& segment, const std::vector<Bytes>& tensors) {
    std::vector<uint64_t> offsets{0};
    for (Bytes bytes : tensors) {
      uint64_t at = round_up(segment.size, kTensorAlignment);
      offsets.push_back(at);
      segment.pieces.push_back(bytes);
      segment.piece_offsets.push_back(at);
      segment.size = at + bytes.size();
    }
    return offsets;
  }

  // In the order of ExecuTorch's own serializer: constants, initial data of buffers, blobs.
  void make_segments() {
    if (!plan_.constants.empty()) {
      Segment& segment = segments_.emplace_back();
      constant_offsets_ = lay_out(segment, plan_.constants);
    }
    if (!plan_.initials.empty()) {
      initial_segment_ = segments_.size();
      Segment& segment = segments_.emplace_back();
      initial_offsets_ = lay_out(segment, plan_.initials);
    }
  }

  // Regions with the same blob share it.
  void share_blobs() {
    std::map<std::string_view, uint32_t> known;
    for (const Region& region : delegates_) {
      auto [entry, fresh] = known.try_emplace(text_of(region.blob), 0);
      if (fresh && options_.delegate_segments) {
        entry->second = static_cast<uint32_t>(segments_.size());
        Segment& segment = segments_.emplace_back();
        segment.pieces = {region.blob};
        segment.piece_offsets = {0};
        segment.size = region.blob.size();
      } else if (fresh) {
        entry->second = static_cast<uint32_t>(inline_blobs_.size());
        inline_blobs_.push_back(region.blob);
      }
      blob_index_.push_back(entry->second);
    }
    uint64_t end = 0;
    for (Segment& segment : segments_) {
      segment.offset = round_up(end, kSegmentAlignment);
      end = segment.offset + segment.size;
    }
    segment_bytes_ = end;
  }

  flat::Offset<fb::Tensor> write_tensor(const TensorValue& tensor) {
    std::vector<int32_t> sizes(tensor.shape.begin(), tensor.shape.end());
    std::vector<uint8_t> order(tensor.shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint8_t>(i);
    auto sizes_at = builder_.CreateVector(sizes);
    auto order_at = builder_.CreateVector(order);
    flat::Offset<fb::AllocationDetails> allocation;
    if (tensor.storage >= 0) {
      auto offset = static_cast<uint64_t>(plan_.storages[static_cast<size_t>(tensor.storage)].offset);
      allocation =
          fb::CreateAllocationDetails(builder_, 1, static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32));
    }
    flat::Offset<fb::ExtraTensorInfo> extra;
    if (!tensor.name.empty()) extra = fb::CreateExtraTensorInfo(builder_, 0, builder_.CreateString(tensor.name));
    int buffer = tensor.constant >= 0 ? tensor.constant + 1 : tensor.initial + 1;
    return fb::CreateTensor(builder_, static_cast<fb::ScalarType>(scalar_type(tensor.dtype)), 0, sizes_at, order_at,
                            false, static_cast<uint32_t>(buffer), allocation, 0,
                            tensor.dynamic ? fb::TensorShapeDynamism::DYNAMIC_BOUND : fb::TensorShapeDynamism::STATIC,
                            extra);
  }

  template <typename T>
  flat::Offset<fb::EValue> wrap(fb::KernelTypes type, flat::Offset<T> value) {
    return fb::CreateEValue(builder_, type, value.Union());
  }

  flat::Offset<fb::EValue> write_value(const PlanValue& value) {
    if (std::holds_alternative<Nothing>(value)) return wrap(fb::KernelTypes::Null, fb::CreateNull(builder_));
    if (const auto* v = std::get_if<int64_t>(&value)) return wrap(fb::KernelTypes::Int, fb::CreateInt(builder_, *v));
    if (const auto* v = std::get_if<bool>(&value)) return wrap(fb::KernelTypes::Bool, fb::CreateBool(builder_, *v));
    if (const auto* v = std::get_if<double>(&value))
      return wrap(fb::KernelTypes::Double, fb::CreateDouble(builder_, *v));
    if (const auto* v = std::get_if<std::string>(&value))
      return wrap(fb::KernelTypes::String, fb::CreateString(builder_, builder_.CreateString(*v)));
    if (const auto* v = std::get_if<TensorValue>(&value)) return wrap(fb::KernelTypes::Tensor, write_tensor(*v));
    if (const auto* v = std::get_if<IntList>(&value)) {
      std::vector<int64_t> items(v->items.begin(), v->items.end());
      return wrap(fb::KernelTypes::IntList, fb::CreateIntList(builder_, builder_.CreateVector(items)));
    }
    if (const auto* v = std::get_if<DoubleList>(&value))
      return wrap(fb::KernelTypes::DoubleList, fb::CreateDoubleList(builder_, builder_.CreateVector(v->items)));
    if (const auto* v = std::get_if<BoolList>(&value)) {
      std::vector<uint8_t> items(v->items.begin(), v->items.end());
      return wrap(fb::KernelTypes::BoolList, fb::CreateBoolList(builder_, builder_.CreateVector(items)));
    }
    if (const auto* v = std::get_if<TensorList>(&value))
      return wrap(fb::KernelTypes::TensorList, fb::CreateTensorList(builder_, builder_.CreateVector(v->items)));
    const auto& list = std::get<OptionalTensorList>(value);
    return wrap(fb::KernelTypes::OptionalTensorList,
                fb::CreateOptionalTensorList(builder_, builder_.CreateVector(list.items)));
  }

  flat::Offset<fb::Instruction> write_instruction(const Instruction& instruction) {
    if (const auto* kernel = std::get_if<KernelCall>(&instruction)) {
      auto call = fb::CreateKernelCall(builder_, kernel->op, builder_.CreateVector(kernel->args));
      return fb::CreateInstruction(builder_, fb::InstructionArguments::KernelCall, call.Union());
    }
    if (const auto* delegate = std::get_if<DelegateCall>(&instruction)) {
      auto call = fb::CreateDelegateCall(builder_, delegate->delegate, builder_.CreateVector(delegate->args));
      return fb::CreateInstruction(builder_, fb::InstructionArguments::DelegateCall, call.Union());
    }
    const auto& jump = std::get<JumpFalse>(instruction);
    auto call = fb::CreateJumpFalseCall(builder_, jump.condition, jump.destination);
    return fb::CreateInstruction(builder_, fb::InstructionArguments::JumpFalseCall, call.Union());
  }

  flat::Offset<fb::BackendDelegate> write_delegate(size_t index) {
    std::vector<flat::Offset<fb::CompileSpec>> specs;
    for (const auto& [key, value] : delegates_[index].compile_specs) {
      auto bytes = builder_.CreateVector(reinterpret_cast<const uint8_t*>(value.data()), value.size());
      specs.push_back(fb::CreateCompileSpec(builder_, builder_.CreateString(key), bytes));
    }
    auto where = options_.delegate_segments ? fb::DataLocation::SEGMENT : fb::DataLocation::INLINE;
    auto reference = fb::CreateBackendDelegateDataReference(builder_, where, blob_index_[index]);
    auto id = builder_.CreateString(kNpuBackend.data(), kNpuBackend.size());
    return fb::CreateBackendDelegate(builder_, id, reference, builder_.CreateVector(specs));
  }

  flat::Offset<fb::ExecutionPlan> write_plan() {
    std::vector<flat::Offset<fb::EValue>> values;
    for (const PlanValue& value : plan_.values) values.push_back(write_value(value));
    std::vector<flat::Offset<fb::Instruction>> instructions;
    for (const Instruction& instruction : plan_.instructions) instructions.push_back(write_instruction(instruction));
    std::vector<flat::Offset<fb::Operator>> operators;
    for (const auto& [name, overload] : plan_.operators)
      operators.push_back(fb::CreateOperator(builder_, builder_.CreateString(name), builder_.CreateString(overload)));
    std::vector<flat::Offset<fb::BackendDelegate>> delegates;
    for (size_t i = 0; i < delegates_.size(); ++i) delegates.push_back(write_delegate(i));

    std::vector<int32_t> none;
    auto chain = fb::CreateChain(builder_, builder_.CreateVector(none), builder_.CreateVector(none),
                                 builder_.CreateVector(instructions));
    std::vector<flat::Offset<fb::Chain>> chains{chain};
    auto container = fb::CreateContainerMetadata(builder_, builder_.CreateString(graph_.in_spec),
                                                 builder_.CreateString(graph_.out_spec));
    std::vector<int64_t> buffers{0, plan_.arena_bytes};  // index 0 is reserved
    auto name = builder_.CreateString(options_.method);
    auto values_at = builder_.CreateVector(values);
    auto inputs_at = builder_.CreateVector(plan_.inputs);
    auto outputs_at = builder_.CreateVector(plan_.outputs);
    auto chains_at = builder_.CreateVector(chains);
    auto operators_at = builder_.CreateVector(operators);
    auto delegates_at = builder_.CreateVector(delegates);
    auto buffers_at = builder_.CreateVector(buffers);
    return fb::CreateExecutionPlan(builder_, name, container, values_at, inputs_at, outputs_at, chains_at, operators_at,
                                   delegates_at, buffers_at);
  }

  // FlatBuffers writes from the end of the file to its beginning: what comes first here comes last there. The plan is
  // written before the blobs, so that a reader of the blobs' neighbourhood finds them together near the start.
  flat::Offset<fb::Program> write_program() {
    std::vector<flat::Offset<fb::ExecutionPlan>> plans{write_plan()};
    std::vector<flat::Offset<fb::BackendDelegateInlineData>> blobs;
    for (Bytes blob : inline_blobs_) {
      builder_.ForceVectorAlignment(blob.size(), sizeof(uint8_t), kTensorAlignment);
      auto bytes = builder_.CreateVector(reinterpret_cast<const uint8_t*>(blob.data()), blob.size());
      blobs.push_back(fb::CreateBackendDelegateInlineData(builder_, bytes));
    }
    std::vector<flat::Offset<fb::DataSegment>> segments;
    for (const Segment& segment : segments_)
      segments.push_back(fb::CreateDataSegment(builder_, segment.offset, segment.size));
    if (segments.empty())
      segments.push_back(fb::CreateDataSegment(builder_, 0, 0));  // the constant segment must point at something
    if (constant_offsets_.empty()) constant_offsets_ = {0};
    auto constants = fb::CreateSubsegmentOffsets(builder_, 0, builder_.CreateVector(constant_offsets_));
    flat::Offset<flat::Vector<flat::Offset<fb::SubsegmentOffsets>>> initial;
    if (!initial_offsets_.empty()) {
      auto offsets = builder_.CreateVector(initial_offsets_);
      std::vector<flat::Offset<fb::SubsegmentOffsets>> list{
          fb::CreateSubsegmentOffsets(builder_, static_cast<uint32_t>(initial_segment_), offsets)};
      initial = builder_.CreateVector(list);
    }
    std::vector<flat::Offset<fb::Buffer>> no_buffers;
    auto plans_at = builder_.CreateVector(plans);
    auto buffers_at = builder_.CreateVector(no_buffers);
    auto blobs_at = builder_.CreateVector(blobs);
    auto segments_at = builder_.CreateVector(segments);
    return fb::CreateProgram(builder_, 0, plans_at, buffers_at, blobs_at, segments_at, constants, initial);
  }

  Result<Buffer> assemble() {
    Bytes flatbuffer(reinterpret_cast<const std::byte*>(builder_.GetBufferPointer()), builder_.GetSize());
    if (segment_bytes_ == 0) return Buffer(flatbuffer.begin(), flatbuffer.end());

    // The header goes between identifier and tables; the root offset counts from the start, all others are relative.
    uint64_t program_size = flatbuffer.size() + kHeaderLength;
    uint64_t base = round_up(program_size, kSegmentAlignment);
    Buffer file;
    file.reserve(base + segment_bytes_);
    append(file, load<uint32_t>(flatbuffer.data()) + kHeaderLength);
    append(file, flatbuffer.subspan(4, kHeaderAt - 4));
    append(file, bytes_of("eh00"));
    append(file, kHeaderLength);
    append(file, program_size);
    append(file, base);
    append(file, segment_bytes_);
    CHECK(file.size() == kHeaderAt + kHeaderLength, "the extended header has {} bytes", file.size() - kHeaderAt);
    append(file, flatbuffer.subspan(kHeaderAt));
    for (const Segment& segment : segments_) {
      for (size_t i = 0; i < segment.pieces.size(); ++i) {
        file.resize(base + segment.offset + segment.piece_offsets[i]);
        append(file, segment.pieces[i]);
      }
    }
    return file;
  }

  const Plan& plan_;
  std::span<const Region> delegates_;
  const Graph& graph_;
  const EmitOptions& options_;
  flat::FlatBufferBuilder builder_{1 << 16};
  std::vector<Segment> segments_;
  std::vector<uint64_t> constant_offsets_;
  std::vector<uint64_t> initial_offsets_;
  size_t initial_segment_ = 0;
  std::vector<Bytes> inline_blobs_;
  std::vector<uint32_t> blob_index_;
  uint64_t segment_bytes_ = 0;
};

}  // namespace

Result<Buffer> serialize(const Plan& plan, std::span<const Region> delegates, const Graph& graph,
                         const EmitOptions& options) {
  return Writer(plan, delegates, graph, options).run();
}

}  // namespace swoop::emit
