"""Forms that exist to save cycles: small models that once cost several times as much, compiled, run on the host and compared with PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
from formulas import Model, compiled, sqnr_db  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
U55, U85 = "ethos-u55-128", "ethos-u85-256"


def number(*shape):
    return nn.Parameter(torch.rand(*shape, generator=torch.Generator().manual_seed(1)) + 0.5)


def channel_attention(self, x):
    y = self.conv(x)
    scale = torch.sigmoid(self.mix(y.mean((2, 3)).view(1, 1, -1))).view(1, -1, 1, 1)
    return functional.relu(y * scale.expand_as(y) + self.skip(x))


def patches(self, x):
    """To patches of 2 x 2 and back, as MobileViT does it."""
    y = self.before(x).reshape(32, 8, 2, 8, 2).permute(2, 4, 1, 3, 0).reshape(4, 64, 32)
    return self.after(self.mix(y).reshape(2, 2, 8, 8, 32).permute(4, 2, 0, 3, 1).reshape(1, 32, 16, 16))


def windows(self, x):
    """To windows of 4 x 4 and back, as Swin does it."""
    y = self.before(x).reshape(4, 4, 4, 4, 32).permute(0, 2, 1, 3, 4).reshape(16, 16, 32)
    return self.after(self.mix(y).reshape(4, 4, 4, 4, 32).permute(0, 2, 1, 3, 4).reshape(1, 256, 32))


def rotary(self, x):
    """Pairs of channels, turned by an angle."""
    y = self.linear(x)
    turned = torch.stack([-y[..., 1::2], y[..., ::2]], -1).flatten(-2)
    return y * self.cos + turned * self.sin


# name: model, shape of x, most kilocycles on each NPU, least SQNR in dB
CASES = {
    "stem": (nn.Conv2d(3, 8, 3, 2, 1), (1, 3, 96, 96), {U85: 60}, 30),
    "odd_stem": (nn.Conv2d(3, 8, 3, 2, 1), (1, 3, 97, 97), {U85: 100}, 30),
    "unpadded_stem": (nn.Conv2d(3, 8, 3, 2), (1, 3, 96, 96), {U55: 45, U85: 60}, 30),
    "normalized": (Model(lambda s, x: s.conv((x - s.mean) / s.std), conv=nn.Conv2d(3, 8, 3, 2), mean=number(1, 3, 1, 1), std=number(1, 3, 1, 1)), (1, 3, 96, 96), {U55: 45, U85: 60}, 30),
    "normalized_padded": (Model(lambda s, x: s.conv((x - s.mean) / s.std), conv=nn.Conv2d(3, 8, 3, 2, 1), mean=number(1, 3, 1, 1), std=number(1, 3, 1, 1)), (1, 3, 96, 96), {U55: 90, U85: 120}, 30),
    "filter_bank": (Model(lambda s, x: torch.matmul(s.bank, x), bank=number(40, 201)), (1, 201, 98), {U55: 40, U85: 40}, 30),
    "layer_scale": (Model(lambda s, x: x + s.linear(x) * s.gamma, linear=nn.Linear(64, 64), gamma=number(64)), (1, 196, 64), {U55: 60, U85: 60}, 30),
    "channel_attention": (Model(channel_attention, conv=nn.Conv2d(64, 128, 1), skip=nn.Conv2d(64, 128, 1), mix=nn.Conv1d(1, 1, 5, padding=2)), (1, 64, 3, 3), {U55: 100, U85: 100}, 25),
    "constant_matrices": (Model(lambda s, x: torch.einsum("bhwc,hkc->bhwk", x, s.matrices), matrices=number(6, 6, 64)), (18, 6, 6, 64), {U55: 100}, 30),
    "patches": (Model(patches, before=nn.Conv2d(16, 32, 1), mix=nn.Linear(32, 32), after=nn.Conv2d(32, 16, 1)), (1, 16, 16, 16), {U85: 100}, 30),
    "rotary": (Model(rotary, linear=nn.Linear(64, 64), cos=number(196, 64), sin=number(196, 64)), (1, 196, 64), {U55: 300, U85: 200}, 30),
    "few_pixels": (nn.Conv2d(64, 256, 1), (1, 64, 4, 4), {U55: 60, U85: 60}, 30),
    "long_rows": (nn.Conv1d(40, 64, 3, padding=1), (1, 40, 600), {U85: 80}, 30),
    "windows": (Model(windows, before=nn.Linear(32, 32), mix=nn.Linear(32, 32), after=nn.Linear(32, 32)), (1, 256, 32), {U85: 100}, 30),
}


@pytest.mark.parametrize("name,target", [(name, target) for name, case in CASES.items() for target in case[2]])
def test_it_costs_little_and_computes_what_pytorch_does(name, target, tmp_path):
    model, shape, most, least = CASES[name]
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    summary = compiled(model, x, target, tmp_path)
    assert summary["delegates"] == 1 and not summary["host_ops"]
    assert summary["totals"]["total_cycles"] <= 1000 * most[target]
    assert sqnr_db(model, x, tmp_path) >= least
