"""Small TOSA graphs that regor (Vela 5.1.0) gets wrong; docs/regor-defects.md says what happens and what is right.

python test/regor_defects.py FOLDER writes each as FOLDER/NAME.tosa.
"""

import pathlib
import sys

import tosa_serializer as ts

import npu_cases
from npu_graphs import I8, I16, I32


def square_transpose():
    """TRANSPOSE of height and width, equal in size, then a convolution."""
    g = npu_cases.CaseGraph(1)
    y = g.transpose(g.clamp(g.feed([1, 12, 12, 16]), -100, 100), [0, 2, 1, 3])
    g.output(g.conv_i8(y, 16, kernel=1, pad=0))
    return g


def strided_window():
    """CLAMP, then a depthwise convolution with kernel 1 and stride 2."""
    g = npu_cases.CaseGraph(1)
    g.output(g.conv_i8(g.clamp(g.feed([1, 47, 47, 24]), 0, 120), 24, kernel=1, pad=0, stride=2, depthwise=True))
    return g


def second_of_two():
    """An elementwise operator on a batch of two, whose operand's place the weights of a later layer take."""
    g = npu_cases.CaseGraph(1)
    channels = 128
    x = g.rescale2(g.mul(g.feed([2, 8, 8, channels], I16), g.feed([2, 8, 8, channels], I16)), I16, [2**-15])
    y = g.rescale2(g.mul(x, g.feed([2, 8, 8, 1], I16)), I16, [2**-15])
    y = g.conv(g.reshape(y, [1, 1, 128, channels]), channels, kernel=1, pad=0, depthwise=True)
    g.output(g.conv_i8(g.rescale(y, I8, multipliers=[1e-4] * channels), 128, kernel=1, pad=0))
    return g


def padded_window_of_a_slice():
    """SLICE, then a padded depthwise convolution on a batch."""
    g = npu_cases.CaseGraph(1)
    y = g.slice(g.feed([4, 7, 7, 48]), [0, 0, 0, 0], [4, 7, 7, 16])
    g.output(g.conv_i8(y, 16, kernel=3, pad=1, depthwise=True))
    return g


def product_of_a_slice():
    """MATMUL whose first operand is a SLICE of rows."""
    g = npu_cases.CaseGraph(1)
    a = g.slice(g.feed([8, 64, 16]), [0, 32, 0], [8, 32, 16])
    g.output(g.rescale(g.matmul(a, g.feed([8, 16, 16])), I8, 0.01))
    return g


def table_of_a_batch_of_pixels():
    """A convolution of two images of one pixel each, then TABLE."""
    g = npu_cases.CaseGraph(1)
    g.output(g.table(g.conv_i8(g.feed([2, 1, 1, 7]), 7, kernel=1, pad=0)))
    return g


def number_less_five_dims():
    """SUB of a number and a tensor of five dims, in 32 bits; another constant follows the number."""
    g = npu_cases.CaseGraph(1)
    x = g.rescale(g.feed([2, 3, 4, 5, 6], I16), I32)
    y = g.op(ts.Op.SUB, [g.const([1] * 5, I32, [5]), x], x.shape, I32, "SubAttribute")
    g.output(g.table(g.rescale(y, I8, 0.003)))
    return g


def sum_over_a_long_axis():
    """REDUCE_SUM over more elements than an axis of the core has."""
    g = npu_cases.CaseGraph(1)
    x = g.rescale(g.feed([1, 102400]), I32, zero_in=-4)
    g.output(g.rescale(g.op(ts.Op.REDUCE_SUM, [x], [1, 1], I32, "ReduceSumAttribute", 1), I8, 0.0002))
    return g


def weights_with_two_biases():
    """Two convolutions with the same weights and scales, and other biases."""
    g = npu_cases.CaseGraph(1)
    x, weights = g.feed([1, 4, 4, 8]), g.weights([8, 1, 1, 8])
    results = []
    for bias in (-3000, 3000):
        inputs = [x, weights, g.const([8], I32, [bias] * 8), g.zero(), g.zero()]
        y = g.op(ts.Op.CONV2D, inputs, [1, 4, 4, 8], I32, "Conv2dAttribute", [0] * 4, [1, 1], [1, 1], False, I32)
        results.append(g.rescale(y, I8, 0.005))
    g.output(g.concat(3, *results))
    return g


def sum_of_a_slice():
    """REDUCE_SUM of a SLICE of a convolution's result, in 16 bits, with a RESCALE by one between them."""
    g = npu_cases.CaseGraph(1)
    y = g.rescale(g.conv(g.feed([1, 1, 17, 24]), 48, kernel=1, pad=0), I16, 0.01)
    y = g.rescale(g.slice(y, [0, 0, 0, 24], [1, 1, 17, 24]), I32)
    g.output(g.rescale(g.op(ts.Op.REDUCE_SUM, [y], [1, 1, 17, 1], I32, "ReduceSumAttribute", 3), I16, 0.1))
    return g


def table_of_a_sum_and_a_slice():
    """REDUCE_SUM of a batch, TABLE, then ADD of a SLICE."""
    g = npu_cases.CaseGraph(1)
    y = g.rescale(g.feed([2, 5, 5]), I32)
    y = g.table(g.rescale(g.op(ts.Op.REDUCE_SUM, [y], [2, 1, 5], I32, "ReduceSumAttribute", 1), I8, 0.2))
    g.output(g.add(y, g.slice(g.feed([2, 7, 5]), [0, 1, 0], [2, 1, 5])))
    return g


def two_tables_of_16_bits(second=16):
    """TABLE of 16 bits, ADD, then a TABLE that is brought into the same place."""
    g = npu_cases.CaseGraph(1)
    shape = [1, 4, 4, 16]
    wide = [g.rescale(g.rescale2(g.table16(g.feed(shape, I16)), I16, [2.0**-7]), I32), g.rescale(g.feed(shape, I16), I32)]
    total = g.op(ts.Op.ADD, wide, shape, I32, "AddAttribute")
    g.output(g.rescale2(g.table16(g.rescale(total, I16, 0.5)), I16, [2.0**-7]) if second == 16 else g.table(g.rescale(total, I8, 0.003)))
    return g


def tables_of_16_and_8_bits():
    """The same with a TABLE of 8 bits, which overwrites an eighth of the first."""
    return two_tables_of_16_bits(second=8)


def tables_of_a_chain():
    """TABLE of 8 bits, which is there already, ADD and MUL, and TABLE of 16 bits."""
    g = npu_cases.CaseGraph(1)
    x, values = g.feed([10]), g.const([256], I8, list(range(127, -129, -1)))
    twice = [g.op(ts.Op.TABLE, [x, values], x.shape, I8, "TableAttribute") for _ in range(2)]
    total = g.rescale(g.add(*twice), I32)
    g.output(g.rescale2(g.table16(g.rescale(g.mul(total, g.rescale(g.const([1], I8, [1]), I32)), I16, 100)), I16, [2.0**-7]))
    return g


# Each with the NPUs that it is shown on, and what the NPU in software says of regor's stream: a part of the fault that a
# repair settles, or None when the stream is in order and computes other numbers.
def scale_after_a_scale_of_one():
    """A convolution of 16 bits with a RESCALE by one, as one that moves codes has, then another RESCALE."""
    g = npu_cases.CaseGraph(1)
    moved = g.rescale(g.conv(g.feed([1, 8, 18, 8], I16), 16, kernel=1, pad=0), I16)
    x = g.rescale(g.reshape(moved, [1, 12, 12, 16]), I32, 1.611)
    y = g.op(ts.Op.SUB, [x, g.const([1] * 4, I32, [32767])], x.shape, I32, "SubAttribute")
    g.output(g.rescale(y, I16, 0.01))
    return g


def minimum_of_rows():
    """REDUCE_MIN along the width, then RESHAPE."""
    g = npu_cases.CaseGraph(1)
    y = g.op(ts.Op.REDUCE_MIN, [g.feed([1, 6, 7, 5])], [1, 6, 1, 5], I8, "ReduceMinAttribute", 2, 1)
    g.output(g.reshape(y, [1, 6, 5]))
    return g


ALL = [
    (square_transpose, ["ethos-u55-128"], "lets them overlap"),
    (strided_window, ["ethos-u85-256"], "lets them overlap"),
    (second_of_two, ["ethos-u55-128"], "a wait is missing"),
    (two_tables_of_16_bits, ["ethos-u85-256"], "look-up table was overwritten"),
    (tables_of_16_and_8_bits, ["ethos-u85-256"], "look-up table was overwritten"),
    (padded_window_of_a_slice, ["ethos-u55-128", "ethos-u85-256"], None),
    (product_of_a_slice, ["ethos-u55-128"], None),
    (table_of_a_batch_of_pixels, ["ethos-u55-128", "ethos-u85-256"], None),
    (number_less_five_dims, ["ethos-u55-128"], None),
    (weights_with_two_biases, ["ethos-u55-128", "ethos-u85-256"], None),
    (sum_over_a_long_axis, ["ethos-u85-256"], None),
    (sum_of_a_slice, ["ethos-u55-128", "ethos-u85-256"], None),
    (table_of_a_sum_and_a_slice, ["ethos-u85-256"], None),
    (tables_of_a_chain, ["ethos-u85-256"], None),
    (minimum_of_rows, ["ethos-u55-128"], None),
    (scale_after_a_scale_of_one, ["ethos-u85-256"], None),
]


if __name__ == "__main__":
    for make, _, _ in ALL:
        pathlib.Path(sys.argv[1], make.__name__ + ".tosa").write_bytes(make().bytes())
