#include "limits/limits.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>

#include "ops/ops.h"

namespace swoop {

namespace {

struct Query {
  const Graph& graph;
  const Node& node;
  const NpuTarget& target;
  const NpuFacts& facts = target.facts();

  const Type& in(size_t i) const { return graph.type(node.inputs[i]); }
  const Type& out() const { return graph.type(node.outputs[0]); }
};

using Lift = bool NpuFacts::*;
using Number = int64_t NpuFacts::*;

struct Row {
  std::string_view label;
  Lift lifted_by;  // cores of which this is true do not have the limit; null: all have it
  std::string_view ops;
  std::string_view limit;  // with a {} for each of the numbers
  std::vector<Number> numbers;
  std::string (*broken)(const Query&);  // empty: satisfied; else the offending value in words
  std::string_view advice;

  bool binds(const NpuFacts& facts) const { return lifted_by == nullptr || !(facts.*lifted_by); }
  std::string limit_of(const NpuFacts& facts) const {
    fmt::dynamic_format_arg_store<fmt::format_context> values;
    for (Number number : numbers) values.push_back(facts.*number);
    return fmt::vformat(limit, values);
  }
};

// What `fault_of` says first about an operand or a result; empty: nothing.
template <typename FaultOf>
std::string first_fault(const Query& q, FaultOf fault_of) {
  for (const std::vector<ValueId>* ids : {&q.node.inputs, &q.node.outputs})
    for (ValueId id : *ids)
      if (std::string fault = id == kNone ? "" : fault_of(q.graph.value(id)); !fault.empty()) return fault;
  return "";
}

std::string types_are_integers(const Query& q) {
  return first_fault(q, [](const Value& value) {
    return is_float(value.type.dtype) ? fmt::format("{} is {}, not quantized", value.name, name_of(value.type.dtype))
                                      : "";
  });
}

std::string integers_are_narrow(const Query& q) {
  return first_fault(q, [](const Value& value) {
    return value.type.dtype == DType::I64 ? fmt::format("{} is a 64-bit integer", value.name) : "";
  });
}

std::string unsigned_only_at_ports(const Query& q) {
  const bool codes = q.node.op == Op::Cast && (q.in(0).quantized() || q.out().quantized());
  if (q.node.op == Op::Quantize || codes || info(q.node.op).traits.movement) return "";
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).dtype == DType::U8) return fmt::format("{} is uint8", q.graph.value(id).name);
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).dtype == DType::U8) return fmt::format("{} is uint8", q.graph.value(id).name);
  return "";
}

std::string rank_fits(const Query& q) {
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).rank() > q.facts.max_rank)
      return fmt::format("{} has rank {}", q.graph.value(id).name, q.graph.type(id).rank());
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).rank() > q.facts.max_rank)
      return fmt::format("{} has rank {}", q.graph.value(id).name, q.graph.type(id).rank());
  return "";
}

std::string no_booleans(const Query& q) {
  // At a port, a boolean is a byte.
  if (q.node.op == Op::Cast && (q.in(0).quantized() || q.out().quantized())) return "";
  for (ValueId id : q.node.inputs)
    if (id != kNone && q.graph.type(id).dtype == DType::Bool)
      return fmt::format("{} is boolean", q.graph.value(id).name);
  for (ValueId id : q.node.outputs)
    if (q.graph.type(id).dtype == DType::Bool) return fmt::format("{} is boolean", q.graph.value(id).name);
  return "";
}

std::string has_form(const Query& q) {
  if (has_npu_form(q.node.op, q.target.family)) return "";
  // A softmax, say, gets a form once it is quantized, and a comparison where its integers are small.
  if (info(q.node.op).policy != Policy::KeepFloat && !types_are_integers(q).empty()) return "";
  if (q.node.op != Op::Opaque && !integers_are_narrow(q).empty()) return "";
  if (q.node.op != Op::Opaque && !q.facts.has_booleans && !no_booleans(q).empty()) return "";
  return fmt::format("{}", q.node.op == Op::Opaque ? std::string_view(q.node.text(Key::Target)) : name_of(q.node.op));
}

std::string keeps_fractions(const Query& q) {
  return q.node.op == Op::Div && q.node.has(Key::Mode) ? fmt::format("rounding mode {}", q.node.text(Key::Mode)) : "";
}

std::string divides_codes(const Query& q) {
  if (q.node.op != Op::Div) return "";
  if (!q.out().quantized()) return "a quotient of plain integers";
  for (size_t i = 0; i < 2; ++i)
    if (!q.in(i).quantized() || q.in(i).quant->per_channel())
      return fmt::format("{} has no single scale", q.graph.value(q.node.inputs[i]).name);
  return "";
}

std::string only_shifts_left(const Query& q) {
  if (q.node.op != Op::Bitwise) return "";
  const std::string& fn = q.node.text(Key::Fn);
  return fn == "shl" && q.out().dtype == DType::I32 ? "" : fmt::format("{} of {}", fn, name_of(q.out().dtype));
}

std::string stride_fits(const Query& q) {
  if (!info(q.node.op).traits.window) return "";
  for (int64_t stride : q.node.ints(Key::Stride))
    if (stride > q.facts.max_stride) return fmt::format("stride {}", stride);
  return "";
}

std::string constant_weights(const Query& q) {
  if (!info(q.node.op).traits.weights) return "";
  for (size_t i = 1; i < q.node.inputs.size(); ++i)
    if (q.node.inputs[i] != kNone && !q.graph.value(q.node.inputs[i]).constant)
      return fmt::format("{} is computed", q.graph.value(q.node.inputs[i]).name);
  return "";
}

std::string plain_computed_weights(const Query& q) {
  if (!info(q.node.op).traits.weights) return "";
  auto computed = [&](size_t i) {
    return i < q.node.inputs.size() && q.node.inputs[i] != kNone && !q.graph.value(q.node.inputs[i]).constant;
  };
  if (computed(2)) return fmt::format("{} is computed", q.graph.value(q.node.inputs[2]).name);
  if (!computed(1)) return "";
  if (q.node.op != Op::Conv) return "computed weights";
  if (q.in(0).dtype != DType::I8 || q.in(1).dtype != DType::I8) return "computed weights of 16 bits";
  int64_t channels = q.node.flag(Key::ChannelsLast) ? q.in(0).shape.back() : q.in(0).shape[1];
  bool depthwise = q.node.integer(Key::Groups) == channels && channels > 1;
  return depthwise ? "computed depthwise weights" : "";
}

std::string padded_pool_fits(const Query& q) {
  if (q.node.op != Op::AvgPool) return "";
  const Ints& padding = q.node.ints(Key::Padding);
  if (std::all_of(padding.begin(), padding.end(), [](int64_t p) { return p == 0; })) return "";
  for (int64_t kernel : q.node.ints(Key::Kernel))
    if (kernel > q.facts.max_padded_average) return fmt::format("kernel {} with padding", kernel);
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
    if (tall > q.facts.max_conv_height || area > q.facts.max_conv_area)
      return fmt::format("kernel {}x{} (dilated)", height, width);
  } else if (q.node.op == Op::AvgPool || q.node.op == Op::MaxPool) {
    const Ints& kernel = q.node.ints(Key::Kernel);
    if (kernel[0] > q.facts.max_pool_height || kernel[0] * kernel.back() > q.facts.max_pool_area)
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
  bool fits = std::max(stride[0], stride.back()) <= q.facts.max_transposed_stride;
  return fits ? "" : fmt::format("stride {}x{}", stride[0], stride.back());
}

std::string transpose_conv_dilation(const Query& q) {
  if (q.node.op != Op::ConvTranspose) return "";
  const Ints& dilation = q.node.ints(Key::Dilation);
  bool plain = std::all_of(dilation.begin(), dilation.end(), [](int64_t d) { return d == 1; });
  if (!plain) return "dilation above 1";
  return q.node.integer(Key::Groups) != 1 ? "more than one group" : "";
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
  return size > q.facts.argmax_depth || q.in(0).dtype != DType::I8
             ? fmt::format("{} channels of {}", size, name_of(q.in(0).dtype))
             : "";
}

std::string reduce_is_narrow(const Query& q) {
  bool reduce = q.node.op == Op::ReduceMax || q.node.op == Op::ReduceMin;
  return reduce && q.in(0).dtype == DType::I32 ? "a 32-bit operand" : "";
}

const Row kRows[] = {
    {"all.c1",
     nullptr,
     "every op",
     "no operator outside the list of `swoop ops`",
     {},
     has_form,
     "replace it by operators of that list, or accept that it runs on the host"},
    {"all.c2",
     nullptr,
     "every op",
     "operands and results are quantized, or integers",
     {},
     types_are_integers,
     "quantize the model around it (--calibrate does), or check why its quantizer left it in float"},
    {"all.c9",
     nullptr,
     "every op",
     "integers of at most 32 bits",
     {},
     integers_are_narrow,
     "where the numbers fit into 32 bits, say so: export an input as int32 (example.to(torch.int32)), and in the model "
     "write x.argmax(1).to(torch.int32)"},
    {"all.c3",
     nullptr,
     "every op",
     "rank at most {}",
     {&NpuFacts::max_rank},
     rank_fits,
     "flatten dimensions that travel together"},
    {"all.c5",
     nullptr,
     "every op",
     "uint8 is moved and requantized, not computed on",
     {},
     unsigned_only_at_ports,
     "quantize to int8, or convert to float first"},
    {"u55.c1",
     &NpuFacts::has_booleans,
     "every op",
     "no booleans but at the border of a region, as bytes",
     {},
     no_booleans,
     "use arithmetic (clamp, multiply by a 0/1 mask) in place of masks"},
    {"u55.c2",
     &NpuFacts::takes_windows_apart,
     "conv, max_pool, avg_pool",
     "stride at most {}",
     {&NpuFacts::max_stride},
     stride_fits,
     "use two layers of smaller stride"},
    {"all.c8",
     nullptr,
     "conv, conv_transpose",
     "constant bias; computed weights only of 8 bits, in a conv that is not depthwise",
     {},
     plain_computed_weights,
     "keep weights as parameters"},
    {"u55.c3",
     &NpuFacts::computed_weights,
     "conv, conv_transpose",
     "weights and bias are constants",
     {},
     constant_weights,
     "keep weights as parameters"},
    {"u55.c4",
     &NpuFacts::takes_windows_apart,
     "avg_pool",
     "kernel at most {} where padding is not counted",
     {&NpuFacts::max_padded_average},
     padded_pool_fits,
     "pad explicitly, or set count_include_pad=True"},
    {"u55.c5",
     &NpuFacts::takes_windows_apart,
     "conv, max_pool, avg_pool",
     "conv: height at most {}, area at most {}; pools: height at most {}, area at most {}",
     {&NpuFacts::max_conv_height, &NpuFacts::max_conv_area, &NpuFacts::max_pool_height, &NpuFacts::max_pool_area},
     kernel_fits,
     "split the window into smaller ones"},
    {"u55.c6",
     &NpuFacts::matmul_of_16_bits,
     "matmul",
     "8-bit operands",
     {},
     matmul_is_8_bit,
     "quantize this product to int8"},
    {"u55.c7",
     &NpuFacts::takes_windows_apart,
     "conv_transpose",
     "stride at most {}",
     {&NpuFacts::max_transposed_stride},
     transpose_conv_stride,
     "upsample in two steps of 2"},
    {"all.c4",
     nullptr,
     "conv_transpose",
     "dilation 1 and one group",
     {},
     transpose_conv_dilation,
     "use a plain transposed convolution"},
    {"all.c6", nullptr, "div", "quotients that are not rounded", {}, keeps_fractions, "round on the host"},
    {"all.c7", nullptr, "div", "quantized operands with one scale each", {}, divides_codes, "quantize both operands"},
    {"u55.c8",
     &NpuFacts::has_resize,
     "resize",
     "nearest, by 2, 4 or 8 in both directions",
     {},
     resize_is_power_of_two,
     "use nearest with a factor of 2, 4 or 8"},
    {"u55.c9",
     &NpuFacts::flips_channels,
     "flip",
     "not along channels",
     {},
     flip_axis,
     "flip another axis, or permute the next layer's weights"},
    {"u55.c10",
     &NpuFacts::any_argmax,
     "argmax",
     "over int8 channels, at most {}",
     {&NpuFacts::argmax_depth},
     argmax_fits,
     "take the argmax on the host"},
    {"u55.c11",
     &NpuFacts::extremes_of_32_bits,
     "amax, amin",
     "8 or 16 bits",
     {},
     reduce_is_narrow,
     "reduce before widening"},
    {"u55.c12",
     &NpuFacts::has_bitwise,
     "bitwise",
     "shifts to the left, of 32 bits",
     {},
     only_shifts_left,
     "shift integers of 32 bits, or divide by a power of 2"},
};

}  // namespace

Support supports(const Graph& graph, const Node& node, const NpuTarget& target) {
  Query query{graph, node, target};
  for (const Row& row : kRows) {
    if (!row.binds(query.facts)) continue;
    std::string broken = row.broken(query);
    if (broken.empty()) continue;
    return {false, row.label, fmt::format("{}; limit on {}: {}", broken, query.facts.name, row.limit_of(query.facts)),
            row.advice};
  }
  return {};
}

std::vector<Constraint> constraints() {
  std::vector<Constraint> all;
  for (const Row& row : kRows) {
    size_t first = all.size();
    for (NpuFamily family : npu_families()) {
      const NpuFacts& facts = facts_of(family);
      if (!row.binds(facts)) continue;
      std::string limit = row.limit_of(facts);
      auto same = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                               [&](const Constraint& constraint) { return constraint.limit == limit; });
      if (same == all.end()) same = all.insert(all.end(), {row.label, {}, row.ops, std::move(limit), row.advice});
      same->families.push_back(family);
    }
  }
  return all;
}

}  // namespace swoop
