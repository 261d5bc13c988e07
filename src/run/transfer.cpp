// NPU_OP_DMA_START: copies between regions and into the internal memory; in two and three dimensions, and on the U85 by
// index.
#include "run/machine.h"

namespace swoop::ethos {

namespace {

struct Side {
  int region = 0;
  int64_t base = 0;
  int64_t stride0 = 0, stride1 = 0;
  bool indexed = false;
};

// base + a * b with wrapping: a hostile stride must end in a bounds check, not in undefined behaviour.
int64_t offset(int64_t base, int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(base) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

Result<Side> read_side(Machine& machine, Cmd region, Cmd base) {
  Registers& r = machine.registers;
  Side side;
  const bool internal = r.bits(region, 8, 1) != 0;
  side.region = internal ? kInternalRegion : static_cast<int>(r.bits(region, 0, 3));
  side.base = r.address(base);
  side.indexed = r.bits(region, 11, 1) != 0;  // a bit that only the U85 has
  TRY(machine.check_registers());
  return side;
}

}  // namespace

Result<void> run_transfer(Machine& machine) {
  Registers& r = machine.registers;
  machine.memory.begin_transfer(machine.position);
  TRY_ASSIGN(Side from, read_side(machine, Cmd::DMA0_SRC_REGION, Cmd::DMA0_SRC));
  TRY_ASSIGN(Side to, read_side(machine, Cmd::DMA0_DST_REGION, Cmd::DMA0_DST));
  const int64_t length = r.address(Cmd::DMA0_LEN);
  int64_t size0 = 1, size1 = 1;
  // The U65 describes the destination (it writes strided from a contiguous source); the U85 both sides.
  const uint32_t source_mode = r.bits(Cmd::DMA0_SRC_REGION, 9, 2);
  const uint32_t destination_mode = r.bits(Cmd::DMA0_DST_REGION, 9, 2);
  const uint32_t dimensions = by_encoding(machine.encoding(), destination_mode, source_mode);
  if (dimensions > 2) return error("The transfer has stride mode {}, which is not known.", dimensions);
  if (from.indexed && to.indexed) return error("The transfer is indexed on both sides.");
  switch (machine.encoding()) {
    case NpuEncoding::U55:
      if (source_mode != 0) return error("The transfer reads in {} dimensions, which nobody emits.", source_mode + 1);
      if (dimensions == 0) break;
      size0 = r.parameter(Cmd::DMA0_SIZE0);
      from.stride0 = length;
      to.stride0 = length + r.stride(Cmd::DMA0_SKIP0);
      from.stride1 = length * size0;
      if (dimensions == 2) {
        size1 = r.parameter(Cmd::DMA0_SIZE1);
        to.stride1 = length * size0 + r.stride(Cmd::DMA0_SKIP1);
      }
      break;
    case NpuEncoding::U85:
      size0 = r.parameter(Cmd::DMA0_SIZE0);
      if (dimensions >= 1 || from.indexed) from.stride0 = r.stride(Cmd::DMA0_SRC_STRIDE0);
      if (dimensions >= 1 || to.indexed) to.stride0 = r.stride(Cmd::DMA0_DST_STRIDE0);
      if (dimensions == 2) {
        size1 = r.parameter(Cmd::DMA0_SIZE1);
        from.stride1 = r.stride(Cmd::DMA0_SRC_STRIDE1);
        to.stride1 = r.stride(Cmd::DMA0_DST_STRIDE1);
      }
      break;
  }
  TRY(machine.check_registers());
  if (size0 < 1 || size1 < 1 || length < 1)
    return error("The transfer moves {} x {} x {} bytes.", size1, size0, length);

  if (to.region == kInternalRegion && (to.base % 16 != 0 || length % 16 != 0))
    return error("The transfer puts {} bytes at byte {} of the internal memory, which takes multiples of 16.", length,
                 to.base);

  int index_region = 0;
  int64_t index_base = 0, index_skip = 0, index_max = 0;
  const bool indexed = from.indexed || to.indexed;
  if (indexed) {
    index_region = static_cast<int>(r.parameter(Cmd::DMA0_IDX_REGION));
    index_base = r.address(Cmd::DMA0_IDX);
    index_max = r.payload(Cmd::DMA0_IDX_MAX);
    if (dimensions == 2) index_skip = r.stride(Cmd::DMA0_IDX_SKIP1);
    TRY(machine.check_registers());
    if (index_base % 4 != 0)
      return error("The transfer's indices are at byte {}, which is not a multiple of 4.", index_base);
  }
  if (machine.wants_summary)
    machine.summary =
        fmt::format("{}+{:#x} -> {}+{:#x} {} x {} x {} bytes{}", Memory::region_name(from.region), from.base,
                    Memory::region_name(to.region), to.base, size1, size0, length, indexed ? " by index" : "");
  for (int64_t i1 = 0; i1 < size1; ++i1)
    for (int64_t i0 = 0; i0 < size0; ++i0) {
      TRY(machine.spend(static_cast<uint64_t>(length) / 16 + 1));
      int64_t source = offset(from.base, i1, from.stride1), destination = offset(to.base, i1, to.stride1);
      int64_t source_step = i0, destination_step = i0;
      if (indexed && machine.rehearsal) {
        // Any index may come: the first and the last stand for all of them.
        for (int64_t index : {int64_t{0}, index_max})
          TRY(machine.memory.copy(from.region, offset(source, from.indexed ? index : i0, from.stride0), to.region,
                                  offset(destination, to.indexed ? index : i0, to.stride0),
                                  static_cast<uint64_t>(length)));
        continue;
      }
      if (indexed) {
        int64_t at = offset(index_base + 4 * (i1 * size0 + i0), i1, index_skip);
        TRY_ASSIGN(const std::byte* bytes, machine.memory.readable(index_region, at, 4, "The transfer's index"));
        int64_t index = load<int32_t>(bytes);
        if (index < 0 || index > index_max)
          return error("The transfer's index {} is outside 0 to {}.", index, index_max);
        (from.indexed ? source_step : destination_step) = index;
      }
      TRY(machine.memory.copy(from.region, offset(source, source_step, from.stride0), to.region,
                              offset(destination, destination_step, to.stride0), static_cast<uint64_t>(length)));
    }
  return {};
}

}  // namespace swoop::ethos
