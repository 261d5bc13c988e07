"""Attention with a mask that comes at run time: as good as PyTorch's, and what is masked cannot be seen in the result."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
LENGTH, WIDTH = 12, 16


class Booleans(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def mask(self, keep):
        return keep[:, None]

    def forward(self, x, keep):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=self.mask(keep))


class Floats(Booleans):
    def mask(self, keep):
        return torch.zeros_like(keep, dtype=torch.float32).masked_fill(~keep, float("-inf"))[:, None]


class PaddingMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x, keep):
        return self.attention(x, x, x, key_padding_mask=~keep, need_weights=False)[0]


def samples(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, LENGTH, WIDTH, generator=generator)
    lengths = torch.randint(4, LENGTH - 2, (count, 1, 1), generator=generator)
    return x, torch.arange(LENGTH).expand(count, 1, LENGTH) < lengths


def run(program, x, keep, folder):
    np.savez(folder / "in.npz", x=x.numpy(), keep=keep.numpy())
    subprocess.run([SWOOP, "run", program, "--inputs", folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
    return np.load(folder / "out.npz")["out0"]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("kind", [Booleans, Floats, PaddingMask])
def test_what_is_masked_counts_for_nothing(kind, target, tmp_path):
    torch.manual_seed(0)
    model = kind().eval()
    x, keep = samples(16, seed=1)
    torch.export.save(torch.export.export(model, (x[0], keep[0])), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=x.numpy(), keep=keep.numpy())
    program = tmp_path / "model.pte"
    command = [SWOOP, "compile", tmp_path / "model.pt2", "-c", tmp_path / "samples.npz", "-t", target, "-o", program, "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    x, keep = samples(8, seed=2)
    with torch.no_grad():
        expected = torch.stack([model(*pair) for pair in zip(x, keep)]).numpy()
    result = run(program, x, keep, tmp_path)
    sqnr = 10 * np.log10(np.sum(expected**2) / np.sum((expected - result) ** 2))
    assert sqnr > 28, f"{sqnr:.1f} dB"  # 3 to 6 dB where the mask is ignored

    hidden = ~keep[..., None]
    changed = run(program, torch.where(hidden, -x, x), keep, tmp_path)
    rows = keep.numpy()
    assert np.array_equal(result[rows], changed[rows]) and not np.array_equal(result, changed)
