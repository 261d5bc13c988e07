"""Weights in SRAM, because several operations read them or ahead of their turn: fewer cycles, the same bits, and the limits are kept."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
from formulas import Model, compiled, swoop  # noqa: E402

nn = torch.nn
torch.manual_seed(0)
RECURRENT = Model(lambda s, x: s.head(s.lstm(x)[0][:, -1]), lstm=nn.LSTM(32, 96, batch_first=True), head=nn.Linear(96, 5))


def stepped(self, x):
    hidden = torch.zeros(1, 64)
    for i in range(x.shape[1]):
        forget, update, new, out = torch.sigmoid(self.gates(torch.cat([x[:, i], hidden], -1))).chunk(4, -1)
        hidden = (forget * hidden + update * new) * out
    return hidden


STEPS = Model(stepped, gates=nn.Linear(128, 256))
TWINS = Model(lambda s, x: s.layer(s.layer(x[:, 0])) - s.layer(s.layer(x[:, 1])), layer=nn.Conv2d(64, 64, 3, padding=1))
PLAIN = Model(lambda s, x: s.b(torch.relu(s.a(x))), a=nn.Linear(64, 256), b=nn.Linear(256, 64))
CASES = {  # model, shape of x, target, system configuration, memory mode
    "lstm": (RECURRENT, (1, 8, 32), "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "two cores": (RECURRENT, (1, 8, 32), "ethos-u65-512", "Ethos_U65_Embedded", "Shared_Sram"),
    "dedicated SRAM": (STEPS, (1, 16, 64), "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    "four decoders": (RECURRENT, (1, 8, 32), "ethos-u85-1024", "Ethos_U85_SYS_Flash_Low", "Shared_Sram"),
    "scales of each step": (RECURRENT, (1, 8, 32), "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    "twins": (TWINS, (1, 2, 64, 4, 4), "ethos-u55-256", "Ethos_U55_Deep_Embedded", "Shared_Sram"),
}


def built(case, folder, *flags):
    model, shape, target, system, mode = case
    folder.mkdir(exist_ok=True)
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    return compiled(model, x, target, folder, "--system-config", system, "--memory-mode", mode, "--precision", "int8", *flags)


def output(folder):
    swoop(folder, "run", "model.pte", "-i", "samples.npz", "-o", "out.npz")
    return np.load(folder / "out.npz")["out0"]


@pytest.mark.parametrize("name", CASES)
def test_shared_weights_are_fetched_once(name, tmp_path):
    kept = built(CASES[name], tmp_path / "kept")
    fetched = built(CASES[name], tmp_path / "fetched", "--optimise", "Size")
    figures = kept["regions"][0]["kept_weights"]
    assert figures["bytes"] > 1000 and figures["operations"] > 1
    assert kept["totals"]["total_cycles"] < 0.98 * figures["cycles_before"]
    layers = kept["regions"][0]["layers"]
    assert sum(layer["cycles"] - layer["npu_cycles"] for layer in layers) >= figures["bytes"] / 8, "the transfers are counted"
    assert kept["totals"]["sram_bytes"] - fetched["totals"]["sram_bytes"] >= figures["bytes"]
    assert kept["accuracy"]["bit_exact"] is True and kept["warnings"] == fetched["warnings"]
    assert fetched["regions"][0]["kept_weights"] is None
    np.testing.assert_array_equal(output(tmp_path / "kept"), output(tmp_path / "fetched"))


def test_limits_of_sram_are_kept(tmp_path):
    free = built(CASES["lstm"], tmp_path / "free")["totals"]["sram_bytes"]
    for flags in [("--max-sram", str(free - 1)), ("--arena-cache-size", str(free - 1))]:
        limited = built(CASES["lstm"], tmp_path / "limited", *flags)
        assert limited["totals"]["sram_bytes"] < free and limited["regions"][0]["kept_weights"] is None


def test_weights_with_one_reader_stay_where_they_are(tmp_path):
    assert built((PLAIN, (1, 64), *CASES["lstm"][2:]), tmp_path)["regions"][0]["kept_weights"] is None


# The first layers compute, the last ones wait for their weights.
NARROWING = Model(lambda s, x: s.layers(x), layers=nn.Sequential(
    nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.Conv2d(32, 32, 7, 1, 3), nn.MaxPool2d(8), nn.Conv2d(32, 128, 3), nn.ReLU(), nn.Conv2d(128, 64, 3)))
STACK = Model(lambda s, x: s.layers(x), layers=nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.ReLU()))))
AHEAD = {
    "scales in DRAM": (STACK, (1, 128), "ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    "flash": (NARROWING, (1, 3, 96, 96), "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "two cores": (NARROWING, (1, 3, 128, 128), "ethos-u65-512", "Ethos_U65_Embedded", "Shared_Sram"),
    "dedicated SRAM": (NARROWING, (1, 3, 128, 128), "ethos-u65-512", "Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "four decoders": (NARROWING, (1, 3, 96, 96), "ethos-u85-1024", "Ethos_U85_SYS_Flash_Low", "Shared_Sram"),
}


@pytest.mark.parametrize("name", AHEAD)
def test_weights_are_fetched_while_earlier_layers_compute(name, tmp_path):
    ahead = built(AHEAD[name], tmp_path / "ahead", "--weight-rate", "0")
    fetched = built(AHEAD[name], tmp_path / "fetched", "--weight-rate", "0", "--optimise", "Size")
    figures = ahead["regions"][0]["weights_ahead"]
    assert figures["bytes"] > 1000 and figures["operations"] >= 1
    assert ahead["totals"]["total_cycles"] < 0.99 * figures["cycles_before"]
    assert sum(layer["cycles"] for layer in ahead["regions"][0]["layers"]) == ahead["totals"]["total_cycles"]
    assert ahead["regions"][0]["npu_cycles"] <= ahead["totals"]["total_cycles"]
    assert ahead["accuracy"]["bit_exact"] is True and ahead["warnings"] == fetched["warnings"]
    assert fetched["regions"][0]["weights_ahead"] is None
    np.testing.assert_array_equal(output(tmp_path / "ahead"), output(tmp_path / "fetched"))


def test_scales_in_sram_cost_what_regor_says(tmp_path):
    """regor's own estimate for a DRAM that answers as fast as the SRAM is the judge of what near scales save."""
    ethosu = pytest.importorskip("ethosu", reason="Vela is not installed (tools/setup.sh test)")
    usual = next(Path(p) / "config_files" / "Arm" / "vela.ini" for p in ethosu.__path__).read_text()
    near = tmp_path / "near.ini"
    near.write_text(usual.replace("Dram_read_latency=500", "Dram_read_latency=32"))
    ours = built(AHEAD["scales in DRAM"], tmp_path / "ours", "--weight-rate", "0")
    regors = built(AHEAD["scales in DRAM"], tmp_path / "regors", "--weight-rate", "0", "--config", near, "--optimise", "Size")
    far = built(AHEAD["scales in DRAM"], tmp_path / "far", "--weight-rate", "0", "--optimise", "Size")
    cycles = [[layer["npu_cycles"] for layer in build["regions"][0]["layers"] if layer["macs"]] for build in (ours, regors, far)]
    assert len(cycles[0]) == len(cycles[1]) == len(cycles[2])
    layers = [layer for layer in zip(*cycles) if layer[0] != layer[2]]  # those whose scales were moved
    assert len(layers) >= 4
    for moved, judge, unmoved in layers:
        assert judge < 0.7 * unmoved and moved == pytest.approx(judge, rel=0.02)


def test_more_sram_holds_more_weights(tmp_path):
    usual = built(AHEAD["flash"], tmp_path / "usual")["totals"]
    limit = usual["sram_bytes"] + 100_000
    more = built(AHEAD["flash"], tmp_path / "more", "--max-sram", str(limit))
    assert usual["sram_bytes"] < more["totals"]["sram_bytes"] <= limit
    assert more["totals"]["total_cycles"] < usual["total_cycles"] and more["accuracy"]["bit_exact"] is True
