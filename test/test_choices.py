"""Operators that choose, sort and write by position, loops and broadcasts: one region on both families, and PyTorch's numbers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
from formulas import Model, compiled, sqnr_db, swoop  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


def experts(count):
    return {"route": nn.Linear(8, count), "experts": nn.ModuleList(nn.Linear(8, 8) for _ in range(count))}


def mixed(self, x, share):
    return sum(share[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


def scattered(self, x):
    shares = functional.softmax(self.route(x) * 4, -1)  # decided, so that rounding changes little
    best, which = torch.topk(shares, 2, -1)
    return mixed(self, x, torch.zeros_like(shares).scatter(-1, which, best / best.sum(-1, keepdim=True)))


def one_hot(self, x):
    best, which = torch.topk(self.route(x), 2, -1)
    hot = functional.one_hot(which, len(self.experts)).to(x.dtype)
    return mixed(self, x, (hot * functional.softmax(best, -1).unsqueeze(-1)).sum(-2))


def scanned(self, x):
    from torch._higher_order_ops.scan import scan

    def step(carry, row):
        new = torch.tanh(self.linear(carry) + row)
        return new, new * 0.5

    return scan(step, torch.zeros(8), x[0], dim=0)[1]


def warped(self, x):
    places = GRID + 0.2 * torch.tanh(self.shift(x).mean((2, 3))[:, :2, None, None].permute(0, 2, 3, 1))
    return functional.grid_sample(x, places, align_corners=False) + functional.grid_sample(x, places, padding_mode="border", align_corners=True)


def unpooled(self, x):
    largest, which = functional.max_pool2d(x, 2, return_indices=True)
    return functional.max_unpool2d(torch.tanh(largest), which, 2, output_size=x.shape[-2:])


def interpolated(self, x):  # a table between whole numbers: the index must not be off by one
    place = torch.sigmoid(x) * 6
    low = place.floor()
    part, index = place - low, low.long().clamp(0, 5)
    return self.table[index] * (1 - part) + self.table[index + 1] * part


def biased(self, x):  # linear biases, and minus infinity above the diagonal
    steps = torch.arange(x.shape[-2])
    bias = -0.25 * (steps[:, None] - steps).abs() + torch.full((len(steps), len(steps)), -torch.inf).triu(1)
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=bias)


def with_sink(self, x, hide):
    scores = torch.cat([hide(x @ x.mT * 0.5), self.sink.expand(*x.shape[:-1], 1)], -1)
    return scores.softmax(-1)[..., :-1] @ x


def below_diagonal(scores):
    return scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)


def chosen_below(scores):
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)


GRID = torch.rand(1, 5, 7, 2, generator=torch.Generator().manual_seed(2)) * 2.2 - 1.1

torch.manual_seed(1)
# name: model, shape of x, least SQNR in dB
CASES = {
    "scattered": (Model(scattered, **experts(4)), (1, 5, 8), 20),
    "one_hot": (Model(one_hot, **experts(4)), (1, 5, 8), 25),
    "best": (Model(lambda s, x: s.linear(x).topk(3).values, linear=nn.Linear(8, 10)), (2, 8), 30),
    "median": (Model(lambda s, x: x.median(-1).values), (2, 9), 30),
    "distances": (Model(lambda s, x: torch.cdist(x, x * 0.5 + 1)), (1, 6, 4), 30),
    "grid_sample": (Model(lambda s, x: functional.grid_sample(x, GRID, align_corners=False)), (1, 3, 6, 6), 33),
    "warped": (Model(warped, shift=nn.Conv2d(3, 3, 3)), (1, 3, 6, 6), 22),
    "unpooled": (Model(unpooled), (1, 3, 7, 6), 30),
    "interpolated": (Model(interpolated, table=nn.Parameter(torch.linspace(-1, 1, 7).sin())), (1, 40), 28),
    "powers": (Model(lambda s, x: (x.abs() + 0.1) ** s.power[:, None], power=nn.Parameter(torch.tensor([0.5, 0.98, 0.7]))), (1, 3, 8), 33),
    "biased": (Model(biased), (1, 2, 8, 4), 28),
    "sink_beside_sum": (Model(lambda s, x: with_sink(s, x, below_diagonal), sink=nn.Parameter(torch.tensor(0.5))), (1, 8, 4), 28),
    "sink_beside_choice": (Model(lambda s, x: with_sink(s, x, chosen_below), sink=nn.Parameter(torch.tensor(0.5))), (1, 8, 4), 28),
    "factors": (Model(lambda s, x: (x.sum(1).square() - x.square().sum(1)).sum(-1)), (1, 5, 8), 25),
    "scan": (Model(scanned, linear=nn.Linear(8, 8)), (1, 6, 8), 30),
    "transpose": (Model(lambda s, x: x.permute(0, 2, 1)), (1, 65537, 2), 40),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", CASES)
def test_one_region_computes_what_pytorch_does(name, target, tmp_path):
    model, shape, least = CASES[name]
    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    summary = compiled(model, x, target, tmp_path)
    assert (summary["delegates"], summary["host_ops"]) == (1, {}), summary["host_reasons"]
    assert sqnr_db(model, x, tmp_path) >= least


def test_elements_of_16_bits_are_chosen_in_the_region(tmp_path):
    torch.manual_seed(1)
    model = Model(lambda s, x: torch.gather(x, 1, s.route(x).argmax(-1)[:, :, None].expand(-1, -1, 8)), route=nn.Linear(8, 5))
    x = torch.randn(4, 1, 5, 8, generator=torch.Generator().manual_seed(0))
    summary = compiled(model, x, "ethos-u55-128", tmp_path, "--precision", "int16")
    assert (summary["delegates"], summary["host_ops"]) == (1, {}), summary["host_reasons"]
    assert sqnr_db(model, x, tmp_path) >= 60


def test_a_small_number_keeps_a_divisor_from_zero(tmp_path):
    model = Model(lambda s, x: x / (x.norm(dim=-1, keepdim=True) + 1e-8))
    x = torch.randn(4, 1, 5, 8, generator=torch.Generator().manual_seed(0))
    x[:, :, 2] = 0  # a row of zeros stays one
    assert compiled(model, x, "ethos-u55-128", tmp_path)["delegates"] == 1
    assert sqnr_db(model, x, tmp_path) >= 28


def test_sets_that_nobody_counts_keep_their_range(tmp_path):
    """A matrix of zeros and ones in steps of one would have sums that leave 32 bits."""
    model = Model(lambda s, x: 1 / torch.ones(12).index_add(0, x.argmax(-1), torch.ones(30)))
    x = torch.randn(4, 30, 12, generator=torch.Generator().manual_seed(0))
    compiled(model, x, "ethos-u85-256", tmp_path, "--precision", "int16")
    assert sqnr_db(model, x, tmp_path) >= 40


class Counter(nn.Module):
    """Counts its calls, and reads and writes where it stands: the exporter makes a number of the count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("place", torch.tensor(0))
        self.register_buffer("past", torch.zeros(1, 8, 4))
        self.register_buffer("table", torch.linspace(-1, 1, 32).view(8, 4))

    def forward(self, x):
        place = self.place.item()
        torch._check(place >= 0)
        torch._check(place + 2 <= 8)
        self.past.narrow(1, place, 1).copy_((x + self.table[self.place])[:, None])
        self.past[:, place + 1 : place + 2] = -x[:, None]
        self.place.add_(1)
        return self.past.sum(1)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_a_number_that_the_model_counts_is_a_place(target, tmp_path):
    x = torch.randn(6, 1, 4, generator=torch.Generator().manual_seed(0))
    model = Counter()
    assert compiled(model, x, target, tmp_path)["delegates"] == 1
    assert sqnr_db(model, x, tmp_path) >= 30


class Cache(nn.Module):
    """Attention over what the calls before have written into a buffer, at a place that the caller gives."""

    def __init__(self, length=16, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))

    def forward(self, x, place):
        self.keys.index_copy_(1, place, self.key(x))
        self.values[:, place] = self.value(x)
        seen = torch.arange(self.keys.shape[1]) <= place[:, None]
        return functional.scaled_dot_product_attention(self.query(x), self.keys, self.values, attn_mask=seen)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_a_cache_that_is_written_by_place_stays_in_codes(target, tmp_path):
    calls = 100
    x = torch.randn(calls, 1, 1, 8, generator=torch.Generator().manual_seed(0))
    place = (torch.arange(calls) % 16).reshape(calls, 1)
    torch.export.save(torch.export.export(Cache().eval(), (x[0], place[0])), tmp_path / "model.pt2")
    np.savez(tmp_path / "samples.npz", x=x.numpy(), place=place.numpy())
    text = swoop(tmp_path, "compile", "model.pt2", "-c", "samples.npz", "-t", target, "-o", "model.pte")
    assert "1 on the NPU" in text and "aten::le" not in text, text
    graph = swoop(tmp_path, "compile", "model.pt2", "-c", "samples.npz", "-t", target, "--stop-after", "partition")
    assert graph.count(" = quantize ") == 2, graph  # of x, and of the place for the mask
    assert graph.count(" = dequantize ") == 1, graph  # of the result
    swoop(tmp_path, "run", "model.pte", "-i", "samples.npz", "-o", "out.npz")
    model = Cache().eval()
    with torch.no_grad():
        wanted = np.stack([model(*call).numpy() for call in zip(x, place)])
    noise = wanted - np.load(tmp_path / "out.npz")["out0"]
    assert 10 * np.log10((wanted**2).sum() / (noise**2).sum()) > 30
