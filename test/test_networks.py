"""Networks as people write them, end to end: exported, compiled for two NPUs, run on the host and compared with PyTorch."""

import math
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")

import judge  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class KeywordSpotter(nn.Module):
    """Raw audio through learned band-pass filters (SincNet), log compression and a small recurrent network."""

    def __init__(self, filters=16, taps=65):
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.01, 0.35, filters)[:, None])
        self.band = nn.Parameter(torch.full((filters, 1), 0.05))
        self.register_buffer("time", torch.arange(taps) - (taps - 1) / 2)
        self.register_buffer("window", torch.hann_window(taps, periodic=False))
        self.gru = nn.GRU(filters, 16, batch_first=True)
        self.head = nn.Linear(16, 6)

    def forward(self, x):
        high = self.low.abs() + self.band.abs()
        sinc = [2 * f * torch.sinc(2 * f * self.time) for f in (high, self.low.abs())]
        filters = ((sinc[0] - sinc[1]) * self.window)[:, None]
        energy = F.avg_pool1d(F.conv1d(x, filters, stride=8).square(), 8)
        features = torch.log(energy + 1e-3)
        features = (features - features.mean(2, keepdim=True)).transpose(1, 2)
        return self.head(self.gru(features)[0][:, -1])


class TemporalConvolutions(nn.Module):
    """A TCN: causal dilated convolutions with weight norm and residuals."""

    def __init__(self, channels=12):
        super().__init__()
        self.convs = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Conv1d(3 if d == 1 else channels, channels, 3, dilation=d)) for d in (1, 2, 4, 8))
        self.first = nn.Conv1d(3, channels, 1)

    def forward(self, x):
        for conv in self.convs:
            y = F.relu(conv(F.pad(x, (2 * conv.dilation[0], 0))))
            x = y + (self.first(x) if x.shape[1] != y.shape[1] else x)
        return x[:, :, -1]


class GatedUnet(nn.Module):
    """A U-Net whose skip passes an attention gate, resized bilinearly."""

    def __init__(self):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU(0.1))  # noqa: E731
        self.down, self.middle, self.up = block(3, 8), block(8, 16), block(24, 8)
        self.of_skip, self.of_gate, self.gate, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 4, 1), nn.Conv2d(4, 1, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skip = self.down(x)
        deep = F.interpolate(self.middle(F.max_pool2d(skip, 2)), scale_factor=2, mode="bilinear", align_corners=True)
        gate = torch.sigmoid(self.gate(F.relu(self.of_skip(skip) + self.of_gate(deep))))
        return self.head(self.up(torch.cat([skip * gate, deep], 1)))


class PointNet(nn.Module):
    """A cloud of points: a predicted transform, shared layers, and the maximum over the points."""

    def __init__(self):
        super().__init__()
        self.transform = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.matrix = nn.Linear(16, 9)
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32))
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        matrix = self.matrix(self.transform(x).amax(2)).view(-1, 3, 3) + torch.eye(3)
        moved = torch.bmm(x.transpose(1, 2), matrix).transpose(1, 2)
        return F.log_softmax(self.head(torch.max(self.points(moved), 2)[0]), dim=1)


class Nbeats(nn.Module):
    """N-BEATS: stacks subtract their backcast and add their forecast, in bases of trend and season."""

    def __init__(self, past=24, future=6, width=32):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(past, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()) for _ in range(2))
        self.angles = nn.ModuleList(nn.Linear(width, 4) for _ in range(2))
        t = torch.arange(past + future) / past
        self.register_buffer("trend", torch.stack([t**i for i in range(4)]))
        self.register_buffer("season", torch.stack([torch.cos(2 * math.pi * t), torch.cos(4 * math.pi * t), torch.sin(2 * math.pi * t), torch.sin(4 * math.pi * t)]))
        self.past = past

    def forward(self, x):
        forecast = 0
        for block, angle, basis in zip(self.blocks, self.angles, (self.trend, self.season)):
            y = angle(block(x)) @ basis
            x, forecast = x - y[:, : self.past], forecast + y[:, self.past :]
        return forecast


class Wavenet(nn.Module):
    """Gated dilated convolutions with skips, conditioned on a speaker."""

    def __init__(self, channels=8):
        super().__init__()
        self.speaker = nn.Embedding(4, 2 * channels)
        self.first = nn.Conv1d(1, channels, 1)
        self.gates = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(4))
        self.mix, self.skip = (nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(4)) for _ in range(2))
        self.head = nn.Conv1d(channels, 16, 1)

    def forward(self, x, speaker):
        x, skips = self.first(x), 0
        who = self.speaker(speaker)[:, :, None]
        for gate, mix, skip in zip(self.gates, self.mix, self.skip):
            a, b = (gate(F.pad(x, (gate.dilation[0], 0))) + who).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, skips = x + mix(y), skips + skip(y)
        return self.head(F.relu(skips))


class Conformer(nn.Module):
    """A Conformer block: half feed-forward steps, attention with relative positions (shifted), gated depthwise convolution."""

    def __init__(self, dim=16, heads=2, frames=12):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))  # noqa: E731
        self.before, self.after, self.heads = feed(), feed(), heads
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.positions, self.bias = nn.Parameter(torch.randn(heads, dim // heads, 2 * frames - 1)), nn.Parameter(torch.randn(heads, 1, dim // heads))
        self.conv_norm, self.wide, self.depth = nn.LayerNorm(dim), nn.Conv1d(dim, 2 * dim, 1), nn.Conv1d(dim, dim, 7, padding=3, groups=dim)
        self.batch, self.narrow, self.last = nn.BatchNorm1d(dim), nn.Conv1d(dim, dim, 1), nn.LayerNorm(dim)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        shifted = F.pad((q + self.bias) @ self.positions, (1, 0)).view(b, self.heads, 2 * t, t)[:, :, 1:].reshape(b, self.heads, t, 2 * t - 1)[..., :t]
        weights = torch.softmax((q @ k.transpose(2, 3) + shifted) / math.sqrt(c // self.heads), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        x = x + self.attention(self.norm(x))
        y = F.glu(self.wide(self.conv_norm(x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
        return self.last(x + 0.5 * self.after(x))


class Film(nn.Module):
    """Features of an image, scaled and shifted by a question."""

    def __init__(self):
        super().__init__()
        self.words, self.read, self.film = nn.Embedding(20, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 32)
        self.stem, self.conv, self.norm, self.head = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16, affine=False), nn.Linear(16, 4)

    def forward(self, image, question):
        scale, shift = self.film(self.read(self.words(question))[1][0][-1])[:, :, None, None].chunk(2, 1)
        x = F.relu(self.stem(image))
        x = x + F.relu(self.norm(self.conv(x)) * (1 + scale) + shift)
        return self.head(x.mean((2, 3)))


class NeuralOde(nn.Module):
    """Two Runge-Kutta steps of a learned field."""

    def __init__(self, dim=8):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(dim + 1, 24), nn.Tanh(), nn.Linear(24, dim))

    def slope(self, x, t):
        return self.field(torch.cat([x, torch.full_like(x[:, :1], t)], 1))

    def forward(self, x, step=0.5):
        for i in range(2):
            t = i * step
            a = self.slope(x, t)
            b = self.slope(x + step / 2 * a, t + step / 2)
            c = self.slope(x + step / 2 * b, t + step / 2)
            x = x + step / 6 * (a + 2 * b + 2 * c + self.slope(x + step * c, t + step))
        return x


class GraphAttention(nn.Module):
    """Two attention layers over a graph that comes with the features."""

    def __init__(self, dim=8):
        super().__init__()
        self.embed, self.source, self.target = nn.ModuleList([nn.Linear(6, dim), nn.Linear(dim, dim)]), *(nn.ParameterList([nn.Parameter(torch.randn(dim, 1) / 2) for _ in range(2)]) for _ in range(2))
        self.head = nn.Linear(dim, 3)

    def forward(self, x, edges):
        for embed, source, target in zip(self.embed, self.source, self.target):
            h = embed(x)
            scores = F.leaky_relu(h @ source + (h @ target).transpose(1, 2), 0.2)
            x = F.elu(torch.softmax(scores.masked_fill(~edges, -1e9), -1) @ h)
        return self.head(x.mean(1))


class SuperResolution(nn.Module):
    """ESPCN with a residual over a bicubic upscale."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16), nn.Conv2d(16, 27, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x):
        return (self.layers(x) + F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)).clamp(-3, 3)


def real(*shape):
    return lambda g: torch.randn(shape, generator=g)


def ids(count, *shape):
    return lambda g: torch.randint(0, count, shape, generator=g)


def grouped_mm(rows, matrices, ends):
    """transformers' operator, which it defines when it is imported"""
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):

        @torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
        def product(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            group = (torch.arange(len(input))[:, None] >= offs).sum(1)
            return torch.bmm(input[:, None], weight[group])[:, 0]

        product.register_fake(lambda input, weight, offs: input.new_empty(len(input), weight.shape[-1]))
    return torch.ops.transformers.grouped_mm_fallback(rows, matrices, ends)


class Experts(nn.Module):
    """A mixture of experts as transformers writes it: rows sorted by expert, a product of groups of rows, and back into order."""

    def __init__(self, width=16, hidden=24, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * hidden) * 0.3)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.3)

    def forward(self, x):
        share, expert = self.router(x).softmax(-1).topk(2, dim=-1)
        expert, order = expert.reshape(-1).sort()
        ends = torch.histc(expert.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
        gate, up = grouped_mm(x[order // 2], self.up, ends).chunk(2, dim=-1)
        y = grouped_mm(F.silu(gate) * up, self.down, ends) * share.reshape(-1)[order, None]
        back = torch.empty_like(order).index_put((order,), torch.arange(order.numel()))
        return x + y[back].reshape(-1, 2, x.shape[-1]).sum(1)


def edges(nodes):
    return lambda g: (torch.rand(1, nodes, nodes, generator=g) > 0.6) | torch.eye(nodes, dtype=torch.bool)


# module, how its inputs are drawn, least SQNR in dB
NETWORKS = [
    (KeywordSpotter, [real(1, 1, 448)], 20),
    (TemporalConvolutions, [real(1, 3, 32)], 28),
    (GatedUnet, [real(1, 3, 16, 16)], 25),
    (PointNet, [real(1, 3, 32)], 25),
    (Nbeats, [real(1, 24)], 28),
    (Wavenet, [real(1, 1, 32), ids(4, 1)], 25),
    (Conformer, [real(1, 12, 16)], 25),
    (Film, [real(1, 3, 16, 16), ids(20, 1, 5)], 25),
    (NeuralOde, [real(1, 8)], 28),
    (GraphAttention, [real(1, 10, 6), edges(10)], 25),
    (Experts, [real(10, 16)], 22),
    (SuperResolution, [real(1, 3, 8, 8)], 28),
]


@pytest.mark.parametrize("network, draws, least", NETWORKS, ids=lambda value: getattr(value, "__name__", ""))
def test_networks_are_in_one_region_and_right(network, draws, least, tmp_path):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    samples = [tuple(draw(generator) for draw in draws) for _ in range(6)]
    module = network().eval().requires_grad_(False)
    judge.write_case(module, samples, [], tmp_path)
    for target in ("ethos-u55-128", "ethos-u85-256"):
        verdict = judge.judge(tmp_path, target)
        assert verdict.kind == "right" and verdict.sqnr >= least, f"{target}: {verdict.line()}"
        assert verdict.regions == 1, f"{target}: {verdict.regions} regions, {verdict.host}, {verdict.reasons}"
