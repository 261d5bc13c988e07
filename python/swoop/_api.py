"""compile, run, inspect, accuracy, diff: the commands of the program as functions."""

from __future__ import annotations

import contextlib
import html
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _samples
from ._child import call
from ._options import arguments


class Program:
    """A compiled model: the .pte file's bytes, and what the compiler reports about it."""

    #: the file, as `save` writes it
    bytes: bytes
    #: the object that `swoop compile --json` prints
    json: dict[str, Any]

    def __init__(self, data: bytes, summary: dict[str, Any]):
        self.bytes = data
        self.json = summary

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the .pte file. Returns its path."""
        Path(path).write_bytes(self.bytes)
        return Path(path)

    def run(self, inputs: Any, **options: Any) -> Any:
        """Runs the program on this machine, the NPU in software, bit for bit. See `swoop.run`."""
        given = arguments("run", options)
        ports = [_samples.Port(port["name"], tuple(port["shape"])) for port in self.json["inputs"]]
        with _folder() as folder:
            return _samples.run(self.save(folder / "model.pte"), ports, inputs, folder, given)

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The NPU's layers in order: region, name, op, cycles, macs, source."""
        return [{"region": region["name"], **layer} for region in self.json["regions"] for layer in region["layers"]]

    def why(self) -> list[dict[str, Any]]:
        """The nodes that stay on the host: node, op, rule, reason, source, advice."""
        return self.json["host_reasons"]

    def report(self) -> str:
        """The summary that `swoop compile` prints."""
        return self.json["text"]

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        of = self.json
        facts = [of["target"], f"{len(self.bytes):,} bytes", f"{of['delegates']} NPU region{'s' * (of['delegates'] != 1)}",
                 f"{len(self.why())} host nodes", f"{of['totals']['total_cycles']:,} cycles"]
        if of["accuracy"]:
            facts += [f"SQNR {sqnr:.1f} dB" for sqnr in of["accuracy"]["sqnr_db"] if sqnr is not None]
            facts += ["bit exact"] * bool(of["accuracy"]["bit_exact"])
        return f"<swoop.Program {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(layer[key]))}</td>" for key in ("name", "op", "cycles", "macs", "source")) + "</tr>"
            for layer in sorted(self.layers, key=lambda layer: -layer["cycles"]))
        return (f"<pre>{html.escape(self.report())}</pre><details><summary>{len(self.layers)} layers on the NPU, slowest first</summary>"
                f"<table><tr><th>layer</th><th>op</th><th>cycles</th><th>MACs</th><th>source</th></tr>{rows}</table></details>")


def compile(model: Any, example_inputs: tuple[Any, ...] | None = None, calibrate: Any = None, target: str | None = None, *,
            test: Any = None, **options: Any) -> Program:
    """Compiles a model for an Ethos-U and checks the result on this machine.

    model           the path of a .pt2 file, a torch.export.ExportedProgram, or a torch.nn.Module together with its example inputs
    example_inputs  a tuple, as torch.export.export takes it
    calibrate       samples, for a float model: an array, a tuple with an array per input, a dictionary of arrays, an iterable of
                    samples or batches such as a DataLoader, or a path. Rows along the first axis of an input are taken apart
    target          the NPU; if it is not given, the one of `board`, or ethos-u55-128
    test            held-out samples, in the same forms; accuracy is measured on them. Labels come after the inputs, or are named
                    "labels"; the outputs to expect are named "out0", ...
    options         the flags of `swoop compile` with underscores: min_sqnr=40, io="int8", no_host=True

    Raises Error if the program refuses the model, and TypeError for an option that it does not have.
    """
    given = arguments("compile", options)
    with _folder() as folder:
        path = _model_file(model, example_inputs, folder)
        given += _sample_flags(path, folder, calibrate=calibrate, test=test)
        output = folder / "model.pte"
        summary = json.loads(call("compile", path, *_target_flags(target), *given, "--json", "--output", output))
        program = Program(output.read_bytes(), summary)
    for warning in summary["warnings"]:
        warnings.warn(warning, stacklevel=2)
    return program


def run(path: str | os.PathLike[str], inputs: Any, **options: Any) -> Any:
    """Runs a .pte file, of swoop or of ExecuTorch, on this machine, the NPU in software, bit for bit.

    `inputs` has the forms that `compile` takes for samples. Returns an array, or a tuple of them if there are several outputs; tensors
    if the inputs are tensors. Several samples give their outputs along the same axis as they came in.
    """
    given = arguments("run", options)
    with _folder() as folder:
        return _samples.run(path, _samples.ports_of(path), inputs, folder, given)


def inspect(path: str | os.PathLike[str], **options: Any) -> str:
    """What is in a .pt2, .pte or .tosa file, as text."""
    return call("inspect", path, *arguments("inspect", options))


def accuracy(model: Any, example_inputs: tuple[Any, ...] | None = None, calibrate: Any = None, target: str | None = None,
             **options: Any) -> str:
    """The quantization error (SQNR) of each layer, worst first, as text. Takes what `compile` takes."""
    given = arguments("accuracy", options)
    with _folder() as folder:
        path = _model_file(model, example_inputs, folder)
        return call("accuracy", path, *_target_flags(target), *given, *_sample_flags(path, folder, calibrate=calibrate))


def sweep(model: Any, example_inputs: tuple[Any, ...] | None = None, calibrate: Any = None, **options: Any) -> list[dict[str, Any]]:
    """The model built for every NPU in every memory mode: the rows that `swoop sweep --json` prints. Takes what `compile` takes.

    `target` names NPUs (`"ethos-u55-*"`, or a list); without it, all. A row has `fits`, and `front` if no other is faster in as
    little SRAM.
    """
    given = arguments("sweep", options)
    with _folder() as folder:
        path = _model_file(model, example_inputs, folder)
        return json.loads(call("sweep", path, "--json", *given, *_sample_flags(path, folder, calibrate=calibrate)))["rows"]


def diff(a: str | os.PathLike[str] | Program, b: str | os.PathLike[str] | Program, inputs: Any = None, **options: Any) -> dict[str, Any]:
    """What changed between two programs: the object that `swoop diff --json` prints. `broken` lists the thresholds that b exceeds.

    With `inputs`, both are run and their outputs compared. Thresholds: max_cycles, max_bytes (percent), min_sqnr (dB).
    """
    given = arguments("diff", options)
    with _folder() as folder:
        paths = [one.save(folder / f"{name}.pte") if isinstance(one, Program) else one for name, one in (("a", a), ("b", b))]
        if inputs is not None:
            given += ["--inputs", _samples.write(inputs, paths[0], folder / "inputs.npz")]
        return json.loads(call("diff", *paths, "--json", *given, accept=(0, 1)))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="swoop-") as name:
        yield Path(name)


def _target_flags(target: str | None) -> list[str]:
    return [] if target is None else ["--target", target]


def _sample_flags(model: Path, folder: Path, **samples: Any) -> list[str]:
    words = []
    for name, data in samples.items():
        if data is not None:
            words += [f"--{name}", _samples.write(data, model, folder / f"{name}.npz", labels=name == "test")]
    return words


def _model_file(model: Any, example_inputs: tuple[Any, ...] | None, folder: Path) -> Path:
    """The path of the model's .pt2 file. PyTorch is there if the caller has one of its objects."""
    if isinstance(model, (str, os.PathLike)):
        return Path(model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        if example_inputs is None:
            raise TypeError("a torch.nn.Module is exported with example_inputs=(...)")
        model = _export(torch, model, example_inputs)
    if torch is None or not isinstance(model, torch.export.ExportedProgram):
        raise TypeError(f"a model is a path, a torch.export.ExportedProgram or a torch.nn.Module, not {type(model).__name__}")
    torch.export.save(model, folder / "model.pt2")
    return folder / "model.pt2"


def _export(torch: Any, model: Any, example_inputs: tuple[Any, ...]) -> Any:
    """Exports as for inference, and leaves each module in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        return torch.export.export(model.eval(), example_inputs)
    finally:
        for module, training in modes:
            module.training = training
