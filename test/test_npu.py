"""compile_npu against the `vela` command: same .tosa, same flags, same bytes and same figures."""

import csv
import glob
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

vela = pytest.importorskip("ethosu.vela.vela", reason="the peer `vela` is not installed (tools/setup.sh test)")
ts = pytest.importorskip("tosa_serializer", reason="the peer's TOSA serializer is not installed (tools/setup.sh test)")

import npu_graphs  # noqa: E402
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"

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
    return subprocess.run([TOOL, "npu", tosa, target, folder, *flags], capture_output=True, text=True, timeout=600)


def peers(tosa, target, folder, *flags):
    # In a process of its own, as the command; forked, which saves the import.
    arguments = [str(tosa), f"--accelerator-config={target}", f"--output-dir={folder}", "--output-format=raw",
                 "--verbose-performance", *flags]
    command = multiprocessing.get_context("fork").Process(target=vela.main, args=(arguments,))
    command.start()
    command.join(600)
    assert command.exitcode == 0
    stem = Path(folder) / tosa.stem
    npz = np.load(f"{stem}_vela.npz", allow_pickle=True)
    return npz, glob.glob(f"{stem}_summary_*.csv")[0], Path(f"{stem}_per-layer.csv")


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
    traffic = ("feature_map_read_bytes", "feature_map_write_bytes", "weight_read_bytes", "weight_write_bytes",
               "total_bytes")
    nothing = dict.fromkeys(("bytes_used", "access_cycles", *traffic), 0)
    for memory, column in MEMORIES.items():
        figures = estimates["memories"].get(memory, nothing)
        assert figures["bytes_used"] == float(summary[f"{column}_memory_used"]) * 1024, memory
        assert figures["access_cycles"] == float(summary[f"cycles_{column}_access"]), memory
        for key in traffic:
            assert figures[key] == float(summary[f"{column}_{key}"]), (memory, key)


def assert_same(tosa, target, folder, *flags):
    run = ours(tosa, target, folder / "ours", *flags)
    assert run.returncode == 0, run.stderr
    pairs = ["=".join(pair) for pair in zip(flags[::2], flags[1::2])]
    npz, summary, layers = peers(tosa, target, folder / "peer", *pairs)
    estimates = assert_same_program(folder / "ours", npz)
    assert_same_summary(estimates, summary)
    assert named(folder / "ours" / "layers.csv") == named(layers)
    return estimates


def named(layers):
    # regor numbers the tensors that it makes itself ("#74") from the start of the process, and another test may have
    # run it in this one.
    return re.sub(r"#\d+$", "#", layers.read_text(), flags=re.MULTILINE)


def write_graph(folder, make):
    graph = make()
    path = folder / f"{make.__name__}.tosa"
    path.write_bytes(graph.bytes())
    return graph, path


@pytest.mark.parametrize("name", npu_graphs.ALL)
@pytest.mark.parametrize("target", TARGETS)
def test_program_and_estimates_equal_velas(target, name, tmp_path):
    _, tosa = write_graph(tmp_path, npu_graphs.ALL[name])
    for i, (system, mode) in enumerate(CONFIGS[target.split("-")[1]]):
        assert_same(tosa, target, tmp_path / str(i), "--system-config", system, "--memory-mode", mode)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_weights_are_encoded_as_vela_does_it(target, tmp_path):
    _, tosa = write_graph(tmp_path, npu_graphs.mixed_weights)
    assert_same(tosa, target, tmp_path)


@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u65-512", "ethos-u85-512"])
@pytest.mark.parametrize("flags", [("--optimise", "Size"), ("--arena-cache-size", "65536"),
                                   ("--arena-cache-size", "400000")])
def test_flags_mean_what_they_mean_to_vela(target, flags, tmp_path):
    _, tosa = write_graph(tmp_path, npu_graphs.large)
    system, mode = CONFIGS[target.split("-")[1]][0]
    assert_same(tosa, target, tmp_path, "--system-config", system, "--memory-mode", mode, *flags)


def test_flags_change_the_program(tmp_path):
    # Otherwise the test above would show nothing.
    _, tosa = write_graph(tmp_path, npu_graphs.large)
    programs = set()
    for i, flags in enumerate([(), ("--optimise", "Size"), ("--memory-mode", "Shared_Sram")]):
        assert ours(tosa, "ethos-u85-256", tmp_path / str(i), *flags).returncode == 0
        programs.add((tmp_path / str(i) / "blob.bin").read_bytes())
    assert len(programs) == 3


def test_own_config_file(tmp_path):
    ini = tmp_path / "board.ini"
    ini.write_text("""; a board of our own
[System_Config.Ethos_U55_Slow]
core_clock=100e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
Sram_burst_length=32
Sram_read_latency=40
Sram_write_latency=40
OffChipFlash_clock_scale=0.03125
OffChipFlash_burst_length=64
OffChipFlash_read_latency=100
[System_Config.Ethos_U55_Slower]
inherit=System_Config.Ethos_U55_Slow
core_clock=50e6

[Memory_Mode.Board]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
arena_cache_size=100000
""")
    _, tosa = write_graph(tmp_path, npu_graphs.conv_net)
    estimates = assert_same(tosa, "ethos-u55-128", tmp_path, "--config", str(ini), "--system-config",
                            "Ethos_U55_Slower", "--memory-mode", "Board")
    assert estimates["clock_hz"] == 50e6 and estimates["arena_cache_size"] == 100000


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_blob_equals_executorchs_packer(target, tmp_path):
    arm_vela = pytest.importorskip("executorch.backends.arm.arm_vela", reason="the peer executorch is not installed")
    system, mode = CONFIGS[target.split("-")[1]][0]
    for make in npu_graphs.ALL.values():
        _, tosa = write_graph(tmp_path, make)
        assert ours(tosa, target, tmp_path / "ours").returncode == 0  # the defaults of ours are these configs
        flags = [f"--accelerator-config={target}", f"--system-config={system}", f"--memory-mode={mode}",
                 "--output-format=raw"]
        packed = arm_vela.vela_compile(tosa.read_bytes(), flags).processed_bytes
        assert (tmp_path / "ours" / "blob.bin").read_bytes() == packed


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_layers_name_their_tosa_operator(target, tmp_path):
    for make in npu_graphs.ALL.values():
        graph, tosa = write_graph(tmp_path, make)
        assert ours(tosa, target, tmp_path / "ours").returncode == 0
        indices = json.loads((tmp_path / "ours" / "program.json").read_text())["estimates"]["tosa_index"]
        with open(tmp_path / "ours" / "layers.csv") as file:
            layers = list(csv.DictReader(file))
        assert len(layers) == len(indices) > 0
        # regor spells operators its own way: "Conv2D", "MaxPool", "DepthwiseConv2D"
        plain = lambda name: name.lower().replace("_", "").replace("2d", "")  # noqa: E731
        for layer, index in zip(layers, indices):
            assert plain(graph.ops[index]) == plain(layer["Original Operator"]), (layer, index)


def failing(make, folder, target="ethos-u55-128", *flags):
    _, tosa = write_graph(folder, make)
    kept = folder / "kept"
    run = ours(tosa, target, folder / "ours", "--reproducer", kept, *flags)
    assert run.returncode == 1 and not (folder / "ours").exists()
    assert (kept / "region0.tosa").read_bytes() == tosa.read_bytes()
    assert "region0" in run.stderr and target in run.stderr
    return run.stderr, kept


def run_kept_command(kept):
    binary = Path(sys.executable).parent
    return subprocess.run(["bash", kept / "vela.sh"], capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PATH": f"{binary}:{os.environ['PATH']}"})


def test_refusal_becomes_an_error_that_names_the_operator(tmp_path):
    message, kept = failing(npu_graphs.refused_by_u55, tmp_path)
    assert "Not" in message and "could not run on NPU" in message
    peer = run_kept_command(kept)
    assert peer.returncode != 0 and "could not run on NPU" in peer.stderr + peer.stdout


def test_crash_becomes_an_error(tmp_path):
    message, kept = failing(npu_graphs.crashes_regor_on_u55, tmp_path)
    assert message.startswith("regor crashed with SIGSEGV while compiling region0 for ethos-u55-128")
    # 139: as bash reports SIGSEGV
    assert run_kept_command(kept).returncode in (-11, 139), "vela no longer crashes on it"


def test_time_and_memory_limits(tmp_path):
    message, _ = failing(npu_graphs.large, tmp_path, "ethos-u85-256", "--timeout", "0.001")
    assert "did not finish within 0.001 s" in message
    message, _ = failing(npu_graphs.large, tmp_path, "ethos-u85-256", "--memory-limit", "4096")
    assert "ran out of memory" in message


def test_programs_do_not_depend_on_threads(tmp_path):
    _, tosa = write_graph(tmp_path, npu_graphs.conv_net)
    run = ours(tosa, "ethos-u55-128", tmp_path / "ours", "--repeat", "20", "--threads", "4")
    assert run.returncode == 0, run.stderr


def test_damaged_tosa_is_an_error(tmp_path):
    _, tosa = write_graph(tmp_path, npu_graphs.conv_net)
    whole = tosa.read_bytes()
    random = np.random.default_rng(0)
    variants = [b"", b"TOSA", whole[:100], whole[:-7], bytes(len(whole))]
    for _ in range(20):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole), size=8):
            damaged[at] = random.integers(0, 256)
        variants.append(bytes(damaged))
    for variant in variants:
        tosa.write_bytes(variant)
        run = ours(tosa, "ethos-u55-128", tmp_path / "ours", "--reproducer", tmp_path / "kept", "--timeout", "20")
        assert run.returncode in (0, 1), run  # never a signal in our own process
