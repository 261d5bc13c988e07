"""PyTorch to Arm Ethos-U in one fell swoop.

    import swoop
    program = swoop.compile(model, (example,), calibrate=samples, target="ethos-u55-128")
    program.save("model.pte")

The package contains the program `swoop` and calls it as a child process. PyTorch is not needed, unless you pass PyTorch objects.
"""

from . import executorch
from ._api import Program, accuracy, compile, diff, inspect, run, sweep
from ._child import DEMO, Error

__all__ = ["DEMO", "Error", "Program", "accuracy", "compile", "diff", "executorch", "inspect", "run", "sweep"]
