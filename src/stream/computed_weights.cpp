#include "stream/computed_weights.h"

#include <algorithm>
#include <cstdlib>

namespace swoop {

namespace {

// Bits from the lowest of each byte up.
class BitWriter {
 public:
  void put(uint32_t value, int count) {
    for (int i = 0; i < count; ++i, ++size_) {
      if (size_ % 8 == 0) bytes_.push_back(std::byte{0});
      bytes_.back() |= std::byte{static_cast<uint8_t>((value >> i & 1) << (size_ % 8))};
    }
  }
  Buffer take() { return std::move(bytes_); }

 private:
  Buffer bytes_;
  size_t size_ = 0;
};

constexpr int64_t kMostWeights = 1 << 15;  // of a slice
constexpr int64_t kHeaderBytes = 64;

// A slice without runs of zeros, whose weights are plain numbers of `bits` bits; with `pair`, each is one of two.
void put_header(BitWriter& out, int64_t weights, int bits, bool pair = false) {
  constexpr uint32_t kZeroRunsOff = 6, kUncompressed = 7;
  out.put(kZeroRunsOff, 3);
  out.put(static_cast<uint32_t>(weights - 1), 15);
  out.put(kUncompressed, 3);
  out.put(0, 1);  // no truncation
  out.put(1, 1);  // a palette of its own
  out.put(0, 5);  // numbers begin at 0
  out.put(pair ? 1 : 0, 5);
  out.put(static_cast<uint32_t>(bits - 2), 3);
  if (pair) out.put(0, 2 * bits);
}

// 256 weights of zero, then the header of `weights` bytes: 36 + 4 + 112 + 36 + 2 * 144 + 36 bits are 64 bytes.
Buffer header(int64_t weights) {
  constexpr int kInOneBit = 112, kInTwoBits = 144;
  BitWriter out;
  put_header(out, kInOneBit, 2, true);
  for (int i = 0; i < kInOneBit; ++i) out.put(0, 1);
  put_header(out, kInTwoBits, 2);
  for (int i = 0; i < kInTwoBits; ++i) out.put(0, 2);
  put_header(out, weights, 8);
  return out.take();
}

}  // namespace

int WeightCodes::blocks_of_slice() const {
  const int64_t block = rows() * row_bytes();
  return static_cast<int>(std::max<int64_t>(1, (kMostWeights + kUnused * kBlock) / block));
}

// Its header is shorter than the weights that it stands for.
int64_t WeightCodes::slice_bytes(int blocks) const {
  return kHeaderBytes + blocks * rows() * row_bytes() - int64_t{kUnused} * kBlock;
}

bool WeightCodes::set_outputs_at_once(int outputs) {
  rows_at_once_ = std::clamp(outputs / microblock_, 1, rows());
  return rows_at_once_ == rows() || (blocks() <= blocks_of_slice() && rows_at_once_ > unused_rows());
}

int WeightCodes::last_row(int row) const {
  return std::min(row / rows_at_once_ * rows_at_once_ + rows_at_once_, rows()) - 1;
}

int64_t WeightCodes::row(int block, int row) const {
  if (rows_at_once_ < rows()) {
    const int first = row / rows_at_once_ * rows_at_once_, together = last_row(row) - first + 1;
    return slice_bytes(0) + (int64_t{first} * blocks() + int64_t{block} * together + row - first) * row_bytes();
  }
  const int slice = block / blocks_of_slice(), in_slice = block % blocks_of_slice();
  return slice * slice_bytes(blocks_of_slice()) + slice_bytes(in_slice) + row * row_bytes();
}

int64_t WeightCodes::bytes() const {
  const int whole = blocks() / blocks_of_slice(), rest = blocks() % blocks_of_slice();
  return whole * slice_bytes(blocks_of_slice()) + (rest > 0 ? slice_bytes(rest) : 0) + kAlignment;
}

std::vector<WeightCodes::Constant> WeightCodes::constants() const {
  std::vector<Constant> list;
  for (int block = 0; block < blocks(); block += blocks_of_slice()) {
    const int count = std::min(blocks_of_slice(), blocks() - block);
    list.push_back({row(block, unused_rows()) - kHeaderBytes, header(slice_bytes(count) - kHeaderBytes)});
  }
  list.push_back({bytes() - kAlignment, Buffer(kAlignment, std::byte{0xff})});  // nothing but end markers
  return list;
}

Buffer weight_code_table() {
  Buffer table;
  for (int weight = -128; weight < 128; ++weight)
    table.push_back(static_cast<std::byte>(std::min(std::abs(weight), 127) * 2 + (weight < 0 ? 1 : 0)));
  return table;
}

}  // namespace swoop
