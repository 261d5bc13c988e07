#!/usr/bin/env python3
"""Checks what docs/ARCHITECTURE.md says about src/ and a text search can see: check_rooms.py [ROOT]. Prints every fault; exit code 1
when there is one. test/test_rooms.py checks the checker."""

import pathlib
import re
import sys

MAX_LINES = 800
OPEN_ROOMS = {"support"}  # its headers are all public
PUBLIC = {  # rooms whose public header is split by topic
    "ir": {"ir.h", "graph.h", "type.h"},
    "tosa": {"tosa.h", "builder.h"},
    "run": {"run.h", "runtime.h"},
}
GENERATED = {"schema"}  # folders of headers that the build makes
KNOW_ATEN = {"import", "emit"}  # PyTorch's operators on the way in, the runtime's kernels on the way out
OWN_OP = {"tosa"}  # its Op is TOSA's
# A test of a core's family or encoding. Rooms ask for a fact (src/target/facts.def); what differs by encoding is a `case`, so that a new
# one does not compile instead of passing for an old one.
FAMILY_TEST = re.compile(r"NpuFamily::\w|using enum Npu|\bis_u\d\d\b|(?<!case )NpuEncoding::\w")


def read_rooms(root):
    """From CMakeLists.txt: what each room may use, in order, and the names under the comment `# verbs`."""
    uses, verbs, section = {}, set(), ""
    for line in (root / "CMakeLists.txt").read_text().splitlines():
        if line.startswith("#"):
            section = line
        if match := re.match(r"room\((\w+)\s+USES([^)]*)\)", line):
            uses[match[1]] = match[2].split()
            if section == "# verbs":
                verbs.add(match[1])
    return uses, verbs


def list_faults(uses, verbs):
    """Each room uses rooms that stand above it (no circles), and no verb another."""
    order = list(uses)
    for room, used in ((room, used) for room in uses for used in uses[room]):
        if used not in uses:
            yield f"CMakeLists.txt: {room} uses {used}, which is not a room"
        elif order.index(used) >= order.index(room):
            yield f"CMakeLists.txt: {room} uses {used}, which stands below it"
        if room in verbs and used in verbs:
            yield f"CMakeLists.txt: {room} uses {used}, another verb"


def include_faults(room, text, uses, is_test):
    """Of other rooms, only those that this one may use, by their public header; a test, by what is made for tests as well."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include "(\w+)/([^"]+)"', line)
        if not match or match[1] == room or match[1] in GENERATED:
            continue
        used, header = match[1], match[2]
        if used not in uses:
            yield number, f"{used} is not a room"
        elif used not in uses[room]:
            yield number, f"{room} may not include {used}"
        elif is_test and header.endswith("_for_tests.h"):
            continue
        elif used not in OPEN_ROOMS and header not in PUBLIC.get(used, {f"{used}.h"}) and not header.endswith(".def"):
            yield number, f"{used}/{header} is private to {used}"


def without_comments(text):
    """Comments become blanks; strings and line numbers stay."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
    return token.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)


def switch_bodies(code):
    """(line, text between the braces, without the switches inside it) of every switch."""
    for match in re.finditer(r"\bswitch\s*\(", code):
        start = code.index("{", match.end())
        depth, end = 0, start
        for end in range(start, len(code)):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            if depth == 0:
                break
        body = code[start + 1 : end]
        for _, inner in list(switch_bodies(body)):
            body = body.replace(inner, "")
        yield code.count("\n", 0, match.start()) + 1, body


def op_switch_faults(room, code):
    """A switch over the core operators has no default: then the compiler names the places a new operator is missing from."""
    for line, body in switch_bodies(code):
        if room not in OWN_OP and re.search(r"\bcase (swoop::)?Op::", body) and re.search(r"\bdefault\s*:", body):
            yield line, "a switch over Op has a default"


def aten_faults(room, code):
    """Names of PyTorch's operators, as strings."""
    for match in re.finditer(r'"[^"\n]*\baten(::|\.)', code):
        if room not in KNOW_ATEN:
            yield code.count("\n", 0, match.start()) + 1, f"{room} knows an ATen name"


def family_faults(room, code):
    for match in FAMILY_TEST.finditer(code):
        if room != "target":
            yield code.count("\n", 0, match.start()) + 1, "a test of the core's family; ask for a fact of src/target/facts.def"


def faults(root):
    uses, verbs = read_rooms(root)
    yield from list_faults(uses, verbs)
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".def"}:
            continue
        name = path.relative_to(root)
        room = path.relative_to(root / "src").parts[0]
        text = path.read_text()
        lines = text.count("\n")
        if lines > MAX_LINES:
            yield f"{name}: {lines} lines, more than {MAX_LINES}"
        if room not in uses:
            yield f"{name}: {room} is not a room of CMakeLists.txt"
            continue
        found = list(include_faults(room, text, uses, path.name.endswith("_test.cpp")))
        code = without_comments(text)
        found += op_switch_faults(room, code)
        found += family_faults(room, code)
        if not path.name.endswith("_test.cpp"):
            found += aten_faults(room, code)
        for line, fault in sorted(found):
            yield f"{name}:{line}: {fault}"


def main(root) -> int:
    found = list(faults(root))
    print("\n".join(found) if found else f"{len(read_rooms(root)[0])} rooms, no faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent))
