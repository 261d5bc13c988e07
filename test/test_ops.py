"""The float kernels and the inference of every operator against PyTorch: same types, same numbers within 1e-5."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed (tools/setup.sh test)")

import ops_cases  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"
CASES = ops_cases.build()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All cases, computed by one run of the tool."""
    path = tmp_path_factory.mktemp("ops")
    for number, (text, inputs, _, _) in enumerate(CASES.values()):
        (path / f"{number}.ir").write_text(text)
        for i, x in enumerate(inputs):
            np.save(path / f"{number}.in{i}.npy", x.numpy())
    subprocess.run([TOOL, "ops", path], check=True, timeout=300)
    return path


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(folder, name):
    number = list(CASES).index(name)
    text, _, results, rtol = CASES[name]
    problem = folder / f"{number}.error"
    assert not problem.exists(), f"{problem.read_text()}\n{text}"
    for i, wanted in enumerate(results):
        got = np.load(folder / f"{number}.out{i}.npy")
        assert got.shape == tuple(wanted.shape)
        if wanted.is_floating_point():
            wanted = wanted.double().numpy()
            finite = np.abs(wanted[np.isfinite(wanted)])
            # Sums of large terms may cancel: their errors are measured against the largest result, too.
            largest = 0.5 if name.startswith("unary") else float(finite.max()) if finite.size else 0.0
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * 0.2 * largest)
        else:
            np.testing.assert_array_equal(got, wanted.numpy())


def test_there_are_enough_cases():
    assert len(CASES) > 600
