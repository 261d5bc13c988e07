// Weights that the NPU writes itself. U55 and U65 have no product of two computed matrices: regor makes one of
// elementwise operations, a cycle for each multiplication, where a convolution does a hundred in that time. The weights
// of a convolution are a stream of bits in memory, and one of its formats is eight plain bits for each weight: a table
// turns a matrix of int8 into such codes, and copies put them where the decoder wants them. npu/ plans this (the graph
// that regor compiles has places for all of it), run/ writes it into regor's stream.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "support/bytes.h"

namespace swoop {

// The codes of a matrix [channels, depth], each weight a byte, in the order in which the MAC array takes them: blocks
// of 32 inputs; in each, rows of some outputs (the microblock) by 32 inputs; in a row, groups of 8 inputs. A slice of
// the stream begins with a header of 36 bits, so that bytes of weights after it would be half a byte off. So the first
// eight outputs have weights of zero, which take a bit or two each, and fill what is left up to 64 bytes. What these
// outputs give is not used.
class WeightCodes {
 public:
  static constexpr int kUnused = 8;  // outputs before those of the matrix
  static constexpr int kGroup = 8;   // inputs side by side
  static constexpr int kGroups = 4;  // in a row
  static constexpr int64_t kAlignment = 16;
  static constexpr int kScaleBytes = 10;  // of an output

  // `microblock`: outputs that the core computes at once, 4 or 8.
  WeightCodes(int channels, int depth, int microblock) : channels_(channels), depth_(depth), microblock_(microblock) {}

  int channels() const { return channels_; }
  int depth() const { return depth_; }
  int microblock() const { return microblock_; }
  int blocks() const { return (depth_ + kBlock - 1) / kBlock; }
  int rows() const { return (kUnused + channels_ + microblock_ - 1) / microblock_; }  // of a block
  int unused_rows() const { return kUnused / microblock_; }
  int64_t row_bytes() const { return int64_t{microblock_} * kBlock; }

  // The same for a core that computes at most so many outputs in one go, and takes all inputs for them before it goes
  // on with others. False: no header fits between them.
  bool set_outputs_at_once(int outputs);
  int last_row(int row) const;  // of those that are computed together, one after the other in each block

  // Whether a block begins with a header, in the place of its unused rows.
  bool has_header(int block) const { return block % blocks_of_slice() == 0; }
  // Where a row is in the stream. In a block with a header, not that of an unused one.
  int64_t row(int block, int row) const;

  int64_t bytes() const;  // of the stream, a multiple of the alignment
  int outputs() const { return kUnused + channels_; }
  int64_t scale_bytes() const {  // likewise
    return (int64_t{kScaleBytes} * outputs() + kAlignment - 1) / kAlignment * kAlignment;
  }

  // What does not depend on the matrix: headers, and the end of the stream; and where each stands.
  struct Constant {
    int64_t at = 0;
    Buffer bytes;
  };
  std::vector<Constant> constants() const;

 private:
  static constexpr int kBlock = kGroup * kGroups;
  int blocks_of_slice() const;
  int64_t slice_bytes(int blocks) const;

  int channels_, depth_, microblock_;
  int rows_at_once_ = rows();
};

// The table from a weight, -127 to 127, to its code: the magnitude above its sign.
Buffer weight_code_table();

// Where the operations of one product are in regor's program, by place of their TOSA operator in the file, and where
// its bytes are in the tensor that holds streams and first operand: for each of `heads`, first room for the streams,
// then the rows of the operand.
struct ComputedWeights {
  int heads = 1;
  int rows = 1;            // of the first operand
  int64_t head_bytes = 0;  // from one head to the next
  int64_t operand = 0;     // from the start of a head to the operand's first row
  int constants = 0;       // the CONCAT, of which one part is a constant: all headers and ends, one after the other
  // Where scales of our own are, if there is room for them: from the start of a head, and in the constant. regor may
  // cut a convolution into parts with scales of their own; as one, it needs them side by side.
  struct Scales {
    int64_t at = 0, in_constant = 0;
  };
  std::optional<Scales> scales;
  struct Stream {
    WeightCodes codes;
    int64_t at = 0;             // from the start of a head, aligned
    int table = 0;              // the TABLE
    std::vector<int> products;  // the CONV2Ds, by head
  };
  std::vector<Stream> streams;
};

}  // namespace swoop
