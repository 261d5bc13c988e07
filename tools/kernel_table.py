#!/usr/bin/env python3
"""Prints src/emit/kernels.def: every kernel that the executorch wheel registers, with the arguments of its schema.

    .venv/bin/python tools/kernel_table.py > src/emit/kernels.def

test/test_emit.py runs it again and compares, so that a new wheel cannot change the table unnoticed.
"""
import ctypes
import os
import re
import sys

import executorch
import torch
import yaml
from executorch.extension.pybindings import _C

ROOT = list(executorch.__path__)[0]
HEADER = """\
// The kernels of the stock runtime (libexecutorch_kernels_optimized, libexecutorch_kernels_quantized), made by tools/kernel_table.py:
// KERNEL("name", "overload", "arguments", "results"). An argument is name:kind[=default]; kinds: t tensor, T tensors, O tensors of which
// some may be absent, i integer, I integers, f real, F reals, b flag, B flags, s text, S scalar, d element type, m memory format.
"""
SIMPLE = {"int": "i", "SymInt": "i", "float": "f", "bool": "b", "str": "s", "number": "S", "Scalar": "S", "ScalarType": "d",
          "MemoryFormat": "m", "Tensor": "t", "Layout": "m", "Device": "m", "Generator": "m"}
LISTS = {"i": "I", "f": "F", "b": "B", "t": "T"}


def registered():
    ctypes.CDLL(os.path.join(ROOT, "lib", "libexecutorch_kernels_quantized.so"), ctypes.RTLD_GLOBAL)
    return sorted(name for name in _C._get_operator_names() if name.startswith(("aten::", "quantized_decomposed::")))


def quantized_schemas():
    schemas = {}
    with open(os.path.join(ROOT, "kernels", "quantized", "quantized.yaml")) as file:
        for entry in yaml.safe_load(file):
            schemas[entry["func"].split("(")[0]] = entry["func"]
    return schemas


def kind_of(text):
    """The letter of a type as the schema spells it: Tensor(a!), int[2], Tensor?[]."""
    text = re.sub(r"\([^)]*\)", "", text)
    if text == "Tensor?[]":
        return "O"
    text = text.rstrip("?")
    listed = re.fullmatch(r"(\w+)\[\d*\]", text)
    if listed:
        return LISTS[SIMPLE[listed[1]]]
    return SIMPLE[text]


def token(text):
    text = {"None": "none", "True": "true", "False": "false", "contiguous_format": "none"}.get(text, text)
    return text.replace('"', "'")


def row(name, schema):
    body = schema[schema.index("(") + 1 : schema.rindex(" -> ")].strip()[:-1]
    parts = re.split(r",\s*(?![^\[]*\])", body) if body else []
    args, results = [], []
    for part in parts:
        if part == "*":
            continue
        spelled, _, rest = part.rpartition(" ")
        arg, _, default = rest.partition("=")
        if "!" in spelled and not name.endswith("_"):
            results.append(arg + ("[]" if kind_of(spelled) == "T" else ""))
            continue
        args.append(f"{arg}:{kind_of(spelled)}" + (f"={token(default)}" if default else ""))
    stem, _, overload = name.partition(".")
    return f'KERNEL("{stem}", "{overload}", "{";".join(args)}", "{",".join(results)}")'


def main():
    print(HEADER, end="")
    quantized = quantized_schemas()
    for name in registered():
        if name in quantized:
            print(row(name, quantized[name]))
            continue
        stem, _, overload = name.partition(".")
        try:
            print(row(name, str(torch._C._get_schema(stem, overload))))
        except RuntimeError:
            print(f"no schema for {name}", file=sys.stderr)


if __name__ == "__main__":
    main()
