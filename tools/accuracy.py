#!/usr/bin/env python3
"""Makes docs/accuracy.md: the SQNR of a folder of models, ours beside the peer's.

    .venv/bin/python tools/accuracy.py MODELS [-o docs/accuracy.md] [--target ethos-u55-128] [--swoop build/release/swoop] [NAME ...]

MODELS/NAME holds model.pt2 (float), calibrate.npz, test.npz (arrays per input, samples stacked) and golden.npz (float outputs of the test
samples); baseline_TARGET.json with the peer's `sqnr_db` and `tosa_sqnr_db` and eval.npz (images and labels) where they exist.
Ours is measured on the test samples: on the TOSA reference model for programs of one region and at most 150 million multiply-accumulates,
else by running the .pte (`swoop run`, which is bit for bit the same).
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import textwrap

import numpy as np

REFERENCE_MODEL_MACS = 150e6  # the reference model does a few million per second


def sqnr_db(reference, actual):
    signal = sum(float(np.sum(np.square(r, dtype=np.float64))) for r in reference)
    noise = sum(float(np.sum(np.square(r.astype(np.float64) - a))) for r, a in zip(reference, actual))
    return 999.0 if noise == 0 else 10 * np.log10(signal / noise)


def dequantize(codes, port):
    return (codes.astype(np.float32) - port["zero_point"]) * np.float32(port["scale"])


def on_reference_model(summary, dump, inputs):
    """Outputs per sample, through the region's TOSA file."""
    import tosa_reference_model

    tosa = (dump / "region0.tosa").read_bytes()
    results = []
    for i in range(len(inputs[summary["inputs"][0]["name"]])):
        codes = []
        for port in summary["inputs"]:
            x = inputs[port["name"]][i]
            codes.append(np.clip(np.round(x * np.float32(1 / port["scale"])) + port["zero_point"], -128, 127).astype(np.int8))
        outputs, status = tosa_reference_model.run(tosa, codes, verbosity="NONE", initialize_variable_tensor_from_numpy=1)
        assert status == tosa_reference_model.GraphStatus.TOSA_VALID
        results.append([dequantize(o.reshape(p["shape"]), p) for o, p in zip(outputs, summary["outputs"])])
    return results


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


def measure(swoop, model, target, *flags):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        pte = folder / "model.pte"
        command = [swoop, "compile", model / "model.pt2", "--calibrate", model / "calibrate.npz", "--target", target, "-o", pte, "--dump", folder / "dump", "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {"error": done.stderr.strip()}
        summary = json.loads(done.stdout)
        inputs, golden = np.load(model / "test.npz"), np.load(model / "golden.npz")
        inputs = {name: inputs[name] for name in inputs.files}
        single = summary["delegates"] == 1 and not summary["host_ops"] and all(p["dtype"] == "float32" and p["scale"] for p in summary["inputs"])
        # Of 16 bits, which some inputs have by themselves, the zero point is 0.
        eight_bits = all(p["zero_point"] for p in summary["inputs"])
        reference = single and eight_bits and not flags and summary["totals"]["macs"] <= REFERENCE_MODEL_MACS
        outputs = on_reference_model(summary, folder / "dump", inputs) if reference else by_running(swoop, pte, inputs, folder)
        names = sorted(golden.files)
        per_sample = [sqnr_db([golden[n][i] for n in names], [o.reshape(golden[n][i].shape) for n, o in zip(names, out)]) for i, out in enumerate(outputs)]
        row = {"sqnr": float(np.mean(per_sample)), "how": "TOSA reference model" if reference else "swoop run",
               "delegates": summary["delegates"], "cycles": summary["totals"]["total_cycles"]}
        if (model / "eval.npz").exists():
            row["accuracy"] = accuracy(swoop, pte, model / "eval.npz", summary, folder)
        return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("docs/accuracy.md"))
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--swoop", type=pathlib.Path, default=pathlib.Path("build/release/swoop"))
    options = parser.parse_args()
    lines = [
        "# Accuracy",
        "",
        "SQNR (signal to quantization noise ratio) against the float model, in dB: the mean over each model's test inputs.",
        f"Higher is better. Default int8 quantization for {options.target}. `tools/accuracy.py` makes this page.",
        "",
        "The peer is the quantizer of ExecuTorch 1.5.1. Its figure comes from its TOSA on the reference model where that",
        "was run, and otherwise from its q/dq graph in PyTorch.",
        "",
        "| model | ours dB | peer dB | regions | measured by | accuracy float / ours |",
        "|---|--:|--:|--:|---|---|",
    ]
    worse, notes = [], []
    for model in sorted(p for p in options.models.iterdir() if (p / "model.pt2").exists()):
        if options.names and model.name not in options.names:
            continue
        row = measure(options.swoop, model, options.target)
        baseline = model / f"baseline_{options.target}.json"
        peer = json.loads(baseline.read_text()) if baseline.exists() else {}
        figures = peer.get("tosa_sqnr_db") or peer.get("sqnr_db")
        peer_db = float(np.mean(figures)) if figures else None
        if "error" in row:
            lines.append(f"| {model.name} | {row['error'][:80]} | | | | |")
        else:
            shown = f"{peer_db:.1f}" if peer_db is not None else "-"
            right = ""
            if "accuracy" in row:
                right = f"{json.loads((model / 'meta.json').read_text())['float_accuracy']:.3f} / {row['accuracy']:.3f}"
            lines.append(f"| {model.name} | {row['sqnr']:.1f} | {shown} | {row['delegates']} | {row['how']} | {right} |")
            if peer_db is not None and row["sqnr"] < peer_db - 0.05:
                worse.append(f"{model.name} {row['sqnr']:.1f} < {peer_db:.1f}")
                raised = measure(options.swoop, model, options.target, "--min-sqnr", f"{peer_db + 0.2:.1f}")
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
