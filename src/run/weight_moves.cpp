#include "run/weight_moves.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace swoop::ethos {

namespace {

constexpr Cmd kTransfer[] = {Cmd::DMA0_SRC_REGION, Cmd::DMA0_DST_REGION, Cmd::DMA0_SRC,
                             Cmd::DMA0_DST,        Cmd::DMA0_LEN,        Cmd::DMA0_SIZE0};

}  // namespace

int64_t bytes_of(const Pieces& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

void add_places(Places& places, const Pieces& pieces, int64_t place) {
  for (const Piece& piece : pieces) {
    places[piece.base] = place;
    place += piece.bytes;
  }
}

bool reads_weights(const NpuCommand& command) {
  const Cmd id = static_cast<Cmd>(command.id);
  return id == Cmd::OP_CONV || id == Cmd::OP_DEPTHWISE;
}

bool has_branches(const std::vector<NpuCommand>& commands) {
  return std::ranges::any_of(commands, [](const NpuCommand& c) { return static_cast<Cmd>(c.id) == Cmd::OP_BRANCH; });
}

std::map<uint32_t, uint32_t> layers_by_operation(const NpuProgram& program) {
  std::map<uint32_t, uint32_t> layers;
  for (const StreamOperation& operation : program.layer_of_operation) layers[operation.position] = operation.layer;
  return layers;
}

std::optional<SramArea> sram_area(const NpuProgram& program) {
  if (!program.estimates) return std::nullopt;
  const Estimates& estimates = *program.estimates;
  const bool shared = estimates.feature_map_memory == NpuMemory::Sram;
  if (!shared && estimates.staging_memory != NpuMemory::Sram) return std::nullopt;
  if (estimates.weights_memory == NpuMemory::Sram) return std::nullopt;
  if (!estimates.memory(NpuMemory::Sram) || !estimates.memory(estimates.weights_memory)) return std::nullopt;
  if (shared) return SramArea{program.scratch_region, static_cast<int64_t>(program.scratch_size)};
  return SramArea{program.scratch_fast_region, static_cast<int64_t>(program.scratch_fast_size.value_or(0))};
}

void SramArea::grow(NpuProgram& program, int64_t bytes) const {
  Estimates& estimates = *program.estimates;
  estimates.memories[static_cast<size_t>(NpuMemory::Sram)]->bytes_used += bytes;
  if (estimates.staging_memory == NpuMemory::Sram) estimates.staging_peak_bytes += bytes;
  if (region == program.scratch_region)
    program.scratch_size += static_cast<uint64_t>(bytes);
  else
    program.scratch_fast_size = program.scratch_fast_size.value_or(0) + static_cast<uint64_t>(bytes);
}

// ---- the estimates

void LayerReads::add(uint32_t layer, const Constants& constants) {
  weights_[layer] += bytes_of(constants.weights);
  scales_[layer] += bytes_of(constants.scales);
}

double LayerReads::part(const Bytes& all, uint32_t layer, const Pieces& pieces) {
  const auto bytes = all.find(layer);
  if (bytes == all.end() || bytes->second == 0) return 0;
  return static_cast<double>(bytes_of(pieces)) / static_cast<double>(bytes->second);
}

double sram_cycles_per_byte(const Estimates& estimates) {
  const std::optional<MemoryEstimate>& sram = estimates.memory(NpuMemory::Sram);
  if (!sram || sram->total_bytes == 0) return 0;
  return static_cast<double>(sram->access_cycles) / static_cast<double>(sram->total_bytes);
}

WeightTraffic::WeightTraffic(const Estimates& estimates)
    : memory_(estimates.weights_memory),
      apart_(estimates.channels_apart),
      latency_(estimates.transfer_latency),
      transfer_(estimates.transfer_cycles_per_byte),
      sram_(sram_cycles_per_byte(estimates)) {}

int64_t WeightTraffic::transfer_cycles(int64_t bytes) const {
  return bytes > 0 ? std::llround(latency_ + static_cast<double>(bytes) * std::max(transfer_, sram_)) : 0;
}

int64_t WeightTraffic::transfer_bytes(int64_t cycles) const {
  const double left = static_cast<double>(cycles) - latency_;
  return left > 0 ? static_cast<int64_t>(left / std::max(transfer_, sram_)) : 0;
}

Layer WeightTraffic::estimate(Layer layer, const Moved& moved) const {
  auto take = [](int64_t& part, double share) {
    const int64_t taken = std::llround(static_cast<double>(part) * std::min(share, 1.0));
    part -= taken;
    return taken;
  };
  SlowReads& slow = layer.slow;
  const int64_t near = take(slow.weight_bytes, moved.weights) + moved.transferred;
  take(slow.weight_cycles, moved.weights);
  take(slow.scale_cycles, moved.scales);
  layer.npu_cycles -= take(slow.scale_npu_cycles, moved.scales);
  const int64_t transfers = transfer_cycles(moved.transferred);
  layer.access_cycles[static_cast<size_t>(memory_)] =
      apart_ ? std::max({slow.other_cycles, slow.weight_cycles, slow.scale_cycles, transfers})
             : slow.other_cycles + slow.weight_cycles + slow.scale_cycles + transfers;
  layer.access_cycles[static_cast<size_t>(NpuMemory::Sram)] += std::llround(static_cast<double>(near) * sram_);
  layer.cycles = slowest_part(layer);
  return layer;
}

int64_t slowest_part(const Layer& layer) { return std::max(layer.npu_cycles, std::ranges::max(layer.access_cycles)); }

void WeightTraffic::account(Estimates& estimates, int64_t read, int64_t brought) const {
  MemoryEstimate& slow = *estimates.memories[static_cast<size_t>(memory_)];
  slow.weight_read_bytes -= read - brought;
  slow.total_bytes -= read - brought;
  MemoryEstimate& sram = *estimates.memories[static_cast<size_t>(NpuMemory::Sram)];
  sram.weight_read_bytes += read;
  sram.weight_write_bytes += brought;
  sram.total_bytes += read + brought;
}

void replace_layers(Estimates& estimates, std::vector<Layer> layers) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& before = estimates.layers[i];
    estimates.total_cycles += layers[i].cycles - before.cycles;
    estimates.npu_cycles += layers[i].npu_cycles - before.npu_cycles;
    for (size_t m = 0; m < kNpuMemoryCount; ++m)
      if (estimates.memories[m])
        estimates.memories[m]->access_cycles += layers[i].access_cycles[m] - before.access_cycles[m];
    const int64_t possible = layers[i].cycles * estimates.macs_per_cycle;
    if (possible > 0) layers[i].utilisation = static_cast<double>(layers[i].macs) / static_cast<double>(possible);
  }
  estimates.inference_ms = 1e3 * static_cast<double>(estimates.total_cycles) / estimates.clock_hz;
  estimates.layers = std::move(layers);
}

// ---- the stream

MovedStream::MovedStream(const DriverPayload& payload, const NpuProgram& program)
    : program_(program),
      decoders_(std::min(static_cast<size_t>(payload.config.cores), std::size(kWeightStreams))),
      scale_streams_(by_encoding(payload.config.target->facts().encoding, decoders_, size_t{1})),
      counts_rows_(by_encoding(payload.config.target->facts().encoding, false, true)),
      writer_(program.commands, payload.stream) {}

Constants MovedStream::constants() {
  return {pieces(Cmd::WEIGHT_REGION, std::span(kWeightStreams).first(decoders_)),
          pieces(Cmd::SCALE_REGION, std::span(kScaleStreams).first(scale_streams_))};
}

Pieces MovedStream::pieces(Cmd region, std::span<const StreamRegisters> streams) {
  Pieces pieces;
  if (!registers_.is_set(region)) return pieces;
  if (static_cast<int>(registers_.parameter(region)) != program_.weight_region) return pieces;
  for (const auto& [base, length] : streams) {
    if (!registers_.is_set(base) || !registers_.is_set(length)) continue;
    const auto bytes = static_cast<int64_t>(registers_.payload(length));
    if (bytes % kWeightAlignment != 0) return {};  // regor does not make such ones
    if (bytes > 0) pieces.push_back({registers_.address(base), bytes, base});
  }
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

bool MovedStream::deferred(Cmd id) const {
  auto names = [&](std::span<const StreamRegisters> streams) {
    return std::ranges::find(streams, id, &StreamRegisters::base) != streams.end();
  };
  if (id == Cmd::WEIGHT_REGION || id == Cmd::SCALE_REGION) return true;
  if (id == Cmd::DMA0_SIZE0) return counts_rows_;
  return std::ranges::find(kTransfer, id) != std::end(kTransfer) || names(kWeightStreams) || names(kScaleStreams);
}

void MovedStream::set(Cmd id, int64_t value) {
  const bool wide = command_info(id).wide;
  if (written_.is_set(id) && (wide ? written_.address(id) : int64_t{written_.parameter(id)}) == value) return;
  const auto parameter = static_cast<uint16_t>(wide ? value >> 32 : value);
  written_.set(id, parameter, static_cast<uint32_t>(value));
  writer_.add(id, parameter, static_cast<uint32_t>(value));
}

void MovedStream::set_as_read(Cmd id, std::optional<int64_t> instead) {
  if (!deferred(id) || !registers_.is_set(id)) return;
  set(id, instead.value_or(command_info(id).wide ? registers_.address(id) : int64_t{registers_.parameter(id)}));
}

void MovedStream::write(const NpuCommand& command, const SramArea& sram, const Places& places) {
  const Cmd id = static_cast<Cmd>(command.id);
  if (!command_info(id).starts_work) {
    registers_.set(id, command.parameter, command.payload);
    if (!deferred(id)) writer_.copy(command);
    return;
  }
  if (id == Cmd::OP_DMA_START)
    for (Cmd needed : kTransfer) set_as_read(needed);
  auto set_streams = [&](Cmd region, std::span<const StreamRegisters> streams) {
    bool is_moved = false;
    for (const StreamRegisters& stream : streams) {
      const auto place = places.find(stream.base);
      is_moved = is_moved || place != places.end();
      set_as_read(stream.base, place != places.end() ? std::optional(place->second) : std::nullopt);
    }
    set_as_read(region, is_moved ? std::optional<int64_t>(sram.region) : std::nullopt);
  };
  if (reads_weights(command)) set_streams(Cmd::WEIGHT_REGION, kWeightStreams);
  if (command.is_kernel()) set_streams(Cmd::SCALE_REGION, kScaleStreams);  // some sums of the U85 have scales too
  writer_.copy(command);
}

void MovedStream::add_transfers(const Pieces& pieces, const SramArea& sram, int64_t place, int64_t first,
                                int64_t last) {
  struct Run {
    int64_t from, to, bytes;
  };
  std::vector<Run> runs;
  int64_t offset = 0;
  for (const Piece& piece : pieces) {
    const int64_t begin = std::max(first, offset), end = std::min(last, offset + piece.bytes);
    if (begin < end) {
      const Run run{piece.from + begin - offset, place + begin, end - begin};
      if (!runs.empty() && runs.back().from + runs.back().bytes == run.from)
        runs.back().bytes += run.bytes;
      else
        runs.push_back(run);
    }
    offset += piece.bytes;
  }
  for (const Run& run : runs) {
    set(Cmd::DMA0_SRC_REGION, program_.weight_region);
    set(Cmd::DMA0_DST_REGION, sram.region);
    set(Cmd::DMA0_SRC, run.from);
    set(Cmd::DMA0_DST, run.to);
    set(Cmd::DMA0_LEN, run.bytes);
    if (counts_rows_) set(Cmd::DMA0_SIZE0, 1);
    writer_.add(Cmd::OP_DMA_START, 0);
  }
}

void MovedStream::finish(NpuProgram& program) const {
  Buffer commands = writer_.payload();
  for (StreamOperation& operation : program.layer_of_operation) operation.position = writer_.moved(operation.position);
  program.commands = std::move(commands);
}

}  // namespace swoop::ethos
