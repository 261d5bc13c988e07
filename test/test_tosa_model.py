"""`swoop compile x.tosa`: what the finished .pte gives is what the TOSA reference model makes of the file, bit for bit; broken files get a sentence."""

import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

reference = pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")
ts = pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")

import tosa_graphs  # noqa: E402
from tosa_graphs import I8, I32, I48, Graph  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SWOOP = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve() / "swoop"
MODELS = ROOT / "test" / "models"


def swoop(*arguments, code=0):
    done = subprocess.run([SWOOP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def as_output(g, tensor):
    g.ser.addOutputTensor(ts.TosaSerializerTensor(tensor.name, tensor.shape, tensor.dtype, []))


def check(tosa, target, feeds=None, host_ops={}):
    """Compiles a file, runs it on `feeds` (else on random codes) and compares it with the reference model."""
    pte, folder = tosa.with_suffix(".pte"), tosa.parent
    summary = json.loads(swoop("compile", tosa, "-t", target, "-o", pte, "--json"))
    assert summary["accuracy"]["bit_exact"] and summary["accuracy"]["samples_kind"] == "random"
    assert len(summary["regions"]) == 1 and summary["host_ops"] == host_ops
    if feeds is None:
        rng = np.random.default_rng(1)
        feeds = [rng.integers(-128, 128, port["shape"]).astype(port["dtype"]) for port in summary["inputs"]]
    np.savez(folder / "in.npz", **{port["name"]: feed for port, feed in zip(summary["inputs"], feeds, strict=True)})
    swoop("run", pte, "-i", folder / "in.npz", "-o", folder / "out.npz")
    expected, status = reference.run(tosa.read_bytes(), feeds, verbosity="NONE")
    assert status == reference.GraphStatus.TOSA_VALID
    ours = np.load(folder / "out.npz")
    for i, wanted in enumerate(expected):
        np.testing.assert_array_equal(ours[f"out{i}"].reshape(wanted.shape), wanted)
    assert len(ours.files) == len(expected)
    return summary


@pytest.mark.parametrize("name, target", [
    ("resnet8", "ethos-u55-128"), ("dscnn", "ethos-u85-256"), ("layernorm", "ethos-u65-256"),
    ("autoencoder", "ethos-u55-32"), ("seqcnn9", "ethos-u85-2048")])
def test_our_own_files_come_back(name, target, tmp_path):
    swoop("compile", MODELS / f"{name}_int8.pt2", "--target", "tosa", "-o", tmp_path / "x.tosa", "-q")
    summary = check(tmp_path / "x.tosa", target)
    layers = summary["regions"][0]["layers"]
    assert sum(layer["cycles"] for layer in layers) > 0 and all(layer["name"] for layer in layers)


def test_ports_are_the_files(tmp_path):
    """An input that nothing reads, an output that is there twice, one that is an input, and one that is a constant."""
    g = Graph(5)
    x, unread, through = g.input([1, 4, 8]), g.input([3]), g.input([1, 2])
    constant = g.const([5], I8, np.arange(5, dtype=np.int8))
    twice = g.operator("ABS", [g.operator("CAST", [x], [1, 4, 8], I32, "Cast")], [1, 4, 8], I32, "Abs")
    for tensor in (twice, twice, through, constant):
        as_output(g, tensor)
    (tmp_path / "x.tosa").write_bytes(g.ser.serialize())
    summary = check(tmp_path / "x.tosa", "ethos-u85-256", g.feeds, {"aten::clone": 1})  # of the constant
    assert [port["name"] for port in summary["inputs"]] == [x.name, unread.name, through.name]


def test_made_up_indices_are_inside_and_others_can_be_given(tmp_path):
    g = Graph(6)
    values, indices = g.input([1, 6, 16]), g.input([1, 3], I32, 0, 5)
    g.operator("GATHER", [values, indices], [1, 3, 16], I8, "Gather")
    (tmp_path / "x.tosa").write_bytes(g.finish())
    check(tmp_path / "x.tosa", "ethos-u85-256", g.feeds)
    np.savez(tmp_path / "bad.npz", **{values.name: g.feeds[0], indices.name: g.feeds[1] + 6})
    assert "index" in swoop("compile", tmp_path / "x.tosa", "-t", "ethos-u85-256", "-c", tmp_path / "bad.npz", "-o", tmp_path / "y.pte", code=1)
    assert not (tmp_path / "y.pte").exists()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "x.tosa"
    swoop("compile", MODELS / "layernorm_int8.pt2", "--target", "tosa", "-o", path, "-q")
    return path


def without_operators():
    g = Graph(1)
    as_output(g, g.input([2]))
    return g.ser.serialize()


def wide_output():
    g = Graph(2)
    x, w, zero = g.input([1, 2, 2, 8], tosa_graphs.I16), g.const([8, 1, 1, 8], I8, np.ones(64, np.int8)), g.one(I8, 0)
    bias, zero16 = g.const([8], I48, np.zeros(8, np.int64)), g.one(tosa_graphs.I16, 0)
    g.operator("CONV2D", [x, w, bias, zero16, zero], [1, 2, 2, 8], I48, "Conv2d", [0, 0, 0, 0], [1, 1], [1, 1], False, I48)
    return g.finish()


def of_floats():
    ser = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)
    x = ts.TosaSerializerTensor("x", [2], ts.DType.FP32, [])
    ser.addInputTensor(x)
    ser.addOutputTensor(x)
    return ser.serialize()


@pytest.mark.parametrize("make, sentence", [
    (lambda good: b"", "not a .tosa file, or it is damaged"),
    (lambda good: b"TOSA" * 100, "not a .tosa file, or it is damaged"),
    (lambda good: good[:8], "not a .tosa file, or it is damaged"),
    (lambda good: good[:-40], "not a .tosa file, or it is damaged"),
    (lambda good: good[:4] + b"ASOT" + good[8:], "not a .tosa file, or it is damaged"),
    (lambda good: without_operators(), "nothing in it computes an output"),
    (lambda good: wide_output(), "regor threw: Non-passthrough operation (Conv2D) could not run on NPU"),
    (lambda good: of_floats(), "FP32, which the integer profile does not have"),
], ids=["empty", "garbage", "head", "truncated", "identifier", "no operators", "i48", "float"])
def test_a_broken_file_gets_a_sentence(make, sentence, good, tmp_path):
    (tmp_path / "x.tosa").write_bytes(make(good.read_bytes()))
    said = swoop("compile", tmp_path / "x.tosa", "-o", tmp_path / "x.pte", code=1)
    assert sentence in said and "x.tosa" in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["x.tosa"]


def test_a_changed_byte_does_no_harm(good, tmp_path):
    """Anywhere in the file: it is compiled and checked as what it now is, or refused."""
    data, chance = good.read_bytes(), random.Random(7)
    codes = []
    for i in range(24):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (tmp_path / f"{i}.tosa").write_bytes(changed)
        done = subprocess.run([SWOOP, "compile", tmp_path / f"{i}.tosa", "-o", tmp_path / f"{i}.pte"], capture_output=True, text=True, timeout=120)
        codes.append(done.returncode)
        assert done.returncode in (0, 1), done.stderr
        assert (tmp_path / f"{i}.pte").exists() == (done.returncode == 0) and (done.returncode == 0 or f"{i}.tosa" in done.stderr)
    assert {0, 1} == set(codes), "both happen"


@pytest.mark.parametrize("flags, sentence", [
    (["--precision", "int16"], "--precision"), (["--io", "int8"], "--io"), (["--min-sqnr", "30"], "--min-sqnr"),
    (["--stop-after", "clean"], "--stop-after clean")], ids=str)
def test_flags_without_an_effect_are_refused(flags, sentence, good, tmp_path):
    assert sentence in swoop("compile", good, *flags, "-o", tmp_path / "x.pte", code=1)
    assert not (tmp_path / "x.pte").exists()


def test_other_commands_say_where_to_go(good):
    assert "quantized already" in swoop("accuracy", good, "-c", "random:0", code=1)
    assert "CONV2D" in swoop("compile", good, "--stop-after", "lower") or "RESCALE" in swoop("compile", good, "--stop-after", "lower")
