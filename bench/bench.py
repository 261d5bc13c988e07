"""swoop and ExecuTorch side by side, in one run on one machine.

    bench.py [PART ...] [--json FILE] [--repeat N] [--models NAME,...] [--targets TARGET ...] [--timeout SECONDS]

Parts (default: all):
    compile    ResNet8, .pt2 to .pte: our process from its start and its stages; the peer's lowering
    scale      1, 2, 20, 200 repetitions of a block: nanoseconds per node of each of our stages
    quantize   float to int8, 21 networks: --calibrate against prepare + calibrate + convert; and the calibration of Whisper's encoder alone
    run        the finished file on the host against the float model in eager PyTorch
    cycles     estimated NPU cycles of both compilers for the same quantized models

Every figure says from how many runs it comes. Times are wall times, and nothing else should run beside; processor time, which a busy machine
changes less, stands beside them where both sides have it. Nothing is asserted here.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve()
MODELS = ROOT / "test" / "models"
OUR_STAGES = ["import", "clean", "legalize", "partition", "lower", "emit"]  # "npu" is regor's, "verify" a second program


class Failed(Exception):
    pass


def swoop(*arguments):
    """Wall milliseconds from process start, and the JSON it printed, with the milliseconds of processor time it took."""
    start, cpu = time.perf_counter(), children_cpu()
    done = subprocess.run([BUILD / "swoop", *map(str, arguments)], capture_output=True, text=True)
    wall = (time.perf_counter() - start) * 1e3
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
    summary = json.loads(done.stdout)
    summary["cpu_ms"] = children_cpu() - cpu
    if stages := summary.get("milliseconds"):  # a stage that did not run is null
        summary["milliseconds"] = {stage: ms for stage, ms in stages.items() if isinstance(ms, (int, float))}
    return wall, summary


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e3


def peer(timeout, *arguments):
    try:
        done = subprocess.run([sys.executable, HERE / "peer.py", *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not finish in {timeout} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Failed(f"exit code {done.returncode}: {lines[-1][:100] if lines else ''}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def lowered(options, model, summary):
    """The peer's compile with the target and the configuration of ours."""
    return peer(options.timeout, "lower", model, summary["target"], summary["system_config"], summary["memory_mode"])


def table(title, head, rows, note=""):
    cells = [list(map(str, head)), *[list(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())
    if note:
        print("  " + note)
    sys.stdout.flush()


def wanted(options, names):
    """Those of the names that --models asks for; all of them where it says nothing."""
    return [name for name in names if not options.models or name in options.models]


def made(name, *arguments):
    """A model of models.py, kept in the build folder; with the number of its nodes."""
    folder = BUILD / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path, count = folder / f"{name}.pt2", folder / f"{name}.nodes"
    newest = max((HERE / source).stat().st_mtime for source in ("models.py", "networks.py", "encoders.py"))
    stale = not count.exists() or count.stat().st_mtime < newest
    if stale:
        done = subprocess.run([sys.executable, HERE / "models.py", *arguments, path], capture_output=True, text=True, check=True)
        count.write_text(done.stdout.strip().splitlines()[-1])
    return path, int(count.read_text())


def bench_compile(options, folder):
    runs = [swoop("compile", MODELS / "resnet8_int8.pt2", "-o", f"{folder}/r.pte", "--json", "--no-verify") for _ in range(options.repeat)]
    with_check = [swoop("compile", MODELS / "resnet8_int8.pt2", "-o", f"{folder}/r.pte", "--json") for _ in range(options.repeat)]
    checked = [wall for wall, _ in with_check]
    cpu = min(summary["cpu_ms"] for _, summary in with_check)
    walls = [wall for wall, _ in runs]
    best = min(runs, key=lambda run: run[0])[1]["milliseconds"]
    result = {
        "runs": options.repeat,
        "swoop_ms": {"best": min(walls), "median": statistics.median(walls)},
        "swoop_with_proof_ms": {"best": min(checked), "median": statistics.median(checked)},
        "swoop_with_proof_cpu_ms": cpu,
        "stages_ms": best,
        "own_stages_ms": sum(best.get(stage, 0) for stage in OUR_STAGES),
    }
    rows = [
        ["swoop compile, process start to file", f"{min(walls):.1f}", f"{statistics.median(walls):.1f}", options.repeat],
        ["  the same with the check of the file (default)", f"{min(checked):.1f}", f"{statistics.median(checked):.1f}", options.repeat],
        ["  its processor time, check included", f"{cpu:.1f}", "", options.repeat],
        ["  of the best: our own stages", f"{result['own_stages_ms']:.2f}", "", ""],
        *[[f"    {stage}", f"{ms:.2f}", "", ""] for stage, ms in best.items() if stage != "total"],
    ]
    try:
        theirs = result["peer"] = lowered(options, MODELS / "resnet8_int8.pt2", runs[0][1])
        result["ratio"] = theirs["seconds"] * 1e3 / min(checked)
        result["cpu_ratio"] = theirs["cpu_seconds"] * 1e3 / cpu
        rows += [
            ["ExecuTorch, lower + to_executorch", f"{theirs['seconds'] * 1e3:.1f}", "", 1],
            ["  its processor time", f"{theirs['cpu_seconds'] * 1e3:.1f}", "", 1],
            ["  its imports, not counted", f"{theirs['import_seconds'] * 1e3:.1f}", "", 1],
            ["ratio to swoop with the check", f"{result['ratio']:.0f}", "", ""],
            ["  of processor time", f"{result['cpu_ratio']:.0f}", "", ""],
        ]
    except Failed as problem:
        result["peer_error"] = str(problem)
        rows.append([f"ExecuTorch: {problem}", "", "", 1])
    table("ResNet8, int8 .pt2 to .pte for ethos-u55-128 (ms)", ["", "best", "median", "runs"], rows)
    return result


def bench_scale(options, folder):
    result, rows = {"runs": options.repeat, "sizes": []}, []
    for count in (1, 2, 20, 200):
        model, nodes = made(f"chain{count}", "chain", str(count))
        best = {}
        for _ in range(options.repeat):
            _, summary = swoop("compile", model, "-o", f"{folder}/c.pte", "--json", "--no-verify")
            for stage, ms in summary["milliseconds"].items():
                best[stage] = min(best.get(stage, ms), ms)
        per_node = {stage: best.get(stage, 0) * 1e6 / nodes for stage in OUR_STAGES}
        result["sizes"].append({"blocks": count, "nodes": nodes, "ns_per_node": per_node, "milliseconds": best, "delegates": summary["delegates"]})
        total = sum(per_node.values())
        rows.append([count, nodes, *[f"{per_node[stage]:.0f}" for stage in OUR_STAGES], f"{total:.0f}", f"{best['npu'] * 1e6 / nodes:.0f}"])
    table("Time per node (ns), a block repeated; best of the runs per stage", ["blocks", "nodes", *OUR_STAGES, "ours", "npu (regor)"], rows,
          f"{options.repeat} runs each; nodes are those of the .pt2, q/dq included; one block shows the fixed cost of a stage")
    return result


def bench_quantize(options, folder):
    sys.path.insert(0, str(HERE))
    from networks import NETWORKS

    runs = min(3, options.repeat)
    result, rows = {"runs": runs, "models": []}, []
    ours_total = theirs_total = 0.0
    for name in wanted(options, NETWORKS):
        model, _ = made(name, "network", name)
        entry = {"model": name}
        result["models"].append(entry)
        who = "swoop"
        try:
            attempts = [swoop("compile", model, "--calibrate", model.with_suffix(".npz"), "-o", f"{folder}/q.pte", "--json", "--no-verify")[1]
                        for _ in range(runs)]
            ours = entry["swoop_ms"] = statistics.median(summary["milliseconds"]["quantize"] for summary in attempts)
            who = "peer"
            entry["peer"] = peer(options.timeout, "quantize", model, model.with_suffix(".npz"), "x")
        except Failed as problem:
            entry[f"{who}_error"] = str(problem)
            rows.append([name, "", f"{ours:.1f}" if who == "peer" else "", "", f"{who} fails: {problem}"])
            continue
        theirs = entry["peer"]["seconds"] * 1e3
        ours_total, theirs_total = ours_total + ours, theirs_total + theirs
        rows.append([name, entry["peer"]["samples"], f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.0f}"])
        print(f"  ... {name}", file=sys.stderr)
    if ours_total:
        result["total"] = {"swoop_ms": ours_total, "peer_ms": theirs_total, "ratio": theirs_total / ours_total}
        rows.append(["total", "", f"{ours_total:.1f}", f"{theirs_total:.1f}", f"{theirs_total / ours_total:.1f}"])
    table("Float to int8 (ms)", ["model", "samples", "swoop", "peer", "ratio"], rows,
          f"swoop: the quantize stage, median of {runs}, reading the samples included; peer: prepare + calibrate + convert, 1 run, imports and "
          "loading not counted; what one of them cannot do is in neither total")
    whisper = next((entry for entry in result["models"] if entry["model"] == "whisper_tiny_enc4"), {})
    if "peer" in whisper and "swoop_ms" in whisper:
        result["calibration"] = calibration(made("whisper_tiny_enc4", "network", "whisper_tiny_enc4")[0], whisper["peer"], runs, folder)
    return result


def calibration(model, theirs, runs, folder):
    """Executing the float model on the samples and measuring every range, nothing else."""
    test = f"{folder}/test.npz"  # the tool goes on to measure accuracy: on one sample, which is quick
    np.savez(test, x=np.load(model.with_suffix(".npz"))["x"][:1])
    times = []
    for _ in range(runs):
        done = subprocess.run([BUILD / "swoop_test_tool", "quantize", model, model.with_suffix(".npz"), test], capture_output=True, text=True, check=True)
        words = done.stdout.split()
        times.append(float(words[words.index("calibrate_seconds") + 1]) * 1e3)
    ours, peers = statistics.median(times), theirs["calibrate_seconds"] * 1e3
    table("Calibration alone, Whisper-tiny's encoder, 4 layers of 1500 x 384 (ms)", ["", "ms", "runs"],
          [["swoop: float execution and its measurements", f"{ours:.1f}", runs], ["PyTorch: the module of prepare_pt2e", f"{peers:.1f}", 1],
           ["ratio", f"{peers / ours:.2f}", ""]], f"{theirs['samples']} samples, {os.cpu_count()} cores for both")
    return {"swoop_ms": ours, "peer_ms": peers, "ratio": peers / ours, "samples": theirs["samples"]}


def bench_run(options, folder):
    result, rows = {"models": []}, []
    mobilenet, _ = made("mobilenet_v2", "mobilenet_v2")
    rng = np.random.default_rng(0)
    runs = max(options.repeat, 5)
    for name, model, shape in [("mobilenet_v1 0.25, 96x96", MODELS / "mobilenet_v1.pt2", (1, 3, 96, 96)),
                               ("mobilenet_v2 1.0, 224x224", mobilenet, (1, 3, 224, 224))]:
        arrays = pathlib.Path(folder) / "inputs.npz"
        np.savez(arrays, x=rng.standard_normal((runs, *shape), dtype=np.float32))
        eager = peer(options.timeout, "eager", model, arrays, "x", runs)
        for target in options.targets:
            entry = {"model": name, "target": target, "peer": eager}
            result["models"].append(entry)
            try:
                program = f"{folder}/m.pte"
                swoop("compile", model, "--calibrate", arrays, "--target", target, "-o", program, "--json", "--no-verify")
                attempts = [swoop("run", program, "--inputs", arrays, "-o", f"{folder}/y.npz", "--json")[1] for _ in range(3)]
                entry["swoop"] = min(attempts, key=lambda summary: summary["milliseconds_per_run"])
            except Failed as problem:
                entry["error"] = str(problem)
                rows.append([name, target, str(problem)[:60], "", "", ""])
                continue
            ours = entry["swoop"]["milliseconds_per_run"]
            entry["ratio"] = ours / eager["median_ms"]
            rows.append([name, target, f"{ours:.1f}", f"{eager['median_ms']:.1f}", f"{entry['ratio']:.2f}", runs])
    table("One inference on the host (ms): the NPU in software against float PyTorch, eager", ["model", "target", "swoop run", "PyTorch", "ratio", "runs"],
          rows, f"swoop: mean over the runs, the best of 3 processes; PyTorch: median, after two runs to warm up; both on {os.cpu_count()} cores")
    return result


def bench_cycles(options, folder):
    result, rows = {"models": []}, []
    for name in wanted(options, sorted(path.stem for path in MODELS.glob("*.npz"))):
        for target in options.targets:
            model = MODELS / f"{name}_int8.pt2"
            entry = {"model": name, "target": target}
            result["models"].append(entry)
            ours = theirs = None
            try:
                _, summary = swoop("compile", model, "--target", target, "-o", f"{folder}/e.pte", "--json", "--no-verify")
                ours = entry["swoop"] = {**summary["totals"], "delegates": summary["delegates"], "pte_bytes": summary["pte_bytes"]}
            except Failed as problem:
                entry["swoop_error"] = str(problem)
                _, summary = swoop("compile", MODELS / "resnet8_int8.pt2", "--target", target, "-o", f"{folder}/e.pte", "--json", "--no-verify")
            try:
                theirs = entry["peer"] = lowered(options, model, summary)
            except Failed as problem:
                entry["peer_error"] = str(problem)
            ratio = f"{theirs['total_cycles'] / ours['total_cycles']:.2f}" if ours and theirs and ours["total_cycles"] else ""
            rows.append([name, target, *([f"{ours['total_cycles']:,}", ours["delegates"]] if ours else [entry["swoop_error"][:40], ""]),
                         *([f"{theirs['total_cycles']:,}", theirs["delegates"], f"{theirs['seconds']:.1f}"] if theirs else [entry["peer_error"][:40], "", ""]), ratio])
            print(f"  ... {name} {target}", file=sys.stderr)
    table("Estimated cycles of the same int8 models (regor's estimator for both)",
          ["model", "target", "swoop", "regions", "peer", "regions", "peer's s", "peer / swoop"], rows, "system config and memory mode: each target's default, the same for both")
    return result


PARTS = {"compile": bench_compile, "scale": bench_scale, "quantize": bench_quantize, "run": bench_run, "cycles": bench_cycles}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--json", help="file for a copy that machines can read")
    parser.add_argument("--repeat", type=int, default=10, help="runs of each of our own measurements")
    parser.add_argument("--models", type=lambda text: text.split(","), help="for quantize those of networks.py, for cycles those of test/models")
    parser.add_argument("--targets", nargs="+", default=["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one measurement of the peer")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        machine["cpu"] = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.1f} at the start")
    results = {"machine": machine}
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="swoop-bench-") as folder:
            results[part] = PARTS[part](options, folder)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
