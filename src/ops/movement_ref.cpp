// Data movement: elements are copied as bytes, whatever they are.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/kernels.h"
#include "ops/ref.h"
#include "support/parallel.h"

namespace swoop {

namespace {

// A strided view of a row-major array: element (i...) of `shape` is at start + sum of i * stride.
struct View {
  Shape shape;
  Shape strides;
  int64_t start = 0;
};

// Drops dims of size 1 and merges neighbours that are contiguous.
View simplified(const View& view) {
  View result{{}, {}, view.start};
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    if (!result.shape.empty() && result.strides.back() == view.strides[i] * view.shape[i]) {
      result.shape.back() *= view.shape[i];
      result.strides.back() = view.strides[i];
    } else {
      result.shape.push_back(view.shape[i]);
      result.strides.push_back(view.strides[i]);
    }
  }
  if (result.shape.empty()) result = View{{1}, {1}, view.start};
  return result;
}

// Offsets of the rows (all dims but the last `inner`), one after the other.
class RowOffsets {
 public:
  RowOffsets(const View& view, size_t inner, int64_t first)
      : view_(view), dims_(view.shape.size() - inner), index_(dims_) {
    offset_ = view.start;
    for (size_t i = dims_; i-- > 0;) {
      if (view.shape[i] == 0) continue;  // there are no rows
      index_[i] = first % view.shape[i];
      first /= view.shape[i];
      offset_ += index_[i] * view.strides[i];
    }
  }
  int64_t offset() const { return offset_; }
  void next() {
    for (size_t i = dims_; i-- > 0;) {
      offset_ += view_.strides[i];
      if (++index_[i] < view_.shape[i]) return;
      offset_ -= index_[i] * view_.strides[i];
      index_[i] = 0;
    }
  }

 private:
  const View& view_;
  size_t dims_;
  std::vector<int64_t> index_;
  int64_t offset_ = 0;
};

// out, row-major, = the view of `from`.
template <typename T>
void copy_view(const View& given, const T* from, T* out) {
  View view = simplified(given);
  int64_t count = element_count(view.shape);
  if (count == 0) return;
  size_t rank = view.shape.size();
  int64_t run = view.shape[rank - 1];
  int64_t step = view.strides[rank - 1];
  // A transpose of the two last dims: in squares, so that neither side jumps from cache line to cache line.
  if (rank >= 2 && view.strides[rank - 2] == 1 && step != 1 && run >= 8 && view.shape[rank - 2] >= 8) {
    constexpr int64_t kSquare = 16;
    int64_t rows = view.shape[rank - 2];
    int64_t strips = (rows + kSquare - 1) / kSquare;
    int64_t planes = count / (rows * run);
    parallel_for(static_cast<size_t>(planes * strips), kGrain / static_cast<size_t>(kSquare * run) + 1,
                 [&](size_t first, size_t last) {
                   for (auto s = static_cast<int64_t>(first); s < static_cast<int64_t>(last); ++s) {
                     int64_t plane = s / strips;
                     const T* source = from + RowOffsets(view, 2, plane).offset();
                     T* target = out + plane * rows * run;
                     int64_t r0 = s % strips * kSquare;
                     int64_t r1 = std::min(rows, r0 + kSquare);
                     for (int64_t c0 = 0; c0 < run; c0 += kSquare)
                       for (int64_t r = r0; r < r1; ++r)
                         for (int64_t c = c0; c < std::min(run, c0 + kSquare); ++c)
                           target[r * run + c] = source[r + c * step];
                   }
                 });
    return;
  }
  parallel_for(static_cast<size_t>(count / run), kGrain / static_cast<size_t>(run) + 1, [&](size_t first, size_t last) {
    RowOffsets rows(view, 1, static_cast<int64_t>(first));
    for (size_t r = first; r < last; ++r, rows.next()) {
      T* to = out + static_cast<int64_t>(r) * run;
      const T* source = from + rows.offset();
      if (step == 1)
        std::copy_n(source, run, to);
      else if (step == 0)
        std::fill_n(to, run, *source);
      else
        for (int64_t j = 0; j < run; ++j) to[j] = source[j * step];
    }
  });
}

// Calls body with a zero of the element type that holds the tensor's elements.
template <typename Body>
void with_elements(const Tensor& tensor, Body body) {
  size_t size = byte_size(tensor.dtype);
  if (size == 4) return body(uint32_t{});
  if (size == 8) return body(uint64_t{});
  body(uint8_t{});
}

void copy_view(const View& view, const Tensor& from, Tensor& out) {
  with_elements(from,
                [&](auto zero) { copy_view(view, from.as<decltype(zero)>().data(), out.as<decltype(zero)>().data()); });
}

View whole(const Shape& shape) { return View{shape, row_major_strides(shape), 0}; }

}  // namespace

void transpose_into(const Tensor& in, std::span<const int64_t> perm, Tensor& out) {
  Shape strides = row_major_strides(in.shape);
  View view;
  for (int64_t from : perm) {
    view.shape.push_back(in.shape[static_cast<size_t>(from)]);
    view.strides.push_back(strides[static_cast<size_t>(from)]);
  }
  copy_view(view, in, out);
}

Tensor transposed(const Tensor& in, std::span<const int64_t> perm) {
  Shape shape;
  for (int64_t from : perm) shape.push_back(in.shape[static_cast<size_t>(from)]);
  Tensor out = make_tensor(in.dtype, std::move(shape));
  transpose_into(in, perm, out);
  return out;
}

Ints inverse(const Ints& perm) {
  Ints result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}

Ints to_channels_first(size_t rank) {
  Ints perm = {0, static_cast<int64_t>(rank) - 1};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  return perm;
}

Ints to_channels_last(size_t rank) {
  Ints perm = {0};
  for (size_t i = 2; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(1);
  return perm;
}

Result<void> in_channels_first(const Tensor& x, Tensor& out,
                               const std::function<Result<void>(const Tensor&, Tensor&)>& kernel) {
  Ints first = to_channels_first(x.shape.size());
  Shape shape;
  for (int64_t from : first) shape.push_back(out.shape[static_cast<size_t>(from)]);
  Tensor result = make_tensor(out.dtype, std::move(shape));
  TRY(kernel(transposed(x, first), result));
  transpose_into(result, to_channels_last(x.shape.size()), out);
  return {};
}

Tensor expanded(const Tensor& in, const Shape& shape) {
  View view{shape, Shape(shape.size(), 0), 0};
  Shape strides = row_major_strides(in.shape);
  for (size_t i = 0; i < in.shape.size(); ++i)
    if (in.shape[in.shape.size() - 1 - i] != 1) view.strides[shape.size() - 1 - i] = strides[in.shape.size() - 1 - i];
  Tensor out = make_tensor(in.dtype, shape);
  copy_view(view, in, out);
  return out;
}

std::vector<int64_t> broadcast_offsets(const Shape& from, const Shape& shape) {
  Shape strides = row_major_strides(from);
  View view{shape, Shape(shape.size(), 0), 0};
  for (size_t i = 0; i < from.size(); ++i)
    if (from[from.size() - 1 - i] != 1) view.strides[shape.size() - 1 - i] = strides[from.size() - 1 - i];
  int64_t count = element_count(shape);
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  RowOffsets rows(view, 0, 0);
  for (int64_t& offset : offsets) {
    offset = rows.offset();
    rows.next();
  }
  return offsets;
}

Result<void> ref_reshape(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0].data = in[0]->data;
  return {};
}

Result<void> ref_transpose(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  transpose_into(*in[0], node.ints(Key::Perm), out[0]);
  return {};
}

Result<void> ref_concat(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  auto axis = static_cast<size_t>(node.integer(Key::Axis));
  const Shape& shape = out[0].shape;
  auto outer = static_cast<size_t>(element_count(Shape(shape.begin(), shape.begin() + static_cast<int64_t>(axis))));
  size_t row = outer ? out[0].data.size() / outer : 0;
  size_t at = 0;
  for (const Tensor* x : in) {
    Tensor converted;
    if (x->dtype != out[0].dtype) x = &(converted = as_dtype(*x, out[0].dtype));
    size_t piece = outer ? x->data.size() / outer : 0;
    for (size_t i = 0; i < outer && piece; ++i)
      std::memcpy(out[0].data.data() + i * row + at, x->data.data() + i * piece, piece);
    at += piece;
  }
  return {};
}

Result<void> ref_slice(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  auto axis = static_cast<size_t>(node.integer(Key::Axis));
  View view = whole(in[0]->shape);
  view.start = node.integer(Key::Start) * view.strides[axis];
  view.strides[axis] *= std::min(node.integer(Key::Step), std::max<int64_t>(1, in[0]->shape[axis]));
  view.shape = out[0].shape;
  copy_view(view, *in[0], out[0]);
  return {};
}

// One dim at a time: each element along the axis names the element it copies, or -1 for the padding value.
Result<void> ref_pad(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Ints& padding = node.ints(Key::Padding);
  const std::string& mode = node.text(Key::Mode);
  double value = node.real(Key::Value);
  Tensor current = *in[0];
  for (size_t axis = 0; axis < in[0]->shape.size(); ++axis) {
    int64_t before = padding[2 * axis];
    int64_t size = in[0]->shape[axis];
    int64_t result = size + before + padding[2 * axis + 1];
    if (before == 0 && result == size) continue;
    std::vector<int64_t> source(static_cast<size_t>(result));
    for (int64_t i = 0; i < result; ++i) {
      int64_t at = i - before;
      if (at < 0 || at >= size) {
        if (mode == "constant")
          at = -1;
        else if (mode == "replicate")
          at = std::clamp<int64_t>(at, 0, size - 1);
        else if (mode == "circular")
          at = at < 0 ? at + size : at - size;
        else
          at = at < 0 ? -at : 2 * (size - 1) - at;
      }
      source[static_cast<size_t>(i)] = at;
    }
    Shape shape = current.shape;
    shape[axis] = result;
    Tensor next = make_tensor(current.dtype, shape);
    int64_t outer = element_count(Shape(shape.begin(), shape.begin() + static_cast<int64_t>(axis)));
    int64_t inner = element_count(Shape(shape.begin() + static_cast<int64_t>(axis) + 1, shape.end()));
    auto fill = [&](auto zero) {
      using T = decltype(zero);
      const T* from = current.as<T>().data();
      T* to = next.as<T>().data();
      bool fits = std::is_floating_point_v<T> || std::fabs(value) < 9.2e18;
      T pad = fits ? static_cast<T>(value) : std::numeric_limits<T>::lowest();
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < result; ++i, to += inner) {
          int64_t at = source[static_cast<size_t>(i)];
          if (at < 0)
            std::fill_n(to, inner, pad);
          else
            std::copy_n(from + (o * size + at) * inner, inner, to);
        }
    };
    if (current.dtype == DType::F32)
      fill(float{});
    else if (current.dtype == DType::I64)
      fill(int64_t{});
    else
      fill(uint8_t{});
    current = std::move(next);
  }
  out[0].data = std::move(current.data);
  return {};
}

Result<void> ref_expand(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[0] = expanded(*in[0], out[0].shape);
  return {};
}

// Each dim as a pair (times, size), the first of which does not move.
Result<void> ref_repeat(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  View once = whole(in[0]->shape);
  View view;
  for (size_t i = 0; i < once.shape.size(); ++i) {
    view.shape.insert(view.shape.end(), {node.ints(Key::Multiples)[i], once.shape[i]});
    view.strides.insert(view.strides.end(), {0, once.strides[i]});
  }
  copy_view(view, *in[0], out[0]);
  return {};
}

Result<void> ref_flip(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  View view = whole(in[0]->shape);
  for (int64_t axis : node.ints(Key::Axes)) {
    auto i = static_cast<size_t>(axis);
    view.start += (view.shape[i] - 1) * view.strides[i];
    view.strides[i] = -view.strides[i];
  }
  copy_view(view, *in[0], out[0]);
  return {};
}

namespace {

Result<int64_t> checked_index(const Node& node, int64_t index, int64_t size) {
  if (index < -size || index >= size)
    return error("{} has index {} in a dim of size {}", name_of(node.op), index, size);
  return index < 0 ? index + size : index;
}

}  // namespace

Result<void> ref_gather(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  auto axis = node.integer(Key::Axis);
  const Shape& shape = in[0]->shape;
  int64_t size = shape[static_cast<size_t>(axis)];
  int64_t outer = element_count(Shape(shape.begin(), shape.begin() + axis));
  auto inner =
      static_cast<size_t>(element_count(Shape(shape.begin() + axis + 1, shape.end()))) * byte_size(in[0]->dtype);
  std::byte* to = out[0].data.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t index : in[1]->as<int64_t>()) {
      TRY_ASSIGN(int64_t at, checked_index(node, index, size));
      if (inner) std::memcpy(to, in[0]->data.data() + static_cast<size_t>(o * size + at) * inner, inner);
      to += inner;
    }
  return {};
}

// For each element of index: which element of x it names (along the axis by its value, else by its own place).
static Result<std::vector<int64_t>> named_elements(const Node& node, const Tensor& index, const Shape& shape) {
  std::span<const int64_t> values = index.as<int64_t>();
  std::vector<int64_t> places(values.size());
  if (shape.empty()) return places;
  auto axis = static_cast<size_t>(node.integer(Key::Axis));
  Shape strides = row_major_strides(shape);
  View view{index.shape, strides, 0};
  view.strides[axis] = 0;
  RowOffsets rows(view, 0, 0);
  for (size_t i = 0; i < values.size(); ++i, rows.next()) {
    TRY_ASSIGN(int64_t at, checked_index(node, values[i], shape[axis]));
    places[i] = rows.offset() + at * strides[axis];
  }
  return places;
}

Result<void> ref_gather_elements(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  TRY_ASSIGN(std::vector<int64_t> places, named_elements(node, *in[1], in[0]->shape));
  with_elements(*in[0], [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < places.size(); ++i) out[0].as<T>()[i] = in[0]->as<T>()[static_cast<size_t>(places[i])];
  });
  return {};
}

Result<void> ref_scatter_elements(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  TRY_ASSIGN(std::vector<int64_t> places, named_elements(node, *in[1], in[0]->shape));
  out[0].data = in[0]->data;
  View view{in[1]->shape, row_major_strides(in[2]->shape), 0};  // src may be larger than index
  with_elements(*in[0], [&](auto zero) {
    using T = decltype(zero);
    RowOffsets rows(view, 0, 0);
    for (size_t i = 0; i < places.size(); ++i, rows.next())
      out[0].as<T>()[static_cast<size_t>(places[i])] = in[2]->as<T>()[static_cast<size_t>(rows.offset())];
  });
  return {};
}

}  // namespace swoop
