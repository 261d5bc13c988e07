#!/usr/bin/env python3
"""Makes docs/accuracy.md: the SQNR of a folder of models, ours beside the peer's, on the same inputs.

    .venv/bin/python tools/accuracy.py MODELS [-o docs/accuracy.md] [--inputs FOLDER] [--target ethos-u55-128] [--swoop build/release/swoop] [NAME ...]

MODELS/NAME holds model.pt2 (float), calibrate.npz and test.npz (arrays per input, samples stacked); int8.pt2 (the peer's q/dq graph) and
eval.npz (images and labels) where they exist; baseline_TARGET.json names what the peer leaves on the host (`host_ops`). FOLDER/NAME.npz has
other inputs than test.npz: with two inputs, SQNR varies by 2 dB. Ours is measured by running the .pte, the float model and the peer's graph
run in PyTorch.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import textwrap
import warnings

import numpy as np
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

from judge import array, leaves


def sqnr_db(reference, actual):
    signal = sum(float(np.sum(np.square(r, dtype=np.float64))) for r in reference)
    noise = sum(float(np.sum(np.square(r.astype(np.float64) - a))) for r, a in zip(reference, actual))
    return 999.0 if noise == 0 else 10 * np.log10(signal / noise)


def by_running(swoop, pte, inputs, folder):
    np.savez(folder / "in.npz", **inputs)
    subprocess.run([swoop, "run", pte, "--inputs", folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
    outputs = np.load(folder / "out.npz")
    names = sorted(outputs.files, key=lambda n: int(n[3:]))
    return [[outputs[n][i] for n in names] for i in range(len(outputs[names[0]]))]


def accuracy(swoop, pte, path, summary, folder):
    """Share of right answers of the finished program on the model's own images."""
    data = np.load(path)
    labels = data["labels"] if "labels" in data.files else data["y"]
    images = data[next(n for n in data.files if data[n].ndim > 1)]
    shape = summary["inputs"][0]["shape"]
    outputs = by_running(swoop, pte, {summary["inputs"][0]["name"]: images.reshape(len(labels), *shape)}, folder)
    return float(np.mean([np.argmax(o[0]) == label for o, label in zip(outputs, labels)]))


def by_pytorch(program, inputs):
    """Outputs per sample."""
    module = torch.export.load(program).module(check_guards=False)
    samples = zip(*(torch.from_numpy(x) for x in inputs.values()))
    with torch.no_grad():
        return [[array(y) for y in leaves(module(*sample))] for sample in samples]


def mean_db(exact, outputs):
    """Over the samples: each has all outputs together."""
    return float(np.mean([sqnr_db(floats, [y.reshape(x.shape) for x, y in zip(floats, ours)]) for floats, ours in zip(exact, outputs)]))


def measure(swoop, model, target, inputs, exact, *flags):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        pte = folder / "model.pte"
        command = [swoop, "compile", model / "model.pt2", "--calibrate", model / "calibrate.npz", "--target", target, "-o", pte, "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {"error": done.stderr.strip()}
        summary = json.loads(done.stdout)
        row = {"sqnr": mean_db(exact, by_running(swoop, pte, inputs, folder)), "delegates": summary["delegates"], "cycles": summary["totals"]["total_cycles"]}
        if (model / "eval.npz").exists():
            row["accuracy"] = accuracy(swoop, pte, model / "eval.npz", summary, folder)
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("docs/accuracy.md"))
    parser.add_argument("--inputs", type=pathlib.Path, help="a folder with NAME.npz; else MODELS/NAME/test.npz")
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--swoop", type=pathlib.Path, default=pathlib.Path("build/release/swoop"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = [
        "# Accuracy",
        "",
        "SQNR (signal to quantization noise ratio) against the float model, in dB: the mean over inputs that no range was",
        f"measured on, 32 where they are not large. Higher is better. Default quantization for {options.target}.",
        "`tools/accuracy.py` makes this page.",
        "",
        "The peer is the quantizer of ExecuTorch 1.5.1, calibrated on the same four samples and judged on the same inputs. Its",
        "figure comes from its q/dq graph in PyTorch, ours from running the finished file.",
        "",
        "| model | inputs | ours dB | peer dB | regions | accuracy float / ours |",
        "|---|--:|--:|--:|--:|---|",
    ]
    worse, notes = [], []
    for model in sorted(p for p in options.models.iterdir() if (p / "model.pt2").exists()):
        if options.names and model.name not in options.names:
            continue
        arrays = np.load(options.inputs / f"{model.name}.npz" if options.inputs else model / "test.npz")
        inputs = {name: arrays[name] for name in arrays.files}
        exact = by_pytorch(model / "model.pt2", inputs)
        row = measure(options.swoop, model, options.target, inputs, exact)
        baseline = model / f"baseline_{options.target}.json"
        peer = json.loads(baseline.read_text()) if baseline.exists() else {}
        peer_db = mean_db(exact, by_pytorch(model / "int8.pt2", inputs)) if (model / "int8.pt2").exists() else None
        if "error" in row:
            lines.append(f"| {model.name} | {len(exact)} | {row['error'][:80]} | | | |")
        else:
            shown = f"{peer_db:.1f}" if peer_db is not None else "-"
            right = ""
            if "accuracy" in row:
                right = f"{json.loads((model / 'meta.json').read_text())['float_accuracy']:.3f} / {row['accuracy']:.3f}"
            lines.append(f"| {model.name} | {len(exact)} | {row['sqnr']:.1f} | {shown} | {row['delegates']} | {right} |")
            if peer_db is not None and row["sqnr"] < peer_db - 0.05:
                worse.append(f"{model.name} {row['sqnr']:.1f} < {peer_db:.1f}")
                raised = measure(options.swoop, model, options.target, inputs, exact, "--min-sqnr", f"{peer_db + 0.2:.1f}")
                if "error" not in raised:
                    notes.append(f"- {model.name}: `--min-sqnr {peer_db + 0.2:.1f}` gives {raised['sqnr']:.1f} dB in {raised['delegates']} region(s), "
                                 f"{raised['cycles'] / 1e3:.0f} k cycles instead of {row['cycles'] / 1e3:.0f} k.")
            hosted = {op: count for op, count in peer.get("host_ops", {}).items() if not op.startswith("quantized_decomposed::")}
            if hosted:
                kept = ", ".join(f"{op} x{count}" for op, count in sorted(hosted.items()))
                notes.append(f"- {model.name}: in the peer's figure, these are in float on the host: {kept}.")
        print(lines[-1], flush=True)
    notes = [textwrap.fill(note, 118, subsequent_indent="  ") for note in notes]
    options.output.write_text("\n".join([*lines, *(["", *notes] if notes else [])]) + "\n")
    print("below the peer:", ", ".join(worse) if worse else "none")


if __name__ == "__main__":
    main()
