"""What swoop chooses by price: int16 that is nearly free, --search, and advice about the model."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
MODEL = ROOT / "test" / "models" / "resnet8.pt2"


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "s.npz"
    np.savez(path, x=np.load(MODEL.with_suffix(".npz"))["calibrate"][:4])
    return path


def swoop(*words):
    done = subprocess.run([SWOOP, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder, samples, *flags):
    return json.loads(swoop("compile", MODEL, "-c", samples, "-o", folder / "m.pte", "--json", *flags))


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_int16_that_is_nearly_free_is_the_default(tmp_path, samples, target):
    usual = build(tmp_path, samples, "-t", target)
    file = (tmp_path / "m.pte").read_bytes()
    int8 = build(tmp_path, samples, "-t", target, "--precision", "int8", "--weight-rate", "0")
    assert int8["int16"] is None and usual["int16"]["values"]
    assert usual["int16"]["cycles_before"] == int8["totals"]["total_cycles"]
    assert usual["int16"]["cycles"] == usual["totals"]["total_cycles"]
    for figure, table in (("total_cycles", 0), ("sram_bytes", 0), ("flash_bytes", 2304), ("dram_bytes", 2304)):
        assert usual["totals"][figure] <= max(1.01 * int8["totals"][figure], int8["totals"][figure] + table), figure
    assert usual["accuracy"]["sqnr_db"][0] > int8["accuracy"]["sqnr_db"][0] + 0.5
    build(tmp_path, samples, "-t", target, "--threads", "1")
    assert (tmp_path / "m.pte").read_bytes() == file


def test_nothing_is_widened_that_the_caller_or_a_file_has_chosen(tmp_path, samples):
    ports = build(tmp_path, samples, "--io", "int8")
    assert [port["dtype"] for port in ports["inputs"] + ports["outputs"]] == ["int8", "int8"]
    (tmp_path / "c.toml").write_text('precision = "int8"\n')
    assert build(tmp_path, samples, "--quantize-config", tmp_path / "c.toml")["int16"] is None


def encoded_bytes(summary):
    return sum(region["encoded_weight_bytes"] for region in summary["regions"])


# Beside 16 bits nearly all noise is the weights', so that half as many steps cost 6 dB.
@pytest.mark.parametrize("rate, flags", [(3, []), (3, ["-t", "ethos-u85-256"]), (6, ["--precision", "int16"]), (3, ["--per-tensor"])], ids=str)
def test_weights_get_smaller_by_what_was_forecast_for_what_was_allowed(tmp_path, samples, rate, flags):
    finest = build(tmp_path, samples, "--weight-rate", "0", *flags)
    smaller = build(tmp_path, samples, "--weight-rate", rate, *flags)
    assert finest["smaller_weights"] is None
    said = smaller["smaller_weights"]
    saved = encoded_bytes(finest) - encoded_bytes(smaller)
    assert saved > 0.1 * encoded_bytes(finest) and saved == pytest.approx(said["bytes_before"] - said["bytes"], rel=0.2)
    lost = finest["accuracy"]["sqnr_db"][0] - smaller["accuracy"]["sqnr_db"][0]
    assert said["lost_db"] <= rate and lost <= rate + 0.1


def test_weights_that_are_not_for_us_to_choose_stay(tmp_path, samples):
    int8 = MODEL.with_name("resnet8_int8.pt2")
    kept = swoop("compile", int8, "-o", tmp_path / "m.pte", "--json", "--weight-rate", "6")
    assert json.loads(kept)["smaller_weights"] is None
    int4 = build(tmp_path, samples, "-t", "ethos-u85-256", "--weight-bits", "4", "--weight-rate", "6")
    assert int4["smaller_weights"] is None


def test_a_search_writes_a_build_of_its_front_that_keeps_the_limits(tmp_path, samples):
    said = build(tmp_path, samples, "--search", "3s")
    points = said["search"]
    assert points[0]["how"] == "as given" and len(points) > 1
    (written,) = [point for point in points if point.get("written")]
    assert written["total_cycles"] == said["totals"]["total_cycles"] <= points[0]["total_cycles"]
    assert written["sqnr_db"] == said["accuracy"]["sqnr_db"][0] >= points[0]["sqnr_db"]
    built = [point for point in points if point["built"]]
    costs = [(p["total_cycles"], p["sram_bytes"], p["pte_bytes"], -p["sqnr_db"]) for p in built]
    for point, cost in zip(built, costs):
        beaten = any(other != cost and all(a <= b for a, b in zip(other, cost)) for other in costs)
        assert not (point["front"] and beaten), point
    limit = points[0]["total_cycles"] * 2
    limited = build(tmp_path, samples, "--search", "2s", "--max-cycles", limit)
    assert limited["totals"]["total_cycles"] <= limit
    assert limited["accuracy"]["sqnr_db"][0] >= points[0]["sqnr_db"]


def test_a_time_that_is_none_is_refused(tmp_path, samples):
    done = subprocess.run([SWOOP, "compile", MODEL, "-c", samples, "-o", tmp_path / "m.pte", "--search", "soon"], capture_output=True, text=True)
    assert done.returncode == 1 and "--search soon" in done.stderr


def test_advice_is_measured():
    model = MODEL.with_name("moveaxis.pt2")
    said = json.loads(swoop("advise", model, "--json"))
    assert said["tried"] == said["possible"] and said["advice"]
    for advice in said["advice"]:
        assert advice["cycles"] < said["cycles"] and advice["percent"] == pytest.approx(100 * (advice["cycles"] / said["cycles"] - 1))
    assert "a kernel of 3 instead of 7" in swoop("advise", model)
