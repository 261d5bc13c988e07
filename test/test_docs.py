"""Pages that the program prints must be what it prints now, what the others name must exist, and all of them read as plain English."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_support_is_what_the_tables_say():
    done = subprocess.run([SWOOP, "ops", "--markdown"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (ROOT / "docs" / "SUPPORT.md").read_text() == done.stdout, "run `make docs` and commit docs/SUPPORT.md"


def test_pages_link_to_files_that_exist():
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_source_files_that_pages_name_exist():
    missing = []
    for page in PAGES:
        for path in re.findall(r"`((?:src|test|tools|bench|docs|cmake)/[\w./-]+\.\w+)`", page.read_text()):
            if not (ROOT / path).exists():
                missing.append(f"{page.name}: {path}")
    assert missing == []


def test_every_room_is_in_the_architecture():
    rooms = re.findall(r"^room\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    assert [room for room in rooms if f"`{room}`" not in text] == []
    assert len(text.splitlines()) <= 200


def test_flags_that_pages_name_exist():
    commands = {}
    for page in PAGES:
        for command, rest in re.findall(r"^(?:\$ )?(?:build/release/)?swoop +(\w+)([^\n|`]*)", page.read_text(), re.M):
            if command not in commands:
                commands[command] = subprocess.run([SWOOP, command, "--help"], capture_output=True, text=True, timeout=60).stdout
            for flag in re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", rest.split("#")[0]):
                assert flag in commands[command], f"{page.name}: swoop {command} has no {flag}"
    assert len(commands) >= 5


def prose(page):
    """The numbered lines of a page that are not code."""
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def test_prose_is_wrapped():
    long = [f"{page.name}:{number}" for page in PAGES for number, line in prose(page) if len(line) > 120 and not line.startswith("|")]
    assert long == []


# Words that read as translated, or that claim more than was checked, and what to write instead.
PLAIN = {
    "behind": "after",
    "dear|dearer|dearest": "slow, costs more",
    "lie|lies": "is, is stored",
    "prove|proves|proved|proven|proof|proofs": "checked: what was compared with what, on which samples",
    "the second seconds": "later runs take seconds",
}


def test_prose_is_plain():
    found = [
        f"{page.name}:{number}: instead of {match[0]!r} write {better}"
        for page in PAGES
        for number, line in prose(page)
        for words, better in PLAIN.items()
        if (match := re.search(rf"\b(?:{words})\b", line, re.IGNORECASE))
    ]
    assert found == []
