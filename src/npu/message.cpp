// A call and a program as bytes, for the way to the child that runs regor and back. Both are the same build, so the
// form is free; the reader still checks every length, because the child ran code that may have damaged its own memory.
#include "npu/regor.h"

namespace swoop {
namespace {

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  void field(T& value) {
    if (!take(sizeof(T))) return;
    value = load<T>(bytes_.data() + at_ - sizeof(T));
  }
  void field(Buffer& value) { get_span(value); }
  void field(std::string& value) { get_span(value); }
  template <typename T>
  void field(std::vector<T>& values, void (*walk_one)(Reader&, T&)) {
    uint64_t count = 0;
    field(count);
    for (uint64_t i = 0; i < count && good_; ++i) walk_one(*this, values.emplace_back());
  }
  bool complete() const { return good_ && at_ == bytes_.size(); }

 private:
  bool take(uint64_t size) {
    good_ = good_ && contains(bytes_, at_, size);
    if (good_) at_ += size;
    return good_;
  }
  template <typename T>
  void get_span(T& value) {
    uint64_t size = 0;
    field(size);
    if (!take(size)) return;
    const auto* data = reinterpret_cast<const typename T::value_type*>(bytes_.data() + at_ - size);
    value.assign(data, data + size);
  }

  Bytes bytes_;
  size_t at_ = 0;
  bool good_ = true;
};

class Writer {
 public:
  template <typename T>
  void field(const T& value) {
    append(out_, value);
  }
  void field(const Buffer& value) { put_span(value); }
  void field(const std::string& value) { put_span(bytes_of(value)); }
  template <typename T>
  void field(const std::vector<T>& values, void (*walk_one)(Writer&, const T&)) {
    append(out_, static_cast<uint64_t>(values.size()));
    for (const T& value : values) walk_one(*this, value);
  }
  Buffer take() { return std::move(out_); }

 private:
  void put_span(Bytes bytes) {
    append(out_, static_cast<uint64_t>(bytes.size()));
    append(out_, bytes);
  }
  Buffer out_;
};

// One walk over the fields serves both directions, so that they cannot differ. S is const for the Writer.
template <typename Stream, typename S>
void walk_tensor(Stream& stream, S& tensor) {
  stream.field(tensor.shape);
  stream.field(tensor.elem_size);
  stream.field(tensor.region);
  stream.field(tensor.offset);
}

template <typename Stream, typename S>
void walk_layer(Stream& stream, S& layer) {
  stream.field(layer.name);
  stream.field(layer.tosa_op);
  stream.field(layer.npu_op);
  stream.field(layer.tosa_index);
  stream.field(layer.cycles);
  stream.field(layer.npu_cycles);
  stream.field(layer.macs);
  stream.field(layer.staging_bytes);
  stream.field(layer.access_cycles);
  stream.field(layer.slow);
  stream.field(layer.utilisation);
}

template <typename Stream, typename S>
void walk_operation(Stream& stream, S& operation) {
  stream.field(operation.position);
  stream.field(operation.layer);
}

template <typename Stream, typename S>
void walk_estimates(Stream& stream, S& estimates) {
  stream.field(estimates.macs);
  stream.field(estimates.npu_cycles);
  stream.field(estimates.total_cycles);
  stream.field(estimates.clock_hz);
  stream.field(estimates.inference_ms);
  stream.field(estimates.memories);
  stream.field(estimates.staging_memory);
  stream.field(estimates.staging_peak_bytes);
  stream.field(estimates.arena_cache_size);
  stream.field(estimates.weights_memory);
  stream.field(estimates.feature_map_memory);
  stream.field(estimates.original_weight_bytes);
  stream.field(estimates.encoded_weight_bytes);
  stream.field(estimates.operations);
  stream.field(estimates.operations_after_cascading);
  stream.field(estimates.macs_per_cycle);
  stream.field(estimates.transfer_latency);
  stream.field(estimates.transfer_cycles_per_byte);
  stream.field(estimates.channels_apart);
  stream.field(estimates.layers, walk_layer);
}

template <typename Stream, typename S>
void walk_call(Stream& stream, S& call) {
  stream.field(call.system.system_config);
  stream.field(call.system.memory_mode);
  stream.field(call.system.clock_hz);
  stream.field(call.system.constants);
  stream.field(call.system.feature_maps);
  stream.field(call.system.staging);
  stream.field(call.system.arena_cache_size);
  stream.field(call.system.constants_reads);
  stream.field(call.system.staging_reads);
  stream.field(call.system_config);
  stream.field(call.compiler_options);
}

template <typename Stream, typename S>
void walk_program(Stream& stream, S& program) {
  stream.field(program.commands);
  stream.field(program.weights);
  stream.field(program.weight_region);
  stream.field(program.scratch_size);
  stream.field(program.scratch_region);
  stream.field(program.scratch_fast_size);
  stream.field(program.scratch_fast_region);
  stream.field(program.inputs, walk_tensor);
  stream.field(program.outputs, walk_tensor);
  stream.field(program.variables, walk_tensor);
  walk_estimates(stream, *program.estimates);
  stream.field(program.layer_of_operation, walk_operation);
}

}  // namespace

Buffer encode_call(const RegorCall& call) {
  Writer writer;
  writer.field(std::string(call.target.name));
  walk_call(writer, call);
  return writer.take();
}

Result<RegorCall> decode_call(Bytes bytes) {
  Reader reader(bytes);
  std::string name;
  reader.field(name);
  TRY_ASSIGN(NpuTarget target, parse_target(name));
  RegorCall call{target, {}, {}, {}};
  walk_call(reader, call);
  if (!reader.complete()) return error("the call is damaged");
  return call;
}

Buffer encode_program(const NpuProgram& program) {
  Writer writer;
  walk_program(writer, program);
  return writer.take();
}

Result<NpuProgram> decode_program(Bytes bytes) {
  Reader reader(bytes);
  NpuProgram program;
  program.estimates.emplace();
  walk_program(reader, program);
  if (!reader.complete()) return error("regor's result is damaged.");
  return program;
}

}  // namespace swoop
