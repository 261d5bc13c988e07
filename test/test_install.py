"""An installed program runs from any folder and loads libraries from its own only."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve()
MODEL = ROOT / "test" / "models" / "moveaxis_int8.pt2"
TAKES_IMAGES = ROOT / "test" / "models" / "resnet8_int8.pt2"

PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void planted(void) { fprintf(stderr, "PLANTED\\n"); }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that was installed, moved afterwards."""
    folder = tmp_path_factory.mktemp("install")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder / "first"], check=True, capture_output=True, timeout=60)
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a library of every name that the program loads."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "planted.c").write_text(PLANTED)
    subprocess.run(["cc", "-shared", "-fPIC", "planted.c", "-o", "libswoop_run.so"], cwd=folder, check=True, timeout=60)
    needed = subprocess.run(["readelf", "-d", BUILD / "swoop", BUILD / "libswoop_run.so"], check=True, capture_output=True, text=True, timeout=60).stdout
    for name in set(re.findall(r"NEEDED.*\[(.*)\]", needed)):
        shutil.copy(folder / "libswoop_run.so", folder / name)
    return folder


def compile_model(program, folder, *flags, model=MODEL, **environment):
    """Compiles and checks, which loads the run library."""
    return subprocess.run([program, "compile", model, "-o", folder / "model.pte", "--target", "ethos-u55-128", *flags], cwd=folder,
                          env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def test_a_moved_program_runs_what_it_compiles(installed, tmp_path):
    done = compile_model(installed / "bin" / "swoop", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bit for bit" in done.stdout


def test_nothing_is_loaded_from_the_current_folder(installed, hostile):
    trap = subprocess.run([installed / "bin" / "swoop", "--version"], env={**os.environ, "LD_PRELOAD": str(hostile / "libswoop_run.so")},
                          capture_output=True, text=True, timeout=60)
    assert "PLANTED" in trap.stderr, "the planted library shows when it is loaded"
    for program in [installed / "bin" / "swoop", "swoop", BUILD / "swoop"]:  # "swoop": found in PATH, so that its name has no folder
        done = compile_model(program, hostile, PATH=f"{installed / 'bin'}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
        assert "PLANTED" not in done.stderr


def test_what_reads_images_is_installed_by_the_name_that_it_is_loaded_by(installed):
    names = re.findall(rb"liblept\.so\.\d+", (installed / "bin" / "swoop").read_bytes())
    assert names and all((installed / "lib" / "swoop" / name.decode()).exists() for name in names)


def test_a_program_without_its_library_says_where_it_looked(installed, hostile, tmp_path):
    shutil.copy(installed / "bin" / "swoop", tmp_path / "swoop")
    done = compile_model(tmp_path / "swoop", hostile)
    assert done.returncode == 1
    assert "libswoop_run.so" in done.stderr and str(tmp_path) in done.stderr
    assert "PLANTED" not in done.stderr


def test_libraries_come_from_the_installed_folder_or_the_system(installed, tmp_path):
    done = compile_model(installed / "bin" / "swoop", tmp_path, LD_DEBUG="libs")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.ppm").write_bytes(b"P6 1 1 255 abc")
    with_images = compile_model(installed / "bin" / "swoop", tmp_path, "--calibrate", tmp_path / "images", model=TAKES_IMAGES, LD_DEBUG="libs")
    loaded = re.findall(r"calling init: (/\S+)", done.stderr + with_images.stderr)
    ours = [path for path in loaded if not path.startswith(("/lib", "/usr/lib"))]
    assert {Path(path).name for path in ours} >= {"libswoop_run.so", "libexecutorch.so", "liblept.so.5", "libpng16.so.16"}
    rest = {Path(path).name.split(".")[0].split("-")[0] for path in loaded if path not in ours}
    assert rest <= {"ld", "libc", "libm", "libdl", "libpthread", "librt", "libstdc++", "libgcc_s"}, "every machine has these"
    assert [path for path in ours if not Path(path).resolve().is_relative_to(installed)] == []


def test_no_file_points_elsewhere(installed):
    for file in [installed / "bin" / "swoop", *(installed / "lib" / "swoop").glob("*.so"), BUILD / "swoop", BUILD / "libswoop_run.so"]:
        dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True, timeout=60).stdout
        for paths in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
            assert all(path.startswith("$ORIGIN") for path in paths.split(":")), f"{file.name}: {paths}"
        assert b".venv" not in file.read_bytes(), file.name


def test_licences_are_installed(installed):
    names = {path.name for path in (installed / "share" / "doc" / "swoop").iterdir()}
    assert names >= {"LICENSE", "LICENSE.executorch", "LICENSE.regor", "THIRDPARTY.regor.md", "LICENSE.liblept5", "LICENSE.zlib1g"}


def test_everything_bundled_is_listed_with_its_licence(installed):
    folder = installed / "share" / "doc" / "swoop"
    listed = {part["name"]: part for part in json.loads((folder / "sbom.json").read_text())["components"]}
    assert listed["executorch"]["version"] == "1.5.1" and listed["liblept5"]["version"]
    assert all((folder / part["properties"][0]["value"]).is_file() for part in listed.values())
    licences = {path.name for path in folder.glob("LICENSE.*")}
    assert licences == {part["properties"][0]["value"] for part in listed.values()}, "no licence without its part"
