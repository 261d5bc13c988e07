"""Single operators with their inputs and the PyTorch computation that defines them; test_ops.py runs both."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

CASES = {}
rng = np.random.default_rng(7)
DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32",
          torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}


def normal(*shape):
    return torch.from_numpy(np.asarray(rng.standard_normal(shape), dtype=np.float32))


def uniform(low, high, *shape):
    return torch.from_numpy(np.asarray(rng.uniform(low, high, shape), dtype=np.float32))


def integers(low, high, *shape, dtype=torch.int64):
    return torch.from_numpy(np.asarray(rng.integers(low, high, shape))).to(dtype)


def bools(*shape):
    return torch.from_numpy(np.asarray(rng.integers(0, 2, shape), dtype=bool))


def type_text(tensor):
    return f"{DTYPES[tensor.dtype]}[{','.join(map(str, tensor.shape))}]"


def attr_text(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], float):
        return f"d[{','.join(map(repr, value))}]"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(str, value))}]"
    return str(value)


def add(name, op, inputs, compute, rtol=1e-5, **attrs):
    """`inputs` may hold None for an absent operand; `compute` gets the others."""
    assert name not in CASES, name
    present = [x for x in inputs if x is not None]
    result = compute(*present)
    operands, index = [], 0
    for x in inputs:
        operands.append("_" if x is None else f"%x{index}")
        index += x is not None
    parameters = ", ".join(f"%x{i}: {type_text(x)}" for i, x in enumerate(present))
    attributes = "".join(f" {key}={attr_text(value)}" for key, value in sorted(attrs.items()))
    text = f'graph "g" ({parameters})\n  %y = {op} {", ".join(operands)}{attributes} : {type_text(result)}\n  return %y\n'
    CASES[name] = (text, present, [result], rtol)


def add_graph(name, text, inputs, results, rtol=1e-5):
    assert name not in CASES, name
    CASES[name] = (text, inputs, results, rtol)


def last(x):  # [N,C,s...] -> [N,s...,C]
    return x.movedim(1, -1).contiguous()


def first(x):
    return x.movedim(-1, 1).contiguous()


CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def pairs(padding):
    return [p for pad in padding for p in (pad, pad)]


def conv(name, x, w, bias=True, stride=None, padding=None, dilation=None, groups=1, clamp=False):
    dims = len(x) - 2
    stride, padding, dilation = stride or [1] * dims, padding or [0] * dims, dilation or [1] * dims
    x, w, b = normal(*x), normal(*w), normal(w[0]) if bias else None
    attrs = dict(stride=stride, padding=pairs(padding), dilation=dilation, groups=groups)

    def compute(x, w, b=None):
        y = CONVS[dims](x, w, b, stride, padding, dilation, groups)
        return y.clamp(0, 1.5) if clamp else y

    if clamp:
        attrs |= dict(act_min=0.0, act_max=1.5)
    add(f"conv_{name}", "conv", [x, w, b], compute, **attrs)
    add(f"conv_{name}_last", "conv", [last(x), last(w), b],
        lambda x, w, b=None: last(compute(first(x), first(w), b)), channels_last=True, **attrs)


def convs():
    for c in (1, 3, 15, 16, 17):
        conv(f"channels{c}", (1, c, 7, 9), (c + 1, c, 3, 3), padding=[1, 1])
    for k, s, p, d in itertools.product((1, 2, 3), (1, 2, 3, 4), (0, 1), (1, 2)):
        conv(f"k{k}s{s}p{p}d{d}", (1, 3, 11, 13), (5, 3, k, k), stride=[s, s], padding=[p, p], dilation=[d, d])
    conv("batch", (3, 4, 8, 8), (6, 4, 3, 3), padding=[1, 1])
    conv("no_bias", (1, 4, 8, 8), (6, 4, 3, 3), bias=False)
    conv("clamped", (1, 4, 8, 8), (6, 4, 3, 3), clamp=True)
    conv("uneven", (2, 5, 9, 14), (7, 5, 2, 5), stride=[2, 3], padding=[1, 2], dilation=[3, 1])
    conv("depthwise", (2, 17, 9, 10), (17, 1, 3, 3), padding=[1, 1], groups=17)
    conv("depthwise_stride2", (1, 16, 9, 10), (16, 1, 3, 5), stride=[2, 2], padding=[1, 2], groups=16)
    conv("depthwise_multiplier", (1, 6, 9, 10), (18, 1, 3, 3), groups=6)
    conv("groups2", (1, 8, 9, 10), (6, 4, 3, 3), groups=2)
    conv("groups4", (2, 8, 9, 10), (12, 2, 3, 3), stride=[3, 1], groups=4)
    conv("deep", (1, 100, 20, 20), (70, 100, 3, 3), padding=[1, 1])
    conv("wide", (1, 3, 64, 64), (32, 3, 7, 7), stride=[2, 2], padding=[3, 3])
    conv("1d", (2, 5, 31), (8, 5, 4), stride=[3], padding=[2])
    conv("1d_dilated", (1, 5, 31), (8, 5, 3), padding=[2], dilation=[2])
    conv("3d", (1, 3, 5, 6, 7), (4, 3, 3, 2, 3), stride=[2, 1, 1], padding=[1, 0, 1])
    conv("3d_depthwise", (1, 3, 5, 6, 7), (3, 1, 3, 2, 3), groups=3)
    x, w = normal(1, 3, 8, 8), normal(4, 3, 3, 3)
    add("conv_asymmetric", "conv", [x, w], lambda x, w: F.conv2d(F.pad(x, (0, 1, 2, 0)), w, stride=2), stride=[2, 2],
        padding=[2, 0, 0, 1], dilation=[1, 1], groups=1)


def conv_transposes():
    def one(name, x, w, stride, padding, output_padding, dilation, groups, bias=True):
        dims = len(x) - 2
        x, w = normal(*x), normal(*w)
        b = normal(w.shape[1] * groups) if bias else None
        attrs = dict(stride=stride, padding=pairs(padding), output_padding=output_padding, dilation=dilation, groups=groups)

        def compute(x, w, b=None):
            return TRANSPOSED[dims](x, w, b, stride, padding, output_padding, groups, dilation)

        add(f"conv_transpose_{name}", "conv_transpose", [x, w, b], compute, **attrs)
        # [C,O/g,k...] -> [O,k...,C/g]
        c, o = w.shape[0], w.shape[1]
        grouped = w.reshape(groups, c // groups, o, *w.shape[2:])
        wl = grouped.movedim(1, -1).reshape(groups * o, *w.shape[2:], c // groups).contiguous()
        add(f"conv_transpose_{name}_last", "conv_transpose", [last(x), wl, b],
            lambda x, _, b=None: last(compute(first(x), w, b)), channels_last=True, **attrs)

    for k, s, p in itertools.product((1, 2, 3, 4), (1, 2, 3), (0, 1)):
        if k > 2 * p:
            one(f"k{k}s{s}p{p}", (1, 5, 6, 7), (5, 4, k, k), [s, s], [p, p], [0, 0], [1, 1], 1)
    one("output_padding", (2, 3, 5, 5), (3, 4, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], 1)
    one("dilated", (1, 3, 5, 5), (3, 4, 3, 3), [2, 1], [1, 0], [1, 0], [2, 2], 1)
    one("groups", (1, 6, 5, 5), (6, 2, 3, 3), [2, 2], [0, 0], [0, 0], [1, 1], 3, bias=False)
    one("depthwise", (1, 6, 5, 5), (6, 1, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1], 6)
    one("1d", (2, 3, 9), (3, 5, 4), [3], [1], [2], [1], 1)
    one("3d", (1, 2, 3, 4, 3), (2, 3, 2, 3, 2), [2, 1, 2], [0, 1, 0], [0, 0, 1], [1, 1, 1], 1)


def products():
    for name, x, out in (("vector", (7,), 5), ("rank2", (1, 17), 16), ("rank3", (2, 5, 33), 15), ("rank5", (2, 1, 3, 2, 4), 3),
                         ("big", (130, 300), 257), ("deep", (3, 1000), 2), ("empty", (0, 4), 3)):
        add(f"linear_{name}", "linear", [normal(*x), normal(out, x[-1]), normal(out)], F.linear)
    add("linear_no_bias", "linear", [normal(4, 6), normal(3, 6)], F.linear)
    add("linear_clamped", "linear", [normal(4, 6), normal(3, 6), normal(3)], lambda x, w, b: F.linear(x, w, b).relu(), act_min=0.0)
    for a, b in (((1, 1), (1, 1)), ((15, 16), (16, 17)), ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
                 ((2, 1, 3, 4), (1, 5, 4, 6)), ((6, 70, 64), (6, 64, 70)), ((300, 2, 3), (300, 3, 2)), ((2, 0), (0, 3)),
                 ((1, 2, 1, 3, 2, 4), (2, 1, 2, 1, 4, 3)), ((13, 700), (700, 31))):
        add(f"matmul_{a}_{b}".replace(" ", ""), "matmul", [normal(*a), normal(*b)], torch.matmul)
    add("matmul_integers", "matmul", [integers(-9, 9, 3, 4), integers(-9, 9, 4, 2)], torch.matmul)


def pools():
    def one(name, op, x, compute, **attrs):
        add(f"{op}_{name}", op, [x], compute, **attrs)
        add(f"{op}_{name}_last", op, [last(x)], lambda v: last(compute(first(v))), channels_last=True, **attrs)

    for k, s, p, ceil in itertools.product((2, 3), (1, 2, 3), (0, 1), (False, True)):
        x = normal(2, 3, 10, 11)
        shape = dict(kernel=[k, k], stride=[s, s], padding=[p] * 4, ceil_mode=ceil)
        one(f"k{k}s{s}p{p}{ceil}", "max_pool", x, lambda v, k=k, s=s, p=p, c=ceil: F.max_pool2d(v, k, s, p, 1, c),
            dilation=[1, 1], **shape)
        for include in (False, True):
            one(f"k{k}s{s}p{p}{ceil}{include}", "avg_pool", x,
                lambda v, k=k, s=s, p=p, c=ceil, i=include: F.avg_pool2d(v, k, s, p, c, i), count_include_pad=include, divisor=0,
                **shape)
    one("divisor", "avg_pool", normal(1, 2, 6, 6), lambda v: F.avg_pool2d(v, 3, 2, 1, divisor_override=5), kernel=[3, 3],
        stride=[2, 2], padding=[1] * 4, ceil_mode=False, count_include_pad=True, divisor=5)
    one("dilated", "max_pool", normal(1, 2, 9, 8), lambda v: F.max_pool2d(v, 3, 1, 1, 2), kernel=[3, 3], stride=[1, 1],
        padding=[1] * 4, dilation=[2, 2], ceil_mode=False)
    one("1d", "max_pool", normal(2, 3, 17), lambda v: F.max_pool1d(v, 4, 3, 2), kernel=[4], stride=[3], padding=[2, 2],
        dilation=[1], ceil_mode=False)
    one("1d", "avg_pool", normal(2, 3, 17), lambda v: F.avg_pool1d(v, 4, 3, 2), kernel=[4], stride=[3], padding=[2, 2],
        ceil_mode=False, count_include_pad=True, divisor=0)
    one("uneven", "max_pool", normal(1, 2, 9, 12), lambda v: F.max_pool2d(v, (2, 5), (4, 3), (1, 2)), kernel=[2, 5], stride=[4, 3],
        padding=[1, 1, 2, 2], dilation=[1, 1], ceil_mode=False)
    for size in ((1, 1), (3, 2), (5, 7), (11, 13), (14, 3)):
        for op, compute in (("adaptive_avg_pool", F.adaptive_avg_pool2d), ("adaptive_max_pool", F.adaptive_max_pool2d)):
            one(f"{size[0]}x{size[1]}", op, normal(2, 3, 11, 13), lambda v, c=compute, s=size: c(v, s), size=list(size))
    one("1d", "adaptive_avg_pool", normal(2, 3, 11), lambda v: F.adaptive_avg_pool1d(v, 4), size=[4])


def resizes():
    def one(name, x, compute, **attrs):
        add(f"resize_{name}", "resize", [x], compute, **attrs)
        add(f"resize_{name}_last", "resize", [last(x)], lambda v: last(compute(first(v))), channels_last=True, **attrs)

    for size in ((1, 1), (4, 6), (10, 14), (7, 3), (15, 21), (13, 29)):
        x = normal(2, 3, 5, 7)
        name = f"{size[0]}x{size[1]}"
        one(f"nearest_{name}", x, lambda v, s=size: F.interpolate(v, s, mode="nearest"), size=list(size), mode="nearest",
            align_corners=False, scales=[0.0, 0.0])
        for align in (False, True):
            one(f"bilinear_{name}_{align}", x, lambda v, s=size, a=align: F.interpolate(v, s, mode="bilinear", align_corners=a),
                size=list(size), mode="bilinear", align_corners=align, scales=[0.0, 0.0])
    for scale in (0.6, 1.7, 2.3, 3.0):
        x = normal(1, 2, 6, 9)
        y = F.interpolate(x, scale_factor=scale, mode="nearest")
        attrs = dict(size=list(y.shape[2:]), scales=[scale, scale], align_corners=False)
        one(f"nearest_scale{scale}", x, lambda v, s=scale: F.interpolate(v, scale_factor=s, mode="nearest"), mode="nearest", **attrs)
        one(f"bilinear_scale{scale}", x, lambda v, s=scale: F.interpolate(v, scale_factor=s, mode="bilinear"), mode="bilinear",
            **attrs)
    one("nearest_1d", normal(1, 2, 6), lambda v: F.interpolate(v, 9, mode="nearest"), size=[9], mode="nearest", scales=[0.0])
    one("linear_1d", normal(1, 2, 6), lambda v: F.interpolate(v, 9, mode="linear"), size=[9], mode="bilinear", scales=[0.0])


UNARY = {
    "abs": torch.abs, "neg": torch.neg, "exp": torch.exp, "expm1": torch.expm1, "sqrt": lambda x: torch.sqrt(x.abs()),
    "square": torch.square, "sigmoid": torch.sigmoid, "log_sigmoid": F.logsigmoid, "tanh": torch.tanh, "erf": torch.erf,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish, "softsign": F.softsign,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "selu": F.selu, "tanhshrink": F.tanhshrink, "floor": torch.floor,
    "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round, "frac": torch.frac, "sign": torch.sign, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "atan": torch.atan, "asinh": torch.asinh,
    "reciprocal": torch.reciprocal,
}
POSITIVE = {"log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "rsqrt": torch.rsqrt,
            "sqrt": torch.sqrt}
INSIDE = {"asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh, "erfinv": torch.erfinv}
PARAMETERS = {
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), dict(alpha=0.2)), "elu": (lambda x: F.elu(x, 1.3), dict(alpha=1.3)),
    "celu": (lambda x: F.celu(x, 1.3), dict(alpha=1.3)), "threshold": (lambda x: F.threshold(x, 0.3, -2.0), dict(alpha=0.3, beta=-2.0)),
    "hardshrink": (lambda x: F.hardshrink(x, 0.7), dict(alpha=0.7)), "softshrink": (lambda x: F.softshrink(x, 0.7), dict(alpha=0.7)),
    "softplus": (lambda x: F.softplus(x, 1.5, 4.0), dict(alpha=1.5, beta=4.0)), "pow": (lambda x: torch.pow(x, 3.0), dict(alpha=3.0)),
    "remainder": (lambda x: torch.remainder(x, -0.7), dict(alpha=-0.7)), "fmod": (lambda x: torch.fmod(x, 0.7), dict(alpha=0.7)),
    "logit": (lambda x: torch.logit(x, 0.1), dict(alpha=0.1)),
}


def unaries():
    wide = torch.cat([uniform(-6, 6, 900), torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5])])
    extremes = torch.tensor([float("inf"), float("-inf"), float("nan"), 100.0, -100.0, 1e-20, -1e-20, 88.5, -87.5, -95.0, 1e-40])
    for fn, compute in UNARY.items():
        if fn != "sqrt":
            add(f"unary_{fn}", "unary", [wide], compute, fn=fn)
    for fn in ("exp", "sigmoid", "tanh", "erf", "round", "sign"):
        add(f"unary_{fn}_extremes", "unary", [extremes], UNARY[fn], fn=fn)
    for fn, compute in POSITIVE.items():
        add(f"unary_{fn}_positive", "unary", [uniform(1e-3, 50, 500)], compute, fn=fn)
    for fn, compute in INSIDE.items():
        add(f"unary_{fn}_inside", "unary", [uniform(-0.999, 0.999, 500)], compute, fn=fn)
    add("unary_acosh", "unary", [uniform(1.001, 30, 500)], torch.acosh, fn="acosh")
    for fn, (compute, attrs) in PARAMETERS.items():
        add(f"unary_{fn}", "unary", [uniform(0, 1, 400) if fn == "logit" else wide], compute, fn=fn, **attrs)
    add("unary_large", "unary", [normal(300, 401)], F.gelu, fn="gelu")
    for fn, compute in (("abs", torch.abs), ("neg", torch.neg), ("square", torch.square), ("sign", torch.sign)):
        add(f"unary_{fn}_integers", "unary", [integers(-50, 50, 3, 7)], compute, fn=fn)
    add("unary_exp_of_integers", "unary", [integers(-5, 5, 9)], torch.exp, fn="exp")
    add("unary_sigmoid_of_bools", "unary", [bools(9)], torch.sigmoid, fn="sigmoid")
    for low, high in ((None, 1.0), (-0.5, None), (-0.5, 0.7), (2.0, 1.0)):
        attrs = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
        add(f"clamp_{low}_{high}", "clamp", [normal(3, 50)], lambda x, a=low, b=high: torch.clamp(x, a, b), **attrs)
    add("clamp_integers", "clamp", [integers(-9, 9, 30)], lambda x: torch.clamp(x, -3, 4), min=-3.0, max=4.0)
    add("clamp_nan", "clamp", [extremes], lambda x: torch.clamp(x, -1, 1), min=-1.0, max=1.0)
    add("prelu_one", "prelu", [normal(2, 3, 4), normal(1)], F.prelu)
    add("prelu_channels", "prelu", [normal(2, 3, 4, 5), normal(3)], F.prelu)
    add("prelu_channels_last", "prelu", [normal(2, 4, 5, 3), normal(3)], lambda x, w: last(F.prelu(first(x), w)), channels_last=True)


SHAPES = [((), ()), ((1,), (17,)), ((15,), ()), ((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)),
          ((2, 1, 4, 1), (3, 1, 5)), ((2, 3, 4, 5), (1, 3, 1, 1)), ((1, 2, 1, 3, 1, 2), (2, 2, 3, 1, 2, 1)), ((0, 3), (1, 3)),
          ((200, 300), (200, 300)), ((200, 300), (300,)), ((64, 40, 40), (64, 1, 1))]
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
          "remainder": torch.remainder}


def binaries():
    for op, compute in BINARY.items():
        for a, b in SHAPES if op in ("add", "sub") else SHAPES[3:9]:
            add(f"{op}_{a}_{b}".replace(" ", ""), op, [normal(*a), normal(*b)], compute)
    add("add_clamped", "add", [normal(3, 4), normal(4)], lambda a, b: (a + b).clamp(0, 6), act_min=0.0, act_max=6.0)
    for op in ("add", "sub", "mul", "maximum", "minimum"):
        add(f"{op}_integers", op, [integers(-9, 9, 3, 4), integers(-9, 9, 4)], BINARY[op])
        add(f"{op}_mixed", op, [integers(-9, 9, 3, 4), normal(4)], BINARY[op])
    for op in ("add", "mul"):
        add(f"{op}_bools", op, [bools(9), bools(9)], BINARY[op])
        add(f"{op}_bool_and_float", op, [bools(9), normal(9)], BINARY[op])
    promotions = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.float32, torch.float64, torch.float16)
    for a, b in itertools.combinations_with_replacement(promotions, 2):
        x, y = integers(0, 9, 6).to(a), integers(0, 9, 6).to(b)
        add(f"promote_{DTYPES[a]}_{DTYPES[b]}", "add", [x, y], torch.add, rtol=2e-3)
        add(f"promote_{DTYPES[a]}_scalar_{DTYPES[b]}", "mul", [x, y[0]], torch.mul, rtol=2e-3)
    add("wraps_int8", "add", [integers(100, 127, 9, dtype=torch.int8), integers(100, 127, 9, dtype=torch.int8)], torch.add)
    add("wraps_uint8", "sub", [integers(0, 9, 9, dtype=torch.uint8), integers(100, 127, 9, dtype=torch.uint8)], torch.sub)
    divisors = torch.where(bools(40), integers(1, 7, 40), -integers(1, 7, 40))
    for mode in ("floor", "trunc"):
        add(f"div_{mode}", "div", [normal(40) * 5, normal(40)], lambda a, b, m=mode: torch.div(a, b, rounding_mode=m), mode=mode)
        add(f"div_{mode}_integers", "div", [integers(-20, 20, 40), divisors],
            lambda a, b, m=mode: torch.div(a, b, rounding_mode=m), mode=mode)
    add("div_true_integers", "div", [integers(-20, 20, 40), divisors], torch.div)
    add("div_by_zero", "div", [torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)], torch.div)
    add("remainder_integers", "remainder", [integers(-20, 20, 40), divisors], torch.remainder)
    add("pow", "pow", [uniform(0.1, 4, 40), normal(40)], torch.pow)
    add("pow_integers", "pow", [integers(-5, 5, 40), integers(0, 6, 40)], torch.pow)
    nan = torch.tensor([float("nan"), 1.0, float("nan"), 2.0])
    other = torch.tensor([1.0, float("nan"), float("nan"), 3.0])
    add("maximum_nan", "maximum", [nan, other], torch.maximum)
    add("minimum_nan", "minimum", [nan, other], torch.minimum)
    for fn in ("eq", "ne", "lt", "le", "gt", "ge"):
        add(f"compare_{fn}", "compare", [integers(0, 3, 5, 6), integers(0, 3, 6)], getattr(torch, fn), fn=fn)
        add(f"compare_{fn}_float", "compare", [integers(0, 3, 20).float(), integers(0, 3, 20)], getattr(torch, fn), fn=fn)
    for fn in ("and", "or", "xor"):
        add(f"logical_{fn}", "logical", [bools(3, 5), bools(5)], getattr(torch, f"logical_{fn}"), fn=fn)
        add(f"bitwise_{fn}", "bitwise", [integers(-99, 99, 3, 5), integers(-99, 99, 5)], getattr(torch, f"bitwise_{fn}"), fn=fn)
        add(f"bitwise_{fn}_bools", "bitwise", [bools(9), bools(9)], getattr(torch, f"bitwise_{fn}"), fn=fn)
    add("bitwise_shl", "bitwise", [integers(-99, 99, 9), integers(0, 9, 9)], torch.bitwise_left_shift, fn="shl")
    add("bitwise_shr", "bitwise", [integers(-99, 99, 9), integers(0, 9, 9)], torch.bitwise_right_shift, fn="shr")
    add("logical_not", "logical_not", [bools(3, 5)], torch.logical_not)
    add("logical_not_float", "logical_not", [integers(0, 2, 9).float()], torch.logical_not)
    add("bitwise_not", "bitwise_not", [integers(-9, 9, 9)], torch.bitwise_not)
    add("bitwise_not_bools", "bitwise_not", [bools(9)], torch.bitwise_not)
    add("where_plain", "where", [bools(3, 4), normal(3, 4), normal(3, 4)], torch.where)
    add("where_broadcast", "where", [bools(3, 1), normal(1, 4), normal(2, 1, 1)], torch.where)
    add("where_scalar", "where", [bools(2, 5), normal(2, 5), normal()], torch.where)
    add("where_integers", "where", [bools(7), integers(0, 9, 7), integers(0, 9, 7)], torch.where)


def build():
    from ops_cases_more import more

    for family in (convs, conv_transposes, products, pools, resizes, unaries, binaries):
        family()
    more()
    return CASES
