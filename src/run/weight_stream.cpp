// The two bit formats of weight streams. Bits are read from the lowest of each byte up.
#include <algorithm>
#include <bit>

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

// What the codes of weights stand for.
struct Palette {
  static constexpr int kMost = 255;  // of a weight: 9 bits
  static constexpr size_t kCodes = 2 * (kMost + 1) + 32;

  int size = 0, bits = 2, direct_offset = 0;
  std::array<int, 32> values{};
  std::array<int16_t, kCodes> weights{};  // by code, once number_codes() was called; too large: kMost + 1

  // A magnitude, and its sign in the lowest bit.
  int folded(int code) const { return code < size ? values[static_cast<size_t>(code)] : code - size + direct_offset; }

  void number_codes() {
    for (size_t code = 0; code < kCodes; ++code) {
      const int number = folded(static_cast<int>(code)), magnitude = std::min(number >> 1, kMost + 1);
      weights[code] = static_cast<int16_t>((number & 1) != 0 && magnitude <= kMost ? -magnitude : magnitude);
    }
  }
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

// The lowest bits of a number of six, where another one has ones, in their order: [ones][bits].
constexpr auto kSpread = [] {
  std::array<std::array<uint8_t, 64>, 64> all{};
  for (uint32_t ones = 0; ones < 64; ++ones)
    for (uint32_t bits = 0; bits < 64; ++bits) {
      uint32_t left = bits, result = 0;
      for (uint32_t at = 1; at < 64; at *= 2)
        if (ones & at) {
          result |= left & 1 ? at : 0;
          left >>= 1;
        }
      all[ones][bits] = static_cast<uint8_t>(result);
    }
  return all;
}();

uint32_t spread_12(uint32_t bits, uint32_t ones) {
  const uint32_t low = ones & 63, high = ones >> 6;
  const uint32_t rest = bits >> std::popcount(low) & 63;
  return kSpread[low][bits & 63] | static_cast<uint32_t>(kSpread[high][rest]) << 6;
}

// The quotients of weights that end in these 12 units, at most `most`. A unit is 0, 10 or 11, its second bit in
// `seconds`: 11 adds 2 to a quotient and the others end it, unless it is cut off after one unit. `begun`: how many 11
// came before.
void read_quotients(uint32_t units, uint32_t seconds, bool cut_off, int most, int& begun, Chunk& chunk) {
  constexpr int kUnits = 12;
  const uint32_t twos = spread_12(seconds, units);
  if (cut_off) {
    for (int i = 0; i < kUnits; ++i)
      chunk.quotients[static_cast<size_t>(i)] = static_cast<int>((units >> i & 1) + (twos >> i & 1));
    chunk.count = std::min(kUnits, most);
    return;
  }
  chunk.count = 0;
  int last = -1 - begun;  // unit that ended a quotient
  for (uint32_t ends = ~twos & ((1u << kUnits) - 1); ends != 0 && chunk.count < most; ends &= ends - 1) {
    const int end = std::countr_zero(ends);
    chunk.quotients[static_cast<size_t>(chunk.count++)] = 2 * (end - last - 1) + static_cast<int>(units >> end & 1);
    last = end;
  }
  begun = kUnits - 1 - last;
}

// Reads the slice's weight values and the lengths of its zero runs.
Result<void> read_slice(BitReader& bits, const Slice& slice, int weight_bits, bool uncompressed,
                        std::vector<int>& values, std::vector<int>& runs) {
  const bool zero_runs = slice.zero_divisor != kZeroRunsOff;
  const int weight_count = slice.weights, run_count = weight_count + (slice.new_palette ? 1 : 0);
  values.assign(static_cast<size_t>(weight_count), 0);
  runs.assign(static_cast<size_t>(run_count), 0);
  int weight_at = 0, run_at = 0, weight_done = 0, run_done = 0;
  int weight_begun = 0, run_quotient = 0;
  const int run_unary = slice.zero_divisor < 3 ? 12 : 8;
  std::array<Chunk, 2> weight_chunks, zero_chunks;  // this one and the one before, in turn
  for (size_t turn = 0;; turn ^= 1) {
    Chunk &weights = weight_chunks[turn], &earlier_weights = weight_chunks[turn ^ 1];
    Chunk &zeros = zero_chunks[turn], &earlier_zeros = zero_chunks[turn ^ 1];
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
      const uint32_t unary1 = unary0 != 0 ? bits.get(std::popcount(unary0)) : 0;
      if (uncompressed) {  // no quotients
        weights.count = std::min(weight_bits > 5 ? 8 : 12, weight_count - weight_at);
      } else {
        read_quotients(unary0, unary1, slice.truncated, weight_count - weight_at, weight_begun, weights);
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
    if (bits.overrun()) return error("The weight stream ends inside a slice.");
    if (!weights.active && !zeros.active) return {};
  }
}

}  // namespace

Result<std::vector<int16_t>> decode_weight_stream(Bytes stream, uint64_t limit) {
  BitReader bits(stream);
  Palette palette;
  palette.number_codes();
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
      palette.number_codes();
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
    size_t at = out.size(), run_at = 0;
    out.resize(at + total);  // zeros
    if (zero_runs && slice.new_palette) at += static_cast<size_t>(runs[run_at++]);
    for (int code : values) {
      const auto place = static_cast<size_t>(code);
      const int16_t weight = place < Palette::kCodes ? palette.weights[place] : Palette::kMost + 1;
      if (weight > Palette::kMost)
        return error("The weight stream holds the weight {}, which has more than 9 bits.",
                     palette.folded(std::max(code, palette.size)) >> 1);
      out[at++] = weight;
      if (zero_runs) at += static_cast<size_t>(runs[run_at++]);
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
