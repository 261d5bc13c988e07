"""Control flow, for import_cases.py: name -> (module, inputs)."""

import torch
from import_cases import Fn, M, X, numbers
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(5, 5)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: self.l(v).relu(), lambda v: v.sin() + self.l.bias, (x,))


class KnownCond(nn.Module):
    """A branch that is chosen by a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("limit", torch.tensor([1.0, 2.0]))

    def forward(self, x):
        return torch.cond(self.limit.sum() > 2, lambda v: v * 2, lambda v: v.sin(), (x,))


class WhileLoop(nn.Module):
    """As often as a counter says, and where `computed`, as long as the numbers are small."""

    def __init__(self, computed=False):
        super().__init__()
        self.computed = computed

    def forward(self, x):
        def condition(i, v):
            return (i < 3) & (v.sum() < 30) if self.computed else i < 3

        def body(i, v):
            return i + 1, v * 1.5 + 1

        return while_loop(condition, body, (torch.zeros((), dtype=torch.int64), x))[1]


class Map(nn.Module):
    def forward(self, x, w):
        return torch_map(lambda row, k: (row * k).cos(), x, w)


class Scan(nn.Module):
    def forward(self, x):
        def step(carry, row):
            new = carry * 0.5 + row
            return new, new.tanh()

        return scan(step, torch.zeros(4), x, dim=0)


class ScannedBranch(nn.Module):
    """A scan with a branch in each step, which reads a weight."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        def step(carry, row):
            new = torch.cond(row.sum() > 0, lambda c, r: self.l(c) + r, lambda c, r: c - r, (carry, row))
            return new, new.tanh()

        return scan(step, torch.zeros(4), x, dim=0)


def loop(x, f=lambda v: v * 1.5 + 1):
    return while_loop(lambda i, v: (i < 3) & (v.sum() < 30), lambda i, v: (i + 1, f(v)), (torch.zeros((), dtype=torch.int64), x))[1]


def branch(x, f=torch.sin):
    return torch.cond(x.sum() > 0, f, lambda v: v - 1, (x,))


def rows(x, f=torch.cos):
    return torch_map(f, x)


def steps(x, f=torch.tanh):
    def step(carry, row):
        new = f(carry * 0.5 + row)
        return new.clone(), new * 2

    return scan(step, torch.zeros(x.shape[1:]), x, dim=0)[1]


def nested(outer, *inner):
    return Fn(lambda x: tuple(outer(x, one) for one in inner))


def control_flow():
    """Branches, loops and what is mapped or scanned."""
    return {
        "cond": (Cond(), (X,)),
        "while_loop": (WhileLoop(), (M,)),
        "while_computed": (WhileLoop(computed=True), (M,)),
        "map": (Map(), (M, numbers(4))),
        "map_long": (Map(), (numbers(40, 4), numbers(4))),
        "scan": (Scan(), (M,)),
        "scan_long": (Scan(), (numbers(40, 4),)),
        "scan_branch": (ScannedBranch(), (M,)),
        "cond_known": (KnownCond(), (M,)),
        "in_loop": (nested(loop, branch), (numbers(2, 3, 4),)),
        "in_branch": (nested(branch, loop), (numbers(2, 3, 4, low=-1.0),)),
        "in_rows": (nested(rows, branch), (numbers(2, 3, 4),)),
        "in_steps": (nested(steps, loop, rows), (numbers(2, 3, 4),)),
    }
