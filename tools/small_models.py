"""Small models of all kinds, for tools/options.py: a name, a module, and how to draw its inputs.

Each runs in milliseconds, so that every option can be tried on every one of them.
"""

from __future__ import annotations


import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(*shapes):
    """Decorates a function that makes a module. The inputs are normal numbers of these shapes; ids(...) and mask(...) give others."""

    def register(make):
        MODELS[make.__name__] = (make, [s if callable(s) else real(*s) for s in shapes])
        return make

    return register


def real(*shape, scale=1.0, shift=0.0):
    return lambda g: torch.randn(shape, generator=g) * scale + shift


def ids(*shape, count=20):
    return lambda g: torch.randint(0, count, shape, generator=g)


def mask(*shape):
    def draw(g):
        keep = torch.rand(shape, generator=g) > 0.4
        keep[..., 0] = True
        return keep

    return draw


def build(name, samples=8, tests=4):
    """(module, calibration samples, test samples)"""
    torch.manual_seed(0)
    make, draws = MODELS[name]
    generator = torch.Generator().manual_seed(1)
    drawn = [tuple(draw(generator) for draw in draws) for _ in range(samples + tests)]
    module = make()
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if norms:
        module.train()
        with torch.no_grad():
            for sample in drawn[:samples]:
                module(*sample)
    return module.eval().requires_grad_(False), drawn[:samples], drawn[samples:]


class Of(nn.Module):
    """A function over named modules and parameters."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def buffered(function, buffers, **parts):
    module = Of(function, **parts)
    for name, value in buffers.items():
        module.register_buffer(name, value)
    return module


def conv_bn(cin, cout, kernel=3, stride=1, groups=1, act=nn.ReLU6):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout), act())


# ---- images


@model((1, 3, 16, 16))
def plain_cnn():
    return nn.Sequential(conv_bn(3, 8, 3, 2), conv_bn(8, 12), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))


@model((1, 8, 9, 9))
def depthwise():
    return nn.Sequential(conv_bn(8, 8, groups=8), conv_bn(8, 16, 1), conv_bn(16, 16, 5, 2, groups=16, act=nn.Hardswish))


@model((1, 8, 8, 8))
def residual():
    return Of(lambda m, x: torch.relu(m.b(torch.relu(m.a(x))) + x), a=nn.Conv2d(8, 8, 3, padding=1), b=nn.Conv2d(8, 8, 3, padding=1))


@model((1, 8, 8, 8))
def squeeze_excite():
    return Of(lambda m, x: x * m.gate(x.mean((2, 3), keepdim=True)), gate=nn.Sequential(nn.Conv2d(8, 4, 1), nn.SiLU(), nn.Conv2d(4, 8, 1), nn.Sigmoid()))


@model((1, 4, 8, 8))
def unet():
    return Of(lambda m, x: m.head(torch.cat([F.interpolate(m.low(F.max_pool2d(x, 2)), scale_factor=2.0), m.up(m.low(F.avg_pool2d(x, 2))), x], 1)),
              low=nn.Conv2d(4, 8, 3, padding=1), up=nn.ConvTranspose2d(8, 4, 2, 2), head=nn.Conv2d(16, 3, 1))


@model((1, 4, 6, 6))
def bilinear():
    return Of(lambda m, x: F.interpolate(m.a(x), size=(11, 13), mode="bilinear"), a=nn.Conv2d(4, 4, 1))


@model((2, 6, 10, 7))
def grouped_batch():
    return nn.Sequential(nn.Conv2d(6, 12, 3, groups=3), nn.PReLU(12), nn.MaxPool2d(2, ceil_mode=True), nn.GroupNorm(4, 12))


@model((1, 4, 12, 12))
def dilated():
    return nn.Sequential(nn.Conv2d(4, 8, 3, padding=4, dilation=4), nn.ELU(), nn.Conv2d(8, 4, 3, 3, padding_mode="reflect", padding=1))


@model((1, 3, 16, 16))
def yolo_head():
    def decode(m, x):
        y = m.a(x).flatten(2)
        return torch.cat([(y[:, :2].sigmoid() * 2 - 0.5 + m.grid) * 8, y[:, 2:4].exp() * 20, y[:, 4:].sigmoid()], 1)

    grid = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")).flatten(1)[None]
    return buffered(decode, {"grid": grid}, a=nn.Conv2d(3, 8, 3, 2, 1))


@model((1, 3, 12, 12))
def two_outputs():
    return Of(lambda m, x: (m.b(m.a(x).mean((2, 3))), torch.softmax(m.c(m.a(x)), 1)), a=nn.Conv2d(3, 8, 3), b=nn.Linear(8, 4), c=nn.Conv2d(8, 3, 1))


@model((1, 8, 4, 4))
def shuffles():
    return Of(lambda m, x: m.b(F.pixel_unshuffle(F.channel_shuffle(F.pixel_shuffle(m.a(x), 2), 2), 2)), a=nn.Conv2d(8, 8, 1), b=nn.Conv2d(8, 8, 1))


@model((1, 2, 4, 6, 6))
def conv3d():
    return nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, 1))


@model((1, 3, 8, 8))
def mobile_vit():
    return Of(lambda m, x: (lambda y: m.o(y + m.t(y)).transpose(1, 2).reshape(1, 8, 4, 4))(m.s(x).flatten(2).transpose(1, 2)),
              s=nn.Conv2d(3, 8, 3, 2, 1), t=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), o=nn.Linear(8, 8))


# ---- sequences


@model((1, 4, 40))
def conv1d():
    return nn.Sequential(nn.Conv1d(4, 8, 9, 2, 4), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 3, padding="same", dilation=3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(80, 3))


@model((1, 4, 24))
def causal_tcn():
    return Of(lambda m, x: torch.tanh(m.b(F.pad(m.a(F.pad(x, (2, 0))), (4, 0)))) * x, a=nn.Conv1d(4, 4, 3), b=nn.Conv1d(4, 4, 3, dilation=2))


@model((1, 7, 6))
def lstm():
    return Of(lambda m, x: m.o(m.l(x)[0][:, -1]), l=nn.LSTM(6, 8, 2, batch_first=True), o=nn.Linear(8, 3))


@model((1, 6, 5))
def gru_bidirectional():
    return Of(lambda m, x: m.l(x)[0], l=nn.GRU(5, 6, batch_first=True, bidirectional=True))


@model((1, 9, 16))
def encoder_layer():
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")


@model((1, 9, 16))
def attention_written_out():
    return Of(lambda m, x: torch.softmax(m.q(x) @ m.k(x).transpose(1, 2) / 4, -1) @ m.v(x), q=nn.Linear(16, 16), k=nn.Linear(16, 16), v=nn.Linear(16, 16))


@model((1, 2, 8, 16), mask(1, 1, 1, 8))
def attention_masked():
    return Of(lambda m, x, keep: F.scaled_dot_product_attention(m.q(x), m.q(x), x, attn_mask=keep), q=nn.Linear(16, 16))


@model((1, 2, 8, 16))
def attention_causal():
    return Of(lambda m, x: F.scaled_dot_product_attention(m.q(x), x, x, is_causal=True), q=nn.Linear(16, 16))


@model((1, 4, 8, 16))
def rotary():
    angles = torch.arange(8.0)[:, None] / 10 ** (torch.arange(8) / 4)
    turn = lambda m, x: x * m.c + torch.cat([-x[..., 8:], x[..., :8]], -1) * m.s  # noqa: E731
    return buffered(lambda m, x: F.scaled_dot_product_attention(turn(m, m.q(x)), turn(m, x), x), {"c": angles.cos().repeat(1, 2), "s": angles.sin().repeat(1, 2)}, q=nn.Linear(16, 16))


@model(ids(1, 9))
def embedding():
    return Of(lambda m, i: m.o(m.e(i) + m.p), e=nn.Embedding(20, 12), p=nn.Parameter(torch.randn(9, 12)), o=nn.Linear(12, 5))


@model((1, 5, 12), (1, 7, 12))
def cross_attention():
    return Of(lambda m, x, y: m.a(x, y, y, need_weights=False)[0], a=nn.MultiheadAttention(12, 3, batch_first=True))


# ---- vectors and arithmetic


@model((1, 24))
def mlp():
    return nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 4))


@model((3, 24))
def autoencoder():
    return nn.Sequential(nn.Linear(24, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 24))


@model((1, 12), (1, 6))
def two_inputs():
    return Of(lambda m, a, b: torch.sigmoid(m.a(a)) * m.b(b), a=nn.Linear(12, 8), b=nn.Linear(6, 8))


@model(real(1, 4, scale=200.0, shift=1000.0))
def physical_units():
    return Of(lambda m, x: m.n((x - 1000.0) / 200.0) * 50.0 + 3.0, n=nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)))


@model((1, 6, 8), (1, 6, 8))
def divisions():
    return Of(lambda m, x, y: (x / (y.abs() + 0.5), F.normalize(x, dim=-1), F.cosine_similarity(x, y, dim=-1), F.softsign(x)))


@model((1, 4, 20))
def z_score():
    return Of(lambda m, x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5))


@model((1, 8, 12))
def norms():
    return Of(lambda m, x: m.a(x) + m.b(x), a=nn.LayerNorm(12), b=nn.RMSNorm(12))


@model((1, 8, 6, 6))
def instance_norm():
    return nn.Sequential(nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1), nn.LocalResponseNorm(3))


@model((1, 5, 10))
def reductions():
    return Of(lambda m, x: (x.amax(-1), x.sum(1), x.var(-1), torch.logsumexp(x, -1), x.norm(dim=-1)))


@model((1, 10))
def softmaxes():
    return Of(lambda m, x: (torch.softmax(m.a(x), -1), torch.log_softmax(m.a(x), -1)), a=nn.Linear(10, 6))


@model((1, 6, 8))
def comparisons():
    return Of(lambda m, x: torch.where(m.a(x) > x, m.a(x), 0.25 * x).masked_fill(x < -1, 0.0), a=nn.Linear(8, 8))


@model((1, 4, 6, 8))
def movement():
    return Of(lambda m, x: m.a(torch.cat([x.flip(-1), x.roll(2, 2), x[..., ::2].repeat(1, 1, 1, 2)], 1).permute(0, 2, 3, 1)).unbind(1)[2], a=nn.Linear(12, 5))


@model((1, 6, 4), (1, 4, 5))
def matmuls():
    return Of(lambda m, x, y: (m.w @ (x @ y), torch.einsum("bij,bjk->bik", x, y)), w=nn.Parameter(torch.randn(3, 6)))


@model((1, 12))
def transcendental():
    return Of(lambda m, x: (torch.exp(-x.abs()), torch.log(x.abs() + 0.2), torch.sqrt(x.abs() + 0.1), torch.sin(x), F.mish(x), torch.reciprocal(x.abs() + 0.5)))


@model((1, 16))
def argmax_head():
    return Of(lambda m, x: (m.a(x).argmax(-1), m.a(x).amax(-1)), a=nn.Linear(16, 9))


@model((1, 8))
def shared_weights():
    return Of(lambda m, x: m.a(torch.relu(m.a(torch.relu(m.a(x))))), a=nn.Linear(8, 8))


# ---- state and control flow


@model(real(1, 8, shift=1.0))
def running_mean():
    return buffered(lambda m, x: m.a(x - m.mean.mul_(0.9).add_(0.1 * x)), {"mean": torch.zeros(1, 8)}, a=nn.Linear(8, 3))


@model((1, 4, 6))
def streaming_conv():
    def step(m, x):
        y = torch.cat([m.past, x], 2)
        m.past.copy_(y[..., -4:])
        return torch.relu(m.c(y))

    return buffered(step, {"past": torch.zeros(1, 4, 4)}, c=nn.Conv1d(4, 6, 5))


@model((1, 8))
def gru_cell_state():
    def step(m, x):
        m.h.copy_(m.cell(x, m.h))
        return m.o(m.h)

    return buffered(step, {"h": torch.zeros(1, 12)}, cell=nn.GRUCell(8, 12), o=nn.Linear(12, 4))


@model((1, 8))
def branches():
    return Of(lambda m, x: torch.cond(x.mean() > 0, lambda y: torch.relu(m.a(y)), lambda y: torch.tanh(m.b(y)), (x,)), a=nn.Linear(8, 8), b=nn.Linear(8, 8))
