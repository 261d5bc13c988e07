"""The quantizer against the peer's (PT2E with the Ethos-U quantizer): ranges as its observer finds them, and signal
over noise not below its own."""

import json
import os
import re
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed (tools/setup.sh test)")
# Importing it registers the operators that quantized programs are made of.
pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="the peer torchao is not installed")
from torchao.quantization.pt2e.observer import HistogramObserver  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release"))
TOOL = BUILD / "swoop_test_tool"
MODELS = sorted(p.name[:-9] for p in (ROOT / "test" / "models").glob("*_int8.pt2"))


def quantize(*arguments):
    return subprocess.run([TOOL, "quantize", *map(str, arguments)], capture_output=True, text=True, timeout=600)


def sqnr_of(*arguments):
    result = quantize(*arguments)
    assert result.returncode == 0, result.stderr
    return float(re.search(r"sqnr_db (\S+)", result.stdout)[1])


def sqnr_db(reference, actual):
    noise = float(((reference.double() - actual.double()) ** 2).sum())
    return 999.0 if noise == 0 else 10 * np.log10(float((reference.double() ** 2).sum()) / noise)


def save_samples(path, name, samples):
    np.savez(path, **{name: np.stack([s.numpy() if isinstance(s, torch.Tensor) else s for s in samples])})
    return path


@pytest.mark.parametrize("name", MODELS)
def test_signal_over_noise_is_not_below_the_peers(name, tmp_path):
    """On 128 mixtures of the calibration samples, in decibels, mean over the inputs. The mean still has an error: with the two
    outputs of mobilenet_v1, whose ratio differs by 8 dB from input to input, it is 0.7 dB. And ranges have room for inputs that reach
    further than the samples, which mixtures of them do not: mobilenet_v1 pays 0.3 dB for it. Hence the decibel."""
    path = ROOT / "test" / "models" / name
    calibration = np.load(f"{path}.npz")["calibrate"]
    program = torch.export.load(f"{path}.pt2")
    input_name = program.graph_signature.user_inputs[0]
    model, peer = program.module(), torch.export.load(f"{path}_int8.pt2").module()
    random = np.random.default_rng(5)
    pairs = random.integers(0, len(calibration), (128, 2))
    shares = random.uniform(0.6, 0.95, 128).astype(np.float32)
    tests = [s * calibration[a] + np.sqrt(1 - s * s) * calibration[b] for s, (a, b) in zip(shares, pairs)]
    with torch.no_grad():
        theirs = np.mean([sqnr_db(model(x), peer(x)) for x in map(torch.from_numpy, tests)])
    ours = sqnr_of(f"{path}.pt2", save_samples(tmp_path / "c.npz", input_name, calibration),
                   save_samples(tmp_path / "t.npz", input_name, tests))
    print(f"{name}: ours {ours:.1f} dB, peer {theirs:.1f} dB")
    assert ours >= theirs - 1


def values_of(text):
    """value name -> (scale, zero point), of --print values."""
    found = re.finditer(r"^(\S+) .*i8\[[\d,]*\] q\(([-\d.e]+), (-?\d+)\)$", text, re.M)
    return {m[1]: (float(m[2]), int(m[3])) for m in found}


@pytest.mark.parametrize("seed", range(6))
def test_method_histogram_is_the_peers_observer(seed, tmp_path):
    torch.manual_seed(seed)
    noise = torch.randn(4, 1, 1, 64, 64)
    kinds = [noise, torch.rand(4, 1, 1, 64, 64), noise.relu() * 3, noise**3, noise * 0.01 - 5, noise.exp()]
    samples = [x * (1 + 0.3 * i) for i, x in enumerate(kinds[seed])]
    observer = HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine,
                                 eps=2**-16)
    for x in samples:
        observer(x)
    scale, zero_point = observer.calculate_qparams()

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(x)

    torch.export.save(torch.export.export(Net(), (samples[0],)), tmp_path / "m.pt2")
    path = save_samples(tmp_path / "s.npz", "x", samples)
    result = quantize(tmp_path / "m.pt2", path, "--method", "histogram", "--print", "values")
    assert result.returncode == 0, result.stderr
    ours = values_of(result.stdout)["x"]
    assert ours[0] == pytest.approx(float(scale), rel=0.02)
    assert abs(ours[1] - int(zero_point)) <= 2


class Part(torch.nn.Module):
    """A random small network from a seed."""

    def __init__(self, seed):
        super().__init__()
        random = np.random.default_rng(seed)
        torch.manual_seed(seed)
        nn = torch.nn
        menu = [
            lambda: nn.Conv2d(8, 8, 3, padding=1),
            lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6()),
            lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()),
            lambda: nn.ConvTranspose2d(8, 8, 3, padding=1),
            lambda: nn.AvgPool2d(3, 1, 1),
            lambda: nn.GroupNorm(2, 8),
            lambda: nn.BatchNorm2d(8),
            lambda: nn.LayerNorm(12),
            lambda: nn.Softmax(1),
            lambda: nn.LeakyReLU(0.1),
            nn.SiLU, nn.GELU, nn.Hardswish,
        ]
        self.layers = nn.ModuleList(menu[i]() for i in random.integers(0, len(menu), 6))
        self.joins = random.integers(0, 4, 6).tolist()

    def forward(self, x):
        for layer, join in zip(self.layers, self.joins):
            y = layer(x)
            x = [y, y + x, torch.cat([y, x], 1)[:, 4:12], y.movedim(2, 3)][join]
        return x


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed, tmp_path):
    model = Part(seed).eval()
    samples = [torch.randn(1, 8, 12, 12) for _ in range(4)]
    torch.export.save(torch.export.export(model, (samples[0],)), tmp_path / "m.pt2")
    path = save_samples(tmp_path / "s.npz", "x", samples)
    result = quantize(tmp_path / "m.pt2", path, "--print", "layers")
    assert result.returncode == 0, result.stderr
    # Each layer alone: what the network makes of the noise before it (a LayerNorm of nearly equal numbers) is not its fault. A
    # small value that goes into a concat with a large one has the large one's steps.
    own = [float(m[1]) for m in re.finditer(r"^ +(\S+) +\S+ +\S+%", result.stdout, re.M)]
    assert len(own) >= 3 and min(own) > 20, f"seed {seed}\n{result.stdout}"
    int8 = float(re.search(r"sqnr_db (\S+)", result.stdout)[1])
    assert sqnr_of(tmp_path / "m.pt2", path, "--precision", "int16") > int8, f"seed {seed}"


def test_random_samples_mark_the_result():
    result = quantize(ROOT / "test" / "models" / "layernorm.pt2", "random:1", "--print", "values")
    assert result.returncode == 0, result.stderr
    assert "UNCALIBRATED" in result.stdout


def test_precision_on_a_budget(tmp_path):
    path = ROOT / "test" / "models" / "seqcnn9"
    name = torch.export.load(f"{path}.pt2").graph_signature.user_inputs[0]
    samples = save_samples(tmp_path / "c.npz", name, np.load(f"{path}.npz")["calibrate"])
    before = sqnr_of(f"{path}.pt2", samples)
    assert sqnr_of(f"{path}.pt2", samples, "--min-sqnr", before + 3) >= before + 2.9


@pytest.mark.parametrize(
    "small, said",
    [
        ([[0.5, 1.0]], "channel 1 of conv2d varies in the float model and has one value in the file"),
        ([[0.5, 1.0], [0.4, 0.1]], "channels 1 and 2 of conv2d vary in the float model and have one value each"),
        ([[0.5, 1.0]] * 7, "channels 1, 2, 3 and 4 others of conv2d vary"),
    ],
)
def test_a_channel_that_would_be_flat_is_an_error_unless_it_is_allowed(small, said, tmp_path):
    """A head with temperatures beside a pressure: by itself it gets 16 bits; forced to 8, they are lost."""
    head = torch.nn.Conv2d(2, len(small) + 1, 1)
    head.weight.data = torch.tensor([[1000.0, 500.0], *small])[..., None, None]
    torch.export.save(torch.export.export(head.eval(), (torch.randn(1, 2, 4, 4),)), tmp_path / "m.pt2")
    samples = save_samples(tmp_path / "s.npz", "input", [torch.randn(1, 2, 4, 4) for _ in range(4)])
    (tmp_path / "c.toml").write_text('[[op]]\nname = "conv"\nprecision = "int8"\n')
    def build(*flags):
        command = [BUILD / "swoop", "compile", tmp_path / "m.pt2", "-c", samples, "-o", tmp_path / "m.pte", *flags]
        return subprocess.run(command, capture_output=True, text=True)
    assert build().returncode == 0
    forced = build("--quantize-config", tmp_path / "c.toml")
    without_source = re.sub(r" \(\S+:\d+\)", "", forced.stderr)
    assert forced.returncode == 1 and said in without_source, forced.stderr
    assert "does not help" not in forced.stderr, "there is nothing to try: the file says what they are"
    assert build("--quantize-config", tmp_path / "c.toml", "--allow-flat", "conv2d").returncode == 0


class Scores(torch.nn.Module):
    """24 scores of 64 features and two that are always 1. The last 8 have large weights for the two, and small ones that tell the second half of
    the features apart: with coarse steps they are 0."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(66, 24)
        self.head.weight.data *= 40
        self.head.weight.data[16:] = 0
        self.head.weight.data[16:, :2] = 1
        self.head.weight.data[16:, 34:] = 0.03 * torch.sign(torch.randn(8, 32))

    def forward(self, x):
        return self.head(torch.cat([torch.ones(1, 2), x], 1))


@pytest.mark.parametrize("quiet, says", [(4, True), (0, False)], ids=["file", "first_samples"])
def test_weights_are_as_fine_as_their_channels_need(quiet, says, tmp_path):
    """Where the first samples show it, the quantizer takes finer steps by itself; else the finished file does, and it is built again."""
    torch.manual_seed(1)
    samples = [torch.randn(1, 64) for _ in range(8)]
    for sample in samples[:quiet]:
        sample[:, 32:] = 0
    torch.export.save(torch.export.export(Scores().eval(), (samples[0],)), tmp_path / "m.pt2")
    path = save_samples(tmp_path / "s.npz", "x", samples)
    def build(*flags):
        command = [BUILD / "swoop", "compile", tmp_path / "m.pt2", "-c", path, "-o", tmp_path / "m.pte", "--weight-rate", "6", *flags]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout + result.stderr
    finer = "would have one value in the file: built with the finest weights instead"
    assert (finer in build()) == says
    if says:
        assert finer not in build("--allow-flat", "linear")


def test_a_channel_that_8_bits_lose_on_the_way_gets_16(tmp_path):
    """A pressure and a temperature go through two layers in one tensor. With --precision int8 there is nothing to try."""
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1, bias=False), torch.nn.Conv2d(2, 2, 1, bias=False)).eval()
    for layer in model:
        layer.weight.data = torch.eye(2)[..., None, None]
    units = torch.tensor([1000.0, 0.5])[:, None, None]
    samples = save_samples(tmp_path / "s.npz", "input", [torch.randn(1, 2, 16, 16) * units for _ in range(4)])
    torch.export.save(torch.export.export(model, (torch.randn(1, 2, 16, 16),)), tmp_path / "m.pt2")
    command = [BUILD / "swoop", "compile", tmp_path / "m.pt2", "-c", samples, "-o", tmp_path / "m.pte"]
    finer = subprocess.run(command, capture_output=True, text=True)
    assert finer.returncode == 0, finer.stderr
    assert "channel 1 of conv2d_1 would have one value in the file: built with int16 for all that it is computed from" in finer.stdout + finer.stderr
    said = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)
    forecast = json.loads(subprocess.run([BUILD / "swoop", "accuracy", tmp_path / "m.pt2", "-c", samples, "--json"], capture_output=True, text=True).stdout)
    assert forecast["output_sqnr_db"] == pytest.approx(said["accuracy"]["sqnr_db"], abs=1), "the forecast is of the types that the file has"
    first = (tmp_path / "m.pte").read_bytes()
    assert subprocess.run([*command, "--test", samples], capture_output=True).returncode == 0
    assert (tmp_path / "m.pte").read_bytes() == first, "a test set does not change what is built"
    narrow = subprocess.run([*command, "--precision", "int8"], capture_output=True, text=True)
    assert narrow.returncode == 1 and "channel 1 of conv2d_1" in narrow.stderr and "does not help" not in narrow.stderr


def write_png(path, pixels):
    """Height x width x 3 bytes, as the simplest PNG file there is."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def measured_ranges(samples, *flags):
    """value name -> (min, max), of `swoop accuracy`."""
    result = subprocess.run([BUILD / "swoop", "accuracy", ROOT / "test" / "models" / "resnet8.pt2", "--calibrate", samples, *map(str, flags)],
                            capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    rows = re.finditer(r"^(\S+) .* ([-+.\de]+) +([-+.\de]+) +[.\d]+%  i8", result.stdout, re.M)
    return {m[1]: (float(m[2]), float(m[3])) for m in rows}


def test_images_are_what_torchvision_makes_of_them(tmp_path):
    """Resize to the shorter side, crop the middle, scale to 0..1, normalize: every range of the network comes out as with
    tensors that PyTorch made."""
    random = np.random.default_rng(3)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    (tmp_path / "images").mkdir()
    tensors = []
    for i, (height, width) in enumerate([(32, 32), (48, 67), (90, 41), (20, 25)]):  # as it is, shrunk twice, grown
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        write_png(tmp_path / "images" / f"{i}.png", pixels)
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
        short = min(height, width)
        size = (32 * height // short, 32 * width // short)
        x = torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=True)
        top, left = round((size[0] - 32) / 2), round((size[1] - 32) / 2)
        x = x[:, :, top:top + 32, left:left + 32]
        tensors.append((x - mean[:, None, None]) / std[:, None, None])
    ours = measured_ranges(tmp_path / "images", "--mean", *mean.tolist(), "--std", *std.tolist())
    theirs = measured_ranges(save_samples(tmp_path / "x.npz", "any_name", tensors))
    assert len(ours) > 10 and ours.keys() == theirs.keys()
    for name, wanted in theirs.items():
        assert ours[name] == pytest.approx(wanted, rel=1e-4, abs=1e-4), name
