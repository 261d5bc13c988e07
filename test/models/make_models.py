"""Makes the models of the tests: small networks, exported with torch and quantized by ExecuTorch's own Ethos-U quantizer.

    python test/models/make_models.py [NAME ...]      writes NAME.pt2 (float), NAME_int8.pt2 and NAME.npz beside this file

The four MLPerf Tiny networks, a LayerNorm, a 1-d CNN of nine convolutions with LayerNorms, and one that turns its axes with moveaxis and
movedim. Weights are random but seeded; activations are kept in a sane range by batch norm statistics measured on the samples.
NAME.npz holds `calibrate` and `test` samples and the float outputs of the test samples.
"""

from __future__ import annotations

import pathlib
import sys
import warnings

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


def conv_bn_relu(cin: int, cout: int, kernel=3, stride=1, padding=None, groups=1, relu=True) -> nn.Sequential:
    if padding is None:
        padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
    layers = [nn.Conv2d(cin, cout, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([nn.ReLU()] if relu else []))


class ResidualBlock(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        self.first = conv_bn_relu(cin, cout, stride=stride)
        self.second = conv_bn_relu(cout, cout, relu=False)
        self.shortcut = nn.Conv2d(cin, cout, 1, stride) if stride != 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet8(nn.Module):
    """Image classification of MLPerf Tiny: 3x32x32, ten classes."""

    shape = (3, 32, 32)

    def __init__(self):
        super().__init__()
        self.stem = conv_bn_relu(3, 16)
        self.blocks = nn.Sequential(ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2), ResidualBlock(32, 64, 2))
        self.pool = nn.AvgPool2d(8)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.pool(self.blocks(self.stem(x)))
        return torch.softmax(self.head(torch.flatten(x, 1)), dim=-1)


class DsCnn(nn.Module):
    """Keyword spotting of MLPerf Tiny: 49 frames of 10 coefficients, twelve words."""

    shape = (1, 49, 10)

    def __init__(self):
        super().__init__()
        self.stem = conv_bn_relu(1, 64, kernel=(10, 4), stride=2, padding=(5, 1))
        blocks = []
        for _ in range(4):
            blocks += [conv_bn_relu(64, 64, groups=64), conv_bn_relu(64, 64, kernel=1, padding=0)]
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d((25, 5))
        self.head = nn.Linear(64, 12)

    def forward(self, x):
        return torch.softmax(self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1)), dim=-1)


class MobileNetV1(nn.Module):
    """Visual wake words of MLPerf Tiny: width 0.25, 3x96x96, two classes."""

    shape = (3, 96, 96)

    def __init__(self):
        super().__init__()
        layers = [conv_bn_relu(3, 8, stride=2)]
        channels = 8
        for cout, stride in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)] + [(128, 1)] * 5 + [(256, 2), (256, 1)]:
            layers += [conv_bn_relu(channels, channels, stride=stride, groups=channels), conv_bn_relu(channels, cout, kernel=1, padding=0)]
            channels = cout
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(256, 2)

    def forward(self, x):
        return torch.softmax(self.head(torch.flatten(self.pool(self.layers(x)), 1)), dim=-1)


class AutoEncoder(nn.Module):
    """Anomaly detection of MLPerf Tiny: ten fully connected layers around a bottleneck of eight."""

    shape = (640,)

    def __init__(self):
        super().__init__()
        widths = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
        layers = []
        for cin, cout in zip(widths, widths[1:]):
            layers += [nn.Linear(cin, cout), nn.BatchNorm1d(cout), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(128, 640))

    def forward(self, x):
        return self.layers(x)


class Norm(nn.Module):
    shape = (50, 96)

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)

    def forward(self, x):
        return self.norm(x)


class SeqCnn(nn.Module):
    """Nine 1-d convolutions, a LayerNorm after each, residuals around pairs."""

    shape = (12, 128)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(12, 32, 5, padding=2)
        self.convs = nn.ModuleList(nn.Conv1d(32, 32, 3, padding=1) for _ in range(8))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(9))
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = torch.relu(self.norms[0](self.stem(x).transpose(1, 2)).transpose(1, 2))
        for i in range(0, 8, 2):
            y = torch.relu(self.norms[i + 1](self.convs[i](x).transpose(1, 2)).transpose(1, 2))
            y = self.norms[i + 2](self.convs[i + 1](y).transpose(1, 2)).transpose(1, 2)
            x = torch.relu(x + y)
        return self.head(x.mean(dim=2))


class MoveAxis(nn.Module):
    """A ConvNeXt-style block that turns its axes with moveaxis and movedim."""

    shape = (16, 14, 14)

    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.expand = nn.Linear(16, 32)
        self.project = nn.Linear(32, 16)

    def forward(self, x):
        y = torch.moveaxis(self.depthwise(x), 1, 3)
        y = self.project(torch.relu(self.expand(y)))
        return x + torch.movedim(y, (3, 1, 2), (1, 2, 3))


MODELS = {
    "resnet8": ResNet8,
    "dscnn": DsCnn,
    "mobilenet_v1": MobileNetV1,
    "autoencoder": AutoEncoder,
    "layernorm": Norm,
    "seqcnn9": SeqCnn,
    "moveaxis": MoveAxis,
}


def settle(model: nn.Module, samples: list[torch.Tensor]) -> None:
    """Gives batch norms the statistics of the samples, as training would."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    with torch.no_grad():
        model(torch.cat(samples))
    model.eval()


def quantize(exported, samples):
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    for sample in samples:
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), (samples[0],))


def has_pool_ties(quantized, x) -> bool:
    """Whether an average pool of the quantized graph meets an exact half on x. There PyTorch's float rounding noise decides, so no
    integer arithmetic can be asked to agree; an 8x8 window meets one in 64 sums."""
    found = []

    class Watch(torch.fx.Interpreter):
        def run_node(self, n):
            if "avg_pool2d" in str(n.target):
                codes = torch.round(self.env[n.args[0]].double() / n.args[0].args[1])
                means = torch.nn.functional.avg_pool2d(codes, n.args[1])
                found.append(bool(((means - means.floor()) == 0.5).any()))
            return super().run_node(n)

    Watch(quantized.module(check_guards=False)).run(x)
    return any(found)


def make(name: str) -> None:
    torch.manual_seed(sum(map(ord, name)))
    model = MODELS[name]()
    batches = 8 if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules()) else 4
    samples = [torch.randn(1, *model.shape) for _ in range(batches)]
    settle(model, samples)
    exported = torch.export.export(model, (samples[0],))
    with torch.no_grad():
        quantized = quantize(exported, samples)
        test = []
        while len(test) < 2:
            x = torch.randn(1, *model.shape)
            if not has_pool_ties(quantized, x):
                test.append(x)
        outputs = [model(x) for x in test]
        torch.export.save(exported, HERE / f"{name}.pt2")
        torch.export.save(quantized, HERE / f"{name}_int8.pt2")
    np.savez_compressed(
        HERE / f"{name}.npz",
        calibrate=torch.stack(samples).numpy(),
        test=torch.stack(test).numpy(),
        golden=torch.stack(outputs).numpy(),
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
        print(wanted, *(f"{p.name}={p.stat().st_size}" for p in sorted(HERE.glob(f"{wanted}*")) if p.suffix != ".py"))
