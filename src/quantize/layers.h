// Layers with weights: conv, transposed conv and linear, and how their weights are indexed.
#pragma once

#include "accuracy/accuracy.h"
#include "ops/ops.h"

namespace swoop {

inline bool is_layer(Op op) { return info(op).traits.weights; }

// Which output channel and which input channel an element of the weights belongs to.
struct WeightIndex {
  WeightIndex(const Node& node, const Shape& weight)
      : transposed(node.op == Op::ConvTranspose), groups(node.op == Op::Linear ? 1 : node.integer(Key::Groups)) {
    kernel = 1;
    for (size_t d = 2; d < weight.size(); ++d) kernel *= weight[d];
    rows = weight[0];
    columns = weight[1];
    outputs = transposed ? columns * groups : rows;
  }
  int64_t output(int64_t i) const {
    int64_t row = i / (columns * kernel);
    if (!transposed) return row;
    return row / (rows / groups) * columns + i / kernel % columns;
  }
  int64_t input(int64_t i) const {
    int64_t row = i / (columns * kernel);
    if (transposed) return row;
    return row / (rows / groups) * columns + i / kernel % columns;
  }
  // visit(i, output, input) for each element, in order and without a division per element.
  template <typename Visit>
  void each(Visit visit) const {
    for (int64_t row = 0, i = 0; row < rows; ++row) {
      const int64_t first = row / (rows / groups) * columns;
      for (int64_t column = 0; column < columns; ++column)
        for (int64_t k = 0; k < kernel; ++k, ++i)
          visit(static_cast<size_t>(i), static_cast<size_t>(transposed ? first + column : row),
                static_cast<size_t>(transposed ? row : first + column));
    }
  }
  int64_t inputs() const { return transposed ? rows : columns * groups; }
  bool transposed;
  int64_t groups, kernel, rows, columns, outputs;
};

}  // namespace swoop
