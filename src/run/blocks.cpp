#include "run/blocks.h"

#include <algorithm>
#include <cstring>

#include "run/machine.h"

namespace swoop::ethos {

namespace {

constexpr int kDepthStep = 16;  // input channels a convolution reads at a time: the smallest input block of any core

int ceil_div(int a, int b) { return (a + b - 1) / b; }

Shape3 block_counts(const KernelBlocks& kernel) {
  return {ceil_div(kernel.output.h, kernel.block.h), ceil_div(kernel.output.w, kernel.block.w),
          ceil_div(kernel.output.c, kernel.block.c)};
}

// Channels first, then columns, then rows.
Box output_box(const KernelBlocks& kernel, int64_t index) {
  const Shape3 counts = block_counts(kernel);
  const int64_t pixel = index / counts.c;
  Box box;
  box.first = {static_cast<int>(pixel / counts.w) * kernel.block.h, static_cast<int>(pixel % counts.w) * kernel.block.w,
               static_cast<int>(index % counts.c) * kernel.block.c};
  box.last = {std::min(box.first.h + kernel.block.h, kernel.output.h),
              std::min(box.first.w + kernel.block.w, kernel.output.w),
              std::min(box.first.c + kernel.block.c, kernel.output.c)};
  return box;
}

void window_range(const WindowAxis& axis, int size, int& first, int& last) {
  int from = first * axis.stride - axis.before, to = (last - 1) * axis.stride - axis.before + axis.reach;
  if (axis.upscaled) {
    from = from >= 0 ? from / 2 : 0;
    to = to > 0 ? (to - 1) / 2 + 1 : 0;
  }
  first = std::clamp(from, 0, size);
  last = std::clamp(to, first, size);
}

bool is_deep(const BlockRead& read) { return read.order == ReadOrder::DeepWindow || read.order == ReadOrder::Rows; }

// What a block of the output, at [first, last), reads of an operand.
Box read_box(const KernelBlocks& kernel, const BlockRead& read, const Box& out) {
  Box box = out;
  switch (read.order) {
    case ReadOrder::Window:
    case ReadOrder::DeepWindow:
      window_range(kernel.y, read.shape.h, box.first.h, box.last.h);
      window_range(kernel.x, read.shape.w, box.first.w, box.last.w);
      break;
    case ReadOrder::Rows:
      box.first = {0, out.first.c, 0};
      box.last = {1, out.last.c, 0};
      break;
    case ReadOrder::Same: break;
  }
  if (is_deep(read)) {
    box.first.c = 0;
    box.last.c = read.shape.c;
  }
  auto broadcast = [](int size, int& first, int& last) {
    if (size > 1) return;
    first = 0;
    last = 1;
  };
  if (read.order == ReadOrder::Same) {
    broadcast(read.shape.h, box.first.h, box.last.h);
    broadcast(read.shape.w, box.first.w, box.last.w);
    broadcast(read.shape.c, box.first.c, box.last.c);
  }
  return box;
}

struct Span {
  int64_t first = 0, last = 0;
};
using Spans = std::vector<Span>;

// The bytes of a box, sorted and joined.
Result<Spans> spans_of(Machine& machine, const FeatureMap& map, const Box& box) {
  Spans spans;
  auto add = [&](int64_t first, int64_t bytes) {
    if (!spans.empty() && spans.back().last == first)
      spans.back().last = first + bytes;
    else
      spans.push_back({first, first + bytes});
  };
  const int bytes = map.type.bytes;
  const int bricks = map.bricks ? (box.last.c - 1) / kBrick - box.first.c / kBrick + 1 : 1;
  TRY(machine.spend_elements(int64_t{box.last.h - box.first.h} * (box.last.w - box.first.w) * bricks));
  for (int y = box.first.h; y < box.last.h; ++y)
    for (int x = box.first.w; x < box.last.w; ++x) {
      const int64_t pixel = map.pixel_address(y, x);
      for (int c = box.first.c; c < box.last.c;) {
        const int end = map.bricks ? std::min(box.last.c, (c / kBrick + 1) * kBrick) : box.last.c;
        const int64_t at =
            map.bricks ? pixel + c / kBrick * map.stride_c + int64_t{c % kBrick} * bytes : pixel + int64_t{c} * bytes;
        add(at, int64_t{end - c} * bytes);
        c = end;
      }
    }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.first < b.first; });
  return spans;
}

// The first byte in both, or -1.
int64_t common_byte(const Spans& a, const Spans& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].first < b[j].last && b[j].first < a[i].last) return std::max(a[i].first, b[j].first);
    if (a[i].last <= b[j].last)
      ++i;
    else
      ++j;
  }
  return -1;
}

// Is anything that it reads in the range that the other writes? Cheap, and almost always enough.
bool ranges_meet(const Accesses& reads, const Accesses& writes) {
  for (const Access& read : reads)
    for (const Access& write : writes)
      if (!read.write && write.write && read.range.region == write.range.region &&
          read.range.first < write.range.last && write.range.first < read.range.last)
        return true;
  return false;
}

int64_t block_total(const KernelBlocks& kernel) {
  const Shape3 counts = block_counts(kernel);
  return int64_t{counts.h} * counts.w * counts.c;
}

Result<Spans> written_by(Machine& machine, const KernelBlocks& kernel, int64_t block) {
  const Box out = output_box(kernel, block);
  const int sizes[] = {kernel.output.h, kernel.output.w, kernel.output.c};
  const int firsts[] = {out.first.h, out.first.w, out.first.c}, lasts[] = {out.last.h, out.last.w, out.last.c};
  std::array<int, 3> first{}, last{};
  for (size_t k = 0; k < 3; ++k) {
    const int axis = kernel.written_axes[k];
    first[k] = firsts[axis];
    last[k] = lasts[axis];
    if (kernel.reversed != static_cast<int>(k) + 1) continue;
    first[k] = sizes[axis] - lasts[axis];
    last[k] = sizes[axis] - firsts[axis];
  }
  return spans_of(machine, kernel.written, {{first[0], first[1], first[2]}, {last[0], last[1], last[2]}});
}

// Each element is read and written by the same block, whatever the blocks are.
bool same_place(const BlockRead& read, const KernelBlocks& kernel) {
  const FeatureMap &a = read.map, &b = kernel.written;
  return read.order == ReadOrder::Same && read.shape == kernel.output && kernel.reversed == 0 &&
         kernel.written_axes == std::array{0, 1, 2} && a.bricks == b.bricks && a.type.bytes == b.type.bytes &&
         std::equal(a.base, a.base + 4, b.base) && a.height0 == b.height0 && a.height1 == b.height1 &&
         a.width0 == b.width0 && a.stride_x == b.stride_x && a.stride_y == b.stride_y &&
         (!a.bricks || a.stride_c == b.stride_c);
}

}  // namespace

Result<std::optional<std::string>> find_overlap(Machine& machine, const KernelBlocks& previous,
                                                const KernelBlocks& kernel, int blockdep) {
  const std::optional<std::string> nothing;
  if (blockdep == 0 || !previous.writes || !ranges_meet(kernel.accesses, previous.accesses)) return nothing;
  const int64_t blocks = block_total(previous);
  std::vector<Spans> last_writes;  // of the last blocks, the very last first
  for (int64_t j = 0; j < std::min<int64_t>(blockdep, blocks); ++j) {
    TRY_ASSIGN(Spans spans, written_by(machine, previous, blocks - 1 - j));
    last_writes.push_back(std::move(spans));
  }
  for (const BlockRead& read : kernel.reads) {
    if (read.map.region != previous.written.region) continue;
    const int steps = is_deep(read) ? ceil_div(read.shape.c, kDepthStep) : 1;
    for (int64_t i = 0; i < std::min<int64_t>(blockdep, block_total(kernel) * steps); ++i) {
      Box box = read_box(kernel, read, output_box(kernel, i / steps));
      if (is_deep(read)) {
        box.first.c = static_cast<int>(i % steps) * kDepthStep;
        box.last.c = std::min(box.first.c + kDepthStep, read.shape.c);
      }
      TRY_ASSIGN(Spans spans, spans_of(machine, read.map, box));
      for (int64_t j = 0; j < static_cast<int64_t>(last_writes.size()) && i + j < blockdep; ++j)
        if (int64_t at = common_byte(spans, last_writes[static_cast<size_t>(j)]); at >= 0)
          return std::optional(fmt::format(
              "{} reads byte {} of {} while the operation at word {} may still be writing it; NPU_SET_BLOCKDEP is {}, "
              "which lets them overlap.",
              read.what, at, Memory::region_name(read.map.region), previous.position, blockdep));
    }
  }
  return nothing;
}

Result<void> check_in_place(Machine& machine, const KernelBlocks& kernel) {
  if (!kernel.writes || !ranges_meet(kernel.accesses, kernel.accesses)) return {};
  const int64_t blocks = block_total(kernel);
  if (blocks == 1) return {};
  const NpuRange range =
      std::find_if(kernel.accesses.begin(), kernel.accesses.end(), [](const Access& a) { return a.write; })->range;
  for (const BlockRead& read : kernel.reads) {
    if (read.map.region != range.region || same_place(read, kernel)) continue;
    TRY(machine.spend((range.last - range.first) / 16 + 1));
    std::vector<uint8_t> overwritten(range.last - range.first, 0);  // by blocks before the one that reads
    for (int64_t i = 0; i < blocks; ++i) {
      TRY_ASSIGN(Spans spans, spans_of(machine, read.map, read_box(kernel, read, output_box(kernel, i))));
      for (const Span& span : spans) {
        const uint64_t first = std::max(static_cast<uint64_t>(span.first), range.first);
        const uint64_t last = std::min(static_cast<uint64_t>(span.last), range.last);
        if (first >= last) continue;
        if (const void* hit = std::memchr(overwritten.data() + (first - range.first), 1, last - first))
          return error("{} reads byte {} of {}, which the operation has overwritten before.", read.what,
                       range.first + static_cast<uint64_t>(static_cast<const uint8_t*>(hit) - overwritten.data()),
                       Memory::region_name(read.map.region));
      }
      TRY_ASSIGN(Spans writes, written_by(machine, kernel, i));
      for (const Span& span : writes)
        std::fill(overwritten.begin() + (span.first - static_cast<int64_t>(range.first)),
                  overwritten.begin() + (span.last - static_cast<int64_t>(range.first)), uint8_t{1});
    }
  }
  return {};
}

}  // namespace swoop::ethos
