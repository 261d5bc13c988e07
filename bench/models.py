"""Models that only the benchmarks need, exported once and kept in the build folder.

    models.py chain COUNT FILE.pt2        COUNT residual blocks on int8, written with quantize and dequantize nodes as PT2E writes them
    models.py mobilenet_v2 FILE.pt2       MobileNetV2 at 224 x 224 in float, random weights
"""

from __future__ import annotations

import sys
import warnings

import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

QDQ = torch.ops.quantized_decomposed
ACTIVATION = 0.05  # scale of what a convolution reads


def requantized(x, scale, zero_point=0):
    codes = QDQ.quantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)
    return QDQ.dequantize_per_tensor(codes, scale, zero_point, -128, 127, torch.int8)


class QuantizedConv(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.register_buffer("codes", torch.randint(-127, 128, (channels, channels, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.full((channels,), 0.002))
        self.register_buffer("zero_points", torch.zeros(channels, dtype=torch.int64))
        self.register_buffer("bias", torch.randint(-1000, 1000, (channels,), dtype=torch.int32))
        self.register_buffer("bias_scales", self.scales * ACTIVATION)

    def forward(self, x):
        limit = 2**31 - 1
        weight = QDQ.dequantize_per_channel(self.codes, self.scales, self.zero_points, 0, -127, 127, torch.int8)
        bias = QDQ.dequantize_per_channel(self.bias, self.bias_scales, self.zero_points, 0, -limit, limit, torch.int32)
        return nn.functional.conv2d(x, weight, bias, padding=1)


class Block(nn.Module):
    """conv, relu, conv, add, relu, and a permutation there and back."""

    def __init__(self, channels: int):
        super().__init__()
        self.first, self.second = QuantizedConv(channels), QuantizedConv(channels)

    def forward(self, x):
        y = requantized(torch.relu(self.first(x)), ACTIVATION, -128)
        y = requantized(self.second(y), 0.1)
        y = requantized(requantized(y.permute(0, 2, 3, 1), 0.1).permute(0, 3, 1, 2), 0.1)
        return requantized(torch.relu(requantized(x + y, 0.1)), ACTIVATION, -128)


class Chain(nn.Module):
    def __init__(self, count: int, channels: int = 8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(channels) for _ in range(count))

    def forward(self, x):
        x = requantized(x, ACTIVATION)
        for block in self.blocks:
            x = block(x)
        return x


def conv_bn(cin, cout, kernel=1, stride=1, groups=1, relu=True):
    layers = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if relu else []))


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expansion):
        super().__init__()
        hidden = cin * expansion
        layers = [conv_bn(cin, hidden)] if expansion != 1 else []
        self.layers = nn.Sequential(*layers, conv_bn(hidden, hidden, 3, stride, hidden), conv_bn(hidden, cout, relu=False))
        self.adds = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNetV2(nn.Module):
    """Sandler et al., table 2, width 1.0."""

    ROWS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self):
        super().__init__()
        layers, channels = [conv_bn(3, 32, 3, 2)], 32
        for expansion, cout, count, stride in self.ROWS:
            for i in range(count):
                layers.append(InvertedResidual(channels, cout, stride if i == 0 else 1, expansion))
                channels = cout
        self.features = nn.Sequential(*layers, conv_bn(channels, 1280))
        self.head = nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def main(kind, *rest):
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    if kind == "chain":
        model, shape = Chain(int(rest[0])), (1, 8, 16, 16)
    else:
        model, shape = MobileNetV2(), (1, 3, 224, 224)
    program = torch.export.export(model.eval(), (torch.randn(shape),))
    torch.export.save(program, rest[-1])
    print(sum(node.op == "call_function" for node in program.graph.nodes))


if __name__ == "__main__":
    main(*sys.argv[1:])
