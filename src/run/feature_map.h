// How a feature map is stored: up to four tiles, NHWC or bricks of 16 channels (NHCWB16), strides of any sign.
// Operations see only dense height x width x channel arrays; every address is worked out and checked here.
#pragma once

#include <cstdint>
#include <vector>

#include "run/memory.h"
#include "run/registers.h"

namespace swoop::ethos {

inline constexpr int kBrick = 16;  // facts.brick, as a constant for the loops over it

struct ElementType {
  int bytes = 1;
  bool is_signed = true;
  int64_t lowest() const { return is_signed ? -(int64_t{1} << (8 * bytes - 1)) : 0; }
  int64_t highest() const { return is_signed ? (int64_t{1} << (8 * bytes - 1)) - 1 : (int64_t{1} << (8 * bytes)) - 1; }
};

struct Shape3 {
  int h = 1, w = 1, c = 1;
  int64_t elements() const { return int64_t{h} * w * c; }
  bool operator==(const Shape3&) const = default;
};

struct FeatureMap : NpuPlace {
  ElementType type;
  int zero_point = 0;
};

// The map from pixel (y, x) on. It must be in one tile.
bool in_one_tile(const FeatureMap& map, Shape3 shape);
FeatureMap from_pixel(const FeatureMap& map, int y, int x);
// Whether two maps in one tile each may have bytes in common.
bool may_overlap(const FeatureMap& a, Shape3 shape_a, const FeatureMap& b, Shape3 shape_b);

// Reads shape elements, minus subtract, to out[(y * row_stride) + (x * pixel_stride) + c]. T is int16_t, int32_t or
// int64_t.
template <typename T>
Result<void> load_feature_map(const Memory& memory, const FeatureMap& map, Shape3 shape, int subtract, T* out,
                              int64_t row_stride, int64_t pixel_stride, const char* what);

// Writes the low bytes of values (dense) to memory.
template <typename T>
Result<void> store_feature_map(Memory& memory, const FeatureMap& map, Shape3 shape, const T* values, const char* what);

// A rehearsal's load and store: every address is checked and noted, no value moves.
Result<void> touch_read(const Memory& memory, const FeatureMap& map, Shape3 shape, const char* what);
Result<void> touch_written(Memory& memory, const FeatureMap& map, Shape3 shape, const char* what);

// The two sets of registers that describe an input, or the output.
struct MapRegisters {
  const char* what;  // for messages
  Cmd region, base0, base1, base2, base3, height0, height1, width0, stride_x, stride_y, stride_c, precision, zero_point;
};
extern const MapRegisters kIfmRegisters, kIfm2Registers, kOfmRegisters;

// What the registers say. type_bits: position of the precision field, which differs between inputs (2) and output (1).
Result<FeatureMap> read_feature_map(Registers& registers, NpuEncoding encoding, const MapRegisters& names);

// Only type and zero point: chained and scalar operands have no place in memory.
Result<FeatureMap> read_map_type(Registers& registers, const MapRegisters& names);

}  // namespace swoop::ethos
