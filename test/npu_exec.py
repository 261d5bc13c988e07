"""Compiles TOSA graphs with the peer's compiler, runs them with swoop_test_tool and with the TOSA reference model, and
compares.
"""

import os
import struct
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"

# Per target: system configuration, memory mode, and the arena limit that vela's front end passes on.
MODES = {
    "u55": [("Ethos_U55_High_End_Embedded", "Shared_Sram", 2**32), ("Ethos_U55_Deep_Embedded", "Sram_Only", 2**32)],
    "u65": [("Ethos_U65_High_End", "Dedicated_Sram_384KB", 384 * 1024), ("Ethos_U65_Embedded", "Shared_Sram", 2**40)],
    "u85": [
        ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB", 384 * 1024),
        ("Ethos_U85_SYS_Flash_High", "Shared_Sram", 2**40),
    ],
}
TARGETS = [
    "ethos-u55-32",
    "ethos-u55-128",
    "ethos-u55-256",
    "ethos-u65-256",
    "ethos-u65-512",
    "ethos-u85-128",
    "ethos-u85-256",
    "ethos-u85-1024",
    "ethos-u55-64",
    "ethos-u85-512",
    "ethos-u85-2048",
]


def compile_tosa(tosa, target, mode=0, arena=None):
    """What `vela --output-format raw` makes of it. Raises what regor raises."""
    import ethosu
    from ethosu import regor

    family, macs = target.split("-")[1:]
    system, memory, limit = MODES[family][mode]
    cores = 2 if target == "ethos-u65-512" else 1
    ini = next(Path(p) / "config_files" / "Arm" / "vela.ini" for p in ethosu.__path__).read_text()
    config = (
        f"[architecture]\nmacs={int(macs) // cores}\ncores={cores}\n"
        f"[vela]\nsystem_config_name={system}\nmemory_mode_name={memory}\n{ini}"
    )
    options = (
        "\n[compiler]\noutput_format=Raw\ncop_format=COP1\n\n[scheduler]\noptimize=Performance\n"
        f"arena_size_limit={arena or limit}\ndisable_feature=\ncpu_tensor_alignment=16\n"
        "tensor_allocator=HillClimb\n\n[graph]\n"
    )
    return regor.compile("EthosU" + family[1:], tosa, "TOSA", config, options=options, verbose=False)


def block(name, data):
    return struct.pack("<16sIB11s", name.encode(), len(data), 0, b"") + data + b"\0" * (-len(data) % 16)


def tensors(ios):
    packed = struct.pack("<i", len(ios))
    for t in ios:
        packed += struct.pack("<9i", *t.shape, t.element_size, t.address, t.region)
    return packed


def pack(model):
    """The block format of a .pte's delegate (see stream.h)."""
    return (
        block("vela_bin_stream", b"")
        + block("cmd_data", bytes(model.command_stream))
        + block("weight_data", bytes(model.read_only.data))
        + block("scratch_size", struct.pack("<I", model.scratch.size))
        + block("inputs", tensors(model.inputs))
        + block("outputs", tensors(model.outputs))
        + block("vela_end_stream", b"")
    )


def reference(tosa, inputs):
    """Outputs of the TOSA reference model, or None when the graph is unpredictable there."""
    import tosa_reference_model

    outputs, status = tosa_reference_model.run(tosa, inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=1)
    return outputs if status == tosa_reference_model.GraphStatus.TOSA_VALID else None


def run_folder(folder, timeout=1800):
    """{name: "ok" or the error} for every program in the folder."""
    done = subprocess.run([TOOL, "run-blobs", folder], capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"swoop_test_tool ended with {done.returncode}: {done.stderr[-500:]}")
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def write_case(folder, name, model, inputs):
    (folder / f"{name}.blob").write_bytes(pack(model))
    (folder / f"{name}.in").write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for x in inputs))
