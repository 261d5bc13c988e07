#!/usr/bin/env python3
"""Public architectures: timm, torchvision and transformers, built without weights, exported, compiled and compared with PyTorch.

    tools/setup.sh architectures
    .venv/bin/python tools/architectures.py export CACHE [NAME ...]
    .venv/bin/python tools/architectures.py run CACHE [NAME ...] [--seconds N]
    .venv/bin/python tools/architectures.py peer CACHE [NAME ...]
    .venv/bin/python tools/architectures.py table CACHE [-o docs/architectures.md]
    .venv/bin/python tools/architectures.py list

Names begin with the package: timm:resnet18, torchvision:alexnet, transformers:bert. `run` writes a JSON line per build to
CACHE/results.jsonl; what is there is not built again, so it can be stopped at any time. It exports what `export` has not
exported before. `peer` quantizes what `export` made with ExecuTorch's Ethos-U quantizer, and runs that module in PyTorch.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import operator
import pathlib
import re
import shutil
import sys
import textwrap
import time
import warnings
from collections import Counter

from architecture_lists import TIMM, TORCHVISION, TRANSFORMERS
from judge import ROOT, Verdict, array, figures, judge, leaves, whole, write_case
from peer_files import quantized_module

TARGETS = {"ethos-u55-128": 128, "ethos-u85-256": 256}  # multiply-accumulates per cycle
EXPORT_SECONDS = 400
COMPILE_SECONDS = 300

NAMES = [*(f"timm:{n}" for n in TIMM), *(f"torchvision:{n}" for n in TORCHVISION), *(f"transformers:{n}" for n in TRANSFORMERS)]


# ---- building


def smooth_noise(shape, generator):
    """Neighbours are alike in images and sounds."""
    import torch
    from torch.nn import functional as F

    x = F.avg_pool1d(torch.randn(shape, generator=generator).flatten(0, -2)[None], 5, 1, 2).reshape(shape)
    return x / x.std()


def timm_model(name):
    import timm

    import torch

    errors = []
    for size, options in [(64, {}), (64, {"img_size": 64}), (96, {}), (128, {"img_size": 128}), (128, {}), (256, {}), (224, {}), (240, {})]:
        try:
            module = timm.create_model(name, pretrained=False, num_classes=10, **options).eval()
            with torch.no_grad():
                module(torch.zeros(1, 3, size, size))
            return module, (1, 3, size, size)
        except Exception as error:  # each family says in its own way that a size does not fit
            errors.append(f"{size}: {error}")
    raise ValueError("; ".join(errors)[-300:])


def torchvision_model(name):
    import torchvision

    options = {}
    if name in ("googlenet", "inception_v3"):
        options = {"init_weights": True, "aux_logits": False}
    if name in ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"):
        options = {"weights_backbone": None}
    module = torchvision.models.get_model(name, weights=None, **options)
    if name in ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "swin3d_t"):
        return module, (1, 3, 16, 64, 64) if name == "s3d" else (1, 3, 8, 32, 32)
    if name == "mvit_v2_s":
        return module, (1, 3, 16, 224, 224)
    large = 224 if name in ("vit_b_32", "maxvit_t") else 96 if name in ("alexnet", "inception_v3") else 64
    return module, (1, 3, large, large)


# What a small model of each kind takes.
SHAPES = {"text": (1, 16), "seq2seq": (1, 16), "image": (1, 3, 64, 64), "grey": (1, 1, 64, 64), "video": (1, 4, 3, 32, 32), "audio": (1, 1600), "wave": (1, 1, 1600), "codes": (1, 32, 40), "mel": (1, 20, 100), "frames": (1, 100, 24), "states": (1, 16, 64),
          "spectrogram": (1, 1, 64, 16), "series": (1, 32, 3), "past": (1, 35, 3)}


def transformers_model(name):
    """(module, shape, number of ids or 0)"""
    import torch
    import transformers

    kind, options, cls, part = (*TRANSFORMERS[name], None, None)[:4]

    class First(torch.nn.Module):
        """The first tensor of what a model returns."""

        def __init__(self, module):
            super().__init__()
            self.module = module
            names = inspect.signature(module.forward).parameters
            self.options = {"return_dict": False} if {"return_dict", "kwargs"} & set(names) else {}

        def forward(self, x):
            if kind == "seq2seq":
                return self.module(x, decoder_input_ids=x, **self.options)[0]
            if kind == "past":  # of two features of the time, which are constants here
                time = torch.arange(43.0)[None, :, None].expand(1, 43, 2) / 43
                return self.module(x, time[:, :35], torch.ones_like(x), future_values=x[:, -8:], future_time_features=time[:, 35:], **self.options)[0]
            y = self.module(x, **self.options)
            return y if torch.is_tensor(y) else y[0]

    config = transformers.AutoConfig.for_model(re.sub("-(en|de)coder$", "", name), **options)
    if cls:
        module = operator.attrgetter(cls)(transformers)._from_config(config, attn_implementation="eager")
    else:
        module = transformers.AutoModel.from_config(config, attn_implementation="eager")
    if part:
        module = module.get_submodule(part)
    return First(module), SHAPES[kind], 200 if kind in ("text", "seq2seq") else 0


def make(name, folder):
    """Writes the case."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    package, rest = name.split(":")
    ids = 0
    if package == "transformers":
        module, shape, ids = transformers_model(rest)
    else:
        module, shape = {"timm": timm_model, "torchvision": torchvision_model}[package](rest)
    generator = torch.Generator().manual_seed(1)
    for weights in module.parameters():  # heads that begin as zeros would hide what comes before them
        if weights.ndim > 1 and not weights.any():
            torch.nn.init.normal_(weights, std=0.05, generator=generator)

    def draw(batch=1):
        size = (batch, *shape[1:])
        return torch.randint(3, ids, size, generator=generator) if ids else smooth_noise(size, generator)

    if any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in module.modules()):
        module.train()
        with torch.no_grad():
            for _ in range(3):
                module(draw(4))
    module = module.eval().requires_grad_(False)
    write_case(module, [(draw(),) for _ in range(4)], [(draw(),) for _ in range(2)], folder)


def told(sender, function, *arguments):
    try:
        sender.send(function(*arguments))
    except BaseException as error:
        sender.send(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300])


def isolated(function, *arguments):
    """What it returns, or what went wrong, as a sentence. In a process of its own, because exports take gigabytes and sometimes for ever."""
    receiver, sender = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=told, args=(sender, function, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(EXPORT_SECONDS) else f"not done in {EXPORT_SECONDS} s"
    except EOFError:
        return "its process died"
    finally:
        process.kill()
        process.join()


def exported(folder):
    return (folder / "test_golden.npz").exists()  # written last


def export_one(name, folder):
    """What went wrong, or None."""
    return None if exported(folder) else isolated(make, name, folder)


# ---- running


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def results_of(cache):
    return {(row["name"], row["target"]): row for row in read_lines(cache / "results.jsonl")}


def folder_of(name, cache):
    return cache / name.replace(":", "_")


def export(names, cache):
    for name in names:
        print(f"{name}: {export_one(name, folder_of(name, cache)) or 'exported'}", flush=True)


def run(names, cache, seconds):
    cache.mkdir(parents=True, exist_ok=True)
    known, start = results_of(cache), time.monotonic()
    with open(cache / "results.jsonl", "a") as file:
        for name in names:
            missing = [t for t in TARGETS if (name, t) not in known]
            if not missing:
                continue
            if seconds is not None and time.monotonic() - start > seconds:
                break
            folder = folder_of(name, cache)
            kept = folder.exists()
            why = export_one(name, folder)
            for target in missing:
                row = {"name": name, "target": target}
                if why:
                    row["not_exported"] = why
                    print(f"{name}: not exported: {why}", flush=True)
                else:
                    verdict = judge(folder, target, timeout=COMPILE_SECONDS)
                    row.update(verdict.as_dict())
                    print(f"{name} {target}: {verdict.regions} regions, {verdict.seconds:.1f} s, {verdict.mib or 0:.0f} MiB, {verdict.line()[:300]}", flush=True)
                print(json.dumps(row), file=file, flush=True)
            if not kept and not why and row["kind"] == "right":
                shutil.rmtree(folder, ignore_errors=True)  # what went wrong is kept, and what `export` made


# ---- the peer's quantizer


def peer_sqnr(folder):
    """dB of the module that the peer's quantizer makes, on the calibration samples."""
    import numpy as np
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    torch.set_num_threads(1)
    arrays = np.load(folder / "calibrate.npz")
    samples = [tuple(torch.from_numpy(arrays[name][i]) for name in arrays.files) for i in range(len(arrays[arrays.files[0]]))]
    module = quantized_module(torch.export.load(folder / "model.pt2"), EthosUCompileSpec("ethos-u55-128"), samples)
    with torch.no_grad():
        outputs = [[array(y) for y in leaves(module(*sample))] for sample in samples]
    golden = np.load(folder / "calibrate_golden.npz")
    return figures(golden, [np.stack(ys) for ys in zip(*outputs)])[0]


def peer(names, cache):
    """A JSON line per network in CACHE/peer.jsonl."""
    known = read_lines(cache / "peer.jsonl")
    with open(cache / "peer.jsonl", "a") as file:
        for name in names:
            if any(row["name"] == name for row in known) or not exported(folder_of(name, cache)):
                continue
            found = isolated(peer_sqnr, folder_of(name, cache))
            print(name, found, flush=True)
            print(json.dumps({"name": name, **({"sqnr": found} if isinstance(found, float) else {"failed": found})}), file=file, flush=True)


# ---- the page


def row_text(row, peers):
    verdict = Verdict(**{k: v for k, v in row.items() if k not in ("name", "target")})
    reasons = sorted({f"{r['op']}: {r['reason']}" for r in verdict.reasons})
    host = "; ".join(reasons[:3]) + (f"; {len(reasons) - 3} more" if len(reasons) > 3 else "")
    if verdict.regions is None:
        text = " ".join(verdict.text.split())[-160:].replace("|", "/")
        return f"| {row['name']} | {row['target'][6:]} | {verdict.kind}: {text} | | | | | | |"
    ideal = verdict.macs / TARGETS[row["target"]] if verdict.macs else None
    over = f"{verdict.cycles / ideal:.1f}" if ideal and verdict.cycles else "-"
    db = "equal" if verdict.sqnr == 200 else f"{verdict.sqnr:.1f}" if verdict.sqnr is not None else "-"
    theirs = f"{peers[row['name']]:.1f}" if row["name"] in peers else ""
    return (f"| {row['name']} | {row['target'][6:]} | {verdict.regions} | {host[:200].replace('|', '/') or 'none'} | {(verdict.cycles or 0) / 1e3:,.0f} | {over} | {db} | {theirs} | "
            f"{verdict.seconds:.1f} / {verdict.mib:.0f} |")


def table(cache):
    every = results_of(cache).values()
    rows = [r for r in every if "not_exported" not in r]
    absent = sorted({r["name"] for r in every if "not_exported" in r})
    verdicts = [Verdict(**{k: v for k, v in r.items() if k not in ("name", "target")}) for r in rows]
    kinds = Counter(v.kind for v in verdicts)
    compiled = sum(v.regions is not None for v in verdicts)
    lines = [
        "# Public architectures",
        "",
        "Networks of timm, torchvision and transformers, built without weights, with random inputs. Batch norms have seen",
        "three batches. Transformers are small configurations of the same layers. int8, default options. Cycles are regor's",
        "estimate, and `x ideal` is how many times more that is than the multiply-accumulates alone would take. SQNR is the",
        "file's against PyTorch's float outputs, on the four calibration samples, and `peer`, where measured, that of the module",
        "which ExecuTorch's Ethos-U quantizer makes of the same network and samples, run by PyTorch. Seconds of the processor and",
        "peak MiB are those of `swoop compile`, check included. `tools/architectures.py` makes this page.",
        "",
        f"{len({r['name'] for r in rows})} architectures, {len(rows)} builds: {compiled} compile ({compiled / max(1, len(rows)):.1%}), {sum(map(whole, verdicts))} are in one region "
        f"({sum(map(whole, verdicts)) / max(1, len(rows)):.1%}),",
        f"{kinds['low']} are below their forecast, {kinds['internal'] + kinds['hang'] + kinds['silent']} end in internal errors or do not end.",
        "",
        *textwrap.wrap(f"Not in the table, because the package does not build them in this size or torch.export refuses them ({len(absent)}): {', '.join(absent)}.", 118),
        "",
        "| network | NPU | regions | on the host | k cycles | x ideal | SQNR dB | peer | s / MiB |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    order = {name: i for i, name in enumerate(NAMES)}
    peers = {row["name"]: row["sqnr"] for row in read_lines(cache / "peer.jsonl") if "sqnr" in row}
    return lines + [row_text(r, peers) for r in sorted(rows, key=lambda r: (order.get(r["name"], 0), r["target"]))]


def name_torchvision_kernels():
    """torchvision's own kernels need CUDA's libraries, and without them its import fails on these names."""
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["export", "run", "peer", "table", "list"])
    parser.add_argument("cache", type=pathlib.Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, help="stop after this time; run again to go on")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "architectures.md")
    o = parser.parse_args()
    warnings.filterwarnings("ignore")
    if o.what == "list":
        print("\n".join(NAMES))
        return
    if o.cache is None:
        parser.error("name a folder for the results")
    if o.what == "table":
        o.output.write_text("\n".join(table(o.cache)) + "\n")
        return
    name_torchvision_kernels()
    import timm  # noqa: F401  once, before the processes are forked
    import transformers  # noqa: F401

    names = o.names or NAMES
    if o.what == "export":
        export(names, o.cache)
    elif o.what == "peer":
        import executorch.backends.arm.quantizer  # noqa: F401

        peer(names, o.cache)
    else:
        run(names, o.cache, o.seconds)


if __name__ == "__main__":
    sys.exit(main())
