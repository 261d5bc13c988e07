"""compile_npu against the `vela` command: same .tosa, same flags, same bytes and same figures."""

import csv
import glob
import json
import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

vela = pytest.importorskip("ethosu.vela.vela", reason="the peer `vela` is not installed (tools/setup.sh test)")
ts = pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")

import npu_graphs  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "npu_tool"

U55 = [("Ethos_U55_High_End_Embedded", "Shared_Sram"), ("Ethos_U55_Deep_Embedded", "Sram_Only")]
U65 = [("Ethos_U65_High_End", "Dedicated_Sram_384KB"), ("Ethos_U65_Embedded", "Shared_Sram"),
       ("Ethos_U65_Client_Server", "Dedicated_Sram_512KB")]
U85 = [("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"), ("Ethos_U85_SYS_Flash_High", "Shared_Sram"),
       ("Ethos_U85_SYS_DRAM_High", "Sram_Only"), ("Ethos_U85_SYS_DRAM_Low", "Dedicated_Sram")]
CONFIGS = {"u55": U55, "u65": U65, "u85": U85}
TARGETS = [f"ethos-u55-{n}" for n in (32, 64, 128, 256)] + [f"ethos-u65-{n}" for n in (256, 512)] + \
          [f"ethos-u85-{n}" for n in (128, 256, 512, 1024, 2048)]
MEMORIES = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}


def ours(tosa, target, folder, *flags):
    return subprocess.run([TOOL, tosa, target, folder, *flags], capture_output=True, text=True, timeout=600)


def peers(tosa, target, folder, *flags):
    # In a fresh process, as the command: regor numbers unnamed tensors from the start of the process. Forked, which saves the import.
    arguments = [str(tosa), f"--accelerator-config={target}", f"--output-dir={folder}", "--output-format=raw",
                 "--verbose-performance", *flags]
    command = multiprocessing.get_context("fork").Process(target=vela.main, args=(arguments,))
    command.start()
    command.join(600)
    assert command.exitcode == 0
    stem = Path(folder) / tosa.stem
    return np.load(f"{stem}_vela.npz", allow_pickle=True), glob.glob(f"{stem}_summary_*.csv")[0], Path(f"{stem}_per-layer.csv")


def assert_same_program(folder, npz):
    assert (folder / "commands.bin").read_bytes() == npz["cmd_data"].tobytes()
    assert (folder / "weights.bin").read_bytes() == npz["weight_data"].tobytes()
    program = json.loads((folder / "program.json").read_text())
    for key in ("weight_region", "scratch_size", "scratch_region", "scratch_fast_size"):
        assert program[key] == int(npz[key]), key
    if int(npz["scratch_fast_size"]):
        assert program["scratch_fast_region"] == int(npz["scratch_fast_region"])
    for ours_key, peer_key in (("inputs", "input"), ("outputs", "output"), ("variables", "variable")):
        for field in ("shape", "elem_size", "region", "offset"):
            assert [t[field] for t in program[ours_key]] == npz[f"{peer_key}_{field}"].tolist(), (peer_key, field)
    return program["estimates"]


def assert_same_summary(estimates, path):
    with open(path) as file:
        summary = next(csv.DictReader(file))
    assert estimates["macs"] == int(summary["nn_macs"])
    assert estimates["total_cycles"] == float(summary["cycles_total"])
    assert estimates["npu_cycles"] == float(summary["cycles_npu"])
    assert estimates["clock_hz"] == float(summary["core_clock"])
    assert estimates["inference_ms"] == pytest.approx(float(summary["inference_time"]) * 1e3, rel=1e-14)
    assert estimates["arena_cache_size"] == float(summary["arena_cache_size"]) * 1024
    assert estimates["original_weight_bytes"] == int(summary["total_original_weights"])
    assert estimates["encoded_weight_bytes"] == int(summary["total_npu_encoded_weights"])
    assert estimates["operations"] == int(summary["passes_before_fusing"])
    assert estimates["operations_after_cascading"] == int(summary["passes_after_fusing"])
    names = {"SRAM": "Sram", "DRAM": "Dram", "On-chip Flash": "OnChipFlash", "Off-chip Flash": "OffChipFlash"}
    assert estimates["weights_memory"] == names[summary["weights_storage_area"]]
    assert estimates["feature_map_memory"] == names[summary["feature_map_storage_area"]]
    nothing = dict.fromkeys(("bytes_used", "access_cycles", "feature_map_read_bytes", "feature_map_write_bytes",
                             "weight_read_bytes", "weight_write_bytes", "total_bytes"), 0)
    for memory, column in MEMORIES.items():
        figures = estimates["memories"].get(memory, nothing)
        assert figures["bytes_used"] == float(summary[f"{column}_memory_used"]) * 1024, memory
        assert figures["access_cycles"] == float(summary[f"cycles_{column}_access"]), memory
        for key in ("feature_map_read_bytes", "feature_map_write_bytes", "weight_read_bytes", "weight_write_bytes", "total_bytes"):
            assert figures[key] == float(summary[f"{column}_{key}"]), (memory, key)


def assert_same(tosa, target, folder, *flags):
    run = ours(tosa, target, folder / "ours", *flags)
    assert run.returncode == 0, run.stderr
    npz, summary, layers = peers(tosa, target, folder / "peer", *["=".join(pair) for pair in zip(flags[::2], flags[1::2])])
    estimates = assert_same_program(folder / "ours", npz)
    assert_same_summary(estimates, summary)
    assert (folder / "ours" / "layers.csv").read_text() == layers.read_text()
    return estimates


def write_graph(folder, name):
    graph = npu_graphs.ALL[name]()
    path = folder / f"{name}.tosa"
    path.write_bytes(graph.bytes())
    return graph, path


@pytest.mark.parametrize("name", npu_graphs.ALL)
@pytest.mark.parametrize("target", TARGETS)
def test_program_and_estimates_equal_velas(target, name, tmp_path):
    _, tosa = write_graph(tmp_path, name)
    for i, (system, mode) in enumerate(CONFIGS[target.split("-")[1]]):
        assert_same(tosa, target, tmp_path / str(i), "--system-config", system, "--memory-mode", mode)
