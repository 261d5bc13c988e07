"""Random graphs of every integer TOSA operator, written with the peer's own serializer."""

import numpy as np
import tosa_serializer as ts

D = ts.DType
BOOL, I4, I8, I16, I32, I48, SHAPE = D.BOOL, D.INT4, D.INT8, D.INT16, D.INT32, D.INT48, D.SHAPE
NUMPY = {BOOL: np.bool_, I8: np.int8, I16: np.int16, I32: np.int32}
NAN = ts.NanPropagationMode.PROPAGATE
ROUNDING = {"single": ts.RoundingMode.SINGLE_ROUND, "double": ts.RoundingMode.DOUBLE_ROUND}
CHANNELS = [1, 2, 3, 8, 15, 16, 17, 33]


class Tensor:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, list(shape), dtype


class Graph:
    """A block under construction, with its random generator and the arrays to feed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.ser = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)
        self.count = 0
        self.feeds = []

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def shape(self, low=1, high=6, largest=9):
        rank = self.integer(low, high)
        largest = min(largest, int(4096 ** (1 / max(rank, 1))) + 1)
        shape = [self.integer(1, largest) for _ in range(rank)]
        if shape and self.rng.random() < 0.3:
            shape[-1] = self.pick(CHANNELS)
        return shape

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def values(self, shape, dtype, low=None, high=None):
        if dtype == BOOL:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        info = np.iinfo(NUMPY[dtype])
        low = info.min if low is None else low
        high = info.max if high is None else high
        values = self.rng.integers(low, high + 1, shape)
        # Ends of the range are where rounding and saturation go wrong.
        ends = self.rng.random(shape)
        return np.where(ends < 0.05, low, np.where(ends > 0.95, high, values)).astype(NUMPY[dtype])

    def input(self, shape, dtype=I8, low=None, high=None):
        tensor = Tensor(self.name("in"), shape, dtype)
        self.ser.addInputTensor(ts.TosaSerializerTensor(tensor.name, list(shape), dtype, []))
        self.feeds.append(self.values(shape, dtype, low, high))
        return tensor

    def const(self, shape, dtype, values):
        made = self.ser.addConst(list(shape), dtype, np.asarray(values).reshape(shape), name=self.name("c"))
        return Tensor(made.name, shape, dtype)

    def shape_const(self, values):
        return Tensor(
            self.ser.addConst([len(values)], SHAPE, list(values), name=self.name("s")).name, [len(values)], SHAPE
        )

    def one(self, dtype, value):
        return self.const([1], dtype, np.array([value], dtype=np.int64).astype(NUMPY.get(dtype, np.int64)))

    def operator(self, op, inputs, shape, dtype, attribute, *arguments):
        out = self.ser.addIntermediate(list(shape), dtype)
        made = ts.TosaSerializerAttribute()
        getattr(made, attribute + "Attribute")(*arguments)
        self.ser.addOperator(getattr(ts.Op, op), [t.name for t in inputs], [out.name], made)
        self.last = out
        return Tensor(out.name, shape, dtype)

    def finish(self):
        self.ser.addOutputTensor(self.last)
        return self.ser.serialize()

    # Operators that others use.

    def rescale(
        self,
        x,
        to=None,
        per_channel=None,
        shift_low=2,
        shift_high=62,
        scale32=None,
        rounding=None,
        signs=(False, False),
    ):
        to = to or self.pick([I8, I16, I32])
        scale32 = x.dtype != I48 and self.rng.random() < 0.7 if scale32 is None else scale32
        rounding = rounding or (self.pick(["single", "double"]) if scale32 else "single")
        per_channel = bool(x.shape) and self.rng.random() < 0.5 if per_channel is None else per_channel
        count = x.shape[-1] if per_channel else 1
        multiplier = (
            self.rng.integers(1 << 30, 1 << 31, count) if scale32 else self.rng.integers(1 << 14, 1 << 15, count)
        )
        multiplier = multiplier.astype(np.int32 if scale32 else np.int16)
        shift = self.rng.integers(shift_low, shift_high + 1, count).astype(np.int8)
        zp_in = self.zero_point(x.dtype, signs[0])
        zp_out = self.zero_point(to, signs[1])
        return self.operator(
            "RESCALE",
            [
                x,
                self.const([count], I32 if scale32 else I16, multiplier),
                self.const([count], I8, shift),
                zp_in,
                zp_out,
            ],
            x.shape,
            to,
            "Rescale",
            scale32,
            ROUNDING[rounding],
            per_channel,
            *signs,
        )

    def zero_point(self, dtype, is_unsigned=False):
        if dtype == I48:
            return self.const([1], I48, np.array([0], np.int64))
        if dtype == I16 and is_unsigned:
            return self.one(I16, self.pick([0, -32768]))
        return self.one(dtype, self.integer(-128, 127) if dtype == I8 else 0)

    def narrow(self, x, bits):
        """The reference model cannot return i48: a rescale of values of so many bits that just fits i32."""
        return (
            self.rescale(x, to=I32, shift_low=bits - 15, shift_high=bits - 12, per_channel=False)
            if x.dtype == I48
            else x
        )


def convolution_operands(g, dtype, weight_shape, channels):
    weight_type = g.pick([I8, I8, I8, I4]) if dtype == I8 else I8
    low, high = (-7, 7) if weight_type == I4 else (-128, 127)
    weight = g.const(weight_shape, weight_type, g.rng.integers(low, high + 1, weight_shape).astype(np.int8))
    bias_count = g.pick([channels, channels, 1])
    if dtype == I8:
        bias = g.const([bias_count], I32, g.values([bias_count], I32, -(1 << 24), 1 << 24))
    else:
        bias = g.const([bias_count], I48, g.rng.integers(-(1 << 34), 1 << 34, bias_count))
    zero_points = [
        g.zero_point(dtype),
        g.zero_point(weight_type) if weight_type == I8 else g.const([1], I4, np.array([0], np.int8)),
    ]
    return weight, bias, zero_points


def fitted(g, kernel, dilation, stride):
    """Size and padding for which the windows fit exactly."""
    pad = [g.integer(0, 3), g.integer(0, 3)]
    extent = (kernel - 1) * dilation + 1
    count = g.integer(1, 6)
    size = (count - 1) * stride + extent - sum(pad)
    while size < 1:
        count += 1
        size += stride
    return size, pad, count


def conv(g, spatial, depthwise=False):
    dtype = g.pick([I8, I8, I16])
    kernel = [g.integer(1, 4) for _ in range(spatial)]
    stride = [g.integer(1, 3) for _ in range(spatial)]
    dilation = [g.pick([1, 1, 2]) for _ in range(spatial)]
    sizes, pads, counts = zip(*[fitted(g, k, d, s) for k, d, s in zip(kernel, dilation, stride)])
    c_in, c_out = g.pick(CHANNELS), g.pick(CHANNELS)
    x = g.input([g.pick([1, 1, 2]), *sizes, c_in], dtype)
    if depthwise:
        multiplier = g.pick([1, 1, 2, 3])
        c_out = c_in * multiplier
        weight_shape = [*kernel, c_in, multiplier]
    else:
        weight_shape = [c_out, *kernel, c_in]
    weight, bias, zero_points = convolution_operands(g, dtype, weight_shape, c_out)
    op, attribute = ("DEPTHWISE_CONV2D", "DepthwiseConv2d") if depthwise else (f"CONV{spatial}D", f"Conv{spatial}d")
    acc = I32 if dtype == I8 else I48
    y = g.operator(
        op,
        [x, weight, bias, *zero_points],
        [x.shape[0], *counts, c_out],
        acc,
        attribute,
        [p for pad in pads for p in pad],
        stride,
        dilation,
        False,
        acc,
    )
    return g.narrow(y, 36)


def transpose_conv2d(g):
    dtype = g.pick([I8, I8, I16])
    kernel, stride = [g.integer(1, 4), g.integer(1, 4)], [g.integer(1, 3), g.integer(1, 3)]
    c_in, c_out = g.pick(CHANNELS), g.pick(CHANNELS)
    size = [g.integer(1, 5), g.integer(1, 5)]
    out_pad = [g.integer(1 - k, 2) for k in kernel for _ in range(2)]
    out = [
        (n - 1) * s + out_pad[2 * d] + out_pad[2 * d + 1] + k for d, (n, s, k) in enumerate(zip(size, stride, kernel))
    ]
    for d in range(2):
        if out[d] < 1:
            out_pad[2 * d] += 1 - out[d]
            out[d] = 1
    x = g.input([g.pick([1, 2]), *size, c_in], dtype)
    weight, bias, zero_points = convolution_operands(g, dtype, [c_out, *kernel, c_in], c_out)
    acc = I32 if dtype == I8 else I48
    y = g.operator(
        "TRANSPOSE_CONV2D",
        [x, weight, bias, *zero_points],
        [x.shape[0], *out, c_out],
        acc,
        "TransposeConv2d",
        out_pad,
        stride,
        False,
        acc,
    )
    return g.narrow(y, 36)


def matmul(g):
    dtype = g.pick([I8, I8, I16])
    n, h, c, w = (
        g.integer(1, 3),
        g.pick([1, 5, 15, 16, 17, 70]),
        g.pick([1, 7, 16, 31, 33, 200]),
        g.pick([1, 4, 15, 17]),
    )
    a, b = g.input([n, h, c], dtype), g.input([n, c, w], dtype)
    y = g.operator(
        "MATMUL", [a, b, g.zero_point(dtype), g.zero_point(dtype)], [n, h, w], I32 if dtype == I8 else I48, "MatMul"
    )
    return g.narrow(y, 39)


def pool(g, average):
    dtype = g.pick([I8, I16])
    kernel, stride = [g.integer(1, 5), g.integer(1, 5)], [g.integer(1, 3), g.integer(1, 3)]
    sizes, pads, counts = [], [], []
    for k, s in zip(kernel, stride):
        pad = [g.integer(0, k - 1), g.integer(0, k - 1)]
        count = g.integer(1, 6)
        size = (count - 1) * s + k - sum(pad)
        while size < 1:
            count, size = count + 1, size + s
        sizes.append(size), pads.extend(pad), counts.append(count)
    x = g.input([g.pick([1, 2]), *sizes, g.pick(CHANNELS)], dtype)
    shape = [x.shape[0], *counts, x.shape[3]]
    if average:
        return g.operator(
            "AVG_POOL2D",
            [x, g.zero_point(dtype), g.zero_point(dtype)],
            shape,
            dtype,
            "AvgPool2d",
            kernel,
            stride,
            pads,
            I32,
        )
    return g.operator("MAX_POOL2D", [x], shape, dtype, "MaxPool2d", kernel, stride, pads, NAN)


def resize(g):
    dtype = g.pick([I8, I16])
    mode = g.pick([ts.ResizeMode.NEAREST, ts.ResizeMode.BILINEAR])
    size, scale, offset, border, out = [], [], [], [], []
    for _ in range(2):
        while True:
            n, d = g.integer(1, 12), g.integer(1, 6)
            o, b, s = g.integer(-n, min(n, 4)), g.integer(-2, n - 1), g.integer(1, 9)
            room = (s - 1) * n - o + b
            if d < 16 * n and o < 16 * n and b >= -16 * n and room >= 0 and room % d == 0:
                break
        size.append(s), scale.extend([n, d]), offset.append(o), border.append(b), out.append(room // d + 1)
    x = g.input([g.pick([1, 2]), *size, g.pick(CHANNELS)], dtype)
    to = dtype if mode == ts.ResizeMode.NEAREST else (I32 if dtype == I8 else I48)
    y = g.operator(
        "RESIZE",
        [x, g.shape_const(scale), g.shape_const(offset), g.shape_const(border)],
        [x.shape[0], *out, x.shape[3]],
        to,
        "Resize",
        mode,
    )
    return g.narrow(y, 24)


def broadcast_pair(g, dtype, low=None, high=None, low_b=None, high_b=None):
    shape = g.shape(0, 6)
    a = [s if g.rng.random() < 0.7 else 1 for s in shape]
    b = [s if g.rng.random() < 0.7 else 1 for s in shape]
    out = [max(p, q) for p, q in zip(a, b)]
    return (
        g.input(a, dtype, low, high),
        g.input(b, dtype, low if low_b is None else low_b, high if high_b is None else high_b),
        out,
    )


def binary(g, op, attribute, dtypes, result=None, limit=None, arguments=()):
    dtype = g.pick(dtypes)
    a, b, shape = broadcast_pair(g, dtype, None if limit is None else -limit, limit)
    return g.operator(op, [a, b], shape, result or dtype, attribute, *arguments)


def shift(g, op, attribute, arguments=()):
    dtype = g.pick([I8, I16, I32])
    bits = {I8: 8, I16: 16, I32: 32}[dtype]
    a, b, shape = broadcast_pair(g, dtype, low_b=0, high_b=bits - 1)
    return g.operator(op, [a, b], shape, dtype, attribute, *arguments)


def mul(g):
    dtype = g.pick([I8, I16, I32])
    amount = g.pick([0, 1, 7, 31, 40, 62, 63]) if dtype == I32 else 0
    limit = 1 << 15 if dtype == I32 and amount < 31 and amount else None
    a, b, shape = broadcast_pair(g, dtype, None if limit is None else -limit, limit)
    return g.operator("MUL", [a, b, g.one(I8, amount)], shape, I32, "Mul")


def intdiv(g):
    a, b, shape = broadcast_pair(g, I32, low_b=1, high_b=g.pick([3, 1000, 2**31 - 1]))
    return g.operator("INTDIV", [a, b], shape, I32, "IntDiv")


def table(g):
    dtype = g.pick([I8, I16])
    x = g.input(g.shape(0, 6), dtype)
    if dtype == I8:
        return g.operator("TABLE", [x, g.const([256], I8, g.values([256], I8))], x.shape, I8, "Table")
    return g.operator("TABLE", [x, g.const([513], I16, g.values([513], I16, -16384, 16383))], x.shape, I32, "Table")


def unary(g, op, attribute, dtypes, low=None):
    x = g.input(g.shape(0, 6), g.pick(dtypes), low)
    return g.operator(op, [x], x.shape, x.dtype, attribute)


def clamp(g):
    x = g.input(g.shape(0, 6), g.pick([I8, I16]))
    limits = np.sort(g.values([2], x.dtype))
    low, high = ([int(b) for b in np.array([v]).astype(NUMPY[x.dtype]).tobytes()] for v in limits)
    return g.operator("CLAMP", [x], x.shape, x.dtype, "Clamp", low, high, NAN)


def negate(g):
    dtype = g.pick([I8, I16, I32])
    x = g.input(g.shape(0, 6), dtype, -(2**31) + 1 if dtype == I32 else None)
    return g.operator("NEGATE", [x, g.zero_point(dtype), g.zero_point(dtype)], x.shape, dtype, "Negate")


def cast(g):
    source = g.pick([BOOL, I8, I16, I32])
    to = g.pick([d for d in (BOOL, I8, I16, I32) if d != source])
    x = g.input(g.shape(0, 6), source, *((-1, 1) if g.rng.random() < 0.3 and source != BOOL else (None, None)))
    return g.operator("CAST", [x], x.shape, to, "Cast")


def select(g):
    shape, dtype = g.shape(0, 6), g.pick([BOOL, I8, I16, I32])
    parts = [[s if g.rng.random() < 0.7 else 1 for s in shape] for _ in range(3)]
    operands = [g.input(parts[0], BOOL), g.input(parts[1], dtype), g.input(parts[2], dtype)]
    return g.operator("SELECT", operands, [max(sizes) for sizes in zip(*parts)], dtype, "Select")


def reduce(g, op, attribute, dtypes, *arguments, limit=None):
    x = g.input(g.shape(1, 6), g.pick(dtypes), None if limit is None else -limit, limit)
    axis = g.integer(0, len(x.shape) - 1)
    return g.operator(
        op, [x], [1 if d == axis else s for d, s in enumerate(x.shape)], x.dtype, attribute, axis, *arguments
    )


def argmax(g):
    x = g.input(g.shape(1, 6), g.pick([I8, I16]), *((-2, 2) if g.rng.random() < 0.5 else (None, None)))
    axis = g.integer(0, len(x.shape) - 1)
    return g.operator("ARGMAX", [x], [s for d, s in enumerate(x.shape) if d != axis], I32, "ArgMax", axis, NAN)


MOVABLE = [BOOL, I8, I16, I32]


def concat(g):
    shape, dtype = g.shape(1, 6, 6), g.pick(MOVABLE)
    axis = g.integer(0, len(shape) - 1)
    parts = [
        g.input([g.integer(1, 5) if d == axis else s for d, s in enumerate(shape)], dtype)
        for _ in range(g.integer(1, 4))
    ]
    out = [sum(p.shape[axis] for p in parts) if d == axis else s for d, s in enumerate(shape)]
    return g.operator("CONCAT", parts, out, dtype, "Concat", axis)


def pad(g):
    x = g.input(g.shape(1, 6, 5), g.pick(MOVABLE))
    padding = [g.integer(0, 2) for _ in range(2 * len(x.shape))]
    value = g.const([1], x.dtype, g.values([1], x.dtype))
    out = [s + padding[2 * d] + padding[2 * d + 1] for d, s in enumerate(x.shape)]
    return g.operator("PAD", [x, g.shape_const(padding), value], out, x.dtype, "Pad")


def reshape(g):
    x = g.input(g.shape(0, 6), g.pick(MOVABLE))
    factors = [f for s in x.shape for f in (s, 1)]
    cut = sorted(g.integer(0, len(factors)) for _ in range(g.integer(0, 4)))
    out = [int(np.prod(factors[a:b])) for a, b in zip([0, *cut], [*cut, len(factors)])]
    return g.operator("RESHAPE", [x, g.shape_const(out)], out, x.dtype, "Reshape")


def reverse(g):
    x = g.input(g.shape(1, 6), g.pick(MOVABLE))
    return g.operator("REVERSE", [x], x.shape, x.dtype, "Reverse", g.integer(0, len(x.shape) - 1))


def slice_(g):
    x = g.input(g.shape(1, 6), g.pick(MOVABLE))
    start = [g.integer(0, s - 1) for s in x.shape]
    size = [g.integer(1, s - b) for s, b in zip(x.shape, start)]
    return g.operator("SLICE", [x, g.shape_const(start), g.shape_const(size)], size, x.dtype, "Slice")


def tile(g):
    x = g.input(g.shape(1, 6, 4), g.pick(MOVABLE))
    multiples = [g.integer(1, 3) for _ in x.shape]
    return g.operator(
        "TILE", [x, g.shape_const(multiples)], [s * m for s, m in zip(x.shape, multiples)], x.dtype, "Tile"
    )


def transpose(g):
    x = g.input(g.shape(1, 6), g.pick(MOVABLE))
    perms = [int(p) for p in g.rng.permutation(len(x.shape))]
    return g.operator("TRANSPOSE", [x], [x.shape[p] for p in perms], x.dtype, "Transpose", perms)


def gather(g):
    n, k, c, w = g.integer(1, 3), g.integer(1, 20), g.pick(CHANNELS), g.integer(1, 20)
    values, indices = g.input([n, k, c], g.pick([I8, I16, I32])), g.input([n, w], I32, 0, k - 1)
    return g.operator("GATHER", [values, indices], [n, w, c], values.dtype, "Gather")


def scatter(g):
    n, k, c = g.integer(1, 3), g.integer(1, 20), g.pick(CHANNELS)
    w, dtype = g.integer(1, k), g.pick([I8, I16, I32])
    values, indices = g.input([n, k, c], dtype), g.input([n, w], I32, 0, 0)
    g.feeds[-1] = np.stack([g.rng.permutation(k)[:w] for _ in range(n)]).astype(np.int32)
    return g.operator("SCATTER", [values, indices, g.input([n, w, c], dtype)], [n, k, c], dtype, "Scatter")


def rescale(g):
    dtype = g.pick([I8, I16, I32])
    signs = g.pick([(False, False), (False, False), (True, False), (False, True)]) if dtype != I32 else (False, False)
    to = g.pick([I8, I16]) if any(signs) else g.pick([I8, I16, I32])
    bits = {I8: 9, I16: 17, I32: 32}[dtype]
    # The specification wants |value| < 2^(shift - 1), and the result in 32 bits.
    scale32 = g.rng.random() < 0.7
    low = bits + 1 if scale32 else max(2, bits + 15 - 31)
    return g.rescale(
        g.input(g.shape(0, 6), dtype), to, shift_low=low, shift_high=min(62, low + 20), scale32=scale32, signs=signs
    )


def two_step(g):
    """A convolution or product, brought back to i8, and something after it."""
    y = g.pick([lambda: conv(g, 2), lambda: conv(g, 2, True), lambda: matmul(g), lambda: resize(g)])()
    if y.dtype == I32:
        y = g.rescale(y, to=g.pick([I8, I16]), shift_low=33, shift_high=44, scale32=True)
    follow = g.pick(["reduce", "argmax", "transpose", "add"])
    if follow == "reduce":
        axis = g.integer(0, len(y.shape) - 1)
        return g.operator(
            "REDUCE_MAX", [y], [1 if d == axis else s for d, s in enumerate(y.shape)], y.dtype, "ReduceMax", axis, NAN
        )
    if follow == "argmax":
        return g.operator("ARGMAX", [y], y.shape[:-1], I32, "ArgMax", len(y.shape) - 1, NAN)
    if follow == "transpose":
        perms = [int(p) for p in g.rng.permutation(len(y.shape))]
        return g.operator("TRANSPOSE", [y], [y.shape[p] for p in perms], y.dtype, "Transpose", perms)
    wide = g.rescale(y, to=I32, shift_low=18, shift_high=24, scale32=True, per_channel=False)
    total = g.operator("ADD", [wide, g.input(wide.shape, I32, -(1 << 29), 1 << 29)], wide.shape, I32, "Add")
    return g.rescale(total, to=I8, shift_low=33, shift_high=50, scale32=True)


BITS = [I8, I16, I32]
# name -> function that adds the operators and returns the result
FAMILIES = {
    "conv2d": lambda g: conv(g, 2),
    "conv3d": lambda g: conv(g, 3),
    "depthwise_conv2d": lambda g: conv(g, 2, depthwise=True),
    "transpose_conv2d": transpose_conv2d,
    "matmul": matmul,
    "avg_pool2d": lambda g: pool(g, True),
    "max_pool2d": lambda g: pool(g, False),
    "resize": resize,
    "rescale": rescale,
    "table": table,
    "clamp": clamp,
    "negate": negate,
    "cast": cast,
    "add": lambda g: binary(g, "ADD", "Add", [I32], limit=1 << 29),
    "sub": lambda g: binary(g, "SUB", "Sub", [I32], limit=1 << 29),
    "mul": mul,
    "intdiv": intdiv,
    "maximum": lambda g: binary(g, "MAXIMUM", "Maximum", [I32], arguments=(NAN,)),
    "minimum": lambda g: binary(g, "MINIMUM", "Minimum", [I32], arguments=(NAN,)),
    "equal": lambda g: binary(g, "EQUAL", "Equal", [I32], BOOL, limit=2),
    "greater": lambda g: binary(g, "GREATER", "Greater", [I32], BOOL, limit=2),
    "greater_equal": lambda g: binary(g, "GREATER_EQUAL", "GreaterEqual", [I32], BOOL, limit=2),
    "bitwise_and": lambda g: binary(g, "BITWISE_AND", "BitwiseAnd", BITS),
    "bitwise_or": lambda g: binary(g, "BITWISE_OR", "BitwiseOr", BITS),
    "bitwise_xor": lambda g: binary(g, "BITWISE_XOR", "BitwiseXor", BITS),
    "logical_and": lambda g: binary(g, "LOGICAL_AND", "LogicalAnd", [BOOL]),
    "logical_or": lambda g: binary(g, "LOGICAL_OR", "LogicalOr", [BOOL]),
    "logical_xor": lambda g: binary(g, "LOGICAL_XOR", "LogicalXor", [BOOL]),
    "logical_left_shift": lambda g: shift(g, "LOGICAL_LEFT_SHIFT", "LogicalLeftShift"),
    "logical_right_shift": lambda g: shift(g, "LOGICAL_RIGHT_SHIFT", "LogicalRightShift"),
    "arithmetic_right_shift": lambda g: shift(
        g, "ARITHMETIC_RIGHT_SHIFT", "ArithmeticRightShift", (g.rng.random() < 0.5,)
    ),
    "abs": lambda g: unary(g, "ABS", "Abs", [I32], low=-(2**31) + 1),
    "bitwise_not": lambda g: unary(g, "BITWISE_NOT", "BitwiseNot", BITS),
    "clz": lambda g: unary(g, "CLZ", "Clz", [I32]),
    "logical_not": lambda g: unary(g, "LOGICAL_NOT", "LogicalNot", [BOOL]),
    "identity": lambda g: unary(g, "IDENTITY", "Identity", MOVABLE),
    "select": select,
    "reduce_all": lambda g: reduce(g, "REDUCE_ALL", "ReduceAll", [BOOL]),
    "reduce_any": lambda g: reduce(g, "REDUCE_ANY", "ReduceAny", [BOOL]),
    "reduce_max": lambda g: reduce(g, "REDUCE_MAX", "ReduceMax", BITS, NAN),
    "reduce_min": lambda g: reduce(g, "REDUCE_MIN", "ReduceMin", BITS, NAN),
    "reduce_sum": lambda g: reduce(g, "REDUCE_SUM", "ReduceSum", [I32], limit=1 << 24),
    "argmax": argmax,
    "concat": concat,
    "pad": pad,
    "reshape": reshape,
    "reverse": reverse,
    "slice": slice_,
    "tile": tile,
    "transpose": transpose,
    "gather": gather,
    "scatter": scatter,
    "two_step": two_step,
}
