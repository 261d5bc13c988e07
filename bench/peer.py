"""One measurement of ExecuTorch's own flow in a process of its own, as JSON on the last line. bench.py calls it.

    peer.py lower    MODEL_int8.pt2 TARGET SYSTEM_CONFIG MEMORY_MODE   to_edge_transform_and_lower + to_executorch, and Vela's summary
    peer.py quantize MODEL.pt2 SAMPLES.npz ARRAY [INT8.pt2 TEST.npz]   prepare_pt2e, calibration, convert_pt2e; keeps the result, measures SQNR
    peer.py eager    MODEL.pt2 SAMPLES.npz ARRAY RUNS                  the float model in PyTorch, milliseconds per run

Imports are timed apart: a process pays them once, whatever it compiles. A process per measurement, because a crash must not take the others
with it and because nothing is warm that would not be warm for a user.
"""

from __future__ import annotations

import collections
import csv
import json
import math
import pathlib
import resource
import sys
import tempfile
import time
import warnings


def seconds_of(action):
    start = time.perf_counter()
    value = action()
    return value, time.perf_counter() - start


def vela_totals(folders):
    """Sums of Vela's summaries, one per delegate."""
    rows = []
    for folder in folders:
        for path in sorted(pathlib.Path(folder, "output").glob("*_summary_*.csv")):
            with open(path, newline="") as file:
                rows += list(csv.DictReader(file))
    columns = {"npu_cycles": "cycles_npu", "total_cycles": "cycles_total", "macs": "nn_macs"}
    totals = {name: int(sum(float(row[column]) for row in rows)) for name, column in columns.items()}
    kib = [float(row["sram_memory_used"]) for row in rows]  # delegates run one after the other in the same SRAM
    return {**totals, "sram_bytes": int(1024 * max(kib, default=0))}


def host_operators(program):
    """Kernels that the program calls beside its delegates, with counts; those of the borders between float and int8 are not counted."""
    (plan,) = program.execution_plan
    called = [plan.operators[i.instr_args.op_index].name for chain in plan.chains for i in chain.instructions if hasattr(i.instr_args, "op_index")]
    return dict(collections.Counter(name for name in called if "quantize_per_tensor" not in name))


def peak_bytes():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def lower(model, target, system_config, memory_mode):
    def imports():
        import executorch.backends.arm.ethosu.backend as backend
        import executorch.kernels.quantized  # noqa: F401  (the border's kernels)
        import torch
        from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
        from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
        from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

        return backend, torch, EthosUCompileSpec, EthosUPartitioner, EdgeCompileConfig, to_edge_transform_and_lower

    modules, import_seconds = seconds_of(imports)
    backend, torch, EthosUCompileSpec, EthosUPartitioner, EdgeCompileConfig, to_edge_transform_and_lower = modules

    work = tempfile.TemporaryDirectory(prefix="swoop-bench-")
    folders = []
    compile_with_vela = backend.vela_compile

    def kept(tosa, args, **options):  # keeps Vela's summary, which its caller throws away
        folder = pathlib.Path(work.name, str(len(folders)))
        folder.mkdir()
        folders.append(folder)
        return compile_with_vela(tosa, args, **{**options, "intermediate_path": str(folder)})

    backend.vela_compile = kept
    program, load_seconds = seconds_of(lambda: torch.export.load(model))
    nodes = len(program.graph.nodes)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target, system_config=system_config, memory_mode=memory_mode))
    config = EdgeCompileConfig(_check_ir_validity=False)
    cpu = time.process_time()
    edge, lower_seconds = seconds_of(lambda: to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=config))
    finished, emit_seconds = seconds_of(edge.to_executorch)
    cpu = time.process_time() - cpu
    return {
        "import_seconds": import_seconds,
        "load_seconds": load_seconds,
        "lower_seconds": lower_seconds,
        "to_executorch_seconds": emit_seconds,
        "seconds": lower_seconds + emit_seconds,
        "cpu_seconds": cpu,
        "nodes": nodes,
        "delegates": len(folders),
        "host_ops": host_operators(finished.executorch_program),
        "pte_bytes": len(finished.buffer),
        "peak_bytes": peak_bytes(),
        **vela_totals(folders),
    }


def samples_of(path, array):
    import numpy as np
    import torch

    return [torch.from_numpy(sample) for sample in np.load(path)[array]]


def sqnr_db(module, quantized, inputs):
    """Signal over noise of the worst output, over all inputs: what swoop reports."""
    import torch
    from torch.utils._pytree import tree_leaves

    sums = {}  # signal and noise, by output
    with torch.no_grad():
        for x in inputs:
            for i, (exact, actual) in enumerate(zip(tree_leaves(module(x)), tree_leaves(quantized(x)))):
                signal, noise = sums.get(i, (0.0, 0.0))
                sums[i] = signal + float((exact.double() ** 2).sum()), noise + float(((exact.double() - actual.double()) ** 2).sum())
    return min(999.0 if noise == 0 else 10 * math.log10(signal / noise) if signal else -999.0 for signal, noise in sums.values())


def quantize(model, samples, array, int8=None, test=None):
    def imports():
        import torch
        from executorch.backends.arm.ethosu import EthosUCompileSpec
        from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        return torch, EthosUCompileSpec, EthosUQuantizer, get_symmetric_quantization_config, convert_pt2e, prepare_pt2e

    modules, import_seconds = seconds_of(imports)
    torch, EthosUCompileSpec, EthosUQuantizer, get_symmetric_quantization_config, convert_pt2e, prepare_pt2e = modules
    program, load_seconds = seconds_of(lambda: torch.export.load(model))
    inputs = samples_of(samples, array)
    module = program.module(check_guards=False)
    quantizer = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
    cpu = time.process_time()
    with torch.no_grad():
        prepared, prepare_seconds = seconds_of(lambda: prepare_pt2e(module, quantizer))
        _, calibrate_seconds = seconds_of(lambda: [prepared(x) for x in inputs])
        converted, convert_seconds = seconds_of(lambda: convert_pt2e(prepared))
    cpu = time.process_time() - cpu
    measured = {}
    if int8:
        float_module = torch.export.load(model).module(check_guards=False)
        measured["sqnr_db"] = sqnr_db(float_module, converted, samples_of(test, array))
        torch.export.save(torch.export.export(converted, (inputs[0],)), int8)
    return {
        **measured,
        "import_seconds": import_seconds,
        "load_seconds": load_seconds,
        "prepare_seconds": prepare_seconds,
        "calibrate_seconds": calibrate_seconds,
        "convert_seconds": convert_seconds,
        "seconds": prepare_seconds + calibrate_seconds + convert_seconds,
        "cpu_seconds": cpu,
        "samples": len(inputs),
    }


def eager(model, samples, array, runs):
    import torch

    module = torch.export.load(model).module(check_guards=False)
    inputs = samples_of(samples, array)
    times = []
    with torch.inference_mode():
        for i in range(int(runs) + 2):  # two to warm up
            _, seconds = seconds_of(lambda: module(inputs[i % len(inputs)]))
            times.append(seconds * 1e3)
    times = sorted(times[2:])
    return {"runs": len(times), "mean_ms": sum(times) / len(times), "median_ms": times[len(times) // 2], "threads": torch.get_num_threads()}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps({"lower": lower, "quantize": quantize, "eager": eager}[sys.argv[1]](*sys.argv[2:])))
