"""A TOSA graph that draws its own shapes, scales and operands, for the random cases of npu_cases.py."""

import numpy as np
import tosa_serializer as ts

from npu_graphs import I8, I16, I32, I48, Graph

BOOL = ts.DType.BOOL
PROPAGATE = ts.NanPropagationMode.PROPAGATE
NUMPY = {I8: np.int8, I16: np.int16, I32: np.int32, BOOL: np.bool_}
CHANNELS = [1, 2, 3, 8, 15, 16, 17, 24, 32, 33]


class CaseGraph(Graph):
    def __init__(self, seed):
        super().__init__(seed)
        self.data = []  # one array per input
        self.defect = None  # what the peer's compiler is known to get wrong about this graph

    def pick(self, *options):
        return options[self.random.integers(len(options))]

    def chance(self, probability):
        return self.random.random() < probability

    def between(self, low, high):
        return int(self.random.integers(low, high + 1))

    def feed(self, shape, dtype=I8, low=None, high=None):
        """An input with random values; the full range of its type unless bounds are given."""
        kind = NUMPY[dtype]
        if dtype == BOOL:
            values = self.random.integers(0, 2, size=shape).astype(np.bool_)
        else:
            info = np.iinfo(kind)
            values = self.random.integers(
                info.min if low is None else low, (info.max if high is None else high) + 1, size=shape
            )
        self.data.append(values.astype(kind))
        return self.input(shape, dtype)

    def image(self, dtype=I8, batch=True, low=None, high=None, channels=None):
        n = self.pick(1, 1, 1, 2) if batch else 1
        c = channels or self.pick(*CHANNELS)
        return self.feed([n, self.between(1, 12), self.between(1, 12), c], dtype, low, high)

    def scaled(self, x, dtype, low=1e-3, high=2.0, channels=None, zero_in=0, zero_out=None, double=False):
        """RESCALE with a random scale, per channel when `channels` is given."""
        if zero_out is None:
            zero_out = self.between(-20, 20) if dtype == I8 else 0
        scales = np.exp(self.random.uniform(np.log(low), np.log(high), size=channels or 1)).tolist()
        return self.rescale2(x, dtype, scales, zero_in, zero_out, double)

    def rescale2(self, x, dtype, scales, zero_in=0, zero_out=0, double=False):
        mantissa, exponent = np.frexp(np.asarray(scales, np.float64))
        values = np.round(mantissa * (1 << 31)).astype(np.int64)
        over = values == 1 << 31
        values[over] //= 2
        shifts = 31 - (exponent + over)
        wide = x.dtype == I48
        if wide:
            values, shifts = np.minimum(values >> 16, 32767), shifts - 16
        inputs = [
            x,
            self.const([len(scales)], I16 if wide else I32, values.tolist()),
            self.const([len(scales)], I8, shifts.tolist()),
            self.const([1], x.dtype, [zero_in]),
            self.const([1], dtype, [zero_out]),
        ]
        mode = ts.RoundingMode.DOUBLE_ROUND if double and not wide else ts.RoundingMode.SINGLE_ROUND
        return self.op(
            ts.Op.RESCALE, inputs, x.shape, dtype, "RescaleAttribute", not wide, mode, len(scales) > 1, False, False
        )

    def random_weights(self, shape):
        kind = self.between(0, 4)
        if kind == 0:
            values = self.random.integers(-127, 128, size=shape)
        elif kind == 1:
            values = np.clip(np.round(self.random.normal(0, 20, size=shape)), -127, 127)
        elif kind == 2:
            values = self.random.integers(-127, 128, size=shape) * (self.random.random(size=shape) < 0.2)
        elif kind == 3:
            values = self.random.choice(self.random.integers(-127, 128, size=5), size=shape)
        else:
            values = self.random.integers(-2, 3, size=shape)
        if self.chance(0.15) and shape[-1] % 4 == 0:  # two of four zero: the U85 has a mode for it
            keep = np.argsort(self.random.random(size=[*shape[:-1], shape[-1] // 4, 4]), axis=-1) < 2
            values = values * keep.reshape(shape)
        return self.const(shape, I8, values.astype(np.int8))

    def window(self, size, kernel, stride, dilation, pad):
        """(output size, padding, stride): the window fits exactly, as TOSA asks, and none is in padding alone."""
        reach = (kernel - 1) * dilation + 1
        near, far = pad
        while size + near + far < reach:
            near, far = (near + 1, far) if near < far else (near, far + 1)
        rest = (size + near + far - reach) % stride
        if rest and far >= rest:
            far -= rest
        elif rest and far + stride - rest < reach:
            far += stride - rest
        elif rest:
            stride = 1
        return (size + near + far - reach) // stride + 1, [near, far], stride

    def conv2(self, x, kind, channels=None):
        n, h, w, c = x.shape
        depthwise = kind == "depthwise"
        kernel = [self.pick(1, 1, 2, 3, 3, 5, 7), self.pick(1, 1, 2, 3, 3, 5, 7)]
        if self.chance(0.3):
            kernel = [1, 1]
        stride = [self.pick(1, 1, 1, 2, 3), self.pick(1, 1, 1, 2, 3)]
        dilation = [self.pick(1, 1, 1, 2), self.pick(1, 1, 1, 2)]
        pads = [
            (self.between(0, (k - 1) * d), self.between(0, (k - 1) * d)) if self.chance(0.6) else (0, 0)
            for k, d in zip(kernel, dilation)
        ]
        oh, ph, stride[0] = self.window(h, kernel[0], stride[0], dilation[0], pads[0])
        ow, pw, stride[1] = self.window(w, kernel[1], stride[1], dilation[1], pads[1])
        accumulator = I48 if x.dtype == I16 else I32
        zero = self.between(-128, 127) if x.dtype == I8 else 0
        out = c if depthwise else channels or self.pick(*CHANNELS)
        weights = self.random_weights([kernel[0], kernel[1], c, 1] if depthwise else [out, kernel[0], kernel[1], c])
        bias = self.const([out], accumulator, self.random.integers(-5000, 5000, size=[out]).tolist())
        return self.op(
            ts.Op.DEPTHWISE_CONV2D if depthwise else ts.Op.CONV2D,
            [x, weights, bias, self.const([1], x.dtype, [zero]), self.zero()],
            [n, oh, ow, out],
            accumulator,
            "DepthwiseConv2dAttribute" if depthwise else "Conv2dAttribute",
            ph + pw,
            stride,
            dilation,
            False,
            accumulator,
        )

    def conv_out(self, y, dtype):
        channels = y.shape[3] if self.chance(0.7) and y.shape[3] > 1 else None
        return self.scaled(y, dtype, 1e-4, 1e-2, channels, double=self.chance(0.15))

    def pool(self, x, average):
        n, h, w, c = x.shape
        kernel = [self.between(1, min(5, h + 1)), self.between(1, min(5, w + 1))]
        stride = [self.pick(1, 2, 3), self.pick(1, 2, 3)]
        pads = [(self.between(0, k - 1), self.between(0, k - 1)) if self.chance(0.5) else (0, 0) for k in kernel]
        oh, ph, stride[0] = self.window(h, kernel[0], stride[0], 1, pads[0])
        ow, pw, stride[1] = self.window(w, kernel[1], stride[1], 1, pads[1])
        pad = [min(p, k - 1) for p, k in zip(ph + pw, [kernel[0]] * 2 + [kernel[1]] * 2)]
        if pad != ph + pw:  # a pad as large as the kernel is not allowed: take a 1 x 1 kernel instead
            kernel, stride, pad, oh, ow = [1, 1], [1, 1], [0] * 4, h, w
        if average:
            zero = self.between(-128, 127) if x.dtype == I8 else 0
            zeros = [
                self.const([1], x.dtype, [zero]),
                self.const([1], x.dtype, [self.pick(zero, 0) if x.dtype == I8 else 0]),
            ]
            return self.op(
                ts.Op.AVG_POOL2D, [x, *zeros], [n, oh, ow, c], x.dtype, "AvgPool2dAttribute", kernel, stride, pad, I32
            )
        return self.op(
            ts.Op.MAX_POOL2D, [x], [n, oh, ow, c], x.dtype, "MaxPool2dAttribute", kernel, stride, pad, PROPAGATE
        )

    def pool_same(self, x):
        return self.op(
            ts.Op.MAX_POOL2D, [x], x.shape, x.dtype, "MaxPool2dAttribute", [3, 3], [1, 1], [1] * 4, PROPAGATE
        )

    def partner(self, x, dtype, low=None, high=None, constant=None):
        """A second operand: same shape, broadcast along some axes, or a scalar; an input or a constant."""
        shape = list(x.shape)
        kind = self.between(0, 4)
        if kind == 1:
            shape = [1] * len(shape)
        elif kind >= 3:
            shape = [1 if self.chance(0.4) else s for s in shape]
        if self.chance(0.4) if constant is None else constant:
            info = np.iinfo(NUMPY[dtype])
            values = self.random.integers(
                info.min if low is None else low, (info.max if high is None else high) + 1, size=shape
            )
            return self.const(shape, dtype, values.astype(NUMPY[dtype]))
        return self.feed(shape, dtype, low, high)

    def binary(self, op, attribute, a, b, dtype, *arguments):
        shape = [max(p, q) for p, q in zip(a.shape, b.shape)]
        return self.op(op, [a, b], shape, dtype, attribute, *arguments)

    def mul(self, a, b, shift=0):
        shape = [max(p, q) for p, q in zip(a.shape, b.shape)]
        return self.op(ts.Op.MUL, [a, b, self.const([1], I8, [shift])], shape, I32, "MulAttribute")

    def table16(self, x):
        values = self.const([513], I16, np.sort(self.random.integers(-20000, 20000, size=[513])).astype(np.int16))
        return self.op(ts.Op.TABLE, [x, values], x.shape, I32, "TableAttribute")
