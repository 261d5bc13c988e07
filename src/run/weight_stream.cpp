// The two bit formats of weight streams. Bits are read from the lowest of each byte up.
#include <algorithm>

#include "run/weights.h"

namespace swoop::ethos {

namespace {

// Reads past the end give zeros and are remembered.
class BitReader {
 public:
  explicit BitReader(Bytes bytes) : bytes_(bytes) {}
  uint32_t get(int count) {
    if (filled_ < count) refill();
    uint32_t value = static_cast<uint32_t>(buffer_ & ((uint64_t{1} << count) - 1));
    buffer_ >>= count;
    filled_ -= count;
    return value;
  }
  void align() {  // to the next byte
    int drop = filled_ % 8;
    buffer_ >>= drop;
    filled_ -= drop;
  }
  size_t bits_read() const { return position_ * 8 - static_cast<size_t>(filled_); }
  size_t bits_left() const { return bits_read() >= bytes_.size() * 8 ? 0 : bytes_.size() * 8 - bits_read(); }
  bool overrun() const { return bits_read() > bytes_.size() * 8; }

 private:
  // At least 56 bits.
  void refill() {
    if (position_ + 8 <= bytes_.size()) {
      buffer_ |= load<uint64_t>(bytes_.data() + position_) << filled_;
      const int taken = (63 - filled_) / 8;
      position_ += static_cast<size_t>(taken);
      filled_ += 8 * taken;
      buffer_ &= (uint64_t{1} << filled_) - 1;
      return;
    }
    for (; filled_ <= 56; filled_ += 8, ++position_)
      if (position_ < bytes_.size()) buffer_ |= static_cast<uint64_t>(bytes_[position_]) << filled_;
  }

  Bytes bytes_;
  size_t position_ = 0;
  uint64_t buffer_ = 0;
  int filled_ = 0;
};

constexpr uint32_t kZeroRunsOff = 6, kEndOfStream = 7;  // values of ZDIV
constexpr uint32_t kUncompressed = 7;                   // value of WDIV

struct Palette {
  int size = 0, bits = 2, direct_offset = 0;
  std::array<int, 32> values{};
};

struct Slice {
  uint32_t zero_divisor = 0, weight_divisor = 0;
  bool truncated = false, new_palette = false;
  int weights = 0;
};

// Unary parts of one chunk; the remainders follow in the next chunk.
struct Chunk {
  bool active = false;
  int count = 0;
  std::array<int, 12> quotients{};
};

// Reads the slice's weight values and the lengths of its zero runs.
Result<void> read_slice(BitReader& bits, const Slice& slice, int weight_bits, bool uncompressed,
                        std::vector<int>& values, std::vector<int>& runs) {
  const bool zero_runs = slice.zero_divisor != kZeroRunsOff;
  const int weight_count = slice.weights, run_count = weight_count + (slice.new_palette ? 1 : 0);
  values.assign(static_cast<size_t>(weight_count), 0);
  runs.assign(static_cast<size_t>(run_count), 0);
  int weight_at = 0, run_at = 0, weight_done = 0, run_done = 0;
  int weight_quotient = 0, run_quotient = 0;
  const int run_unary = slice.zero_divisor < 3 ? 12 : 8;
  Chunk weights, zeros, earlier_weights, earlier_zeros;
  do {
    // Runs may lag behind weights by at most a chunk, so that the decoder can interleave them.
    const int ahead = zero_runs ? weight_at - run_at : 0;
    weights.active = (ahead < 8 || !zero_runs) && weight_at < weight_count;
    zeros.active = zero_runs && ahead >= 0 && run_at < run_count;
    const uint32_t unary0 = weights.active && !uncompressed ? bits.get(12) : 0;
    if (zeros.active) {
      uint32_t unary = bits.get(run_unary);
      zeros.count = 0;
      for (int i = 0; i < run_unary; ++i) {
        if (unary >> i & 1)
          ++run_quotient;
        else {
          zeros.quotients[static_cast<size_t>(zeros.count++)] = run_quotient;
          run_quotient = 0;
        }
      }
      run_at += zeros.count;
    }
    if (weights.active) {
      const int symbols = uncompressed && weight_bits > 5 ? 8 : 12;
      int ones = 0;
      for (int i = 0; i < symbols; ++i) ones += static_cast<int>(unary0 >> i & 1);
      uint32_t unary1 = ones > 0 ? bits.get(ones) : 0;
      weights.count = 0;
      for (int i = 0; i < symbols && weights.count < weight_count - weight_at; ++i) {
        int code = 0;
        if (unary0 >> i & 1) {
          code = 1 + static_cast<int>(unary1 & 1);
          unary1 >>= 1;
        }
        weight_quotient += code;
        if (code < 2 || slice.truncated) {
          weights.quotients[static_cast<size_t>(weights.count++)] = weight_quotient;
          weight_quotient = 0;
        }
      }
      weight_at += weights.count;
    }
    if (earlier_weights.active)
      for (int i = 0; i < earlier_weights.count && weight_done < weight_count; ++i)
        values[static_cast<size_t>(weight_done++)] =
            (earlier_weights.quotients[static_cast<size_t>(i)] << weight_bits) +
            static_cast<int>(bits.get(weight_bits));
    if (earlier_zeros.active)
      for (int i = 0; i < earlier_zeros.count && run_done < run_count; ++i)
        runs[static_cast<size_t>(run_done++)] =
            (earlier_zeros.quotients[static_cast<size_t>(i)] << slice.zero_divisor) +
            static_cast<int>(bits.get(static_cast<int>(slice.zero_divisor)));
    earlier_weights = weights;
    earlier_zeros = zeros;
    if (bits.overrun()) return error("The weight stream ends inside a slice.");
  } while (earlier_weights.active || earlier_zeros.active);
  return {};
}

}  // namespace

Result<std::vector<int16_t>> decode_weight_stream(Bytes stream, uint64_t limit) {
  BitReader bits(stream);
  Palette palette;
  std::vector<int16_t> out;
  std::vector<int> values, runs;
  for (;;) {
    if (bits.bits_left() < 3) break;  // the end marker may be left out
    Slice slice;
    slice.zero_divisor = bits.get(3);
    if (slice.zero_divisor == kEndOfStream) {
      bits.align();
      if (bits.bits_left() == 0) break;
      continue;
    }
    if (slice.zero_divisor > 3 && slice.zero_divisor != kZeroRunsOff)
      return error("The weight stream has a slice with zero-run code {}, which is not known.", slice.zero_divisor);
    slice.weights = static_cast<int>(bits.get(15)) + 1;
    slice.weight_divisor = bits.get(3);
    slice.truncated = bits.get(1) != 0;
    slice.new_palette = bits.get(1) != 0;
    if (slice.new_palette) {
      palette.direct_offset = static_cast<int>(bits.get(5));
      palette.size = static_cast<int>(bits.get(5));
      if (palette.size > 0) ++palette.size;
      palette.bits = static_cast<int>(bits.get(3)) + 2;
      for (int i = 0; i < palette.size; ++i)
        palette.values[static_cast<size_t>(i)] = static_cast<int>(bits.get(palette.bits));
    }
    const bool uncompressed = slice.weight_divisor == kUncompressed;
    if (slice.weight_divisor == 6)
      return error("The weight stream has a slice with weight code 6, which is not known.");
    int weight_bits = static_cast<int>(slice.weight_divisor);
    if (uncompressed) {
      weight_bits = palette.bits;
      if (palette.size > 0)
        for (weight_bits = 0; (1 << weight_bits) < palette.size;) ++weight_bits;
    }
    TRY(read_slice(bits, slice, weight_bits, uncompressed, values, runs));

    // Weights and runs of zeros take turns; a slice with its own palette begins with a run.
    const bool zero_runs = slice.zero_divisor != kZeroRunsOff;
    uint64_t total = values.size();
    if (zero_runs)
      for (int run : runs) total += static_cast<uint64_t>(run);
    if (out.size() + total > limit) return error("The weight stream holds more than {} weights.", limit);
    size_t run_at = 0;
    if (zero_runs && slice.new_palette) out.insert(out.end(), static_cast<size_t>(runs[run_at++]), int16_t{0});
    for (int value : values) {
      int folded = value < palette.size ? palette.values[static_cast<size_t>(value)]
                                        : value - palette.size + palette.direct_offset;
      int magnitude = folded >> 1;
      if (magnitude > 255)
        return error("The weight stream holds the weight {}, which has more than 9 bits.", magnitude);
      out.push_back(static_cast<int16_t>((folded & 1) != 0 ? -magnitude : magnitude));
      if (!zero_runs) continue;
      if (const int run = runs[run_at++]; run > 0) out.insert(out.end(), static_cast<size_t>(run), int16_t{0});
    }
  }
  return out;
}

Result<std::vector<int16_t>> decode_fast_stream(Bytes stream, uint64_t count) {
  constexpr size_t kHeaderBytes = 32;
  if (stream.size() < kHeaderBytes) return error("The fast weight stream is shorter than its header.");
  BitReader header(stream.first(kHeaderBytes));
  const bool raw = header.get(1) != 0, small = header.get(1) != 0;
  for (int left = 102; left > 0; left -= 17)
    if (header.get(17) != 0) return error("The header of the fast weight stream has bits set that are not known.");
  const int8_t zero_adjust = static_cast<int8_t>(header.get(8));
  std::array<int16_t, 16> palette{};
  for (int16_t& value : palette) {
    int folded = static_cast<int>(header.get(9));
    value = static_cast<int16_t>((folded & 1) != 0 ? -(folded >> 1) : folded >> 1);
  }
  if (raw && small) return error("The fast weight stream is marked both raw and with a small palette.");
  const int width = raw ? 8 : small ? 2 : 4;
  if ((stream.size() - kHeaderBytes) * 8 / static_cast<size_t>(width) < count)
    return error("The fast weight stream is too short for {} weights.", count);
  BitReader bits(stream.subspan(kHeaderBytes));
  std::vector<int16_t> out(count);
  for (int16_t& value : out) {
    uint32_t code = bits.get(width);
    value = raw ? static_cast<int16_t>(static_cast<int8_t>(code) - zero_adjust) : palette[code];
  }
  return out;
}

}  // namespace swoop::ethos
