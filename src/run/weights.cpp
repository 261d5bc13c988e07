#include "run/weights.h"

#include <algorithm>

#include "run/gemm.h"
#include "run/output.h"
#include "support/hash.h"

namespace swoop::ethos {

namespace {

constexpr uint64_t kMaxWeights = uint64_t{1} << 27;  // VGG's first linear layer has 103 million
constexpr uint64_t kMaxCachedWeights = uint64_t{1} << 27;
constexpr size_t kScaleBytes = 10;

Result<Bytes> read_stream(Machine& machine, Cmd region, StreamRegisters names, const char* what) {
  Registers& r = machine.registers;
  uint64_t length = r.payload(names.length);
  int64_t base = length == 0 ? 0 : r.address(names.base);
  int index = static_cast<int>(r.parameter(region));
  TRY(machine.check_registers());
  if (length == 0) return Bytes{};
  if (base % 16 != 0) return error("{} are at byte {}, which is not a multiple of 16.", what, base);
  TRY_ASSIGN(const std::byte* data, machine.memory.readable(index, base, length, what));
  return Bytes{data, length};
}

WeightOrder read_order(Machine& machine, const Window& window, bool depthwise) {
  Registers& r = machine.registers;
  WeightOrder order;
  order.out = window.output.c;
  order.kernel_h = window.kernel_h;
  order.kernel_w = window.kernel_w;
  order.in = depthwise ? 1 : window.input_depth;
  order.depthwise = depthwise;
  order.part_kernel_first = window.part_kernel_first && !depthwise;
  order.input_bytes = 1 << r.bits(Cmd::IFM_PRECISION, 2, 2);
  order.dilation_y = window.dilation_y;
  order.dilation_x = window.dilation_x;
  order.stride_y = window.stride_y;
  order.stride_x = window.stride_x;
  order.block_depth = static_cast<int>(r.parameter(Cmd::OFM_BLK_DEPTH_M1)) + 1;
  order.streams = machine.config.cores;
  order.macs = machine.config.target->macs;
  switch (machine.encoding()) {
    case NpuEncoding::U55: order.microblock_depth = machine.config.target->microblock_outputs(); break;
    case NpuEncoding::U85: {
      constexpr int kMicroblockPixels[] = {1, 2, 4, 4, 8, 16, 1, 1};  // 1x1, 1x2, 1x4, 2x2, 2x4, 4x4
      int pixels = kMicroblockPixels[r.bits(Cmd::ACC_FORMAT, 8, 3)];
      order.microblock_depth = order.macs / (8 * pixels);  // eight MACs work on one output element
      order.fast = r.bits(Cmd::WEIGHT_FORMAT, 0, 1) != 0;
      order.sparse = r.bits(Cmd::WEIGHT_FORMAT, 4, 1) != 0;
      break;
    }
  }
  return order;
}

// A fast stream holds what several decoders would read, block by block in turn.
Result<std::vector<int32_t>> interleave_fast(const WeightOrder& order) {
  const bool wide = order.input_bytes == 2;
  const int input_block = order.part_kernel_first                                              ? 16
                          : order.sparse && !wide                                              ? 128
                          : order.macs <= 256 && order.microblock_depth == 16 && !order.sparse ? 32
                                                                                               : 64;
  const int input_micro = order.part_kernel_first && wide && !order.sparse ? 8 : input_block;
  const int taps = order.part_kernel_first ? (!wide && !order.sparse ? 5 : 10) : 1;
  const size_t block = static_cast<size_t>(order.microblock_depth * input_micro * taps / order.streams);
  std::vector<std::vector<int32_t>> parts;
  size_t total = 0;
  for (int stream = 0; stream < order.streams; ++stream) {
    TRY_ASSIGN(std::vector<int32_t> part, weight_positions_u85(order, stream));
    total += part.size();
    parts.push_back(std::move(part));
  }
  if (order.streams == 1) return std::move(parts[0]);
  std::vector<int32_t> merged;
  merged.reserve(total);
  for (size_t at = 0; merged.size() < total; at += block)
    for (const std::vector<int32_t>& part : parts)
      if (at < part.size())
        merged.insert(merged.end(), part.begin() + static_cast<std::ptrdiff_t>(at),
                      part.begin() + static_cast<std::ptrdiff_t>(std::min(at + block, part.size())));
  return merged;
}

}  // namespace

Result<std::shared_ptr<const Weights>> read_weights(Machine& machine, const Window& window, bool depthwise) {
  const WeightOrder order = read_order(machine, window, depthwise);
  TRY(machine.check_registers());
  const uint64_t needed =
      static_cast<uint64_t>(order.out) * static_cast<uint64_t>(order.kernel_h) * static_cast<uint64_t>(order.kernel_w);
  if (needed > kMaxWeights || needed * static_cast<uint64_t>(order.in) > kMaxWeights)
    return error("The operation has too many weights ({} x {} x {} x {}).", order.out, order.kernel_h, order.kernel_w,
                 order.in);

  std::vector<Bytes> streams;
  for (int i = 0; i < (order.fast ? 1 : order.streams); ++i) {
    TRY_ASSIGN(Bytes stream, read_stream(machine, Cmd::WEIGHT_REGION, kWeightStreams[i], kWeights));
    streams.push_back(stream);
  }
  if (machine.rehearsal) return std::shared_ptr<const Weights>();
  uint64_t hash = 0;
  for (Bytes stream : streams) hash = hash_bytes(stream, hash + 1);
  auto pack = [](auto... fields) {
    uint64_t key = 0;
    ((key = key * 0x100000001b3ull + static_cast<uint64_t>(fields)), ...);
    return key;
  };
  const std::array<uint64_t, 4> key = {hash, pack(order.out, order.kernel_h, order.kernel_w, order.in),
                                       pack(order.depthwise, order.part_kernel_first, order.input_bytes,
                                            order.dilation_y, order.dilation_x, order.stride_y, order.stride_x),
                                       pack(order.block_depth, order.microblock_depth, order.sparse, order.fast)};
  if (auto found = machine.cache->weights.find(key); found != machine.cache->weights.end()) return found->second;

  auto weights = std::make_shared<Weights>();
  *weights = {order.out, order.kernel_h, order.kernel_w, order.in, {}, {}};
  TRY(machine.spend_elements(static_cast<int64_t>(needed) * order.in));
  weights->values.assign(needed * static_cast<uint64_t>(order.in), 0);
  const uint64_t padded = padded_weights(order);
  if (padded > 2 * kMaxWeights)
    return error("The weights fill {} places with their padding, which is too many.", padded);
  TRY(machine.spend_elements(static_cast<int64_t>(padded)));
  for (size_t i = 0; i < streams.size(); ++i) {
    auto in_order = by_encoding(machine.encoding(), weight_positions_u55, weight_positions_u85);
    auto positions = order.fast ? interleave_fast(order) : in_order(order, static_cast<int>(i));
    if (!positions) return positions.error();
    auto decoded = order.fast ? decode_fast_stream(streams[i], positions->size())
                              : decode_weight_stream(streams[i], positions->size());
    if (!decoded) return decoded.error();
    if (decoded->size() != positions->size()) {
      bool harmless =
          streams[i].empty() && std::all_of(positions->begin(), positions->end(), [](int32_t p) { return p < 0; });
      if (!harmless)
        return error("The weight stream holds {} weights; the operation reads {}.", decoded->size(), positions->size());
      continue;
    }
    for (size_t w = 0; w < decoded->size(); ++w)
      if ((*positions)[w] >= 0) weights->values[static_cast<size_t>((*positions)[w])] = (*decoded)[w];
  }
  if (!depthwise) {
    weights->packed = pack_weights(weights->values.data(), order.out, order.kernel_h * order.kernel_w * order.in);
    weights->values = std::vector<int16_t>();  // not {}, which keeps the memory
  }
  NpuRunCache& cache = *machine.cache;
  const uint64_t kept = weights->values.size() + weights->packed.size();
  if (cache.values + kept > kMaxCachedWeights) cache = {};
  cache.values += kept;
  cache.weights[key] = weights;
  return std::shared_ptr<const Weights>(weights);
}

namespace {

int64_t sign_extend(uint64_t value, int width) { return static_cast<int64_t>(value << (64 - width)) >> (64 - width); }

// 40-bit bias, 32-bit scale, 6-bit shift
ChannelScale channel_scale_u55(const std::byte* entry, bool) {
  return {sign_extend(load<uint64_t>(entry), 40), load<uint32_t>(entry + 5), static_cast<int>(entry[9])};
}

// 32-bit bias, 31-bit scale, 6-bit shift; or 48, 15 and 6
ChannelScale channel_scale_u85(const std::byte* entry, bool wide_bias) {
  const int width = wide_bias ? 48 : 32;
  const uint64_t low = load<uint64_t>(entry);
  return {sign_extend(low, width), static_cast<uint32_t>(low >> width), static_cast<int>(entry[8])};
}

}  // namespace

Result<std::vector<ChannelScale>> read_channel_scales(Machine& machine, int channels, bool wide_bias) {
  const int streams = by_encoding(machine.encoding(), std::min(machine.config.cores, channels), 1);
  std::vector<ChannelScale> scales(static_cast<size_t>(channels));
  for (int i = 0; i < streams; ++i) {
    TRY_ASSIGN(Bytes bytes, read_stream(machine, Cmd::SCALE_REGION, kScaleStreams[i], kScales));
    for (int c = i; c < channels; c += streams) {
      size_t at = static_cast<size_t>(c / streams) * kScaleBytes;
      if (!contains(bytes, at, kScaleBytes)) return error("The scales end before channel {} of {}.", c, channels);
      const std::byte* entry = bytes.data() + at;
      ChannelScale& scale = scales[static_cast<size_t>(c)];
      scale = by_encoding(machine.encoding(), channel_scale_u55, channel_scale_u85)(entry, wide_bias);
      if (scale.shift > 63) return error("The scale of channel {} shifts by {}.", c, scale.shift);
    }
  }
  return scales;
}

}  // namespace swoop::ethos
