#include <algorithm>
#include <cstring>

#include "support/check.h"
#include "support/parallel.h"
#include "tosa/kernels.h"

namespace swoop::tosa {

namespace {

// A copy between two strided arrays of equal sizes; strides in elements, negative to go backwards, 0 to repeat.
struct Axis {
  int64_t size;
  int64_t from;
  int64_t to;
};

// Drops axes of size 1 and joins neighbours that both sides step over alike.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().from == axis.from * axis.size && result.back().to == axis.to * axis.size)
      result.back() = {result.back().size * axis.size, axis.from, axis.to};
    else
      result.push_back(axis);
  }
  if (result.empty()) result.push_back({1, 1, 1});
  return result;
}

template <typename T>
void copy_row(const T* from, T* to, const Axis& axis) {
  if (axis.from == 1 && axis.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(axis.size) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < axis.size; ++i) to[i * axis.to] = from[i * axis.from];
}

template <typename T>
void copy_typed(const std::byte* from, std::byte* to, const std::vector<Axis>& axes) {
  const Axis& inner = axes.back();
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < axes.size(); ++d) rows *= axes[d].size;
  auto grain = kElementGrain / static_cast<size_t>(inner.size) + 1;
  parallel_for(static_cast<size_t>(rows), grain, [&](size_t first, size_t last) {
    for (size_t row = first; row < last; ++row) {
      auto rest = static_cast<int64_t>(row);
      int64_t from_offset = 0;
      int64_t to_offset = 0;
      for (size_t d = axes.size() - 1; d-- > 0;) {
        from_offset += rest % axes[d].size * axes[d].from;
        to_offset += rest % axes[d].size * axes[d].to;
        rest /= axes[d].size;
      }
      copy_row(reinterpret_cast<const T*>(from) + from_offset, reinterpret_cast<T*>(to) + to_offset, inner);
    }
  });
}

void copy(const std::byte* from, std::byte* to, std::vector<Axis> axes, size_t element) {
  axes = merged(axes);
  switch (element) {
    case 1: return copy_typed<uint8_t>(from, to, axes);
    case 2: return copy_typed<uint16_t>(from, to, axes);
    case 4: return copy_typed<uint32_t>(from, to, axes);
    default: return copy_typed<uint64_t>(from, to, axes);
  }
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Into a part of the output that starts at `at`: CONCAT and PAD.
void place(const Value& x, const Shape& out_shape, const std::vector<int64_t>& at, std::byte* out) {
  std::vector<int64_t> from = strides_of(*x.shape);
  std::vector<int64_t> to = strides_of(out_shape);
  std::vector<Axis> axes;
  int64_t offset = 0;
  for (size_t d = 0; d < out_shape.size(); ++d) {
    axes.push_back({(*x.shape)[d], from[d], to[d]});
    offset += at[d] * to[d];
  }
  size_t element = element_bytes(x.dtype);
  copy(x.data, out + static_cast<size_t>(offset) * element, axes, element);
}

void concat(const Call& call) {
  auto axis = static_cast<size_t>(call.attributes<AxisAttributes>().axis);
  std::vector<int64_t> at(call.out[0].shape.size());
  for (const Value& part : call.in) {
    place(part, call.out[0].shape, at, call.out[0].data.data());
    at[axis] += (*part.shape)[axis];
  }
}

void pad(const Call& call) {
  const auto& padding = call.attributes<PadAttributes>().padding;
  size_t element = element_bytes(call.in[0].dtype);
  Buffer& out = call.out[0].data;
  for (size_t i = 0; i < out.size(); i += element) std::memcpy(out.data() + i, call.in[1].data, element);
  std::vector<int64_t> at;
  for (size_t d = 0; d < padding.size() / 2; ++d) at.push_back(padding[2 * d]);
  place(call.in[0], call.out[0].shape, at, out.data());
}

// The operators whose output reads the input with other strides.
void view(const Call& call) {
  const Shape& in_shape = *call.in[0].shape;
  const Shape& out_shape = call.out[0].shape;
  std::vector<int64_t> from = strides_of(in_shape);
  std::vector<int64_t> to = strides_of(out_shape);
  std::vector<Axis> axes;
  int64_t offset = 0;
  for (size_t d = 0; d < out_shape.size(); ++d) {
    if (call.op.op == Op::Transpose) {
      axes.push_back({out_shape[d], from[static_cast<size_t>(call.attributes<TransposeAttributes>().perms[d])], to[d]});
    } else if (call.op.op == Op::Slice) {
      offset += call.attributes<SliceAttributes>().start[d] * from[d];
      axes.push_back({out_shape[d], from[d], to[d]});
    } else if (call.op.op == Op::Tile) {
      axes.push_back({out_shape[d] / in_shape[d], 0, to[d] * in_shape[d]});
      axes.push_back({in_shape[d], from[d], to[d]});
    } else {
      CHECK(call.op.op == Op::Reverse, "{} is not a view", name(call.op.op));
      bool reversed = static_cast<int32_t>(d) == call.attributes<AxisAttributes>().axis;
      if (reversed) offset += (in_shape[d] - 1) * from[d];
      axes.push_back({out_shape[d], reversed ? -from[d] : from[d], to[d]});
    }
  }
  size_t element = element_bytes(call.in[0].dtype);
  copy(call.in[0].data + static_cast<size_t>(offset) * element, call.out[0].data.data(), axes, element);
}

}  // namespace

Result<void> run_move(const Call& call) {
  switch (call.op.op) {
    case Op::Concat: concat(call); break;
    case Op::Pad: pad(call); break;
    case Op::Reshape:
    case Op::Identity: std::memcpy(call.out[0].data.data(), call.in[0].data, call.out[0].data.size()); break;
    default: view(call);
  }
  return {};
}

Result<void> run_gather(const Call& call) {
  const Shape& values = *call.in[0].shape;
  const Shape& indices = *call.in[1].shape;
  auto rows = static_cast<size_t>(values[1]);
  auto picks = static_cast<size_t>(indices[1]);
  size_t row_bytes = static_cast<size_t>(values[2]) * element_bytes(call.in[0].dtype);
  std::byte* out = call.out[0].data.data();
  bool is_scatter = call.op.op == Op::Scatter;
  if (is_scatter) std::memcpy(out, call.in[0].data, call.out[0].data.size());
  std::vector<bool> written(is_scatter ? static_cast<size_t>(values[0]) * rows : 0);
  for (size_t n = 0; n < static_cast<size_t>(values[0]); ++n) {
    for (size_t w = 0; w < picks; ++w) {
      int32_t index = call.in[1].as<int32_t>()[n * picks + w];
      if (index < 0 || index >= values[1]) return call.fail("an index is outside the values");
      size_t row = n * rows + static_cast<size_t>(index);
      size_t pick = n * picks + w;
      if (!is_scatter) {
        std::memcpy(out + pick * row_bytes, call.in[0].data + row * row_bytes, row_bytes);
        continue;
      }
      if (written[row]) return call.fail("two rows go to one place");
      written[row] = true;
      std::memcpy(out + row * row_bytes, call.in[2].data + pick * row_bytes, row_bytes);
    }
  }
  return {};
}

}  // namespace swoop::tosa
