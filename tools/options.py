#!/usr/bin/env python3
"""Every option with every model: a covering array over the flags of `swoop compile` and the models of small_models.py.

    .venv/bin/python tools/options.py [--seed 0] [--first 0] [--count N] [--seconds N] [--list] [-o FILE.md]

Each row of the array is one build: a model, an NPU and a value for every flag. Any two values of two factors meet in at
least one row. PyTorch's float outputs are the judge (tools/judge.py). The exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter

import torch

import small_models
from judge import FINDINGS, class_of, judge, write_case

# Per factor, the flags that each value stands for. KEEP is replaced by the name of a node of the model.
FACTORS = {
    "target": [["--target", t] for t in ("ethos-u55-128", "ethos-u55-32", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256", "ethos-u85-1024")],
    "precision": [[], ["--precision", "int16"]],
    "weights": [[], ["--weight-bits", "4"]],
    "io": [[], ["--io", "int8"]],
    "per-tensor": [[], ["--per-tensor"]],
    "equalize": [[], ["--equalize"]],
    "bias": [[], ["--no-bias-correction"]],
    "method": [[], ["--calibration-method", "minmax"], ["--calibration-method", "percentile"], ["--calibration-method", "histogram"]],
    "keep-float": [[], ["--keep-float", "KEEP"]],
    "config": [[], ["--quantize-config", "node-int16.toml"], ["--quantize-config", "node-float.toml"], ["--quantize-config", "all.toml"]],
    "min-sqnr": [[], ["--min-sqnr", "10"], ["--min-sqnr", "38"]],
    "segments": [[], ["--segments"]],
    "strip": [[], ["--strip"]],
    "memory": [[], ["--memory-mode", "Sram_Only"], ["--memory-mode", "Shared_Sram"], ["--memory-mode", "Dedicated_Sram"]],
    "optimise": [[], ["--optimise", "Size"]],
    "arena": [[], ["--arena-cache-size", "4096"]],
    "threads": [[], ["--threads", "1"]],
}
CONFIGS = {
    "node-int16.toml": '[[node]]\nname = "KEEP"\nprecision = "int16"\nmethod = "minmax"\n',
    "node-float.toml": '[[node]]\nname = "KEEP"\nprecision = "float"\n',
    "all.toml": 'precision = "int8"\nmethod = "percentile"\npercentile = 99.9\nper_channel = false\ncorrect_bias = false\nequalize = true\n',
}


def covering_array(sizes, seed=0):
    """Rows of indices such that any two values of any two factors meet in a row. Greedy: each row takes the pair that was not met for longest, then
    gives every other factor the value that meets most new pairs."""
    rng = random.Random(seed)
    pairs = {((a, i), (b, j)): None for a, b in itertools.combinations(range(len(sizes)), 2) for i in range(sizes[a]) for j in range(sizes[b])}
    rows = []
    while pairs:
        row = dict(next(iter(pairs)))
        others = [f for f in range(len(sizes)) if f not in row]
        rng.shuffle(others)
        for f in others:
            gain = [sum(tuple(sorted([(f, v), chosen])) in pairs for chosen in row.items()) for v in range(sizes[f])]
            row[f] = rng.choice([v for v in range(sizes[f]) if gain[v] == max(gain)])
        for pair in itertools.combinations(sorted(row.items()), 2):
            pairs.pop(pair, None)
        rows.append([row[f] for f in range(len(sizes))])
    return rows


def rows(seed=0):
    """(model, flags) per build, in an order in which the models take turns."""
    names = list(small_models.MODELS)
    array = covering_array([len(names), *map(len, FACTORS.values())], seed)
    random.Random(seed).shuffle(array)
    return [(names[row[0]], possible([word for value, factor in zip(row[1:], FACTORS.values()) for word in factor[value]])) for row in array]


def possible(flags):
    """The U55 has no DRAM: a mode that needs it is left out."""
    if "Dedicated_Sram" in flags and any("u55" in word for word in flags):
        at = flags.index("Dedicated_Sram")
        return flags[: at - 1] + flags[at + 1 :]
    return flags


def node_of(program):
    """A node in the middle of the model that no rule joins with another one, if there is one."""
    nodes = [n.name for n in program.graph.nodes if n.op == "call_function" and not n.name.startswith("getitem")]
    for pattern in ("batch_norm", "linear|conv|matmul|softmax|mean|max_pool|layer_norm|mul|add|cat", ""):
        if known := [n for n in nodes if re.match(pattern, n)]:
            return known[len(known) // 2]


class Cases:
    """Exports each model once."""

    def __init__(self, folder):
        self.folder, self.nodes = folder, {}

    def get(self, name):
        folder = self.folder / name
        if name not in self.nodes:
            module, calibrate, test = small_models.build(name)
            program = write_case(module, calibrate, test, folder)
            self.keep(name, node_of(program))
        return folder, self.nodes[name]

    def keep(self, name, node):
        self.nodes[name] = node
        for file, text in CONFIGS.items():
            (self.folder / name / file).write_text(text.replace("KEEP", node))


def tried(cases, name, flags, timeout=120):
    folder, node = cases.get(name)
    words = [str(folder / word) if word in CONFIGS else word.replace("KEEP", node) for word in flags]
    target = words[words.index("--target") + 1]
    rest = words[: words.index("--target")] + words[words.index("--target") + 2 :]
    verdict = judge(folder, target, rest, timeout)
    if verdict.kind == "refused" and (joined := re.search(r"this node was joined with (\w+): name that one", verdict.text)):
        cases.keep(name, joined[1])
        return tried(cases, name, flags, timeout)
    if verdict.kind == "refused" and "--min-sqnr" in verdict.text and "--min-sqnr" in rest:  # not met; was that to be expected?
        at = rest.index("--min-sqnr")
        return judge(folder, target, rest[:at] + rest[at + 2 :], timeout)
    return verdict


def reduced(cases, name, flags, verdict):
    """Without the flags that the finding does not need."""
    words = [list(value) for factor in FACTORS.values() for value in factor if value and all(w in flags for w in value)]
    words = [value for value in words if any(flags[i : i + len(value)] == value for i in range(len(flags)))]
    for value in list(words):
        if value[0] == "--target":
            continue
        fewer = [w for w in words if w is not value]
        if class_of(tried(cases, name, sum(fewer, []))) == class_of(verdict):
            words = fewer
    return sum(words, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="row to begin with")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--list", action="store_true", help="print the rows and compile nothing")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the models")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    chosen = rows(o.seed)[o.first :][: o.count]
    kinds, start, found = Counter(), time.monotonic(), set()
    with tempfile.TemporaryDirectory() as scratch:
        cases = Cases(o.keep or pathlib.Path(scratch))
        for number, (name, flags) in enumerate(chosen, o.first):
            if o.list:
                print(number, name, *flags)
                continue
            if o.seconds is not None and time.monotonic() - start > o.seconds:
                break
            verdict = tried(cases, name, flags)
            kinds[verdict.kind] += 1
            print(f"row {number} {name} {' '.join(flags)}: {verdict.line()[:400]}", flush=True)
            if verdict.kind in FINDINGS and class_of(verdict) not in found:
                found.add(class_of(verdict))
                print(f"    enough: {name} {' '.join(reduced(cases, name, flags, verdict))}", flush=True)
    print(f"seed {o.seed}, rows {o.first} to {o.first + sum(kinds.values()) - 1} of {len(rows(o.seed))}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
