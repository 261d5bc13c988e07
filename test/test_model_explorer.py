"""Our files in Google's Model Explorer, through Arm's adapters: they open, and every key of `--overlay` is a node there."""

import json
import os
import subprocess
from pathlib import Path

import pytest

HOW = "not installed: pip install ai-edge-model-explorer tosa-adapter-model-explorer pte-adapter-model-explorer (700 MB)"
tosa_adapter = pytest.importorskip("tosa_adapter_model_explorer.main", reason=f"Model Explorer is {HOW}")
pte_adapter = pytest.importorskip("pte_adapter_model_explorer.main", reason=f"Model Explorer is {HOW}")

ROOT = Path(__file__).resolve().parent.parent
SWOOP = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve() / "swoop"
MODEL = ROOT / "test" / "models" / "resnet8_int8.pt2"


def compiled(folder, name, *flags):
    """(the summary, the overlay)"""
    done = subprocess.run([SWOOP, "compile", MODEL, *flags, "-o", folder / name, "--overlay", folder / "overlay.json", "--json"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads((folder / "overlay.json").read_text())


def test_the_operators_of_a_tosa_file_have_their_cycles(tmp_path):
    summary, overlay = compiled(tmp_path, "m.tosa", "--target", "tosa")
    (graph,) = tosa_adapter.TosaFlatbufferAdapter().convert(str(tmp_path / "m.tosa"), {})["graphs"]
    nodes = {node.id: node for node in graph.nodes}
    cycles = {key: entry["value"] for key, entry in overlay[graph.id]["results"].items()}
    assert cycles.keys() <= nodes.keys()
    assert sum(cycles.values()) == sum(layer["cycles"] for layer in summary["regions"][0]["layers"])
    assert nodes[max(cycles, key=cycles.get)].label == "CONV2D"
    assert overlay.keys() == {graph.id}


def test_the_regions_of_a_pte_have_their_cycles(tmp_path):
    summary, overlay = compiled(tmp_path, "m.pte", "--dump", tmp_path / "dump")
    collections = pte_adapter.PTEAdapter().convert(str(tmp_path / "m.pte"), {})["graphCollections"]
    graph = next(graph for collection in collections for graph in collection.graphs if graph.id == "forward")
    (region,) = [node for node in graph.nodes if node.label == "EthosUBackend"]
    assert overlay["forward"]["results"] == {region.id: {"value": summary["totals"]["total_cycles"]}}
    (inside,) = tosa_adapter.TosaFlatbufferAdapter().convert(str(tmp_path / "dump" / "region0.tosa"), {})["graphs"]
    assert overlay["main"]["results"].keys() <= {node.id for node in inside.nodes}
