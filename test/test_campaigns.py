"""Small samples of the campaigns in tools/: random networks, options, PyTorch's operator database, the peer's operator tests and real networks. PyTorch's float outputs are the judge.

tools/random_networks.py, tools/options.py, tools/opinfo.py, tools/peer_ops.py and tools/real_models.py run them at full length.
"""

import os
import pathlib
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import judge  # noqa: E402
import opinfo  # noqa: E402
import options  # noqa: E402
import peer_ops  # noqa: E402
import random_networks  # noqa: E402
import real_model_list  # noqa: E402
import real_models  # noqa: E402
import small_models  # noqa: E402
from formulas import Model  # noqa: E402

SECONDS = float(os.environ.get("SWOOP_RANDOM_SECONDS", 60))


def test_random_networks():
    result = random_networks.campaign(range(1_000_000), SECONDS, reducing=False)
    print(result.line())
    assert result.networks >= 3
    assert [f"{network.text()}{verdict.line()}" for network, verdict in result.found] == []


def test_any_two_options_meet_in_a_row():
    sizes = [5, 3, 2, 2, 4]
    array = options.covering_array(sizes)
    met = {(a, row[a], b, row[b]) for row in array for a in range(5) for b in range(a)}
    assert len(met) == sum(sizes[a] * sizes[b] for a in range(5) for b in range(a))
    assert len(array) < 40 and len(small_models.MODELS) >= 40


def test_options(tmp_path):
    cases, start = options.Cases(tmp_path), time.monotonic()
    for number, (name, flags) in enumerate(options.rows()):
        if number >= 3 and time.monotonic() - start > 20:
            break
        verdict = options.tried(cases, name, flags)
        assert verdict.kind not in judge.FINDINGS, f"row {number}: {name} {' '.join(flags)}: {verdict.line()}"


def test_real_networks(tmp_path):
    """All of tools/real_models.py but the networks, whose packages are not here, and the peer, which takes minutes."""
    name = "spectrum"
    module = nn.Sequential(nn.Conv1d(1, 16, 64, 32), nn.ReLU(), nn.Conv1d(16, 4, 3), nn.Flatten(), nn.Linear(4 * 47, 3))
    real_models.write((lambda: (module, lambda i: (real_model_list.speech(0.1, i)[None],)), "none", "a test", False), tmp_path / name)
    real_models.run([name], tmp_path)
    rows = [row for row in real_models.table(tmp_path) if "swoop |" in row]
    assert len(rows) == len(real_models.TARGETS)
    for row in rows:
        regions, host, *_, sqnr, _ = [cell.strip() for cell in row.split("|")[3:-1]]
        assert (regions, host) == ("1", "none") and float(sqnr) > 25, row


def hidden_rows(m, x):
    mask = torch.zeros(1, 6, 1)
    mask[0, 2:4] = -torch.inf  # these rows look at nothing
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


INT16 = ["--precision", "int16"]
LOWEST = torch.finfo(torch.float32).min
# What campaigns found, each reduced to its cause: (name, module, shape, times, target, flags, SQNR that it reaches at least).
FOUND = [
    ("rms_norm_of_tiny_numbers", nn.RMSNorm(3), (1, 7, 3), 1e-6, "ethos-u65-256", INT16, 60),
    ("layer_norm_of_tiny_numbers", nn.LayerNorm(3), (1, 1, 5, 5, 3), 1e-6, "ethos-u55-32", INT16, 60),
    ("rms_norm_of_single_numbers", nn.RMSNorm(1), (1, 40, 1), 1, "ethos-u55-128", [], 20),
    ("quotients_of_five_dims", Model(lambda m, x: torch.softmax(x.reshape(8, 1, 4, 1, 16), -1)), (8, 1, 64), 0.1, "ethos-u55-128", INT16, 60),
    ("softmax_along_the_third_of_five_dims", Model(lambda m, x: F.softmin(x, 3)), (1, 4, 6, 3, 6), 1, "ethos-u55-256", [], 38),
    ("log_softmax_of_wide_logits", nn.LogSoftmax(-1), (1, 6, 20), 10, "ethos-u55-128", INT16, 70),
    ("softmax_of_huge_numbers", nn.Softmax(-1), (1, 6, 20), 1e6, "ethos-u85-256", INT16, 70),
    ("sigmoid_of_huge_numbers", nn.Sigmoid(), (1, 6, 20), 1e6, "ethos-u55-128", INT16, 70),
    ("names_in_a_branch", Model(lambda m, x: (torch.cond(x.amax() > 9, torch.relu, lambda x: x * 0.5, (x,)), x * 2)), (1, 3), 1, "ethos-u85-256", [], 35),
    ("gate_of_a_batch_of_pixels", nn.Sequential(nn.Conv2d(7, 7, 1), nn.Sigmoid()), (2, 7, 1, 1), 1, "ethos-u55-128", [], 35),
    ("rows_that_look_at_nothing", Model(hidden_rows), (1, 6, 8), 1, "ethos-u55-128", [], 30),
    ("mean_over_a_long_axis", Model(lambda m, x: x.mean((1, 2))), (2, 256, 400), 1, "ethos-u85-256", [], 30),
    ("cubes_of_tiny_numbers", Model(lambda m, x: x**3), (1, 6, 8), 1e-6, "ethos-u55-128", [], 30),
    ("steep_function_of_large_numbers", Model(lambda m, x: torch.sigmoid(x)), (1, 6, 8), 1e6, "ethos-u55-128", [], 15),
    ("pool_of_a_low_border", Model(lambda m, x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=LOWEST), 3, 2)), (1, 4, 8, 8), 1, "ethos-u55-128", [], 35),
    ("parts_that_are_padded", Model(lambda m, x: torch.cat([F.pad(x, (1, 1, 0, 2), value=0.5), F.pad(x, (1, 1, 0, 2), value=0.5) * 0.5], -1)), (1, 5, 2, 2), 1e-9, "ethos-u85-256", [], 35),
    ("softmax_over_planes", nn.Softmax(1), (1, 8, 12, 12), 1, "ethos-u85-256", INT16, 70),
    ("positions_of_maxima", Model(lambda m, x: F.max_pool2d(x, 3, 2, padding=1, return_indices=True)), (1, 4, 8, 8), 1, "ethos-u55-128", [], 35),
    ("places_back_from_maxima", Model(lambda m, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)), (1, 4, 8, 8), 1, "ethos-u55-128", [], 25),
]


@pytest.mark.parametrize("name, module, shape, times, target, flags, least", FOUND, ids=[case[0] for case in FOUND])
def test_what_was_found_stays_right(tmp_path, name, module, shape, times, target, flags, least):
    torch.manual_seed(0)
    judge.write_case(module.eval().requires_grad_(False), [(torch.randn(shape) * times,) for _ in range(4)], [], tmp_path)
    verdict = judge.judge(tmp_path, target, flags)
    assert verdict.kind == "right" and verdict.sqnr >= least, verdict.line()


def test_ones_that_are_weights_and_a_factor_do_not_cut(tmp_path):
    """The sum becomes a depthwise convolution with ones, of the same shape as the factor's."""
    torch.manual_seed(0)
    ones = Model(lambda m, x: (F.softplus(x[:1, :, :8] + torch.linspace(-3, 3, 8)), torch.ones(8, 1) * x.reshape(1, 16, 8, 16)))
    judge.write_case(ones, [(torch.randn(1, 16, 128),) for _ in range(4)], [], tmp_path)
    verdict = judge.judge(tmp_path, "ethos-u55-128")
    assert verdict.kind == "right" and verdict.regions == 1, verdict.line()


class Indices(nn.Module):
    """Integers that are computed and clamped, as outputs and as places in a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, i):
        return (i * 3).clamp(-4, 5), torch.clamp(i + 1, max=3), torch.clamp(i // 2, min=-1), self.table((i // 2).clamp(0, 4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_clamps_of_integers_are_kept(target, dtype, tmp_path):
    torch.manual_seed(0)
    judge.write_case(Indices().eval(), [(torch.randint(-9, 19, (2, 6), dtype=dtype),) for _ in range(4)], [], tmp_path)
    verdict = judge.judge(tmp_path, target)
    assert verdict.kind == "right" and verdict.equal == 1 and verdict.sqnr > 35, verdict.line()


def test_a_search_for_what_no_type_reaches_ends(tmp_path):
    """x / |x|: where |x| rounds to 0, the forecast divides by 0."""
    torch.manual_seed(0)
    signs = Model(lambda m, x: torch.stack([x / x.abs(), x], 1))
    judge.write_case(signs, [(torch.randn(1, 16, 17),) for _ in range(4)], [], tmp_path)
    verdict = judge.judge(tmp_path, "ethos-u65-512", ["--min-sqnr", "60"], timeout=60)
    assert verdict.kind == "refused" and "is the best that was reached" in verdict.text


class Rectified(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), x.argmax(-1)


def judged(folder, golden):
    """The module above, compared with what `golden` says PyTorch would give."""
    torch.manual_seed(0)
    samples = [(torch.randn(1, 8),) for _ in range(4)]
    judge.write_case(Rectified(), samples, [], folder)
    inputs = np.load(folder / "calibrate.npz")["x"]
    np.savez(folder / "calibrate_golden.npz", **golden(inputs))
    return judge.judge(folder, "ethos-u55-128")


def test_the_judge_sees_wrong_numbers(tmp_path):
    right = judged(tmp_path / "right", lambda x: {"out0": x.clip(0), "out1": x.argmax(-1)})
    assert right.kind == "right" and right.sqnr > 35 and right.equal == 1
    wrong = judged(tmp_path / "wrong", lambda x: {"out0": x.clip(0) * 1.2, "out1": x.argmax(-1)})
    assert wrong.kind == "low" and wrong.sqnr < 20 and "the summary says" in wrong.text
    other = judged(tmp_path / "other", lambda x: {"out0": x.clip(0), "out1": x.argmin(-1)})
    assert other.kind == "low" and "integer" in other.text


def test_the_reducer_leaves_what_is_needed(monkeypatch):
    """The finding stands as long as there is a tanh."""

    def verdict_of(network, folder, timeout=60):
        return judge.Verdict("low" if "torch.tanh" in network.source() else "right")

    monkeypatch.setattr(random_networks, "verdict_of", verdict_of)
    Step = random_networks.Step
    steps = (Step("v0", "self.m0({0})", ("x0",), (("m0", "nn.Linear(4, 6)"),)), Step("v1", "torch.tanh({0})", ("v0",)), Step("v2", "{0} + {1}", ("v1", "v0")), Step("v3", "{0}.sum(-1)", ("v2",)))
    network = random_networks.Network(0, (random_networks.Input("x0", (1, 4), "real", 1e3),), steps, ("v3", "v0"), "ethos-u55-128", (("--strip",),), True)
    small, _ = random_networks.reduce(network, judge.Verdict("low"))
    assert [s.text() for s in small.steps] == ["v1 = torch.tanh(in_v0)"] and small.outputs == ("v1",)
    assert small.flags == () and not small.decompose


def test_operator_database(tmp_path):
    opinfo.make(tmp_path, samples=1, every=25)
    cases = opinfo.cases_of(tmp_path)
    results = judge.run_cases(cases, "ethos-u85-256", tmp_path / "results-ethos-u85-256.jsonl")
    compiled = {name: v for name, v in results.items() if v.regions is not None}
    assert len(results) >= 10 and len(compiled) >= 0.5 * len(results)
    assert {name: v.line() for name, v in results.items() if v.kind in judge.FINDINGS or (name in compiled and not judge.correct(v))} == {}
    assert any("ethos-u85-256" in line for line in opinfo.table(tmp_path))


def test_peer_operator_tests(tmp_path):
    pytest.importorskip("executorch.backends.arm.test.ops", reason="the peer executorch is not installed (tools/setup.sh test)")
    counts = peer_ops.make(tmp_path, files=25, every=10)
    assert counts["u55"] and counts["u85"], counts
    peer_ops.run(tmp_path, None)
    for kind in ("u55", "u85"):
        results = judge.read_results(tmp_path / f"results-{kind}.jsonl")
        # Some of these tests feed zeros alone, which say nothing of a range: the sentence that refuses them is right.
        results = {name: v for name, v in results.items() if "says nothing of its range" not in v.line()}
        assert {name: v.line() for name, v in results.items() if not judge.correct(v)} == {}
        assert sum(map(judge.whole, results.values())) >= 0.8 * len(results)
