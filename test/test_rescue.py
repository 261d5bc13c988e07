"""What regor gets wrong is compiled in another form, and what does not fit ends with a sentence."""

import json

import pytest

from test_cli import MODEL, refused, swoop

# regor would multiply whole matrices (docs/regor-defects.md).
PRODUCT_OF_A_SLICE = """graph "g" (%x: i8[8,64,16] q(0.5, 0), %b: i8[8,16,16] q(0.5, 0))
  %s = slice %x axis=1 end=64 start=32 step=1 : i8[8,32,16] q(0.5, 0)
  %y = matmul %s, %b : i8[8,32,16] q(20.0, 0)
  return %y
"""

LARGE = """graph "g" (%x: f32[1,512,1024,1024])
  %y = clamp %x min=0.0 : f32[1,512,1024,1024]
  return %y
"""


def test_a_product_of_a_slice_is_one_region_and_right(tmp_path):
    (tmp_path / "m.ir").write_text(PRODUCT_OF_A_SLICE)
    done = swoop("compile", tmp_path / "m.ir", "--io", "int8", "-o", tmp_path / "m.pte", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert len(summary["regions"]) == 1 and not summary["host_ops"]
    assert not (tmp_path / "m.pte.differs").exists()


def test_a_good_build_removes_what_an_earlier_one_kept(tmp_path):
    kept = tmp_path / "m.pte.differs"
    kept.mkdir()
    for name in ["region0.tosa", "vela.ini", "vela.sh", "program.pte", "input0.bin"]:
        (kept / name).write_text("old")
    assert swoop("compile", MODEL, "-o", tmp_path / "m.pte", "--no-verify", "-q").returncode == 0
    assert not kept.exists()
    kept.mkdir()
    (kept / "notes.txt").write_text("the user's")
    (kept / "region0.tosa").write_text("old")
    assert swoop("compile", MODEL, "-o", tmp_path / "m.pte", "--no-verify", "-q").returncode == 0
    assert [path.name for path in kept.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("command", ["compile", "accuracy"])
def test_memory_ends_with_a_sentence(command, tmp_path):
    (tmp_path / "m.ir").write_text(LARGE)
    said = refused(command, tmp_path / "m.ir", "--calibrate", "random:0", "--max-memory", "300MiB")
    assert "memory" in said


def test_a_limit_too_small_for_anything_is_refused(tmp_path):
    assert "256 MiB" in refused("compile", MODEL, "-o", tmp_path / "m.pte", "--max-memory", "1MiB")
