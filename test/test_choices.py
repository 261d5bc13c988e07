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
    assert "1 on the NPU" in text, text
    graph = swoop(tmp_path, "compile", "model.pt2", "-c", "samples.npz", "-t", target, "--stop-after", "partition")
    assert graph.count(" = quantize ") == graph.count(" = dequantize ") == 1, graph  # of x and of the result
    swoop(tmp_path, "run", "model.pte", "-i", "samples.npz", "-o", "out.npz")
    model = Cache().eval()
    with torch.no_grad():
        wanted = np.stack([model(*call).numpy() for call in zip(x, place)])
    noise = wanted - np.load(tmp_path / "out.npz")["out0"]
    assert 10 * np.log10((wanted**2).sum() / (noise**2).sum()) > 30
