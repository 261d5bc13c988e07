"""The peer's own files in `swoop run`: what leaves each NPU region is what the TOSA reference model makes of the peer's TOSA, bit for bit.

tools/peer_files.py does the same for any model; docs/run.md has the table of the networks it was run on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.backends.arm.ethosu", reason="the peer executorch is not installed (tools/setup.sh test)")
pytest.importorskip("ethosu.regor", reason="the peer `vela` is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import peer_files  # noqa: E402

SWOOP = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
# Model, target, regions. The network for keyword spotting has a host operator between two regions on the U55.
CASES = [
    ("dscnn", "ethos-u55-128", 2),
    ("dscnn", "ethos-u85-256", 1),
    ("layernorm", "ethos-u55-128", 1),
    ("layernorm", "ethos-u85-256", 1),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def compiled(request, tmp_path_factory):
    name, target, expected = request.param
    folder = tmp_path_factory.mktemp("peer")
    regions, used = peer_files.compile_with_peer(ROOT / "test" / "models" / f"{name}_int8.pt2", target, folder)
    assert (regions, used) == (expected, "new")
    return folder, regions


def test_every_region_is_the_reference_models(compiled):
    folder, regions = compiled
    for sample in range(2):
        assert peer_files.run(SWOOP, folder, sample, regions, 300) == [("equal", "")] * regions
    # The comparison can fail: one wrong element is seen.
    path = folder / "dump" / "region0_out0.npy"
    values = np.load(path)
    values.flat[-1] ^= 1
    np.save(path, values)
    assert peer_files.difference(folder, 0) == f"output 0: 1 of {values.size} elements"


def test_the_peers_tosa_compiles_to_the_same_numbers(compiled):
    """`swoop compile region0.tosa`: one delegate with the peer's ports, and what it gives is the reference model's."""
    folder, _ = compiled
    made = folder / "ours"
    made.mkdir()
    target = "ethos-u85-256"
    done = subprocess.run([SWOOP, "compile", folder / "region0.tosa", "-t", target, "-o", made / "model.pte", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["accuracy"]["bit_exact"] and len(summary["regions"]) == 1 and summary["host_ops"] == {}
    assert all(layer["name"] for layer in summary["regions"][0]["layers"])
    rng = np.random.default_rng(3)
    np.savez(made / "in0.npz", **{port["name"]: rng.integers(-128, 128, port["shape"]).astype(port["dtype"]) for port in summary["inputs"]})
    (made / "region0.tosa").write_bytes((folder / "region0.tosa").read_bytes())
    assert peer_files.run(SWOOP, made, 0, 1, 300) == [("equal", "")]
