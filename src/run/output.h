// The output stage: accumulator -> scale and round -> zero point -> clip -> look-up table -> memory or chain buffer.
// Rounding follows TOSA's RESCALE and regor's own constant folding, which the hardware must agree with.
#pragma once

#include "run/machine.h"

namespace swoop::ethos {

enum class Rounding { DoubleSymmetric, Natural, DoubleAsymmetric, Symmetric, TruncateToZero, TruncateToLower };

// value * scale / 2^shift. double_shift moves the first of two roundings (U85's DBL_RND; 0 elsewhere).
int64_t scale_and_round(int64_t value, uint32_t scale, int shift, Rounding rounding, int double_shift = 0);

struct ChannelScale {
  int64_t bias = 0;
  uint32_t scale = 1;
  int shift = 0;
};

enum class Table { None, Bytes, BytesTo16, BytesTo32, Interpolated16, Interpolated32 };

struct OutputStage {
  FeatureMap map;
  Shape3 shape;  // before a transpose
  Rounding rounding = Rounding::Natural;
  int double_shift = 0;
  bool per_channel = false;
  ChannelScale global;
  std::vector<ChannelScale> channels;  // one per output channel when per_channel
  bool clip = false;
  int64_t clip_low = 0, clip_high = 0;
  Table table = Table::None;
  bool table_signed = true;
  const std::byte* table_data = nullptr;  // in internal memory
  int chain = -1;                         // U85: index of a chain buffer instead of memory
  bool discard = false;                   // U85: nothing is written, the accumulators are kept
  int reverse = 0;                        // U85: 0 none, 1 height, 2 width, 3 channels
  int transpose = 0;                      // U85: activation_transpose

  // Scale, zero point, clip, table.
  int32_t finish(int64_t accumulator, int channel) const {
    const ChannelScale& s = per_channel ? channels[static_cast<size_t>(channel)] : global;
    return activate(
        scale_and_round(static_cast<int64_t>(static_cast<uint64_t>(accumulator) + static_cast<uint64_t>(s.bias)),
                        s.scale, s.shift, rounding, double_shift));
  }
  // 64-bit output: scale and zero point only.
  int64_t finish64(int64_t accumulator, int channel) const {
    const ChannelScale& s = per_channel ? channels[static_cast<size_t>(channel)] : global;
    uint64_t scaled = static_cast<uint64_t>(
        scale_and_round(static_cast<int64_t>(static_cast<uint64_t>(accumulator) + static_cast<uint64_t>(s.bias)),
                        s.scale, s.shift, rounding, double_shift));
    return static_cast<int64_t>(scaled + static_cast<uint64_t>(int64_t{map.zero_point}));
  }
  int32_t activate(int64_t value) const;
  int32_t look_up(int64_t value) const;  // itself where there is no table
  void look_up_all(int32_t* values, int64_t count) const;
  // A row of accumulators of one pixel, all channels.
  void finish_row(const int32_t* accumulators, int32_t* out, int channels_in_row) const;
  // Any number of accumulators that share one scale.
  void finish_same_scale(const int64_t* accumulators, int32_t* out, int64_t count) const;
};

// Reads all output registers. Channel scales are read by the convolution, which knows their number.
Result<OutputStage> read_output_stage(Machine& machine);

// Per-channel biases and scales from the scale streams.
Result<std::vector<ChannelScale>> read_channel_scales(Machine& machine, int channels, bool wide_bias);

// values: dense, in stage.shape order. Puts them where the stage says.
Result<void> write_output(Machine& machine, const OutputStage& stage, std::vector<int32_t> values);

// For large outputs: part of a row at a time, while it is in the cache. Only where the values go to memory as they are,
// and no observer asks for them.
bool takes_strips(const Machine& machine, const OutputStage& stage);
Result<void> write_strip(Machine& machine, const OutputStage& stage, int y, int x, int width, const int32_t* values);

// B64 output keeps all bits.
Result<void> write_output64(Machine& machine, const OutputStage& stage, const std::vector<int64_t>& values);

std::string describe(const FeatureMap& map, Shape3 shape);

}  // namespace swoop::ethos
