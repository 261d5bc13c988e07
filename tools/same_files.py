#!/usr/bin/env python3
"""Shows whether a change leaves the emitted files as they were, byte for byte.

    .venv/bin/python tools/same_files.py make FOLDER [--swoop PROGRAM] [NAME ...]      before the change
    .venv/bin/python tools/same_files.py compare FOLDER [--swoop PROGRAM] [NAME ...]   after it

`make` exports the networks of bench/networks.py to FOLDER and compiles each for three NPUs. `compare` compiles the same
exports again and prints a line per network: "same", or the sizes before and after. It exits with 1 if a file differs.
Names choose some of the networks.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"]


def export(name, folder):
    """FOLDER/NAME.pt2 and FOLDER/NAME.npz with its samples, unless they are there."""
    model = folder / f"{name}.pt2"
    if not model.exists():
        command = [sys.executable, ROOT / "bench" / "models.py", "network", name, model]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return model


def compiled(swoop, model, target, output):
    """None, or what the compiler said when it made no file."""
    command = [swoop, "compile", model, "--calibrate", model.with_suffix(".npz"), "--target", target]
    done = subprocess.run([*command, "-o", output, "-q", "--no-verify"], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def compared(before, after):
    if before.read_bytes() == after.read_bytes():
        return "same"
    return f"{before.stat().st_size} -> {after.stat().st_size} bytes"


def main():
    sys.path.insert(0, str(ROOT / "bench"))
    from networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all networks")
    build = os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")
    parser.add_argument("--swoop", type=pathlib.Path, default=pathlib.Path(build) / "swoop")
    options = parser.parse_intermixed_args()
    if unknown := [name for name in options.names if name not in NETWORKS]:
        parser.error(f"no network {unknown[0]}; there are {', '.join(NETWORKS)}")

    differ = 0
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'network':<22}" + "".join(f"{target:<24}" for target in TARGETS))
    for name in options.names or NETWORKS:
        model = export(name, options.folder)
        cells = []
        for target in TARGETS:
            kept = options.folder / target / f"{name}.pte"
            kept.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory() as scratch:
                fresh = kept if options.what == "make" else pathlib.Path(scratch) / "now.pte"
                fault = compiled(options.swoop.resolve(), model, target, fresh)
                if not fault and options.what == "make":
                    cells.append(f"{kept.stat().st_size} bytes")
                else:
                    cells.append(fault or compared(kept, fresh))
                    differ += cells[-1] != "same"
        print(f"{name:<22}" + "".join(f"{cell:<24}" for cell in cells), flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
