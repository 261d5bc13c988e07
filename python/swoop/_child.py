"""The program `swoop` of this package: where it is, and how it is called."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

NATIVE = Path(__file__).resolve().parent / "native"  # what `make install` installs
PROGRAM = NATIVE / "bin" / "swoop"
RUN_LIBRARY = NATIVE / "lib" / "swoop" / "libswoop_run.so"
DEMO = NATIVE / "share" / "swoop" / "resnet8_int8.pt2"  #: a quantized ResNet8, to try things with


class Error(RuntimeError):
    """The program refused, or failed.

    message    what it said
    exit_code  1: the model, the samples or an option is at fault. 2: a bug in swoop. Negative: a signal ended it
    source     the line of the model that the message is about, "net.py:31", or None
    """

    def __init__(self, message: str, exit_code: int = 1):
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        found = re.search(r"[^\s:]+\.py:\d+", message)
        self.source: str | None = found[0] if found else None


def call(*arguments: object, accept: tuple[int, ...] = (0,)) -> str:
    """What the program prints. Raises Error if its exit code is none of those that are accepted and its output is empty.

    Its progress appears on standard error while it works. Interrupting the call ends the program.
    """
    command = [str(PROGRAM), *(os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in arguments)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        said: list[str] = []
        reader = threading.Thread(target=_follow, args=(child.stderr, said), daemon=True)
        reader.start()
        try:
            output = child.stdout.read()
            child.wait()
        except BaseException:  # KeyboardInterrupt
            child.kill()
            child.wait()
            raise
        finally:
            reader.join()
    if child.returncode == 0 or (child.returncode in accept and output):
        if said:  # --stats
            print(*said, sep="\n", file=sys.stderr)
        return output
    message = "\n".join(said).removeprefix("swoop: error: ")
    if child.returncode < 0:
        message = f"{message}\nswoop was ended by signal {-child.returncode}".strip()
    raise Error(message, child.returncode)


def _follow(stream, said: list[str]) -> None:
    """Collects what is said, and shows progress ("swoop: checking ...") to whoever watches: a terminal or a notebook."""
    watched = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    for line in stream:
        if not line.endswith(" ...\n"):
            said.append(line.rstrip("\n"))
        elif watched:
            print(line, end="", file=sys.stderr, flush=True)


def main() -> None:
    """The command `swoop`: becomes the program."""
    os.execv(PROGRAM, ["swoop", *sys.argv[1:]])
