"""The pieces that tools/random_networks.py builds networks from: expressions over values of any shape.

A piece may propose what PyTorch refuses for these shapes: the caller computes it and drops it then. That keeps the
pieces short and lets odd shapes through.
"""

from __future__ import annotations

import math
import types

import torch
from torch import nn
from torch.nn import functional as F

NAMES = types.SimpleNamespace(torch=torch, nn=nn, F=F, math=math)


def shape(rng, kind):
    small = lambda: rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17])  # noqa: E731
    batch = rng.choice([1] * 8 + [2, 3])
    if kind != "real":
        return batch, rng.choice([4, 7, 12])
    rank = rng.choice([2, 2, 3, 3, 3, 4, 4, 4, 4, 5])
    if rank == 5:
        return batch, rng.choice([1, 2, 4]), *(rng.choice([2, 3, 5, 6]) for _ in range(3))
    return (batch, *(small() for _ in range(rank - 1)))


ELEMENTWISE = """torch.relu({0})|F.gelu({0})|F.gelu({0}, approximate="tanh")|F.silu({0})|torch.sigmoid({0})|torch.tanh({0})|F.hardswish({0})|F.hardsigmoid({0})|F.relu6({0})
F.leaky_relu({0}, 0.1)|F.elu({0})|F.selu({0})|F.celu({0}, 0.5)|F.mish({0})|F.softplus({0})|F.softsign({0})|F.logsigmoid({0})|F.hardtanh({0}, -0.5, 0.7)|F.tanhshrink({0})|F.softshrink({0})
torch.exp(-{0}.abs())|torch.abs({0})|-{0}|{0} ** 2|{0} ** 3|torch.sqrt({0}.abs() + 0.1)|torch.rsqrt({0}.abs() + 0.1)|torch.log({0}.abs() + 0.1)|torch.log1p({0}.abs())|torch.expm1(-{0}.abs())
torch.sin({0})|torch.cos({0})|torch.erf({0})|torch.atan({0})|torch.reciprocal({0}.abs() + 0.5)|{0}.clamp(-0.5, 0.5)|{0}.clamp(min=0.1)|1.0 - {0}|{0} * 0.3|{0} / 3.0|{0} + 2.0|2.0 / (1.0 + {0}.abs())
torch.where({0} > 0, {0}, {0} * 0.1)|torch.where({0} > 0.2, {0}, torch.zeros_like({0}))|{0}.masked_fill({0} < 0, 0.0)|{0} * ({0} > 0)|{0} - {0}.mean()|{0} / ({0}.abs().amax() + 1e-3)""".replace("\n", "|").split("|")

PAIRS = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / ({1}.abs() + 1.0)", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})", "torch.where({0} > {1}, {0}, {1})", "{0} * torch.sigmoid({1})",
         "torch.add({0}, {1}, alpha=0.5)", "torch.lerp({0}, {1}, 0.3)", "torch.hypot({0}, {1})", "({0} - {1}) ** 2"]

REDUCTIONS = ["{0}.mean({d}, keepdim={k})", "{0}.sum({d}, keepdim={k})", "{0}.amax({d}, keepdim={k})", "{0}.amin({d}, keepdim={k})", "{0}.var({d}, keepdim={k})", "{0}.std({d}, keepdim={k})",
              "{0}.norm(dim={d}, keepdim={k})", "torch.logsumexp({0}, {d}, keepdim={k})", "{0}.abs().sum({d}, keepdim={k})", "{0}.max({d}, keepdim={k})[0]"]

ALONG = ["torch.softmax({0}, {d})", "torch.log_softmax({0}, {d})", "F.normalize({0}, dim={d})", "torch.cumsum({0}, {d})", "F.softmin({0}, {d})", "{0}.flip({d})", "torch.roll({0}, 1, {d})",
         "torch.cat([{0}, {0} * 0.5], {d})", "torch.stack([{0}, -{0}], {d})", "{0}.unsqueeze({d})", "{0}.narrow({d}, 0, max(1, {0}.shape[{d}] // 2))", "{0}.chunk(2, {d})[-1]",
         "{0}.select({d}, 0)", "{0}.repeat_interleave(2, {d})", "F.glu({0}, {d})", "{0}.unbind({d})[-1]", "{0}.index_select({d}, torch.arange({0}.shape[{d}] - 1, -1, -1))", "{0}.sort({d})[0]",
         "{0} - {0}.mean({d}, keepdim=True)", "{0} / ({0}.sum({d}, keepdim=True).abs() + 1.0)", "torch.diff({0}, dim={d})"]

MOVES = ["{0}.flatten(1)", "{0}.reshape({0}.shape[0], -1, 1)", "{0}.transpose(-1, -2)", "{0}.transpose(1, -1)", "{0}.movedim(1, -1)", "{0}.reshape(-1)[None]", "{0}[..., ::2]", "{0}[..., 1:]", "{0}[:, :1]",
         "F.pad({0}, (1, 2))", "F.pad({0}, (1, 1, 0, 2), value=0.5)", "{0}.repeat(1, 2, *[1] * ({0}.ndim - 2))", "{0}.squeeze()", "{0}.tril()", "{0}.contiguous()", "{0}.expand(2, *{0}.shape[1:])",
         "F.pad({0}, (1, 1), mode='reflect')", "F.pad({0}, (2, 1), mode='replicate')", "{0}.unfold(-1, 3, 2)"]

IMAGES = ["F.max_pool2d({0}, 2)", "F.max_pool2d({0}, 3, 2, 1)", "F.avg_pool2d({0}, 2)", "F.avg_pool2d({0}, 3, 1, 1)", "F.avg_pool2d({0}, 3, 2, 1, ceil_mode=True, count_include_pad=False)",
          "F.max_pool2d({0}, 3, 2, ceil_mode=True)", "F.adaptive_avg_pool2d({0}, 1)", "F.adaptive_avg_pool2d({0}, (3, 2))", "F.adaptive_max_pool2d({0}, 2)", "{0}.mean((2, 3))", "F.pixel_unshuffle({0}, 2)",
          "F.interpolate({0}, scale_factor=2.0)", "F.interpolate({0}, scale_factor=2.0, mode='bilinear')", "F.interpolate({0}, size=(5, 7), mode='bilinear', align_corners=True)", "F.pixel_shuffle({0}, 2)",
          "F.interpolate({0}, size=(3, 4))", "F.pad({0}, (1, 1, 2, 0), mode='reflect')", "F.local_response_norm({0}, 3)", "F.unfold({0}, 3, padding=1)", "F.channel_shuffle({0}, 2)", "F.lp_pool2d({0}, 2, 2)"]


def image_layer(rng, x, name):
    c = x.shape[1]
    out = rng.choice([1, 3, 4, 8, 12, 16, 17])
    kernel = rng.choice([1, 1, 2, 3, 3, 3, 5, (1, 3), (5, 1)])
    pad, stride, dilation = rng.choice([0, 0, 1, 2, '"same"']), rng.choice([1, 1, 1, 2, 3, (2, 1)]), rng.choice([1, 1, 1, 2, 5])
    if pad == '"same"':
        stride = 1
    return rng.choice([
        f"nn.Conv2d({c}, {out}, {kernel}, {stride}, {pad}, {dilation}, bias={rng.random() < 0.7})",
        f"nn.Conv2d({c}, {out}, 3, padding=1)",
        f"nn.Conv2d({c}, {c * rng.choice([1, 1, 2])}, {kernel}, {stride}, {pad}, groups={c})",
        f"nn.Conv2d({c}, {c * 2}, 3, groups={max(1, math.gcd(c, 4))}, padding=1)",
        f"nn.ConvTranspose2d({c}, {out}, {rng.choice([2, 3, 4])}, {rng.choice([1, 2, 3])}, {rng.choice([0, 1])})",
        f"nn.Sequential(nn.Conv2d({c}, {out}, 3, padding=1, bias=False), nn.BatchNorm2d({out}), nn.{rng.choice(['ReLU', 'ReLU6', 'SiLU', 'Hardswish'])}())",
        f"nn.BatchNorm2d({c})", f"nn.GroupNorm({max(1, math.gcd(c, 4))}, {c})", f"nn.InstanceNorm2d({c}, affine=True)", f"nn.PReLU({c})",
        f"nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d({c}, {c}, 1), nn.Sigmoid())",
        f"nn.Conv2d({c}, {out}, 3, padding=1, padding_mode={rng.choice(['reflect', 'circular', 'replicate'])!r})",
    ]), "self.{m}({0})"


def sequence_layer(rng, x, name):
    c, width = x.shape[1], x.shape[-1]
    hidden = rng.choice([1, 3, 4, 8, 16])
    return rng.choice([
        (f"nn.Conv1d({c}, {hidden}, {rng.choice([1, 3, 5, 8])}, {rng.choice([1, 1, 2])}, {rng.choice([0, 2])}, {rng.choice([1, 1, 2])})", "self.{m}({0})"),
        (f"nn.ConvTranspose1d({c}, {hidden}, 3, 2, 1)", "self.{m}({0})"),
        (f"nn.BatchNorm1d({c})", "self.{m}({0})"),
        (f"nn.MultiheadAttention({width}, {math.gcd(width, 4)}, batch_first=True)", "self.{m}({0}, {0}, {0}, need_weights=False)[0]"),
        (f"nn.TransformerEncoderLayer({width}, {math.gcd(width, 2)}, {2 * width}, batch_first=True, norm_first={rng.random() < 0.5})", "self.{m}({0})"),
        (f"nn.LSTM({width}, {hidden}, batch_first=True, bidirectional={rng.random() < 0.3})", "self.{m}({0})[0]"),
        (f"nn.GRU({width}, {hidden}, batch_first=True)", "self.{m}({0})[0]"),
        (f"nn.RNN({width}, {hidden}, batch_first=True)", "self.{m}({0})[0][:, -1]"),
    ])


def any_layer(rng, x, name):
    width = x.shape[-1] if x.ndim else 1  # what does not take a single number is not grown
    return rng.choice([
        (f"nn.Linear({width}, {rng.choice([1, 3, 8, 10, 17])}, bias={rng.random() < 0.7})", "self.{m}({0})"),
        (f"nn.Sequential(nn.Linear({width}, {2 * width}), nn.GELU(), nn.Linear({2 * width}, {width}))", "{0} + self.{m}({0})"),
        (f"nn.LayerNorm({width})", "self.{m}({0})"),
        (f"nn.RMSNorm({width})", "self.{m}({0})"),
        (f"nn.LayerNorm({list(x.shape[1:])})", "self.{m}({0})"),
        (f"nn.Parameter(torch.randn({width}))", rng.choice(["{0} * self.{m}", "{0} + self.{m}", "self.{m} - {0}", "{0} / (self.{m}.abs() + 0.5)"])),
        (f"nn.Parameter(torch.randn({width}, {rng.choice([2, 5, 8])}))", "{0} @ self.{m}"),
        (f"nn.Parameter(torch.randn(3, {x.shape[-2] if x.ndim > 1 else 1}))", "self.{m} @ {0}"),
        (f"nn.utils.parametrizations.weight_norm(nn.Linear({width}, 8))", "self.{m}({0})"),
    ])


def state(rng, x, name):
    """Buffers that the model changes."""
    zeros = f"buffer:torch.zeros({tuple(x.shape)})"
    return rng.choice([(zeros, "{0} - self.{m}.mul_(0.5).add_(0.5 * {0})"), (zeros, "self.{m}.add_({0}) * 0.5"), (zeros, "torch.cat([self.{m}, self.{m}.copy_({0})], -1)"),
                       ("buffer:torch.zeros(())", "{0} + self.{m}.add_(1.0)")])


ATTENTION = ["F.scaled_dot_product_attention({0}, {0}, {0})", "F.scaled_dot_product_attention({0}, {0} * 0.5, {0}, is_causal=True)",
             "torch.softmax({0} @ {0}.transpose(-1, -2) / 2, -1) @ {0}", "{0} @ {0}.transpose(-1, -2)", "{0}.transpose(-1, -2) @ {0}",
             "torch.einsum('...ij,...kj->...ik', {0}, {0})", "torch.softmax(({0} @ {0}.transpose(-1, -2)).masked_fill(torch.ones({0}.shape[-2], {0}.shape[-2]).triu(1).bool(), -math.inf), -1) @ {0}"]

# What they ask is far from the edge: rounding must not choose the branch.
BRANCHES = ["torch.cond({0}.abs().amax() > 0.02, lambda x: torch.relu(x), lambda x: x * 0.5, ({0},))", "torch.cond({0}.abs().amax() > 100.0, lambda x: x + 1.0, lambda x: torch.tanh(x), ({0},))"]
HEADS = ["{0}.argmax(-1)", "{0}.topk(1, -1)[0]", "({0} > 0)", "{0}.flatten(1).argmax(1)"]


def propose(rng, values, name, member, earlier, Step):
    """A Step, or None. Recent values are taken more often, so that networks are deep rather than broad."""
    real = [n for n, v in values.items() if v.is_floating_point()]
    x = rng.choice(real[-2:] + real)
    value = values[x]
    along = lambda code: code.replace("{d}", str(rng.randrange(-1, value.ndim))).replace("{k}", str(rng.random() < 0.5))  # noqa: E731
    plain = lambda codes: Step(name, rng.choice(codes), (x,))  # noqa: E731
    roll = rng.random()
    if roll < 0.18:
        return plain(ELEMENTWISE)
    if roll < 0.30:
        return Step(name, rng.choice(PAIRS), (x, rng.choice(real)))
    if roll < 0.34:
        return Step(name, rng.choice(["torch.cat([{0}, {1}], 1)", "torch.cat([{0}, {1}], -1)", "{0} @ {1}", "{0} @ {1}.transpose(-1, -2)", "torch.stack([{0}, {1}], 1)", "F.scaled_dot_product_attention({0}, {1}, {1})"]), (x, rng.choice(real)))
    if roll < 0.40:
        return Step(name, along(rng.choice(REDUCTIONS)), (x,))
    if roll < 0.50:
        return Step(name, along(rng.choice(ALONG)), (x,))
    if roll < 0.58:
        return plain(MOVES)
    if roll < 0.64 and value.ndim >= 3:
        return plain(ATTENTION)
    if roll < 0.66:
        return plain(BRANCHES)
    if roll < 0.68:
        return plain(HEADS)
    if roll < 0.71:
        made, code = state(rng, value, member)
    elif roll < 0.75:
        shared = [s for s in earlier if len(s.members) == 1 and not s.members[0][1].startswith("buffer:")]
        if not shared:
            return None
        again = rng.choice(shared)
        return Step(name, again.code, (x,), again.members)
    elif roll < 0.78:
        return with_other_input(rng, values, name, member, x, Step)
    elif value.ndim == 4 and roll < 0.95:
        if roll > 0.89:
            return plain(IMAGES)
        made, code = image_layer(rng, value, member)
    elif value.ndim == 3 and roll < 0.92:
        made, code = sequence_layer(rng, value, member)
    else:
        made, code = any_layer(rng, value, member)
    return Step(name, code.replace("{m}", member), (x,), ((member, made),))


def with_other_input(rng, values, name, member, x, Step):
    """Indices and masks that come from outside. Those that the network computes itself jump with the last bit of a value: nothing to judge by."""
    ids = [n for n, v in values.items() if v.dtype == torch.int64 and n.startswith("x")]
    masks = [n for n, v in values.items() if v.dtype == torch.bool and n.startswith("x")]
    if ids and rng.random() < 0.5:
        return Step(name, f"self.{member}({{0}})", (rng.choice(ids),), ((member, f"nn.Embedding(10, {rng.choice([4, 8, 16])})"),))
    if masks:
        code = rng.choice(["torch.softmax({0}.mean(-1)[:, :{1}.shape[1]].masked_fill(~{1}, -math.inf), -1)", "{1} * 1.0",
                           "F.scaled_dot_product_attention({0}, {0}, {0}, attn_mask={1}[:, None, :])", "torch.where({1}, 1.0, 0.5)"])
        return Step(name, code, (x, rng.choice(masks)))
    return None
