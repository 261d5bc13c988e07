#!/usr/bin/env python3
"""Renews the sample output in README.md: runs every `$ swoop ...` line of it, in order, and puts what was printed below it.

    tools/readme.py BUILD          BUILD holds the program

A block that begins or ends with a line `...` shows a part: as many lines as before, from the one that begins with the same word.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "README.md"


def part_of(output, old):
    """The lines of `output` that the block `old` shows."""
    head, tail = old[:1] == ["..."], len(old) > 1 and old[-1] == "..."
    shown = old[head : len(old) - tail]
    first = 0
    if head and shown:
        word = shown[0].split()[0]
        first = next(i for i, line in enumerate(output) if line.split()[:1] == [word])
    lines = output[first : first + len(shown)] if tail else output[first:]
    return ["..."] * head + lines + ["..."] * tail


def main(build):
    program = pathlib.Path(build).resolve() / "swoop"
    page = PAGE.read_text().split("\n")
    renewed, i = [], 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "test" / "models", pathlib.Path(folder, "test", "models"))  # some commands write beside the model
        arrays = zipfile.ZipFile(ROOT / "test" / "models" / "resnet8.npz")
        for name, array in [("samples", "calibrate"), ("inputs", "test")]:  # as the page does it
            with zipfile.ZipFile(pathlib.Path(folder, f"{name}.npz"), "w") as file:
                file.writestr("x.npy", arrays.read(f"{array}.npy"))
        while i < len(page):
            renewed.append(page[i])
            command = re.match(r"\$ swoop (.*)", page[i])
            i += 1
            if not command:
                continue
            old = []
            while not page[i].startswith(("$ ", "```")):
                old.append(page[i])
                i += 1
            done = subprocess.run([program, *shlex.split(command[1])], cwd=folder, capture_output=True, text=True)
            if "error:" in done.stderr:  # progress of a slow machine is printed there too
                sys.exit(f"{page[i - 1 - len(old)]}\n{done.stderr}")
            renewed += part_of(done.stdout.rstrip("\n").split("\n") if done.stdout else [], old)
    PAGE.write_text("\n".join(renewed))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
