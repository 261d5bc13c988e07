#!/usr/bin/env python3
"""PyTorch's own operator database (`op_db` of torch.testing) as a test suite.

    .venv/bin/python tools/opinfo.py make FOLDER [--samples 2] [--every 1]
    .venv/bin/python tools/opinfo.py run FOLDER [--target ethos-u85-256] [--seconds N]
    .venv/bin/python tools/opinfo.py table FOLDER [-o docs/operators.md]

`make` writes a case per sample input that exports with static shapes: FOLDER/OPERATOR__N. `run` compiles each from float
with its own inputs as the sample, runs the file and compares it with PyTorch (tools/judge.py); FOLDER/results-TARGET.jsonl
gets a line per case, and what is there is not run again. `table` writes the section of the page.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import shutil
import sys
import textwrap
import warnings
from collections import Counter, defaultdict

from judge import ROOT, correct, read_results, run_cases, whole, write_case, write_section

TARGETS = ["ethos-u55-128", "ethos-u85-256"]
# What no network for these NPUs computes while it runs, by the start of the name; a name that ends in $ is whole.
LEFT_OUT = {
    "decompositions of matrices": "linalg cholesky lu qr geqrf ormqr svd triangular logdet pinverse pca_ matrix_exp householder",
    "complex inputs and results": "fft stft istft complex polar view_as_complex view_as_real real imag angle cfloat cdouble chalf",
    "sparse and jagged": "sparse to_sparse _segment segment",
    "random": "rand normal bernoulli multinomial cauchy exponential geometric log_normal uniform nn.functional.dropout nn.functional.alpha_dropout nn.functional.feature_alpha nn.functional.rrelu "
    "nn.functional.fractional",
    "uninitialised memory": "empty new_empty resize",
    "sizes that depend on data": "nonzero$ unique masked_select item equal allclose",
    "masked and statistics": "masked. histc histogram corrcoef cov",
    "special functions": "special signal igamma polygamma digamma lgamma mvlgamma i0 zeta nextafter frexp ldexp",
    "PyTorch's tests of itself": "torch.ops.aten. _refs jiterator",
    "types": "bfloat16 half double",
}
LEFT_OUT_NAMES = re.compile("|".join(re.escape(start).replace(r"\$", "$") for family in LEFT_OUT.values() for start in family.split()))


def samples_of(op, limit):
    """Up to `limit` (module, tensors) of an operator of the database that can be a model."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    given = 0
    for number, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=False)):
        if given == limit or number > 12:
            return
        flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]
        tensors = tuple(flat[i].detach().clone() for i in at)
        if not tensors or not tensors[0].is_floating_point() or any(t.numel() == 0 or t.ndim > 5 or t.is_complex() for t in tensors):
            continue

        class Case(torch.nn.Module):
            def forward(self, *inputs):
                values = list(flat)
                for i, x in zip(at, inputs):
                    values[i] = x
                first, args, kwargs = tree_unflatten(values, spec)
                return op.op(first, *args, **kwargs)

        if comparable(Case(), tensors):
            given += 1
            yield Case(), tensors


def comparable(module, tensors):
    """The outputs are finite real tensors, the same each time."""
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        first, second = (tree_leaves(module(*[t.clone() for t in tensors])) for _ in range(2))
    except Exception:  # a sample that needs gradients, or raises by design
        return False
    tensors = all(isinstance(y, torch.Tensor) and y.numel() and not y.is_complex() for y in first)
    return bool(first) and tensors and all(bool(torch.isfinite(a.float()).all()) and torch.equal(a, b) for a, b in zip(first, second))


def make(folder, samples, every):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    torch.set_num_threads(1)
    counts = Counter()
    for number, op in enumerate(op_db):
        name = op.name + (f"_{op.variant_test_name}" if op.variant_test_name else "")
        if number % every:
            continue
        if LEFT_OUT_NAMES.match(name) or torch.float32 not in op.dtypes:
            counts["left out"] += 1
            continue
        made = 0
        for module, tensors in samples_of(op, samples):
            case = folder / f"{name.replace('.', '_')}__{made}"
            if not (case / "calibrate_golden.npz").exists():
                try:
                    program = write_case(module, [tensors], [], case)
                    if any("Sym" in type(node.meta.get("val")).__name__ for node in program.graph.nodes):
                        raise ValueError("sizes depend on data")
                    if any(str(node.target) == "aten.dropout.default" and node.args[2] for node in program.graph.nodes):
                        raise ValueError("random, from a seed that the database sets")
                except Exception:  # torch.export raises whatever it likes
                    shutil.rmtree(case, ignore_errors=True)
                    continue
            made += 1
        counts["operators" if made else "not exported"] += 1
        counts["cases"] += made
    (folder / "made.json").write_text(json.dumps({"samples": samples, "every": every, **counts}))
    print(dict(counts))


def cases_of(folder):
    return sorted(path.parent for path in folder.glob("*/calibrate_golden.npz"))


def by_operator(results):
    operators = defaultdict(list)
    for case, verdict in results.items():
        operators[case.rsplit("__", 1)[0]].append(verdict)
    return operators


def table(folder):
    path = folder / "made.json"
    made = json.loads(path.read_text()) if path.exists() else {"samples": 2, "every": 1}
    which = "Every operator" if made["every"] == 1 else f"One operator in {made['every']}"
    lines = [
        *textwrap.wrap(f"{which} of `torch.testing`'s `op_db` that a network can hold, at most {made['samples']} sample inputs each, compiled from float and compared with PyTorch. Right means "
                       "at least 20 dB, or 90 % equal elements, and not far below the forecast. An operator is whole if all of its cases are right. A case with nothing to compute counts as one region. Left out, "
                       "because no network for these NPUs computes it while it runs: " + ", ".join(LEFT_OUT) + ". `tools/opinfo.py` makes this table.", 118),
        "",
        "| NPU | cases | compiled | right | one region | operators | whole | internal errors |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    found = defaultdict(lambda: defaultdict(list))  # operator -> what was said -> NPUs
    for target in TARGETS:
        results = read_results(folder / f"results-{target}.jsonl")
        if not results:
            continue
        operators, count = by_operator(results), len(results)
        right, one = sum(map(correct, results.values())), sum(map(whole, results.values()))
        full = sum(all(map(correct, v)) for v in operators.values())
        compiled = sum(v.regions is not None for v in results.values())
        bad = sum(v.kind in ("internal", "hang", "silent") for v in results.values())
        lines.append(f"| {target} | {count} | {compiled} | {right} | {one} ({one / count:.0%}) | {len(operators)} | {full} ({full / len(operators):.0%}) | {bad} |")
        for name, verdicts in operators.items():
            for said in {summary(verdict) for verdict in verdicts if not correct(verdict)}:
                found[name][said].append(target)
    lines += ["", f"Operators that are not whole ({len(found)}):", "", "| operator | NPU | why |", "|---|---|---|"]
    for name, reasons in sorted(found.items()):
        lines += [f"| `{name}` | {'both' if len(npus) == len(TARGETS) else npus[0]} | {said} |" for said, npus in sorted(reasons.items())]
    return lines


def summary(verdict):
    """What was said about the model, without its file and line."""
    if verdict.kind in ("right", "poor", "low"):
        return f"{verdict.sqnr:.1f} dB" if verdict.equal is None else f"{verdict.equal:.0%} of the elements are equal"
    said = re.sub(r"\s+", " ", verdict.text.split("error: ")[-1])
    said = re.sub(r"^\S*model\.pt2: ", "", re.sub(r"\S+\.py:\d+: ", "", re.sub(r" ?\(node [^)]*\)", "", said)))
    return said.split("; ")[0].rstrip(".").replace("|", "/")[:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run", "table"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="take every Nth operator only")
    parser.add_argument("--target", default="ethos-u85-256", choices=TARGETS)
    parser.add_argument("--seconds", type=float, help="stop after this time; run again to go on")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "operators.md")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    if o.what == "make":
        o.folder.mkdir(parents=True, exist_ok=True)
        make(o.folder, o.samples, o.every)
    elif o.what == "run":
        run_cases(cases_of(o.folder), o.target, o.folder / f"results-{o.target}.jsonl", seconds=o.seconds)
    else:
        write_section(o.output, "PyTorch's operator database", table(o.folder))


if __name__ == "__main__":
    sys.exit(main())
