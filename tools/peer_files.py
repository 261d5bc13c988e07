#!/usr/bin/env python3
"""Runs the peer's own files: compiles models with ExecuTorch's Arm flow, runs each .pte with `swoop run`, and compares what leaves every NPU
region with the TOSA reference model on the peer's TOSA for that region, bit for bit.

    .venv/bin/python tools/peer_files.py MODEL... [--target ethos-u55-128]... [--swoop build/release/swoop] [--runs 2] [--timeout 900]

MODEL is a .pt2 file, quantized (q/dq) or float, with its samples in NAME.npz (arrays `calibrate` and `test`, for models of one input); or a
folder with int8.pt2 or model.pt2, test.npz and calibrate.npz (one array per input). The first axis counts the samples. Where there are none
the inputs that were saved with the program are used. A float model is quantized by the peer first.
A folder may hold the peer's file from another day, peer_TARGET.pte: that one is run if its regions are those of today's.

The exit code is 1 when a region's numbers differ, or when nothing was compared. What was not compared is listed with its reason.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest.mock

import numpy as np

SYSTEM = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
}


def isolated(function, *arguments, timeout):
    """(result, None) or (None, why not): in a process of its own, because the peer crashes and runs for ever."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        if not receiver.poll(timeout):
            return None, f"not finished after {timeout} s"
        result = receiver.recv()
        process.join(10)
        return result
    except EOFError:
        process.join()
        return None, f"killed by {signal.Signals(-process.exitcode).name}" if process.exitcode < 0 else f"exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()


def answer(sender, function, arguments):
    with open(os.devnull, "w") as nothing:  # the peer is talkative
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    try:
        sender.send((function(*arguments), None))
    except BaseException as error:
        while error.__cause__ is not None:  # the peer's pass manager wraps the failure of a pass
            error = error.__cause__
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        sender.send((None, f"{type(error).__name__}: {lines[-1] if lines else ''}"))


# ---- the peer


def find_model(path):
    """The .pt2 file and its samples as lists of tuples: (file, calibrate, test)"""

    def stacked(arrays):
        return [tuple(sample) for sample in zip(*arrays)]

    if path.is_dir():
        found = {p.stem: np.load(p) for p in (path / "calibrate.npz", path / "test.npz") if p.exists()}
        samples = {kind: stacked([npz[k] for k in npz.files]) for kind, npz in found.items()}
        file = path / "int8.pt2" if (path / "int8.pt2").exists() else path / "model.pt2"
        return file, samples.get("calibrate", []), samples.get("test", [])
    npz = path.with_name(path.stem.removesuffix("_int8") + ".npz")
    arrays = np.load(npz) if npz.exists() else {}
    return path, *(stacked([arrays[kind]]) if kind in arrays else [] for kind in ("calibrate", "test"))


def quantized_module(program, spec, samples):
    """As the peer's quantizer makes it: float, with q/dq pairs."""
    import torch
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = EthosUQuantizer(spec)
    quantizer.set_global(get_symmetric_quantization_config())
    module = program.module(check_guards=False)
    with torch.no_grad():
        if any(isinstance(n.target, torch._ops.HigherOrderOperator) for n in program.graph.nodes):
            quantized = quantizer._quantize_with_submodules(module, samples)  # the public calls leave the branches of torch.cond in float
        else:
            prepared = prepare_pt2e(module, quantizer)
            for inputs in samples:
                prepared(*inputs)
            quantized = convert_pt2e(prepared)
    return quantized


def quantize(program, spec, samples):
    import torch

    return torch.export.export(quantized_module(program, spec, samples), samples[0])


def compile_with_peer(path, target, folder):
    """Writes model.pte, the TOSA and the blob of each region, numbered as in the file, and the inputs; (regions, which file it is)"""
    import executorch.backends.arm.ethosu.backend as backend
    import executorch.kernels.quantized  # noqa: F401: registers kernels that the borders of a region need
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

    file, calibrate, test = find_model(path)
    system, memory = SYSTEM[target.rsplit("-", 1)[0]]
    spec = EthosUCompileSpec(target=target, system_config=system, memory_mode=memory)
    compiled = []  # (TOSA, blob) of each call of Vela

    def recorded(tosa, *arguments, **options):
        result = vela_compile(tosa, *arguments, **options)
        compiled.append((bytes(tosa), bytes(result.processed_bytes)))
        return result

    vela_compile = backend.vela_compile
    program = torch.export.load(file)
    example = [tuple(x.numpy() for x in program.example_inputs[0])]
    if not any("quantized_decomposed" in str(n.target) for m in program.graph_module.modules() for n in m.graph.nodes):
        program = quantize(program, spec, [tuple(map(torch.from_numpy, map(np.copy, xs))) for xs in calibrate or example])
    with unittest.mock.patch.object(backend, "vela_compile", recorded):
        edge = to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)], compile_config=EdgeCompileConfig(_check_ir_validity=False))
    made = edge.to_executorch(config=ExecutorchBackendConfig(extract_delegate_segments=False)).buffer
    (folder / "model.pte").write_bytes(made)
    older = path / f"peer_{target}.pte"
    use = "new"
    if older.exists():
        same = blobs(older.read_bytes()) == blobs(made)
        use = "stored" if same else "new, the stored one differs"
        if same:
            (folder / "model.pte").write_bytes(older.read_bytes())
    regions = blobs((folder / "model.pte").read_bytes())
    for index, blob in enumerate(regions):
        tosa = next(tosa for tosa, processed in compiled if processed == blob)
        (folder / f"region{index}.tosa").write_bytes(tosa)
        (folder / f"region{index}.blob").write_bytes(blob)
    for index, inputs in enumerate(test or calibrate or example):
        np.savez(folder / f"in{index}.npz", **{f"x{i}": x for i, x in enumerate(inputs)})
    return len(regions), use


def blobs(pte):
    """The delegates' data in the order of the file."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    program = deserialize_pte_binary(pte).program
    (plan,) = program.execution_plan
    return [bytes(program.backend_delegate_data[d.processed.index].data) for d in plan.delegates]


# ---- ours against the reference


def difference(folder, region):
    """None when ours is the reference's, else what differs."""
    import tosa.TosaGraph
    import tosa_reference_model

    flatbuffer = (folder / f"region{region}.tosa").read_bytes()
    block = tosa.TosaGraph.TosaGraph.GetRootAs(flatbuffer, 0).Regions(0).Blocks(0)
    shapes = {t.Name(): t.ShapeAsNumpy() for t in map(block.Tensors, range(block.TensorsLength()))}
    inputs = [np.load(folder / "dump" / f"region{region}_in{i}.npy") for i in range(block.InputsLength())]
    inputs = [x.reshape([int(n) for n in np.atleast_1d(shapes[block.Inputs(i)])]) for i, x in enumerate(inputs)]
    outputs, status = tosa_reference_model.run(flatbuffer, inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=True)
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the TOSA reference model says {status}")
    written = len(list((folder / "dump").glob(f"region{region}_out*.npy")))
    if written != len(outputs):
        return f"{written} outputs instead of {len(outputs)}"
    for i, wanted in enumerate(outputs):
        got = np.load(folder / "dump" / f"region{region}_out{i}.npy")
        wrong = got.size if got.size != wanted.size or got.dtype != wanted.dtype else int(np.sum(got.ravel() != wanted.ravel()))
        if wrong:
            return f"output {i}: {wrong} of {wanted.size} elements"
    return None


def run(swoop, folder, index, regions, timeout):
    """What became of each region with one set of inputs: [(verdict, why)]"""
    command = [swoop, "run", folder / "model.pte", "--inputs", folder / f"in{index}.npz", "--dump", folder / "dump"]
    for file in (folder / "dump").glob("*"):
        file.unlink()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return [("not run", f"`swoop run` not finished after {timeout} s")] * regions
    if done.returncode != 0:
        sentence = done.stderr.strip().split(f"{folder / 'model.pte'}: ", 1)[-1]
        if done.returncode != 1:
            return [("differs", f"`swoop run` ended with {done.returncode}: {sentence}")] * regions
        named = re.search(r"[Rr]egion (\d+)", sentence)
        guilty = range(regions) if named is None else [int(named[1])]
        return [("refused", sentence) if region in guilty else ("not run", f"region {named[1]} is refused") for region in range(regions)]
    verdicts = []
    for region in range(regions):
        if not list((folder / "dump").glob(f"region{region}_out*.npy")):
            verdicts.append(("not run", "these inputs do not reach it"))
            continue
        found, failure = isolated(difference, folder, region, timeout=timeout)
        verdicts.append(("not run", failure) if failure else ("differs", found) if found else ("equal", ""))
    return verdicts


def compare(path, target, options, folder):
    """[(verdict, why)] per region, and a note."""
    start = time.monotonic()
    made, failure = isolated(compile_with_peer, path, target, folder, timeout=options.timeout)
    if failure:
        return [("peer fails", failure)], ""
    regions, use = made
    seconds = [time.monotonic() - start]
    if not regions:
        return [("not run", "the peer makes no region")], ""
    order = ("differs", "refused", "equal", "not run")  # the worst of all runs; reached once is reached
    verdicts = [("not run", "")] * regions
    for index in range(min(options.runs, len(list(folder.glob("in*.npz"))))):
        verdicts = [min(pair, key=lambda v: order.index(v[0])) for pair in zip(run(options.swoop, folder, index, regions, options.timeout), verdicts)]
    seconds.append(time.monotonic() - start - seconds[0])
    return verdicts, f"file: {use}; peer {seconds[0]:.0f} s, compare {seconds[1]:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--target", action="append", help="ethos-u55-128 and ethos-u85-256 when not given")
    parser.add_argument("--swoop", type=pathlib.Path, default=pathlib.Path("build/release/swoop"))
    parser.add_argument("--runs", type=int, default=2, help="samples to run: all branches of a program should be reached")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for each step")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files that were made")
    options = parser.parse_args()
    count = collections.Counter()
    print("| model | target | region | verdict | why | note |\n|---|---|--:|---|---|---|")
    for path in options.models:
        for target in options.target or ["ethos-u55-128", "ethos-u85-256"]:
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                if options.keep:
                    folder = options.keep / f"{path.stem}_{target}"
                    folder.mkdir(parents=True, exist_ok=True)
                verdicts, note = compare(path, target, options, folder)
            count.update(verdict for verdict, _ in verdicts)
            for region, (verdict, why) in enumerate(verdicts):
                print(f"| {path.stem} | {target} | {region} | {verdict} | {why} | {note if region == 0 else ''} |", flush=True)
    print("regions: " + ", ".join(f"{count[v]} {v}" for v in ("equal", "differs", "refused", "not run", "peer fails")))
    return 1 if count["differs"] or not count["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
