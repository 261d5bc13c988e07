"""Single operators that must be whole on every core: one region, nothing on the host, and PyTorch's numbers."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
functional = torch.nn.functional

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import judge  # noqa: E402
from import_cases import Fn  # noqa: E402


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, C = numbers(1, 6, 8), numbers(1, 6, 8, seed=1), numbers(6, seed=2)
WHOLE, PLACES, ROW = torch.arange(-24, 24).reshape(6, 8), torch.tensor([3, -1, 0, 5]), torch.tensor([[1, 0, 7, 2]] * 6)
TABLE = numbers(20, 8, seed=5)
IMAGE, KERNEL, GROUPED = numbers(1, 4, 6, 6), numbers(4, 4, 3, 3, seed=3), numbers(4, 2, 3, 3, seed=4)
MANY = torch.arange(200.0)[torch.randperm(200, generator=torch.Generator().manual_seed(0))].reshape(1, 200, 1) + 7 * numbers(3, seed=6)
VOLUME, PLANES = numbers(2, 4, 3, 5, 4), numbers(4, 2, 3, 2, 3, seed=5)
CASES = {
    "booleans_out": (lambda x, y: x > y, (X, Y)),
    "booleans_of_five_dims": (lambda x: ((x > 0) & (x < 1)).any(-1), (numbers(2, 1, 6, 6, 3),)),
    "booleans_in": (lambda m, x, y: torch.where(m, x, y), (X > 0, X, Y)),
    "equal": (lambda x, y: (x == y) | (x.abs() <= y), (X, torch.where(Y > 0, X, Y))),
    "any": (lambda x: (x > 1.5).any(1), (X,)),
    "mask_as_factor": (lambda x, y: x * (y > 0.25), (X, Y)),
    "floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (8 * X, Y.abs() + 0.5)),
    "trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (8 * X, Y.abs() + 0.5)),
    "parts_of_a_table": (lambda i: functional.embedding(i + torch.tensor([0, 4, 12]), TABLE).sum(1), (torch.tensor([[3, 7, 0]]),)),
    "sides": (lambda x: torch.tanh(x).prod(1), (X[:, :2],)),
    "batch_of_pixels": (lambda x: torch.relu(functional.conv2d(x, KERNEL[:, :, :1, :1])), (numbers(3, 4, 6, 5),), ["--precision", "int16"]),
    "class_as_mask": (lambda x: torch.where((x + x).argmax(1, keepdim=True) == 2, x, -x), (X,)),
    "sorted": (lambda x: torch.sort(x)[0], (X[0, :1],)),
    "argmax_of_many": (lambda x: (x + x).argmax(1), (MANY,)),
    "argmin_of_16_bits": (lambda x: (x + x, (x + x).argmin(1), (x + x).argmax(2)), (MANY,), ["--precision", "int16"]),
    "angle": (lambda x, y: torch.atan2(x, y), (X, Y)),
    "columns_of_indices": (lambda x, i: x[0, i[:, 1]] + x[0, i[:, 0]], (X, torch.tensor([[1, 2], [5, 0]]))),
    "norm": (lambda x, w, b: functional.group_norm(x, 2, w, b), (X, C, C)),
    "linear": (lambda x, w, b: functional.linear(x, w, b), (X, numbers(5, 8), numbers(5))),
    "conv": (lambda x, w, b: functional.conv2d(x, w, b, stride=2, padding=1), (IMAGE, KERNEL, numbers(4))),
    "conv_groups": (lambda x, w: functional.conv2d(x, w, groups=2, dilation=2), (IMAGE, GROUPED)),
    "conv_transpose": (lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2), (IMAGE, GROUPED)),
    "conv_transpose_3d": (lambda x: functional.conv_transpose3d(x, PLANES, C[:4], stride=2, padding=1, output_padding=1, groups=2), (VOLUME,)),
    "conv_transpose_3d_gaps": (lambda x: functional.conv_transpose3d(x, PLANES[:, :, :2], C[:2], stride=(3, 1, 2), dilation=(1, 2, 1)), (VOLUME,)),
    "conv_transpose_3d_dilated": (lambda x: functional.conv_transpose3d(x, PLANES, padding=(3, 0, 1), dilation=(2, 1, 1)), (VOLUME,)),
    "prelu": (lambda x, w: functional.prelu(x, w), (X, C)),
    "between_steps": (lambda x: ((x >= torch.arange(8) / 4 - 1) & (x < torch.arange(8) / 4 - 0.5)).float() + 0.1 * x, ((4 * X).round() / 4 + 0.125,)),
    "moved_mask": (lambda m, x: torch.where((m[:, :, None].expand(1, 6, 8) & (x > 0)).any(2, keepdim=True), x, -x), (X[..., 0] > 0, X)),
    "bits_of_8": (lambda a, b: ~(a & b) ^ (a | 5), (WHOLE.to(torch.int8), WHOLE.flip(0).to(torch.int8) * 3)),
    "bits_of_32": (lambda a, b: (a | b) & ~a, (WHOLE.to(torch.int32) * 12345678, WHOLE.flip(0).to(torch.int32) * 7654321)),
    "integers_divided": (
        lambda a, b: (a // b, torch.div(a, b, rounding_mode="trunc"), a // 9, a // -5, a % 9, torch.fmod(a, 9)),
        (torch.arange(-128, 128).to(torch.int8), (torch.arange(256).roll(77) // 2).clamp(1).to(torch.int8)),
    ),
    "small_integers": (lambda a, b: (a + b, a - b, a * b, torch.maximum(a, b), torch.minimum(a, b)), (WHOLE.to(torch.int8) * 5, WHOLE.flip(0).to(torch.int8) * 3)),
    "large_integers": (lambda a, b: (a + 1) * b - a, (WHOLE.to(torch.int32) * 1234567, WHOLE.flip(1).to(torch.int32))),
    "row_and_column": (lambda x: ((x + x).flatten(1).argmax(1) // 8, (x + x).flatten(1).argmax(1) % 8), (X,)),
    "floor_by_number": (lambda x: torch.floor_divide(x, 2.0), (9 * X.reshape(1, 6, 8, 1),)),
    "rest_of_many": (lambda x: torch.frac(x), (9 * X,)),
    "sampled": (lambda x, g: functional.grid_sample(x, torch.tanh(g), align_corners=False), (numbers(1, 2, 6, 40), numbers(1, 3, 20, 2))),
    "many_turns": (lambda t: torch.sin(t * torch.tensor([1.0, 0.1, 0.01])), (torch.arange(0.0, 1000.0, 40.0)[:, None] + 0.3,)),
    "clamped_integers": (lambda a: a.clamp(-5, 9), (WHOLE.to(torch.int32),)),
    "rows_by_index": (lambda x, i: x[:, i], (X, PLACES)),
    "row_by_one_index": (lambda x, i: functional.embedding(i, x + x), (X[0], torch.tensor(3))),
    "columns_by_index": (lambda x, i: torch.index_select(x, 2, i), (X, PLACES.abs())),
    "elements_by_index": (lambda x, i: torch.gather(x[0], 1, i), (X, ROW)),
    "embedding_of_16_bits": (lambda i: functional.embedding(i, TABLE), (PLACES.abs(),), ["--precision", "int16"]),
    "matmul_of_16_bits": (lambda x, y: torch.relu(x @ y.transpose(1, 2)), (X, Y), ["--precision", "int16"]),
    "matrix_of_16_bits": (lambda x: torch.einsum("bij,jk->bik", x, TABLE[:8]), (X,), ["--precision", "int16"]),
    "attention_of_16_bits": (lambda x, y: functional.scaled_dot_product_attention(x, y, x, is_causal=True), (X, Y), ["--precision", "int16"]),
    "much_padding": (lambda x: functional.conv2d(functional.pad(x, (200, 0, 0, 0)), KERNEL, padding=1), (IMAGE,)),
    "positions": (lambda i: functional.embedding(i, TABLE) + functional.embedding((i != 1).int().cumsum(1) * (i != 1) + 1, TABLE[:9]), (torch.tensor([[3, 7, 1, 19, 2, 1]]),)),
    "tangent": (lambda x: torch.tan(x), (1.3 * X,)),
    "unlike_parts": (lambda x, y: torch.cat([1e6 * x, torch.tanh(y), y], 2), (X, Y)),
    "strided": (lambda x, y: torch.slice_scatter(x, y[..., :4], 2, 0, 8, 2), (X, Y)),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", CASES)
def test_the_operator_is_whole(name, target, tmp_path):
    formula, inputs, *flags = CASES[name]
    judge.write_case(Fn(formula), [inputs], [], tmp_path)
    verdict = judge.judge(tmp_path, target, *flags)
    assert judge.correct(verdict), verdict.line()
    assert not flags or verdict.sqnr > 45, verdict.line()  # 16 bits are worth it
    assert judge.whole(verdict), verdict.reasons


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_an_output_that_hardly_moves_has_16_bits(target, tmp_path):
    judge.write_case(Fn(lambda x: (torch.tanh(0.3 * x + 5), torch.sigmoid(x + 8))), [(X,)], [], tmp_path)
    verdict = judge.judge(tmp_path, target)
    assert verdict.regions == 1 and verdict.sqnr > 80, verdict.line()


JUMPS = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "frac": torch.frac,
    "sign": torch.sign,
    "threshold": lambda x: functional.threshold(x, 0.1, -0.5),
    "hardshrink": lambda x: functional.hardshrink(x, 0.6),
    "clamped": lambda x: functional.threshold(x, 0.1, -0.5).clamp(-0.25, 1.5),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_16_bits_jump_where_the_function_does(target, tmp_path):
    judge.write_case(Fn(lambda x: tuple(jump(x) for jump in JUMPS.values())), [(2 * numbers(1, 4, 50),)], [], tmp_path)
    verdict = judge.judge(tmp_path, target, ["--precision", "int16"])
    assert judge.whole(verdict), verdict.reasons
    assert verdict.sqnr > 70, dict(zip(JUMPS, verdict.outputs))


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("flags", [[], ["--precision", "int16"]], ids=["8", "16"])
def test_no_quotient_goes_to_the_wrong_side_of_a_whole_number(flags, target, tmp_path):
    """Operands that 8 bits hold exactly: what is wrong comes from the division."""
    a, b = torch.arange(-128, 128) * 0.02, torch.arange(256).roll(77).clamp(20) * 0.00997
    rests = Fn(lambda a, b: (torch.remainder(a, b), torch.fmod(a, b), torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc")))
    judge.write_case(rests, [(a, b)], [], tmp_path)
    verdict = judge.judge(tmp_path, target, flags)
    assert judge.whole(verdict), verdict.reasons
    assert min(verdict.outputs) > 30, verdict.outputs


class RunningMean(torch.nn.Module):
    """What one call adds is less than half a step of 8 bits."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 8))

    def forward(self, x):
        self.mean.mul_(0.98).add_(0.02 * x)
        return self.mean * 2


class Cache(torch.nn.Module):
    """Attention to what earlier calls wrote. The keys leave the region, and its product reads them transposed."""

    def __init__(self, steps=8, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.register_buffer("keys", torch.zeros(1, 2, steps, width // 2))
        self.register_buffer("values", torch.zeros(1, 2, steps, width // 2))

    def forward(self, x, place):
        q, k, v = (part.reshape(1, 1, 2, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = torch.arange(self.keys.shape[2]) <= place
        return functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen[None, None, None]).flatten()


STATES = {
    "mean": (RunningMean(), lambda i: (numbers(1, 8, seed=i) + 1,)),
    "cache": (Cache(), lambda i: (numbers(1, 1, 8, seed=i), torch.tensor([i % 8]))),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", STATES)
def test_state_is_right_over_100_calls_of_one_region(name, target, tmp_path):
    model, inputs = STATES[name]
    judge.write_case(model.eval(), [inputs(i) for i in range(100)], [], tmp_path)
    verdict = judge.judge(tmp_path, target)
    assert verdict.sqnr > 30 and verdict.regions == 1, verdict
