"""From a q/dq model to numbers: the emitted TOSA on the TOSA reference model, and the finished .pte in the stock runtime, against
PyTorch running the quantized graph itself. Models: test/models, quantized by ExecuTorch's own quantizer."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
pytest.importorskip("tosa_reference_model", reason="the TOSA reference model is not installed (tools/setup.sh test)")
pytest.importorskip("executorch", reason="executorch is not installed (tools/setup.sh test)")

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release"))
MODELS = ROOT / "test" / "models"
NAMES = ["resnet8", "dscnn", "mobilenet_v1", "autoencoder", "layernorm", "seqcnn9", "moveaxis"]
TARGETS = ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"]


def swoop(*arguments):
    return subprocess.run([BUILD / "swoop", *map(str, arguments)], capture_output=True, text=True, timeout=600)


def compile_model(model, folder, target, *flags):
    output = folder / "model.pte"
    done = swoop("compile", model, "-o", output, "--target", target, "--dump", folder / "dump", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), output


def run_program(program, folder, **inputs):
    """The first output of the finished file, run on the host."""
    np.savez(folder / "inputs.npz", **inputs)
    done = swoop("run", program, "--inputs", folder / "inputs.npz", "-o", folder / "outputs.npz")
    assert done.returncode == 0, done.stderr
    return np.load(folder / "outputs.npz")["out0"]


@pytest.fixture(scope="module")
def references():
    """Test inputs and what PyTorch makes of them with the q/dq graph, once per model."""
    cache = {}

    def get(name):
        if name not in cache:
            from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

            module = torch.export.load(MODELS / f"{name}_int8.pt2").module(check_guards=False)
            inputs = np.load(MODELS / f"{name}.npz")["test"]
            with torch.no_grad():
                outputs = [module(torch.from_numpy(x)).numpy() for x in inputs]
            cache[name] = inputs, outputs
        return cache[name]

    return get


def quantize(x, port):
    q = np.round(x * np.float32(1.0 / port["scale"])) + port["zero_point"]
    return np.clip(q, -128, 127).astype(np.int8)


def run_reference_model(tosa, inputs):
    import tosa_reference_model

    outputs, status = tosa_reference_model.run(tosa, inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=1)
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    return outputs


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_tosa_equals_the_quantized_graph_in_pytorch(name, target, references, tmp_path):
    summary, _ = compile_model(MODELS / f"{name}_int8.pt2", tmp_path, target)
    assert summary["delegates"] == 1 and summary["host_ops"] == {}, summary["host_reasons"]
    tosa = (tmp_path / "dump" / "region0.tosa").read_bytes()
    inputs, expected = references(name)
    port_in, port_out = summary["inputs"][0], summary["outputs"][0]
    steps = []
    for x, y in zip(inputs, expected):
        (codes,) = run_reference_model(tosa, [quantize(x, port_in)])
        wanted = np.round(y / port_out["scale"]) + port_out["zero_point"]
        steps.append(np.abs(codes.reshape(wanted.shape).astype(np.int64) - wanted))
    steps = np.concatenate([s.ravel() for s in steps])
    print(f"{name} {target}: {np.mean(steps == 0):.2%} exact, largest difference {steps.max():.0f} step(s)")
    assert steps.max() <= 1
    assert np.mean(steps == 0) >= 0.99


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_the_stock_runtime_accepts_the_program(name, target, tmp_path):
    from executorch.runtime import Runtime, Verification

    summary, path = compile_model(MODELS / f"{name}_int8.pt2", tmp_path, target)
    program = Runtime.get().load_program(path, verification=Verification.InternalConsistency)
    assert program.method_names == {"forward"}
    metadata = program.metadata("forward")
    assert metadata.num_inputs() == 1 and metadata.num_outputs() == 1
    assert list(metadata.input_tensor_meta(0).sizes()) == summary["inputs"][0]["shape"]
    assert list(metadata.output_tensor_meta(0).sizes()) == summary["outputs"][0]["shape"]


def test_moveaxis_and_movedim_stay_int8_inside_the_region(tmp_path):
    compile_model(MODELS / "moveaxis_int8.pt2", tmp_path, "ethos-u55-128")
    imported = (tmp_path / "dump" / "00-import.ir").read_text()
    assert "moveaxis" in imported and "movedim" in imported
    final = sorted((tmp_path / "dump").glob("*-partition.ir"))[0].read_text()
    assert final.count("opaque") == 1 and "transpose" not in final


@pytest.mark.parametrize("name", ["resnet8", "seqcnn9"])
def test_same_input_gives_the_same_bytes_with_any_number_of_threads(name, tmp_path):
    files = []
    for i, threads in enumerate([1, 1, 2, 7]):
        path = tmp_path / f"{i}.pte"
        done = swoop("compile", MODELS / f"{name}_int8.pt2", "-o", path, "--threads", threads, "-q")
        assert done.returncode == 0, done.stderr
        files.append(path.read_bytes())
    assert len(set(files)) == 1


def test_integer_io_leaves_the_border_out(tmp_path):
    summary, _ = compile_model(MODELS / "resnet8_int8.pt2", tmp_path, "ethos-u55-128", "--io", "int8")
    assert summary["border_ops"] == {} and summary["host_ops"] == {}
    assert summary["inputs"][0]["dtype"] == "int8" and summary["outputs"][0]["dtype"] == "int8"
    assert summary["inputs"][0]["scale"] > 0 and isinstance(summary["outputs"][0]["zero_point"], int)


def test_a_foreign_quantizers_graph_stays_in_one_piece(tmp_path):
    """Float biases, and a reshape after a dequantize that nothing quantizes again: what other quantizers than the peer's leave."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401

    q8 = torch.ops.quantized_decomposed

    class Foreign(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(7)
            self.register_buffer("weight", torch.randint(-127, 128, (8, 4, 3, 3), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(8) * 0.01 + 0.001)
            self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
            self.register_buffer("matrix", torch.randint(-127, 128, (5, 8 * 6 * 6), dtype=torch.int8))
            self.bias = torch.nn.Parameter(torch.randn(8))
            self.last_bias = torch.nn.Parameter(torch.randn(5))

        def forward(self, x):
            def fake(t, scale, zero):
                codes = q8.quantize_per_tensor(t, scale, zero, -128, 127, torch.int8)
                return q8.dequantize_per_tensor(codes, scale, zero, -128, 127, torch.int8)

            w = q8.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
            y = fake(torch.relu(torch.nn.functional.conv2d(fake(x, 0.03, 4), w, self.bias)), 0.05, -128)
            m = q8.dequantize_per_tensor(self.matrix, 0.002, 0, -127, 127, torch.int8)
            return fake(torch.nn.functional.linear(torch.flatten(y.permute(0, 2, 3, 1), 1), m, self.last_bias), 0.4, 3)

    model = Foreign().eval()
    x = torch.randn(1, 4, 8, 8)
    path = tmp_path / "foreign.pt2"
    torch.export.save(torch.export.export(model, (x,)), path)
    summary, _ = compile_model(path, tmp_path, "ethos-u55-128")
    assert summary["delegates"] == 1 and summary["host_ops"] == {}, summary["host_reasons"]
    (codes,) = run_reference_model((tmp_path / "dump" / "region0.tosa").read_bytes(), [quantize(x.numpy(), summary["inputs"][0])])
    port = summary["outputs"][0]
    wanted = np.round(model(x).detach().numpy() / port["scale"]) + port["zero_point"]
    assert np.abs(codes.astype(np.int64) - wanted).max() <= 1


def unsigned(x, scale, zero_point):
    quantized = torch.ops.quantized_decomposed
    codes = quantized.quantize_per_tensor(x, scale, zero_point, 0, 255, torch.uint8)
    return codes, quantized.dequantize_per_tensor(codes, scale, zero_point, 0, 255, torch.uint8)


class UnsignedLayer(torch.nn.Module):
    """A convolution between uint8 values, weights too, with float ports or with the codes themselves at the ports."""

    def __init__(self, ports):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.ports = ports
        self.register_buffer("codes", torch.randint(0, 256, (8, 4, 3, 3), dtype=torch.uint8, generator=generator))
        self.register_buffer("bias", torch.randn(8, generator=generator))

    def forward(self, x):
        dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor
        if self.ports == "float":
            x = unsigned(x, 0.02, 120)[1]
        else:
            x = dequantize(x, 0.02, 120, 0, 255, torch.uint8)
        weight = dequantize(self.codes, 0.004, 128, 0, 255, torch.uint8)
        codes, real = unsigned(torch.nn.functional.conv2d(x, weight, self.bias), 0.1, 100)
        return real if self.ports == "float" else codes


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ports", ["float", "codes"])
def test_unsigned_codes_give_pytorchs_numbers(ports, target, tmp_path):
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

    generator = torch.Generator().manual_seed(1)
    floats = ports == "float"
    x = torch.randint(0, 256, (1, 4, 8, 8), dtype=torch.uint8, generator=generator)
    if floats:
        x = (x - 120.0) * 0.02
    module = UnsignedLayer(ports).eval()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, target)
    assert (summary["delegates"], summary["host_ops"], summary["accuracy"]["bit_exact"]) == (1, {}, True)
    assert summary["inputs"][0]["dtype"] == ("float32" if floats else "uint8")
    result = run_program(program, tmp_path, x=x.numpy())
    with torch.no_grad():
        steps = np.abs(result - module(x).numpy().astype(np.float64)) / (0.1 if floats else 1)
    assert steps.max() < 1.5 and np.mean(steps < 0.5) >= 0.99  # PyTorch's float sums decide ties between two codes


class Conv3d(torch.nn.Module):
    """A quantized convolution on three dims."""

    def __init__(self, groups, **options):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.options = dict(groups=groups, **options)
        self.register_buffer("codes", torch.randint(-127, 128, (6, 4 // groups, 3, 2, 3), dtype=torch.int8, generator=generator))
        self.register_buffer("bias", torch.randn(6, generator=generator))

    def forward(self, x):
        quantized = torch.ops.quantized_decomposed
        limits = (-128, 127, torch.int8)
        x = quantized.dequantize_per_tensor(quantized.quantize_per_tensor(x, 0.03, 5, *limits), 0.03, 5, *limits)
        weight = quantized.dequantize_per_tensor(self.codes, 0.004, 0, *limits)
        y = torch.nn.functional.conv3d(x, weight, self.bias, **self.options)
        return quantized.dequantize_per_tensor(quantized.quantize_per_tensor(y, 0.1, -3, *limits), 0.1, -3, *limits)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("batch, groups, options", [
    (1, 1, {}), (2, 1, dict(stride=(2, 1, 2), padding=1)), (1, 2, dict(padding=(2, 0, 1))), (1, 2, dict(dilation=(2, 1, 1)))],
    ids=["plain", "stride", "groups", "dilation"])
def test_convolutions_on_three_dims(batch, groups, options, target, tmp_path):
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

    x = torch.randn(batch, 4, 7, 6, 5, generator=torch.Generator().manual_seed(1))
    module = Conv3d(groups, **options).eval()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, target)
    assert (summary["delegates"], summary["host_ops"], summary["accuracy"]["bit_exact"]) == (1, {}, True)
    steps = np.abs(run_program(program, tmp_path, x=x.numpy()) - module(x).numpy()) / 0.1
    assert steps.max() < 1.5 and np.mean(steps < 0.5) >= 0.99


class Camera(torch.nn.Module):
    """Bytes of an image, channels last, as a camera gives them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return torch.relu(self.conv(x.permute(0, 3, 1, 2).to(torch.float32) / 255.0))


@pytest.mark.parametrize("target", TARGETS)
def test_a_cameras_bytes_go_to_the_npu_as_they_are(target, tmp_path):
    x = torch.randint(0, 256, (1, 13, 12, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    module = Camera().eval()
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=x.numpy()[None])
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, target, "--precision", "int8", "--calibrate", tmp_path / "samples.npz")
    assert (summary["delegates"], summary["host_ops"], summary["inputs"][0]["dtype"]) == (1, {}, "uint8")
    assert summary["accuracy"]["sqnr_db"][0] > 40
    result = run_program(program, tmp_path, x=x.numpy())
    step = summary["outputs"][0]["scale"]
    with torch.no_grad():
        np.testing.assert_allclose(result, module(x).numpy(), atol=2 * step)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_models_of_other_float_types_are_checked_and_run(dtype, tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5)).eval().to(dtype)
    samples = torch.randn(4, 1, 3, 8, 8).to(dtype)
    torch.export.save(torch.export.export(module, (samples[0],)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=samples.float().numpy())
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, "ethos-u55-128", "--calibrate", tmp_path / "samples.npz")
    assert summary["accuracy"]["samples"] == 4 and summary["accuracy"]["sqnr_db"][0] > 30
    with torch.no_grad():
        wanted = module(samples[1]).float().numpy()
    got = run_program(program, tmp_path, x=samples[1].float().numpy()).astype(np.float32)
    assert 10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum()) > 28


class Tokens(torch.nn.Module):
    """Sizes that follow from the input's: halved, multiplied, sliced."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        batch, channels, height, width = y.shape
        tokens = y.flatten(2).transpose(1, 2)
        return self.attention(tokens, tokens, tokens)[0], y.reshape(batch, channels * height, width)[:, : channels * height // 2]


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory):
    path = tmp_path_factory.mktemp("dynamic") / "model.pt2"
    shapes = ({0: torch.export.Dim("batch", max=8), 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO},)
    torch.export.save(torch.export.export(Tokens().eval(), (torch.randn(2, 3, 16, 24),), dynamic_shapes=shapes), path)
    return path


@pytest.mark.parametrize("shape", [(1, 3, 10, 14), (3, 3, 7, 16)], ids=str)
def test_open_sizes_are_given_on_the_command_line(shape, dynamic, tmp_path):
    samples = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    np.savez(tmp_path / "samples.npz", x=samples.numpy())
    text = "x".join(map(str, shape))
    summary, program = compile_model(dynamic, tmp_path, "ethos-u55-128", "--calibrate", tmp_path / "samples.npz", "--shape", f"x={text}")
    assert summary["inputs"][0]["shape"] == list(shape) and min(summary["accuracy"]["sqnr_db"]) > 30
    with torch.no_grad():
        wanted = Tokens().eval()(samples[0])[0].numpy()
    got = run_program(program, tmp_path, x=samples[0].numpy())
    assert 10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum()) > 30


def test_a_size_that_is_derived_from_another_is_given_too(tmp_path):
    quarter = torch.export.Dim("quarter", min=2, max=16)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(model, (torch.randn(1, 3, 16, 8),), dynamic_shapes=({2: 4 * quarter},)), tmp_path / "m.pt2")
    summary, _ = compile_model(tmp_path / "m.pt2", tmp_path, "ethos-u55-128", "--calibrate", "random:0", "--shape", "input=1x3x20x8")
    assert summary["inputs"][0]["shape"] == [1, 3, 20, 8]
    for rows in (18, 100):
        done = swoop("compile", tmp_path / "m.pt2", "-c", "random:0", "-o", tmp_path / "x.pte", "--shape", f"input=1x3x{rows}x8")
        assert done.returncode == 1 and f"Dimension 2 of the input `input` cannot be {rows}" in done.stderr


@pytest.mark.parametrize("flags, sentence", [
    ([], "Dimension 0 of the input `x` is dynamic (s"), (["--batch", "1"], "Dimension 2 of the input `x` is dynamic"),
    (["--shape", "x=9x3x8x8"], "Dimension 0 of the input `x` cannot be 9"), (["--shape", "x=1x4x8x8"], "dimension 1 was exported as 3"),
    (["--shape", "x=1x3"], "the input has 4 dimensions"), (["--shape", "xs=1x3x8x8"], "did you mean x?"), (["--shape", "x=1x3xa"], "write it as"),
], ids=lambda case: " ".join(case) if isinstance(case, list) else "")
def test_open_sizes_that_do_not_fit_are_refused(flags, sentence, dynamic, tmp_path):
    done = swoop("compile", dynamic, "-c", "random:0", "-o", tmp_path / "x.pte", *flags)
    assert done.returncode == 1 and sentence in done.stderr and not (tmp_path / "x.pte").exists()


def test_a_port_with_more_bits_than_io_asks_for_is_a_warning(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 3).requires_grad_(False)
    module.weight.mul_(torch.tensor([[1000.0], [100.0], [1.0]]))  # in different units
    torch.export.save(torch.export.export(module, (torch.ones(1, 3),)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", input=torch.randn(20, 1, 3).numpy())
    flags = ["--calibrate", tmp_path / "samples.npz", "--precision", "int8"]
    codes, _ = compile_model(tmp_path / "model.pt2", tmp_path, "ethos-u55-128", *flags, "--io", "int8")
    floats, _ = compile_model(tmp_path / "model.pt2", tmp_path, "ethos-u55-128", *flags, "--io", "int8,float")
    assert codes["outputs"][0]["dtype"] == "int16" and any("output out0 is int16: it has more bits" in text for text in codes["warnings"])
    assert not any("wide-port" in text for text in floats["warnings"])


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("flags, dtypes, last", [
    (["--io", "int8"], ("int8", "int8"), False), (["--io", "uint8"], ("uint8", "uint8"), False),
    (["--io", "int8,float"], ("int8", "float32"), False), (["--io-layout", "nhwc"], ("float32", "float32"), True),
    (["--io", "uint8,float", "--io-layout", "x=nhwc", "--io-layout", "out0=nhwc"], ("uint8", "float32"), True)], ids=["int8", "uint8", "mixed", "nhwc", "both"])
def test_the_caller_chooses_numbers_and_layout_of_ports(flags, dtypes, last, target, tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 5, 3)).eval()
    x = torch.randn(1, 3, 16, 12)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", input=x.numpy()[None])
    flags = [flag.replace("x=", "input=") for flag in flags]
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, target, "--precision", "int8", "--calibrate", tmp_path / "samples.npz", *flags)
    port, result = summary["inputs"][0], summary["outputs"][0]
    assert (port["dtype"], result["dtype"]) == dtypes and port["shape"] == ([1, 16, 12, 3] if last else [1, 3, 16, 12])
    assert summary["delegates"] == 1 and summary["host_ops"] == {} and summary["accuracy"]["sqnr_db"][0] > 35
    given = x.permute(0, 2, 3, 1).numpy() if last else x.numpy()
    if port["dtype"] != "float32":
        low, high = np.iinfo(port["dtype"]).min, np.iinfo(port["dtype"]).max
        given = np.clip(np.round(given / port["scale"]) + port["zero_point"], low, high).astype(port["dtype"])
    got = run_program(program, tmp_path, input=np.ascontiguousarray(given))
    if result["dtype"] != "float32":
        got = (got.astype(np.float32) - result["zero_point"]) * result["scale"]
    with torch.no_grad():
        wanted = module(x).numpy()
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2) if last else got, wanted, atol=3 * result["scale"])


class NestedBranches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        def inner(x):
            return torch.cond(x.mean() > 0.1, lambda x: self.a(x).relu(), lambda x: self.b(x).tanh(), (x,)) + 1

        return torch.cond(x.sum() > 0, inner, lambda x: x * 2, (x,))


class Loop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, x: (i < 3) & (x.sum() < 99), lambda i, x: (i + 1, self.linear(x) * 0.5), (torch.zeros((), dtype=torch.int64), x))[1]


class LoopInBranch(Loop):
    """A branch gets codes, and its loop computes in float."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, super().forward, lambda x: x * 2, (x,))


class LoopThatNoSampleEnters(Loop):
    """Its body is measured on the state that the loop starts with."""

    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda x: x.sum() > 99, lambda x: (self.linear(x).tanh(),), (x * 2,))[0]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("module", [NestedBranches, Loop, LoopInBranch, LoopThatNoSampleEnters])
def test_control_flow_with_weights_inside(module, target, tmp_path):
    model = module().eval()
    samples = torch.randn(8, 1, 8, generator=torch.Generator().manual_seed(1))
    torch.export.save(torch.export.export(model, (samples[0],)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=samples.numpy())
    _, program = compile_model(tmp_path / "model.pt2", tmp_path, target, "--calibrate", tmp_path / "samples.npz")
    with torch.no_grad():
        wanted = np.stack([model(x).numpy() for x in samples])
    got = run_program(program, tmp_path, x=samples.numpy())
    assert 10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum()) > 29


class JoinedReductions(torch.nn.Module):
    """As in CBAM. regor's own code for a REDUCE_MAX in front of a concat reads a row too far on U55 and U65."""

    def forward(self, x):
        return torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True), x.amin(1, keepdim=True)], 1), x.amax(-1)


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_may_be_joined(target, tmp_path):
    x = torch.rand(1, 17, 5, 20, generator=torch.Generator().manual_seed(0)) * 2 - 1
    torch.export.save(torch.export.export(JoinedReductions(), (x,)), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=x.numpy()[None])
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, target, "--precision", "int8", "--calibrate", tmp_path / "samples.npz")
    assert (summary["delegates"], summary["host_ops"], summary["accuracy"]["bit_exact"]) == (1, {}, True)
    step = summary["outputs"][0]["scale"]
    np.testing.assert_allclose(run_program(program, tmp_path, x=x.numpy()), JoinedReductions()(x)[0].numpy(), atol=1.01 * step)


class HostKernels(torch.nn.Module):
    """Operators that only the runtime's own kernels compute stand between layers, and integers leave the model."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.before, self.after = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3)

    def forward(self, x, grid):
        y = self.after(torch.nn.functional.grid_sample(torch.relu(self.before(x)), grid, padding_mode="reflection", align_corners=False))
        values, indices = y.flatten(1).topk(3)
        return y, values, indices


def test_models_are_calibrated_through_kernels_of_the_runtime(tmp_path):
    generator = torch.Generator().manual_seed(1)
    samples = [(torch.randn(1, 3, 9, 8, generator=generator), torch.rand(1, 9, 8, 2, generator=generator) * 2 - 1) for _ in range(3)]
    module = HostKernels().eval()
    torch.export.save(torch.export.export(module, samples[0]), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=np.stack([x.numpy() for x, _ in samples]), grid=np.stack([g.numpy() for _, g in samples]))
    summary, program = compile_model(tmp_path / "model.pt2", tmp_path, "ethos-u55-128", "--calibrate", tmp_path / "samples.npz")
    assert summary["host_ops"] == {"aten::grid_sampler_2d": 1, "aten::topk.values": 1}, summary["host_reasons"]
    accuracy = summary["accuracy"]
    assert min(accuracy["sqnr_db"][:2]) > 30 and accuracy["equal"][:2] == [None, None]
    assert accuracy["sqnr_db"][2] is None and accuracy["max_error"][2] is None and 0.5 < accuracy["equal"][2] <= 1
    with torch.no_grad():
        wanted = [module(*sample)[0].numpy() for sample in samples]
    got = run_program(program, tmp_path, **np.load(tmp_path / "samples.npz"))
    largest = max(float(np.abs(g - w).max()) for g, w in zip(got, wanted))
    assert accuracy["max_error"][0] == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize("target, config, mode", [
    ("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
])
def test_the_delegates_blob_is_what_the_peer_packs_from_the_same_tosa(target, config, mode, tmp_path):
    from executorch.backends.arm.arm_vela import vela_compile

    _, path = compile_model(MODELS / "resnet8_int8.pt2", tmp_path, target)
    flags = [f"--accelerator-config={target}", "--config=Arm/vela.ini", "--output-format=raw", f"--system-config={config}", f"--memory-mode={mode}"]
    peer = vela_compile((tmp_path / "dump" / "region0.tosa").read_bytes(), flags).processed_bytes
    assert peer.startswith(b"vela_bin_stream") and b"vela_end_stream" in peer
    assert bytes(peer) in path.read_bytes()
