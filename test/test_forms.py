"""Integer forms that are right for any range: small models with the options that once ended in internal errors or in other numbers,
compiled, run on the host and compared with PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
from formulas import Model, compiled, sqnr_db  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
INT16 = ["--precision", "int16"]


def weights(*shape):
    return nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(1)))


class Leaky(nn.Module):
    """Keeps what it gave last in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 6))

    def forward(self, x):
        y = torch.tanh(x + 0.5 * self.last)
        self.last.copy_(y)
        return y


def conditional(self, x):
    mixed = torch.sigmoid(self.route(x.mean((2, 3)))) @ self.experts
    return functional.conv2d(x, mixed.view(8, 8, 3, 3), padding=1)


# name: model, shape of x, flags, least SQNR in dB
CASES = {
    "normalize": (Model(lambda s, x: functional.normalize(x, dim=1)), (1, 64), INT16, 70),
    "quotient": (Model(lambda s, x: x[:, :8] / (x[:, 8:].abs() + 0.01)), (1, 16), INT16, 50),
    "z_score": (Model(lambda s, x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)), (1, 64), INT16, 70),
    "two_tables": (Model(lambda s, x: torch.tanh(torch.sigmoid(x) * x)), (1, 64), INT16, 60),
    "softmax": (Model(lambda s, x: functional.softmax(x, 1)), (1, 40), INT16, 71),
    "layer_norm": (nn.LayerNorm(64), (1, 8, 64), INT16, 75),
    "flat_row": (Model(lambda s, x: s.norm(torch.cat([s.flat, x], 1)), norm=nn.LayerNorm(64, eps=1e-6), flat=nn.Parameter(1e-6 * torch.ones(1, 1, 64))), (1, 8, 64), [], 30),
    "row_of_few_steps": (Model(lambda s, x: s.norm(x * s.sizes), norm=nn.LayerNorm(320, eps=1e-6), sizes=nn.Parameter(torch.tensor([[0.03], [1], [1], [1], [1]]))), (1, 5, 320), [], 10),
    "row_of_few_steps_of_16_bits": (Model(lambda s, x: s.norm(x * s.sizes), norm=nn.LayerNorm(320, eps=1e-6), sizes=nn.Parameter(torch.tensor([[0.001], [1], [1], [1], [1]]))), (1, 5, 320), INT16, 28),
    "root_of_few_steps_of_16_bits": (Model(lambda s, x: s.norm(x * s.sizes), norm=nn.RMSNorm(320, eps=1e-6), sizes=nn.Parameter(torch.tensor([[0.001], [1], [1], [1], [1]]))), (1, 5, 320), INT16, 25),
    "pixel_groups": (nn.GroupNorm(2, 32), (6, 32), [], 35),
    "grown": (Model(lambda s, x: torch.cat([functional.interpolate(x, scale_factor=2), s.up(x)], 1), up=nn.ConvTranspose2d(4, 4, 2, 2)), (1, 4, 3, 3), [], 35),
    "offset": (Model(lambda s, x: s.norm(x + 30 * s.offset), norm=nn.GroupNorm(1, 64), offset=weights(1, 64, 1, 1)), (1, 64, 32, 32), [], 30),
    "quiet_groups_of_16_bits": (Model(lambda s, x: s.norm(x * s.sizes), norm=nn.GroupNorm(4, 128), sizes=nn.Parameter(torch.full((128, 1), 0.05).index_fill_(0, torch.arange(32), 3))), (1, 128, 100), INT16, 40),
    "four_bits": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (1, 3, 8, 8), [*INT16, "--weight-bits", "4"], 15),
    "buffer": (Leaky(), (1, 6), ["--io", "int8"], None),
    "multiple": (Model(lambda s, x: x * 2), (1, 6), [], 35),
    "far_apart": (Model(lambda s, x: torch.maximum(s.linear(x) * 1e7, x * 1e-6), linear=nn.Linear(8, 8)), (1, 8), [], 25),
    "large_window": (Model(lambda s, x: functional.avg_pool2d(x, 4, 4, ceil_mode=True)), (1, 4, 2, 2), [], 30),
    "left_constant": (Model(lambda s, x: torch.einsum("oc,bct->bot", s.matrix, x), matrix=weights(5, 8)), (1, 8, 6), INT16, 45),
    "computed_weights": (Model(conditional, route=nn.Linear(8, 4), experts=weights(4, 576)), (1, 8, 8, 8), [], 25),
    "many_groups": (nn.Conv2d(208, 208, 3, padding=1, groups=104), (1, 208, 4, 4), [], 30),
    "corners": (Model(lambda s, x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)), (1, 4, 6, 6), [], 32),
    "corners_of_16_bits": (Model(lambda s, x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)), (1, 4, 6, 6), INT16, 42),
    "log_of_sizes": (Model(lambda s, x: torch.stack([torch.log1p(x.abs()), 20 * x])), (1, 36), [*INT16, "--no-host"], 60),
    "norm_of_half": (Model(lambda s, x: s.norm(s.linear(x).chunk(2, -1)[1]), linear=nn.Linear(24, 48), norm=nn.LayerNorm(24)), (1, 17, 24), [*INT16, "--one-region"], 45),
    "any_factor": (Model(lambda s, x: functional.interpolate(x, scale_factor=1.7, mode="bilinear")), (1, 4, 6, 9), [], 34),
    "odd_nearest": (Model(lambda s, x: functional.interpolate(functional.interpolate(x, scale_factor=3.4), scale_factor=2.1)), (1, 4, 2, 2), [], 38),
    "permuted": (Model(lambda s, x: x[:, s.order], order=torch.randperm(80, generator=torch.Generator().manual_seed(1))), (1, 80, 3), [], 39),
    "pixel_shuffle": (Model(lambda s, x: functional.pixel_shuffle(s.conv(x), 3), conv=nn.Conv2d(4, 18, 3)), (2, 4, 7, 9), [], 35),
    "pixel_shuffle_of_16_bits": (Model(lambda s, x: functional.pixel_shuffle(x, 2)), (1, 12, 5, 7), INT16, 75),
    "pixel_unshuffle": (Model(lambda s, x: functional.pixel_unshuffle(x, 2)), (2, 3, 10, 14), [], 36),
    "pixel_unshuffle_of_16_bits": (Model(lambda s, x: functional.pixel_unshuffle(x, 3)), (1, 5, 9, 15), INT16, 75),
    "two_runs": (Model(lambda s, x: x[:, :, s.order], order=torch.tensor([[2, 3], [4, 0]])), (1, 3, 5), [], 40),
    "dilation": (nn.Conv2d(16, 16, 3, padding=24, dilation=24), (1, 16, 8, 8), [], 30),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", CASES)
def test_the_file_computes_what_pytorch_does(name, target, tmp_path):
    model, shape, flags, least = CASES[name]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    compiled(model, x, target, tmp_path, *flags)
    assert least is None or sqnr_db(model, x, tmp_path) >= least


# What is built of several forms, and the least SQNR in 8 bits. None: 127 steps are too few for 16 waves.
COMPOSED = {
    "normalize": (lambda s, x: functional.normalize(x, dim=1), 35),
    "cosine_similarity": (lambda s, x: functional.cosine_similarity(x[:, :32].view(8, 4), x[:, 32:].view(8, 4), dim=1), 23),
    "local_response_norm": (lambda s, x: functional.local_response_norm(x.view(1, 16, 2, 2), 3), 16),
    "softsign": (lambda s, x: functional.softsign(x), 28),
    "deviation": (lambda s, x: x.std(1), 45),
    "cosine": (lambda s, x: torch.cos(x / x.abs().amax() * 100), None),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_forms_hold_for_small_and_large_numbers(name, tmp_path):
    function, least_of_8_bits = COMPOSED[name]
    model = Model(function)
    u55, u85 = "ethos-u55-128", "ethos-u85-256"
    builds = [(size, target, INT16, 43) for size in (1e-5, 1e3) for target in (u55, u85)]
    if least_of_8_bits:
        builds += [(size, target, [], least_of_8_bits) for size, target in ((1e-5, u55), (1e3, u85))]
    for size, target, flags, least in builds:
        x = size * torch.randn(4, 1, 64, generator=torch.Generator().manual_seed(0))
        compiled(model, x, target, tmp_path, *flags)
        assert sqnr_db(model, x, tmp_path) >= least, (size, target, flags)
