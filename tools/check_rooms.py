#!/usr/bin/env python3
"""Checks the rooms of src/: a file includes only its own room and those that CMakeLists.txt lets it use, rooms are entered by their
public header, no file is over 800 lines, and no room but target asks which family a core is of. Prints every fault; exit code 1 when
there is one."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 800
OPEN_ROOMS = {"support"}  # its headers are all public
PUBLIC = {  # rooms whose public header is split by topic
    "ir": {"ir.h", "graph.h", "type.h"},
    "tosa": {"tosa.h", "builder.h"},
    "run": {"run.h", "runtime.h"},
}
# A test of a core's family or encoding. Rooms ask for a fact (src/target/facts.def); what differs by encoding is a `case`, so that a new
# one does not compile instead of passing for an old one.
FAMILY_TEST = re.compile(r"NpuFamily::\w|using enum Npu|\bis_u\d\d\b|(?<!case )NpuEncoding::\w")


def rooms() -> dict[str, set[str]]:
    text = (ROOT / "CMakeLists.txt").read_text()
    return {name: set(uses.split()) for name, uses in re.findall(r"^room\((\w+)\s+USES([^)]*)\)", text, re.M)}


def main() -> int:
    faults = []
    allowed = rooms()
    for path in sorted((ROOT / "src").glob("*/*")):
        if path.suffix not in {".h", ".cpp", ".def"}:
            continue
        room = path.parent.name
        name = path.relative_to(ROOT)
        lines = path.read_text().splitlines()
        if len(lines) > MAX_LINES:
            faults.append(f"{name}: {len(lines)} lines, more than {MAX_LINES}")
        if room not in allowed:
            faults.append(f"{name}: {room} is not a room of CMakeLists.txt")
            continue
        for number, line in enumerate(lines, 1):
            if room != "target" and FAMILY_TEST.search(line):
                faults.append(f"{name}:{number}: a test of the core's family; ask for a fact of src/target/facts.def")
            match = re.match(r'#include "(\w+)/([^"]+)"', line)
            if not match or match[1] == room or match[1] not in allowed:
                continue
            used, header = match[1], match[2]
            if used not in allowed[room]:
                faults.append(f"{name}:{number}: {room} may not include {used}")
            elif used not in OPEN_ROOMS and header not in PUBLIC.get(used, {f"{used}.h"}) and not header.endswith(".def"):
                faults.append(f"{name}:{number}: {used}/{header} is private to {used}")
    # Each room's uses must stand above it: no circles.
    order = list(allowed)
    for room, uses in allowed.items():
        for used in uses:
            if order.index(used) >= order.index(room):
                faults.append(f"CMakeLists.txt: {room} uses {used}, which stands below it")
    print("\n".join(faults) if faults else f"{len(allowed)} rooms, no faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
