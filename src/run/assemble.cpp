// Tensors from what single operations write: blocks in NHWC or in bricks, each at its own address or one after the
// other at the same.
#include <algorithm>
#include <cstring>
#include <functional>

#include "run/feature_map.h"

namespace swoop {

namespace {

using ethos::kBrick;
using Blocks = std::span<const NpuBlock>;

int64_t address_of(const NpuBlock& block, int y, int x, int c) {
  const NpuPlace& place = *block.place;
  return place.pixel_address(y, x) +
         (place.bricks ? c / kBrick * place.stride_c + c % kBrick * block.bytes : int64_t{c} * block.bytes);
}

// The elements of all blocks at the index that `index_of` gives for their address. False: two have one index, or one is
// outside.
bool scatter(Blocks blocks, Buffer& out, const std::function<int64_t(int64_t address)>& index_of) {
  const auto bytes = static_cast<size_t>(blocks[0].bytes);
  std::vector<bool> filled(out.size() / bytes, false);
  for (const NpuBlock& block : blocks) {
    const std::byte* from = block.codes.data();
    for (int y = 0; y < block.height; ++y)
      for (int x = 0; x < block.width; ++x)
        for (int c = 0; c < block.depth; ++c, from += bytes) {
          const int64_t index = index_of(address_of(block, y, x, c));
          if (index < 0 || static_cast<size_t>(index) >= filled.size() || filled[static_cast<size_t>(index)])
            return false;
          filled[static_cast<size_t>(index)] = true;
          std::memcpy(out.data() + static_cast<size_t>(index) * bytes, from, bytes);
        }
  }
  return true;
}

struct Extent {
  int64_t first = INT64_MAX, last = INT64_MIN;  // bytes
};

Extent extent_of(Blocks blocks) {
  Extent extent;
  for (const NpuBlock& block : blocks)
    for (int y = 0; y < block.height; ++y)
      for (int x = 0; x < block.width; ++x)
        for (int c = 0; c < block.depth; c += kBrick) {  // addresses grow within a brick, and with c in NHWC
          extent.first = std::min(extent.first, address_of(block, y, x, c));
          extent.last =
              std::max(extent.last, address_of(block, y, x, std::min(c + kBrick, block.depth) - 1) + block.bytes);
        }
  return extent;
}

bool stored_alike(const NpuBlock& one, const NpuBlock& other) {
  const auto &a = one.place, &b = other.place;
  if (one.bytes != other.bytes || a.has_value() != b.has_value()) return false;
  return !a || (a->region == b->region && a->bricks == b->bricks && a->stride_x == b->stride_x &&
                a->stride_y == b->stride_y && a->stride_c == b->stride_c);
}

// A tensor in NHWC that is in memory as a whole: its bytes in order, whatever shape each operation saw in them.
bool place_by_bytes(Blocks blocks, Buffer& out) {
  if (!blocks[0].place || blocks[0].place->bricks) return false;
  const Extent extent = extent_of(blocks);
  if (extent.last - extent.first != static_cast<int64_t>(out.size())) return false;
  return scatter(blocks, out, [&](int64_t address) { return (address - extent.first) / blocks[0].bytes; });
}

// Parts of one tensor in bricks, or of a part of a larger one: by the coordinates that the strides make of an address.
bool place_by_strides(Blocks blocks, Buffer& out) {
  if (!blocks[0].place) return false;
  const NpuPlace& place = *blocks[0].place;
  const int64_t bytes = blocks[0].bytes, first = extent_of(blocks).first;
  if (place.stride_y <= 0 || (place.bricks ? place.stride_c : place.stride_x) <= 0) return false;
  struct Point {
    int64_t y, x, c;
  };
  auto point = [&](int64_t address) -> Point {
    const int64_t offset = address - first, in_row = offset % place.stride_y;
    if (!place.bricks) return {offset / place.stride_y, in_row / place.stride_x, in_row % place.stride_x / bytes};
    const int64_t in_bricks = in_row % place.stride_c, brick = kBrick * bytes;
    return {offset / place.stride_y, in_bricks / brick, in_row / place.stride_c * kBrick + in_bricks % brick / bytes};
  };
  Point size{0, 0, 0};
  for (const NpuBlock& block : blocks)
    for (int y = 0; y < block.height; ++y)
      for (int x = 0; x < block.width; ++x)
        for (int c : {0, block.depth - 1}) {
          const Point p = point(address_of(block, y, x, c));
          size = {std::max(size.y, p.y + 1), std::max(size.x, p.x + 1), std::max(size.c, p.c + 1)};
        }
  if (size.y * size.x * size.c * bytes != static_cast<int64_t>(out.size())) return false;
  return scatter(blocks, out, [&](int64_t address) {
    const Point p = point(address);
    return (p.y * size.x + p.x) * size.c + p.c;
  });
}

// Stripes of a cascade, and what went through a chain buffer: whole rows, in order.
bool place_in_order(Blocks blocks, int64_t depth, Buffer& out) {
  for (const NpuBlock& block : blocks)
    if (blocks.size() > 1 && (block.width != blocks[0].width || block.depth != depth)) return false;
  auto at = out.begin();
  for (const NpuBlock& block : blocks) at = std::copy(block.codes.begin(), block.codes.end(), at);
  return true;
}

}  // namespace

void place_like(NpuBlock& block, const NpuBlock& end) {
  if (!end.place || end.turned || block.height != end.height || block.width != end.width || block.depth != end.depth)
    return;
  auto scaled = [&](int64_t bytes) { return bytes / end.bytes * block.bytes; };
  block.place = end.place;
  for (int64_t& base : block.place->base) base = scaled(base);
  for (int64_t* stride : {&block.place->stride_x, &block.place->stride_y, &block.place->stride_c})
    *stride = scaled(*stride);
}

Result<Buffer> assemble(std::span<const NpuBlock> pieces, int64_t size, int64_t depth) {
  // An operation may need others that compute something in between. The tensor is made of the last pieces that are
  // stored in the same way as the very last one.
  std::vector<NpuBlock> blocks;
  int64_t have = 0;
  for (size_t i = pieces.size(); i-- > 0 && have < size;) {
    if (!stored_alike(pieces[i], pieces.back())) continue;
    have += static_cast<int64_t>(pieces[i].codes.size());
    blocks.push_back(pieces[i]);
  }
  if (have != size) return error("{} of its {} bytes were written", have, size);
  std::reverse(blocks.begin(), blocks.end());
  Buffer out(static_cast<size_t>(size));
  if (place_by_bytes(blocks, out) || place_by_strides(blocks, out) || place_in_order(blocks, depth, out)) return out;
  return error("it was written in {} pieces that do not fit together", blocks.size());
}

}  // namespace swoop
