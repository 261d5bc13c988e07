// Weights that the NPU writes itself (stream/computed_weights.h), in the stream that regor made with room for them.
// Three kinds of regor's operations are written again:
// - the TABLE, which turned the matrix into codes in its own order: a copy per group of inputs, in the decoder's order;
// - the copy of the constant: headers and ends, each to its place;
// - the convolution: with weights that are there now, in front of its operand.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "run/weight_moves.h"

namespace swoop {

using namespace ethos;

namespace {

// A copy of [height, width, depth] bytes.
struct Copy {
  int height = 1, width = 1, depth = 1;
  int64_t from = 0, from_y = 0, from_x = 0;
  int64_t to = 0, to_y = 0, to_x = 0;
  bool zeros = false;  // what is read does not matter
};

// Where an operation reads or writes bytes, as regor's registers say.
struct Place {
  int64_t base = 0, y = 0, x = 0, c = 0;
  bool bricks = false;
  int64_t at(int row, int column, int channel) const {
    constexpr int kBrick = 16;
    if (!bricks) return base + row * y + column * x + channel;
    return base + row * y + channel / kBrick * c + int64_t{column} * kBrick + channel % kBrick;
  }
  int64_t step_x() const { return bricks ? 16 : x; }
};

// The registers of one side of an operation.
struct Side {
  Cmd base, height0, height1, width0, depth, stride_y, stride_x, stride_c, precision;
};
constexpr Side kIfm{Cmd::IFM_BASE0,    Cmd::IFM_HEIGHT0_M1, Cmd::IFM_HEIGHT1_M1, Cmd::IFM_WIDTH0_M1, Cmd::IFM_DEPTH_M1,
                    Cmd::IFM_STRIDE_Y, Cmd::IFM_STRIDE_X,   Cmd::IFM_STRIDE_C,   Cmd::IFM_PRECISION};
constexpr Side kOfm{Cmd::OFM_BASE0,    Cmd::OFM_HEIGHT0_M1, Cmd::OFM_HEIGHT1_M1, Cmd::OFM_WIDTH0_M1, Cmd::OFM_DEPTH_M1,
                    Cmd::OFM_STRIDE_Y, Cmd::OFM_STRIDE_X,   Cmd::OFM_STRIDE_C,   Cmd::OFM_PRECISION};
constexpr uint32_t kBricks = 1 << 6;  // in a precision

class WeightWriter {
 public:
  WeightWriter(NpuProgram& program, std::span<const ComputedWeights> products, const CopyCycles& cycles)
      : program_(program), products_(products), cycles_(cycles), layers_(program.estimates->layers) {}

  Result<void> run() {
    TRY_ASSIGN(const DriverPayload payload, parse_payload(program_.commands));
    TRY_ASSIGN(const std::vector<NpuCommand> commands, decode_commands(payload));
    if (has_branches(commands)) return error("the program has branches");
    writer_.emplace(program_.commands, payload.stream);
    const std::map<uint32_t, uint32_t> layer_of = layers_by_operation(program_);
    find_blocks(commands, layer_of);
    for (const NpuCommand& command : commands) {
      const auto layer = layer_of.find(command.position);
      if (!command.is_kernel() || layer == layer_of.end()) {
        if (!command_info(static_cast<Cmd>(command.id)).starts_work) remember(command);
        if (static_cast<Cmd>(command.id) == Cmd::OP_DMA_START) remember_transfer();
        writer_->copy(command);
        continue;
      }
      layer_ = layer->second;
      TRY(write_kernel(command));
    }
    TRY(check_all_found());
    TRY(write_scales());
    finish();
    return {};
  }

 private:
  void remember(const NpuCommand& command) {
    const Cmd id = static_cast<Cmd>(command.id);
    registers_.set(id, command.parameter, command.payload);
    written_.set(id, command.parameter, command.payload);
  }

  // How many outputs each convolution computes at once.
  void find_blocks(const std::vector<NpuCommand>& commands, const std::map<uint32_t, uint32_t>& layer_of) {
    int outputs = 0;
    for (const NpuCommand& command : commands) {
      if (static_cast<Cmd>(command.id) == Cmd::OFM_BLK_DEPTH_M1) outputs = command.parameter + 1;
      const auto layer = layer_of.find(command.position);
      if (layer == layer_of.end() || !command.is_kernel()) continue;
      if (const std::optional<int> place = layers_[layer->second].tosa_index) outputs_at_once_[*place] = outputs;
    }
  }

  void remember_transfer() {
    transfers_.push_back({static_cast<int>(registers_.parameter(Cmd::DMA0_SRC_REGION)),
                          registers_.address(Cmd::DMA0_SRC),
                          static_cast<int>(registers_.parameter(Cmd::DMA0_DST_REGION)),
                          registers_.address(Cmd::DMA0_DST), int64_t{registers_.payload(Cmd::DMA0_LEN)}});
  }

  Result<void> write_kernel(const NpuCommand& command) {
    const std::optional<int> place = program_.estimates->layers[layer_].tosa_index;
    for (const ComputedWeights& product : products_) {
      if (!place) break;
      if (*place == product.constants && from_constants()) return write_constants(command, product);
      for (const ComputedWeights::Stream& stream : product.streams) {
        if (*place == stream.table) return write_codes(command, product, stream);
        const auto found = std::ranges::find(stream.products, *place);
        if (found != stream.products.end()) return write_convolution(command, product, stream, *place);
      }
    }
    writer_->copy(command);
    return {};
  }

  bool from_constants() {
    return registers_.is_set(Cmd::IFM_REGION) &&
           static_cast<int>(registers_.parameter(Cmd::IFM_REGION)) == program_.weight_region;
  }

  // ---- registers

  void set(Cmd id, int64_t value) {
    const bool wide = command_info(id).wide;
    if (written_.is_set(id) && (wide ? written_.address(id) : int64_t{written_.parameter(id)}) == value) return;
    const auto parameter = static_cast<uint16_t>(wide ? value >> 32 : value);
    written_.set(id, parameter, static_cast<uint32_t>(value));
    writer_->add(id, parameter, static_cast<uint32_t>(value));
    changed_.push_back(id);
  }

  // As regor's stream has them, for the operations after this one.
  void restore() {
    for (Cmd id : std::exchange(changed_, {}))
      if (registers_.is_set(id))
        set(id, command_info(id).wide ? registers_.address(id) : int64_t{registers_.parameter(id)});
    changed_.clear();
  }

  Place place(const Side& side) {
    return {registers_.address(side.base), registers_.stride(side.stride_y), registers_.stride(side.stride_x),
            registers_.stride(side.stride_c), (registers_.parameter(side.precision) & kBricks) != 0};
  }

  bool has_shape(int height, int width, int depth) {
    const auto is = [&](Cmd id, int size) { return static_cast<int>(registers_.parameter(id)) + 1 == size; };
    return is(Cmd::OFM_HEIGHT_M1, height) && is(Cmd::OFM_WIDTH_M1, width) && is(Cmd::OFM_DEPTH_M1, depth) &&
           is(Cmd::IFM_DEPTH_M1, depth) && is(Cmd::IFM_HEIGHT0_M1, height) && is(Cmd::IFM_WIDTH0_M1, width);
  }

  void set_side(const Side& side, const Copy& copy, int64_t base, int64_t y, int64_t x) {
    set(side.base, base);
    set(side.height0, copy.height - 1);
    set(side.height1, copy.height - 1);
    set(side.width0, copy.width - 1);
    set(side.depth, copy.depth - 1);
    set(side.stride_y, y);
    set(side.stride_x, x);
    set(side.stride_c, 1);
    set(side.precision, registers_.parameter(side.precision) & ~kBricks);
  }

  // One operation like the one that regor has here, which is a pool of 1x1, with or without a table. Its blocks are as
  // large as regor's.
  void add_copy(const NpuCommand& command, const Copy& copy, bool last) {
    const int block =
        block_size(Cmd::OFM_BLK_HEIGHT_M1) * block_size(Cmd::OFM_BLK_WIDTH_M1) * block_size(Cmd::OFM_BLK_DEPTH_M1);
    constexpr int kDeepest = 64;  // of a block
    const int depth = std::min({block, kDeepest, (copy.depth + 7) / 8 * 8}), width = std::clamp(block / depth, 1, 8);
    set_side(kIfm, copy, copy.from, copy.from_y, copy.from_x);
    set_side(kOfm, copy, copy.to, copy.to_y, copy.to_x);
    set(Cmd::OFM_HEIGHT_M1, copy.height - 1);
    set(Cmd::OFM_WIDTH_M1, copy.width - 1);
    set(Cmd::OFM_BLK_DEPTH_M1, depth - 1);
    set(Cmd::OFM_BLK_WIDTH_M1, width - 1);
    set(Cmd::OFM_BLK_HEIGHT_M1, std::clamp(block / depth / width, 1, 8) - 1);
    if (copy.zeros) {
      set(Cmd::ACTIVATION, 0);
      set(Cmd::ACTIVATION_MIN, 0);
      set(Cmd::ACTIVATION_MAX, 0);
    } else {
      for (Cmd id : {Cmd::ACTIVATION, Cmd::ACTIVATION_MIN, Cmd::ACTIVATION_MAX}) set(id, registers_.parameter(id));
    }
    set(Cmd::BLOCKDEP, 0);
    if (last)
      writer_->copy(command);
    else
      writer_->add(static_cast<Cmd>(command.id), command.parameter);
    copied_[layer_].push_back(int64_t{copy.height} * copy.width * copy.depth);
  }

  int block_size(Cmd id) { return static_cast<int>(registers_.parameter(id)) + 1; }

  void add_copies(const NpuCommand& command, const std::vector<Copy>& copies) {
    codes_under_way_ = true;
    copied_[layer_].clear();
    for (size_t i = 0; i < copies.size(); ++i) add_copy(command, copies[i], i + 1 == copies.size());
    restore();
  }

  // ---- the three kinds

  Result<void> write_constants(const NpuCommand& command, const ComputedWeights& product) {
    const Place from = place(kIfm), to = place(kOfm);
    if (to.bricks || from.bricks || to.y != product.head_bytes || !found_.insert(product.constants).second)
      return error("a constant is not where it was expected");
    std::vector<Copy> copies;
    for (const ComputedWeights::Stream& stream : product.streams) {
      int64_t offset = 0;
      for (const WeightCodes::Constant& constant : stream.codes.constants()) {
        const auto bytes = static_cast<int>(constant.bytes.size());
        copies.push_back({product.heads, 1, bytes, from.base + offset, from.y, bytes, to.base + stream.at + constant.at,
                          to.y, bytes});
        offset += bytes;
      }
    }
    if (product.scales) {
      const auto bytes = static_cast<int>(product.streams[0].codes.scale_bytes());
      copies.push_back({product.heads, 1, bytes, from.base + product.scales->in_constant, from.y, bytes,
                        to.base + product.scales->at, to.y, bytes});
      for (int head = 0; head < product.heads; ++head)
        scales_in_constants_[&product].push_back(from.base + head * from.y + product.scales->in_constant);
    }
    add_copies(command, copies);
    return {};
  }

  Result<void> write_codes(const NpuCommand& command, const ComputedWeights& product,
                           const ComputedWeights::Stream& stream) {
    WeightCodes codes = stream.codes;
    const Place to = place(kOfm);
    for (int index : stream.products)
      if (!codes.set_outputs_at_once(outputs_at_once_[index]) ||
          outputs_at_once_[index] != outputs_at_once_[stream.products[0]])
        return error("a product has too shallow blocks");
    if (to.bricks || to.y != product.head_bytes || !has_shape(product.heads, codes.channels(), codes.depth()) ||
        !found_.insert(stream.table).second)
      return error("codes of weights are not where they were expected");
    const int number = static_cast<int>(&stream - product.streams.data());
    // The first head's start: parts of the tensor stand one after the other, the constant first.
    const int64_t head =
        to.base - product.operand + (std::ssize(product.streams) - number) * codes.channels() * int64_t{codes.depth()};
    std::vector<Copy> copies;
    for (int block = 0; block < codes.blocks(); ++block)
      for (int group = 0; group < WeightCodes::kGroups; ++group)
        add_group(copies, place(kIfm), codes, block, group, head + stream.at, product);
    add_copies(command, copies);
    return {};
  }

  // Eight inputs of all outputs and heads.
  void add_group(std::vector<Copy>& copies, const Place& from, const WeightCodes& codes, int block, int group,
                 int64_t stream, const ComputedWeights& product) {
    const int first = (block * WeightCodes::kGroups + group) * WeightCodes::kGroup;
    const int inputs = std::clamp(codes.depth() - first, 0, WeightCodes::kGroup);
    const int micro = codes.microblock();
    const auto add = [&](int row, int channel, int rows) {  // rows of the stream, from a channel of the matrix on
      const auto copy_of = [&](int column, int depth, bool zeros) {
        const int64_t to = stream + codes.row(block, row) + int64_t{group} * micro * WeightCodes::kGroup;
        const int64_t step = from.at(0, 1, column) - from.at(0, 0, column);
        const bool over_heads = product.heads >= rows;
        for (int i = 0; i < (over_heads ? rows : product.heads); ++i) {
          Copy copy{over_heads ? product.heads : rows, micro, depth, 0, 0, step, 0, 0, WeightCodes::kGroup, zeros};
          copy.from = from.at(over_heads ? 0 : i, channel + (over_heads ? i * micro : 0), column);
          copy.from_y = over_heads ? from.y : micro * step;
          copy.to = to + (over_heads ? i * codes.row_bytes() : i * product.head_bytes);
          copy.to_y = over_heads ? product.head_bytes : codes.row_bytes();
          copies.push_back(copy);
        }
      };
      // A depth that is no multiple of 32 is filled up with zeros, made of whatever is read in the first group.
      if (inputs < WeightCodes::kGroup) copy_of(0, WeightCodes::kGroup, true);
      if (inputs > 0) copy_of(first, inputs, false);
    };
    const int unused = codes.unused_rows();
    if (!codes.has_header(block)) add(0, 0, unused);  // any weights do
    for (int row = unused; row < codes.rows(); row = codes.last_row(row) + 1)
      add(row, (row - unused) * micro, codes.last_row(row) - row + 1);
  }

  Result<void> write_convolution(const NpuCommand& command, const ComputedWeights& product,
                                 const ComputedWeights::Stream& stream, int index) {
    const WeightCodes& codes = stream.codes;
    const int outputs = codes.outputs();
    if (product.scales && found_.contains(index)) return {};  // a part of one that is whole now
    const Place operand = place(kIfm);
    constexpr uint32_t kPartKernelFirst = 1 << 2;  // in KERNEL_STRIDE: inputs would come in another order
    const int written = static_cast<int>(registers_.parameter(Cmd::OFM_DEPTH_M1)) + 1;
    const bool expected = !operand.bricks && (product.scales ? written <= outputs : written == outputs) &&
                          static_cast<int>(registers_.parameter(Cmd::IFM_DEPTH_M1)) + 1 == codes.depth() &&
                          (operand.x == codes.depth() || product.rows == 1) &&
                          static_cast<int>(registers_.parameter(Cmd::OFM_HEIGHT_M1)) == 0 &&
                          static_cast<int>(registers_.parameter(Cmd::OFM_WIDTH_M1)) + 1 == product.rows &&
                          (registers_.parameter(Cmd::KERNEL_STRIDE) & kPartKernelFirst) == 0;
    if (!expected || !found_.insert(index).second) return error("a product is not what it was expected to be");
    set(Cmd::WEIGHT_REGION, registers_.parameter(Cmd::IFM_REGION));
    set(Cmd::WEIGHT_BASE, operand.base - product.operand + stream.at);
    set(Cmd::WEIGHT_LENGTH, codes.bytes());
    if (product.scales) {
      TRY(find_scales(product));
      set(Cmd::OFM_DEPTH_M1, outputs - 1);
      set(Cmd::SCALE_REGION, registers_.parameter(Cmd::IFM_REGION));
      set(Cmd::SCALE_BASE, operand.base - product.operand + product.scales->at);
      set(Cmd::SCALE_LENGTH, codes.scale_bytes());
    }
    set(Cmd::BLOCKDEP, 0);
    if (std::exchange(codes_under_way_, false)) writer_->add(Cmd::OP_KERNEL_WAIT, 0);  // weights are fetched ahead
    writer_->copy(command);
    restore();
    const int blocks = (product.rows + block_size(Cmd::OFM_BLK_WIDTH_M1) - 1) / block_size(Cmd::OFM_BLK_WIDTH_M1);
    read_[layer_] += blocks * codes.bytes();  // once for each block of the result
    return {};
  }

  // All outputs of a product have the same scale: the one of its first convolution's first output, in the constants.
  Result<void> find_scales(const ComputedWeights& product) {
    if (scale_of_.contains(&product)) return {};
    int region = static_cast<int>(registers_.parameter(Cmd::SCALE_REGION));
    int64_t at = registers_.address(Cmd::SCALE_BASE);
    for (auto move = transfers_.rbegin(); move != transfers_.rend() && region != program_.weight_region; ++move)
      if (move->to_region == region && move->to <= at && at + WeightCodes::kScaleBytes <= move->to + move->bytes) {
        region = move->from_region;
        at += move->from - move->to;
      }
    if (region != program_.weight_region ||
        !contains(program_.weights, static_cast<uint64_t>(at), WeightCodes::kScaleBytes))
      return error("the scales of a product are not constants");
    const auto first = program_.weights.begin() + at;
    scale_of_[&product] = Buffer(first, first + WeightCodes::kScaleBytes);
    return {};
  }

  Result<void> write_scales() {
    for (const auto& [product, places] : scales_in_constants_)
      for (int64_t place : places) {
        const int outputs = product->streams[0].codes.outputs();
        const auto scale = scale_of_.find(product);
        if (scale == scale_of_.end() || !contains(program_.weights, static_cast<uint64_t>(place),
                                                  static_cast<uint64_t>(outputs) * WeightCodes::kScaleBytes))
          return error("scales have no place in the constants");
        for (int i = 0; i < outputs; ++i)
          std::ranges::copy(scale->second, program_.weights.begin() + place + i * WeightCodes::kScaleBytes);
      }
    return {};
  }

  Result<void> check_all_found() const {
    size_t expected = 0;
    for (const ComputedWeights& product : products_) {
      ++expected;
      for (const ComputedWeights::Stream& stream : product.streams) expected += 1 + stream.products.size();
    }
    if (found_.size() != expected) return error("{} of {} operations were found", found_.size(), expected);
    return {};
  }

  // ---- the figures

  void finish() {
    Estimates& estimates = *program_.estimates;
    const double per_byte = sram_cycles_per_byte(estimates);
    for (const auto& [at, copies] : copied_) {
      double cycles = 0, elements = 0;
      for (int64_t count : copies) {
        cycles += cycles_.each + cycles_.element * static_cast<double>(count);
        elements += static_cast<double>(count);
      }
      Layer& layer = layers_[at];
      layer.npu_cycles = std::llround(cycles);
      for (int64_t& access : layer.access_cycles)  // regor counts an operation of a copy for each element
        access = std::llround(static_cast<double>(access) * elements /
                              static_cast<double>(std::max<int64_t>(1, layer.macs)));
      layer.cycles = slowest_part(layer);
    }
    int64_t bytes = 0;
    for (const auto& [at, read] : read_) {
      layers_[at].access_cycles[static_cast<size_t>(NpuMemory::Sram)] +=
          std::llround(per_byte * static_cast<double>(read));
      layers_[at].cycles = slowest_part(layers_[at]);
      bytes += read;
    }
    for (StreamOperation& operation : program_.layer_of_operation)
      operation.position = writer_->moved(operation.position);
    program_.commands = writer_->payload();
    if (std::optional<MemoryEstimate>& memory = estimates.memories[static_cast<size_t>(NpuMemory::Sram)]) {
      memory->weight_read_bytes += bytes;
      memory->total_bytes += bytes;
    }
    replace_layers(estimates, std::move(layers_));
  }

  NpuProgram& program_;
  std::span<const ComputedWeights> products_;
  const CopyCycles cycles_;
  std::vector<Layer> layers_;
  std::optional<StreamWriter> writer_;
  Registers registers_;  // as regor sets them
  Registers written_;
  std::vector<Cmd> changed_;
  bool codes_under_way_ = false;                     // no wait since they were written
  uint32_t layer_ = 0;                               // of the operation at hand
  std::set<int> found_;                              // places of operators
  std::map<uint32_t, std::vector<int64_t>> copied_;  // by layer: the elements of each copy
  struct Transfer {
    int from_region;
    int64_t from;
    int to_region;
    int64_t to, bytes;
  };
  std::vector<Transfer> transfers_;
  std::map<const ComputedWeights*, Buffer> scale_of_;
  std::map<const ComputedWeights*, std::vector<int64_t>> scales_in_constants_;  // never walked in an order that matters
  std::map<int, int> outputs_at_once_;                                          // by place
  std::map<uint32_t, int64_t> read_;                                            // by layer: bytes of weights
};

}  // namespace

Result<void> write_computed_weights(NpuProgram& program, std::span<const ComputedWeights> products,
                                    const CopyCycles& cycles) {
  if (!program.estimates) return error("the program has no estimates");
  return WeightWriter(program, products, cycles).run();
}

}  // namespace swoop
