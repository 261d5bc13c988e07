"""Products of two computed matrices on U55 and U65, as convolutions whose weights the NPU writes itself: the same bits, far fewer cycles, and weights that
Arm's own decoder reads."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")
from formulas import Model, compiled, sqnr_db  # noqa: E402
from npu_graphs import I8, I16, I32, Graph  # noqa: E402
from test_tosa_model import check  # noqa: E402

nn = torch.nn
ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve() / "swoop_test_tool"


def product(heads, rows, depth, channels, turned=False, out=I16, lowest=-127):
    """A MATMUL of two inputs; the second one is clamped."""
    g = Graph()
    a = g.clamp(g.input([heads, rows, depth]), -128, 126)
    b = g.clamp(g.input([heads, channels, depth] if turned else [heads, depth, channels]), lowest, 127)
    y = g.matmul(a, g.transpose(b, [0, 2, 1]) if turned else b)
    g.output(g.rescale(y, out, 2.0**-9) if out else y)
    return g


def built(g, target, folder):
    (folder / "x.tosa").write_bytes(g.bytes())
    summary = check(folder / "x.tosa", target)  # equal to the reference model, bit for bit
    return summary["regions"][0]["computed_products"], summary["totals"]["total_cycles"]


CASES = {  # heads, rows, depth, channels, turned, result
    "keys": (3, 37, 64, 37, True, I16),
    "values, as sums": (3, 37, 37, 64, False, I32),
    "no scale at all": (2, 50, 80, 33, False, None),
    "eight channels": (4, 90, 45, 8, True, I8),
    "one head, a part more than a multiple": (1, 70, 17, 25, False, I8),
    "deep: two slices of weights": (1, 40, 1100, 24, False, I8),
    "wide: two tensors of streams": (1, 60, 16, 600, True, I16),
    "parts, with scales of their own": (1, 50, 64, 50, True, I16),
}


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize("case", CASES)
def test_the_result_is_the_reference_models(case, target, tmp_path):
    products, _ = built(product(*CASES[case]), target, tmp_path)
    assert products == 1


@pytest.mark.parametrize("why, options, target", [
    ("-128 has no code as a weight", {"lowest": -128}, "ethos-u55-128"),
    ("two cores read two streams", {}, "ethos-u65-512"),
    ("the core has products", {}, "ethos-u85-256")])
def test_other_products_stay_as_they_are(why, options, target, tmp_path):
    products, _ = built(product(2, 40, 64, 40, **options), target, tmp_path)
    assert products == 0, why


def test_a_grid_that_was_turned_is_not_turned_back(tmp_path):
    """Every place of a grid by every place of another: of two transposes, one after the other, regor made one that reads other bytes."""
    g = Graph()
    a, b = (g.clamp(g.input([1, 10, 10, 24]), -127, 127) for _ in range(2))
    turned = g.reshape(g.transpose(g.reshape(b, [100, 24]), [1, 0]), [1, 24, 100])
    g.output(g.rescale(g.matmul(g.reshape(a, [1, 100, 24]), turned), I32, 1.0))
    assert built(g, "ethos-u55-128", tmp_path)[0] == 1


def test_few_rows_are_not_worth_it(tmp_path):
    assert built(product(1, 2, 64, 64), "ethos-u55-128", tmp_path)[0] == 0


def test_cycles(tmp_path):
    """Against the same product with an operand that may be -128."""
    (_, fast), (_, slow) = (built(product(1, 100, 64, 100, True, lowest=lowest), "ethos-u55-128", tmp_path) for lowest in (-127, -128))
    assert fast < slow / 5


def test_arms_decoder_reads_the_weights_that_were_written(tmp_path):
    codec = pytest.importorskip("ethosu.mlw_codec", reason="Vela is not installed (tools/setup.sh test)")
    heads, depth, channels = 2, 40, 24
    built(product(heads, 30, depth, channels, True), "ethos-u55-128", tmp_path)
    file = (tmp_path / "x.pte").read_bytes()
    end = b"vela_end_stream"
    blob = file[file.index(b"vela_bin_stream"):file.index(end) + 32]
    (tmp_path / "x.blob").write_bytes(blob)
    feeds = np.load(tmp_path / "in.npz")
    (tmp_path / "x.in").write_bytes(b"".join(feeds[name].tobytes() for name in feeds.files))
    lines = subprocess.run([TOOL, "weights", tmp_path / "x"], capture_output=True, text=True, check=True).stdout.split()
    assert len(lines) == heads
    weights = np.zeros([heads, 32, 64], np.int8)  # eight outputs of zeros, then the matrix; 32 inputs at a time
    weights[:, 8:, :depth] = np.maximum(feeds[feeds.files[1]], -127)
    for line, head in zip(lines, weights, strict=True):
        expected = head.reshape(4, 8, 2, 4, 8).transpose(2, 0, 3, 1, 4)  # blocks of inputs, rows, groups of inputs, outputs, inputs
        decoded = np.array(codec.decode(bytearray.fromhex(line))).reshape(expected.shape)
        np.testing.assert_array_equal(decoded[0], expected[0])
        np.testing.assert_array_equal(decoded[1, 1:], expected[1, 1:])  # what the first eight outputs weigh there does not matter


def attention(self, x):
    q, k, v = self.qkv(x).reshape(1, 48, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 48, 64))


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_attention_gains_and_stays_as_exact(precision, tmp_path):
    torch.manual_seed(1)
    model = Model(attention, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64))
    x = torch.randn(6, 1, 48, 64)
    figures = {}
    for name, flags in [("fast", []), ("slow", ["--optimise", "Size"])]:
        summary = compiled(model, x, "ethos-u55-128", tmp_path, "--precision", precision, *flags)
        assert summary["accuracy"]["bit_exact"] and len(summary["regions"]) == 1
        figures[name] = summary["totals"]["total_cycles"], sqnr_db(model, x, tmp_path), summary["regions"][0]["computed_products"]
    (fast, fast_db, products), (slow, slow_db, none) = figures["fast"], figures["slow"]
    assert products >= 2 and none == 0
    assert fast < (0.5 if precision == "int8" else 0.6) * slow
    assert fast_db == pytest.approx(slow_db, abs=0.01), "the same numbers, by another way"


def test_the_layers_of_a_product_can_be_looked_at(tmp_path):
    torch.manual_seed(1)
    model = Model(attention, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64))
    compiled(model, torch.randn(3, 1, 48, 64), "ethos-u55-128", tmp_path, "--precision", "int8")
    done = subprocess.run([TOOL.parent / "swoop", "run", "model.pte", "-i", "samples.npz", "--layers", "--model", "model.pt2", "--json"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    layers = json.loads(done.stdout)["layers"]
    assert any("attention" in layer["name"] for layer in layers)
