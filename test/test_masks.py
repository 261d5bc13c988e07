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


# ---- spellings that ask for minus infinity or NaN, and masks that are made of several


def heads(x):
    return x.view(1, LENGTH, 4, WIDTH // 4).transpose(1, 2)


class Pairs(Booleans):
    """Padded rows are masked as a whole, as they are in batches."""

    def parts(self, x, keep):
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        return q, k, v, q @ k.transpose(-1, -2) / 2, keep[:, None, :, None] & keep[:, None, None, :]


class ZeroRows(Pairs):
    def forward(self, x, keep):
        q, k, v, _, pairs = self.parts(x, keep)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=pairs)


class NanToZero(Pairs):
    def forward(self, x, keep):
        _, _, v, scores, pairs = self.parts(x, keep)
        return torch.nan_to_num((scores + torch.where(pairs, 0.0, float("-inf"))).softmax(-1) @ v)


class ChosenRows(Pairs):
    def forward(self, x, keep):
        _, _, v, scores, pairs = self.parts(x, keep)
        shares = scores.masked_fill(~pairs, float("-inf")).softmax(-1)
        return torch.where(pairs.any(-1, keepdim=True), shares, torch.zeros(())) @ v


class InfiniteRows(Pairs):
    def forward(self, x, keep):
        _, _, v, scores, pairs = self.parts(x, keep)
        scores = scores.masked_fill(~pairs, float("-inf"))
        return scores.masked_fill(scores.isinf().all(-1, keepdim=True), 0.0).softmax(-1) @ v


class Sliding(Pairs):
    def forward(self, x, keep):
        q, k, v, _, _ = self.parts(x, keep)
        ahead = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=((ahead >= 0) & (ahead < 4))[None, None] & keep[:, None, None])


class PaddedTriangle(Pairs):
    """Text models: the lowest float above the diagonal, and wherever what is left plus the padding's ones is 0."""

    def forward(self, x, keep):
        _, _, v, scores, _ = self.parts(x, keep)
        lowest = torch.finfo(torch.float32).min
        mask = torch.triu(torch.full((LENGTH, LENGTH), lowest), 1)[None, None]
        return (scores + mask.masked_fill((mask + keep[:, None, None].long()) == 0, lowest)).softmax(-1) @ v


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True, dropout=0.0)

    def forward(self, x, keep):
        padding = torch.zeros(1, LENGTH).masked_fill(~keep, float("-inf"))
        return self.layer(x, src_mask=nn.Transformer.generate_square_subsequent_mask(LENGTH), is_causal=True, src_key_padding_mask=padding)


@pytest.mark.parametrize("decompose", [False, True])
@pytest.mark.parametrize("kind", [ZeroRows, NanToZero, ChosenRows, InfiniteRows, Sliding, PaddedTriangle, Encoder])
def test_masks_that_ask_for_infinities_or_have_several_parts(kind, decompose, tmp_path):
    torch.manual_seed(0)
    model = kind().eval()
    parts = [[(x, keep) for x, keep in zip(*samples(count, seed))] for count, seed in ((16, 1), (8, 2))]
    judge.write_case(model, *parts, tmp_path, decompose=decompose)
    target = "ethos-u55-128" if decompose else "ethos-u85-256"
    verdict = judge.judge(tmp_path, target)
    assert verdict.kind == "right" and verdict.held_out > 28 and verdict.regions == 1, verdict.line()  # 2 to 20 dB before

    program = tmp_path / "model.pte"
    subprocess.run([SWOOP, "compile", tmp_path / "model.pt2", "-c", tmp_path / "calibrate.npz", "-t", target, "-o", program], check=True, capture_output=True)
    x, keep = samples(8, seed=2)
    shown, changed = (run(program, values, keep, tmp_path) for values in (x, torch.where(keep[..., None], x, -x)))
    if shown.ndim == 5:
        shown, changed = shown.transpose(0, 1, 3, 2, 4), changed.transpose(0, 1, 3, 2, 4)
    assert np.array_equal(shown[keep.numpy()], changed[keep.numpy()])
