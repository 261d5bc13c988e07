// Building blocks of the composites: integer primitives with their result types spelled out. Real numbers are
// expressed in types alone, and lower/ derives each rescale from them; codes appear only where a constant is made.
#pragma once

#include "legalize/common.h"

namespace swoop {

inline Type i16_type(Shape shape, double scale) { return quantized(DType::I16, std::move(shape), scale, 0); }
inline Type i32_type(Shape shape, double scale) { return quantized(DType::I32, std::move(shape), scale, 0); }

// A one-element constant of the given rank that stands for `code * scale`.
ValueId scalar(Rewriter& rw, DType dtype, int rank, int64_t code, double scale);

// A constant of codes.
ValueId codes(Rewriter& rw, const Type& type, std::span<const int64_t> values, std::string_view name);
std::vector<int64_t> codes_of(const Value& constant);

ValueId slice(Rewriter& rw, ValueId x, int64_t axis, int64_t start, int64_t end);
ValueId concat(Rewriter& rw, std::vector<ValueId> parts, int64_t axis);
ValueId unary(Rewriter& rw, std::string_view fn, ValueId x, Type type, Attrs extra = {});
ValueId reduce(Rewriter& rw, Op op, ValueId x, Ints axes, Type type);  // keeps the dims

// max over the last dim, which stays with size 1, by halving: MAXIMUM of two overlapping slices is 5 (U55) to 14 (U85)
// times cheaper than REDUCE_MAX over channels (measured 4.0 -> 0.73 and 4.0 -> 0.28 cycles per element). On U85 a slice
// that does not begin at a multiple of 16 takes the tensor out of brick format (7 cycles per element for 1500 columns
// in DRAM): there a transpose and a REDUCE_MAX along the width are cheaper (0.8). So are they where SRAM does not hold
// the rows and their halves: 6 x 1536 x 1536 scores took 112 Mcycles with all that is done with them, and take 36.
ValueId max_of_rows(Rewriter& rw, ValueId x);

// Whether halves of a tensor's last dim are read well.
bool is_halved_well(const Rewriter& rw, const Type& type);

// The largest or smallest of each row: the last two dims are swapped, and swapped back.
ValueId extreme_of_turned(Rewriter& rw, Op op, ValueId x);

// The same for any axis, and for MINIMUM.
ValueId by_halves(Rewriter& rw, Op op, ValueId x, int64_t axis);

// y[c] = gain[c] * x[c] + offset[c] along the last dim, as a depthwise 1x1 convolution: constant vectors belong in
// weights and bias (measured on U55: 0.5 to 0.8 cycles per element against 8 for a constant operand of MUL or ADD). x
// is [1,H,W,C].
ValueId scale_channels(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset, Type type,
                       Attrs extra = {});

// The same for [N,C,...]: along axis 1.
ValueId scale_axis_1(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset, Type type,
                     Attrs extra = {});

// The same along the last dim by a product and a sum with constant vectors of 16 bits; x is of 16 bits.
ValueId scale_by_vectors(Rewriter& rw, ValueId x, std::span<const double> gain, std::span<const double> offset,
                         Type type, const Attrs& extra);

// A transpose with dims of size 1 left out, and dims that travel together as one: its shape and its permutation.
std::pair<Shape, Ints> fewest_dims(const Shape& shape, const Ints& perm);

// An integer that is no code.
inline bool is_plain_integer(const Type& type) {
  return !type.quantized() && (type.dtype == DType::I8 || type.dtype == DType::I16 || type.dtype == DType::I32);
}

inline ValueId as_i32(Rewriter& rw, ValueId x) {
  return rw.type(x).dtype == DType::I32 ? x : rw.make(Op::Cast, {x}, {{Key::DType, DType::I32}});
}

// The same numbers in another type, by a product with one.
ValueId times_one(Rewriter& rw, ValueId x, Attrs attrs, Type type);

// Whether an elementwise operation should not be what reads x.
bool reads_slowly(const Rewriter& rw, ValueId x);

// Whether x is in SRAM, and what is made of it: all that is in between takes room as well.
bool is_near(const Rewriter& rw, ValueId x);

// 8-bit x in 16 bits, 1/128 of a step, so that differences of codes fit and both scales of a subtraction are whole
// numbers. As a product it may be chained to its reader; but some cores read DRAM faster for a pool (a requantize).
ValueId widen(Rewriter& rw, ValueId x);

// Of x in 16 bits, whether 32 bits can tell how often `alpha` goes into it (rounded.cpp).
bool has_multiples(const Type& x, double alpha);

// The operand and the result are quantized per tensor, in codes.
bool computes_on_codes(const Rewriter& rw, const Node& n);

// The matmul that reads nothing but this softmax as its first operand, and could take it in (attention.cpp). Null:
// there is none.
const Node* reader_as_weights(Rewriter& rw, const Node& softmax);

// The shape [1,1,rows,length] of rows of the given length, or with the rows spread over two dims where one is not
// enough.
Shape rows_shape(const Rewriter& rw, int64_t rows, int64_t length);

}  // namespace swoop
