"""Small PyTorch programs, at least one per operator that import/ knows: name -> (module, inputs)."""

import torch
import torch.nn.functional as F
from torch import nn


class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


def numbers(*shape, seed=0, low=-2.0, high=2.0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.rand(*shape, generator=generator) * (high - low) + low


def integers(*shape, low=0, high=5, seed=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


X = numbers(2, 3, 4, 5)
Y = numbers(2, 3, 4, 5, seed=1)
M = numbers(3, 4)
POSITIVE = numbers(2, 3, 4, 5, low=0.1, high=3.0)
UNIT = numbers(2, 3, 4, low=-0.9, high=0.9)
INTS = integers(2, 3, 4, low=-4, high=9)
NAN = float("nan")


class Buffers(nn.Module):
    """In-place writes into buffers and views of them."""

    def __init__(self, body):
        super().__init__()
        self.register_buffer("state", torch.arange(12.0).reshape(3, 4))
        self.body = body

    def forward(self, x):
        return self.body(self, x)


def write_row(m, x):
    m.state[1].copy_(x[0])
    return m.state + x


def write_column_by_view(m, x):
    view = m.state.t()
    view[2].add_(x[:, 0])
    return view * 2 + m.state.t()


def write_strided(m, x):
    m.state[:, ::2].mul_(x[:, :2])
    return m.state + x


def count(m, x):
    m.state.add_(1)
    return x * m.state


def stale_view(m, x):
    y = x.clone()
    first = y[0]
    y.mul_(3)
    first.add_(10)
    return y + first


class Weights(nn.Module):
    """Parameters with strides, offsets and aliases, tensor constants and non-persistent buffers."""

    def __init__(self):
        super().__init__()
        base = numbers(6, 8, seed=5)
        self.a = nn.Parameter(base.t())
        self.b = nn.Parameter(base[2:5, 1:7])
        self.c = nn.Parameter(numbers(2, 3, 4, 5, seed=7).to(memory_format=torch.channels_last))
        self.register_buffer("d", torch.full((1, 3, 1, 1), 0.5).expand(2, 3, 4, 5), persistent=False)
        self.tied = self.a

    def forward(self, x):
        y = x + self.c + self.d + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        return y.sum() + (self.a @ torch.ones(6)).sum() + self.b.prod() + self.tied.mean()


class ReadThenWritten(nn.Module):
    """A buffer that a branch reads, and that is written to afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.ones(3, 4))

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda v: v + self.state, lambda v: v - self.state, (x,))
        self.state.copy_(y * 0.5)
        return y + self.state


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(numbers(4))

    def forward(self, x):
        with torch.no_grad():
            y = x * self.w
        return y + 1


def write_columns(x, y):
    z = x + 0
    z[:, torch.tensor([1, -1])] = y
    return z


def mutate_input(x, y):
    x.add_(y)
    return x * 2


def elementwise():
    cases = {}
    for name in """abs neg exp exp2 expm1 sigmoid tanh erf erfc square floor ceil trunc round frac sign sin cos tan sinh cosh atan asinh
                   positive deg2rad rad2deg isnan isinf relu absolute negative arctan""".split():
        cases[name] = (getattr(torch, name), (X,))
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal".split():
        cases[name] = (getattr(torch, name), (POSITIVE,))
    for name in "asin acos atanh erfinv arcsin".split():
        cases[name] = (getattr(torch, name), (UNIT,))
    cases["acosh"] = (torch.acosh, (POSITIVE + 1,))
    cases["logit"] = (lambda x: torch.logit(x, 0.2), (UNIT.abs(),))
    cases["logit_free"] = (torch.logit, (UNIT.abs(),))
    for name in "silu mish hardswish hardsigmoid selu relu6 logsigmoid softsign tanhshrink".split():
        cases[name] = (getattr(F, name), (X * 3,))
    cases["gelu"] = (F.gelu, (X,))
    cases["gelu_tanh"] = (lambda x: F.gelu(x, approximate="tanh"), (X,))
    cases["leaky_relu"] = (lambda x: F.leaky_relu(x, 0.2), (X,))
    cases["rrelu"] = (lambda x: F.rrelu(x), (X,))
    cases["elu"] = (lambda x: F.elu(x, 0.7), (X,))
    cases["elu_scaled"] = (lambda x: torch.ops.aten.elu(x, 0.7, 1.2, 1.5), (X,))
    cases["celu"] = (lambda x: F.celu(x, 0.7), (X,))
    cases["softplus"] = (lambda x: F.softplus(x, 2.0, 1.5), (X,))
    cases["threshold"] = (lambda x: F.threshold(x, 0.3, -1.0), (X,))
    cases["hardshrink"] = (F.hardshrink, (X,))
    cases["softshrink"] = (F.softshrink, (X,))
    cases["prelu"] = (nn.PReLU(3), (X,))
    cases["prelu_one"] = (nn.PReLU(), (X,))
    cases["hardtanh"] = (lambda x: F.hardtanh(x, -0.5, 0.7), (X,))
    cases["clamp"] = (lambda x: x.clamp(-0.5, 0.5), (X,))
    cases["clamp_int"] = (lambda x: x.clamp(-1, 3), (INTS,))
    cases["clamp_min"] = (lambda x: x.clamp_min(0.1), (X,))
    cases["clamp_max"] = (lambda x: x.clamp_max(0.1), (X,))
    cases["clamp_crossed"] = (lambda x: x.clamp(0.5, -0.5), (X,))
    cases["clamp_tensor"] = (lambda x, y: torch.clamp(x, y - 0.5, y), (X, Y))
    cases["glu"] = (lambda x: F.glu(x, 2), (X,))
    cases["abs_int"] = (torch.abs, (INTS,))
    cases["exp_int"] = (torch.exp, (INTS,))
    cases["round_decimals"] = (lambda x: torch.round(x, decimals=1), (X,))
    for exponent in (2, 3, 0.5, -0.5, -1, 1, 1.7):
        cases[f"pow_{exponent}"] = (lambda x, e=exponent: x**e, (POSITIVE,))
    cases["pow_int"] = (lambda x: x**2, (INTS,))
    cases["pow_tensor"] = (torch.pow, (POSITIVE, Y))
    cases["pow_base"] = (lambda x: 2.0**x, (X,))
    cases["remainder_scalar"] = (lambda x: x % 0.7, (X,))
    cases["remainder"] = (torch.remainder, (X, POSITIVE))
    cases["remainder_int"] = (lambda x: x % 3, (INTS,))
    cases["fmod"] = (torch.fmod, (X, POSITIVE))
    cases["fmod_scalar"] = (lambda x: torch.fmod(x, 0.7), (X,))
    return cases


def binary():
    cases = {
        "add": (lambda x, y: x + y, (X, Y)),
        "add_alpha": (lambda x, y: torch.add(x, y, alpha=0.3), (X, Y)),
        "add_scalar": (lambda x: x + 2, (X,)),
        "add_broadcast": (lambda x, y: x + y, (X, Y[0, :, :1])),
        "add_mixed": (lambda x, y: x + y, (X[0, 0], integers(4, 5))),
        "add_bool": (lambda x: (x > 0) + (x < -1), (X,)),
        "add_inplace": (lambda x, y: (x * 1).add_(y).mul_(2).sub_(1).relu_(), (X, Y)),
        "sub": (lambda x, y: torch.sub(x, y, alpha=2), (X, Y)),
        "rsub": (lambda x: 3 - x, (X,)),
        "rsub_alpha": (lambda x: torch.rsub(x, 3, alpha=2), (X,)),
        "mul": (lambda x, y: x * y, (X, Y)),
        "mul_scalar": (lambda x: x * 0.25, (X,)),
        "mul_mask": (lambda x: x * (x > 0), (X,)),
        "mul_bools": (lambda x: (x > 0) * (x < 1), (X,)),
        "div": (lambda x, y: x / y, (X, POSITIVE)),
        "div_scalar": (lambda x: x / 3, (X,)),
        "div_int": (lambda x: x / 3, (INTS,)),
        "div_floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, POSITIVE)),
        "div_trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (X, POSITIVE)),
        "div_trunc_int": (lambda x: torch.div(x, 3, rounding_mode="trunc"), (INTS,)),
        "floor_divide": (lambda x: x // 3, (INTS,)),
        "floor_divide_float": (lambda x, y: x // y, (X, POSITIVE)),
        "minimum": (torch.minimum, (X, Y)),
        "maximum": (torch.maximum, (X, Y)),
        "max_other": (torch.max, (X, Y)),
        "logical_and": (lambda x, y: torch.logical_and(x > 0, y), (X, Y)),
        "logical_or": (lambda x, y: torch.logical_or(x > 0, y > 0), (X, Y)),
        "logical_xor": (lambda x, y: torch.logical_xor(x > 0, y > 0), (X, Y)),
        "logical_not": (lambda x: torch.logical_not(x > 0), (X,)),
        "logical_not_float": (lambda x: torch.logical_not(x.clamp_min(0)), (X,)),
        "bitwise_and": (lambda x: x & 3, (INTS,)),
        "bitwise_or": (lambda x, y: x | y, (INTS, INTS + 1)),
        "bitwise_xor": (torch.bitwise_xor, (INTS, INTS + 1)),
        "bitwise_bool": (lambda x: (x > 0) & (x < 1) | (x < -1), (X,)),
        "bitwise_not": (torch.bitwise_not, (INTS,)),
        "bitwise_not_bool": (lambda x: ~(x > 0), (X,)),
        "left_shift": (lambda x: x << 2, (INTS,)),
        "right_shift": (lambda x: torch.bitwise_right_shift(x, 1), (INTS,)),
        "where": (lambda x, y: torch.where(x > y, x, y * 2), (X, Y)),
        "where_scalar": (lambda x: torch.where(x > 0, x, 0.0), (X,)),
        "where_scalars": (lambda x: torch.where(x > 0, 1.0, -1.0), (X,)),
        "masked_fill": (lambda x: x.masked_fill(x > 0.5, -3.0), (X,)),
        "masked_fill_inplace": (lambda x: (x + 1).masked_fill_(x > 0.5, 0), (X,)),
        "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), (X, Y)),
        "addcdiv": (lambda x, y: torch.addcdiv(x, x, y, value=0.5), (X, POSITIVE)),
        "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
        "lerp_tensor": (torch.lerp, (X, Y, POSITIVE)),
        "scalar_tensor_operand": (lambda x: x * torch.tensor(3.0), (X,)),
    }
    for name in "eq ne lt le gt ge".split():
        cases[name] = (getattr(torch, name), (INTS, INTS.flip(0)))
        cases[f"{name}_scalar"] = (lambda x, f=getattr(torch, name): f(x, 1), (INTS,))
        cases[f"{name}_mixed"] = (lambda x, f=getattr(torch, name): f(x, 0.5), (INTS,))
        cases[f"{name}_bool"] = (lambda x, y, f=getattr(torch, name): f(x > 0, y > 0), (X, Y))
    return cases


def reductions():
    cases = {
        "sum_all": (lambda x: x.sum(), (X,)),
        "sum_bool": (lambda x: (x > 0).sum(1), (X,)),
        "mean_all": (lambda x: x.mean(), (X,)),
        "max_all": (lambda x: x.max(), (X,)),
        "min_all": (lambda x: x.min(), (X,)),
        "max_dim": (lambda x: tuple(x.max(2)), (X,)),
        "max_dim_values": (lambda x: x.max(2, keepdim=True)[0], (X,)),
        "min_dim": (lambda x: tuple(x.min(-1)), (X,)),
        "argmax": (lambda x: x.argmax(1), (X,)),
        "rows_at_argmax": (lambda x, y: y[x.argmax(1)], (M, numbers(4, 6))),
        "argmax_all": (lambda x: x.argmax(), (X,)),
        "argmin_keep": (lambda x: x.argmin(-1, keepdim=True), (X,)),
        "any": (lambda x: (x > 1.9).any(), (X,)),
        "any_dim": (lambda x: (x > 1.5).any(1), (X,)),
        "all_dim": (lambda x: (x < 1.5).all(-1), (X,)),
        "prod": (lambda x: x.prod(), (M,)),
        "prod_dim": (lambda x: x.prod(1, keepdim=True), (X,)),
        "var_all": (lambda x: x.var(), (X,)),
        "var_dim": (lambda x: x.var(1, unbiased=False), (X,)),
        "var_correction": (lambda x: x.var((1, 3), correction=2, keepdim=True), (X,)),
        "std": (lambda x: x.std(2), (X,)),
        "std_all": (lambda x: torch.std(x), (X,)),
        "var_mean": (lambda x: torch.var_mean(x, 1), (X,)),
        "cumsum": (lambda x: x.cumsum(1), (X,)),
        "cumsum_int": (lambda x: x.cumsum(1), (INTS,)),
        "norm_1": (lambda x: torch.linalg.vector_norm(x, 1, dim=1), (X,)),
        "norm_2": (lambda x: torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True), (X,)),
        "norm_3": (lambda x: torch.linalg.vector_norm(x, 3.0, dim=1), (X,)),
        "norm_inf": (lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), (X,)),
        "norm": (lambda x: torch.norm(x, dim=1), (X,)),
        "normalize": (lambda x: F.normalize(x, dim=1), (X,)),
        "logsumexp": (lambda x: torch.logsumexp(x, (1, 2)), (X,)),
        "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, dim=2), (X, Y)),
        "aminmax": (lambda x: tuple(torch.aminmax(x, dim=1)), (X,)),
    }
    for name in "sum mean amax amin".split():
        cases[name] = (lambda x, n=name: getattr(x, n)((1, -1)), (X,))
        cases[f"{name}_keep"] = (lambda x, n=name: getattr(x, n)(2, keepdim=True), (X,))
    return cases


def movement():
    return {
        "view": (lambda x: x.view(6, 20), (X,)),
        "view_as": (lambda x, y: x.view_as(y), (X, X.reshape(6, 20))),
        "reshape": (lambda x: x.reshape(2, -1), (X,)),
        "flatten": (lambda x: x.flatten(1), (X,)),
        "unflatten": (lambda x: x.unflatten(2, (2, 2)), (X,)),
        "squeeze": (lambda x: x[:1].squeeze(), (X,)),
        "squeeze_dim": (lambda x: x[:1].squeeze(0), (X,)),
        "squeeze_dims": (lambda x: x[:1, :1].squeeze((0, 1)), (X,)),
        "unsqueeze": (lambda x: x.unsqueeze(-1), (X,)),
        "expand": (lambda x: x[:, :1].expand(-1, 6, -1, -1), (X,)),
        "expand_as": (lambda x, y: x.expand_as(y), (X[0, 0], X)),
        "broadcast_to": (lambda x: torch.broadcast_to(x, (2, 3, 4)), (M,)),
        "permute": (lambda x: x.permute(0, 2, -1, 1), (X,)),
        "transpose": (lambda x: x.transpose(1, -1), (X,)),
        "t": (lambda x: x.t(), (M,)),
        "mT": (lambda x: x.mT, (X,)),
        "T": (lambda x: x.T, (M,)),
        "swapaxes": (lambda x: x.swapaxes(0, 2), (X,)),
        "swapdims": (lambda x: x.swapdims(0, 2), (X,)),
        "movedim": (lambda x: x.movedim(1, -1), (X,)),
        "movedim_list": (lambda x: x.movedim((0, 1), (2, 0)), (X,)),
        "moveaxis": (lambda x: x.moveaxis(-1, 1), (X,)),
        "moveaxis_list": (lambda x: torch.moveaxis(x, (1, 2, 3), (3, 1, 2)), (X,)),
        "contiguous": (lambda x: x.transpose(1, 2).contiguous().view(2, 60), (X,)),
        "channels_last": (lambda x: x.contiguous(memory_format=torch.channels_last) + 1, (X,)),
        "clone": (lambda x: x.clone(), (X,)),
        "copy_strided": (lambda x: torch.ops.prims.copy_strided(x, [1, 3]) * 2, (torch.randn(3, 4),)),
        "detach": (lambda x: x.detach() * 2, (X,)),
        "dropout": (lambda x: F.dropout(x, 0.5, training=False), (X,)),
        "to_int": (lambda x: x.to(torch.int64), (X,)),
        "to_bool": (lambda x: x.to(torch.bool), (INTS,)),
        "to_float": (lambda x: x.float(), (INTS,)),
        "type_as": (lambda x, y: x.type_as(y), (INTS, X)),
        "half": (lambda x: x.half().float(), (X,)),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (numbers(2, 8, 3, 4),)),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (numbers(2, 3, 4, 6),)),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (numbers(2, 6, 4, 4),)),
        "roll": (lambda x: x.roll((1, -2), (1, 3)), (X,)),
        "roll_flat": (lambda x: x.roll(3), (X,)),
        "flip": (lambda x: x.flip((1, 3)), (X,)),
        "repeat": (lambda x: x.repeat(2, 1, 3), (M,)),
        "tile": (lambda x: x.tile((2, 2)), (X,)),
        "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), (X,)),
        "repeat_interleave_flat": (lambda x: x.repeat_interleave(2), (M,)),
        "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), (X,)),
        "pad_negative": (lambda x: F.pad(x, (-1, 2, 1, -2)), (X,)),
        "pad_reflect": (lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect"), (X,)),
        "pad_replicate": (lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"), (X,)),
        "pad_circular": (lambda x: F.pad(x, (1, 2, 3, 1), mode="circular"), (X,)),
        "reflection_pad1d": (nn.ReflectionPad1d(2), (UNIT,)),
        "replication_pad2d": (nn.ReplicationPad2d((1, 0, 2, 1)), (X,)),
        "zero_pad": (nn.ZeroPad2d(1), (X,)),
        "tril": (lambda x: x.tril(), (X,)),
        "triu": (lambda x: x.triu(-1), (X,)),
        "select": (lambda x: x[:, -1], (X,)),
        "slice": (lambda x: x[:, 1:, ::2, -3:-1], (X,)),
        "narrow": (lambda x: x.narrow(2, 1, 2), (X,)),
        "split": (lambda x: x.split(2, 3), (X,)),
        "split_sizes": (lambda x: x.split([1, 3], 2), (X,)),
        "chunk": (lambda x: x.chunk(2, 3), (X,)),
        "unbind": (lambda x: x.unbind(1), (X,)),
        "tensor_split": (lambda x: x.tensor_split(3, 3), (X,)),
        "tensor_split_indices": (lambda x: x.tensor_split((1, 3), 3), (X,)),
        "cat": (lambda x, y: torch.cat((x, y, x), 1), (X, Y)),
        "cat_mixed": (lambda x, y: torch.cat((x, y)), (X[0, 0], integers(2, 5))),
        "concat": (lambda x, y: torch.concat((x, y), -1), (X, Y)),
        "stack": (lambda x, y: torch.stack((x, y), -1), (X, Y)),
        "hstack": (lambda x, y: torch.hstack((x, y)), (X, Y)),
        "vstack": (lambda x, y: torch.vstack((x, y)), (X, Y)),
        "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, -1), (X, Y[:, 0])),
        "slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 2, 1, 3), (X, Y[:, :, :2])),
        "slice_scatter_step": (lambda x, y: torch.slice_scatter(x, y, 2, 0, 4, 3), (X, Y[:, :, :2])),
        "slice_scatter_odd": (lambda x, y: torch.slice_scatter(x, y, 2, 1, 5, 3), (X, Y[:, :, 3:])),
    }


def networks():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3)
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    cases = {
        "conv1d": (nn.Conv1d(3, 4, 3, stride=2, padding=1), (UNIT,)),
        "conv1d_same": (nn.Conv1d(3, 4, 4, padding="same"), (UNIT,)),
        "conv2d": (nn.Conv2d(3, 6, 3, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=3), (X,)),
        "conv2d_same": (nn.Conv2d(3, 4, (2, 3), padding="same", bias=False), (X,)),
        "conv2d_valid": (nn.Conv2d(3, 4, 3, padding="valid"), (X,)),
        "conv2d_unbatched": (nn.Conv2d(3, 4, 3), (X[0],)),
        "conv3d": (nn.Conv3d(2, 3, 2, padding=1), (numbers(1, 2, 4, 4, 4),)),
        "conv_transpose1d": (nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), (UNIT,)),
        "conv_transpose2d": (nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, output_padding=1, groups=3), (X,)),
        "linear": (nn.Linear(5, 7), (X,)),
        "linear_no_bias": (nn.Linear(5, 7, bias=False), (X,)),
        "mm": (torch.mm, (M, numbers(4, 5))),
        "bmm": (torch.bmm, (UNIT, numbers(2, 4, 5))),
        "matmul": (torch.matmul, (X, numbers(5, 6))),
        "matmul_vector": (torch.matmul, (M, numbers(4))),
        "matmul_vector_left": (torch.matmul, (numbers(3), M)),
        "matmul_dot": (torch.matmul, (numbers(4), numbers(4, seed=3))),
        "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), (numbers(3, 5), M, numbers(4, 5))),
        "addmm_linear": (lambda a, b, c: torch.addmm(a, b, c.t()), (numbers(5), M, numbers(5, 4))),
        "baddbmm": (torch.baddbmm, (numbers(2, 3, 5), UNIT, numbers(2, 4, 5))),
        "mv": (torch.mv, (M, numbers(4))),
        "dot": (torch.dot, (numbers(4), numbers(4, seed=2))),
        "outer": (torch.outer, (numbers(4), numbers(5))),
        "sdpa": (F.scaled_dot_product_attention, (numbers(2, 3, 4, 8), numbers(2, 3, 6, 8), numbers(2, 3, 6, 5))),
        "sdpa_causal": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
            (numbers(2, 3, 4, 8), numbers(2, 3, 6, 8), numbers(2, 3, 6, 5)),
        ),
        "sdpa_mask": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(4, 6, dtype=torch.bool).tril(2)),
            (numbers(2, 3, 4, 8), numbers(2, 3, 6, 8), numbers(2, 3, 6, 5)),
        ),
        "sdpa_gqa": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            (numbers(2, 4, 4, 8), numbers(2, 2, 6, 8), numbers(2, 2, 6, 5)),
        ),
        "multihead": (nn.MultiheadAttention(8, 2, batch_first=True), (numbers(2, 5, 8), numbers(2, 5, 8, seed=1), numbers(2, 5, 8, seed=2))),
        "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (numbers(2, 5, 8),)),
        "batch_norm": (norm, (X,)),
        "batch_norm1d": (nn.BatchNorm1d(4), (M,)),
        "layer_norm": (nn.LayerNorm((4, 5)), (X,)),
        "layer_norm_plain": (lambda x: F.layer_norm(x, (5,)), (X,)),
        "group_norm": (nn.GroupNorm(3, 6), (numbers(2, 6, 4, 4),)),
        "instance_norm": (nn.InstanceNorm2d(3, affine=True), (X,)),
        "rms_norm": (nn.RMSNorm(5), (X,)),
        "rms_norm_eps": (lambda x: F.rms_norm(x, (5,), eps=1e-2), (X,)),
        "softmax": (lambda x: x.softmax(1), (X,)),
        "softmax_int": (lambda x: F.softmax(x, 1, dtype=torch.float32), (INTS,)),
        "log_softmax": (lambda x: F.log_softmax(x, -1), (X,)),
        "softmin": (lambda x: F.softmin(x, 1), (X,)),
        "max_pool1d": (lambda x: F.max_pool1d(x, 2), (UNIT,)),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (X,)),
        "max_pool2d_unbatched": (lambda x: F.max_pool2d(x, 2), (X[0],)),
        "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 1, 1, count_include_pad=False), (UNIT,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, (2, 3), padding=1), (X,)),
        "avg_pool2d_divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (X,)),
        "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (UNIT,)),
        "max_pool3d": (lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True), (numbers(2, 3, 4, 7, 5),)),
        "max_pool3d_dilated": (lambda x: F.max_pool3d(x, 2, 1, dilation=2), (numbers(3, 4, 7, 5),)),
        "avg_pool3d": (lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), count_include_pad=False), (numbers(2, 3, 4, 7, 5),)),
        "avg_pool3d_ceil": (lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True), (numbers(2, 3, 4, 6, 5),)),
        "avg_pool3d_divisor": (lambda x: F.avg_pool3d(x, 2, divisor_override=3), (numbers(2, 3, 4, 6, 5),)),
        "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), (numbers(2, 3, 4, 7, 5),)),
        "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (3, 2, 2)), (numbers(2, 3, 4, 7, 5),)),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (X,)),
        "adaptive_avg_pool2d_global": (nn.AdaptiveAvgPool2d(1), (X,)),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (X,)),
        "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2), (X,)),
        "upsample_nearest_size": (lambda x: F.interpolate(x, size=(7, 9)), (X,)),
        "upsample_nearest1d": (lambda x: F.interpolate(x, scale_factor=1.5), (UNIT,)),
        "upsample_bilinear": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (X,)),
        "upsample_bilinear_corners": (lambda x: F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True), (X,)),
        "upsample_linear1d": (lambda x: F.interpolate(x, size=7, mode="linear"), (UNIT,)),
        "lstm": (nn.LSTM(4, 6, 2, batch_first=True), (numbers(2, 5, 4),)),
        "lstm_bidirectional": (nn.LSTM(4, 6, bidirectional=True), (numbers(5, 2, 4),)),
        "lstm_projected": (nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), (numbers(5, 2, 4),)),
        "lstm_projected_without_bias": (nn.LSTM(4, 6, bias=False, proj_size=2), (numbers(5, 1, 4),)),
        "lstm_unbatched": (nn.LSTM(4, 6, bias=False), (numbers(5, 4),)),
        "gru": (nn.GRU(4, 6, 2, bidirectional=True), (numbers(5, 2, 4),)),
        "rnn_tanh": (nn.RNN(4, 6), (numbers(5, 2, 4),)),
        "rnn_relu": (nn.RNN(4, 6, nonlinearity="relu"), (numbers(5, 2, 4),)),
        "lstm_cell": (nn.LSTMCell(4, 6), (M,)),
        "gru_cell": (nn.GRUCell(4, 6), (M,)),
        "rnn_cell": (nn.RNNCell(4, 6), (M,)),
    }
    for equation, shapes in {
        "ij,jk->ik": ((3, 4), (4, 5)),
        "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
        "bhid,bhjd->bhij": ((2, 3, 4, 5), (2, 3, 6, 5)),
        "ijk->kj": ((2, 3, 4),),
        "i,j->ij": ((3,), (4,)),
        "bi,oi->bo": ((3, 4), (5, 4)),
        "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
        "ij,ij->": ((3, 4), (3, 4)),
        "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 5)),
    }.items():
        inputs = tuple(numbers(*shape, seed=i) for i, shape in enumerate(shapes))
        cases[f"einsum {equation}"] = (lambda *xs, e=equation: torch.einsum(e, *xs), inputs)
    return cases


def indexing():
    rows = torch.tensor([2, 0, -1])
    return {
        "embedding": (nn.Embedding(7, 4), (integers(2, 3),)),
        "embedding_parts": (lambda i, w: (F.embedding(i + torch.tensor([0, 3, 4]), w), w[torch.tensor([[0], [-7]]) + i]), (integers(2, 3, high=3), numbers(7, 4))),
        "index_select": (lambda x: x.index_select(1, torch.tensor([2, 0])), (X,)),
        "index_constant": (lambda x: x[:, rows], (X,)),
        "index_input": (lambda x, i: x[:, i], (X, torch.tensor([[0, 2], [-1, 1]]))),
        "index_pair": (lambda x: x[:, torch.tensor([0, 1]), torch.tensor([3, -1])], (X,)),
        "gather": (lambda x, i: x.gather(1, i), (M, integers(3, 2, high=4))),
        "scatter": (lambda x, i, s: x.scatter(1, i, s), (M, torch.tensor([[0, 1], [2, 3], [1, 0]]), numbers(3, 2))),
        "scatter_value": (lambda x, i: x.scatter(1, i, 2.5), (M, torch.tensor([[0, 1], [2, 3], [1, 0]]))),
        "index_put": (write_columns, (X, Y[:, :2])),
        "index_put_inplace": (lambda x, y: (x + 0).index_put_((torch.tensor([1]),), y[:1]), (X, Y)),
        "index_copy": (lambda x, y: x.index_copy(1, torch.tensor([2, 0]), y), (X, Y[:, :2])),
        "zeros": (lambda x: x + torch.zeros(4, 5), (X,)),
        "ones": (lambda x: x + torch.ones(4, 5), (X,)),
        "full": (lambda x: x + torch.full((4, 5), 2.5), (X,)),
        "zeros_like": (lambda x: x + torch.zeros_like(x), (X,)),
        "ones_like": (lambda x: x + torch.ones_like(x), (X,)),
        "full_like": (lambda x: x + torch.full_like(x, 2), (X,)),
        "new_zeros": (lambda x: torch.cat((x, x.new_zeros(2, 3, 4, 1)), -1), (X,)),
        "new_ones": (lambda x: x * x.new_ones(5), (X,)),
        "new_full": (lambda x: x * x.new_full((5,), 3), (X,)),
        "arange": (lambda x: x + torch.arange(5), (X,)),
        "arange_start": (lambda x: x + torch.arange(2, 7), (X,)),
        "arange_step": (lambda x: x + torch.arange(0.5, 3.0, 0.5), (X,)),
        "linspace": (lambda x: x + torch.linspace(-1, 1, 5), (X,)),
        "eye": (lambda x: x @ torch.eye(5), (X,)),
        "scalar_tensor": (lambda x: x + torch.scalar_tensor(2.0), (X,)),
        "copy": (lambda x, y: (x * 1).copy_(y[0]), (X, Y)),
        "fill": (lambda x: (x * 1).fill_(3.0) + x, (X,)),
        "zero": (lambda x: (x * 1).zero_() + x, (X,)),
        "size_arithmetic": (lambda x: x.reshape(x.size(0) * x.size(1), -1) / x.shape[-1], (X,)),
        "weights": (Weights(), (X,)),
        "no_grad": (NoGrad(), (M,)),
    }


def decomposed():
    """Operators that PyTorch has a kernel for and that core operators express: one case per row or way through it."""
    pairs = (numbers(6, 4), numbers(6, 4, seed=9))
    classes = torch.tensor([1, 0, 3, 3, 2, -100])
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    image = numbers(2, 3, 6, 5)
    volume = numbers(1, 2, 3, 4, 5)
    index = torch.tensor([[0, 1], [2, 3], [1, 0]])
    cases = {
        "diff": (lambda x: (x.diff(), x.diff(n=2, dim=1), (x > 0).diff(dim=2)), (X,)),
        "diff_ends": (lambda x, y: x.diff(prepend=y, append=y), (M, M[:, :1])),
        "meshgrid": (lambda a, b: torch.meshgrid(a, b, indexing="ij"), (M[0], M[:, 0])),
        "meshgrid_xy": (lambda a, b, c: torch.meshgrid(a, b, c, indexing="xy"), (M[0], M[:, 0], M[0, :2])),
        "cartesian_prod": (lambda a, b: torch.cartesian_prod(a, b), (M[0], M[:, 0])),
        "broadcast_tensors": (lambda a, b: torch.broadcast_tensors(a, b), (X, M[:, :1, None])),
        "sum_to_size": (lambda x: x.sum_to_size(3, 1, 5), (X,)),
        "rot90": (lambda x: tuple(torch.rot90(x, k, (1, 3)) for k in (0, 1, 2, 3)), (X,)),
        "rot90_default": (lambda x: torch.rot90(x), (X,)),
        "fliplr": (lambda x: (x.fliplr(), x.flipud()), (X,)),
        "unfold": (lambda x: (x.unfold(2, 2, 1), x.unfold(-1, 2, 2), x.unfold(1, 3, 1)), (X,)),
        "unfold_long": (lambda x: (x.unfold(1, 70, 2), x.unfold(1, 10, 100)), (numbers(2, 400),)),
        "im2col": (lambda x: (F.unfold(x, 3, padding=1), F.unfold(x, (2, 3), dilation=(2, 1), stride=2)), (image,)),
        "im2col_patches": (lambda x: F.unfold(x, (2, 1), stride=(2, 1)), (image,)),
        "col2im": (lambda x: F.fold(x, (6, 5), (3, 2), padding=1, stride=(2, 1), dilation=(1, 2)), (numbers(2, 18, 15),)),
        "max_unpool_odd": (lambda x: F.max_unpool2d(*F.max_pool2d(x, (2, 3), return_indices=True), (2, 3), output_size=(5, 7)), (numbers(2, 3, 5, 7),)),
        "max_unpool": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, return_indices=True), 2), (numbers(2, 3, 4, 6),)),
        "max_pool_positions": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (image,)),
        "max_pool1d_positions": (lambda x: F.max_pool1d(x, 2, 1, dilation=2, return_indices=True), (image[0],)),
        "max_pool3d_positions": (lambda x: F.max_pool3d(x, 2, 1, return_indices=True), (volume,)),
        "adaptive_max_pool_positions": (lambda x: F.adaptive_max_pool2d(x, (2, 2), return_indices=True), (numbers(2, 3, 4, 6),)),
        "weight_norm": (nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 3)), (UNIT,)),
        "weight_norm_dim": (lambda v, g: torch._weight_norm(v, g, 1), (X, POSITIVE[:1, :, :1, :1])),
        "spectral_norm": (nn.utils.parametrizations.spectral_norm(nn.Linear(5, 7)), (X,)),
        "weight_standardization": (lambda x: F.batch_norm(x, None, None, training=True, eps=1e-6), (numbers(1, 6, 9),)),
        "batch_statistics": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (X, M[0, :3], M[1, :3])),
        "one_hot": (lambda x: F.one_hot(x, 7), (integers(2, 3),)),
        "take": (lambda x, i: torch.take(x, i), (X, integers(3, 4, high=60))),
        "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (M, index)),
        "take_along_dim_flat": (lambda x, i: torch.take_along_dim(x, i), (M, index)),
        "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1, 3], [2, 0])), (X, numbers(5, 2, 3))),
        "inner": (torch.inner, (X, numbers(6, 5))),
        "kron": (torch.kron, (M, numbers(2, 3, 2))),
        "cross": (lambda x, y: torch.linalg.cross(x, y, dim=1), (X, Y)),
        "vdot": (torch.vdot, (M[0], M[1])),
        "vecdot": (lambda x, y: torch.linalg.vecdot(x, y, dim=2), (X, Y)),
        "bilinear": (nn.Bilinear(4, 5, 6), (M, numbers(3, 5))),
        "multi_dot": (lambda a, b, c: torch.linalg.multi_dot((a, b, c)), (M, numbers(4, 5), numbers(5, 2))),
        "addbmm": (lambda a, b, c: torch.addbmm(a, b, c, beta=0.5, alpha=2), (numbers(3, 5), UNIT, numbers(2, 4, 5))),
        "addr": (lambda a, b, c: torch.addr(a, b, c, beta=0.5, alpha=2), (M, M[:, 0], M[0])),
        "sort": (lambda x: (*torch.sort(x, 1), *torch.sort(x, 2, descending=True)), (X,)),
        "sort_ties": (lambda x: (*torch.sort(x, dim=1, stable=True), torch.argsort(x, dim=1, descending=True, stable=True)), (INTS,)),
        "argsort": (lambda x: (torch.argsort(x, 1), torch.msort(x)), (X,)),
        "median": (lambda x: (*torch.median(x, 2), torch.median(x), *torch.median(x, 3, keepdim=True)), (X,)),
        "kthvalue": (lambda x: tuple(torch.kthvalue(x, 3, 3)), (X,)),
        "mode": (lambda x: (tuple(torch.mode(x, 1)), torch.mode(x.float(), 2, keepdim=True)[0]), (INTS,)),
        "nanmedian": (lambda x: (x.nanmedian(), *x.nanmedian(1)), (torch.tensor([[1.0, NAN, 5.0, 3.0], [NAN, 2.0, 8.0, 4.0]]),)),
        "nonzero_static": (lambda x: (torch.nonzero_static(x > 1, size=9), torch.nonzero_static(x > 1.9, size=40, fill_value=7)), (M,)),
        "as_strided": (lambda x: (x.as_strided((2, 3), (1, 2), 1), x.as_strided((3, 2), (1, 1))), (M,)),
        "as_strided_scatter": (lambda x, y: torch.as_strided_scatter(x, y, (2, 3), (1, 2), 1), (M, M[:2, :3].contiguous())),
        "index_apart": (lambda x, i: x[i, :, i], (X, torch.tensor([1, 0, 1]))),
        "masked_index": (
            lambda x, m, i: (torch.ops.aten._unsafe_masked_index(x, m, [i], 7.0), torch.ops.aten._unsafe_masked_index_put_accumulate(x, m, [i], x[:3])),
            (M[0], torch.tensor([True, False, True]), torch.tensor([1, 99, 1])),
        ),
        "linspace_computed": (lambda a, b: torch.linspace(a[0, 0], b[1, 1], 5), (M, M)),
        "softmax_backward": (lambda g, y: torch.ops.aten._softmax_backward_data(g, y, 1, torch.float32), (M, M)),
        "dropout_backward": (lambda g, m: torch.ops.aten.native_dropout_backward(g, m > 0, 1.5), (M, M)),
        "adaptive_max_pool_uneven": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (image,)),
        "replicate_beyond": (lambda x: F.pad(x, (-5, 7), mode="replicate"), (image[0],)),
        "multilabel_margin_loss": (lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"), (pairs[0], torch.tensor([[1, 3, 2, 0], [0, 2, 1, 3]] * 3))),
        "trapezoid": (lambda y, x: (torch.trapezoid(y, x), torch.trapz(y, dx=0.5, dim=0), torch.cumulative_trapezoid(y, x[0], dim=1)), (M, M.cumsum(1))),
        "renorm": (lambda x: torch.renorm(x, 2, 1, 1.5), (M,)),
        "bilinear_one": (nn.Bilinear(3, 4, 2), (numbers(3), numbers(4))),
        "quantile": (lambda x: torch.quantile(x, torch.tensor([0.25, 0.6]), dim=1), (X,)),
        "quantile_scalar": (lambda x: (torch.quantile(x, 0.3), torch.quantile(x, 0.3, 2, interpolation="higher")), (X,)),
        "bucketize": (lambda x: (torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.5])), torch.bucketize(x, torch.tensor([-1.0, 0.0]), right=True)), (X,)),
        "fold_side_by_side": (lambda x: (F.fold(x, (5, 8), (2, 4), stride=(2, 4)), F.fold(x, (4, 8), (2, 4), stride=(2, 4), padding=(0, 0)), F.fold(x, (4, 9), (2, 4), stride=(2, 5))), (numbers(2, 24, 4),)),
        "histc": (lambda x: (torch.histc(x, 5, -1, 1), torch.histc(x.round(), 4, -2, 2), torch.histc(x, 1, 0, 3)), (X,)),
        "histc_of_integers": (lambda i: (torch.histc(i.float(), 5, 0, 4), torch.histc(i.float(), 3, 0, 4), torch.histc(i.float(), 2, 1, 3).cumsum(0, dtype=torch.int32)), (INTS,)),
        "grouped_mm": (lambda x, w, ends: torch._grouped_mm(x.bfloat16(), w.bfloat16(), offs=ends).float(), (numbers(6, 8), numbers(3, 8, 16), torch.tensor([2, 2, 6], dtype=torch.int32))),
        "searchsorted": (lambda s, x: torch.searchsorted(s, x), (torch.sort(M, -1)[0], numbers(3, 6))),
        "isin": (lambda x: (torch.isin(x, torch.tensor([1, 3, 8])), torch.isin(x, 3, invert=True)), (INTS,)),
        "cumprod": (lambda x: x.cumprod(2), (X,)),
        "cummax": (lambda x: (*x.cummax(3), *x.cummin(1)), (X,)),
        "cummax_ties": (lambda x: (*x.cummax(2), *x.cummin(2)), (INTS,)),
        "logcumsumexp": (lambda x: x.logcumsumexp(3), (X,)),
        "logaddexp": (lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)), (X, Y)),
        "nan_to_num": (lambda x: (torch.nan_to_num(x / 0), torch.nan_to_num(x / 0, 1.0, 2.0, -3.0)), (torch.tensor([1.0, 0.0, -2.0]),)),
        "nansum": (lambda x: (torch.nansum(x / x, 1), torch.nanmean(x / x)), (torch.tensor([[1.0, 0.0], [3.0, 2.0]]),)),
        "count_nonzero": (lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1)), (INTS,)),
        "atan2": (lambda x, y: (torch.atan2(x, y), torch.arctan2(x.round() + 0.0, y.round() + 0.0), torch.ldexp(x, y)), (X, Y)),
        "ndtr": (lambda x, y: (torch.special.ndtr(x), torch.special.xlog1py(x, y.abs())), (X, Y)),
        "fmax": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y), torch.hypot(x, y)), (X, Y)),
        "copysign": (lambda x, y: (torch.copysign(x, y), torch.copysign(x, -1.0), torch.heaviside(x, y)), (X, Y)),
        "isclose": (lambda x, y: (torch.isclose(x, y, 0.5, 0.1), torch.isfinite(x / 0), torch.isposinf(x / 0), torch.isneginf(x / 0)), (X, Y)),
        "signbit": (lambda x: (torch.signbit(x), torch.sinc(x), torch.isreal(x)), (X,)),
        "xlogy": (torch.xlogy, (X, POSITIVE)),
        "linalg_norm": (lambda x: (torch.linalg.norm(x), torch.linalg.norm(x, dim=(1, 2)), torch.linalg.matrix_norm(x)), (X,)),
        "index_add": (lambda x, y: x.index_add(1, torch.tensor([2, 0, 2]), y, alpha=0.5), (X, Y)),
        "index_add_input": (lambda x, i, y: x.index_add(0, i, y), (M, torch.tensor([1, 1]), M[:2] + 1)),
        "index_add_line": (lambda x, y: x.index_add(0, torch.tensor([1, 3, 1]), y), (M[0], M[0, :3] + 1)),
        "scatter_scalar": (lambda x, y: (x.scatter_add(0, torch.tensor(0), y), x.index_reduce(0, torch.tensor([0]), y, "mean"), x.scatter(0, torch.tensor(0), y)), (M[0, 0], M[1, 1])),
        "index_fill": (lambda x: (x.index_fill(1, torch.tensor([0, -1]), 3.0), x.index_fill(2, torch.tensor([1]), x[0, 0, 0, 0])), (X,)),
        "index_put_pair": (lambda x, y: x.index_put((torch.tensor([0, 1]), torch.tensor([2, -1])), y), (X, Y[0, :2])),
        "index_put_add": (lambda x, y: x.index_put((torch.tensor([1, 1]),), y, accumulate=True), (X, Y)),
        "index_copy_input": (lambda x, i, y: x.index_copy(1, i, y), (X, torch.tensor([2, 0]), Y[:, :2])),
        "index_put_input": (lambda x, i, y: x.index_put((i, torch.tensor([1, 2])), y), (X, torch.tensor([-1, 0]), Y[:, 0])),
        "topk": (lambda x: (*x.topk(3), *x.topk(2, 1, False)), (X,)),
        "gradient": (lambda x: (*torch.gradient(x), *torch.gradient(x, spacing=0.5, dim=[1, -1], edge_order=2), *torch.gradient(x, dim=2)), (X,)),
        "grid_sample": (lambda x, g=numbers(2, 3, 4, 2): (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g * 3, "nearest", "reflection", True), F.grid_sample(x, g, padding_mode="border", align_corners=True)), (X,)),
        "grid_sample_volume": (lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g * 3, padding_mode="border", align_corners=True)), (numbers(2, 3, 4, 5, 6), numbers(2, 2, 3, 4, 3))),
        "grid_sample_computed": (lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g * 3, padding_mode="border", align_corners=True)), (X, numbers(2, 3, 4, 2))),
        "gather_rows": (lambda x, i: (x.gather(1, i[:, :, None, None].expand(-1, -1, 4, 5)), x.gather(1, i[:, :, None, None].repeat(1, 1, 4, 5)), x.gather(1, i[:, :, None, None].expand(-1, -1, 2, 5))), (X[:1], torch.tensor([[2, 0, 2, 1]]))),
        "index_put_many": (lambda x, i, y: x.index_put((i,), y), (numbers(24, 3), torch.randperm(24, generator=torch.Generator().manual_seed(0))[:20] // 2, numbers(20, 3))),
        "index_put_permutation": (lambda i: torch.zeros_like(i).index_put((i,), torch.arange(20)), (torch.randperm(20, generator=torch.Generator().manual_seed(0)),)),
        "index_copy_many": (lambda x, i, y: x.index_copy(1, i, y), (numbers(2, 24, 3), torch.arange(20, 0, -1), numbers(2, 20, 3))),
        "index_put_mask": (lambda x: x.index_put((x > 0.5,), torch.tensor(7.0)), (X,)),
        "put": (lambda x, y: x.put(torch.tensor([1, 5]), y), (M, M[0, :2])),
        "scatter_part": (lambda x, i, s: x.scatter(1, i, s), (M, index, numbers(3, 4, seed=3))),
        "scatter_add": (lambda x, i, s: x.scatter_add(1, i % 2, s), (M, index, numbers(3, 2))),
        "scatter_add_part": (lambda x, i, s: x.scatter_add(1, i[:2], s), (M, index, numbers(3, 2))),
        "scatter_onto": (lambda x, i, s: (x.scatter(1, i, s, reduce="multiply"), x.scatter(1, i, 2.0, reduce="add")), (M, index, numbers(3, 2))),
        "embedding_bag": (nn.EmbeddingBag(7, 4, mode="mean"), (integers(2, 3),)),
        "embedding_bag_sum": (nn.EmbeddingBag(7, 4, mode="sum"), (integers(6), torch.tensor([0, 2, 5]))),
        "embedding_bag_max": (nn.EmbeddingBag(7, 4, mode="max"), (integers(6), torch.tensor([0, 2, 5]))),
        "diagonal": (lambda x: (x.diagonal(), x.diagonal(1, 2, 3), x.diagonal(-2, 3, 1)), (X,)),
        "diag": (lambda x: (torch.diag(x), torch.diag(x[0], 1), torch.diag(x[1], -2), torch.diagflat(x), torch.trace(x)), (M,)),
        "diag_embed": (lambda x: (torch.diag_embed(x), torch.diag_embed(x, -1, 0, 2)), (UNIT,)),
        "diagonal_scatter": (lambda x, y: (torch.diagonal_scatter(x, y, 1), torch.diagonal_scatter(x, y[:2], -1)), (M, M[:, 0])),
        "block_diag": (lambda a, b, c: torch.block_diag(a, b, c), (M, M[0], M[0, 0])),
        "hsplit": (lambda x: (*x.hsplit(3), *x.vsplit(2), *x.dsplit([1])), (X,)),
        "dstack": (lambda x: (torch.dstack((x, x)), torch.column_stack((x[:, 0], x))), (M,)),
        "logspace": (lambda x: x + torch.logspace(-1, 1, 5), (X,)),
        "tril_indices": (lambda x: x[torch.tril_indices(4, 4)[0], torch.tril_indices(4, 4)[1]], (numbers(4, 4),)),
        "mse_loss": (lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.mse_loss(x, y, reduction="none")), (X, Y)),
        "smooth_l1_loss": (lambda x, y: (F.smooth_l1_loss(x, y, beta=0.7), F.huber_loss(x, y, delta=0.7)), (X, Y)),
        "soft_margin_loss": (lambda x, y: F.soft_margin_loss(x, y), (pairs[0], signs[:, None])),
        "binary_cross_entropy": (lambda x, y: F.binary_cross_entropy(x, y), (POSITIVE / 4, POSITIVE.flip(0) / 4)),
        "bce_with_logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0)), (X, POSITIVE / 4)),
        "kl_div": (lambda x, y: (F.kl_div(x, y, reduction="sum"), F.kl_div(x, y, log_target=True)), (X, POSITIVE)),
        "nll_loss": (lambda x, t: (F.nll_loss(x, t), F.nll_loss(x, t, torch.arange(4.0), reduction="none")), (pairs[0], classes)),
        "cross_entropy": (lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, torch.arange(4.0), label_smoothing=0.1)), (pairs[0], classes)),
        "cross_entropy_soft": (lambda x, y: F.cross_entropy(x, y.softmax(1), label_smoothing=0.1), pairs),
        "cross_entropy_2d": (lambda x, t: F.cross_entropy(x, t, reduction="none"), (X, integers(2, 4, 5, high=3))),
        "margin_losses": (lambda x, y, s: (F.margin_ranking_loss(x[:, 0], y[:, 0], s, 0.5), F.hinge_embedding_loss(x[:, 0], s), F.cosine_embedding_loss(x, y, s, 0.2)), (*pairs, signs)),
        "multi_margin_loss": (lambda x, t: (F.multi_margin_loss(x, t), F.multi_margin_loss(x, t, p=2, margin=0.7)), (pairs[0], classes.clamp_min(0))),
        "triplet_margin_loss": (lambda a, p: F.triplet_margin_loss(a, p, a.flip(0), swap=True), pairs),
        "poisson_nll_loss": (lambda x, y: (F.poisson_nll_loss(x, y, full=True), F.poisson_nll_loss(y, y, log_input=False)), (X, POSITIVE)),
        "cdist": (lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1.0)), (UNIT, numbers(2, 5, 4))),
        "pairwise_distance": (lambda x, y: (F.pairwise_distance(x, y), F.pairwise_distance(x, y, p=1.0, keepdim=True)), pairs),
        "pdist": (lambda x: (F.pdist(x), torch.dist(x, x + 1, 3.0)), (pairs[0],)),
        "resize_cubic": (lambda x: (F.interpolate(x, size=(9, 4), mode="bicubic"), F.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True)), (image,)),
        "resize_exact": (lambda x: (F.interpolate(x, size=(4, 7), mode="nearest-exact"), F.interpolate(x, scale_factor=2, mode="nearest-exact")), (image,)),
        "resize_exact1d": (lambda x: F.interpolate(x, size=4, mode="nearest-exact"), (image[0],)),
        "resize_volume": (lambda x: (F.interpolate(x, size=(5, 6, 3)), F.interpolate(x, scale_factor=2, mode="trilinear"), F.interpolate(x, size=(2, 5, 7), mode="trilinear", align_corners=True)), (volume,)),
        "cat_of_nothing": (lambda x: torch.cat([x[..., 5:], x * 2, x[..., :0]], -1), (X,)),
        "affine_grid": (lambda t: (F.affine_grid(t, [2, 3, 4, 5], align_corners=False), F.affine_grid(t, [2, 3, 2, 3], align_corners=True)), (numbers(2, 2, 3),)),
        "affine_grid_volume": (lambda t: F.affine_grid(t, [2, 1, 2, 3, 4], align_corners=False), (numbers(2, 3, 4),)),
        "resize_antialias": (lambda x: (F.interpolate(x, size=(3, 8), mode="bicubic", antialias=True), F.interpolate(x, size=(2, 3), mode="bilinear", antialias=True)), (image,)),
        "resize_area": (lambda x: F.interpolate(x, size=(4, 3), mode="area"), (image,)),
    }
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            cases[f"scatter_reduce_{how}_{own}"] = (lambda x, i, s, h=how, o=own: x.scatter_reduce(1, i % 3, s, h, include_self=o), (M, index, numbers(3, 2)))
    for how in ("prod", "mean", "amax", "amin"):
        cases[f"index_reduce_{how}"] = (lambda x, y, h=how: x.index_reduce(1, torch.tensor([2, 0, 2]), y, h, include_self=False), (X, Y))
    return cases


def mutations():
    """Cases whose programs change buffers or inputs; results are compared after the writes."""
    return {
        "write_row": (Buffers(write_row), (M,)),
        "write_column_by_view": (Buffers(write_column_by_view), (M,)),
        "write_strided": (Buffers(write_strided), (M,)),
        "count": (Buffers(count), (M,)),
        "stale_view": (Buffers(stale_view), (M,)),
        "mutate_input": (Fn(mutate_input), (M, M + 1)),
        "read_then_written": (ReadThenWritten(), (M,)),
    }


def quantized():
    import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the operators)

    ops = torch.ops.quantized_decomposed

    class PerChannel(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", integers(4, 5, low=-100, high=100).to(torch.int8))
            self.register_buffer("s", torch.tensor([0.1, 0.2, 0.3, 0.05]))
            self.register_buffer("z", torch.tensor([0, 1, -2, 3]))

        def forward(self, x):
            w = ops.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127, torch.int8)
            return F.linear(x, w)

    class QuantizeChannels(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.tensor([0.1, 0.2, 0.3]))
            self.register_buffer("z", torch.tensor([0, 1, -2]))

        def forward(self, x):
            q = ops.quantize_per_channel(x, self.s, self.z, 1, -128, 127, torch.int8)
            return ops.dequantize_per_channel(q, self.s, self.z, 1, -128, 127, torch.int8)

    class FakeChannels(QuantizeChannels):
        def forward(self, x):
            return torch.fake_quantize_per_channel_affine(x, self.s, self.z.int(), 1, -7, 7)

    def pair(dtype, qmin, qmax, zero):
        def run(x):
            q = ops.quantize_per_tensor(x, 0.05, zero, qmin, qmax, dtype)
            return ops.dequantize_per_tensor(q, 0.05, zero, qmin, qmax, dtype)

        return run

    def moved(x):
        q = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        q = torch.movedim(q, 1, -1).reshape(2, 20, 3)[:, 2:]
        return ops.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)

    def requantized(x):
        q = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(q, 0.1, -1, -128, 127, torch.int8)

    def input_codes(q):
        return ops.dequantize_per_tensor(q, 0.1, -1, -128, 127, torch.int8).relu()

    return {
        "q int8": (pair(torch.int8, -128, 127, 5), (X,)),
        "q uint8": (pair(torch.uint8, 0, 255, 128), (X,)),
        "q int16": (pair(torch.int16, -32767, 32767, 0), (X,)),
        "q int4": (pair(torch.int8, -7, 7, 0), (X,)),
        "q moved": (moved, (X,)),
        "q requantized": (requantized, (X,)),
        "q per channel weight": (PerChannel(), (X,)),
        "q per channel": (QuantizeChannels(), (X,)),
        "fake per channel": (FakeChannels(), (X,)),
        "fake per tensor": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -128, 127), (X,)),
        "q input": (input_codes, (integers(2, 3, low=-100, high=100).to(torch.int8),)),
    }


def build():
    from import_cases_complex import complex_numbers  # these files make their inputs as the others do
    from import_cases_flow import control_flow

    cases = {}
    for group in (elementwise, binary, reductions, movement, networks, indexing, decomposed, mutations, quantized, complex_numbers, control_flow):
        for name, (fn, inputs) in group().items():
            assert name not in cases, name
            cases[name] = (fn if isinstance(fn, nn.Module) else Fn(fn), inputs)
    return cases
