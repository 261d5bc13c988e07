"""Random one- and two-operator TOSA graphs that exercise the NPU in software.

case(seed) returns a graph with its inputs; the same seed gives the same graph. FAMILIES lists the kinds; every kind
draws shapes (1, 15, 16, 17 channels, odd sizes, batches), strides, pads, scales and zero points on its own.
"""

import numpy as np
import tosa_serializer as ts

from npu_case_graph import BOOL, CHANNELS, CaseGraph, PROPAGATE
from npu_graphs import I8, I16, I32, I48, SHAPE


def conv(g, kind="conv"):
    x = g.image(g.pick(I8, I8, I8, I16), batch=g.chance(0.3))
    y = g.conv2(x, kind)
    if x.dtype == I8 and g.chance(0.15):
        return y
    y = g.conv_out(y, g.pick(I8, I8, I16) if x.dtype == I8 else g.pick(I16, I8))
    if g.chance(0.3):
        limits = (g.between(-100, 0), g.between(1, 100))
        y = g.clamp(y, *limits)
    elif y.dtype == I8 and g.chance(0.3):
        y = g.table(y)
    return y


def depthwise(g):
    return conv(g, "depthwise")


def fully_connected(g):
    x = g.feed([g.pick(1, 1, 4, 7), 1, 1, g.pick(*CHANNELS, 64, 100, 257)], g.pick(I8, I8, I16))
    accumulator = I48 if x.dtype == I16 else I32
    out = g.pick(*CHANNELS, 64, 100)
    w = g.random_weights([out, 1, 1, x.shape[3]])
    bias = g.const([out], accumulator, g.random.integers(-5000, 5000, size=[out]).tolist())
    y = g.op(
        ts.Op.CONV2D,
        [x, w, bias, g.const([1], x.dtype, [g.between(-128, 127) if x.dtype == I8 else 0]), g.zero()],
        [x.shape[0], 1, 1, out],
        accumulator,
        "Conv2dAttribute",
        [0] * 4,
        [1, 1],
        [1, 1],
        False,
        accumulator,
    )
    return g.conv_out(y, x.dtype)


def two_convs(g):
    x = g.image(I8, batch=False)
    y = g.conv_out(g.conv2(x, g.pick("conv", "depthwise")), I8)
    return g.conv_out(g.conv2(y, g.pick("conv", "depthwise")), I8)


def conv_then(g):
    y = g.conv_out(g.conv2(g.image(I8, batch=False), g.pick("conv", "depthwise")), I8)
    kind = g.pick("add", "pool", "table", "transpose", "concat", "mul", "slice", "self")
    if kind == "add":
        return g.add(y, g.feed(y.shape, I8))
    if kind == "self":
        return g.add(y, y)
    if kind == "pool":
        return g.pool(y, g.chance(0.5))
    if kind == "table":
        return g.table(y)
    if kind == "transpose":
        order = [0] + [int(i) for i in g.random.permutation([1, 2, 3])]
        return g.transpose(y, order)
    if kind == "concat":
        return g.concat(3, y, g.feed(y.shape, I8))
    if kind == "slice":
        return slice_of(g, y)
    other = g.partner(y, I8)
    return g.scaled(g.mul(g.rescale2(y, I32, [1.0], 3), g.rescale2(other, I32, [1.0], -2)), I8, 1e-3, 1e-1)


def avg_pool(g):
    return g.pool(g.image(g.pick(I8, I8, I16)), True)


def max_pool(g):
    y = g.pool(g.image(g.pick(I8, I8, I16)), False)
    return g.scaled(y, I8, 0.3, 2.0) if y.dtype == I8 and g.chance(0.3) else y


def add_sub(g):
    op, attribute = g.pick((ts.Op.ADD, "AddAttribute"), (ts.Op.SUB, "SubAttribute"))
    dtype = g.pick(I8, I8, I16, I32)
    if dtype == I32:
        x = g.image(I32, low=-(2**30) + 1, high=2**30 - 1)
        y = g.partner(x, I32, -(2**30) + 1, 2**30 - 1)
        return g.binary(op, attribute, *g.pick((x, y), (y, x)), I32)
    x = g.image(dtype)
    y = g.partner(x, dtype)
    zero = (lambda: g.between(-128, 127)) if dtype == I8 else (lambda: 0)
    kind = g.pick("unit", "shift", "free", "integers")
    big = 2.0 ** (20 if dtype == I8 else 15)
    if kind == "unit":
        scales = [1.0, 1.0]
    elif kind == "shift":  # as TFLite and ExecuTorch do it: the larger of the two is half of 2^20 (2^15)
        scales = [big / 2, big / 2 * g.random.uniform(0.05, 0.95)]
        if g.chance(0.5):
            scales.reverse()
    elif kind == "integers":
        scales = [float(g.between(1, 2000)), float(g.between(1, 2000))]
    else:
        scales = [float(v) for v in np.exp(g.random.uniform(np.log(1.0), np.log(1000.0), size=2))]
    double = g.chance(0.1)
    total = g.binary(
        op,
        attribute,
        g.rescale2(x, I32, [scales[0]], zero(), 0, double),
        g.rescale2(y, I32, [scales[1]], zero(), 0, double),
        I32,
    )
    if g.chance(0.15):
        return total
    y = g.scaled(total, g.pick(dtype, I8), 0.1 / max(scales), 1.0 / max(scales), double=double)
    return g.table(y) if y.dtype == I8 and g.chance(0.15) else y


def mul(g):
    dtype = g.pick(I8, I8, I16, I32)
    limit = {I8: None, I16: None, I32: 30000}[dtype]
    x = g.image(dtype, low=-limit if limit else None, high=limit)
    y = g.partner(x, dtype, -limit if limit else None, limit)
    if dtype == I32:
        return g.mul(x, y, g.pick(0, 0, 3, 15))
    if g.chance(0.3):
        return g.mul(x, y)
    zero = (lambda: g.between(-128, 127)) if dtype == I8 else (lambda: 0)
    product = g.mul(g.rescale2(x, I32, [1.0], zero()), g.rescale2(y, I32, [1.0], zero()))
    return g.scaled(product, dtype, 1e-4 if dtype == I8 else 1e-6, 1e-2 if dtype == I8 else 1e-4, double=g.chance(0.1))


def min_max(g):
    op, attribute = g.pick((ts.Op.MAXIMUM, "MaximumAttribute"), (ts.Op.MINIMUM, "MinimumAttribute"))
    dtype = g.pick(I8, I16, I32)
    x = g.image(dtype)
    y = g.partner(x, dtype)
    if dtype == I32:
        return g.binary(op, attribute, x, y, I32, PROPAGATE)
    zero = g.between(-50, 50) if dtype == I8 else 0
    unit = g.chance(0.6)
    scale = lambda: [1.0] if unit else [float(np.exp(g.random.uniform(np.log(0.5), np.log(2.0))))]
    y = g.binary(op, attribute, g.rescale2(x, I32, scale(), zero), g.rescale2(y, I32, scale(), zero), I32, PROPAGATE)
    return g.rescale2(y, dtype, [1.0], 0, zero)


def unary(g):
    kind = g.pick("abs", "clz", "negate", "not", "cast", "abs8")
    if kind == "clz":
        return g.op(ts.Op.CLZ, [x := g.image(I32)], x.shape, I32, "ClzAttribute")
    if kind == "abs":
        return g.op(ts.Op.ABS, [x := g.image(I32, low=-(2**31) + 1)], x.shape, I32, "AbsAttribute")
    if kind == "abs8":
        x = g.rescale2(g.image(I8), I32, [1.0], g.between(-128, 127))
        return g.scaled(g.op(ts.Op.ABS, [x], x.shape, I32, "AbsAttribute"), I8, 0.1, 1.0)
    if kind == "negate":
        dtype = g.pick(I8, I16, I32)
        x = g.image(dtype, low=-(2**31) + 1 if dtype == I32 else None)
        zeros = [g.const([1], dtype, [g.between(-128, 127) if dtype == I8 else 0]) for _ in range(2)]
        return g.op(ts.Op.NEGATE, [x, *zeros], x.shape, dtype, "NegateAttribute")
    if kind == "not":
        x = g.image(g.pick(I8, I16, I32))
        return g.op(ts.Op.BITWISE_NOT, [x], x.shape, x.dtype, "BitwiseNotAttribute")
    source, to = g.pick(
        (I8, I16),
        (I8, I32),
        (I16, I8),
        (I16, I32),
        (I32, I8),
        (I32, I16),
        (I8, BOOL),
        (BOOL, I8),
        (BOOL, I32),
        (I32, BOOL),
    )
    x = g.image(source)
    return g.op(ts.Op.CAST, [x], x.shape, to, "CastAttribute")


def shifts(g):
    dtype = g.pick(I32, I32, I32, I8, I16)
    bits = {I8: 8, I16: 16, I32: 32}[dtype]
    x = g.image(dtype)
    y = g.partner(x, dtype, 0, bits - 1)
    kind = g.pick("asr", "asr", "shl", "lsr")
    if kind == "asr":
        return g.binary(ts.Op.ARITHMETIC_RIGHT_SHIFT, "ArithmeticRightShiftAttribute", x, y, dtype, g.chance(0.7))
    if kind == "shl":
        return g.binary(ts.Op.LOGICAL_LEFT_SHIFT, "LogicalLeftShiftAttribute", x, y, dtype)
    return g.binary(ts.Op.LOGICAL_RIGHT_SHIFT, "LogicalRightShiftAttribute", x, y, dtype)


def bitwise(g):
    x = g.image(g.pick(I8, I16, I32))
    y = g.partner(x, x.dtype)
    op, attribute = g.pick(
        (ts.Op.BITWISE_AND, "BitwiseAndAttribute"),
        (ts.Op.BITWISE_OR, "BitwiseOrAttribute"),
        (ts.Op.BITWISE_XOR, "BitwiseXorAttribute"),
    )
    return g.binary(op, attribute, x, y, x.dtype)


def logical(g):
    x = g.image(BOOL)
    if g.chance(0.2):
        return g.op(ts.Op.LOGICAL_NOT, [x], x.shape, BOOL, "LogicalNotAttribute")
    y = g.feed(x.shape, BOOL)
    op, attribute = g.pick(
        (ts.Op.LOGICAL_AND, "LogicalAndAttribute"),
        (ts.Op.LOGICAL_OR, "LogicalOrAttribute"),
        (ts.Op.LOGICAL_XOR, "LogicalXorAttribute"),
    )
    return g.binary(op, attribute, x, y, BOOL)


def compare(g):
    narrow = g.chance(0.5)
    x = g.image(I8 if narrow else I32, low=-5, high=5)
    y = g.partner(x, x.dtype, -5, 5)
    if narrow:
        x, y = g.rescale2(x, I32, [1.0]), g.rescale2(y, I32, [1.0])
    op, attribute = g.pick(
        (ts.Op.EQUAL, "EqualAttribute"),
        (ts.Op.GREATER, "GreaterAttribute"),
        (ts.Op.GREATER_EQUAL, "GreaterEqualAttribute"),
    )
    return g.binary(op, attribute, x, y, BOOL)


def select(g):
    x = g.image(g.pick(I8, I16, I32))
    y = g.feed(x.shape, x.dtype)
    condition = g.feed(x.shape, BOOL)
    return g.op(ts.Op.SELECT, [condition, x, y], x.shape, x.dtype, "SelectAttribute")


def intdiv(g):
    x = g.image(I32)
    y = g.partner(x, I32, 1, 1000)
    return g.binary(ts.Op.INTDIV, "IntDivAttribute", x, y, I32)


def rescale(g):
    source = g.pick(I8, I8, I16, I32, I32)
    x = g.image(source, low=-(2**24) if source == I32 else None, high=2**24 if source == I32 else None)
    to = g.pick(I8, I16, I32)
    zero = g.between(-128, 127) if source == I8 else 0
    per_channel = x.shape[3] if g.chance(0.3) and x.shape[3] > 1 else None
    low, high = {I8: (0.1, 100.0), I16: (1e-3, 1.0), I32: (1e-6, 1e-3)}[source]
    return g.scaled(x, to, low, high, per_channel, zero, double=g.chance(0.2))


def clamp(g):
    x = g.image(g.pick(I8, I16))
    return g.clamp(x, g.between(-100, 0), g.between(1, 100))


def table(g):
    if g.chance(0.5):
        return g.table(g.image(I8))
    y = g.table16(g.image(I16))
    return g.rescale2(y, I16, [2.0**-7]) if g.chance(0.6) else y


def two_elementwise(g):
    kind = g.pick("add", "mul", "table", "pool", "sub32")
    if kind == "sub32":
        a = g.image(I32, low=-(10**6), high=10**6)
        b = g.binary(ts.Op.SUB, "SubAttribute", a, g.partner(a, I32, -1000, 1000), I32)
        return g.binary(ts.Op.ADD, "AddAttribute", b, g.partner(b, I32, -1000, 1000), I32)
    x = g.image(I8)
    y = g.add(x, g.feed(x.shape, I8))
    if kind == "add":
        return g.add(y, g.feed(x.shape, I8))
    if kind == "table":
        return g.table(y)
    if kind == "pool":
        return g.pool(y, g.chance(0.5))
    return g.scaled(g.mul(g.rescale2(y, I32, [1.0], 1), g.rescale2(g.feed(x.shape, I8), I32, [1.0])), I8, 1e-3, 1e-1)


def reduce(g):
    kind = g.pick("sum", "sum", "max", "min", "any", "all", "argmax")
    rank = g.pick(2, 3, 4)
    shape = [1] * (4 - rank) + [g.between(1, 9) for _ in range(rank - 1)] + [g.pick(*CHANNELS)]
    shape = shape[4 - rank :] if rank < 4 else [g.pick(1, 2), *shape[1:]]
    axis = g.between(0, rank - 1)
    out = list(shape)
    out[axis] = 1
    if kind in ("any", "all"):
        name = {"any": ("REDUCE_ANY", "ReduceAnyAttribute"), "all": ("REDUCE_ALL", "ReduceAllAttribute")}[kind]
        return g.op(getattr(ts.Op, name[0]), [g.feed(shape, BOOL)], out, BOOL, name[1], axis)
    if kind == "argmax":
        x = g.feed(shape, g.pick(I8, I16))
        out = [s for i, s in enumerate(shape) if i != axis]
        return g.op(ts.Op.ARGMAX, [x], out, I32, "ArgMaxAttribute", axis, PROPAGATE)
    if kind == "sum":
        dtype = g.pick(I8, I16, I32)
        x = g.feed(shape, dtype, -(10**6) if dtype == I32 else None, 10**6 if dtype == I32 else None)
        if dtype != I32:
            x = g.rescale2(x, I32, [g.pick(1.0, 1.0, 3.7)], g.between(-128, 127) if dtype == I8 else 0)
        y = g.op(ts.Op.REDUCE_SUM, [x], out, I32, "ReduceSumAttribute", axis)
        return g.scaled(y, dtype, 1e-3, 1e-1) if dtype != I32 else y
    dtype = g.pick(I8, I16, I32)
    name = ("REDUCE_MAX", "ReduceMaxAttribute") if kind == "max" else ("REDUCE_MIN", "ReduceMinAttribute")
    return g.op(getattr(ts.Op, name[0]), [g.feed(shape, dtype)], out, dtype, name[1], axis, PROPAGATE)


def slice_of(g, x):
    start = [g.between(0, s - 1) for s in x.shape]
    size = [g.between(1, s - a) for s, a in zip(x.shape, start)]
    rank = len(start)
    return g.op(
        ts.Op.SLICE, [x, g.const([rank], SHAPE, start), g.const([rank], SHAPE, size)], size, x.dtype, "SliceAttribute"
    )


def move(g):
    dtype = g.pick(I8, I8, I16, I32)
    kind = g.pick("transpose", "transpose", "concat", "slice", "pad", "tile", "reverse", "reshape", "identity")
    rank = g.pick(2, 3, 4, 4, 4)
    shape = [g.between(1, 7) for _ in range(rank - 1)] + [g.pick(*CHANNELS)]
    x = g.feed(shape, dtype)
    if kind == "transpose":
        return g.transpose(x, [int(i) for i in g.random.permutation(rank)])
    if kind == "concat":
        axis = g.between(0, rank - 1)
        other = list(shape)
        other[axis] = g.between(1, 17)
        return g.concat(axis, x, g.feed(other, dtype))
    if kind == "slice":
        return slice_of(g, x)
    if kind == "pad":
        pads = [g.between(0, 3) for _ in range(2 * rank)]
        out = [s + pads[2 * i] + pads[2 * i + 1] for i, s in enumerate(shape)]
        value = g.const([1], dtype, [g.pick(0, 5, -3)])
        return g.op(ts.Op.PAD, [x, g.const([2 * rank], SHAPE, pads), value], out, dtype, "PadAttribute")
    if kind == "tile":
        times = [g.pick(1, 1, 2, 3) for _ in shape]
        return g.op(
            ts.Op.TILE,
            [x, g.const([rank], SHAPE, times)],
            [s * t for s, t in zip(shape, times)],
            dtype,
            "TileAttribute",
        )
    if kind == "reverse":
        return g.op(ts.Op.REVERSE, [x], shape, dtype, "ReverseAttribute", g.between(0, rank - 1))
    if kind == "identity":
        return g.op(ts.Op.IDENTITY, [x], shape, dtype, "IdentityAttribute")
    return g.reshape(x, [1, int(np.prod(shape))] if rank > 2 else [*shape, 1])


def matmul(g):
    dtype = g.pick(I8, I8, I16)
    n, h, c, w = g.pick(1, 1, 2, 3), g.between(1, 20), g.pick(*CHANNELS), g.between(1, 20)
    a, b = g.feed([n, h, c], dtype), g.feed([n, c, w], dtype)
    accumulator = I48 if dtype == I16 else I32
    zeros = [g.const([1], dtype, [g.between(-128, 127) if dtype == I8 else 0]) for _ in range(2)]
    y = g.op(ts.Op.MATMUL, [a, b, *zeros], [n, h, w], accumulator, "MatMulAttribute")
    return g.scaled(y, dtype, 1e-3 if dtype == I8 else 1e-7, 1e-2 if dtype == I8 else 1e-5)


def gather(g):
    dtype = g.pick(I8, I16, I32)
    n, k, c, w = g.pick(1, 2), g.between(1, 20), g.pick(*CHANNELS), g.between(1, 12)
    values = g.feed([n, k, c], dtype)
    if g.chance(0.5):
        return g.op(ts.Op.GATHER, [values, g.feed([n, w], I32, 0, k - 1)], [n, w, c], dtype, "GatherAttribute")
    w = min(w, k)
    rows = np.stack([g.random.permutation(k)[:w] for _ in range(n)]).astype(np.int32)
    g.data.append(rows)
    indices = g.input([n, w], I32)
    return g.op(ts.Op.SCATTER, [values, indices, g.feed([n, w, c], dtype)], [n, k, c], dtype, "ScatterAttribute")


def resize(g):
    n, h, w, c = 1, g.between(1, 9), g.between(1, 9), g.pick(*CHANNELS)
    bilinear = g.chance(0.6)
    dtype = g.pick(I8, I8, I16)
    scales, sizes, offsets, borders = [], [], [], []
    factors = [g.pick(1, 2, 2, 3, 4, 8)] * 2 if g.chance(0.7) else [g.pick(1, 2, 2, 3, 4, 8), g.pick(1, 2, 2, 3, 4, 8)]
    if not bilinear and factors[0] != factors[1]:
        g.defect = "RESIZE nearest with two different factors: regor 5.1.0 doubles both axes alike on U55 and U65"
    for size, up in zip((h, w), factors):
        half = g.chance(0.5)
        scale_n, scale_d = (2 * up, 2) if half or up == 1 else (up, 1)
        offset, border = (1 - up, up - 1) if half else (0, 0)
        if up == 1:
            scale_n, scale_d, offset, border = 2, 2, 0, 0
        length = ((size - 1) * scale_n - offset + border) // scale_d + 1
        if ((size - 1) * scale_n - offset + border) % scale_d:
            border += scale_d - ((size - 1) * scale_n - offset + border) % scale_d
            length = ((size - 1) * scale_n - offset + border) // scale_d + 1
        scales += [scale_n, scale_d]
        offsets.append(offset)
        borders.append(border)
        sizes.append(length)
    x = g.feed([n, h, w, c], dtype)
    to = dtype if not bilinear else (I32 if dtype == I8 else I48)
    inputs = [x, g.const([4], SHAPE, scales), g.const([2], SHAPE, offsets), g.const([2], SHAPE, borders)]
    y = g.op(
        ts.Op.RESIZE,
        inputs,
        [n, *sizes, c],
        to,
        "ResizeAttribute",
        ts.ResizeMode.BILINEAR if bilinear else ts.ResizeMode.NEAREST,
    )
    if bilinear and (dtype == I16 or g.chance(0.7)):
        return g.rescale2(y, dtype, [1.0 / (scales[0] * scales[2])])
    return y


def transpose_conv(g):
    x = g.image(g.pick(I8, I8, I16), batch=False)
    n, h, w, c = x.shape
    kernel = [g.between(1, 4), g.between(1, 4)]
    stride = [g.pick(1, 2, 2), g.pick(1, 2, 2)]
    out_pad = [g.between(-(k - 1), 1) if k > 1 else 0 for k in (kernel[0], kernel[0], kernel[1], kernel[1])]
    size = [(d - 1) * s + k + a + b for d, s, k, a, b in zip((h, w), stride, kernel, out_pad[0::2], out_pad[1::2])]
    if min(size) < 1:
        out_pad = [0] * 4
        size = [(d - 1) * s + k for d, s, k in zip((h, w), stride, kernel)]
    out = g.pick(*CHANNELS)
    accumulator = I48 if x.dtype == I16 else I32
    bias = g.const([out], accumulator, g.random.integers(-5000, 5000, size=[out]).tolist())
    zero = g.const([1], x.dtype, [g.between(-128, 127) if x.dtype == I8 else 0])
    y = g.op(
        ts.Op.TRANSPOSE_CONV2D,
        [x, g.random_weights([out, *kernel, c]), bias, zero, g.zero()],
        [n, *size, out],
        accumulator,
        "TransposeConv2dAttribute",
        out_pad,
        stride,
        False,
        accumulator,
    )
    return g.conv_out(y, x.dtype)


def large_conv(g):
    """Big enough for stripes, cascades and buffered weights."""
    x = g.feed([1, g.pick(33, 64, 96), g.pick(32, 65, 96), g.pick(3, 8, 16)], I8)
    y = g.conv_out(g.conv2(x, "conv", g.pick(16, 24, 40, 64)), I8)
    for _ in range(g.between(0, 2)):
        y = g.conv_out(g.conv2(y, g.pick("conv", "depthwise"), g.pick(16, 32, 48)), I8)
    return y


def unusual_conv(g):
    """Strides above 3, dilations above 2, kernels above 8, channel multipliers, weights that are computed, 3-D."""
    kind = g.pick("stride", "dilation", "kernel", "multiplier", "dynamic", "3d", "int4", "deep")
    c, out = g.pick(1, 3, 8, 16, 17), g.pick(*CHANNELS)
    size, kernel, stride, dilation = 12, [3, 3], [1, 1], [1, 1]
    if kind == "stride":
        kernel, stride = [g.pick(2, 4)] * 2, [g.pick(4, 5)] * 2
    elif kind == "dilation":
        dilation = [g.pick(3, 4), g.pick(1, 4)]
    elif kind == "kernel":
        kernel = [g.pick(1, 9, 11), g.pick(9, 12)]
    elif kind == "deep":
        kernel, c, out = [g.pick(1, 3)] * 2, g.pick(64, 96, 129, 200), g.pick(64, 80, 130)
        size = 4
    if kind == "3d":
        x = g.feed([1, g.between(2, 4), 6, 7, c], I8)
        w = g.random_weights([out, 2, 3, 3, c])
        bias = g.const([out], I32, g.random.integers(-500, 500, size=[out]).tolist())
        y = g.op(
            ts.Op.CONV3D,
            [x, w, bias, g.const([1], I8, [g.between(-128, 127)]), g.zero()],
            [1, x.shape[1] - 1, 4, 5, out],
            I32,
            "Conv3dAttribute",
            [0] * 6,
            [1] * 3,
            [1] * 3,
            False,
            I32,
        )
        return g.rescale2(y, I8, [1e-3], 0, 3)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    high, wide = [(max(1, (size - r) // s)) * s + r for r, s in zip(reach, stride)]
    oh, ow = (high - reach[0]) // stride[0] + 1, (wide - reach[1]) // stride[1] + 1
    x = g.feed([1, high, wide, c], I8)
    zero = g.const([1], I8, [g.between(-128, 127)])
    if kind == "multiplier":
        times = g.pick(2, 3)
        bias = g.const([c * times], I32, g.random.integers(-500, 500, size=[c * times]).tolist())
        y = g.op(
            ts.Op.DEPTHWISE_CONV2D,
            [x, g.random_weights([*kernel, c, times]), bias, zero, g.zero()],
            [1, oh, ow, c * times],
            I32,
            "DepthwiseConv2dAttribute",
            [0] * 4,
            stride,
            dilation,
            False,
            I32,
        )
        return g.conv_out(y, I8)
    bias = g.const([out], I32, g.random.integers(-500, 500, size=[out]).tolist())
    if kind == "dynamic":
        weights = g.feed([out, *kernel, c], I8, -127)
    elif kind == "int4":
        weights = g.const(
            [out, *kernel, c], ts.DType.INT4, g.random.integers(-7, 8, size=[out, *kernel, c]).astype(np.int8)
        )
    else:
        weights = g.random_weights([out, *kernel, c])
    weight_zero = g.const([1], ts.DType.INT4, [0]) if kind == "int4" else g.zero()
    y = g.op(
        ts.Op.CONV2D,
        [x, weights, bias, zero, weight_zero],
        [1, oh, ow, out],
        I32,
        "Conv2dAttribute",
        [0] * 4,
        stride,
        dilation,
        False,
        I32,
    )
    return g.conv_out(y, I8) if kind != "dynamic" else g.rescale2(y, I8, [1e-3], 0, 2)


def fast_weights(g):
    """Weights that do not compress, or few values: the U85 may store them in its fast format."""
    c, out = g.pick(48, 64, 128, 200), g.pick(64, 128, 144)
    kernel = g.pick(1, 1, 3)
    x = g.feed([1, kernel, kernel + g.pick(0, 3), c], g.pick(I8, I8, I16))
    shape = [out, kernel, kernel, c]
    kind = g.pick("noise", "noise", "four", "sixteen", "sparse")
    if kind in ("noise", "sparse"):
        values = g.random.integers(-127, 128, size=shape)
    else:
        values = g.random.choice(g.random.integers(-127, 128, size=4 if kind == "four" else 16), size=shape)
    if kind == "sparse" and c % 4 == 0:
        values = values * (np.argsort(g.random.random(size=[*shape[:-1], c // 4, 4]), axis=-1) < 2).reshape(shape)
    accumulator = I48 if x.dtype == I16 else I32
    bias = g.const([out], accumulator, g.random.integers(-500, 500, size=[out]).tolist())
    zero = g.const([1], x.dtype, [g.between(-128, 127) if x.dtype == I8 else 0])
    y = g.op(
        ts.Op.CONV2D,
        [x, g.const(shape, I8, values.astype(np.int8)), bias, zero, g.zero()],
        [1, 1, x.shape[2] - kernel + 1, out],
        accumulator,
        "Conv2dAttribute",
        [0] * 4,
        [1, 1],
        [1, 1],
        False,
        accumulator,
    )
    return g.conv_out(y, x.dtype)


def large_pool(g):
    kernel = [g.pick(1, 7, 9, 16), g.pick(9, 12, 20)]
    x = g.feed([1, kernel[0] + g.pick(0, 3), kernel[1] + g.pick(0, 2), g.pick(*CHANNELS)], g.pick(I8, I8, I16))
    size = [x.shape[1] - kernel[0] + 1, x.shape[2] - kernel[1] + 1]
    if g.chance(0.3):
        return g.op(
            ts.Op.MAX_POOL2D,
            [x],
            [1, *size, x.shape[3]],
            x.dtype,
            "MaxPool2dAttribute",
            kernel,
            [1, 1],
            [0] * 4,
            PROPAGATE,
        )
    zeros = [g.const([1], x.dtype, [g.between(-128, 127) if x.dtype == I8 else 0])] * 2
    return g.op(
        ts.Op.AVG_POOL2D,
        [x, *zeros],
        [1, *size, x.shape[3]],
        x.dtype,
        "AvgPool2dAttribute",
        kernel,
        [1, 1],
        [0] * 4,
        I32,
    )


def region(g, name, shapes, body):
    """A region beside main: inputs of the given (shape, dtype), outputs as body(inputs) returns them."""
    g.ser.startRegion(name)
    g.ser.currRegion.addBasicBlock(name)
    inputs = [g.input(shape, dtype) for shape, dtype in shapes]
    for tensor in body(*inputs):
        g.ser.addOutputTensor(tensor)


def branch(g):
    x, y = g.image(I8, batch=False), None
    y = g.feed(x.shape, I8)
    condition = g.feed([1], BOOL)
    out = g.op(ts.Op.COND_IF, [condition, x, y], x.shape, I8, "CondIfAttribute", "then", "else")
    result = g.table(out)
    g.output(result)
    shapes = [(x.shape, I8)] * 2
    region(g, "then", shapes, lambda a, b: [g.add(a, b)])
    region(g, "else", shapes, lambda a, b: [g.table(g.add(a, a))] if g.chance(0.5) else [g.pool_same(b)])


def loop(g):
    x = g.image(I8, batch=False)
    count = g.feed([1], I32, 0, 5)
    more = ts.TosaSerializerAttribute()
    more.WhileLoopAttribute("cond", "body")
    out_count, out = g.ser.addIntermediate([1], I32), g.ser.addIntermediate(list(x.shape), I8)
    g.ser.addOperator(ts.Op.WHILE_LOOP, [count.name, x.name], [out_count.name, out.name], more)
    g.output(out_count, out)
    shapes = [([1], I32), (x.shape, I8)]
    region(
        g, "cond", shapes, lambda n, a: [g.binary(ts.Op.GREATER, "GreaterAttribute", n, g.const([1], I32, [0]), BOOL)]
    )
    region(
        g,
        "body",
        shapes,
        lambda n, a: [g.binary(ts.Op.SUB, "SubAttribute", n, g.const([1], I32, [1]), I32), g.table(a)],
    )


FAMILIES = [
    conv,
    conv,
    conv,
    depthwise,
    depthwise,
    fully_connected,
    two_convs,
    conv_then,
    conv_then,
    avg_pool,
    max_pool,
    add_sub,
    add_sub,
    mul,
    min_max,
    unary,
    shifts,
    bitwise,
    logical,
    compare,
    select,
    intdiv,
    rescale,
    rescale,
    clamp,
    table,
    two_elementwise,
    reduce,
    reduce,
    move,
    move,
    matmul,
    gather,
    resize,
    transpose_conv,
    large_conv,
    unusual_conv,
    unusual_conv,
    fast_weights,
    large_pool,
    branch,
    loop,
]


def case(seed):
    """(name, TOSA bytes, input arrays, known defect of the peer's compiler or None)"""
    family = FAMILIES[seed % len(FAMILIES)]
    g = CaseGraph(seed)
    y = family(g)
    if y is not None:
        g.output(y)
    return family.__name__, g.bytes(), g.data, g.defect
