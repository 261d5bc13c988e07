#include "target/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/ops.h"

namespace swoop {

namespace {

// Where the facts come from: the operator lists and checks of Vela 5.1's regor for the three cores, measured by
// compiling.
constexpr int64_t kMaxRank = 6;  // TOSA 1.0, level 8K
constexpr int64_t kMaxWindowStride =
    3;  // U55, U65: stride fields of 2 bits; larger strides are unrolled into one op per position
constexpr int64_t kMaxPaddedPool = 8;  // U55, U65: average pools that must not count padding

struct Query {
  const Graph& graph;
  const Node& node;
  const NpuTarget& target;

  const Type& in(size_t i) const { return graph.type(node.inputs[i]); }
  const Type& out() const { return graph.type(node.outputs[0]); }
  bool small() const { return target.family != NpuFamily::U85; }  // U55 and U65 accept the same set
};

struct Row {
  Constraint text;
  bool small_only;                      // U55 and U65 alone
  std::string (*broken)(const Query&);  // empty: satisfied; else the offending value in words
  std::string_view advice;
};

std::string types_are_integers(const Query& q) {
  auto check = [&](ValueId id) -> std::string {
    if (id == kNone) return "";
    const Value& value = q.graph.value(id);
    if (is_float(value.type.dtype))
      return fmt::format("{} is {}, not quantized", value.name, name_of(value.type.dtype));
    if (value.type.dtype == DType::I64) return fmt::format("{} is a 64-bit integer", value.name);
    return "";
  };
  for (ValueId id : q.node.inputs)
    if (std::string fault = check(id); !fault.empty()) return fault;
  for (ValueId id : q.node.outputs)
    if (std::string fault = check(id); !fault.empty()) return fault;
  return "";
}

std::string unsigned_only_at_ports(const Query& q) {
  if (q.node.op == Op::Quantize || q.node.op == Op::Cast || info(q.node.op).traits.movement) return "";
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).dtype == DType::U8) return fmt::format("{} is uint8", q.graph.value(id).name);
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).dtype == DType::U8) return fmt::format("{} is uint8", q.graph.value(id).name);
  return "";
}

std::string rank_fits(const Query& q) {
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).rank() > kMaxRank)
      return fmt::format("{} has rank {}", q.graph.value(id).name, q.graph.type(id).rank());
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).rank() > kMaxRank)
      return fmt::format("{} has rank {}", q.graph.value(id).name, q.graph.type(id).rank());
  return "";
}

std::string has_form(const Query& q) {
  if (has_npu_form(q.node.op, q.target)) return "";
  return fmt::format("{}", q.node.op == Op::Opaque ? q.node.text(Key::Target, "opaque") : name_of(q.node.op));
}

std::string no_booleans(const Query& q) {
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).dtype == DType::Bool)
      return fmt::format("{} is boolean", q.graph.value(id).name);
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).dtype == DType::Bool) return fmt::format("{} is boolean", q.graph.value(id).name);
  return "";
}

bool is_window(Op op) { return op == Op::Conv || op == Op::MaxPool || op == Op::AvgPool; }

std::string stride_fits(const Query& q) {
  if (!is_window(q.node.op)) return "";
  for (int64_t stride : q.node.ints(Key::Stride))
    if (stride > kMaxWindowStride) return fmt::format("stride {}", stride);
  return "";
}

std::string constant_weights(const Query& q) {
  if (q.node.op != Op::Conv && q.node.op != Op::ConvTranspose) return "";
  for (size_t i = 1; i < q.node.inputs.size(); ++i)
    if (q.node.inputs[i] != kNone && !q.graph.value(q.node.inputs[i]).constant)
      return fmt::format("{} is computed", q.graph.value(q.node.inputs[i]).name);
  return "";
}

std::string padded_pool_fits(const Query& q) {
  if (q.node.op != Op::AvgPool) return "";
  const Ints& padding = q.node.ints(Key::Padding);
  if (std::all_of(padding.begin(), padding.end(), [](int64_t p) { return p == 0; })) return "";
  for (int64_t kernel : q.node.ints(Key::Kernel))
    if (kernel > kMaxPaddedPool) return fmt::format("kernel {} with padding", kernel);
  return "";
}

std::string kernel_fits(const Query& q) {
  if (q.node.op == Op::Conv) {
    const Shape& weight = q.in(1).shape;
    bool last = q.node.flag(Key::ChannelsLast);
    int64_t height = weight.size() == 4 ? weight[last ? 1 : 2] : 1;
    int64_t width = weight.size() == 4 ? weight[last ? 2 : 3] : 1;
    const Ints& dilation = q.node.ints(Key::Dilation);
    int64_t tall = (height - 1) * dilation[0] + 1;
    int64_t area = tall * ((width - 1) * dilation.back() + 1);
    if (tall > 64 || area > 4096) return fmt::format("kernel {}x{} (dilated)", height, width);
  } else if (q.node.op == Op::AvgPool || q.node.op == Op::MaxPool) {
    const Ints& kernel = q.node.ints(Key::Kernel);
    if (kernel[0] > 256 || kernel[0] * kernel.back() > 65536)
      return fmt::format("pool {}x{}", kernel[0], kernel.back());
  }
  return "";
}

std::string matmul_is_8_bit(const Query& q) {
  return q.node.op == Op::MatMul && q.in(0).dtype != DType::I8
             ? fmt::format("operand of type {}", name_of(q.in(0).dtype))
             : "";
}

std::string transpose_conv_stride(const Query& q) {
  if (q.node.op != Op::ConvTranspose) return "";
  const Ints& stride = q.node.ints(Key::Stride);
  bool fits = stride[0] <= 2 && stride.back() <= 2;
  return fits ? "" : fmt::format("stride {}x{}", stride[0], stride.back());
}

std::string transpose_conv_dilation(const Query& q) {
  if (q.node.op != Op::ConvTranspose) return "";
  const Ints& dilation = q.node.ints(Key::Dilation);
  bool plain = std::all_of(dilation.begin(), dilation.end(), [](int64_t d) { return d == 1; });
  if (!plain) return "dilation above 1";
  return q.node.integer(Key::Groups, 1) != 1 ? "more than one group" : "";
}

std::string resize_is_power_of_two(const Query& q) {
  if (q.node.op != Op::Resize) return "";
  if (q.node.text(Key::Mode) != "nearest") return fmt::format("mode {}", q.node.text(Key::Mode));
  bool last = q.node.flag(Key::ChannelsLast);
  const Shape& shape = q.in(0).shape;
  int64_t ratio = 0;
  for (size_t i = 0; i < 2; ++i) {
    int64_t from = shape[last ? 1 + i : 2 + i];
    int64_t to = q.node.ints(Key::Size)[i];
    if (from <= 0 || to % from != 0) return fmt::format("from {} to {}", from, to);
    if (i == 1 && to / from != ratio) return "different factors for height and width";
    ratio = to / from;
  }
  return ratio == 2 || ratio == 4 || ratio == 8 ? "" : fmt::format("factor {}", ratio);
}

std::string flip_axis(const Query& q) {
  if (q.node.op != Op::Flip) return "";
  int64_t last = q.in(0).rank() - 1;
  for (int64_t axis : q.node.ints(Key::Axes))
    if (axis == last) return fmt::format("axis {}", axis);
  return "";
}

std::string argmax_fits(const Query& q) {
  if (q.node.op != Op::ArgMax) return "";
  int64_t axis = q.node.integer(Key::Axis);
  int64_t size = q.in(0).shape[static_cast<size_t>(axis)];
  if (axis != q.in(0).rank() - 1) return fmt::format("axis {}", axis);
  return size > 127 || q.in(0).dtype != DType::I8 ? fmt::format("{} channels of {}", size, name_of(q.in(0).dtype)) : "";
}

std::string reduce_is_narrow(const Query& q) {
  bool reduce = q.node.op == Op::ReduceMax || q.node.op == Op::ReduceMin;
  return reduce && q.in(0).dtype == DType::I32 ? "a 32-bit operand" : "";
}

const Row kRows[] = {
    {{"all.c1", "all", "every op", "no operator outside the list of `swoop ops`"},
     false,
     has_form,
     "replace it by operators of that list, or accept that it runs on the host"},
    {{"all.c2", "all", "every op", "operands and results are quantized or integers of at most 32 bits"},
     false,
     types_are_integers,
     "quantize the model around it (--calibrate does), or check why its quantizer left it in float"},
    {{"all.c3", "all", "every op", "rank at most 6"}, false, rank_fits, "flatten dimensions that travel together"},
    {{"all.c5", "all", "every op", "uint8 is moved and requantized, not computed on"},
     false,
     unsigned_only_at_ports,
     "quantize to int8, or convert to float first"},
    {{"u55.c1", "U55, U65", "every op", "no booleans"},
     true,
     no_booleans,
     "use arithmetic (clamp, multiply by a 0/1 mask) in place of masks"},
    {{"u55.c2", "U55, U65", "conv, max_pool, avg_pool", "stride at most 3"},
     true,
     stride_fits,
     "use two layers of smaller stride"},
    {{"u55.c3", "U55, U65", "conv, conv_transpose", "weights and bias are constants"},
     true,
     constant_weights,
     "keep weights as parameters"},
    {{"u55.c4", "U55, U65", "avg_pool", "kernel at most 8 where padding is not counted"},
     true,
     padded_pool_fits,
     "pad explicitly, or set count_include_pad=True"},
    {{"u55.c5", "U55, U65", "conv, max_pool, avg_pool",
      "conv: height at most 64, area at most 4096; pools: height at most 256, area at most 65536"},
     true,
     kernel_fits,
     "split the window into smaller ones"},
    {{"u55.c6", "U55, U65", "matmul", "8-bit operands"}, true, matmul_is_8_bit, "quantize this product to int8"},
    {{"u55.c7", "U55, U65", "conv_transpose", "stride at most 2"},
     true,
     transpose_conv_stride,
     "upsample in two steps of 2"},
    {{"all.c4", "all", "conv_transpose", "dilation 1 and one group"},
     false,
     transpose_conv_dilation,
     "use a plain transposed convolution"},
    {{"u55.c8", "U55, U65", "resize", "nearest, by 2, 4 or 8 in both directions"},
     true,
     resize_is_power_of_two,
     "use nearest with a factor of 2, 4 or 8"},
    {{"u55.c9", "U55, U65", "flip", "not along channels"},
     true,
     flip_axis,
     "flip another axis, or permute the next layer's weights"},
    {{"u55.c10", "U55, U65", "argmax", "over int8 channels, at most 127"},
     true,
     argmax_fits,
     "take the argmax on the host"},
    {{"u55.c11", "U55, U65", "amax, amin", "8 or 16 bits"}, true, reduce_is_narrow, "reduce before widening"},
};

}  // namespace

bool has_npu_form(Op op, const NpuTarget& target) {
  bool u85 = target.family == NpuFamily::U85;
  switch (op) {
    case Op::Quantize:
    case Op::Cast:
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::MatMul:
    case Op::MaxPool:
    case Op::AvgPool:
    case Op::Resize:
    case Op::Unary:
    case Op::Clamp:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Maximum:
    case Op::Minimum:
    case Op::Sum:
    case Op::Mean:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::ArgMax:
    case Op::Reshape:
    case Op::Transpose:
    case Op::Concat:
    case Op::Slice:
    case Op::Pad:
    case Op::Repeat:
    case Op::Flip: return true;
    case Op::Compare:
    case Op::Logical:
    case Op::LogicalNot:
    case Op::Bitwise:
    case Op::BitwiseNot:
    case Op::Where:
    case Op::Any:
    case Op::All:
    case Op::Gather:
    case Op::Cond: return u85;
    // Expanded by legalize, or left to the host.
    case Op::Dequantize:
    case Op::Linear:
    case Op::AdaptiveAvgPool:
    case Op::AdaptiveMaxPool:
    case Op::Prelu:
    case Op::Div:
    case Op::Pow:
    case Op::Remainder:
    case Op::Prod:
    case Op::Var:
    case Op::ArgMin:
    case Op::CumSum:
    case Op::Softmax:
    case Op::LogSoftmax:
    case Op::LayerNorm:
    case Op::RmsNorm:
    case Op::GroupNorm:
    case Op::BatchNorm:
    case Op::Attention:
    case Op::Expand:
    case Op::GatherElements:
    case Op::ScatterElements:
    case Op::While:
    case Op::Map:
    case Op::Scan:
    case Op::Opaque: return false;
  }
  return false;
}

bool on_integers(const Graph& graph, const Node& node) {
  auto narrow = [&](ValueId id) {
    if (id == kNone) return true;
    const Type& type = graph.type(id);
    return !is_float(type.dtype) && type.dtype != DType::I64;
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), narrow) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), narrow);
}

Support supports(const Graph& graph, const Node& node, const NpuTarget& target) {
  Query query{graph, node, target};
  for (const Row& row : kRows) {
    if (row.small_only && !query.small()) continue;
    std::string broken = row.broken(query);
    if (broken.empty()) continue;
    return {false, row.text.label, fmt::format("{}; {} takes: {}", broken, family_name(target.family), row.text.limit),
            row.advice};
  }
  return {};
}

std::span<const Constraint> constraints() {
  static const auto kTexts = [] {
    std::array<Constraint, std::size(kRows)> texts;
    std::transform(std::begin(kRows), std::end(kRows), texts.begin(), [](const Row& row) { return row.text; });
    return texts;
  }();
  return kTexts;
}

}  // namespace swoop
