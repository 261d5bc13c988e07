"""`swoop run --layers` and `--trace`: the output of every layer is what the TOSA interpreter has there, bit for bit, its SQNR is what numpy
computes from PyTorch's own values, and every operation of a command stream names its layer."""

import json
import os
import re
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release"))
MODELS = ROOT / "test" / "models"
TARGETS = ["ethos-u55-128", "ethos-u85-256"]


def tool(name, *arguments):
    return subprocess.run([BUILD / name, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def succeed(*arguments):
    done = tool("swoop", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_and_run(model, inputs, folder, target, *flags):
    """The layers as JSON has them, each with its codes (None: inside another one)."""
    succeed("compile", model, "-o", folder / "m.pte", "--target", target, "--dump", folder / "compiled", "--no-verify", "-q", *flags)
    np.savez(folder / "in.npz", x=inputs)
    summary = json.loads(succeed("run", folder / "m.pte", "-i", folder / "in.npz", "--layers", "--json", "--model", model, "--dump", folder / "run"))
    for i, layer in enumerate(summary["layers"]):
        files = list((folder / "run").glob(f"layer{i:02}_*.npy"))
        layer["codes"] = np.load(files[0]) if files else None
        assert len(files) == ("inside" not in layer), layer
    return summary


def interpreter_values(folder):
    """(node, codes) of what the nodes of region 0 compute, in order, by the TOSA interpreter on what crossed the region's border."""
    inputs = [part for i in range(9) if (path := folder / "run" / f"region0_in{i}.npy").exists() for part in ("-i", path)]
    done = tool("swoop_test_tool", "tosa-run", folder / "compiled" / "region0.tosa", "--all", folder / "all.npz", *inputs)
    assert done.returncode == 0, done.stderr
    values = []
    with np.load(folder / "all.npz") as arrays:
        for key in sorted(arrays.files, key=lambda k: int(k.split("/")[0])):
            _, node, tensor = key.split("/")
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*\d", tensor):  # RESCALE12: inside a node's lowering
                values.append((node, arrays[key]))
    return values


def float_values(model, x):
    """Every value of an exported model by name, computed by PyTorch."""
    values = {}

    class Keep(torch.fx.Interpreter):
        def run_node(self, node):
            values[node.name] = super().run_node(node)
            return values[node.name]

    Keep(torch.export.load(model).module()).run(torch.from_numpy(x))
    return {name: value.detach().numpy() for name, value in values.items() if isinstance(value, torch.Tensor)}


def dequantized(layer):
    return (layer["codes"].astype(np.float64) - layer["zero_point"]) * layer["scale"]


def in_order_of(layer, value):
    """A value of PyTorch's with its channels last, where the layer has them there."""
    if value.ndim == 4 and list(value.shape) != layer["shape"]:
        value = value.transpose(0, 2, 3, 1)
    return value.reshape(layer["shape"])


def save_export(model, x, path):
    torch.export.save(torch.export.export(model.eval(), (x,)), path)


class Wide(torch.nn.Module):
    """Feature maps so large that regor cascades their layers: stripes of each live in rolling buffers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a = torch.nn.Conv2d(3, 12, 3, padding=1)
        self.b = torch.nn.Conv2d(12, 20, 3, padding=1)
        self.c = torch.nn.Conv2d(20, 12, 3, padding=1, stride=2)
        self.d = torch.nn.Conv2d(12, 4, 1)

    def forward(self, x):
        y = torch.relu(self.b(torch.relu(self.a(x))))
        return self.d(torch.sigmoid(self.c(y)))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    x = torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(1))
    save_export(Wide(), x, folder / "wide.pt2")
    np.savez(folder / "samples.npz", x=x.numpy())
    return folder / "wide.pt2", folder / "samples.npz", x.numpy()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["resnet8", "dscnn", "moveaxis", "layernorm", "seqcnn9"])
def test_every_layer_is_what_the_tosa_interpreter_has_there(name, target, tmp_path):
    summary = compile_and_run(MODELS / f"{name}_int8.pt2", np.load(MODELS / f"{name}.npz")["test"][0], tmp_path, target)
    check_layers(summary, tmp_path)


@pytest.mark.parametrize("target, flags", [
    ("ethos-u55-128", ["--optimise", "Size"]),
    ("ethos-u85-256", ["--optimise", "Size", "--system-config", "Ethos_U85_SYS_Flash_High", "--memory-mode", "Shared_Sram"]),
])
def test_stripes_of_a_cascade_are_put_together(wide, target, flags, tmp_path):
    model, samples, x = wide
    summary = compile_and_run(model, x, tmp_path, target, "--calibrate", samples, *flags)
    check_layers(summary, tmp_path)
    trace = succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--trace")
    order = [line.split("; layer ")[1].split()[0] for line in trace.splitlines() if re.match(r" *\d+  NPU_OP_(CONV|DEPTHWISE)", line)]
    assert len(order) > 8 and order != sorted(order), "some layer must come in stripes between those of another"


def check_layers(summary, folder):
    values = interpreter_values(folder)
    shown = 0
    for layer in summary["layers"]:
        same = next((i for i, (node, codes) in enumerate(values) if node == layer["name"] and list(codes.shape) == layer["shape"]), None)
        if same is None:  # lowered to nothing
            assert "inside" in layer, layer["name"]
            continue
        _, codes = values.pop(same)
        if layer["codes"] is None:
            continue
        assert np.array_equal(layer["codes"], codes), (layer["name"], layer["op"], layer["shape"])
        shown += 1
        if "scale" in layer:
            real = dequantized(layer)
            assert layer["min"] == pytest.approx(real.min(), rel=1e-5) and layer["max"] == pytest.approx(real.max(), rel=1e-5)
    assert shown >= 4 and shown >= len(summary["layers"]) // 2


@pytest.mark.parametrize("target", TARGETS)
def test_sqnr_is_what_numpy_makes_of_pytorchs_values(wide, target, tmp_path):
    wide_model, wide_samples, x = wide
    samples = np.load(MODELS / "resnet8.npz")["test"]
    np.savez(tmp_path / "resnet8.npz", x=samples)
    for model, calibration, x in [(MODELS / "resnet8.pt2", tmp_path / "resnet8.npz", samples[0]), (wide_model, wide_samples, x)]:
        folder = tmp_path / model.stem
        folder.mkdir(exist_ok=True)
        summary = compile_and_run(model, x, folder, target, "--calibrate", calibration)
        values = float_values(model, x)
        compared = [layer for layer in summary["layers"] if "sqnr_db" in layer and len(layer["shape"]) == 4]
        assert len(compared) >= 4
        for layer in compared:
            wanted = in_order_of(layer, values[layer["value"]]).astype(np.float64)
            noise = wanted - dequantized(layer)
            assert layer["sqnr_db"] == pytest.approx(10 * np.log10((wanted**2).sum() / (noise**2).sum()), abs=0.02), layer["name"]
            assert layer["max_error"] == pytest.approx(np.abs(noise).max(), rel=1e-3, abs=1e-5)
        assert summary["output_sqnr_db"][0] > 15


@pytest.mark.parametrize("target", TARGETS)
def test_layers_of_a_quantized_model_are_pytorchs_codes(target, tmp_path):
    """The q/dq graph in PyTorch rounds in float; a step of difference is a tie."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

    model = MODELS / "resnet8_int8.pt2"
    x = np.load(MODELS / "resnet8.npz")["test"][0]
    summary = compile_and_run(model, x, tmp_path, target)
    values = float_values(model, x)
    compared = [layer for layer in summary["layers"] if "sqnr_db" in layer and len(layer["shape"]) == 4]
    assert len(compared) >= 10
    for layer in compared:
        difference = np.abs(in_order_of(layer, values[layer["value"]]).astype(np.int64) - layer["codes"])
        assert difference.max() <= 1 and (difference == 0).mean() > 0.99, layer["name"]
        assert (layer["sqnr_db"] is None) == (difference.max() == 0) == (layer["max_error"] == 0)
    assert sum(layer["sqnr_db"] is None for layer in compared) >= len(compared) // 2


@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_names_its_layer_and_line(target, tmp_path):
    compile_and_run(MODELS / "dscnn_int8.pt2", np.load(MODELS / "dscnn.npz")["test"][0], tmp_path, target)
    trace = succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--trace")
    operations = [line for line in trace.splitlines() if re.match(r" *\d+  NPU_OP_(CONV|DEPTHWISE|POOL|ELEMENTWISE|RESIZE|DMA_START)", line)]
    assert len(operations) > 10
    for line in operations:
        assert re.search(r"; layer \S+ \(\w+\) \S+\.py:\d+$", line), line
    named = {line.split("; layer ")[1].split()[0] for line in operations}
    layers = json.loads(succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--layers", "--json"))["layers"]
    assert named == {layer["name"] for layer in layers if "inside" not in layer}


def test_without_a_model_the_table_says_what_one_adds(tmp_path):
    model = MODELS / "layernorm_int8.pt2"
    compile_and_run(model, np.load(MODELS / "layernorm.npz")["test"][0], tmp_path, TARGETS[0])
    table = succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--layers")
    assert "--model" in table and "SQNR dB" not in table and "inside" in table
    table = succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--layers", "--model", model)
    assert "SQNR dB" in table and "output 0: equal" in table
    other = succeed("run", tmp_path / "m.pte", "-i", tmp_path / "in.npz", "--layers", "--model", MODELS / "layernorm.pt2")
    assert "no layer was compared" in other


def test_a_stripped_file_says_that_it_names_no_layers(tmp_path):
    compile_and_run(MODELS / "layernorm_int8.pt2", np.load(MODELS / "layernorm.npz")["test"][0], tmp_path, TARGETS[0])
    stripped = tmp_path / "s.pte"
    succeed("compile", MODELS / "layernorm_int8.pt2", "-o", stripped, "--strip", "--no-verify", "-q")
    assert b"swoop_layers" in (tmp_path / "m.pte").read_bytes() and b"swoop_layers" not in stripped.read_bytes()
    trace = succeed("run", stripped, "-i", tmp_path / "in.npz", "--trace")
    assert trace.count("does not name its layers") == 1 and "; layer" not in trace and "NPU_OP_" in trace
    done = tool("swoop", "run", stripped, "-i", tmp_path / "in.npz", "--layers")
    assert done.returncode == 1 and "--strip" in done.stderr


def place_of_map(pte):
    """A vector of bytes: the version, the size of the columns in two bytes, and the columns deflated."""
    for at in range(0, len(pte) - 8, 4):
        size = int.from_bytes(pte[at : at + 4], "little")
        if pte[at + 4] != 3 or not 20 < size < 10000:
            continue
        try:
            columns = zlib.decompress(pte[at + 7 : at + 4 + size], -15)
        except zlib.error:
            continue
        if len(columns) == (pte[at + 5] & 127) + 128 * pte[at + 6]:
            return at + 4
    raise AssertionError("no map")


def test_a_damaged_map_is_refused(tmp_path):
    compile_and_run(MODELS / "layernorm_int8.pt2", np.load(MODELS / "layernorm.npz")["test"][0], tmp_path, TARGETS[0])
    good = (tmp_path / "m.pte").read_bytes()
    at = place_of_map(good)
    (tmp_path / "bad.pte").write_bytes(good[: at + 1] + bytes([good[at + 1] ^ 1]) + good[at + 2 :])  # its size
    for flag in ("--layers", "--trace"):
        done = tool("swoop", "run", tmp_path / "bad.pte", "-i", tmp_path / "in.npz", flag)
        assert done.returncode == 1 and "map of layers" in done.stderr
    assert tool("swoop", "run", tmp_path / "bad.pte", "-i", tmp_path / "in.npz").returncode == 0, "what runs does not need it"


def test_the_map_is_small(tmp_path):
    for name in ("resnet8", "mobilenet_v1"):
        for flag in ("--strip", "--no-verify"):
            succeed("compile", MODELS / f"{name}_int8.pt2", "-o", tmp_path / f"{name}{flag}.pte", "--no-verify", "-q", flag)
        stripped, whole = ((tmp_path / f"{name}{flag}.pte").stat().st_size for flag in ("--strip", "--no-verify"))
        assert 0 < whole - stripped < 1500
