"""tools/check_rooms.py finds what it is there for: each case is a small tree with one fault, and the same tree without it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "tools" / "check_rooms.py"

LISTS = """
# nouns
room(support    USES)
room(ir         USES support)
room(tosa       USES support)
# verbs
room(import     USES ir support)
room(lower      USES tosa ir support)
# the driver sees everything
room(driver     USES lower import tosa ir support)
"""
FILES = {
    "support/file.h": "",
    "ir/graph.h": '#include "support/file.h"\n',
    "ir/print.cpp": "int f(Op op) { switch (op) { case Op::Add: return 1; } return 0; }\n",
    "tosa/run.cpp": "int f(Op op) { switch (op) { case Op::Add: return 1; default: return 0; } }\n",
    "import/aten.cpp": 'auto name = "aten::add";\n',
    "lower/conv.cpp": '#include "ir/graph.h"\n#include "tosa/tosa.h"\n#include "schema/tosa.h"\n',
    "driver/run/main.cpp": '#include "lower/lower.h"\n#include "driver/private.h"\n',
    "driver/main_test.cpp": '#include "lower/graphs_for_tests.h"\n',
}
OP_SWITCH = "int f(Op op) {\n  switch (op) {\n    case Op::Add: return 1;\n    default: return 0;\n  }\n}\n"
CASES = {
    "a room that the list does not allow": ("lower/conv.cpp", '#include "import/import.h"\n', "src/lower/conv.cpp:1: lower may not include import"),
    "a folder inside a room": ("lower/deep/conv.cpp", '\n#include "import/import.h"\n', "src/lower/deep/conv.cpp:2: lower may not include import"),
    "a header that is private": ("driver/run/main.cpp", '#include "lower/lowering.h"\n', "src/driver/run/main.cpp:1: lower/lowering.h is private to lower"),
    "a header that is made for tests": ("driver/main.cpp", '#include "lower/graphs_for_tests.h"\n', "src/driver/main.cpp:1: lower/graphs_for_tests.h is private to lower"),
    "a folder that is no room": ("extra/extra.cpp", "", "src/extra/extra.cpp: extra is not a room of CMakeLists.txt"),
    "an include of no room": ("ir/graph.h", '#include "extra/extra.h"\n', "src/ir/graph.h:1: extra is not a room"),
    "a long file": ("ir/graph.h", "\n" * 801, "src/ir/graph.h: 801 lines, more than 800"),
    "a default": ("lower/conv.cpp", OP_SWITCH, "src/lower/conv.cpp:2: a switch over Op has a default"),
    "a default around another switch": ("ir/print.cpp", f"int g(Op op) {{ switch (op) {{ case Op::Add: {{ {OP_SWITCH} }} }} }}", "src/ir/print.cpp:2: a switch over Op has a default"),
    "a core's family": ("lower/conv.cpp", "bool f = family == NpuFamily::U85;", "src/lower/conv.cpp:1: a test of the core's family; ask for a fact of src/target/facts.def"),
    "an ATen name": ("lower/conv.cpp", '\nauto name = "aten::add.Tensor";\n', "src/lower/conv.cpp:2: lower knows an ATen name"),
    "a circle": ("CMakeLists.txt", LISTS.replace("room(ir         USES support)", "room(ir         USES support tosa)"), "CMakeLists.txt: ir uses tosa, which stands below it"),
    "a verb that uses a verb": ("CMakeLists.txt", LISTS.replace("USES tosa ir", "USES import tosa ir"), "CMakeLists.txt: lower uses import, another verb"),
    "a room that is not there": ("CMakeLists.txt", LISTS.replace("room(ir         USES support)", "room(ir         USES base)"), "CMakeLists.txt: ir uses base, which is not a room"),
}


def check(folder, files):
    for name, text in files.items():
        path = folder / name if name == "CMakeLists.txt" else folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, CHECKER, folder], capture_output=True, text=True, timeout=60)


def test_a_tidy_tree_has_no_faults(tmp_path):
    done = check(tmp_path, {"CMakeLists.txt": LISTS, **FILES})
    assert (done.returncode, done.stdout) == (0, "6 rooms, no faults\n")


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_found(case, tmp_path):
    name, text, fault = CASES[case]
    done = check(tmp_path, {"CMakeLists.txt": LISTS, **FILES, name: text})
    assert done.returncode == 1
    assert fault in done.stdout.splitlines()


@pytest.mark.parametrize("text", ['// "aten::add" is what PyTorch says\n', "switch (x) {\n  case 1: break;\n  default: break;\n}\n", "// case Op::Add: default:\n"])
def test_what_is_no_fault(text, tmp_path):
    done = check(tmp_path, {"CMakeLists.txt": LISTS, **FILES, "lower/conv.cpp": text})
    assert (done.returncode, done.stdout) == (0, "6 rooms, no faults\n")
