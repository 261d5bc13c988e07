"""For scripts that are written for ExecuTorch: `to_pte` takes the place of to_edge_transform_and_lower and to_executorch."""

from __future__ import annotations

from typing import Any, BinaryIO

from ._api import Program, compile


class ExecutorchProgram(Program):
    """A Program that ExecuTorch's functions take for its own: `save_pte_program(program, "model.pte")` works."""

    @property
    def buffer(self) -> bytes:
        return self.bytes

    def write_to_file(self, file: BinaryIO) -> None:
        file.write(self.bytes)

    def write_tensor_data_to_file(self, outdir: str) -> None:
        """Nothing to do: all data is in the .pte file."""


def to_pte(exported_program: Any, compile_spec: Any = None, **options: Any) -> ExecutorchProgram:
    """Compiles an exported program that PT2E has quantized.

    compile_spec  the EthosUCompileSpec of the script: its target, system configuration and memory mode are used. Or the target's name
    options       those of swoop.compile
    """
    if isinstance(compile_spec, str):
        options["target"] = compile_spec
    elif compile_spec is not None:
        options = {**_options_of(compile_spec), **options}
    program = compile(exported_program, **options)
    return ExecutorchProgram(program.bytes, program.json)


def _options_of(compile_spec: Any) -> dict[str, str]:
    """The spec holds Vela's command line."""
    flags = dict(flag.split("=", 1) for flag in compile_spec.compiler_flags if "=" in flag)
    names = {"--accelerator-config": "target", "--system-config": "system_config", "--memory-mode": "memory_mode", "--optimise": "optimise"}
    options = {name: flags[flag] for flag, name in names.items() if flag in flags}
    if flags.get("--config", "Arm/vela.ini") != "Arm/vela.ini":  # swoop contains that one
        options["config"] = flags["--config"]
    return options
