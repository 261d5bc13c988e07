"""Small TOSA graphs, written with the peer's own serializer, for the tests of the NPU compiler."""

import numpy as np
import tosa_serializer as ts

I8, I16, I32, I48, SHAPE = ts.DType.INT8, ts.DType.INT16, ts.DType.INT32, ts.DType.INT48, ts.DType.SHAPE


class Graph:
    """One basic block. A method that adds an operator returns the tensor it writes; `ops` lists them in file order."""

    def __init__(self, seed=0):
        self.ser = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)
        self.random = np.random.default_rng(seed)
        self.ops = []
        self.tensors = 0

    def name(self, stem):
        self.tensors += 1
        return f"{stem}{self.tensors}"

    def input(self, shape, dtype=I8):
        tensor = ts.TosaSerializerTensor(self.name("in"), list(shape), dtype, [])
        self.ser.addInputTensor(tensor)
        return tensor

    def const(self, shape, dtype, values):
        self.ops.append("CONST_SHAPE" if dtype == SHAPE else "CONST")
        return self.ser.addConst(list(shape), dtype, values, name=self.name("const"))

    def op(self, op, inputs, shape, dtype, make_attribute, *arguments):
        out = self.ser.addIntermediate(list(shape), dtype)
        attribute = ts.TosaSerializerAttribute()
        getattr(attribute, make_attribute)(*arguments)
        self.ops.append(str(op).split(".")[-1])
        self.ser.addOperator(op, [t.name for t in inputs], [out.name], attribute)
        return out

    def output(self, *tensors):
        for tensor in tensors:
            self.ser.addOutputTensor(tensor)

    def bytes(self):
        return bytes(self.ser.serialize())

    def zero(self, dtype=I8, value=0):
        return self.const([1], dtype, [value])

    def rescale(self, x, dtype, scale=1.0, zero_in=0, zero_out=0, multipliers=None):
        # scale = multiplier * 2^-shift with a 31-bit multiplier, TOSA 1.0 RESCALE
        scales = [scale] if multipliers is None else multipliers
        mantissa, exponent = np.frexp(np.asarray(scales, np.float64))
        values = np.round(mantissa * (1 << 31)).astype(np.int64)
        over = values == 1 << 31
        values[over] //= 2
        shifts = 31 - (exponent + over)
        wide = x.dtype == I48
        if wide:
            values, shifts = values >> 16, shifts - 16
        inputs = [
            x,
            self.const([len(scales)], I16 if wide else I32, values.tolist()),
            self.const([len(scales)], I8, shifts.tolist()),
            self.zero(x.dtype, zero_in) if not wide else self.zero(I48, zero_in),
            self.zero(dtype, zero_out),
        ]
        return self.op(ts.Op.RESCALE, inputs, x.shape, dtype, "RescaleAttribute", not wide,
                       ts.RoundingMode.SINGLE_ROUND, len(scales) > 1, False, False)

    def weights(self, shape, dtype=I8):
        return self.const(shape, dtype, self.random.integers(-127, 128, size=shape).astype(np.int8))

    def conv(self, x, channels, kernel=3, pad=1, stride=1, depthwise=False):
        _, height, width, depth = x.shape
        accumulator = I48 if x.dtype == I16 else I32
        size = [(d + 2 * pad - kernel) // stride + 1 for d in (height, width)]
        channels = depth if depthwise else channels
        w = self.weights([kernel, kernel, depth, 1] if depthwise else [channels, kernel, kernel, depth])
        bias = self.const([channels], accumulator, self.random.integers(-500, 500, size=[channels]).tolist())
        inputs = [x, w, bias, self.zero(x.dtype), self.zero()]
        return self.op(ts.Op.DEPTHWISE_CONV2D if depthwise else ts.Op.CONV2D, inputs, [x.shape[0], *size, channels],
                       accumulator,
                       "DepthwiseConv2dAttribute" if depthwise else "Conv2dAttribute",
                       [pad] * 4, [stride] * 2, [1, 1], False, accumulator)

    def conv_i8(self, x, channels, **shape):
        y = self.conv(x, channels, **shape)
        scales = (self.random.uniform(0.5, 1.5, size=[y.shape[3]]) * 1e-3).tolist()
        return self.rescale(y, x.dtype, multipliers=scales)

    def clamp(self, x, low, high):
        kind = np.int8 if x.dtype == I8 else np.int16
        return self.op(ts.Op.CLAMP, [x], x.shape, x.dtype, "ClampAttribute", list(np.array([low], kind).tobytes()),
                       list(np.array([high], kind).tobytes()), ts.NanPropagationMode.PROPAGATE)

    def add(self, a, b, dtype=I8):
        wide = [self.rescale(a, I32, 1.0, 3), self.rescale(b, I32, 1.0, -4)]
        total = self.op(ts.Op.ADD, wide, a.shape, I32, "AddAttribute")
        return self.rescale(total, dtype, 0.37)

    def reshape(self, x, shape):
        to = self.const([len(shape)], SHAPE, list(shape))
        return self.op(ts.Op.RESHAPE, [x, to], shape, x.dtype, "ReshapeAttribute")

    def transpose(self, x, order):
        return self.op(ts.Op.TRANSPOSE, [x], [x.shape[i] for i in order], x.dtype, "TransposeAttribute", list(order))

    def table(self, x):
        values = self.const([256], I8, self.random.integers(-128, 128, size=[256]).astype(np.int8))
        return self.op(ts.Op.TABLE, [x, values], x.shape, I8, "TableAttribute")

    def concat(self, axis, *parts):
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        return self.op(ts.Op.CONCAT, list(parts), shape, parts[0].dtype, "ConcatAttribute", axis)

    def slice(self, x, start, size):
        bounds = [self.const([len(v)], SHAPE, list(v)) for v in (start, size)]
        return self.op(ts.Op.SLICE, [x, *bounds], size, x.dtype, "SliceAttribute")

    def max_pool(self, x, kernel, stride):
        size = [(d - kernel) // stride + 1 for d in x.shape[1:3]]
        return self.op(ts.Op.MAX_POOL2D, [x], [x.shape[0], *size, x.shape[3]], x.dtype, "MaxPool2dAttribute",
                       [kernel] * 2, [stride] * 2, [0] * 4, ts.NanPropagationMode.PROPAGATE)

    def matmul(self, a, b):
        shape = [a.shape[0], a.shape[1], b.shape[2]]
        return self.op(ts.Op.MATMUL, [a, b, self.zero(), self.zero()], shape, I32, "MatMulAttribute")


def conv_net():
    """A residual network: per-channel scales, pooling, a fully connected end."""
    g = Graph(1)
    x = g.clamp(g.conv_i8(g.input([1, 16, 16, 3]), 16), 0, 127)
    y = g.conv_i8(x, 16, depthwise=True)
    x = g.max_pool(g.add(x, g.conv_i8(y, 16, kernel=1, pad=0)), 2, 2)
    x = g.reshape(x, [1, 1, 1, 8 * 8 * 16])
    g.output(g.conv_i8(x, 10, kernel=1, pad=0))
    return g


def two_in_two_out():
    """Two inputs and outputs in the order of the graph, a table, a concatenation, layout changes."""
    g = Graph(2)
    a, b = g.input([1, 8, 12, 16]), g.input([1, 8, 12, 16])
    joined = g.concat(3, g.table(a), g.add(a, b))
    g.output(g.transpose(joined, [0, 3, 1, 2]), g.max_pool(b, 2, 2))
    return g


def large():
    """Feature maps of 512 KiB: more than a dedicated SRAM, so that staging, cascades and weight buffers come in."""
    g = Graph(3)
    x = g.conv_i8(g.input([1, 128, 128, 8]), 32)
    for _ in range(3):
        x = g.conv_i8(x, 32)
    g.output(g.conv_i8(x, 64, stride=1, kernel=1, pad=0))
    return g


def int16():
    """16-bit activations with a 48-bit accumulator."""
    g = Graph(4)
    g.output(g.conv_i8(g.conv_i8(g.input([1, 10, 10, 8], I16), 24), 8, kernel=1, pad=0))
    return g


def attention():
    """Two matrix products, as in attention."""
    g = Graph(5)
    q, k, v = (g.input([2, 16, 8]) for _ in range(3))
    scores = g.table(g.rescale(g.matmul(q, g.transpose(k, [0, 2, 1])), I8, 0.01))
    g.output(g.rescale(g.matmul(scores, v), I8, 0.02))
    return g


def mixed_weights():
    """Weights whose spread changes within a layer, so that parts of them are encoded in different ways."""
    g = Graph(8)

    def weights(shape, dtype=I8):
        count = int(np.prod(shape))
        spread = np.repeat(g.random.choice([0, 0.6, 3, 12, 40], size=count // 150 + 1), 150)[:count]
        values = np.clip(g.random.normal(size=count) * spread, -127, 127)
        return g.const(shape, dtype, values.astype(np.int8).reshape(shape))

    g.weights = weights
    x = g.conv_i8(g.input([1, 12, 12, 24]), 40)
    g.output(g.conv_i8(g.conv_i8(x, 40, depthwise=True), 60, kernel=1, pad=0))
    return g


def refused_by_u55():
    """BITWISE_NOT runs on U85 alone."""
    g = Graph(6)
    x = g.input([1, 4, 4, 8])
    g.output(g.op(ts.Op.BITWISE_NOT, [x], x.shape, I8, "BitwiseNotAttribute"))
    return g


def crashes_regor_on_u55():
    """Legal TOSA on which regor 5.1.0 recurses without end (DecomposeElementwise): a slice of the first of five axes,
    that axis dropped, then a rescale to 32 bits with a batch. Found in a MobileViT block as ExecuTorch lowers it."""
    g = Graph(7)
    x = g.slice(g.input([3, 4, 4, 64, 12]), [0, 0, 0, 0, 0], [1, 4, 4, 64, 12])
    g.output(g.rescale(g.reshape(x, [4, 4, 64, 12]), I32, 1.0))
    return g


ALL = {f.__name__: f for f in (conv_net, two_in_two_out, large, int16, attention)}
