"""Attention with a mask that comes at run time: as good as PyTorch's, and what is masked cannot be seen in the result."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import judge  # noqa: E402

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


class Scores(Booleans):
    """Attention written out; `given` makes the model's input of the booleans."""

    def forward(self, x, keep):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / WIDTH**0.5
        return torch.softmax(scores + self.mask(keep), -1) @ self.v(x)


class TimesTenThousand(Scores):
    def mask(self, keep):
        return ((1.0 - keep) * -10000.0)[:, None]

    @staticmethod
    def given(keep):
        return keep.float()


class Subtracted(TimesTenThousand):
    def forward(self, x, keep):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / WIDTH**0.5
        return torch.softmax(scores - 1e6 * (1.0 - keep[:, None]), -1) @ self.v(x)


class TimesLowest(TimesTenThousand):
    def mask(self, keep):
        return ((1.0 - keep) * torch.finfo(torch.float32).min)[:, None]


class FilledWithLowest(TimesTenThousand):
    def mask(self, keep):
        drop = 1.0 - keep
        return drop.masked_fill(drop.to(torch.bool), torch.finfo(torch.float32).min)[:, None]


class Infinities(Scores):
    def mask(self, keep):
        return keep[:, None]

    @staticmethod
    def given(keep):
        return torch.zeros(keep.shape).masked_fill(~keep, float("-inf"))


def samples(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, LENGTH, WIDTH, generator=generator)
    lengths = torch.randint(4, LENGTH - 2, (count, 1, 1), generator=generator)
    return x, torch.arange(LENGTH).expand(count, 1, LENGTH) < lengths


def run(program, x, mask, folder):
    np.savez(folder / "in.npz", x=x.numpy(), keep=mask.numpy())
    subprocess.run([SWOOP, "run", program, "--inputs", folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
    return np.load(folder / "out.npz")["out0"]


def compiled(kind, target, folder):
    torch.manual_seed(0)
    model = kind().eval()
    given = getattr(kind, "given", lambda keep: keep)
    x, keep = samples(16, seed=1)
    mask = given(keep)
    torch.export.save(torch.export.export(model, (x[0], mask[0])), folder / "model.pt2")
    np.savez(folder / "samples.npz", x=x.numpy(), keep=mask.numpy())
    program = folder / "model.pte"
    command = [SWOOP, "compile", folder / "model.pt2", "-c", folder / "samples.npz", "-t", target, "-o", program, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return model, given, program, json.loads(done.stdout)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("kind", [Booleans, Floats, PaddingMask, TimesTenThousand, Subtracted, TimesLowest, FilledWithLowest, Infinities])
def test_what_is_masked_counts_for_nothing(kind, target, tmp_path):
    model, given, program, summary = compiled(kind, target, tmp_path)
    x, keep = samples(8, seed=2)
    with torch.no_grad():
        expected = torch.stack([model(*pair) for pair in zip(x, given(keep))]).numpy()
    result = run(program, x, given(keep), tmp_path)
    sqnr = 10 * np.log10(np.sum(expected**2) / np.sum((expected - result) ** 2))
    assert sqnr > 28, f"{sqnr:.1f} dB"  # 3 to 11 dB where the mask is ignored or makes the range

    hidden = ~keep[..., None]
    changed = run(program, torch.where(hidden, -x, x), given(keep), tmp_path)
    rows = keep.numpy()
    assert np.array_equal(result[rows], changed[rows]) and not np.array_equal(result, changed)
    if kind is not FilledWithLowest:  # its mask is made of what the NPU computes
        assert summary["delegates"] == 1, "the mask is ready before the NPU starts"


HIDDEN = {
    "filled": lambda scores, keep: scores.masked_fill(~keep, -1e9),
    "added": lambda scores, keep: scores + (1.0 - keep.float()) * -1e9,
}
SHOWN = {"scores": lambda y: y, "log_softmax": lambda y: torch.log_softmax(y, -1), "best": lambda y: y.argmax(-1), "both": lambda y: (y, y.argmax(-1))}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_scores_beside_hidden_ones_keep_their_range(hidden, shown, target, tmp_path):
    """Actions that are not allowed: -1e9 in their places must not cost the others their codes."""

    class Policy(Booleans):
        def forward(self, x, keep):
            return SHOWN[shown](HIDDEN[hidden](4 * self.q(x)[..., :LENGTH], keep[..., None, :].expand(1, LENGTH, LENGTH)))

    torch.manual_seed(0)
    model = Policy().eval()
    x, keep = samples(16, seed=1)
    keep[0] = False  # nothing is allowed
    judge.write_case(model, list(zip(x, keep)), [], tmp_path)
    verdict = judge.judge(tmp_path, target)
    assert verdict.kind == "right" and (verdict.equal or 1) > 0.9, verdict.line()
    if shown == "best":
        return
    program = tmp_path / "model.pte"
    subprocess.run([SWOOP, "compile", tmp_path / "model.pt2", "-c", tmp_path / "calibrate.npz", "-t", target, "-o", program], check=True, capture_output=True)
    expected, result = np.load(tmp_path / "calibrate_golden.npz")["out0"], run(program, x, keep, tmp_path)
    seen = expected > -1e8
    assert judge.sqnr_db([expected[seen]], [result[seen]]) > 30
    assert np.array_equal(result[~seen], expected[~seen])


@pytest.mark.parametrize("kind", [Booleans, Floats])
def test_a_row_that_is_masked_as_a_whole_is_zero(kind, tmp_path):
    model, given, program, _ = compiled(kind, "ethos-u85-256", tmp_path)
    x, keep = samples(1, seed=3)
    keep[:] = False
    with torch.no_grad():
        expected = model(x[0], keep[0]).numpy()
    assert np.abs(run(program, x, keep, tmp_path)[0] - expected).max() < 0.02
