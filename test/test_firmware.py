"""--header and --firmware: the example is built on this machine against the stock runtime, with the NPU in software, and computes what
`swoop run` does, in exactly the memory that the header says. For Cortex-M it is compiled, as far as the packages reach."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

executorch = pytest.importorskip("executorch", reason="executorch is not installed (tools/setup.sh test)")

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve()
MODELS = ROOT / "test" / "models"
EXECUTORCH = Path(next(iter(executorch.__path__)))
CROSS = "arm-none-eabi-g++"

# What ethos-u-core-driver declares, of what the example calls.
DRIVER = """
#pragma once
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver { int opaque; };
extern "C" int ethosu_init(struct ethosu_driver *drv, void *const base_address, const void *fast_memory, const size_t fast_memory_size,
                           uint32_t secure_enable, uint32_t privilege_enable);
extern "C" void ethosu_irq_handler(struct ethosu_driver *drv);
"""


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def firmware(tmp_path_factory):
    folder = tmp_path_factory.mktemp("firmware")
    call(BUILD / "swoop", "compile", MODELS / "resnet8_int8.pt2", "-o", folder / "model.pte", "--firmware", folder / "firmware",
         "--header", folder / "resnet-8.h", "--no-verify", "-q")
    return folder


@pytest.fixture(scope="module")
def built(firmware):
    """The example, configured and built."""
    call("cmake", "-S", firmware / "firmware", "-B", firmware / "build", "-DCMAKE_BUILD_TYPE=Debug", f"-DEXECUTORCH={EXECUTORCH}",
         f"-DSWOOP_LIBRARIES={BUILD}")
    call("cmake", "--build", firmware / "build")
    return firmware / "build" / "firmware"


def test_the_example_computes_what_swoop_run_does(firmware, built):
    inputs = np.load(MODELS / "resnet8.npz")["test"].astype(np.float32)
    np.savez(firmware / "in.npz", x=inputs)
    call(BUILD / "swoop", "run", firmware / "model.pte", "-i", firmware / "in.npz", "-o", firmware / "out.npz")
    said = call(built, input=inputs.tobytes())
    assert said == np.load(firmware / "out.npz")["out0"].astype(np.float32).tobytes() and len(said) == len(inputs) * 40


@pytest.mark.parametrize("pool", ["PLANNED", "METHOD", "TEMP"])
def test_one_byte_less_in_a_pool_fails(firmware, built, pool):
    header = firmware / "firmware" / "model.h"
    whole = header.read_text()
    short, found = re.subn(rf"(#define MODEL_{pool}_BYTES )(\d+)", lambda m: m[1] + str(int(m[2]) - 1), whole)
    assert found == 1
    try:
        header.write_text(short)
        call("cmake", "--build", firmware / "build")
        done = subprocess.run([built], input=bytes(3 * 32 * 32 * 4), capture_output=True, timeout=60)
    finally:
        header.write_text(whole)
    assert done.returncode == 1 and done.stdout == b"" and b"error" in done.stderr


def test_files_that_were_changed_stay(firmware, tmp_path):
    folder = tmp_path / "firmware"
    folder.mkdir()
    (folder / "main.cpp").write_text("mine")
    (folder / "model.h").write_text("old")
    call(BUILD / "swoop", "compile", MODELS / "resnet8_int8.pt2", "-o", tmp_path / "model.pte", "--firmware", folder, "--no-verify", "-q")
    assert (folder / "main.cpp").read_text() == "mine" and "MODEL_PLANNED_BYTES" in (folder / "model.h").read_text()
    assert {path.name for path in folder.iterdir()} == {path.name for path in (firmware / "firmware").iterdir()}


def test_the_header_is_named_after_its_file(firmware):
    text = (firmware / "resnet-8.h").read_text()
    assert "static const uint8_t resnet_8_program[RESNET_8_PROGRAM_BYTES]" in text
    assert '#define RESNET_8_KERNELS "quantized_decomposed::quantize_per_tensor.out,' in text
    assert re.search(r"#define RESNET_8_INPUT_0_SCALE 0\.0\d+f\n#define RESNET_8_INPUT_0_ZERO_POINT -?\d+\n", text)
    data = bytes(map(int, re.findall(r"\d+", text[text.rindex("= {"):])))
    assert data == (firmware / "model.pte").read_bytes()


@pytest.mark.skipif(not shutil.which(CROSS), reason=f"{CROSS} is not installed (apt-get install gcc-arm-none-eabi libstdc++-arm-none-eabi-newlib: 2.4 GB)")
def test_it_compiles_for_cortex_m55(firmware, tmp_path):
    (tmp_path / "ethosu_driver.h").write_text(DRIVER)
    flags = ["-mcpu=cortex-m55", "-mthumb", "-Wall", "-Wextra", "-Werror", "-c", "-o", tmp_path / "object.o", "-I", tmp_path]
    (tmp_path / "use.c").write_text(f'#include "{firmware}/resnet-8.h"\nconst uint8_t *program(void) {{ return resnet_8_program; }}\n')
    call(CROSS.replace("g++", "gcc"), *flags, tmp_path / "use.c")
    cpp = [*flags, "-std=c++17", "-fno-exceptions", "-fno-rtti", "-DC10_USING_CUSTOM_GENERATED_MACROS", "-DBOARD_NPU_BASE=0x48102000",
           "-isystem", EXECUTORCH / "include", "-isystem", EXECUTORCH / "include/executorch/runtime/core/portable_type/c10"]
    for name in ("main.cpp", "board_ethosu.cpp"):
        call(CROSS, *cpp, firmware / "firmware" / name)
