#include "tosa/bounds.h"

#include <algorithm>
#include <cmath>

#include "tosa/infer.h"

namespace swoop::tosa {

namespace {

CodeRange hull(std::initializer_list<double> values) {
  auto [low, high] = std::minmax(values);
  return {low, high};
}

CodeRange times(CodeRange a, CodeRange b) {
  return hull({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
}

CodeRange either(CodeRange a, CodeRange b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

}  // namespace

CodeRange code_range(DType dtype) {
  switch (dtype) {
    case DType::Bool: return {0, 1};
    case DType::I4: return {-8, 7};
    case DType::I8: return {-128, 127};
    case DType::I16: return {-32768, 32767};
    case DType::I32: return {-0x1p31, 0x1p31 - 1};
    case DType::I48: return {-0x1p47, 0x1p47 - 1};
  }
  return {-0x1p47, 0x1p47 - 1};
}

CodeRange Bounds::of_constant(const Tensor& tensor) const {
  auto count = static_cast<size_t>(element_count(tensor.shape));
  if (count == 0) return {0, 0};
  CodeRange range{INFINITY, -INFINITY};
  for (size_t i = 0; i < count; ++i) {
    auto value = static_cast<double>(read_element(tensor, i));
    range = either(range, {value, value});
  }
  return range;
}

void Bounds::follow(bool accepts) {
  results_.resize(body().tensors.size());
  known_.resize(body().tensors.size());
  for (; seen_ < body().operators.size(); ++seen_) {
    const Operator& op = body().operators[seen_];
    for (TensorId output : op.outputs) {
      results_[output] = of_result(op);
      known_[output] = true;
    }
    const bool leaves = !fits(op);
    overflow_ |= leaves && !accepts;
    if (!leaves || !accepts) continue;
    for (TensorId output : op.outputs) results_[output] = code_range(body().tensors[output].dtype);
  }
}

void Bounds::accept_overflow() { follow(true); }

CodeRange Bounds::of(TensorId id) {
  follow();
  return of_operand(id);
}

bool Bounds::overflow() {
  follow();
  return overflow_;
}

bool Bounds::fits(const Operator& op) {
  for (TensorId output : op.outputs) {
    CodeRange type = code_range(body().tensors[output].dtype);
    if (!results_[output].within(type.low, type.high)) return false;
  }
  if (op.op != Op::Rescale) return true;
  const auto& attributes = std::get<RescaleAttributes>(op.attributes);
  if (attributes.input_unsigned || attributes.output_unsigned) return true;  // 8 bits
  const CodeRange x = centred(op, 0, 3), all = code_range(DType::I32);
  const double after = of_operand(op.inputs[4]).low;
  const Tensor &multipliers = body().tensors[op.inputs[1]], &shifts = body().tensors[op.inputs[2]];
  for (size_t i = 0; i < static_cast<size_t>(element_count(multipliers.shape)); ++i) {
    const auto shift = static_cast<int>(read_element(shifts, i));
    const double limit = std::ldexp(1.0, shift - 1);
    if (attributes.scale32 && !x.within(-limit, limit - 1)) return false;
    const double factor = std::ldexp(static_cast<double>(read_element(multipliers, i)), -shift);
    const CodeRange y{x.low * factor + after, x.high * factor + after};
    if (!y.within(all.low, all.high)) return false;
  }
  return true;
}

CodeRange Bounds::of_operand(TensorId id) {
  if (!known_[id]) {
    const Tensor& tensor = body().tensors[id];
    results_[id] = tensor.is_const ? of_constant(tensor) : code_range(tensor.dtype);
    known_[id] = true;
  }
  return results_[id];
}

// Input i less its zero point.
CodeRange Bounds::centred(const Operator& op, size_t i, size_t zero_point) {
  const CodeRange range = of_operand(op.inputs[i]), zero = of_operand(op.inputs[zero_point]);
  return {range.low - zero.high, range.high - zero.low};
}

// Of constant weights: the largest sum of a channel's products with numbers of at most `reach`, and its bias.
double Bounds::largest_sum(const Operator& op, double reach) {
  const Tensor &weights = body().tensors[op.inputs[1]], &bias = body().tensors[op.inputs[2]];
  const int64_t zero_point = static_cast<int64_t>(of_operand(op.inputs[4]).low);
  const bool depthwise = op.op == Op::DepthwiseConv2d;
  const auto count = static_cast<size_t>(element_count(weights.shape));
  const auto channels = static_cast<size_t>(depthwise ? weights.shape[2] * weights.shape[3] : weights.shape[0]);
  std::vector<double> sums(channels);
  if (weights.dtype == DType::I8 && !depthwise && zero_point == 0) {  // most weights, without a look at their type
    const size_t row = count / channels;
    for (size_t c = 0; c < channels; ++c) {
      int64_t sum = 0;
      for (std::byte code : std::span(weights.data).subspan(c * row, row)) sum += std::abs(static_cast<int8_t>(code));
      sums[c] = static_cast<double>(sum);
    }
  } else {
    for (size_t i = 0; i < count; ++i)
      sums[depthwise ? i % channels : i / (count / channels)] +=
          static_cast<double>(std::abs(read_element(weights, i) - zero_point));
  }
  double most = 0;
  for (size_t c = 0; c < channels; ++c) {
    double own = !bias.is_const
                     ? of_operand(op.inputs[2]).magnitude()
                     : std::fabs(static_cast<double>(read_element(bias, element_count(bias.shape) == 1 ? 0 : c)));
    most = std::max(most, sums[c] * reach + own);
  }
  return most;
}

// A sum of `count` products of inputs 0 and 1, which have zero points, and a bias as input 2.
CodeRange Bounds::of_product(const Operator& op, int64_t count) {
  const bool matmul = op.op == Op::Matmul;
  const double reach = centred(op, 0, matmul ? 2 : 3).magnitude();
  double most = 0;
  if (!matmul && body().tensors[op.inputs[1]].is_const) {
    most = largest_sum(op, reach);
  } else {
    most = reach * centred(op, 1, matmul ? 3 : 4).magnitude() * static_cast<double>(count);
    if (!matmul) most += of_operand(op.inputs[2]).magnitude();
  }
  return {-most, most};
}

CodeRange Bounds::of_result(const Operator& op) {
  const Tensor& out = body().tensors[op.outputs[0]];
  const CodeRange all = code_range(out.dtype);
  auto in = [&](size_t i) { return of_operand(op.inputs[i]); };
  auto shape = [&](size_t i) -> const Shape& { return body().tensors[op.inputs[i]].shape; };
  switch (op.op) {
    case Op::Rescale: {
      const auto& attributes = std::get<RescaleAttributes>(op.attributes);
      if (attributes.input_unsigned || attributes.output_unsigned) return all;
      CodeRange range{INFINITY, -INFINITY}, x = in(0);
      double before = in(3).low, after = in(4).low;
      const Tensor &multipliers = body().tensors[op.inputs[1]], &shifts = body().tensors[op.inputs[2]];
      for (size_t i = 0; i < static_cast<size_t>(element_count(multipliers.shape)); ++i) {
        double factor =
            std::ldexp(static_cast<double>(read_element(multipliers, i)), -static_cast<int>(read_element(shifts, i)));
        range = either(range, {std::floor((x.low - before) * factor + 0.5) + after,
                               std::floor((x.high - before) * factor + 0.5) + after});
      }
      return {std::clamp(range.low, all.low, all.high), std::clamp(range.high, all.low, all.high)};
    }
    case Op::Add: return {in(0).low + in(1).low, in(0).high + in(1).high};
    case Op::Sub: return {in(0).low - in(1).high, in(0).high - in(1).low};
    case Op::Mul: {
      CodeRange range = times(in(0), in(1));
      double unit = std::ldexp(1.0, static_cast<int>(in(2).low));
      return {std::floor(range.low / unit), std::ceil(range.high / unit)};
    }
    case Op::Maximum: return {std::max(in(0).low, in(1).low), std::max(in(0).high, in(1).high)};
    case Op::Minimum: return {std::min(in(0).low, in(1).low), std::min(in(0).high, in(1).high)};
    case Op::Abs: return {0, in(0).magnitude()};
    case Op::Clz: return {0, in(0).low > 0 ? 31.0 : 32.0};
    case Op::ArithmeticRightShift: {  // by as little as it may be
      double unit = std::ldexp(1.0, static_cast<int>(std::clamp(in(1).low, 0.0, 31.0)));
      return {std::min(std::floor(in(0).low / unit), 0.0), std::max(std::ceil(in(0).high / unit), 0.0)};
    }
    case Op::LogicalLeftShift: {  // by as much as it may be; bits that leave at the top make it anything
      double unit = std::ldexp(1.0, static_cast<int>(std::clamp(in(1).high, 0.0, 31.0)));
      CodeRange range{std::min(in(0).low * unit, in(0).low), std::max(in(0).high * unit, in(0).high)};
      return range.within(all.low, all.high) ? range : all;
    }
    case Op::Clamp: {
      const auto& attributes = std::get<ClampAttributes>(op.attributes);
      auto low = static_cast<double>(attributes.min_val), high = static_cast<double>(attributes.max_val);
      return {std::clamp(in(0).low, low, high), std::clamp(in(0).high, low, high)};
    }
    case Op::Table: {
      double unit = out.dtype == DType::I32 ? 128 : 1;  // 7 bits of fraction
      return {in(1).low * unit, in(1).high * unit};
    }
    case Op::ReduceSum: {
      auto count = static_cast<double>(shape(0)[static_cast<size_t>(std::get<AxisAttributes>(op.attributes).axis)]);
      return {in(0).low * count, in(0).high * count};
    }
    case Op::Concat: {
      CodeRange range = in(0);
      for (size_t i = 1; i < op.inputs.size(); ++i) range = either(range, in(i));
      return range;
    }
    case Op::Resize: {  // bilinear: weights that add up to both numerators
      const auto& attributes = std::get<ResizeAttributes>(op.attributes);
      if (attributes.mode == ResizeMode::Nearest) return in(0);
      double unit = static_cast<double>(attributes.scale[0]) * static_cast<double>(attributes.scale[2]);
      return {in(0).low * unit, in(0).high * unit};
    }
    case Op::Select: return either(in(1), in(2));
    case Op::Identity:
    case Op::MaxPool2d:
    case Op::ReduceMax:
    case Op::ReduceMin:
    case Op::Reshape:
    case Op::Reverse:
    case Op::Slice:
    case Op::Tile:
    case Op::Transpose: return in(0);
    case Op::Conv2d:
    case Op::TransposeConv2d: return of_product(op, element_count(shape(1)) / shape(1)[0]);
    case Op::DepthwiseConv2d: return of_product(op, int64_t{shape(1)[0]} * shape(1)[1]);
    case Op::Matmul: return of_product(op, shape(0)[2]);
    default: return all;  // nothing more is known than the type
  }
}

}  // namespace swoop::tosa
