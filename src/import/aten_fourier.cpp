// Fourier transforms, as products with matrices of cosines and sines, one axis after the other.
#include <cmath>
#include <numbers>

#include "import/complex.h"
#include "ops/ops.h"

namespace swoop {

namespace {

// Of n elements along one axis, whatever the number that is given: zeros are added, or elements left out.
struct Transform {
  int64_t axis = 0;
  int64_t n = 0;
  bool forward = true;
  double scale = 1;
};

// x along `axis` times the [to, from] matrix
template <typename Weight>
ValueId by_matrix(Call& c, ValueId x, int64_t axis, int64_t to, Weight weight) {
  const int64_t last = c.rank(x) - 1, from = c.dim(x, axis);
  ValueId matrix = c.filled(c.dtype(x), {to, from}, [&](int64_t i) { return weight(i / from, i % from); });
  return c.swap(c.linear(c.swap(x, axis, last), matrix), axis, last);
}

// The angle of element k of the result for element t; k * t modulo n keeps it exact.
double angle(int64_t k, int64_t t, int64_t n) {
  return 2 * std::numbers::pi * static_cast<double>((k % n) * (t % n) % n) / static_cast<double>(n);
}

void check_length(int64_t n) {
  if (n < 1 || n > (1 << 16)) unsupported("a Fourier transform of {} elements", n);
}

ValueId sized(Call& c, ValueId x, int64_t axis, int64_t n) {
  if (x == kNone) return x;
  if (c.dim(x, axis) > n) return c.slice(x, axis, 0, n);
  return c.pad(x, axis, 0, n - c.dim(x, axis), 0.0);
}

// `count` elements of the spectrum: n, or half of them.
Complex transformed(Call& c, Complex x, const Transform& t, int64_t count) {
  check_length(t.n);
  x = {sized(c, x.re, t.axis, t.n), sized(c, x.im, t.axis, t.n)};
  const double sign = t.forward ? -1 : 1;
  auto cosines = [&](int64_t k, int64_t i) { return t.scale * std::cos(angle(k, i, t.n)); };
  auto sines = [&](int64_t k, int64_t i) { return sign * t.scale * std::sin(angle(k, i, t.n)); };
  auto minus_sines = [&](int64_t k, int64_t i) { return -sines(k, i); };
  Complex y = {by_matrix(c, x.re, t.axis, count, cosines), by_matrix(c, x.re, t.axis, count, sines)};
  if (x.im == kNone) return y;
  return {c.add(y.re, by_matrix(c, x.im, t.axis, count, minus_sines)),
          c.add(y.im, by_matrix(c, x.im, t.axis, count, cosines))};
}

// The n real elements whose spectrum begins with x; the other half of it is the mirror image.
ValueId real_inverse(Call& c, Complex x, const Transform& t) {
  check_length(t.n);
  const int64_t half = t.n / 2 + 1;
  x = {sized(c, x.re, t.axis, half), sized(c, x.im, t.axis, half)};
  auto weight = [&](int64_t k) { return t.scale * (k == 0 || 2 * k == t.n ? 1.0 : 2.0); };
  const double sign = t.forward ? 1 : -1;
  ValueId y =
      by_matrix(c, x.re, t.axis, t.n, [&](int64_t i, int64_t k) { return weight(k) * std::cos(angle(k, i, t.n)); });
  if (x.im == kNone) return y;
  return c.add(y, by_matrix(c, x.im, t.axis, t.n,
                            [&](int64_t i, int64_t k) { return sign * weight(k) * std::sin(angle(k, i, t.n)); }));
}

enum class Kind : uint8_t { ToComplex, ToHalf, ToReal };

// `sizes`: along each axis; the last one is the one that a half spectrum has.
Results transform(Call& c, Kind kind, bool forward, const Ints& axes, const Ints& sizes, double scale) {
  Complex x = complex_arg(c, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    // The half spectrum is made of reals, and reals are made of it last.
    const size_t at = kind == Kind::ToHalf ? axes.size() - 1 - i : i;
    const bool last = at + 1 == axes.size();
    Transform one{axes[at], sizes[at], forward, i == 0 ? scale : 1};
    if (kind == Kind::ToReal && last) return real_inverse(c, x, one);
    x = transformed(c, x, one, kind == Kind::ToHalf && last ? one.n / 2 + 1 : one.n);
  }
  return joined(c, x);
}

int rank_of(Call& c) {
  ValueId x = c.tensor(0);
  return c.rank(x) - (is_complex(c.args[0]) ? 1 : 0);
}

// fft, rfft2, irfftn, ...: the row's detail is "c" (complex to complex), "h" (to half a spectrum) or "r" (to reals),
// and "+" or "-" (the inverse), and how many axes there are ("n": all).
Results fft(Call& c) {
  const Kind kind = c.detail()[0] == 'c' ? Kind::ToComplex : c.detail()[0] == 'h' ? Kind::ToHalf : Kind::ToReal;
  const bool forward = c.detail()[1] == '+';
  const int rank = rank_of(c);
  ValueId x = c.tensor(0);
  Ints axes, sizes = c.none(1) ? Ints() : c.ints(1);
  if (!c.none(2)) {
    for (int64_t axis : c.ints(2)) axes.push_back(normalised_axis(axis, rank));
  } else {
    const int64_t count = sizes.empty() ? rank : static_cast<int64_t>(sizes.size());
    for (int64_t axis = rank - count; axis < rank; ++axis) axes.push_back(normalised_axis(axis, rank));
  }
  if (axes.empty() || (!sizes.empty() && sizes.size() != axes.size())) malformed("it has {} sizes", sizes.size());
  sizes.resize(axes.size(), -1);
  double elements = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t given = c.dim(x, axes[i]);
    const bool half = kind == Kind::ToReal && i + 1 == axes.size();
    if (sizes[i] == -1) sizes[i] = half ? 2 * (given - 1) : given;
    check_length(sizes[i]);
    elements *= static_cast<double>(sizes[i]);
  }
  const std::string_view norm = c.none(3) ? "backward" : c.text(3);
  if (norm != "backward" && norm != "forward" && norm != "ortho") malformed("its norm `{}` does not exist", norm);
  const bool whole = (norm == "forward") == forward && norm != "ortho";
  return transform(c, kind, forward, axes, sizes, norm == "ortho" ? 1 / std::sqrt(elements) : whole ? 1 / elements : 1);
}

// The forms after decomposition: self, dim, normalization (0: none, 1: by the root, 2: by the number), and a last one.
Results fft_core(Call& c) {
  const bool to_real = c.detail() == "c2r", from_real = c.detail() == "r2c";
  ValueId x = c.tensor(0);
  Ints axes, sizes;
  for (int64_t axis : c.ints(1)) axes.push_back(normalised_axis(axis, rank_of(c)));
  for (int64_t axis : axes) sizes.push_back(c.dim(x, axis));
  if (axes.empty()) malformed("it has no axes");
  if (to_real) sizes.back() = c.integer(3);
  double elements = 1;
  for (int64_t size : sizes) {
    check_length(size);
    elements *= static_cast<double>(size);
  }
  const int64_t norm = c.integer(2);
  const double scale = norm == 0 ? 1 : norm == 1 ? 1 / std::sqrt(elements) : 1 / elements;
  if (to_real) return transform(c, Kind::ToReal, false, axes, sizes, scale);
  const bool half = from_real && c.flag(3);
  return transform(c, half ? Kind::ToHalf : Kind::ToComplex, from_real || c.flag(3), axes, sizes, scale);
}

// [B, T] -> [B, filters, frames]
template <typename Filter>
ValueId framed(Call& c, ValueId x, int64_t count, int64_t n, int64_t hop, Filter filter) {
  ValueId filters = c.filled(c.dtype(x), {count, 1, n}, [&](int64_t i) { return filter(i / n, i % n); });
  return c.make(
      Op::Conv, {c.unsqueeze(x, 1), filters, kNone},
      {{Key::Stride, Ints{hop}}, {Key::Padding, Ints{0, 0}}, {Key::Dilation, Ints{1}}, {Key::Groups, int64_t{1}}});
}

// A convolution whose filters are the rows of the transform, each under the window. A window that is computed needs the
// frames themselves.
Results stft(Call& c) {
  ValueId x = c.tensor(0);
  const int64_t n = c.integer(1), hop = c.integer(2, n / 4), length = c.integer(3, n);
  check_length(n);
  if (hop < 1 || length < 1 || length > n) malformed("its hop is {}, its window {} of {}", hop, length, n);
  if (c.rank(x) != 1 && c.rank(x) != 2) malformed("its input has {} dimensions", c.rank(x));
  const bool batch = c.rank(x) == 2;
  if (!batch) x = c.unsqueeze(x, 0);
  ValueId window = c.tensor_or_none(4);
  if (window != kNone && (c.rank(window) != 1 || c.dim(window, 0) != length))
    malformed("its window has another length");
  const int64_t count = c.none(6) || c.flag(6) ? n / 2 + 1 : n;
  const double scale = c.flag(5) ? 1 / std::sqrt(static_cast<double>(n)) : 1;
  const int64_t before = (n - length) / 2;
  Complex y;
  if (window != kNone && !c.graph.value(window).constant) {
    window = c.pad(window, 0, before, n - length - before, 0.0);
    ValueId frames = framed(c, x, n, n, hop, [](int64_t k, int64_t i) { return k == i ? 1.0 : 0.0; });
    y = transformed(c, {c.mul(frames, c.unsqueeze(window, 1)), kNone}, {1, n, true, scale}, count);
  } else {
    auto under = [&](int64_t i) {
      if (i < before || i >= before + length) return 0.0;
      return scale * (window == kNone ? 1.0 : real_at(c.graph.value(window), i - before));
    };
    y.re = framed(c, x, count, n, hop, [&](int64_t k, int64_t i) { return under(i) * std::cos(angle(k, i, n)); });
    y.im = framed(c, x, count, n, hop, [&](int64_t k, int64_t i) { return -under(i) * std::sin(angle(k, i, n)); });
  }
  return c.reshape(joined(c, y), c.result().shape);
}

constexpr std::string_view kFftLine = "self, n=None, dim=-1, norm=None";
constexpr std::string_view kFftPlane = "self, s=None, dim=[-2,-1], norm=None";
constexpr std::string_view kFftAll = "self, s=None, dim=None, norm=None";

constexpr Row kFourierRows[] = {
    {"aten.fft_fft.default", kFftLine, fft, "c+"},
    {"aten.fft_ifft.default", kFftLine, fft, "c-"},
    {"aten.fft_rfft.default", kFftLine, fft, "h+"},
    {"aten.fft_irfft.default", kFftLine, fft, "r-"},
    {"aten.fft_fft2.default", kFftPlane, fft, "c+"},
    {"aten.fft_ifft2.default", kFftPlane, fft, "c-"},
    {"aten.fft_rfft2.default", kFftPlane, fft, "h+"},
    {"aten.fft_irfft2.default", kFftPlane, fft, "r-"},
    {"aten.fft_fftn.default", kFftAll, fft, "c+"},
    {"aten.fft_ifftn.default", kFftAll, fft, "c-"},
    {"aten.fft_rfftn.default", kFftAll, fft, "h+"},
    {"aten.fft_irfftn.default", kFftAll, fft, "r-"},
    {"aten._fft_c2c.default", "self, dim, normalization, forward", fft_core, "c2c"},
    {"aten._fft_r2c.default", "self, dim, normalization, onesided", fft_core, "r2c"},
    {"aten._fft_c2r.default", "self, dim, normalization, last_dim_size", fft_core, "c2r"},
    {"aten.stft.default",
     "self, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None, "
     "return_complex=None, "
     "align_to_window=None",
     stft},
};

}  // namespace

std::span<const Row> fourier_rows() { return kFourierRows; }

}  // namespace swoop
