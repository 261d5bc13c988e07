"""What regor gets wrong (docs/regor-defects.md), and what a repair makes of it.

A case that begins to pass says that regor was mended: take it out of the list, and what works around it out of the
compiler.
"""

import subprocess

import pytest

pytest.importorskip("ethosu.regor", reason="the peer `vela` is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")

import npu_exec  # noqa: E402
import regor_defects  # noqa: E402

CASES = [
    pytest.param(make, target, fault, id=f"{make.__name__}-{target}")
    for make, targets, fault in regor_defects.ALL
    for target in targets
]


def run(folder, *flags):
    if not npu_exec.TOOL.exists():
        pytest.skip(f"{npu_exec.TOOL} is not built")
    done = subprocess.run([npu_exec.TOOL, "run-blobs", folder, *flags], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("case ")


@pytest.mark.parametrize("make, target, fault", CASES)
def test_regor_still_has_the_defect(make, target, fault, tmp_path):
    graph = make()
    npu_exec.write_case(tmp_path, "case", npu_exec.compile_tosa(graph.bytes(), target), graph.data)
    expected = npu_exec.reference(graph.bytes(), graph.data)[0].tobytes()
    if fault:
        raw = run(tmp_path)
        assert raw.startswith("error") and fault in raw
    repaired = run(tmp_path, "--repair")
    assert repaired.startswith("ok"), repaired
    equal = (tmp_path / "case.out").read_bytes() == expected
    assert equal == (fault is not None), "a repair settles the order in time, and nothing else"
    if fault:
        assert fault in repaired
