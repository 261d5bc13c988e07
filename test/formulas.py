"""A model as a formula with parts, and its way through the program: exported, compiled, run on the host, compared with PyTorch."""

import json
import os
import pathlib
import subprocess

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve() / "swoop"


class Model(torch.nn.Module):
    def __init__(self, formula, **parts):
        super().__init__()
        self.formula = formula
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.formula(self, x)


def swoop(folder, *arguments):
    done = subprocess.run([SWOOP, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(model, samples, target, folder, *flags):
    """The summary of a build from these samples, as JSON has it. The program is model.pte."""
    exported = torch.export.export(model.eval(), (samples[0],), strict=False)
    torch.export.save(exported, folder / "model.pt2")
    np.savez(folder / "samples.npz", **{exported.graph_signature.user_inputs[0]: samples.numpy()})
    return json.loads(swoop(folder, "compile", "model.pt2", "-c", "samples.npz", "-t", target, "-o", "model.pte", "--json", *flags))


def sqnr_db(model, samples, folder):
    """Of what compiled() left there, run on the same samples."""
    swoop(folder, "run", "model.pte", "-i", "samples.npz", "-o", "out.npz")
    with torch.no_grad():
        wanted = np.stack([model(sample).numpy() for sample in samples])
    noise = wanted - np.load(folder / "out.npz")["out0"]
    return 10 * np.log10((wanted**2).sum() / max((noise**2).sum(), 1e-30))
