"""Importing this module makes executorch.runtime run Ethos-U programs on this machine, the NPU in software.

    import swoop.runtime
    from executorch.runtime import Runtime
    method = Runtime.get().load_program("model.pte").load_method("forward")

The library of this package and the executorch package share one runtime, so both must have the same one.
"""

import ctypes
import filecmp
import importlib.util
from pathlib import Path

from ._child import RUN_LIBRARY, Error


def _check() -> None:
    """Two versions of the runtime in one process would crash it."""
    found = importlib.util.find_spec("executorch")
    for folder in (found.submodule_search_locations or []) if found else []:
        theirs = Path(folder) / "lib" / "libexecutorch.so"
        if theirs.exists() and not filecmp.cmp(theirs, RUN_LIBRARY.parent / theirs.name, shallow=False):
            raise Error(f"{theirs} is another version of the runtime than the one that swoop was built with; install the same executorch")


_check()
ctypes.CDLL(str(RUN_LIBRARY), ctypes.RTLD_GLOBAL)
