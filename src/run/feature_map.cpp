#include "run/feature_map.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace swoop::ethos {

const MapRegisters kIfmRegisters = {"The input",        Cmd::IFM_REGION,    Cmd::IFM_BASE0,      Cmd::IFM_BASE1,
                                    Cmd::IFM_BASE2,     Cmd::IFM_BASE3,     Cmd::IFM_HEIGHT0_M1, Cmd::IFM_HEIGHT1_M1,
                                    Cmd::IFM_WIDTH0_M1, Cmd::IFM_STRIDE_X,  Cmd::IFM_STRIDE_Y,   Cmd::IFM_STRIDE_C,
                                    Cmd::IFM_PRECISION, Cmd::IFM_ZERO_POINT};
const MapRegisters kIfm2Registers = {
    "The second input", Cmd::IFM2_REGION,     Cmd::IFM2_BASE0,      Cmd::IFM2_BASE1,     Cmd::IFM2_BASE2,
    Cmd::IFM2_BASE3,    Cmd::IFM2_HEIGHT0_M1, Cmd::IFM2_HEIGHT1_M1, Cmd::IFM2_WIDTH0_M1, Cmd::IFM2_STRIDE_X,
    Cmd::IFM2_STRIDE_Y, Cmd::IFM2_STRIDE_C,   Cmd::IFM2_PRECISION,  Cmd::IFM2_ZERO_POINT};
const MapRegisters kOfmRegisters = {"The output",       Cmd::OFM_REGION,    Cmd::OFM_BASE0,      Cmd::OFM_BASE1,
                                    Cmd::OFM_BASE2,     Cmd::OFM_BASE3,     Cmd::OFM_HEIGHT0_M1, Cmd::OFM_HEIGHT1_M1,
                                    Cmd::OFM_WIDTH0_M1, Cmd::OFM_STRIDE_X,  Cmd::OFM_STRIDE_Y,   Cmd::OFM_STRIDE_C,
                                    Cmd::OFM_PRECISION, Cmd::OFM_ZERO_POINT};

namespace {

// Calls body(channel, count, address) for each contiguous run of channels of a pixel.
template <typename Body>
Result<void> for_each_run(const FeatureMap& map, int y, int x, int channels, const Body& body) {
  int64_t address = map.pixel_address(y, x);
  if (!map.bricks) return body(0, channels, address);
  for (int c = 0; c < channels; c += kBrick, address += map.stride_c)
    TRY(body(c, std::min(kBrick, channels - c), address));
  return {};
}

// Calls body(channel, count, runs) for the channels of a row that are contiguous, all of them or a brick: a run per
// pixel. False: the row is stored in tiles, or backwards.
template <typename Body>
Result<bool> for_each_row_of_runs(const FeatureMap& map, Shape3 shape, int y, const Body& body) {
  if (shape.w > map.width0 || map.stride_x <= 0) return false;
  TRY(for_each_run(map, y, 0, shape.c, [&](int c, int count, int64_t address) {
    return body(c, count, Memory::Runs{address, static_cast<uint64_t>(count * map.type.bytes), map.stride_x, shape.w});
  }));
  return true;
}

template <typename From, typename T>
void widen(const std::byte* from, T* to, int64_t count, int subtract) {
  using Unsigned =
      std::make_unsigned_t<T>;  // wraps like the hardware's adders, where a signed subtraction would be undefined
  const Unsigned offset = static_cast<Unsigned>(subtract);
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<Unsigned>(swoop::load<From>(from + i * static_cast<int64_t>(sizeof(From)))) -
                           offset);
}

template <typename From, typename T>
Result<void> load_as(const Memory& memory, const FeatureMap& map, Shape3 shape, int subtract, T* out,
                     int64_t row_stride, int64_t pixel_stride, const char* what) {
  constexpr int64_t kBytes = sizeof(From);
  // Whole rows at once when they are contiguous on both sides.
  const bool rows = !map.bricks && map.stride_x == shape.c * kBytes && shape.w <= map.width0 && pixel_stride == shape.c;
  for (int y = 0; y < shape.h; ++y) {
    if (rows) {
      int64_t count = int64_t{shape.w} * shape.c;
      TRY_ASSIGN(const std::byte* from,
                 memory.readable(map.region, map.pixel_address(y, 0), static_cast<uint64_t>(count * kBytes), what));
      widen<From>(from, out + y * row_stride, count, subtract);
      continue;
    }
    TRY_ASSIGN(const bool done,
               for_each_row_of_runs(map, shape, y, [&](int c, int count, const Memory::Runs& runs) -> Result<void> {
                 TRY_ASSIGN(const std::byte* from, memory.readable(map.region, runs, what));
                 for (int x = 0; x < shape.w; ++x)
                   widen<From>(from + x * runs.step, out + y * row_stride + x * pixel_stride + c, count, subtract);
                 return {};
               }));
    if (done) continue;
    for (int x = 0; x < shape.w; ++x) {
      T* to = out + y * row_stride + x * pixel_stride;
      TRY(for_each_run(map, y, x, shape.c, [&](int c, int count, int64_t address) -> Result<void> {
        TRY_ASSIGN(const std::byte* from,
                   memory.readable(map.region, address, static_cast<uint64_t>(count * kBytes), what));
        widen<From>(from, to + c, count, subtract);
        return {};
      }));
    }
  }
  return {};
}

template <typename To, typename T>
Result<void> store_as(Memory& memory, const FeatureMap& map, Shape3 shape, const T* values, const char* what) {
  constexpr int64_t kBytes = sizeof(To);
  auto narrow = [](const T* from, int64_t count, std::byte* to) {
    for (int64_t i = 0; i < count; ++i) {
      To value = static_cast<To>(from[i]);
      std::memcpy(to + i * kBytes, &value, sizeof(To));
    }
  };
  const bool rows = !map.bricks && map.stride_x == shape.c * kBytes && shape.w <= map.width0;
  for (int y = 0; y < shape.h; ++y) {
    if (rows) {
      int64_t count = int64_t{shape.w} * shape.c;
      TRY_ASSIGN(std::byte * to,
                 memory.writable(map.region, map.pixel_address(y, 0), static_cast<uint64_t>(count * kBytes), what));
      narrow(values + y * count, count, to);
      continue;
    }
    TRY_ASSIGN(const bool done,
               for_each_row_of_runs(map, shape, y, [&](int c, int count, const Memory::Runs& runs) -> Result<void> {
                 TRY_ASSIGN(std::byte * to, memory.writable(map.region, runs, what));
                 for (int x = 0; x < shape.w; ++x)
                   narrow(values + (int64_t{y} * shape.w + x) * shape.c + c, count, to + x * runs.step);
                 return {};
               }));
    if (done) continue;
    for (int x = 0; x < shape.w; ++x) {
      const T* from = values + (int64_t{y} * shape.w + x) * shape.c;
      TRY(for_each_run(map, y, x, shape.c, [&](int c, int count, int64_t address) -> Result<void> {
        TRY_ASSIGN(std::byte * to, memory.writable(map.region, address, static_cast<uint64_t>(count * kBytes), what));
        narrow(from + c, count, to);
        return {};
      }));
    }
  }
  return {};
}

// Calls body(runs) for all that a map covers.
template <typename Body>
Result<void> for_each_place(const FeatureMap& map, Shape3 shape, const Body& body) {
  const int64_t bytes = map.type.bytes;
  const auto run = [&](int64_t address, int64_t channels, int count) {
    return body(Memory::Runs{address, static_cast<uint64_t>(channels * bytes), map.stride_x, count});
  };
  const bool joined = !map.bricks && map.stride_x == shape.c * bytes && map.stride_y == map.stride_x * shape.w;
  if (joined && in_one_tile(map, shape)) return run(map.pixel_address(0, 0), shape.c, shape.h * shape.w);
  const bool rows = shape.w <= map.width0 && map.stride_x > 0;  // of which pixels follow one another
  for (int y = 0; y < shape.h; ++y)
    for (int x = 0; x < shape.w; x += rows ? shape.w : 1)
      TRY(for_each_run(map, y, x, shape.c,
                       [&](int, int channels, int64_t address) { return run(address, channels, rows ? shape.w : 1); }));
  return {};
}

// The smallest range around a map in one tile.
NpuRange range_of(const FeatureMap& map, Shape3 shape) {
  const int64_t runs = map.bricks ? (shape.c + kBrick - 1) / kBrick : 1;
  const int64_t run = int64_t{map.bricks ? kBrick : shape.c} * map.type.bytes;
  int64_t first = map.base[0], last = map.base[0] + run;
  for (const int64_t reach : {(shape.h - 1) * map.stride_y, (shape.w - 1) * map.stride_x, (runs - 1) * map.stride_c})
    (reach < 0 ? first : last) += reach;
  return {map.region, static_cast<uint64_t>(first), static_cast<uint64_t>(last)};
}

}  // namespace

bool in_one_tile(const FeatureMap& map, Shape3 shape) { return shape.h <= map.height0 && shape.w <= map.width0; }

FeatureMap from_pixel(const FeatureMap& map, int y, int x) {
  FeatureMap part = map;
  part.base[0] = map.pixel_address(y, x);
  return part;
}

bool may_overlap(const FeatureMap& a, Shape3 shape_a, const FeatureMap& b, Shape3 shape_b) {
  const NpuRange one = range_of(a, shape_a), other = range_of(b, shape_b);
  return one.region == other.region && static_cast<int64_t>(one.first) < static_cast<int64_t>(other.last) &&
         static_cast<int64_t>(other.first) < static_cast<int64_t>(one.last);
}

Result<void> touch_read(const Memory& memory, const FeatureMap& map, Shape3 shape, const char* what) {
  return for_each_place(map, shape, [&](const Memory::Runs& runs) -> Result<void> {
    TRY(memory.readable(map.region, runs, what));
    return {};
  });
}

Result<void> touch_written(Memory& memory, const FeatureMap& map, Shape3 shape, const char* what) {
  return for_each_place(map, shape, [&](const Memory::Runs& runs) -> Result<void> {
    TRY(memory.writable(map.region, runs, what));
    return {};
  });
}

template <typename T>
Result<void> load_feature_map(const Memory& memory, const FeatureMap& map, Shape3 shape, int subtract, T* out,
                              int64_t row_stride, int64_t pixel_stride, const char* what) {
  switch (map.type.bytes) {
    case 1:
      return map.type.is_signed ? load_as<int8_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what)
                                : load_as<uint8_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what);
    case 2:
      return map.type.is_signed ? load_as<int16_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what)
                                : load_as<uint16_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what);
    case 4: return load_as<int32_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what);
    default: return load_as<int64_t>(memory, map, shape, subtract, out, row_stride, pixel_stride, what);
  }
}

template <typename T>
Result<void> store_feature_map(Memory& memory, const FeatureMap& map, Shape3 shape, const T* values, const char* what) {
  switch (map.type.bytes) {
    case 1: return store_as<int8_t>(memory, map, shape, values, what);
    case 2: return store_as<int16_t>(memory, map, shape, values, what);
    case 4: return store_as<int32_t>(memory, map, shape, values, what);
    default: return store_as<int64_t>(memory, map, shape, values, what);
  }
}

template Result<void> load_feature_map(const Memory&, const FeatureMap&, Shape3, int, int16_t*, int64_t, int64_t,
                                       const char*);
template Result<void> load_feature_map(const Memory&, const FeatureMap&, Shape3, int, int32_t*, int64_t, int64_t,
                                       const char*);
template Result<void> load_feature_map(const Memory&, const FeatureMap&, Shape3, int, int64_t*, int64_t, int64_t,
                                       const char*);
template Result<void> store_feature_map(Memory&, const FeatureMap&, Shape3, const int32_t*, const char*);
template Result<void> store_feature_map(Memory&, const FeatureMap&, Shape3, const int64_t*, const char*);

Result<FeatureMap> read_map_type(Registers& registers, const MapRegisters& names) {
  FeatureMap map;
  const bool output = names.precision == Cmd::OFM_PRECISION;  // its precision field is one bit lower
  map.type.is_signed = registers.bits(names.precision, 0, 1) != 0;
  map.type.bytes = 1 << registers.bits(names.precision, output ? 1 : 2, 2);
  uint32_t format = registers.bits(names.precision, 6, 2);
  if (format > 1)
    return error("{} names activation format {}, which is not known.", command_info(names.precision).name, format);
  map.bricks = format == 1;
  uint32_t zero_point = registers.parameter(names.zero_point);
  map.zero_point = map.type.is_signed ? static_cast<int16_t>(zero_point) : static_cast<int>(zero_point);
  return map;
}

Result<FeatureMap> read_feature_map(Registers& registers, NpuEncoding encoding, const MapRegisters& names) {
  TRY_ASSIGN(FeatureMap map, read_map_type(registers, names));
  map.region = static_cast<int>(registers.parameter(names.region));
  map.base[0] = registers.address(names.base0);
  map.base[1] = registers.address(names.base1);
  map.base[2] = registers.address(names.base2);
  map.base[3] = registers.address(names.base3);
  map.height0 = static_cast<int>(registers.parameter(names.height0)) + 1;
  map.height1 = static_cast<int>(registers.parameter(names.height1)) + 1;
  map.width0 = static_cast<int>(registers.parameter(names.width0)) + 1;
  map.stride_x = registers.stride(names.stride_x);
  map.stride_y = registers.stride(names.stride_y);
  map.stride_c = registers.stride(names.stride_c);
  if (map.bricks) {
    for (int64_t base : map.base)
      if (base % 16 != 0)
        return error("{} puts bricks at byte {}, which is not a multiple of 16.", command_info(names.base0).name, base);
  } else if (map.base[0] % map.type.bytes != 0) {
    return error("{} puts {}-byte elements at byte {}.", command_info(names.base0).name, map.type.bytes, map.base[0]);
  }
  // The U55 and U65 ignore the channel stride of NHWC; nobody emits another one than the element size for the U85.
  const bool ignored = by_encoding(encoding, true, false);
  if (!map.bricks && !ignored && map.stride_c != map.type.bytes)
    return error("{} is {} bytes for {}-byte elements in NHWC, which is not known.", command_info(names.stride_c).name,
                 map.stride_c, map.type.bytes);
  return map;
}

}  // namespace swoop::ethos
