"""Whole programs on the host: libswoop_run.so in `swoop run`'s hands and in Python's, on a program that swoop itself compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch", reason="executorch is not installed (tools/setup.sh test)")

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release"))
MODELS = ROOT / "test" / "models"

PYTHON = """
import ctypes, sys
import numpy as np
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
import torch
from executorch.runtime import Runtime, Verification
runtime = Runtime.get()
assert "EthosUBackend" in runtime.backend_registry.registered_backend_names
method = runtime.load_program(sys.argv[2], verification=Verification.InternalConsistency).load_method("forward")
inputs = np.load(sys.argv[3])["x"]
np.save(sys.argv[4], np.stack([method.execute([torch.from_numpy(x)])[0].numpy() for x in inputs]))
"""


def tool(name, *arguments):
    return subprocess.run([BUILD / name, *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A compiled model with its test inputs."""
    folder = tmp_path_factory.mktemp("program")
    done = tool("swoop", "compile", MODELS / "moveaxis_int8.pt2", "-o", folder / "model.pte", "--target", "ethos-u55-128", "--no-verify")
    assert done.returncode == 0, done.stderr
    inputs = np.load(MODELS / "moveaxis.npz")["test"]
    np.savez(folder / "in.npz", x=inputs)
    done = tool("swoop_test_tool", "run-pte", folder / "model.pte", folder / "in.npz", folder / "out.npz", folder / "dump")
    assert done.returncode == 0, done.stderr
    return folder, inputs, json.loads(done.stdout)


def test_python_runs_ethos_u_programs(program):
    folder, _, _ = program
    done = subprocess.run([sys.executable, "-c", PYTHON, BUILD / "libswoop_run.so", folder / "model.pte", folder / "in.npz", folder / "py.npy"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(folder / "py.npy"), np.load(folder / "out.npz")["out0"])


def test_memory_is_what_the_file_says(program):
    folder, _, summary = program
    done = tool("swoop_test_tool", "read-pte", folder / "model.pte")
    assert done.returncode == 0, done.stderr
    words = next(line for line in done.stdout.splitlines() if line.startswith("method ")).split()
    said = dict(zip(words[2::2], map(int, words[3::2])))
    assert said["planned"] == summary["planned_bytes"]
    assert said["method_bytes"] == summary["method_bytes"]
    assert said["temp"] == summary["temp_bytes"]


def test_one_more_axis_means_several_runs(program, tmp_path):
    folder, inputs, summary = program
    stacked = np.load(folder / "out.npz")["out0"]
    assert summary["runs"] == len(inputs) == len(stacked)
    np.savez(tmp_path / "one.npz", x=inputs[0])
    assert tool("swoop_test_tool", "run-pte", folder / "model.pte", tmp_path / "one.npz", tmp_path / "out.npz").returncode == 0
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], stacked[0])


def test_dump_shows_what_crosses_the_border(program):
    folder, inputs, _ = program
    into, out = np.load(folder / "dump" / "region0_in0.npy"), np.load(folder / "dump" / "region0_out0.npy")
    assert into.dtype == np.int8 and out.dtype == np.int8
    assert into.size == inputs[-1].size


def test_doubles_are_taken_as_floats(program, tmp_path):
    folder, inputs, _ = program
    np.savez(tmp_path / "in.npz", x=inputs.astype(np.float64))
    assert tool("swoop_test_tool", "run-pte", folder / "model.pte", tmp_path / "in.npz", tmp_path / "out.npz").returncode == 0
    assert np.array_equal(np.load(tmp_path / "out.npz")["out0"], np.load(folder / "out.npz")["out0"])


def refused(*arguments):
    done = tool("swoop_test_tool", "run-pte", *arguments)
    assert done.returncode == 1 and done.stdout == "", (done.returncode, done.stdout)
    return done.stderr


def test_wrong_inputs_cost_a_sentence(program, tmp_path):
    folder, inputs, _ = program
    np.savez(tmp_path / "shape.npz", x=inputs[0][..., :-1])
    assert "shape" in refused(folder / "model.pte", tmp_path / "shape.npz", tmp_path / "out.npz")
    np.savez(tmp_path / "type.npz", x=inputs.astype(np.int32))
    assert "float32" in refused(folder / "model.pte", tmp_path / "type.npz", tmp_path / "out.npz")
    np.savez(tmp_path / "names.npz", y=inputs, z=inputs)
    assert "x is missing" in refused(folder / "model.pte", tmp_path / "names.npz", tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_broken_programs_cost_a_sentence(program, tmp_path):
    folder, _, _ = program
    whole = (folder / "model.pte").read_bytes()
    at = whole.index(b"vela_bin_stream")
    cases = {"cut": whole[: len(whole) // 2], "empty": b"not a program at all, but long enough to have a header of sixty-four bytes",
             "blob": whole[:at] + b"vela_bad_stream" + whole[at + 15 :]}
    for name, data in cases.items():
        (tmp_path / f"{name}.pte").write_bytes(data)
        assert "The" in refused(tmp_path / f"{name}.pte", folder / "in.npz", tmp_path / "out.npz"), name


def test_compiling_loads_neither_the_runtime_nor_what_reads_images():
    listed = subprocess.run(["ldd", BUILD / "swoop"], capture_output=True, text=True, timeout=60)
    assert listed.returncode == 0 and "executorch" not in listed.stdout and "lept" not in listed.stdout
