"""The NPU in software against the TOSA reference model, bit for bit, on what the peer's compiler makes of random
graphs.

SWOOP_NPU_GRAPHS=N (default: five of each kind) sets the graphs per NPU. What is not compared is counted and listed,
never passed over: graphs the compiler rejects, graphs the reference model calls unpredictable, streams our executor
refuses.
"""

import collections
import os
import subprocess

import numpy as np
import pytest

pytest.importorskip("ethosu.regor", reason="the peer `vela` is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")

import npu_cases  # noqa: E402
import npu_exec  # noqa: E402
import tosa_serializer as ts  # noqa: E402
from npu_graphs import I8, I32, SHAPE  # noqa: E402

GRAPHS = int(os.environ.get("SWOOP_NPU_GRAPHS", 5 * len(npu_cases.FAMILIES)))

# Streams that the executor refuses because what a device would do is not known or is not what the graph asks for.
# Each is a whole class of graphs, named in docs/run.md; anything else that fails is a bug.
REFUSED = {
    "ignores it": "ADD/SUB of 8/16-bit tensors whose integer scales differ (U55, U65)",
    "right shift asks for double rounding": "ARITHMETIC_RIGHT_SHIFT without rounding (U55, U65)",
    "where the core rounds first": "ADD/SUB with double-rounded input scales (U55, U65)",
}


@pytest.fixture(scope="module", autouse=True)
def tool():
    if not npu_exec.TOOL.exists():
        pytest.skip(f"{npu_exec.TOOL} is not built")


@pytest.fixture(scope="module")
def cases():
    """Graphs with their reference results, made once for all NPUs."""
    made = []
    for seed in range(GRAPHS):
        name, tosa, inputs, defect = npu_cases.case(seed)
        outputs = npu_exec.reference(tosa, inputs)
        made.append((seed, name, tosa, inputs, outputs, defect))
    return made


@pytest.mark.parametrize("target", npu_exec.TARGETS)
def test_random_graphs_are_bit_exact(target, cases, tmp_path):
    expected, kinds, count = {}, {}, collections.Counter()
    for seed, name, tosa, inputs, outputs, defect in cases:
        if outputs is None:
            count["unpredictable for the reference model"] += 1
            continue
        try:
            model = npu_exec.compile_tosa(tosa, target, mode=seed // len(npu_cases.FAMILIES) % 2)
        except RuntimeError:
            count[f"rejected by regor: {name}"] += 1
            continue
        case = f"{name}_{seed}"
        npu_exec.write_case(tmp_path, case, model, inputs)
        expected[case] = b"".join(np.ascontiguousarray(o).tobytes() for o in outputs)
        kinds[case] = defect
    wrong = []
    for case, result in npu_exec.run_folder(tmp_path).items():
        refused = next((why for text, why in REFUSED.items() if text in result), None)
        if refused:
            count[f"refused: {refused}"] += 1
        elif result != "ok":
            wrong.append(f"{case}: {result}")
        elif (tmp_path / f"{case}.out").read_bytes() == expected[case]:
            count["equal"] += 1
        elif kinds[case] and "u85" not in target:
            count[f"defect of the peer: {kinds[case]}"] += 1
        else:
            wrong.append(f"{case}: the outputs differ")
    for what, number in sorted(count.items()):
        print(f"{target}: {number:4} {what}")
    assert not wrong, "\n".join(wrong)
    assert count["equal"] >= (0.75 if "u85" in target else 0.6) * GRAPHS
    assert count["unpredictable for the reference model"] == 0


def compile_case(kind, target, folder):
    """The first graph of a kind, compiled and run; the stem of its files."""
    seed = next(i for i, f in enumerate(npu_cases.FAMILIES) if f.__name__ == kind)
    name, tosa, inputs, _ = npu_cases.case(seed)
    npu_exec.write_case(folder, name, npu_exec.compile_tosa(tosa, target), inputs)
    return folder / name


def test_trace_names_every_operation(tmp_path):
    stem = compile_case("two_convs", "ethos-u55-128", tmp_path)
    trace = subprocess.run([npu_exec.TOOL, "trace", stem], capture_output=True, text=True)
    assert trace.returncode == 0, trace.stderr
    lines = trace.stdout.splitlines()
    assert sum("CONV" in line or "DEPTHWISE" in line for line in lines) >= 2
    assert all(" writes r" in line for line in lines)


@pytest.mark.parametrize("move", ["nothing", "pad", "concat"])
def test_convolutions_with_computed_weights_are_misplaced_by_the_peer(move, tmp_path):
    """regor 5.1.0 forgets where in a padded or joined tensor such a convolution's result belongs (U85); the executor sees bytes nobody wrote."""
    g = npu_cases.CaseGraph(7)
    x, weights, bias = g.feed([1, 6, 6, 16]), g.feed([16, 3, 3, 16], low=-127), g.const([16], I32, [3] * 16)
    y = g.op(ts.Op.CONV2D, [x, weights, bias, g.zero(), g.zero()], [1, 4, 4, 16], I32, "Conv2dAttribute", [0] * 4, [1, 1], [1, 1], False, I32)
    y = g.rescale2(y, I8, [1e-3], 0, 2)
    if move == "pad":
        y = g.op(ts.Op.PAD, [y, g.const([8], SHAPE, [0, 0, 1, 1, 1, 1, 0, 0]), g.const([1], I8, [5])], [1, 6, 6, 16], I8, "PadAttribute")
    elif move == "concat":
        y = g.concat(1, g.feed([1, 2, 4, 16]), y)
    g.output(y)
    npu_exec.write_case(tmp_path, "case", npu_exec.compile_tosa(g.bytes(), "ethos-u85-256"), g.data)
    result = npu_exec.run_folder(tmp_path)["case"]
    if move == "nothing":
        assert result == "ok" and (tmp_path / "case.out").read_bytes() == npu_exec.reference(g.bytes(), g.data)[0].tobytes()
    else:
        assert "which was never written" in result


@pytest.mark.parametrize("reshaped", [False, True])
def test_slices_that_lose_their_first_axis_are_misread_by_the_peer(reshaped, tmp_path):
    """regor 5.1.0 reads the first of the leading axis again and again (U85): a well-formed stream for another graph, which the executor shows."""
    g = npu_cases.CaseGraph(7)
    shape = [1, 4, 2, 8, 12]
    y = g.op(ts.Op.SLICE, [g.feed([3, *shape[1:]]), g.const([5], SHAPE, [2, 0, 0, 0, 0]), g.const([5], SHAPE, shape)], shape, I8, "SliceAttribute")
    y = g.rescale2(g.reshape(y, shape[1:]) if reshaped else y, I8, [0.5], 5, 9)
    g.output(y)
    npu_exec.write_case(tmp_path, "case", npu_exec.compile_tosa(g.bytes(), "ethos-u85-256"), g.data)
    assert npu_exec.run_folder(tmp_path)["case"] == "ok"
    expected = npu_exec.reference(g.bytes(), g.data)[0].reshape(shape[1:])
    if reshaped:
        expected = np.broadcast_to(expected[:1], expected.shape)
    assert np.array_equal(np.fromfile(tmp_path / "case.out", np.int8).reshape(expected.shape), expected)


def test_maxima_in_front_of_a_concat_are_misread_by_the_peer(tmp_path):
    """regor 5.1.0 makes a pool of the maximum and adds the concat's offset to its height (U55): it reads rows 1 to 8 of 0 to 7."""
    g = npu_cases.CaseGraph(7)
    x = g.feed([1, 8, 4, 4])
    largest = g.op(ts.Op.REDUCE_MAX, [x], [1, 1, 4, 4], I8, "ReduceMaxAttribute", 1, ts.NanPropagationMode.PROPAGATE)
    first = g.op(ts.Op.SLICE, [x, g.const([4], SHAPE, [0] * 4), g.const([4], SHAPE, [1, 1, 4, 4])], [1, 1, 4, 4], I8, "SliceAttribute")
    g.output(g.concat(1, first, largest))
    npu_exec.write_case(tmp_path, "case", npu_exec.compile_tosa(g.bytes(), "ethos-u55-128"), g.data)
    result = npu_exec.run_folder(tmp_path)["case"]
    expected = npu_exec.reference(g.bytes(), g.data)[0].tobytes()
    assert result != "ok" or (tmp_path / "case.out").read_bytes() != expected


def test_text_lists_every_word_once(tmp_path):
    stem = compile_case("conv", "ethos-u85-256", tmp_path)
    text = subprocess.run([npu_exec.TOOL, "commands", f"{stem}.blob"], capture_output=True, text=True).stdout.splitlines()
    assert text[0] == "ethos-u85-256"
    positions = [int(line.split()[0]) for line in text[1:]]
    wide = [":0x" in line for line in text[1:]]
    assert positions == [sum(2 if w else 1 for w in wide[:i]) for i in range(len(wide))]
    assert text[-1].split()[1] == "NPU_OP_STOP"
