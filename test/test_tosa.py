"""The integer interpreter against the TOSA reference model: random graphs of every operator, bit for bit.

The files are written by the peer's serializer, read by ours, and run as they are and again after our writer.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

reference = pytest.importorskip(
    "tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)"
)
ts = pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")

import tosa_graphs  # noqa: E402
from tosa_graphs import BOOL, I8, I32, Graph, Tensor  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"
CASES = {"two_step": 40, "rescale": 30, "conv2d": 20, "depthwise_conv2d": 20, "resize": 20, "mul": 20}  # others 10 each
VALID = reference.GraphStatus.TOSA_VALID


class Ours:
    """One process that runs files, so that a case costs no start."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen([TOOL, "tosa-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, flatbuffer, feeds, outputs, *flags):
        path = self.folder / "case.tosa"
        path.write_bytes(flatbuffer)
        words = [str(path), *flags]
        for i, feed in enumerate(feeds):
            np.save(self.folder / f"in{i}.npy", feed)
            words += ["-i", str(self.folder / f"in{i}.npy")]
        for i in range(outputs):
            words += ["-o", str(self.folder / f"out{i}.npy")]
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            return answer
        return [np.load(self.folder / f"out{i}.npy") for i in range(outputs)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built (SWOOP_BUILD names the build folder)")
    made = Ours(tmp_path_factory.mktemp("tosa"))
    yield made
    made.process.stdin.close()
    assert made.process.wait(10) == 0


def compare(ours, flatbuffer, feeds):
    """True if the reference model calls the result valid; ours must then be equal, and refuse to answer otherwise."""
    expected, status = reference.run(flatbuffer, feeds, verbosity="NONE")
    count = max(len(expected), 1)
    for flags in ([], ["--rewrite"]):
        actual = ours.run(flatbuffer, feeds, count, *flags)
        if status != VALID:
            assert isinstance(actual, str), f"the reference model says {status}, ours computes"
            continue
        assert isinstance(actual, list), actual
        for a, e in zip(actual, expected):
            assert a.dtype == e.dtype
            assert list(a.shape) == list(e.shape)
            np.testing.assert_array_equal(a, e)
    return status == VALID


@pytest.mark.parametrize("family,seed", [(f, s) for f in tosa_graphs.FAMILIES for s in range(CASES.get(f, 10))])
def test_equals_reference_model(ours, family, seed):
    g = Graph([seed, *family.encode()])
    tosa_graphs.FAMILIES[family](g)
    assert compare(ours, g.finish(), g.feeds), "the graph is meant to be valid"


def overflow(op, attribute, values, **more):
    g = Graph(1)
    x = g.input([len(values)], I32)
    g.feeds[0] = np.array(values, np.int32)
    operands = [x] if more.get("unary") else [x, x]
    g.operator(
        op, operands, [1] if more.get("axis") is not None else x.shape, I32, attribute, *more.get("arguments", ())
    )
    return g


@pytest.mark.parametrize(
    "g",
    [
        pytest.param(lambda: overflow("ADD", "Add", [2**30]), id="add"),
        pytest.param(
            lambda: overflow("REDUCE_SUM", "ReduceSum", [2**30, 2**30], unary=True, axis=0, arguments=(0,)),
            id="reduce_sum",
        ),
        pytest.param(lambda: overflow("LOGICAL_LEFT_SHIFT", "LogicalLeftShift", [32]), id="shift"),
    ],
)
def test_refuses_what_the_specification_forbids(ours, g):
    made = g()
    assert not compare(ours, made.finish(), made.feeds)


def test_division_by_zero_is_refused(ours):
    made = overflow("INTDIV", "IntDiv", [5, 0])  # the reference model itself dies of it
    assert "division by zero" in ours.run(made.finish(), made.feeds, 1)


def test_gather_outside_its_values_is_refused(ours):
    g = Graph(2)
    values, indices = g.input([1, 3, 2], I8), g.input([1, 2], I32, 3, 3)
    g.operator("GATHER", [values, indices], [1, 2, 2], I8, "Gather")
    assert not compare(ours, g.finish(), g.feeds)


def region(ser, name, inputs, body):
    """A region whose body adds operators and returns the names of its outputs."""
    ser.startRegion(name, "")
    ser.addBasicBlock(name)
    for tensor in inputs:
        ser.addInputTensor(ts.TosaSerializerTensor(tensor.name, tensor.shape, tensor.dtype, []))
    ser.addOutputTensor(body())


@pytest.mark.parametrize("taken", [False, True])
def test_cond_if_takes_the_right_branch(ours, taken):
    g = Graph(3)
    condition = g.input([1], BOOL)
    g.feeds[0] = np.array([taken])
    x = g.input([4], I32, -1000, 1000)
    g.operator("COND_IF", [condition, x], [4], I32, "CondIf", "yes", "no")
    g.ser.addOutputTensor(g.last)
    inner = Tensor("x", [4], I32)

    def body(op, attribute):
        def add():
            one = g.const([4], I32, np.arange(4, dtype=np.int32))
            g.operator(op, [inner, one], [4], I32, attribute)
            return g.last

        return add

    region(g.ser, "yes", [inner], body("ADD", "Add"))
    region(g.ser, "no", [inner], body("SUB", "Sub"))
    assert compare(ours, g.ser.serialize(), g.feeds)


def test_while_loop_counts(ours):
    g = Graph(4)
    x = g.input([1], I32, 0, 0)
    g.operator("WHILE_LOOP", [x], [1], I32, "WhileLoop", "cond", "body")
    g.ser.addOutputTensor(g.last)
    inner = Tensor("x", [1], I32)

    def cond():
        limit = g.const([1], I32, np.array([10], np.int32))
        g.operator("GREATER", [limit, inner], [1], BOOL, "Greater")
        return g.last

    def body():
        three = g.const([1], I32, np.array([3], np.int32))
        g.operator("ADD", [inner, three], [1], I32, "Add")
        return g.last

    region(g.ser, "cond", [inner], cond)
    region(g.ser, "body", [inner], body)
    assert compare(ours, g.ser.serialize(), g.feeds)
    assert ours.run(g.ser.serialize(), g.feeds, 1)[0].tolist() == [12]
