#!/usr/bin/env python3
"""Random PyTorch modules, each compiled for a random NPU with random options, run, and judged by PyTorch.

    .venv/bin/python tools/random_networks.py [--seed 0] [--count 100] [--seconds 60] [--keep FOLDER] [--no-reduce]

Each seed gives one network. What goes wrong (tools/judge.py has the list) is printed with its seed, then reduced to a
module of a few lines, which is printed and kept in FOLDER with its command. The exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import sys
import tempfile
import textwrap
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace

import torch

import network_pieces
from judge import FINDINGS, class_of, judge, write_case

TARGETS = [*(f"ethos-u55-{n}" for n in (32, 64, 128, 256)), "ethos-u65-256", "ethos-u65-512", *(f"ethos-u85-{n}" for n in (128, 256, 512, 1024, 2048))]
FLAGS = [["--precision", "int16"], ["--weight-bits", "4"], ["--per-tensor"], ["--equalize"], ["--no-bias-correction"], ["--io", "int8"], ["--segments"], ["--strip"],
         ["--calibration-method", "minmax"], ["--calibration-method", "percentile"], ["--calibration-method", "histogram"], ["--optimise", "Size"]]
MAX_ELEMENTS = 20_000  # of one value: larger ones take the software NPU seconds


@dataclass(frozen=True)
class Input:
    name: str
    shape: tuple
    kind: str  # of numbers: real, ids (0..9) or mask
    scale: float = 1.0

    def draw(self, generator):
        if self.kind == "ids":
            return torch.randint(0, 10, self.shape, generator=generator)
        if self.kind == "mask":
            keep = torch.rand(self.shape, generator=generator) > 0.3
            keep[..., 0] = True  # attention to nothing is NaN
            return keep
        return torch.randn(self.shape, generator=generator) * self.scale

    def text(self):
        if self.kind == "real":
            return f"torch.randn{self.shape}" + (f" * {self.scale:g}" if self.scale != 1 else "")
        return f"torch.randint(0, 10, {self.shape})" if self.kind == "ids" else f"torch.rand{self.shape} > 0.3"


@dataclass(frozen=True)
class Step:
    name: str  # of its result
    code: str  # an expression in which {0}, {1}, ... are its arguments
    args: tuple  # names of inputs or of earlier results
    members: tuple = ()  # (name, expression) of what __init__ makes

    def text(self):
        return f"{self.name} = {self.code.format(*self.args)}"


@dataclass(frozen=True)
class Network:
    seed: int
    inputs: tuple
    steps: tuple
    outputs: tuple
    target: str
    flags: tuple = ()
    decompose: bool = False

    def source(self):
        """A module of its own, as text."""
        members = dict(pair for step in self.steps for pair in step.members)
        lines = ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        for name, made in members.items():
            buffer = made.startswith("buffer:")
            lines.append(f'        self.register_buffer("{name}", {made[7:]})' if buffer else f"        self.{name} = {made}")
        lines += ["", f"    def forward(self, {', '.join(i.name for i in self.inputs)}):"]
        lines += [f"        {step.text()}" for step in self.steps]
        return "\n".join([*lines, f"        return {', '.join(self.outputs)}", ""])

    def command(self):
        flags = " ".join(word for flag in self.flags for word in flag)
        return f"swoop compile model.pt2 -c calibrate.npz -t {self.target} {flags}".strip()

    def text(self):
        inputs = ", ".join(f"{i.name} = {i.text()}" for i in self.inputs)
        return f"# seed {self.seed}: {inputs}{'; exported with run_decompositions()' if self.decompose else ''}\n# {self.command()}\n{self.source()}"


def module_of(network):
    torch.manual_seed(network.seed)
    names = dict(vars(network_pieces.NAMES))
    exec(network.source(), names)
    return names["Net"]().eval().requires_grad_(False)


# ---- making


def make(seed):
    rng = random.Random(seed)
    inputs = []
    for i in range(rng.choice([1, 1, 1, 2, 2, 3])):
        kind = rng.choice(["real"] * 8 + ["ids", "mask"]) if i else "real"
        scale = rng.choice([1e-6, 1e-3, 1, 1, 1, 1, 1, 1, 1, 1e3, 1e6]) if kind == "real" else 1
        inputs.append(Input(f"x{i}", network_pieces.shape(rng, kind), kind, scale))
    network = Network(seed, tuple(inputs), (), (), rng.choice(TARGETS), tuple(map(tuple, options(rng))), rng.random() < 0.25)
    generator = torch.Generator().manual_seed(seed)
    values = {i.name: i.draw(generator) for i in inputs}
    wanted = rng.randint(1, 10)
    for _ in range(40):
        if len(network.steps) >= wanted:
            break
        grown = grow(network, values, rng)
        network = grown or network
    used = {a for step in network.steps for a in step.args}
    ends = [name for name in values if name not in used and name not in {i.name for i in inputs}]
    kept = {i.name for i in inputs if i.name in used} or {inputs[0].name}
    return replace(network, inputs=tuple(i for i in inputs if i.name in kept), outputs=tuple(ends[:4]) or (inputs[0].name,))


def options(rng):
    picked = rng.sample(FLAGS, rng.choice([0, 0, 1, 1, 2, 3]))
    return [flag for i, flag in enumerate(picked) if flag[0] not in [other[0] for other in picked[:i]]]


def grow(network, values, rng):
    """The network with one more step, or None where what was proposed cannot be computed."""
    number = len(network.steps)
    step = network_pieces.propose(rng, values, f"v{number}", f"m{number}", network.steps, Step)
    if step is None:
        return None
    grown = replace(network, steps=(*network.steps, step), outputs=(step.name,))
    try:
        torch.manual_seed(network.seed)
        names = dict(vars(network_pieces.NAMES))
        owner = torch.nn.Module()
        for name, made in step.members:
            setattr(owner, name, eval(made.removeprefix("buffer:"), names))
        with torch.no_grad():
            result = eval(step.code.format(*step.args), names, {"self": owner.eval(), **values})
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError):
        return None
    fine = torch.is_tensor(result) and 0 < result.numel() <= MAX_ELEMENTS and result.ndim <= 5
    if not fine or (result.is_floating_point() and not torch.isfinite(result).all()) or (result.is_floating_point() and result.numel() > 1 and result.abs().max() > 1e9):
        return None
    values[step.name] = result
    return grown


# ---- judging


def verdict_of(network, folder, timeout=60):
    """None where PyTorch itself cannot compute or export the network."""
    generator = torch.Generator().manual_seed(network.seed + 1)
    samples = [tuple(i.draw(generator) for i in network.inputs) for _ in range(12)]
    try:
        module = module_of(network)
        write_case(module, samples[:8], samples[8:], folder, network.decompose)
    except Exception:  # torch.export raises whatever it likes
        return None
    return judge(folder, network.target, [word for flag in network.flags for word in flag], timeout)


# ---- reducing


def without_dead_code(network):
    needed, steps = set(network.outputs), []
    for step in reversed(network.steps):
        if step.name in needed:
            steps.insert(0, step)
            needed.update(step.args)
    inputs = tuple(i for i in network.inputs if i.name in needed)
    return replace(network, inputs=inputs or network.inputs[:1], steps=tuple(steps))


def smaller(network, values):
    """Networks with less in them, the boldest cut first."""
    for step in network.steps:
        if network.outputs != (step.name,):
            yield replace(network, outputs=(step.name,))
    for name in network.outputs:
        if len(network.outputs) > 1:
            yield replace(network, outputs=tuple(o for o in network.outputs if o != name))
    for flag in network.flags:
        yield replace(network, flags=tuple(f for f in network.flags if f != flag))
    if network.decompose:
        yield replace(network, decompose=False)
    for k, step in reversed(list(enumerate(network.steps))):
        value = values.get(step.name)
        if value is not None and value.is_floating_point():  # its result comes from outside
            fresh = Input(f"in_{step.name}", tuple(value.shape), "real", float(f"{max(float(value.std(correction=0)), 1e-9):.1g}"))
            yield renamed(replace(network, inputs=(*network.inputs, fresh), steps=network.steps[:k] + network.steps[k + 1 :]), step.name, fresh.name)
        for arg in step.args:  # it is left out
            if arg in values and value is not None and values[arg].shape == value.shape and values[arg].dtype == value.dtype:
                yield renamed(replace(network, steps=network.steps[:k] + network.steps[k + 1 :]), step.name, arg)
    for i in network.inputs:
        if i.scale != 1:
            yield replace(network, inputs=tuple(replace(j, scale=1.0) if j == i else j for j in network.inputs))


def renamed(network, old, new):
    steps = tuple(replace(s, args=tuple(new if a == old else a for a in s.args)) for s in network.steps)
    return replace(network, steps=steps, outputs=tuple(dict.fromkeys(new if o == old else o for o in network.outputs)))


def values_of(network):
    module, names = module_of(network), dict(vars(network_pieces.NAMES))
    generator = torch.Generator().manual_seed(network.seed)
    values = {i.name: i.draw(generator) for i in network.inputs}
    with torch.no_grad():
        for step in network.steps:
            values[step.name] = eval(step.code.format(*step.args), names, {"self": module, **values})
    return values


def size(network):
    return len(network.steps), len(network.outputs), len(network.flags), network.decompose, sum(i.scale != 1 for i in network.inputs)


def reduce(network, verdict, seconds=300):
    wanted, end = class_of(verdict), time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for candidate in [network, *smaller(network, values_of(network))]:
            candidate = without_dead_code(candidate)
            if size(candidate) >= size(network) or time.monotonic() > end:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                found = verdict_of(candidate, pathlib.Path(scratch))
            if found is not None and class_of(found) == wanted:
                network, verdict, changed = candidate, found, True
                break
    return network, verdict


# ---- the campaign


@dataclass
class Campaign:
    networks: int = 0
    kinds: Counter = field(default_factory=Counter)
    found: list = field(default_factory=list)  # (network, verdict), reduced

    def line(self):
        return f"{self.networks} networks: " + ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())


def campaign(seeds, seconds=None, keep=None, reducing=True, say=print):
    warnings.filterwarnings("ignore")
    result, start = Campaign(), time.monotonic()
    for seed in seeds:
        if seconds is not None and time.monotonic() - start > seconds:
            break
        network = make(seed)
        with tempfile.TemporaryDirectory() as scratch:
            verdict = verdict_of(network, pathlib.Path(scratch))
        if verdict is None:
            result.kinds["not exported"] += 1
            continue
        result.networks += 1
        result.kinds[verdict.kind] += 1
        say(f"seed {seed} {network.target} {len(network.steps)} steps: {verdict.line()[:300]}")
        if verdict.kind in FINDINGS:
            new = verdict.kind != "internal" or class_of(verdict) not in [class_of(v) for _, v in result.found]
            if reducing and new:
                network, verdict = reduce(network, verdict)
            say(textwrap.indent(f"{network.text()}# {verdict.line()}", "    "))
            result.found.append((network, verdict))
            if keep:
                store(network, verdict, keep)
    return result


def store(network, verdict, keep):
    folder = keep / f"seed{network.seed}"
    verdict_of(network, folder)
    (folder / "net.py").write_text(f"{network.text()}# {verdict.line()}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the reduced networks")
    parser.add_argument("--no-reduce", action="store_true")
    o = parser.parse_args()
    torch.set_num_threads(1)
    result = campaign(range(o.seed, o.seed + o.count), o.seconds, o.keep, not o.no_reduce, lambda text: print(text, flush=True))
    print(f"seeds from {o.seed}; {result.line()}")
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
