"""The quantizer against the peer's (PT2E with the Ethos-U quantizer): ranges as its observer finds them, signal over noise not below its own."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed (tools/setup.sh test)")

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "quantize_tool"
MODELS = sorted(p.name[:-9] for p in (ROOT / "test" / "models").glob("*_int8.pt2"))


def quantize(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=600)


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
    """Judged on many inputs like the calibration's: on two, half of the models move by a decibel with every change of a rounding."""
    path = ROOT / "test" / "models" / name
    calibration = np.load(f"{path}.npz")["calibrate"]
    program = torch.export.load(f"{path}.pt2")
    input_name = program.graph_signature.user_inputs[0]
    model, peer = program.module(), torch.export.load(f"{path}_int8.pt2").module()
    random = np.random.default_rng(7)
    picks = random.integers(0, len(calibration), (24, 2))
    share = random.uniform(0.6, 0.95, 24).astype(np.float32)
    tests = [share[i] * calibration[a] + np.sqrt(1 - share[i] ** 2) * calibration[b] for i, (a, b) in enumerate(picks)]
    with torch.no_grad():
        theirs = np.mean([sqnr_db(model(torch.from_numpy(x)), peer(torch.from_numpy(x))) for x in tests])
    ours = sqnr_of(f"{path}.pt2", save_samples(tmp_path / "c.npz", input_name, calibration), save_samples(tmp_path / "t.npz", input_name, tests))
    print(f"{name}: ours {ours:.1f} dB, peer {theirs:.1f} dB")
    assert ours >= theirs - 0.3


def values_of(text):
    """value name -> (scale, zero point), of print=values."""
    return {m[1]: (float(m[2]), int(m[3])) for m in re.finditer(r"^(\S+) .*i8\[[\d,]*\] q\(([-\d.e]+), (-?\d+)\)$", text, re.M)}


@pytest.mark.parametrize("seed", range(6))
def test_method_histogram_is_the_peers_observer(seed, tmp_path):
    observer_module = pytest.importorskip("torchao.quantization.pt2e.observer", reason="the peer torchao is not installed")
    torch.manual_seed(seed)
    kinds = [lambda: torch.randn(1, 1, 64, 64), lambda: torch.rand(1, 1, 64, 64), lambda: torch.randn(1, 1, 64, 64).relu() * 3,
             lambda: torch.randn(1, 1, 64, 64) ** 3, lambda: torch.randn(1, 1, 64, 64) * 0.01 - 5, lambda: torch.randn(1, 1, 64, 64).exp()]
    samples = [kinds[seed]() * (1 + 0.3 * i) for i in range(4)]
    observer = observer_module.HistogramObserver(dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine, eps=2**-16)
    for x in samples:
        observer(x)
    scale, zero_point = observer.calculate_qparams()

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.tanh(x)

    torch.export.save(torch.export.export(Net(), (samples[0],)), tmp_path / "m.pt2")
    result = quantize(tmp_path / "m.pt2", save_samples(tmp_path / "s.npz", "x", samples), "method=histogram", "print=values")
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
        menu = [lambda: nn.Conv2d(8, 8, 3, padding=1), lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6()),
                lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()), lambda: nn.SiLU(), lambda: nn.Hardswish(),
                lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.GELU(), lambda: nn.GroupNorm(2, 8), lambda: nn.BatchNorm2d(8),
                lambda: nn.ConvTranspose2d(8, 8, 3, padding=1), lambda: nn.LeakyReLU(0.1), lambda: nn.Softmax(1), lambda: nn.LayerNorm(12)]
        self.layers = nn.ModuleList(menu[i]() for i in random.integers(0, len(menu), 6))
        self.joins = random.integers(0, 4, 6).tolist()

    def forward(self, x):
        for layer, join in zip(self.layers, self.joins):
            y = layer(x)
            x = y + x if join == 1 else torch.cat([y, x], 1)[:, 4:12] if join == 2 else y.movedim(2, 3) if join == 3 else y
        return x


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed, tmp_path):
    model = Part(seed).eval()
    samples = [torch.randn(1, 8, 12, 12) for _ in range(4)]
    torch.export.save(torch.export.export(model, (samples[0],)), tmp_path / "m.pt2")
    path = save_samples(tmp_path / "s.npz", "x", samples)
    int8 = sqnr_of(tmp_path / "m.pt2", path)
    int16 = sqnr_of(tmp_path / "m.pt2", path, "precision=int16", "weight_bits=8")
    assert int8 > 20, f"seed {seed}"
    assert int16 > int8, f"seed {seed}"


def test_random_samples_mark_the_result():
    result = quantize(ROOT / "test" / "models" / "layernorm.pt2", "random:1", "print=values")
    assert result.returncode == 0, result.stderr
    assert "UNCALIBRATED" in result.stdout


def test_precision_on_a_budget(tmp_path):
    path = ROOT / "test" / "models" / "seqcnn9"
    name = torch.export.load(f"{path}.pt2").graph_signature.user_inputs[0]
    samples = save_samples(tmp_path / "c.npz", name, np.load(f"{path}.npz")["calibrate"])
    before = sqnr_of(f"{path}.pt2", samples)
    assert sqnr_of(f"{path}.pt2", samples, f"min_sqnr={before + 3}") >= before + 2.9
