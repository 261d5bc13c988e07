"""Models that only the benchmarks need, exported once and kept in the build folder.

    models.py chain COUNT FILE.pt2        COUNT residual blocks on int8, written with quantize and dequantize nodes as PT2E writes them
    models.py mobilenet_v2 FILE.pt2       MobileNetV2 at 224 x 224 in float, random weights
    models.py network NAME FILE.pt2       a network of networks.py in float, FILE.npz with its samples and FILE.test.npz with others
    models.py names                       the names of the networks

Prints the number of nodes otherwise.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

from networks import NETWORKS, MobileNetV2, build, held_out

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


def main(kind, *rest):
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    if kind == "names":
        print(*NETWORKS)
        return
    file = pathlib.Path(rest[-1])
    if kind == "chain":
        model, samples = Chain(int(rest[0])).eval(), [torch.randn(1, 8, 16, 16)]
    elif kind == "mobilenet_v2":
        model, samples = MobileNetV2().eval(), [torch.randn(1, 3, 224, 224)]
    else:
        model, samples = build(rest[0])
        np.savez(file.with_suffix(".npz"), x=torch.stack(samples).numpy())
        np.savez(file.with_suffix(".test.npz"), x=torch.stack(held_out(rest[0])).numpy())
    program = torch.export.export(model, (samples[0],))
    torch.export.save(program, file)
    print(sum(node.op == "call_function" for node in program.graph.nodes))


if __name__ == "__main__":
    main(*sys.argv[1:])
