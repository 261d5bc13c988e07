"""Options are the program's flags with underscores. The program itself says which there are."""

from __future__ import annotations

import difflib
import functools
import json
import os

from ._child import call

# Flags that the functions of this package use themselves, and those that only print.
OURS = {"help", "json", "quiet", "output", "stop_after", "layers", "model", "trace"}


@functools.cache
def flags(command: str) -> dict[str, bool]:
    """Each option of the command, and whether it takes a value."""
    rows = next(row["options"] for row in json.loads(call("options", "--json"))["commands"] if row["name"] == command)
    named = {row["name"][2:].replace("-", "_"): bool(row["value"]) for row in rows if not row["positional"]}
    return {name: value for name, value in named.items() if name not in OURS}


def arguments(command: str, options: dict[str, object]) -> list[str]:
    """The flags of the command line. None and False are left out; a list gives a flag several values."""
    known = flags(command)
    words: list[str] = []
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"swoop {command} has no option {name!r}" + (f"; did you mean {near[0]!r}?" if near else f". It has: {', '.join(known)}"))
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        if not known[name]:
            if value is not True:
                raise TypeError(f"{name} is True or False, not {value!r}")
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [word for item in value for word in (flag, str(item))]
        else:
            words += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words
