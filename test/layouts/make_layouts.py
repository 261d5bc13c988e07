"""Writes torch-VERSION.pt2 and torch-VERSION.npz beside this file with the PyTorch that runs it: the archive's layout changed from
release to release, and these are real files of each. test/test_import.py reads them all.

    python -m venv old && old/bin/pip install torch==2.9.1 numpy && old/bin/python test/layouts/make_layouts.py
"""

import pathlib

import numpy as np
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

QDQ = torch.ops.quantized_decomposed


class Layouts(nn.Module):
    """What the archive stores in ways of its own: views of one storage, tied and non-persistent tensors, constants, a buffer that
    changes, subgraphs, results in lists, in-place operators, default arguments, q/dq pairs."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def numbers(*shape):
            return torch.randn(*shape, generator=generator)

        base = numbers(6, 8)
        self.rows = nn.Parameter(base[2:5, 1:5])
        self.turned = nn.Parameter(base.t())
        self.tied = self.turned
        self.weight = nn.Parameter(numbers(4, 3, 3, 3).to(memory_format=torch.channels_last))
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("codes", torch.randint(-127, 128, (5, 4), dtype=torch.int8, generator=generator))
        self.register_buffer("scales", torch.rand(5, generator=generator) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
        self.register_buffer("passing", torch.full((1, 1), 0.5).expand(3, 4), persistent=False)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        y = self.norm(nn.functional.conv2d(x, self.weight, padding=1)).relu_()
        left, right = torch.split(y.mean((2, 3)), 2, dim=1)
        z = torch.cat([right, left], 1) @ self.rows.t() @ (self.rows + self.passing)
        z = z + torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.turned.sum() * self.tied.mean() + self.calls
        z = torch.cond(z.sum() > 0, lambda v: v.sin(), lambda v: v.cos() + 1, (z,))
        q = QDQ.dequantize_per_tensor(QDQ.quantize_per_tensor(z, 0.05, 3, -128, 127, torch.int8), 0.05, 3, -128, 127, torch.int8)
        return nn.functional.linear(q, QDQ.dequantize_per_channel(self.codes, self.scales, self.zeros, 0, -127, 127, torch.int8)), left


def main():
    x = torch.randn(1, 3, 6, 5, generator=torch.Generator().manual_seed(1))
    module = Layouts().eval()
    version = torch.__version__.split("+")[0]
    path = pathlib.Path(__file__).with_name(f"torch-{version}.pt2")
    torch.export.save(torch.export.export(module, (x,)), path)
    with torch.no_grad():
        results = module(x)
    np.savez(path.with_suffix(".npz"), x=x.numpy(), calls=module.calls.numpy(), **{f"result{i}": r.numpy() for i, r in enumerate(results)})
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
