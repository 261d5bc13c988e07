// The block format of the delegate (executorch 1.5.1, backends/arm: arm_vela.py writes it, VelaBinStream.cpp reads it).
// A block is a 16-byte name, a uint32 payload size, a byte that says whether the payload is only the key of data kept
// elsewhere, 11 zero bytes, then the payload, zero-padded to 16 bytes.
#include <algorithm>
#include <limits>

#include "stream/stream.h"

namespace swoop {
namespace {

constexpr size_t kNameSize = 16;
constexpr size_t kHeaderSize = 32;
constexpr size_t kAlignment = 16;  // the NPU reads commands and weights in 16-byte units
constexpr size_t kTensorSize = 9 * sizeof(int32_t);
constexpr std::string_view kFirst = "vela_bin_stream";
constexpr std::string_view kLast = "vela_end_stream";

size_t padded(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

void append_block(Buffer& out, std::string_view name, Bytes payload) {
  const size_t begin = out.size();
  append(out, bytes_of(name));
  out.resize(begin + kNameSize);
  append(out, static_cast<uint32_t>(payload.size()));
  out.resize(begin + kHeaderSize);
  append(out, payload);
  out.resize(begin + kHeaderSize + padded(payload.size()));
}

Result<Buffer> pack_tensors(std::string_view what, const std::vector<NpuTensor>& tensors) {
  Buffer out;
  append(out, static_cast<int32_t>(tensors.size()));
  for (const NpuTensor& tensor : tensors) {
    if (tensor.offset < 0 || tensor.offset > std::numeric_limits<int32_t>::max()) {
      return error(
          "One of the region's {} is {} bytes into its arena; the program format has room for 2 GiB. Split the "
          "model.",
          what, tensor.offset);
    }
    for (int32_t dim : tensor.shape) append(out, dim);
    append(out, tensor.elem_size);
    append(out, static_cast<int32_t>(tensor.offset));
    append(out, static_cast<int32_t>(tensor.region));
  }
  return out;
}

// A size that a 32-bit field of the file must hold.
Result<void> check_size(std::string_view what, uint64_t size) {
  if (size <= std::numeric_limits<uint32_t>::max()) return {};
  return error("The NPU program's {} is {} bytes; the program format has room for 4 GiB. Split the model.", what, size);
}

struct Block {
  std::string_view name;
  Bytes payload;
};

// The block at `offset`; moves `offset` past it.
Result<Block> read_block(Bytes blob, size_t& offset) {
  if (!contains(blob, offset, kHeaderSize)) {
    return error("The NPU program is cut off: a block header should be at byte {} of {}.", offset, blob.size());
  }
  const std::string_view field = text_of(blob.subspan(offset, kNameSize));
  const std::string_view name = field.substr(0, field.find('\0'));
  const uint64_t size = load<uint32_t>(blob.data() + offset + kNameSize);
  const auto external = load<uint8_t>(blob.data() + offset + kNameSize + 4);
  if (name.size() == kNameSize || !std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; })) {
    return error("The NPU program has a block without a readable name at byte {}.", offset);
  }
  if (!contains(blob, offset + kHeaderSize, padded(size))) {
    return error("The NPU program's block '{}' at byte {} claims {} bytes, more than the program has.", name, offset,
                 size);
  }
  if (external == 1) {
    return error("The NPU program keeps its block '{}' in a separate data file, which cannot be read here.", name);
  }
  if (external != 0) return error("The NPU program's block '{}' has the unknown kind {}.", name, external);
  const Block block{name, blob.subspan(offset + kHeaderSize, size)};
  offset += kHeaderSize + padded(size);
  return block;
}

Result<std::vector<NpuTensor>> unpack_tensors(std::string_view what, Bytes payload) {
  if (payload.size() < sizeof(int32_t)) return error("The NPU program's list of {} has no length.", what);
  const auto count = load<int32_t>(payload.data());
  if (count < 0 || payload.size() != sizeof(int32_t) + static_cast<uint64_t>(count) * kTensorSize) {
    return error("The NPU program lists {} {} in {} bytes, which do not fit together.", count, what, payload.size());
  }
  std::vector<NpuTensor> tensors(static_cast<size_t>(count));
  const std::byte* at = payload.data() + sizeof(int32_t);
  for (NpuTensor& tensor : tensors) {
    for (int32_t& dim : tensor.shape) {
      dim = load<int32_t>(at);
      at += sizeof(int32_t);
    }
    tensor.elem_size = load<int32_t>(at);
    tensor.offset = load<int32_t>(at + 4);
    tensor.region = load<int32_t>(at + 8);
    at += 3 * sizeof(int32_t);
  }
  return tensors;
}

Result<void> check_list(std::string_view what, const std::vector<NpuTensor>& tensors, uint64_t scratch_size) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const NpuTensor& tensor = tensors[i];
    // Regions 3 and 4 exist in Vela (--separate-io-regions), but the device runtime copies to and from the arena alone.
    if (tensor.region != kScratchRegion) {
      return error("{} {} of the NPU program is in region {}; the runtime only knows those in region {}.", what, i,
                   tensor.region, kScratchRegion);
    }
    if (tensor.elem_size < 1 || tensor.elem_size > 8) {
      return error("{} {} of the NPU program has elements of {} bytes.", what, i, tensor.elem_size);
    }
    // scratch_size is below 2^32 and every factor below 2^31, so the product cannot overflow before it is found too
    // large.
    uint64_t size = static_cast<uint64_t>(tensor.elem_size);
    for (int32_t dim : tensor.shape) {
      if (dim < 1) return error("{} {} of the NPU program has a dimension of {}.", what, i, dim);
      if (size <= scratch_size) size *= static_cast<uint64_t>(dim);
    }
    if (tensor.offset < 0 || static_cast<uint64_t>(tensor.offset) > scratch_size ||
        size > scratch_size - static_cast<uint64_t>(tensor.offset)) {
      return error("{} {} of the NPU program is not inside its arena of {} bytes.", what, i, scratch_size);
    }
  }
  return {};
}

}  // namespace

int64_t NpuTensor::byte_size() const {
  int64_t size = elem_size;
  for (int32_t dim : shape) size *= dim;
  return size;
}

Result<void> check_tensors(const NpuProgram& program) {
  TRY(check_list("Input", program.inputs, program.scratch_size));
  TRY(check_list("Output", program.outputs, program.scratch_size));
  return check_list("Variable", program.variables, program.scratch_size);
}

Result<Buffer> pack(const NpuProgram& program) {
  if (!program.variables.empty()) {
    return error("The NPU program has {} variables, for which the program format has no place.",
                 program.variables.size());
  }
  TRY(check_size("command stream", program.commands.size()));
  TRY(check_size("weights", program.weights.size()));
  TRY(check_size("arena", program.scratch_size));
  TRY_ASSIGN(const Buffer inputs, pack_tensors("inputs", program.inputs));
  TRY_ASSIGN(const Buffer outputs, pack_tensors("outputs", program.outputs));
  const auto scratch_size = static_cast<uint32_t>(program.scratch_size);

  Buffer out;
  out.reserve(7 * (kHeaderSize + kAlignment) + program.commands.size() + program.weights.size() + inputs.size() +
              outputs.size());
  append_block(out, kFirst, {});
  append_block(out, "cmd_data", program.commands);
  append_block(out, "weight_data", program.weights);
  append_block(out, "scratch_size", std::as_bytes(std::span(&scratch_size, 1)));
  append_block(out, "inputs", inputs);
  append_block(out, "outputs", outputs);
  append_block(out, kLast, {});
  return out;
}

Result<NpuProgram> unpack(Bytes blob) {
  size_t offset = 0;
  TRY_ASSIGN(const Block first, read_block(blob, offset));
  if (first.name != kFirst)
    return error("This is no NPU program: it starts with '{}' instead of '{}'.", first.name, kFirst);
  if (!first.payload.empty()) return error("The NPU program's first block is not empty.");

  std::optional<Bytes> commands, weights, scratch, inputs, outputs;
  for (;;) {
    TRY_ASSIGN(const Block block, read_block(blob, offset));
    if (block.name == kLast) {
      if (!block.payload.empty() || offset != blob.size()) {
        return error("The NPU program ends at byte {}, but there are {}.", offset, blob.size());
      }
      break;
    }
    std::optional<Bytes>* place = block.name == "cmd_data"       ? &commands
                                  : block.name == "weight_data"  ? &weights
                                  : block.name == "scratch_size" ? &scratch
                                  : block.name == "inputs"       ? &inputs
                                  : block.name == "outputs"      ? &outputs
                                                                 : nullptr;
    if (!place) return error("The NPU program has the unknown block '{}'.", block.name);
    if (*place) return error("The NPU program has the block '{}' twice.", block.name);
    *place = block.payload;
  }
  if (!commands || !weights || !scratch || !inputs || !outputs) {
    return error("The NPU program has no block '{}'.", !commands  ? "cmd_data"
                                                       : !weights ? "weight_data"
                                                       : !scratch ? "scratch_size"
                                                       : !inputs  ? "inputs"
                                                                  : "outputs");
  }
  if (commands->size() < 4 || (text_of(commands->first(4)) != "COP1" && text_of(commands->first(4)) != "COP2")) {
    return error("The NPU program's commands do not start with COP1 or COP2.");
  }
  if (scratch->size() != sizeof(uint32_t)) return error("The NPU program's scratch_size is not a 32-bit number.");

  NpuProgram program;
  program.commands.assign(commands->begin(), commands->end());
  program.weights.assign(weights->begin(), weights->end());
  program.scratch_size = load<uint32_t>(scratch->data());
  TRY_ASSIGN(program.inputs, unpack_tensors("inputs", *inputs));
  TRY_ASSIGN(program.outputs, unpack_tensors("outputs", *outputs));
  TRY(check_tensors(program));
  return program;
}

}  // namespace swoop
