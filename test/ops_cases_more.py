"""The second half of ops_cases.py: reductions, composites, data movement, types, quantization and control flow."""

import torch
import torch.nn.functional as F
from ops_cases import CASES, add, add_graph, bools, first, integers, last, normal, type_text, uniform


def reductions():
    layouts = [((), []), ((17,), [0]), ((3, 4), [1]), ((3, 4), [0]), ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [0, 1, 2]),
               ((2, 3, 4, 5), [2, 3]), ((2, 3, 2, 2, 3, 2), [1, 3, 5]), ((64, 1000), [1]), ((500, 70), [0])]
    kinds = {
        "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin,
        "var": lambda x, dim, keepdim: torch.var(x, dim, correction=1, keepdim=keepdim),
    }
    for op, compute in kinds.items():
        for shape, axes in layouts:
            if not axes or (op == "var" and not axes):
                continue
            for keepdim in (False, True):
                extra = dict(correction=1.0) if op == "var" else {}
                add(f"{op}_{shape}_{axes}_{keepdim}".replace(" ", ""), op, [normal(*shape)],
                    lambda x, c=compute, a=axes, k=keepdim: c(x, dim=a, keepdim=k), axes=axes, keepdim=keepdim, **extra)
    add("sum_of_nothing", "sum", [normal(3, 0)], lambda x: x.sum(1), axes=[1], keepdim=False)
    add("var_population", "var", [normal(3, 9)], lambda x: torch.var(x, 1, correction=0), axes=[1], keepdim=False, correction=0.0)
    add("var_of_one", "var", [normal(3, 1)], lambda x: torch.var(x, 1, correction=1), axes=[1], keepdim=False, correction=1.0)  # nan
    add("var_of_one_population", "var", [normal(3, 1)], lambda x: torch.var(x, 1, correction=0), axes=[1], keepdim=False, correction=0.0)
    add("var_offset", "var", [normal(3, 999) + 1000], lambda x: torch.var(x.double(), 1).float(), axes=[1], keepdim=False,
        correction=1.0, rtol=1e-4)
    add("sum_integers", "sum", [integers(-9, 9, 3, 4)], lambda x: x.sum(1), axes=[1], keepdim=False)
    add("sum_int32", "sum", [integers(-9, 9, 3, 4, dtype=torch.int32)], lambda x: x.sum(1), axes=[1], keepdim=False)
    add("sum_bools", "sum", [bools(3, 4)], lambda x: x.sum(0), axes=[0], keepdim=False)
    add("amax_integers", "amax", [integers(-9, 9, 3, 4)], lambda x: x.amax(1), axes=[1], keepdim=False)
    add("amax_nan", "amax", [torch.tensor([[1.0, float("nan"), 2.0], [3.0, 4.0, 5.0]])], lambda x: x.amax(1), axes=[1], keepdim=False)
    add("amin_infinite", "amin", [torch.full((2, 3), float("inf"))], lambda x: x.amin(1), axes=[1], keepdim=False)
    add("prod", "prod", [normal(3, 7)], lambda x: x.prod(1), axes=[1], keepdim=False)
    add("prod_keepdim", "prod", [normal(3, 7)], lambda x: x.prod(0, keepdim=True), axes=[0], keepdim=True)
    add("prod_integers", "prod", [integers(1, 5, 3, 7)], lambda x: x.prod(1), axes=[1], keepdim=False)
    for op, compute in (("any", torch.any), ("all", torch.all)):
        add(f"{op}_bools", op, [bools(5, 3)], lambda x, c=compute: c(x, 1), axes=[1], keepdim=False)
        add(f"{op}_floats", op, [integers(0, 2, 5, 3).float()], lambda x, c=compute: c(x, 0, keepdim=True), axes=[0], keepdim=True)
    for op, compute in (("argmax", torch.argmax), ("argmin", torch.argmin)):
        for shape, axis in (((17,), 0), ((3, 4, 5), 1), ((3, 4, 5), 2), ((3, 4, 5), 0)):
            add(f"{op}_{shape}_{axis}".replace(" ", ""), op, [normal(*shape)], lambda x, c=compute, a=axis: c(x, a), axis=axis, keepdim=False)
        add(f"{op}_keepdim", op, [normal(3, 4)], lambda x, c=compute: c(x, 1, keepdim=True), axis=1, keepdim=True)
        add(f"{op}_ties", op, [torch.tensor([[1.0, 3.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0]])], lambda x, c=compute: c(x, 1), axis=1, keepdim=False)
    for shape, axis in (((9,), 0), ((3, 4, 5), 1), ((3, 400), 1), ((300, 3), 0)):
        add(f"cumsum_{shape}_{axis}".replace(" ", ""), "cumsum", [normal(*shape)], lambda x, a=axis: x.cumsum(a), axis=axis)
    add("cumsum_integers", "cumsum", [integers(-9, 9, 3, 4)], lambda x: x.cumsum(1), axis=1)


def composites():
    for shape, axis in (((17,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), 3), ((5, 1500), 1), ((1, 1), 1)):
        add(f"softmax_{shape}_{axis}".replace(" ", ""), "softmax", [normal(*shape) * 5], lambda x, a=axis: x.softmax(a), axis=axis)
        add(f"log_softmax_{shape}_{axis}".replace(" ", ""), "log_softmax", [normal(*shape) * 5], lambda x, a=axis: x.log_softmax(a), axis=axis)
    add("softmax_large_values", "softmax", [torch.tensor([[1e4, 1e4 - 1, -1e4], [-3e38, 0.0, float("-inf")]])], lambda x: x.softmax(1), axis=1)
    for shape, axis in (((3, 17), 1), ((2, 5, 384), 2), ((2, 3, 4, 5), 2), ((16,), 0)):
        dims = shape[axis:]
        name = f"{shape}_{axis}".replace(" ", "")
        add(f"layer_norm_{name}", "layer_norm", [normal(*shape) * 3 + 2, normal(*dims), normal(*dims)],
            lambda x, w, b, d=dims: F.layer_norm(x, d, w, b, 1e-5), axis=axis, eps=1e-5)
        add(f"layer_norm_plain_{name}", "layer_norm", [normal(*shape), None, None], lambda x, d=dims: F.layer_norm(x, d, eps=1e-5),
            axis=axis, eps=1e-5)
        add(f"rms_norm_{name}", "rms_norm", [normal(*shape), normal(*dims)], lambda x, w, d=dims: F.rms_norm(x, d, w, 1e-6), axis=axis, eps=1e-6)
    add("layer_norm_no_bias", "layer_norm", [normal(3, 8), normal(8), None], lambda x, w: F.layer_norm(x, (8,), w), axis=1, eps=1e-5)
    for shape, groups in (((2, 6, 5), 2), ((2, 6, 4, 5), 6), ((1, 6, 4, 5), 1), ((3, 4), 2)):
        x, w, b = normal(*shape), normal(shape[1]), normal(shape[1])
        name = f"{shape}_{groups}".replace(" ", "")
        add(f"group_norm_{name}", "group_norm", [x, w, b], lambda x, w, b, g=groups: F.group_norm(x, g, w, b), groups=groups, eps=1e-5)
    add("group_norm_plain", "group_norm", [normal(2, 6, 5), None, None], lambda x: F.group_norm(x, 3), groups=3, eps=1e-5)
    add("group_norm_channels_last", "group_norm", [normal(2, 5, 4, 6), normal(6), normal(6)],
        lambda x, w, b: last(F.group_norm(first(x), 3, w, b)), groups=3, eps=1e-5, channels_last=True)
    for shape in ((2, 6), (2, 6, 5), (2, 6, 4, 5), (1, 6, 2, 3, 4)):
        stats = [normal(6), normal(6), normal(6), uniform(0.1, 3, 6)]
        add(f"batch_norm_{shape}".replace(" ", ""), "batch_norm", [normal(*shape), *stats],
            lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=1e-3), eps=1e-3)
    add("batch_norm_plain", "batch_norm", [normal(2, 6, 5), None, None, normal(6), uniform(0.1, 3, 6)],
        lambda x, m, v: F.batch_norm(x, m, v, eps=1e-5), eps=1e-5)
    sdpa = F.scaled_dot_product_attention
    q, k, v = normal(2, 3, 5, 16), normal(2, 3, 7, 16), normal(2, 3, 7, 9)
    add("attention", "attention", [q, k, v], lambda q, k, v: sdpa(q, k, v, scale=0.25), scale=0.25)
    add("attention_rank2", "attention", [q[0, 0], k[0, 0], v[0, 0]], lambda q, k, v: sdpa(q, k, v, scale=0.3), scale=0.3)
    add("attention_float_mask", "attention", [q, k, v, normal(5, 7)], lambda q, k, v, m: sdpa(q, k, v, m, scale=0.25), scale=0.25)
    add("attention_bool_mask", "attention", [q, k, v, bools(2, 1, 5, 7)], lambda q, k, v, m: sdpa(q, k, v, m, scale=0.25), scale=0.25)
    add("attention_masked_row", "attention", [q, k, v, torch.zeros(5, 7, dtype=torch.bool)],
        lambda q, k, v, m: sdpa(q, k, v, m, scale=0.25), scale=0.25)
    add("attention_causal", "attention", [q, k, v], lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.25), scale=0.25, causal=True)
    add("attention_long", "attention", [normal(2, 150, 64), normal(2, 150, 64), normal(2, 150, 64)],
        lambda q, k, v: sdpa(q, k, v, scale=0.125), scale=0.125)


def movement():
    x = normal(2, 3, 4, 5)
    for shape in ((120,), (6, 20), (2, 3, 20), (1, 2, 1, 60), (2, 3, 2, 2, 5, 1)):
        add(f"reshape_{shape}".replace(" ", ""), "reshape", [x], lambda x, s=shape: x.reshape(s), shape=list(shape))
    for perm in ((0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 3, 2), (2, 3, 0, 1)):
        add(f"transpose_{perm}".replace(" ", ""), "transpose", [x], lambda x, p=perm: x.permute(p).contiguous(), perm=list(perm))
    big = normal(3, 70, 90)
    for perm in ((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)):
        add(f"transpose_big_{perm}".replace(" ", ""), "transpose", [big], lambda x, p=perm: x.permute(p).contiguous(), perm=list(perm))
    add("transpose_rank6", "transpose", [normal(2, 3, 2, 4, 3, 2)], lambda x: x.permute(5, 0, 3, 1, 4, 2).contiguous(), perm=[5, 0, 3, 1, 4, 2])
    add("transpose_bools", "transpose", [bools(9, 10)], lambda x: x.t().contiguous(), perm=[1, 0])
    add("transpose_integers", "transpose", [integers(0, 9, 9, 10)], lambda x: x.t().contiguous(), perm=[1, 0])
    add("transpose_empty", "transpose", [normal(0, 3)], lambda x: x.t().contiguous(), perm=[1, 0])
    for axis in range(3):
        shapes = [[2, 3, 4] for _ in range(3)]
        for size, shape in zip((1, 5, 2), shapes):
            shape[axis] = size
        add(f"concat_{axis}", "concat", [normal(*s) for s in shapes], lambda *xs, a=axis: torch.cat(xs, a), axis=axis)
    add("concat_integers", "concat", [integers(0, 9, 2, 3), integers(0, 9, 2, 1)], lambda *xs: torch.cat(xs, 1), axis=1)
    add("concat_mixed", "concat", [integers(0, 9, 2, 3), normal(2, 1)], lambda *xs: torch.cat(xs, 1), axis=1)
    for axis, start, end, step in ((0, 0, 1, 1), (1, 1, 3, 1), (2, 0, 4, 2), (3, 1, 5, 3), (3, 2, 2, 1)):
        index = tuple([slice(None)] * axis + [slice(start, end, step)])
        add(f"slice_{axis}_{start}_{end}_{step}", "slice", [x], lambda x, i=index: x[i].contiguous(), axis=axis, start=start, end=end, step=step)
    add("pad_constant", "pad", [x], lambda x: F.pad(x, (1, 2, 0, 3, 1, 0, 0, 1), value=1.5), padding=[0, 1, 1, 0, 0, 3, 1, 2], mode="constant", value=1.5)
    add("pad_negative", "pad", [x], lambda x: F.pad(x, (-1, 2, 1, -2)), padding=[0, 0, 0, 0, 1, -2, -1, 2], mode="constant", value=0.0)
    add("pad_integers", "pad", [integers(0, 9, 3)], lambda x: F.pad(x, (1, 2), value=7), padding=[1, 2], mode="constant", value=7.0)
    for mode in ("reflect", "replicate", "circular"):
        add(f"pad_{mode}", "pad", [x], lambda x, m=mode: F.pad(x, (2, 1, 3, 0), mode=m), padding=[0, 0, 0, 0, 3, 0, 2, 1], mode=mode,
            value=0.0)
    add("expand", "expand", [normal(3, 1, 4, 1)], lambda x: x.expand(3, 5, 4, 2).contiguous(), shape=[3, 5, 4, 2])
    add("expand_scalar", "expand", [normal(1)], lambda x: x.expand(7).contiguous(), shape=[7])
    add("repeat", "repeat", [normal(2, 3)], lambda x: x.repeat(3, 2), multiples=[3, 2])
    add("repeat_rank4", "repeat", [normal(1, 2, 3, 1)], lambda x: x.repeat(2, 1, 2, 4), multiples=[2, 1, 2, 4])
    for axes in ([0], [2], [0, 2], [0, 1, 2]):
        add(f"flip_{axes}".replace(" ", ""), "flip", [normal(2, 3, 4)], lambda x, a=axes: x.flip(a), axes=axes)
    for axis in range(3):
        y = normal(4, 5, 6)
        add(f"gather_{axis}", "gather", [y, integers(0, 4, 7)], lambda x, i, a=axis: x.index_select(a, i), axis=axis)
        index = integers(0, 4, 3, 4, 5)
        add(f"gather_elements_{axis}", "gather_elements", [y, index], lambda x, i, a=axis: x.gather(a, i), axis=axis)
        # distinct targets along the axis, so that the order of writing does not matter
        order = torch.argsort(normal(4, 4, 4), dim=axis)
        add(f"scatter_elements_{axis}", "scatter_elements", [normal(4, 4, 4), order, normal(5, 4, 4)],
            lambda x, i, s, a=axis: x.scatter(a, i, s), axis=axis)
    add("gather_matrix", "gather", [normal(9, 5), integers(0, 9, 2, 3)], lambda x, i: F.embedding(i, x), axis=0)
    add("gather_scalar", "gather", [normal(9, 5), integers(0, 9)], lambda x, i: x[i], axis=0)
    add("gather_int32", "gather", [normal(9, 5), integers(0, 9, 4, dtype=torch.int32)], lambda x, i: x.index_select(0, i), axis=0)
    add("gather_negative", "gather", [normal(9, 5), integers(-9, 0, 4)], lambda x, i: x[i], axis=0)


def types():
    x = uniform(-100, 100, 50)
    for to in (torch.float16, torch.int32, torch.int64, torch.int8, torch.bool, torch.float64):
        add(f"cast_float_to_{to}".replace("torch.", ""), "cast", [x], lambda v, t=to: v.to(t), dtype=to)
    for to in (torch.float32, torch.int8, torch.uint8, torch.int16, torch.bool):
        add(f"cast_integers_to_{to}".replace("torch.", ""), "cast", [integers(-70000, 70000, 50)], lambda v, t=to: v.to(t), dtype=to)
    add("cast_bools", "cast", [bools(9)], lambda v: v.float(), dtype=torch.float32)
    tiny = torch.tensor([6e-8, 3e-8, 2e-8, 1e-5, 65504.0, 65519.0, 65520.0, -1e9, 0.1])
    add("cast_half_edges", "cast", [tiny], lambda v: v.half(), dtype=torch.float16)


def fake(x, scale, zero, low, high):
    """quantized_decomposed's quantize_per_tensor and dequantize_per_tensor."""
    q = torch.clamp(torch.round(x * (1.0 / scale)) + zero, low, high)
    return (q - zero) * scale


def quantization():
    x = normal(3, 40) * 2
    for dtype, scale, zero, low, high in (("i8", 0.0234375, -7, -128, 127), ("i8", 0.017, 0, -127, 127), ("u8", 0.031, 120, 0, 255),
                                          ("i16", 0.00031, 0, -32768, 32767), ("i32", 1.1e-5, 0, -2147483648, 2147483647)):
        extent = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "i32": (-2147483648, 2147483647)}[dtype]
        limits = "" if (low, high) == extent else f", {low}..{high}"
        scale = float(torch.tensor(scale))
        text = f'graph "g" (%x: f32[3,40])\n  %q = quantize %x : {dtype}[3,40] q({scale!r}, {zero}{limits})\n' \
               f"  %y = dequantize %q : f32[3,40]\n  return %y\n"
        add_graph(f"quantize_{dtype}_{zero}", text, [x], [fake(x, scale, zero, low, high)], 0)
    scales = torch.tensor([0.01, 0.02, 0.05])
    text = f'graph "g" (%x: f32[3,40])\n  %q = quantize %x : i8[3,40] q(axis=0, [{",".join(repr(float(s)) for s in scales)}], [0,3,-5])\n' \
           "  %y = dequantize %q : f32[3,40]\n  return %y\n"
    rows = [fake(x[i], float(s), z, -128, 127) for i, (s, z) in enumerate(zip(scales, (0, 3, -5)))]
    add_graph("quantize_per_channel", text, [x], [torch.stack(rows)], 0)
    ties = (torch.arange(-20, 20).float() + 0.5) * 0.25
    text = 'graph "g" (%x: f32[40])\n  %q = quantize %x : i8[40] q(0.25, 1)\n  %y = dequantize %q : f32[40]\n  return %y\n'
    add_graph("quantize_ties", text, [ties], [fake(ties, 0.25, 1, -128, 127)], 0)
    w = integers(-127, 128, 4, 3, dtype=torch.int8)
    text = 'graph "g" (%x: f32[2,3])\n  %w = const i8[4,3] q(axis=0, [0.5,0.25,0.125,1.0], [0,0,0,0], -127..127) = ' \
           f'x"{w.numpy().tobytes().hex()}"\n  %y = linear %x, %w, _ : f32[2,4]\n  return %y\n'
    x = normal(2, 3)
    add_graph("quantized_weights", text, [x], [F.linear(x, w.float() * torch.tensor([0.5, 0.25, 0.125, 1.0])[:, None])])
    text = 'graph "g" (%a: i8[2,3] q(0.125, 3), %w: f32[3,2])\n  %t = transpose %a perm=[1,0] : i8[3,2] q(0.125, 3)\n' \
           "  %y = mul %t, %w : f32[3,2]\n  return %y\n"
    a, w = normal(2, 3), normal(3, 2)
    add_graph("movement_carries_quantization", text, [a, w], [fake(a, 0.125, 3, -128, 127).t() * w])


def control():
    body = 'graph "{0}" (%a: f32[3])\n      %r = {1} %a, %a : f32[3]\n      return %r\n'
    text = 'graph "g" (%p: bool[], %x: f32[3])\n  %y = cond %p, %x : f32[3] {\n    ' + body.format("then", "add") + "  } {\n    " + \
           body.format("else", "mul") + "  }\n  return %y\n"
    x = normal(3)
    for yes in (True, False):
        add_graph(f"cond_{yes}", text, [torch.tensor(yes), x], [x + x if yes else x * x])
    text = '''graph "g" (%i: i64[], %x: f32[2], %limit: i64[], %one: i64[])
  %n, %y = while %i, %x, %limit, %one carried=2 : i64[], f32[2] {
    graph "condition" (%a: i64[], %b: f32[2], %c: i64[], %d: i64[])
      %r = compare %a, %c fn="lt" : bool[]
      return %r
  } {
    graph "body" (%a: i64[], %b: f32[2], %c: i64[], %d: i64[])
      %e = add %a, %d : i64[]
      %f = add %b, %b : f32[2]
      return %e, %f
  }
  return %n, %y
'''
    x = normal(2)
    add_graph("while", text, [torch.tensor(0), x, torch.tensor(5), torch.tensor(1)], [torch.tensor(5), x * 32])
    text = '''graph "g" (%x: f32[4,3], %w: f32[3])
  %y = map %x, %w carried=1 : f32[4,3] {
    graph "body" (%a: f32[3], %b: f32[3])
      %r = mul %a, %b : f32[3]
      return %r
  }
  return %y
'''
    x, w = normal(4, 3), normal(3)
    add_graph("map", text, [x, w], [x * w])
    text = '''graph "g" (%s: f32[3], %x: f32[5,3], %w: f32[3])
  %last, %all = scan %s, %x, %w carried=1 scanned=1 : f32[3], f32[5,3] {
    graph "body" (%c: f32[3], %v: f32[3], %b: f32[3])
      %m = mul %v, %b : f32[3]
      %t = add %c, %m : f32[3]
      return %t, %t
  }
  return %last, %all
'''
    s, x, w = normal(3), normal(5, 3), normal(3)
    sums = s + torch.cumsum(x * w, 0)
    add_graph("scan", text, [s, x, w], [sums[-1], sums])


def more():
    for family in (reductions, composites, movement, types, quantization, control):
        family()
    return CASES, type_text
