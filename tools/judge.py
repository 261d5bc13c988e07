"""What the campaigns share: write a model as a case, compile it, run the file, and compare with PyTorch's float outputs.

A case is a folder: model.pt2, calibrate.npz and test.npz (one array per input, samples along the first axis), and
calibrate_golden.npz and test_golden.npz, what PyTorch makes of them in float (out0, out1, ...). There may be no test
samples.

`judge` gives a Verdict. The words of `Verdict.kind`:

    right      compiled, ran, and is as near to PyTorch as swoop itself forecasts
    low        the file runs, but its numbers are far below the forecast
    poor       the forecast is right, but says that the result is useless
    refused    exit code 1 and a sentence about the model
    silent     exit code 1 without a sentence
    internal   exit code 2, a signal, or a sentence about an NPU program that we made
    hang       not finished in time
"""

from __future__ import annotations

import copy
import json
import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
FINDINGS = ("low", "silent", "internal", "hang")
EXACT_DB = 200.0  # stands for "equal"
MARGIN_DB = 6.0  # a file may be this much worse than the forecast: outputs of a few elements round this or that way
GOOD_DB = 35.0  # good enough for int8: such a result is not looked into
POOR_DB = 12.0
MARGIN_SHARE = 0.2  # of the elements of an integer output


# ---- cases


def leaves(outputs):
    """The output tensors in the order of the file's outputs."""
    import torch

    found = torch.utils._pytree.tree_leaves(outputs)
    return [x if torch.is_tensor(x) else torch.tensor(x) for x in found if x is not None]


def array(tensor):
    import torch

    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def write_case(module, calibrate, test, folder, decompose=False, strict=False):
    """`calibrate` and `test` are lists of tuples of arguments. The module must be in eval mode."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(module), calibrate[0], strict=strict)
        if decompose:
            program = program.run_decompositions()
    torch.export.save(program, folder / "model.pt2")
    specs = [s for s in program.graph_signature.input_specs if s.kind == torch.export.graph_signature.InputKind.USER_INPUT]
    names = [s.arg.name if isinstance(s.arg, torch.export.graph_signature.TensorArgument) else None for s in specs]
    for part, samples in (("calibrate", calibrate), ("test", test)):
        if not samples:
            continue
        flat = [torch.utils._pytree.tree_leaves(sample) for sample in samples]
        np.savez(folder / f"{part}.npz", **{name: np.stack([array(s[i]) for s in flat]) for i, name in enumerate(names) if name})
        model = copy.deepcopy(module)  # buffers change from call to call, and start anew for each part
        with torch.no_grad():
            outputs = [[array(y).copy() for y in leaves(model(*copy.deepcopy(sample)))] for sample in samples]
        np.savez(folder / f"{part}_golden.npz", **{f"out{i}": np.stack(ys) for i, ys in enumerate(zip(*outputs))})
    return program


# ---- programs


@dataclass
class Done:
    code: int | None  # None: not finished in time
    out: str
    err: str
    seconds: float  # of the processor
    mib: float  # peak memory of the process or of a child, whichever is larger


# A process starts with its parent's peak memory: a small one in between gives the program's own.
MEASURE = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(f"{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss / 1024}")
code = os.waitstatus_to_exitcode(status)
os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)
"""


def run(command, timeout=120):
    """The limit is of processor time, because the machine may be busy; ten times as much may pass on the clock."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        usage = pathlib.Path(scratch) / "usage"
        words = [sys.executable, "-S", "-E", "-c", MEASURE, usage, *command]
        environment = {**os.environ, "TMPDIR": scratch}  # what the program leaves there goes
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True, env=environment)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (timeout, timeout))
        try:
            code = process.wait(10 * timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        seconds, mib = map(float, usage.read_text().split()) if usage.exists() else (0.0, 0.0)
        out.seek(0)
        err.seek(0)
        return Done(None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code, out.read(), err.read(), seconds, mib)


# ---- comparing


def sqnr_db(reference, actual):
    """Of lists of arrays, pooled. What the model masks (infinities) is not compared."""
    signal_power = noise = 0.0
    for r, a in zip(reference, actual):
        r, a = r.astype(np.float64).ravel(), a.astype(np.float64).ravel()
        finite = np.isfinite(r)
        signal_power += float(np.sum(r[finite] ** 2))
        noise += float(np.sum((r[finite] - a[finite]) ** 2))
    if math.isnan(noise):
        return -math.inf
    if noise == 0:
        return EXACT_DB
    return 10 * math.log10(signal_power / noise) if signal_power else 0.0  # as swoop has it: nothing but noise


def codes(values, port):
    """Floats as the quantized input `port` of the summary takes them."""
    info = np.iinfo(port["dtype"])
    return np.clip(np.round(values / port["scale"]) + (port["zero_point"] or 0), info.min, info.max).astype(port["dtype"])


def fed(inputs, ports):
    """The samples as the file takes them: codes where --io left the border to the caller."""
    return {p["name"]: codes(inputs[p["name"]], p) if p["dtype"].startswith(("int", "uint")) and inputs[p["name"]].dtype.kind == "f" else inputs[p["name"]] for p in ports}


def outputs_of(program, summary, case, part, folder, timeout):
    """(arrays, None) in the order of the outputs, or (None, what `swoop run` did instead)."""
    np.savez(folder / "in.npz", **fed(np.load(case / f"{part}.npz"), summary["inputs"]))
    done = run([SWOOP, "run", program, "--inputs", folder / "in.npz", "-o", folder / "out.npz"], timeout)
    if done.code != 0:
        return None, done
    found = np.load(folder / "out.npz")
    golden = np.load(case / f"{part}_golden.npz")
    arrays = []
    for name, port in zip(golden.files, summary["outputs"]):
        y = found[name]
        if golden[name].dtype.kind == "f" and y.dtype.kind in "iu" and port["scale"]:
            y = (y.astype(np.float64) - (port["zero_point"] or 0)) * port["scale"]
        arrays.append(y)
    return arrays, None


def figures(golden, arrays):
    """(SQNR of the worst float output, SQNR of each, the least share of equal elements of the integer outputs); None where there are none."""
    pairs = [(golden[name], y) for name, y in zip(golden.files, arrays)]
    each = [sqnr_db([r], [y]) if r.dtype.kind == "f" else None for r, y in pairs]
    shares = [float(np.mean(r.ravel() == y.ravel())) for r, y in pairs if r.dtype.kind != "f"]
    return min((db for db in each if db is not None), default=None), each, min(shares, default=None)


def forecasts(case, target, flags, timeout):
    """What `swoop accuracy` expects of these types: (dB of float outputs, shares of equal elements of integer ones), by number of the output."""
    skipped = {"--io": 1, "--segments": 0, "--strip": 0}
    kept, words = [], list(flags)
    while words:
        word = words.pop(0)
        if word in skipped:
            del words[: skipped[word]]
        else:
            kept.append(word)
    if "--io" in flags and "--precision" not in flags:
        kept += ["--precision", "int8"]  # codes of 8 bits at the borders: no int16 there, however cheap
    done = run([SWOOP, "accuracy", case / "model.pt2", "-c", case / "calibrate.npz", "-t", target, "--json", *kept], timeout)
    said = json.loads(done.out) if done.code == 0 else {"output_sqnr_db": [], "output_equal": []}
    shares = {i: share for i, share in enumerate(said["output_equal"]) if share is not None}
    whys = said.get("output_sqnr_db_why", [None] * len(said["output_sqnr_db"]))
    each = [db if db is not None else -math.inf if why == "not finite" else EXACT_DB for db, why in zip(said["output_sqnr_db"], whys)]
    return {i: db for i, db in enumerate(each) if i not in shares}, shares


@dataclass
class Verdict:
    kind: str
    text: str = ""  # what was said, or which figure is low
    sqnr: float | None = None  # of the worst float output, on the calibration samples
    outputs: list = field(default_factory=list)  # of each float output
    held_out: float | None = None  # on the test samples
    equal: float | None = None  # of integer outputs
    forecast: float | None = None  # of the worst output; asked only where sqnr is not good
    regions: int | None = None
    host: dict = field(default_factory=dict)  # operators on the host, with counts
    reasons: list = field(default_factory=list)
    cycles: float | None = None
    macs: float | None = None
    pte_bytes: int | None = None
    sram_bytes: int | None = None
    seconds: float | None = None
    mib: float | None = None

    def line(self):
        parts = [self.kind]
        if self.sqnr is not None:
            parts.append(f"{self.sqnr:.1f} dB")
        if self.forecast is not None:
            parts.append(f"forecast {self.forecast:.1f} dB")
        return " ".join(parts + [self.text])

    def as_dict(self):
        return asdict(self)


def failed(done, what):
    """The verdict of a program that did not end with 0."""
    said = done.err.strip()[-600:]
    if done.code is None:
        return Verdict("hang", f"{what}: not finished in time")
    if done.code == 1 and not re.search(r"\bregion ?\d|\bregor\b|finished file", said):
        return Verdict("refused" if re.search(r"error: \S.{15,}", said) else "silent", said)
    return Verdict("internal", f"{what}: " + (f"signal {-done.code}" if done.code < 0 else f"exit code {done.code}") + f": {said}")


def class_of(verdict):
    """What must stay the same while a finding is reduced."""
    return verdict.kind, re.sub(r"[\d.]+|[%'/]\S+", "#", verdict.text)[:90] if verdict.kind == "internal" else ""


def judge(case, target, flags=(), timeout=120):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        program = folder / "model.pte"
        done = run([SWOOP, "compile", case / "model.pt2", "-c", case / "calibrate.npz", "-t", target, "-o", program, "--json", *flags], timeout)
        if done.code != 0:
            verdict = failed(done, "compile")
            verdict.seconds, verdict.mib = done.seconds, done.mib
            return verdict
        summary = json.loads(done.out)
        verdict = Verdict("right", regions=summary["delegates"], host=summary["host_ops"], reasons=summary["host_reasons"], cycles=summary["totals"].get("total_cycles"),
                          macs=summary["totals"].get("macs"), pte_bytes=summary["pte_bytes"], sram_bytes=summary["totals"].get("sram_bytes"), seconds=done.seconds, mib=done.mib)
        measured = {}
        for part in [p for p in ("calibrate", "test") if (case / f"{p}.npz").exists()]:
            arrays, ended = outputs_of(program, summary, case, part, folder, timeout)
            if ended:
                return failed(ended, "run")
            measured[part] = figures(np.load(case / f"{part}_golden.npz"), arrays)
        verdict.sqnr, verdict.outputs, verdict.equal = measured["calibrate"]
        if "test" in measured:
            verdict.held_out = measured["test"][0]
        weigh(verdict, summary, case, target, flags, timeout)
        return verdict


def weigh(verdict, summary, case, target, flags, timeout):
    """Marks a result as low if swoop itself says, or expects, better."""
    said = (summary["accuracy"] or {}).get("sqnr_db") or []
    for number, (db, claimed) in enumerate(zip(verdict.outputs, said)):
        if db is not None and claimed is not None and db < min(claimed - MARGIN_DB, GOOD_DB):
            verdict.kind, verdict.text = "low", f"the summary says {claimed:.1f} dB of output {number}, PyTorch {db:.1f}"
    unequal = verdict.equal is not None and verdict.equal < 0.5
    if verdict.kind == "low" or not unequal and (verdict.sqnr is None or verdict.sqnr >= GOOD_DB):
        return
    decibels, shares = forecasts(case, target, flags, timeout)
    for number, db in enumerate(verdict.outputs):
        if db is not None and number in decibels:
            verdict.forecast = decibels[number] if verdict.forecast is None else min(verdict.forecast, decibels[number])
            if db < min(decibels[number] - MARGIN_DB, GOOD_DB):
                verdict.kind, verdict.text = "low", f"output {number} has {db:.1f} dB, below its forecast of {decibels[number]:.1f}"
    if unequal and verdict.kind == "right":  # the largest of nearly equal numbers is any of them
        as_forecast = verdict.equal >= min(shares.values(), default=1) - MARGIN_SHARE
        verdict.kind = "poor" if as_forecast else "low"
        verdict.text = f"only {verdict.equal:.0%} of an integer output's elements are PyTorch's" + (", as forecast" if as_forecast else "")
    if verdict.kind == "right" and verdict.sqnr is not None and verdict.sqnr < POOR_DB:
        verdict.kind, verdict.text = "poor", "of this precision, more can be expected"


# ---- folders of cases


def run_cases(cases, target, results, flags=(), timeout=120, seconds=None):
    """One JSON line per case in the file `results`: what is there is not run again. Gives {case: Verdict}."""
    known = read_results(results)
    start = time.monotonic()
    with open(results, "a") as file:
        for case in cases:
            if case.name in known:
                continue
            if seconds is not None and time.monotonic() - start > seconds:
                break
            verdict = judge(case, target, flags, timeout)
            known[case.name] = verdict
            print(json.dumps({"case": case.name, **verdict.as_dict()}), file=file, flush=True)
            if not correct(verdict):
                print(f"{case.name} {target}: {verdict.line()[:300]}", flush=True)
    return known


def read_results(path):
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {row.pop("case"): Verdict(**row) for row in rows}


def correct(verdict):
    """As near to PyTorch as one operator in int8 should be."""
    return verdict.kind == "right" and (verdict.sqnr is None or verdict.sqnr >= 20) and (verdict.equal is None or verdict.equal >= 0.9)


def whole(verdict):
    """All of it in one region, or nothing to compute. What a model writes into its inputs is copied there after it ran."""
    idle = verdict.kind == "right" and verdict.regions == 0 and not verdict.reasons
    return (verdict.regions == 1 or idle) and set(verdict.host) <= {"aten::copy_"}


def write_section(page, title, lines):
    """Replaces the section `## title` of a page, or adds it."""
    text = page.read_text() if page.exists() else "# Operators\n"
    sections = re.split(r"(?m)^(?=## )", text)
    section = "\n".join([f"## {title}", "", *lines]) + "\n"
    kept = [section if s.startswith(f"## {title}\n") else s for s in sections]
    page.write_text("\n".join(s.strip("\n") + "\n" for s in (kept if section in kept else [*kept, section])))
