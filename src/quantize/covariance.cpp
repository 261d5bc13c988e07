#include "quantize/covariance.h"

#include <algorithm>

#include "quantize/choices.h"
#include "support/clones.h"
#include "support/parallel.h"

namespace swoop {

namespace {

constexpr int64_t kBlockColumns = 64;
constexpr int64_t kWindowsSeen = 256;                // windows of a tensor that are looked at, evenly spread
constexpr int64_t kWindowsInAll = 8 * kWindowsSeen;  // windows in all

// Columns of neighbouring channels, with all taps of each; a kernel with more taps than that is cut.
std::vector<Block> blocks_of(int64_t groups, int64_t channels, int64_t taps) {
  const int64_t unit = taps <= kBlockColumns ? taps : 1;
  const int64_t units = channels * taps / unit, together = kBlockColumns / unit;
  const int64_t parts = (units + together - 1) / together;
  std::vector<Block> blocks;
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = units * part / parts, last = units * (part + 1) / parts;
      blocks.push_back({group, first * unit, (last - first) * unit});
    }
  return blocks;
}

// Where the windows of a layer are in what it reads.
class WindowPlaces {
 public:
  WindowPlaces(const Graph& graph, const Node& layer, const Tensor& x) {
    const Shape& weights = graph.type(layer.inputs[1]).shape;
    if (layer.op == Op::Linear) {
      channels_ = weights[1];
      batch_step_ = channels_;
      set_count(batch_step_ ? element_count(x.shape) / batch_step_ : 0);
      taps_.assign(static_cast<size_t>(count_), 0);
      for (int64_t i = 0; i < count_; ++i) starts_.push_back(row(i) * batch_step_);
      return;
    }
    channels_ = weights[1];
    const Shape space(x.shape.begin() + 2, x.shape.end()), kernel(weights.begin() + 2, weights.end());
    const Shape& result = graph.type(layer.outputs[0]).shape;
    const Shape out(result.begin() + 2, result.end());
    plane_ = element_count(space);
    tap_count_ = element_count(kernel);
    set_count(x.shape[0] * element_count(out));
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t at = row(i), image = at / element_count(out);
      starts_.push_back(image * x.shape[1] * plane_);
      for (int64_t tap = 0; tap < tap_count_; ++tap)
        taps_.push_back(place(layer, space, kernel, out, at % element_count(out), tap));
    }
  }

  int64_t count() const { return count_; }

  // The columns of `block` of all windows, row after row. Padding is 0.
  std::vector<float> gather(const Block& block, std::span<const float> x) const {
    struct Column {
      int64_t plane, tap;
    };
    std::vector<Column> columns;
    for (int64_t column = block.first; column < block.first + block.size; ++column)
      columns.push_back({(block.group * channels_ + column / tap_count_) * plane_, column % tap_count_});
    std::vector<float> rows(static_cast<size_t>(count_ * block.size));
    float* to = rows.data();
    for (int64_t i = 0; i < count_; ++i) {
      const float* image = x.data() + starts_[static_cast<size_t>(i)];
      const int64_t* places = taps_.data() + i * tap_count_;
      for (const Column& column : columns)
        *to++ = places[column.tap] < 0 ? 0 : image[column.plane + places[column.tap]];
    }
    return rows;
  }

 private:
  void set_count(int64_t all) {
    all_ = all;
    count_ = std::min(all, kWindowsSeen);
  }
  int64_t row(int64_t i) const { return i * all_ / count_; }

  // Of what a tap of the window at `at` reads, in its plane; -1: padding.
  static int64_t place(const Node& layer, const Shape& space, const Shape& kernel, const Shape& out, int64_t at,
                       int64_t tap) {
    int64_t place = 0, step = 1;
    for (size_t dim = space.size(); dim-- > 0;) {
      const int64_t dilation = layer.has(Key::Dilation) ? layer.ints(Key::Dilation)[dim] : 1;
      const int64_t index = at % out[dim] * layer.ints(Key::Stride)[dim] + tap % kernel[dim] * dilation -
                            layer.ints(Key::Padding)[2 * dim];
      if (index < 0 || index >= space[dim]) return -1;
      place += index * step;
      step *= space[dim];
      at /= out[dim];
      tap /= kernel[dim];
    }
    return place;
  }

  int64_t channels_ = 0, plane_ = 1, tap_count_ = 1, batch_step_ = 0;
  int64_t all_ = 0, count_ = 0;
  std::vector<int64_t> starts_;  // by window: of its image, or of its row
  std::vector<int64_t> taps_;    // by window and tap: its place in a plane
};

// Products of the columns of `rows` with each other, those of four columns side by side.
SWOOP_CLONES void add_products(const float* rows, size_t count, size_t size, float* products) {
  size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    float *p0 = products + i * size, *p1 = p0 + size, *p2 = p1 + size, *p3 = p2 + size;
    for (size_t r = 0; r < count; ++r) {
      const float* x = rows + r * size;
      const float a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
      for (size_t j = i; j < size; ++j) {
        p0[j] += a * x[j];
        p1[j] += b * x[j];
        p2[j] += c * x[j];
        p3[j] += d * x[j];
      }
    }
  }
  for (; i < size; ++i)
    for (size_t r = 0; r < count; ++r)
      for (size_t j = i; j < size; ++j) products[i * size + j] += rows[r * size + i] * rows[r * size + j];
}

void add_rows(Block& block, std::vector<float> rows, int64_t count) {
  const auto size = static_cast<size_t>(block.size);
  if (block.about.empty()) {
    std::vector<double> sums(size);
    for (size_t i = 0; i < rows.size(); ++i) sums[i % size] += static_cast<double>(rows[i]);
    for (double sum : sums) block.about.push_back(static_cast<float>(sum / static_cast<double>(count)));
    block.products.resize(size * size);
    block.sums.resize(size);
  }
  for (size_t r = 0; r < static_cast<size_t>(count); ++r)
    for (size_t i = 0; i < size; ++i) {
      float& x = rows[r * size + i];
      x -= block.about[i];
      block.sums[i] += static_cast<double>(x);
    }
  add_products(rows.data(), static_cast<size_t>(count), size, block.products.data());
}

// Values of 8 bits make so much noise that weights of 8 bits add little to it.
bool weights_matter(const Choice& choice, const QuantizeOptions& options) {
  return options.correct_bias &&  // otherwise errors would have to cancel out around 0, not around the mean
         (choice.precision == Precision::Int16 || choice.weight_bits == 4 || options.min_sqnr);
}

}  // namespace

Covariances::Covariances(const Graph& graph, const QuantizeOptions& options)
    : graph_(graph), readers_(graph.value_slots()) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool sums = node.op == Op::Linear || (node.op == Op::Conv && !node.flag(Key::ChannelsLast));
    if (!sums || !graph.value(node.inputs[1]).constant || graph.type(node.inputs[1]).quantized()) continue;
    if (!weights_matter(choose(graph, node, options), options)) continue;
    const WeightIndex index(node, graph.type(node.inputs[1]).shape);
    readers_[node.inputs[0]].push_back(id);
    auto [at, fresh] = all_.try_emplace(node.inputs[1]);
    if (fresh)
      at->second = {index.groups, index.outputs / index.groups, index.columns * index.kernel, 0,
                    blocks_of(index.groups, index.columns, index.kernel)};
  }
}

void Covariances::see(ValueId id, const Tensor& tensor) {
  for (NodeId reader : readers_[id]) {
    const Node& layer = graph_.node(reader);
    Covariance& covariance = all_.at(layer.inputs[1]);
    if (covariance.rows >= kWindowsInAll || element_count(tensor.shape) == 0) continue;
    const WindowPlaces places(graph_, layer, tensor);
    if (places.count() == 0) continue;
    covariance.rows += places.count();
    parallel_for(covariance.blocks.size(), 1, [&](size_t first, size_t last) {
      for (size_t i = first; i < last; ++i) {
        Block& block = covariance.blocks[i];
        add_rows(block, places.gather(block, tensor.as<float>()), places.count());
      }
    });
  }
}

}  // namespace swoop
