"""Arrays, tensors, dictionaries and data loaders as the .npz files that the program reads, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._child import Error, call


class Port(NamedTuple):
    name: str
    shape: tuple[int, ...] | None  # None: a size is open


def ports_of(path: Path | str) -> list[Port]:
    """The inputs of a .pt2 or .pte file, as `swoop inspect` lists them."""
    text = call("inspect", path)
    first = text.split("\n", 1)[0]
    if first.startswith("graph "):
        found = re.findall(r'%(?:"[^"]*"|[^\s:]+): \w+\[([^\]]*)\][^,"]*? as "([^"]*)"', first)
        ports = [(name, shape) for shape, name in found]
    else:
        ports = re.findall(r"^  input (\S*) \w+\[([^\]]*)\]", text, re.M)
    return [Port(name or f"in{i}", _shape(shape)) for i, (name, shape) in enumerate(ports)]


def _shape(text: str) -> tuple[int, ...] | None:
    sizes = text.split(",") if text else []
    return tuple(map(int, sizes)) if all(size.isdigit() for size in sizes) else None


def is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_array(value: Any) -> np.ndarray:
    if is_tensor(value):
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return np.asarray(value)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or is_tensor(value)


def columns(data: Any, ports: list[Port], labels: bool) -> dict[str, list[np.ndarray]]:
    """The pieces of each input by its name; with `labels` also those of the labels and of the outputs to expect.

    An array is the only input. A tuple holds an array per input, and the labels after them. A dictionary names them. Anything else is
    an iterable of such things: a list of samples, a DataLoader. What is left over in a tuple is not read if no labels are wanted.
    """
    if isinstance(data, Mapping):
        return {str(name): [to_array(value)] for name, value in data.items()}
    if _is_array(data):
        data = (data,)
    if isinstance(data, tuple):
        names = [port.name for port in ports] + (["labels"] if labels else [])
        if len(data) < len(ports):
            raise ValueError(f"the model takes {len(ports)} inputs ({', '.join(names[: len(ports)])}), and {len(data)} were given")
        return {name: [to_array(value)] for name, value in zip(names, data)}
    if not isinstance(data, Iterable):
        raise TypeError(f"samples are an array, a tuple, a dictionary, an iterable of them or a path, not {type(data).__name__}")
    gathered: dict[str, list[np.ndarray]] = {}
    for sample in data:
        for name, pieces in columns(tuple(sample) if isinstance(sample, list) else sample, ports, labels).items():  # a DataLoader makes lists
            gathered.setdefault(name, []).extend(pieces)
    if not gathered:
        raise ValueError("there are no samples")
    return gathered


def stack(pieces: list[np.ndarray], shape: tuple[int, ...] | None, name: str) -> np.ndarray:
    """One array with the samples along a new first axis.

    For an input of [1,3,32,32], each piece is one sample [1,3,32,32] or [3,32,32], rows [N,3,32,32], or samples [N,1,3,32,32]. Rows that
    do not fill a last sample of the input's batch are left out.
    """
    if shape is None:  # the program says what fits
        return pieces[0] if len(pieces) == 1 else np.stack(pieces)
    if all(piece.ndim == len(shape) + 1 and piece.shape[1:] == shape for piece in pieces):
        return np.concatenate(pieces)
    if all(piece.shape == shape for piece in pieces):
        return np.stack(pieces)
    if shape and all(piece.shape == shape[1:] for piece in pieces):
        rows = np.stack(pieces)
    elif shape and all(piece.ndim == len(shape) and piece.shape[1:] == shape[1:] for piece in pieces):
        rows = np.concatenate(pieces)
    else:
        shapes = ", ".join(sorted({str(list(piece.shape)) for piece in pieces}))
        raise ValueError(f"input {name} takes {list(shape)}, or more of them along the first axis or a new one, and was given {shapes}")
    whole = len(rows) // shape[0]
    if whole == 0:
        raise ValueError(f"input {name} takes {list(shape)}, and {len(rows)} rows do not fill it")
    return rows[: whole * shape[0]].reshape(whole, *shape)


def write(data: Any, model: Path | str, path: Path, labels: bool = False) -> str:
    """The path of a file with these samples for the model: `data` itself if it is one, otherwise `path`."""
    if isinstance(data, (str, Path)):
        return str(data)
    ports = ports_of(model)
    shapes = {port.name: port.shape for port in ports}
    arrays = {}
    for name, pieces in columns(data, ports, labels).items():
        arrays[name] = stack(pieces, shapes[name], name) if name in shapes else np.concatenate([np.atleast_1d(piece) for piece in pieces])
    if "labels" in arrays and "labels" not in shapes and ports and ports[0].shape:
        used = len(arrays[ports[0].name]) * ports[0].shape[0]
        if len(arrays["labels"]) - used in range(1, ports[0].shape[0]):
            arrays["labels"] = arrays["labels"][:used]  # of rows that do not fill a sample
    np.savez(path, **arrays)
    return str(path)


def run(program: Path | str, ports: list[Port], inputs: Any, folder: Path, options: list[str]) -> Any:
    """The outputs of a .pte: an array, or a tuple of them. Tensors if the inputs are tensors."""
    given = columns(inputs, ports, labels=False)
    missing = [port.name for port in ports if port.name not in given]
    if missing and not (len(ports) == len(given) == 1):
        raise Error(f"input {missing[0]} is missing; given: {', '.join(given)}")
    arrays, single, rows = {}, True, False
    for port, pieces in zip(ports, given.values() if missing else [given[port.name] for port in ports]):
        piece = pieces[0]
        one = len(pieces) == 1 and port.shape is not None and piece.shape in (port.shape, port.shape[1:])
        single &= one
        rows |= port.shape is not None and piece.ndim == len(port.shape) and piece.shape != port.shape
        arrays[port.name] = stack(pieces, port.shape, port.name)
    np.savez(folder / "inputs.npz", **arrays)
    call("run", program, "--inputs", folder / "inputs.npz", "--output", folder / "outputs.npz", *options)
    with np.load(folder / "outputs.npz") as file:
        outputs = [file[name] for name in file.files]
    if single:
        outputs = [output[0] for output in outputs]
    elif rows:  # as they came in: along the first axis of the output
        outputs = [output.reshape(-1, *output.shape[2:]) if output.ndim > 1 else output for output in outputs]
    if _any_tensor(inputs):
        outputs = [sys.modules["torch"].from_numpy(output) for output in outputs]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _any_tensor(inputs: Any) -> bool:
    values = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return any(map(is_tensor, values))
