"""swoop and ExecuTorch on the networks of networks.py: cycles, bytes, SRAM, accuracy, time and memory. Writes docs/benchmarks.md.

    compare.py [--models NAME,...] [--timeout SECONDS] [--fresh] [--only swoop|peer] [--page FILE]

The peer takes minutes for some networks, so its figures are kept in the build folder (bench/compare.json) and measured again with --fresh
only. Ours are measured in every run. Each side works from the same .pt2 and the same samples: quantization, compile, and the SQNR of the
result against the float model on inputs that no range was measured on. Ratios of time are of processor time, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

from bench import BUILD, HERE, ROOT, Failed, made, peer

TARGETS = ["ethos-u55-128", "ethos-u85-256"]
CONFIGURATIONS = {  # of the peer: those that our targets have by default
    "ethos-u55-128": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u85-256": ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
}
CONVOLUTIONS = ["kws_dscnn", "ic_resnet8", "ad_autoencoder", "vww_mobilenetv1_025", "mobilenetv2_100", "yolo_tiny", "unet_small", "effnet_se"]
SIZES = [1_000, 10_000, 100_000]  # nodes of the curve
KEPT = BUILD / "bench" / "compare.json"


def network_names():
    """From a process of its own: with PyTorch in this one, a child would begin with its memory as the peak."""
    done = subprocess.run([sys.executable, HERE / "models.py", "names"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def measured(*arguments):
    """Standard output of swoop, the seconds of processor time that it and its children took, and its peak memory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as problems:
        process = subprocess.Popen([BUILD / "swoop", *map(str, arguments)], stdout=out, stderr=problems)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        problems.seek(0)
        if process.returncode:
            raise Failed((problems.read().decode().strip().splitlines() or ["no words"])[-1][:200])
        return out.read().decode(), usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss


def ours(model, target, folder):
    common = ["compile", model, "--calibrate", model.with_suffix(".npz"), "--target", target, "-o", f"{folder}/m.pte", "--json"]
    summary = json.loads(measured(*common, "--test", model.with_suffix(".test.npz"))[0])
    text, cpu, peak = measured(*common)  # as a user builds it, checked on the samples
    nhwc = json.loads(measured(*common, "--no-verify", "--io-layout", "nhwc")[0])
    stages = {stage: ms for stage, ms in json.loads(text)["processor_milliseconds"].items() if isinstance(ms, (int, float))}
    decibels = [db for db in (summary["accuracy"] or {}).get("sqnr_db", []) if db is not None]
    return {
        "total_cycles": summary["totals"]["total_cycles"],
        "nhwc_cycles": nhwc["totals"]["total_cycles"],
        "sram_bytes": summary["totals"]["sram_bytes"],
        "pte_bytes": summary["pte_bytes"],
        "moved": [word for word, key in [("products", "computed_products"), ("kept", "kept_weights"), ("ahead", "weights_ahead")] if any(region[key] for region in summary["regions"])],
        "delegates": summary["delegates"],
        "host_ops": len(summary["host_ops"]),
        "sqnr_db": min(decibels, default=None),
        "cpu_seconds": cpu,
        "own_seconds": sum(ms for stage, ms in stages.items() if stage not in ("npu", "verify", "total")) / 1e3,
        "peak_bytes": peak,
    }


def theirs(model, timeout, folder):
    """Quantized once, compiled for each target. What fails is a sentence."""
    entry = {}
    try:
        int8 = f"{folder}/int8.pt2"
        entry["quantize"] = peer(timeout, "quantize", model, model.with_suffix(".npz"), "x", int8, model.with_suffix(".test.npz"))
    except Failed as problem:
        return {"error": str(problem)}
    for target in TARGETS:
        try:
            entry[target] = peer(timeout, "lower", int8, target, *CONFIGURATIONS[target])
        except Failed as problem:
            entry[target] = {"error": str(problem)}
    return entry


def chain(nodes):
    """A graph of that many nodes as text: sums on int8 and transposes there and back."""
    first, last = "i8[1,8,8,16] q(0.05, 0)", "i8[1,16,8,8] q(0.05, 0)"
    lines, value = [f'graph "main" (%x: {first})'], "%x"
    for i in range(0, nodes - 2, 3):
        lines += [f"  %a{i} = add {value}, %x : {first}", f"  %b{i} = transpose %a{i} perm=[0,3,1,2] : {last}",
                  f"  %c{i} = transpose %b{i} perm=[0,2,3,1] : {first}"]
        value = f"%c{i}"
    return "\n".join([*lines, f"  return {value}"]) + "\n"


def curve(folder):
    rows = []
    for nodes in SIZES:
        text = pathlib.Path(folder, f"chain{nodes}.ir")
        text.write_text(chain(nodes))
        _, cpu, peak = measured("compile", text, "--stop-after", "lower", "-o", f"{folder}/c.pte")
        rows.append({"nodes": nodes, "cpu_seconds": cpu, "peak_bytes": peak})
    return rows


def mean(ratios):
    ratios = [ratio for ratio in ratios if ratio]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def both(results, target, whole=False):
    """(name, ours, the peer's) where both have the network; whole: the peer's NPU computes it in one part."""
    for name, entry in results["networks"].items():
        mine, other = entry.get("swoop", {}).get(target, {}), entry.get("peer", {}).get(target, {})
        if "error" not in mine and "error" not in other and mine and other and (other["delegates"] == 1 or not whole):
            yield name, mine, other


def ratios(results, target, whole, key, names=None):
    return {name: mine[key] / other[key if key != "nhwc_cycles" else "total_cycles"]
            for name, mine, other in both(results, target, whole) if names is None or name in names}


def number(value, form=",.0f"):
    return "" if value is None else format(value, form)


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def cycles_table(results, target):
    rows = []
    for name, entry in results["networks"].items():
        mine, other = entry.get("swoop", {}).get(target), entry.get("peer", {}).get(target, entry.get("peer"))
        if not mine:
            continue
        known = other if other and "error" not in other else None
        said = (other or {}).get("error", "") if not known else ""
        split = f" in {known['delegates']} parts" if known and known["delegates"] > 1 else ""
        if "error" in mine:
            rows.append([name, mine["error"], "", "", "", "", "", "", ""])
            continue
        peers = f"{known['total_cycles'] / 1e3:,.1f}{split}" if known else f"fails: {said[:60]}" if said else "not measured"
        ratio = lambda key: f"{mine[key] / known[key]:.3f}" if known and known[key] else ""
        sqnr = entry.get("peer", {}).get("quantize", {}).get("sqnr_db")
        moved = f" ({', '.join(mine['moved'])})" if mine["moved"] else ""
        rows.append([name, f"{mine['total_cycles'] / 1e3:,.1f}{moved}", peers, ratio("total_cycles"),
                     f"{mine['nhwc_cycles'] / 1e3:,.1f}", f"{mine['pte_bytes'] / 1e3:,.1f}", ratio("pte_bytes"), f"{mine['sram_bytes'] / 1024:,.1f}", ratio("sram_bytes"),
                     number(mine["sqnr_db"], ".1f"), number(sqnr, ".1f")])
    head = ["network", "kcycles", "peer", "ratio", "nhwc", ".pte kB", "ratio", "SRAM KiB", "ratio", "SQNR dB", "peer"]
    return markdown(head, rows)


def means_table(results):
    rows = []
    for target, whole in ((target, whole) for target in TARGETS for whole in (True, False)):
        networks = list(both(results, target, whole))
        above = [mine["sqnr_db"] - results["networks"][name]["peer"]["quantize"]["sqnr_db"] for name, mine, _ in networks if mine["sqnr_db"] is not None]
        figures = [mean(ratios(results, target, whole, key).values()) for key in ("total_cycles", "nhwc_cycles", "pte_bytes")]
        figures.insert(1, mean(ratios(results, target, whole, "total_cycles", CONVOLUTIONS).values()))
        rows.append([target, f"{len(networks)}, {'one part' if whole else 'all'}", *(number(figure, ".3f") for figure in figures),
                     number(sum(above) / len(above) if above else None, "+.1f")])
    return markdown(["target", "networks", "cycles", "of convolution networks", "with `--io-layout nhwc`", ".pte bytes", "SQNR dB above, mean"], rows)


def time_table(results):
    rows = []
    for name, entry in results["networks"].items():
        mine, other = entry.get("swoop", {}).get(TARGETS[0], {}), entry.get("peer", {})
        whole = other.get(TARGETS[0], {})
        if "cpu_seconds" not in mine or "cpu_seconds" not in whole:
            continue
        seconds = other["quantize"]["cpu_seconds"] + whole["cpu_seconds"]
        rows.append([name, f"{mine['own_seconds'] * 1e3:,.0f}", f"{mine['cpu_seconds'] * 1e3:,.0f}", f"{seconds:,.1f}", f"{seconds / mine['own_seconds']:,.0f}",
                     f"{seconds / mine['cpu_seconds']:,.0f}", f"{mine['peak_bytes'] / 1e6:,.0f}", f"{whole['peak_bytes'] / 1e6:,.0f}"])
    if rows:
        columns = [[float(row[i].replace(",", "")) for row in rows] for i in (4, 5)]
        rows.append(["geometric mean", "", "", "", f"{mean(columns[0]):,.0f}", f"{mean(columns[1]):,.0f}", "", ""])
    return markdown(["network", "own stages ms", "whole ms", "peer s", "ratio, own", "ratio, whole", "peak MB", "peer's peak MB"], rows)


def prose(text):
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n"


def page(results):
    machine = results["machine"]
    curve_rows = [[f"{row['nodes']:,}", f"{row['cpu_seconds']:.2f}", f"{row['cpu_seconds'] / row['nodes'] * 1e6:.1f}", f"{row['peak_bytes'] / 1e6:.0f}"] for row in results["curve"]]
    busy = "; the machine was busy, so take times as rough figures" if machine["load"] > 1 else ""
    parts = [
        "# Benchmarks\n",
        prose("`make bench` writes this page: swoop and ExecuTorch's Arm backend on the same `.pt2` files and samples (`bench/networks.py`, random weights). "
              "Cycles and SRAM are the estimates of Arm's own estimator for both. SQNR is that of the worst output against the float model, on 32 inputs that no range was "
              "measured on (4 for LayerNorm and Whisper). A ratio below 1 means that swoop needs less. Where cycles are \"kept\", weights that several operations "
              "share stay in SRAM; where they are \"ahead\", weights are fetched while earlier layers compute; where they are \"products\", the NPU writes the second "
              "matrix of a product as weights. The estimator knows none of these: [run.md](run.md#products-of-two-computed-matrices) says what is changed in its figures."),
        prose(f"Measured on {results['when']}, {machine['cores']} cores, load {machine['load']:.1f} at the start{busy}. The peer's figures are of "
              f"{results.get('peer_when', 'no day yet')}."),
        "## Geometric means against the peer\n",
        prose("\"One part\": of the networks that the peer's NPU computes in one part. Of the others its cycles leave out what its host computes, "
              "so that they compare two different things."),
        means_table(results),
    ]
    for target in TARGETS:
        parts += [f"## {target}\n", cycles_table(results, target)]
    parts += [
        "## Time and memory of a build\n",
        prose(f"For {TARGETS[0]}, quantization included. All times are processor time, because the machine may be busy. \"Own stages\" leaves out regor and "
              "the check that runs the finished file; \"whole\" is all of `swoop compile`, the peer's is quantization and lowering without imports."),
        time_table(results),
        "## Many nodes\n",
        prose("A generated graph up to TOSA, text in and text out. Linear time is a constant number of microseconds per node."),
        markdown(["nodes", "processor s", "µs per node", "peak MB"], curve_rows),
        "## Next\n",
        "- What the estimates leave out: [run.md](run.md)\n- Why things are as they are: [decisions.md](decisions.md)\n",
    ]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), help="default: all of networks.py")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one measurement of the peer")
    parser.add_argument("--fresh", action="store_true", help="measure the peer again")
    parser.add_argument("--only", choices=["swoop", "peer"], help="measure one side; with peer, no page is written")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(KEPT.read_text()) if KEPT.exists() else {"networks": {}}
    results["machine"] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="swoop-bench-") as folder:
        for name in options.models or network_names():
            model, _ = made(name, "network", name)
            entry = results["networks"].setdefault(name, {})
            if options.only != "swoop" and (options.fresh or "peer" not in entry):
                entry["peer"] = theirs(model, options.timeout, folder)
                results["peer_when"] = datetime.date.today().isoformat()
            for target in [] if options.only == "peer" else TARGETS:
                try:
                    entry.setdefault("swoop", {})[target] = ours(model, target, folder)
                except Failed as problem:
                    entry["swoop"][target] = {"error": str(problem)}
            KEPT.write_text(json.dumps(results, indent=1) + "\n")
            print(f"  ... {name}", file=sys.stderr)
        if options.only == "peer":
            return
        results["curve"] = curve(folder)
    results["when"] = datetime.date.today().isoformat()
    KEPT.write_text(json.dumps(results, indent=1) + "\n")
    options.page.write_text(page(results))


if __name__ == "__main__":
    main()
