"""Writes the small Ethos-U programs of test/data/npu: for each kind the smallest graph that the executor runs, with
inputs and the reference model's outputs. They let the C++ tests and the fuzzer work without Python. Run again after
a change of the generator.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test"))

import npu_cases  # noqa: E402
import npu_exec  # noqa: E402

KINDS = {
    "ethos-u55-128": ["conv", "depthwise", "add_sub", "table", "avg_pool", "max_pool"],
    "ethos-u65-512": ["conv", "move"],
    "ethos-u85-256": ["conv", "conv_then", "two_elementwise", "resize", "gather", "matmul", "branch", "reduce"],
}


def main():
    folder = ROOT / "test" / "data" / "npu"
    folder.mkdir(parents=True, exist_ok=True)
    for target, kinds in KINDS.items():
        for kind in kinds:
            made = []
            for seed in range(20 * len(npu_cases.FAMILIES)):
                if npu_cases.FAMILIES[seed % len(npu_cases.FAMILIES)].__name__ != kind:
                    continue
                _, tosa, inputs, _ = npu_cases.case(seed)
                try:
                    model = npu_exec.compile_tosa(tosa, target)
                except RuntimeError:
                    continue
                size = len(npu_exec.pack(model)) + sum(x.nbytes for x in inputs)
                if sum(x.nbytes for x in inputs) >= 96:
                    made.append((size, seed, tosa, inputs, model))
            for _, _, tosa, inputs, model in sorted(made, key=lambda m: m[:2]):
                outputs = b"".join(np.ascontiguousarray(o).tobytes() for o in npu_exec.reference(tosa, inputs))
                stem = f"{kind}_{target}"
                with tempfile.TemporaryDirectory() as work:
                    npu_exec.write_case(Path(work), stem, model, inputs)
                    if npu_exec.run_folder(work)[stem] != "ok" or (Path(work) / f"{stem}.out").read_bytes() != outputs:
                        continue
                npu_exec.write_case(folder, stem, model, inputs)
                (folder / f"{stem}.out").write_bytes(outputs)
                break


if __name__ == "__main__":
    main()
