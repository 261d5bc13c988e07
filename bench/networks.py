"""The networks that are quantized by bench.py: 21 of the kinds that users of these NPUs run, from a single LayerNorm to Whisper's encoder.

NETWORKS names them. build(name) gives the module, in eval mode, with random but seeded weights and batch norms that fit its samples, and
the samples themselves. Transformers are in encoders.py; the four of MLPerf Tiny come from the tests.
"""

from __future__ import annotations

import math
import pathlib
import sys
from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "test" / "models"))
from make_models import AutoEncoder, DsCnn, MobileNetV1, ResNet8, settle  # noqa: E402
from encoders import Features, MobileVit, VisionTransformer, WhisperEncoder  # noqa: E402


def conv_bn(cin, cout, kernel=1, stride=1, groups=1, activation=nn.ReLU6):
    layers = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """x + layers(x) where the shapes allow it, layers(x) where they do not."""

    def __init__(self, layers, adds=True):
        super().__init__()
        self.layers, self.adds = layers, adds

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def inverted_residual(cin, cout, stride, expansion):
    hidden = cin * expansion
    layers = [conv_bn(cin, hidden)] if expansion != 1 else []
    layers += [conv_bn(hidden, hidden, 3, stride, hidden), conv_bn(hidden, cout, activation=None)]
    return Residual(nn.Sequential(*layers), stride == 1 and cin == cout)


class MobileNetV2(nn.Module):
    """Sandler et al., table 2, width 1.0."""

    ROWS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self, classes=1000):
        super().__init__()
        layers, channels = [conv_bn(3, 32, 3, 2)], 32
        for expansion, cout, count, stride in self.ROWS:
            for i in range(count):
                layers.append(inverted_residual(channels, cout, stride if i == 0 else 1, expansion))
                channels = cout
        self.features = nn.Sequential(*layers, conv_bn(channels, 1280))
        self.head = nn.Linear(1280, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of an image; the axes are moved there and back."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=1e-6)

    def forward(self, x):
        return self.norm(x.movedim(1, 3)).movedim(3, 1)


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.rest = nn.Sequential(nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.gain = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x):
        return x + (self.gain * self.rest(self.depthwise(x).moveaxis(1, -1))).moveaxis(-1, 1)


class ConvNeXt(nn.Module):
    """Two stages of two blocks: 32 channels at a quarter of the size, 64 at an eighth."""

    def __init__(self):
        super().__init__()
        first = [nn.Conv2d(3, 32, 4, stride=4), ChannelNorm(32), ConvNeXtBlock(32), ConvNeXtBlock(32)]
        second = [ChannelNorm(32), nn.Conv2d(32, 64, 2, stride=2), ConvNeXtBlock(64), ConvNeXtBlock(64)]
        self.stages = nn.Sequential(*first, *second)
        self.head = nn.Sequential(nn.LayerNorm(64, eps=1e-6), nn.Linear(64, 10))

    def forward(self, x):
        return self.head(self.stages(x).mean((2, 3)))


class UNet(nn.Module):
    """Three levels down, and up again in three ways: a transposed convolution, nearest and bilinear interpolation."""

    def __init__(self, width=16):
        super().__init__()

        def pair(cin, cout):
            return nn.Sequential(conv_bn(cin, cout, 3, activation=nn.ReLU), conv_bn(cout, cout, 3, activation=nn.ReLU))

        self.down = nn.ModuleList([pair(3, width), pair(width, 2 * width), pair(2 * width, 4 * width)])
        self.bottom = pair(4 * width, 8 * width)
        self.transposed = nn.ConvTranspose2d(8 * width, 4 * width, 2, stride=2)
        self.up = nn.ModuleList([pair(8 * width, 4 * width), pair(6 * width, 2 * width), pair(3 * width, width)])
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            skips.append(level(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.up[0](torch.cat([self.transposed(self.bottom(x)), skips[2]], 1))
        x = self.up[1](torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), skips[1]], 1))
        x = self.up[2](torch.cat([F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False), skips[0]], 1))
        return self.head(x)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, inner, gate):
        super().__init__()
        self.weigh = nn.Sequential(nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, channels, 1), gate())

    def forward(self, x):
        return x * self.weigh(x.mean((2, 3), keepdim=True))


def mb_conv(cin, cout, kernel, stride, activation, gate):
    hidden = 4 * cin
    layers = [conv_bn(cin, hidden, activation=activation), conv_bn(hidden, hidden, kernel, stride, hidden, activation)]
    layers += [SqueezeExcite(hidden, max(4, cin // 4), gate), conv_bn(hidden, cout, activation=None)]
    return Residual(nn.Sequential(*layers), stride == 1 and cin == cout)


def efficient_net():
    """Blocks of EfficientNet (SiLU, sigmoid) and of MobileNetV3 (hardswish, hardsigmoid)."""
    soft, hard = (nn.SiLU, nn.Sigmoid), (nn.Hardswish, nn.Hardsigmoid)
    blocks = [mb_conv(16, 24, 3, 2, *soft), mb_conv(24, 24, 5, 1, *soft), mb_conv(24, 40, 5, 2, *hard), mb_conv(40, 40, 3, 1, *hard)]
    head = [conv_bn(40, 160, activation=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10)]
    return nn.Sequential(conv_bn(3, 16, 3, 2, activation=nn.SiLU), *blocks, *head)


def silu(cin, cout, kernel=1, stride=1):
    return conv_bn(cin, cout, kernel, stride, activation=nn.SiLU)


class SplitBlock(nn.Module):
    """YOLO's C2f with one bottleneck: half of the channels pass by, all stages meet in a concatenation."""

    def __init__(self, cin, cout):
        super().__init__()
        half = cout // 2
        self.enter, self.leave = silu(cin, cout), silu(3 * half, cout)
        self.bottleneck = Residual(nn.Sequential(silu(half, half, 3), silu(half, half, 3)))

    def forward(self, x):
        a, b = self.enter(x).chunk(2, 1)
        return self.leave(torch.cat([a, b, self.bottleneck(b)], 1))


class PyramidPool(nn.Module):
    """YOLO's SPPF: the same 5 x 5 pool once, twice and three times."""

    def __init__(self, channels):
        super().__init__()
        self.enter, self.leave = silu(channels, channels // 2), silu(2 * channels, channels)

    def forward(self, x):
        levels = [self.enter(x)]
        for _ in range(3):
            levels.append(F.max_pool2d(levels[-1], 5, 1, 2))
        return self.leave(torch.cat(levels, 1))


class Yolo(nn.Module):
    """A detector with two scales, 96 x 96 in; corners of boxes and scores of four classes out."""

    STRIDES = (8, 16)

    def __init__(self, size=96):
        super().__init__()
        self.fine = nn.Sequential(silu(3, 16, 3, 2), silu(16, 32, 3, 2), SplitBlock(32, 32), silu(32, 64, 3, 2), SplitBlock(64, 64))
        self.coarse = nn.Sequential(silu(64, 128, 3, 2), PyramidPool(128))
        self.join = SplitBlock(192, 64)
        self.heads = nn.ModuleList([nn.Conv2d(64, 8, 1), nn.Conv2d(128, 8, 1)])
        for stride in self.STRIDES:
            at = (torch.arange(size // stride) + 0.5) * stride
            y, x = torch.meshgrid(at, at, indexing="ij")
            self.register_buffer(f"centres{stride}", torch.stack([x, y]).flatten(1)[None])

    def forward(self, x):
        fine = self.fine(x)
        coarse = self.coarse(fine)
        fine = self.join(torch.cat([F.interpolate(coarse, scale_factor=2.0, mode="nearest"), fine], 1))
        boxes, scores = [], []
        for head, level, stride in zip(self.heads, (fine, coarse), self.STRIDES):
            shift, size, classes = head(level).flatten(2).split([2, 2, 4], 1)
            centre = (2 * shift.sigmoid() - 0.5) * stride + getattr(self, f"centres{stride}")
            half = (2 * size.sigmoid()) ** 2 * stride
            boxes.append(torch.cat([centre - half, centre + half], 1))
            scores.append(classes.sigmoid())
        return torch.cat(boxes, 2), torch.cat(scores, 2)


class SequenceLayer(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(channels, channels, kernel, padding=kernel // 2), Features(nn.LayerNorm(channels))

    def forward(self, x):
        return x + F.gelu(self.norm(self.conv(x)))


class SequenceCnn(nn.Module):
    """Nine 1-d convolutions, each with a LayerNorm over its channels."""

    def __init__(self, channels=24):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, channels, 7, padding=3), *[SequenceLayer(channels, 9) for _ in range(9)])
        self.head = nn.Linear(channels, 5)

    def forward(self, x):
        return self.head(self.layers(x).mean(-1))


class GatedBlock(nn.Module):
    """A dilated convolution gated as in WaveNet, weighed per channel, then a feed-forward part; both residual."""

    def __init__(self, channels, dilation):
        super().__init__()
        self.norm = Features(nn.LayerNorm(channels))
        self.conv = nn.Conv1d(channels, 2 * channels, 5, padding=2 * dilation, dilation=dilation)
        self.weigh = nn.Sequential(nn.Linear(channels, channels // 4), nn.ReLU(), nn.Linear(channels // 4, channels), nn.Sigmoid())
        self.forward_part = Features(nn.LayerNorm(channels), nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x):
        value, gate = self.conv(self.norm(x)).chunk(2, 1)
        y = torch.tanh(value) * torch.sigmoid(gate)
        x = x + y * self.weigh(y.mean(-1)).unsqueeze(-1)
        return x + self.forward_part(x)


class SleepNet(nn.Module):
    """Sleep stages from 30 s of one EEG channel: a fine and a coarse filter bank, then 24 gated blocks (1,200 core operators)."""

    def __init__(self, channels=32, blocks=24):
        super().__init__()
        self.fine = nn.Conv1d(1, channels // 2, 50, stride=8, padding=21)
        self.coarse = nn.Conv1d(1, channels // 2, 200, stride=8, padding=96)
        self.blocks = nn.Sequential(*[GatedBlock(channels, 2 ** (i % 5)) for i in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 5), nn.LogSoftmax(-1))

    def forward(self, x):
        x = F.max_pool1d(torch.relu(torch.cat([self.fine(x), self.coarse(x)], 1)), 3)
        return self.head(self.blocks(x).mean(-1))


def wav2letter(same):
    """Letters per frame from 39 coefficients; `same` has torch compute the padding, else it is written out."""
    layers, channels = [nn.Conv1d(39, 64, 48, 2, padding=23), nn.BatchNorm1d(64), nn.ReLU6()], 64
    for cout, kernel in [(64, 7)] * 5 + [(128, 32), (128, 1)]:
        if not same:
            layers.append(nn.ConstantPad1d(((kernel - 1) // 2, kernel // 2), 0.0))
        layers += [nn.Conv1d(channels, cout, kernel, padding="same" if same else 0), nn.BatchNorm1d(cout), nn.ReLU6()]
        channels = cout
    return nn.Sequential(*layers, nn.Conv1d(channels, 29, 1), nn.Softmax(1))


class Lstm(nn.Module):
    """Two LSTM layers written out step by step, as a keyword spotter has them."""

    def __init__(self, features=10, hidden=64):
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(features + hidden, 4 * hidden), nn.Linear(2 * hidden, 4 * hidden)])
        self.hidden, self.head = hidden, nn.Linear(hidden, 12)

    def forward(self, x):
        steps = list(x.unbind(1))
        for cell in self.cells:
            state = out = x.new_zeros(x.shape[0], self.hidden)
            for i, step in enumerate(steps):
                enter, forget, value, leave = cell(torch.cat([step, out], 1)).chunk(4, 1)
                state = torch.sigmoid(forget + 1) * state + torch.sigmoid(enter) * torch.tanh(value)
                steps[i] = out = torch.sigmoid(leave) * torch.tanh(state)
        return self.head(steps[-1])


class Experts(nn.Module):
    """torch.cond: bright images go through one convolution, dark ones through two."""

    def __init__(self, channels=16):
        super().__init__()
        self.stem = conv_bn(3, channels, 3, 2, activation=nn.ReLU)
        self.light = nn.Conv2d(channels, channels, 1)
        self.heavy = nn.Sequential(nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * channels, channels, 3, padding=1))
        self.head = nn.Linear(channels, 4)

    def forward(self, x):
        y = torch.cond(x.mean() > 0, lambda z: torch.relu(self.light(z)), lambda z: torch.relu(self.heavy(z)), (self.stem(x),))
        return self.head(y.mean((2, 3)))


def digits():
    """8 x 8 pixels, ten classes."""
    layers = [conv_bn(1, 16, 3), conv_bn(16, 16, 3, groups=16), conv_bn(16, 32), nn.MaxPool2d(2), conv_bn(32, 48, 3)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))


class Sole(nn.Module):
    """One layer with an input called x, as all the others have."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


@dataclass
class Network:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of a sample, without the batch
    shift: float = 0.0  # added to every second sample and taken from the others


NETWORKS = {
    "ad_autoencoder": Network(AutoEncoder, (640,)),
    "cond_experts": Network(Experts, (3, 32, 32), shift=0.5),
    "convnext_moveaxis": Network(ConvNeXt, (3, 64, 64)),
    "digits_cnn": Network(lambda: Sole(digits()), (1, 8, 8)),
    "effnet_se": Network(lambda: Sole(efficient_net()), (3, 64, 64)),
    "ic_resnet8": Network(ResNet8, (3, 32, 32)),
    "kws_dscnn": Network(DsCnn, (1, 49, 10)),
    "layernorm_1500x384": Network(lambda: Sole(nn.LayerNorm(384)), (1500, 384)),
    "lstm_kws": Network(Lstm, (16, 10)),
    "mobilenetv2_100": Network(lambda: MobileNetV2(100), (3, 96, 96)),
    "mobilevit_block": Network(lambda: MobileVit(nn.Sequential(silu(3, 16, 3, 2), inverted_residual(16, 32, 2, 2)), silu), (3, 64, 64)),
    "seqcnn9": Network(SequenceCnn, (1, 512)),
    "sleepnet": Network(SleepNet, (1, 3000)),
    "unet_small": Network(UNet, (3, 64, 64)),
    "vit_tiny4": Network(VisionTransformer, (3, 96, 96)),
    "vww_mobilenetv1_025": Network(MobileNetV1, (3, 96, 96)),
    "wav2letter_mini": Network(lambda: Sole(wav2letter(same=False)), (39, 296)),
    "wav2letter_same": Network(lambda: Sole(wav2letter(same=True)), (39, 296)),
    "whisper_tiny_enc1": Network(lambda: WhisperEncoder(1), (80, 3000)),
    "whisper_tiny_enc4": Network(lambda: WhisperEncoder(4), (80, 3000)),
    "yolo_tiny": Network(Yolo, (3, 96, 96)),
}


def inputs_of(network: Network, count: int) -> list[torch.Tensor]:
    inputs = []
    for i in range(count):  # noise, smoothed along the last axis: neighbours are alike in images and sounds
        x = F.avg_pool1d(torch.randn(1, *network.shape).flatten(0, -2)[None], 5, 1, 2).reshape(1, *network.shape)
        inputs.append(x / x.std() + network.shift * (-1) ** i)
    return inputs


def held_out(name: str) -> list[torch.Tensor]:
    """Inputs that no range was measured on: 32, fewer where an input is large."""
    network = NETWORKS[name]
    torch.manual_seed(1)
    return inputs_of(network, 32 if math.prod(network.shape) < 200_000 else 4)


def build(name: str, samples: int = 4) -> tuple[nn.Module, list[torch.Tensor]]:
    network = NETWORKS[name]
    torch.manual_seed(0)
    model = network.make()
    inputs = inputs_of(network, max(8, samples))
    if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules()):
        settle(model, inputs)
    return model.eval().requires_grad_(False), inputs[:samples]
