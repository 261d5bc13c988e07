#!/usr/bin/env python3
"""The operator tests of ExecuTorch's Arm backend, which come with its wheel, as a test suite for swoop.

    .venv/bin/python tools/peer_ops.py make FOLDER [--files 1] [--every 1] [--operators cat,stack]
    .venv/bin/python tools/peer_ops.py run FOLDER [--seconds N] [--operators cat,stack]
    .venv/bin/python tools/peer_ops.py table FOLDER [-o docs/operators.md]

`make` runs those tests, but where a test would lower its module for an Ethos-U, the module and its inputs are written as
a case: FOLDER/KIND/OPERATOR__TEST. KIND is u55 or u85, what the peer puts on that NPU; u55_fails or u85_fails, where its
own test is skipped or expected to fail; or impossible, what its tests expect to stay off the U55. `make` goes on where it was stopped: a case that is there is not made again. `run` compiles
them with swoop and compares with PyTorch (tools/judge.py).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import textwrap
import types
import warnings
from collections import Counter

import numpy as np

from judge import ROOT, correct, read_results, run_cases, whole, write_case, write_section

TARGETS = {"u55": "ethos-u55-128", "u85": "ethos-u85-256", "u55_fails": "ethos-u55-128", "u85_fails": "ethos-u85-256", "impossible": "ethos-u55-128"}
INT16 = ".int16"  # ends the name of a case that the peer quantizes to int16


class Harvest:
    """A pytest plugin: the pipelines of the peer's tests write a case instead of lowering."""

    def __init__(self, folder, every):
        self.folder, self.every, self.counts, self.item, self.tests = folder, every, Counter(), None, 0

    def pytest_collection_modifyitems(self, config, items):
        all_of_them = [item for item in items if re.search("u55|u85", item.name)]
        self.tests = len(all_of_them)
        kept = all_of_them[:: self.every]
        made = {case.name.removesuffix(INT16) for kind in TARGETS for case in cases_of(self.folder, kind)}
        kept = [item for item in kept if case_name(item) not in made]
        for item in kept:  # a test that the peer expects to fail is a test for us
            item.fails = expected_to_fail(item)
            item.own_markers = [mark for mark in item.own_markers if mark.name not in ("xfail", "slow", "skip", "flaky")]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_setup(self, item):
        self.item = item

    def pytest_configure(self, config):
        from executorch.backends.arm.test.tester import test_pipeline

        def replace(pipeline, kind):
            made = pipeline.__init__

            def remember(this, *args, **kwargs):
                this.int16 = bool(kwargs.get("a16w8_quantization"))
                this.kind = kind(kwargs)
                made(this, *args, **kwargs)

            pipeline.__init__, pipeline.run = remember, lambda this: self.write(this)

        replace(test_pipeline.EthosU55PipelineINT, lambda _: "u55")
        replace(test_pipeline.EthosU85PipelineINT, lambda _: "u85")
        replace(test_pipeline.OpNotSupportedPipeline, lambda kwargs: "impossible" if kwargs.get("u55_subset") else None)

    def write(self, pipeline):
        if pipeline.kind is None:
            return
        kind = pipeline.kind + ("_fails" if self.item.fails and pipeline.kind != "impossible" else "")
        case = self.folder / kind / (case_name(self.item) + (INT16 if pipeline.int16 else ""))
        try:
            inputs = tuple(pipeline.test_data)
            if zeros_alone(inputs):  # from which nothing can be calibrated
                self.counts["zeros"] += 1
                return
            write_case(pipeline.tester.original_module.eval(), [inputs], [], case, strict=True)
            if nothing_to_compare(case):
                shutil.rmtree(case)
                self.counts["nothing to compare"] += 1
                return
            self.counts[kind] += 1
        except Exception:  # torch.export raises whatever it likes
            shutil.rmtree(case, ignore_errors=True)
            self.counts["not exported"] += 1


def expected_to_fail(item):
    """Other than for want of a simulator."""
    return any(mark.name in ("xfail", "skip") and mark.kwargs.get("raises") is not FileNotFoundError for mark in item.own_markers)


def operator_of(path):
    return pathlib.Path(path).stem.removeprefix("test_")


def chosen(operator, operators):
    return not operators or operator in operators


def case_name(item):
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{operator_of(item.fspath)}__{item.name}")[:140]


def zeros_alone(inputs):
    import torch

    return any(torch.is_tensor(x) and x.is_floating_point() and not x.any() for x in inputs)


def nothing_to_compare(case):
    """An acosh of numbers below 1, say, or a norm of one element, which is zero but for PyTorch's rounding."""
    golden, inputs = (np.load(case / name) for name in ("calibrate_golden.npz", "calibrate.npz"))
    largest = max((float(np.abs(inputs[name]).max(initial=0)) for name in inputs.files if inputs[name].dtype.kind == "f"), default=0)
    outputs = [golden[name] for name in golden.files if golden[name].dtype.kind == "f"]
    return any(np.isnan(y).any() or 0 < np.abs(y).max(initial=0) < 1e-5 * min(largest, 1) for y in outputs)


def make(folder, files, every, operators=None):
    """Every Nth test of every Nth file, or of the files of these operators."""
    import executorch.backends.arm.test.ops as ops
    import pytest

    sys.modules.setdefault("conftest", types.SimpleNamespace(is_option_enabled=lambda name: False))  # one test asks a file that the wheel leaves out
    harvest = Harvest(folder, every)
    tests = sorted(str(path) for folder in ops.__path__ for path in pathlib.Path(folder).glob("test_*.py"))[::files]
    tests = [test for test in tests if chosen(operator_of(test), operators)]
    with open(os.devnull, "w") as nothing:
        shown, sys.stdout = sys.stdout, nothing
        pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-W", "ignore", *tests], plugins=[harvest])
        sys.stdout = shown
    (folder / "made.json").write_text(json.dumps({"tests": files * harvest.tests, **harvest.counts}))
    print(dict(harvest.counts))
    return harvest.counts


def cases_of(folder, kind):
    return sorted(path.parent for path in (folder / kind).glob("*/calibrate_golden.npz"))


def run(folder, seconds, operators=None):
    for kind, target in TARGETS.items():
        cases = [case for case in cases_of(folder, kind) if chosen(case.name.split("__")[0], operators)]
        for flags, part in (([], [c for c in cases if not c.name.endswith(INT16)]), (["--precision", "int16"], [c for c in cases if c.name.endswith(INT16)])):
            run_cases(part, target, folder / f"results-{kind}.jsonl", flags, seconds=seconds)


def table(folder):
    meaning = {"u55": "the peer puts it on the U55", "u85": "the peer puts it on the U85", "impossible": "the peer's tests expect it off the U55",
               "u55_fails": "the peer skips its own test on the U55, or expects it to fail", "u85_fails": "the same on the U85"}
    made = json.loads((folder / "made.json").read_text())
    tests = made["tests"]
    cases = sum(len(read_results(folder / f"results-{kind}.jsonl")) for kind in TARGETS)
    reasons = {"zeros": "have inputs of zeros alone, from which no range can be measured", "nothing to compare": "give nothing to compare (NaN, or rounding alone)",
               "not exported": "cannot be exported"}
    rest = tests - sum(len(cases_of(folder, kind)) for kind in TARGETS) - sum(made.get(key, 0) for key in reasons)
    others = [f"{made[key]} {text}" for key, text in reasons.items() if made.get(key)] + ([f"{rest} build nothing for an Ethos-U"] if rest > 0 else [])
    lines = [
        *textwrap.wrap(f"{cases:,} of the {tests:,} operator tests of ExecuTorch 1.5.1's Arm backend for an Ethos-U, each module compiled from float and compared with PyTorch. Right means at least 20 dB, or 90 % equal elements, and not "
                       "far below the forecast. Coarse means what 8 bits of so wide a range give, as the forecast says. " + (f"Of the other tests, {'; '.join(others)}. " if others else "") + "`tools/peer_ops.py` makes this table.", 118),
        "",
        "| tests | cases | compiled | right | coarse | wrong | one region | internal errors |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    notes = []
    for kind, text in meaning.items():
        results = read_results(folder / f"results-{kind}.jsonl")
        if not results:
            continue
        values = list(results.values())
        one, count = sum(map(whole, values)), len(values)
        compiled = sum(v.regions is not None for v in values)
        bad = sum(v.kind in ("internal", "hang", "silent") for v in values)
        wrong = sum(v.kind == "low" or (v.equal is not None and v.equal < 0.9) for v in values)
        right = sum(map(correct, values))
        lines.append(f"| {text} | {count} | {compiled} | {right} | {compiled - right - wrong} | {wrong} | {one} ({one / count:.1%}) | {bad} |")
        split = Counter(case.split("__")[0] for case, verdict in results.items() if not whole(verdict))
        if split:
            notes.append(f"Not in one region, {kind}: " + ", ".join(f"`{name}` {n}" for name, n in sorted(split.items())) + ".")
    return lines + [line for note in notes for line in ("", *textwrap.wrap(note, 118, break_on_hyphens=False))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run", "table"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=1, help="take every Nth file of tests only")
    parser.add_argument("--every", type=int, default=1, help="take every Nth test only")
    parser.add_argument("--operators", type=lambda names: names.split(","), help="take the tests of these operators only")
    parser.add_argument("--seconds", type=float, help="stop after this time; run again to go on")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "operators.md")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    if o.what == "make":
        make(o.folder, o.files, o.every, o.operators)
    elif o.what == "run":
        run(o.folder, o.seconds, o.operators)
    else:
        write_section(o.output, "The peer's operator tests", table(o.folder))


if __name__ == "__main__":
    sys.exit(main())
