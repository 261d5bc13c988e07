// A TOSA 1.0 program of the integer profile (with the int16, int4 and control flow extensions) as plain structs, and
// what can be done with one: validate, write and read the flatbuffer, print, and run bit for bit. builder.h makes one.
// Invariants: operators stand in execution order; a TensorId is an index into its own body's tensors; a constant is a
// tensor with is_const and data (no CONST operator is stored); shape operands (CONST_SHAPE in the file) are attributes
// of their user; zero points, multipliers, shifts and tables are inputs, in the specification's order. Body 0 is
// main.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/bytes.h"
#include "support/result.h"

namespace swoop::tosa {

// Values are those of the file.
enum class DType : uint8_t { Bool = 1, I4 = 2, I8 = 3, I16 = 4, I32 = 5, I48 = 6 };

enum class Op : uint8_t {
#define TOSA_OP(name, number, text) name = number,
#include "tosa/ops.def"
#undef TOSA_OP
};

using TensorId = uint32_t;
using BodyId = uint32_t;
using Shape = std::vector<int32_t>;  // a scalar is the empty shape

constexpr int kMaxRank = 6;  // TOSA 1.0, level 8K: MAX_RANK

enum class Rounding : uint8_t { Single = 1, Inexact = 2, Double = 3 };
enum class ResizeMode : uint8_t { Nearest = 1, Bilinear = 2 };

struct NoAttributes {};
struct Conv2dAttributes {  // also of DEPTHWISE_CONV2D; the accumulator follows from the input: i8 -> i32, i16 -> i48
  std::array<int32_t, 4> pad{0, 0, 0, 0};  // top, bottom, left, right
  std::array<int32_t, 2> stride{1, 1};     // y, x
  std::array<int32_t, 2> dilation{1, 1};   // y, x
  bool local_bound = false;
};
struct Conv3dAttributes {
  std::array<int32_t, 6> pad{0, 0, 0, 0, 0, 0};  // front, back, top, bottom, left, right
  std::array<int32_t, 3> stride{1, 1, 1};        // d, y, x
  std::array<int32_t, 3> dilation{1, 1, 1};
  bool local_bound = false;
};
struct TransposeConv2dAttributes {
  std::array<int32_t, 4> out_pad{0, 0, 0, 0};  // top, bottom, left, right; may be negative
  std::array<int32_t, 2> stride{1, 1};
  bool local_bound = false;
};
struct PoolAttributes {                    // AVG_POOL2D, MAX_POOL2D
  std::array<int32_t, 2> kernel{1, 1};     // y, x
  std::array<int32_t, 2> stride{1, 1};     // y, x
  std::array<int32_t, 4> pad{0, 0, 0, 0};  // top, bottom, left, right
};
struct RescaleAttributes {
  bool scale32 = true;
  Rounding rounding = Rounding::Single;
  bool per_channel = false;  // along the last axis
  bool input_unsigned = false;
  bool output_unsigned = false;
};
struct ClampAttributes {
  int64_t min_val = 0;
  int64_t max_val = 0;
};
struct ShiftAttributes {  // ARITHMETIC_RIGHT_SHIFT
  bool round = false;
};
struct AxisAttributes {  // ARGMAX, REDUCE_*, CONCAT, REVERSE
  int32_t axis = 0;
};
struct PadAttributes {
  std::vector<int32_t> padding;  // before, after of axis 0, then of axis 1, ...
};
struct ReshapeAttributes {
  Shape shape;
};
struct TileAttributes {
  std::vector<int32_t> multiples;
};
struct SliceAttributes {
  std::vector<int32_t> start;
  std::vector<int32_t> size;
};
struct TransposeAttributes {
  std::vector<int32_t> perms;
};
struct ResizeAttributes {
  ResizeMode mode = ResizeMode::Nearest;
  std::array<int32_t, 4> scale{1, 1, 1, 1};  // y numerator, y denominator, x numerator, x denominator
  std::array<int32_t, 2> offset{0, 0};       // y, x
  std::array<int32_t, 2> border{0, 0};       // y, x
};
struct CastAttributes {
  DType to = DType::I32;  // not in the file: the type of the output
};
struct CondIfAttributes {
  BodyId then_body = 0;
  BodyId else_body = 0;
};
struct WhileLoopAttributes {
  BodyId cond_body = 0;
  BodyId loop_body = 0;
};
using Attributes = std::variant<NoAttributes, Conv2dAttributes, Conv3dAttributes, TransposeConv2dAttributes,
                                PoolAttributes, RescaleAttributes, ClampAttributes, ShiftAttributes, AxisAttributes,
                                PadAttributes, ReshapeAttributes, TileAttributes, SliceAttributes, TransposeAttributes,
                                ResizeAttributes, CastAttributes, CondIfAttributes, WhileLoopAttributes>;

struct Tensor {
  std::string name;  // unique in its body; the writer makes one up when empty
  DType dtype = DType::I8;
  Shape shape;
  bool is_const = false;
  Buffer data;  // of a constant; element_bytes(dtype) per element, row major
};

struct Operator {
  Op op = Op::Identity;
  Attributes attributes;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::string location;  // the source layer; may be empty
};

// What the file calls a region: the main program, or a body of control flow.
struct Body {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
};

struct Program {
  std::vector<Body> bodies;  // 0 = "main"; the others are bodies of COND_IF and WHILE_LOOP
};

// A value: element_bytes(dtype) per element, row major.
struct TensorData {
  DType dtype = DType::I8;
  Shape shape;
  Buffer data;
};

std::string_view name(Op op);        // "CONV2D"
std::string_view name(DType dtype);  // "i8"

// Bytes per element in memory: Bool, I4 and I8 take 1, I16 2, I32 4, and I48 a sign-extended int64_t. (The file packs
// I4 to half a byte and I48 to six; reader and writer convert.)
size_t element_bytes(DType dtype);
int64_t element_count(const Shape& shape);

// Every rule of the specification that does not depend on values of inputs: operand counts, types, ranks, shape
// equations, zero points, rescale parameters, levels (8K), definition before use. The first broken one, as a sentence.
Result<void> validate(const Program& program);

// The .tosa file, version 1.0.0. The program is valid. Deterministic.
Buffer write(const Program& program);

// Whether a file that write() made has such an operator.
bool holds(Bytes file, Op op);

// How many constants the file has before the body's first operator.
size_t constants_in_file(const Body& body);

// Reads any .tosa file of the integer profile; the result passed validate(). Hostile bytes give an error.
Result<Program> read(Bytes bytes);

// One line per operator: `%out : i8[1,8,8,16] = CONV2D %x %w ... {pad=[1,1,1,1] ...} # location`.
std::string text(const Program& program);

// Called after each operator for each of its outputs, in execution order.
using Observer = std::function<void(const Body&, const Operator&, TensorId output, const TensorData& value)>;

// The outputs of body 0, exactly as the specification defines them. An input of the wrong type or shape, an overflow
// that the specification forbids (REQUIRE) and an endless loop give an error. The program is valid.
Result<std::vector<TensorData>> run(const Program& program, std::span<const TensorData> inputs,
                                    const Observer& observer = {});

}  // namespace swoop::tosa

#include "tosa/bounds.h"
#include "tosa/builder.h"
