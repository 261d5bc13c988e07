"""What surrounds the compiler: suggestions, completion, manual, settings file, boards, doctor, explain, several targets, TOSA out."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")).resolve() / "swoop"
MODEL = ROOT / "test" / "models" / "resnet8_int8.pt2"


def swoop(*arguments, code=0, **options):
    done = subprocess.run([SWOOP, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def table():
    return {row["name"]: row["options"] for row in json.loads(swoop("options", "--json"))["commands"]}


# -- suggestions


@pytest.mark.parametrize("words, meant", [
    (["complie", "x.pt2"], "did you mean compile?"),
    (["compile", "x.pt2", "--taget", "ethos-u55-128"], "did you mean --target?"),
    (["run", "x.pte", "--input=x.npz"], "did you mean --inputs?"),
    (["compile", MODEL, "--target", "ethos-u55-129"], "did you mean ethos-u55-128?"),
    (["compile", MODEL, "--board", "corstone300"], "did you mean corstone-300?"),
    (["explain", "u55.c33"], "did you mean u55.c3?"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_a_mistyped_word_is_answered_with_the_right_one(words, meant, tmp_path):
    assert meant in swoop(*words, code=1, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words, sentence", [
    ("", "give a command, such as compile or run; `swoop --help` lists them"),
    ("-q", "give a command before -q; `swoop --help` lists them"),
    ("compil", "there is no command 'compil'; did you mean compile?; `swoop --help` lists them"),
    ("xyzzy", "there is no command 'xyzzy'; `swoop --help` lists them"),
    ("compile x.pt2 --xyzzy 3", "swoop compile has no --xyzzy; `swoop compile --help` lists what it takes"),
    ("compile x.pt2 y.pt2", "swoop compile does not know what to do with 'y.pt2'; `swoop compile --help` lists what it takes"),
    ("compile x.pt2 -o", "--output needs FILE after it: the .pte file (default: beside the model)"),
    ("compile x.pt2 -o a -o b", "give --output once"),
    ("compile x.pt2 --min-sqnr high", "--min-sqnr cannot be 'high': it takes a number"),
    ("compile x.pt2 --threads 1.5", "--threads cannot be '1.5': it takes a whole number"),
    ("compile x.pt2 --batch 0", "--batch: 0 is too small; write 1 or more"),
    ("run x.pte", "swoop run needs --inputs FILE: an .npz with one array per input; an extra first axis holds several samples"),
    (f"compile {MODEL} --precision int9", 'precision "int9" is not known; it is auto, int8, int16 or float'),
    ("completion", "swoop completion needs bash|zsh|fish: the shell"),
])
def test_a_refused_command_line_is_one_sentence(words, sentence):
    assert swoop(*words.split(), code=1) == f"swoop: error: {sentence}\n"


# -- the table of options, in all its forms


def test_every_option_is_in_every_text(table):
    manual, page = swoop("options", "--man"), (ROOT / "docs" / "OPTIONS.md").read_text()
    shells = {shell: swoop("completion", shell) for shell in ("bash", "zsh", "fish")}
    settings = swoop("init", "-")
    assert len(table["compile"]) > 40
    for command, options in table.items():
        help_text = swoop(command, "--help")
        for option in options:
            name = option["name"]
            assert name in help_text, (command, name)
            assert name.replace("-", "\\-") in manual, (command, name)
            if option["positional"] or name == "--help":
                continue
            assert f"`{name}" in page or f", {name}" in page, (command, name)
            assert name in shells["bash"] and name in shells["zsh"] and f"-l {name[2:]}" in shells["fish"], (command, name)
            if command == "compile" and name not in ("--config", "--stop-after"):
                assert f"\n#{name[2:]} = " in settings, name


def test_every_command_prints_json(table):
    assert [command for command, options in table.items() if "--json" not in {option["name"] for option in options}] == []
    assert json.loads(swoop("completion", "fish", "--json"))["script"] == swoop("completion", "fish")


def test_the_page_of_options_is_what_the_program_prints():
    assert (ROOT / "docs" / "OPTIONS.md").read_text() == swoop("options", "--markdown"), "run `make docs`"


def test_bash_completes():
    script = swoop("completion", "bash")
    def complete(*words):
        ask = f'{script}\nCOMP_WORDS=({" ".join(words)} "")\nCOMP_CWORD={len(words)}\n_swoop\necho "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()
    assert {"compile", "run", "boards"} <= set(complete("swoop"))
    assert complete("swoop", "compile", "x.pt2", "--precision") == ["auto", "int8", "int16", "float"]
    assert "ethos-u85-2048" in complete("swoop", "compile", "--target")
    assert "corstone-300" in complete("swoop", "compile", "--board")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(swoop("completion", shell))
    subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=60)


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_the_manual_is_read_without_complaint(tmp_path):
    (tmp_path / "swoop.1").write_text(swoop("options", "--man"))
    done = subprocess.run(["man", "--warnings", "-l", tmp_path / "swoop.1"], capture_output=True, text=True, env={**os.environ, "MANPAGER": "cat"})
    assert done.returncode == 0 and done.stderr == "" and "--calibrate" in done.stdout


def test_the_help_of_compile_is_grouped_and_ends_with_examples():
    text = swoop("compile", "--help")
    for heading in ("Model and target:", "Quantization:", "Limits: fail, and write no file:", "Check and report:"):
        assert f"\n{heading}\n" in text
    assert text.split("Examples:\n")[1].count("swoop compile") == 3


# -- settings


def test_a_settings_file_is_used_and_the_command_line_goes_first(tmp_path):
    swoop("init", cwd=tmp_path)
    assert "is there already" in swoop("init", code=1, cwd=tmp_path)
    settings = tmp_path / "swoop.toml"
    text = settings.read_text()
    for key, value in [("model", f'"{MODEL}"'), ("target", '["ethos-u85-128"]'), ("strip", "true"), ("io", '"int8"'), ("no-verify", "true")]:
        line = next(line for line in text.splitlines() if line.startswith(f"#{key} = "))
        text = text.replace(line, f"{key} = {value}")
    settings.write_text(text)
    said = json.loads(swoop("compile", "--config", "swoop.toml", "-o", "a.pte", "--json", cwd=tmp_path))
    assert said["target"] == "ethos-u85-128" and said["inputs"][0]["dtype"] == "int8" and said["accuracy"] is None
    assert "swoop_layers" not in swoop("inspect", tmp_path / "a.pte")
    said = json.loads(swoop("compile", "--config", "swoop.toml", "-o", "b.pte", "-t", "ethos-u55-64", "--json", cwd=tmp_path))
    assert said["target"] == "ethos-u55-64"


@pytest.mark.parametrize("text, sentence", [
    ('targt = "ethos-u55-128"', "s.toml:1: targt: swoop compile has no such setting; did you mean target?"),
    ("strip = 3", "s.toml:1: strip takes true or false"),
    ("\n\nweight-bits = 5", "s.toml:3: weight-bits"),
    ("strip = ", "s.toml:1"),
])
def test_a_wrong_setting_is_named_with_its_line(text, sentence, tmp_path):
    (tmp_path / "s.toml").write_text(text + "\n")
    assert sentence in swoop("compile", MODEL, "--config", "s.toml", "-o", "x.pte", code=1, cwd=tmp_path)
    assert not (tmp_path / "x.pte").exists()


# -- boards


def test_every_figure_of_a_board_has_a_source():
    boards = json.loads(swoop("boards", "--json"))["boards"]
    names = [board["name"] for board in boards]
    assert names == sorted(names) and len(names) == len(set(names)) >= 10
    for board in boards:
        assert board["target"].startswith("ethos-u") and board["target_source"], board["name"]
        assert all(memory["source"] and memory["bytes"] > 0 for memory in board["memories"]), board["name"]
        assert board["name"] in swoop("boards")


def test_a_board_gives_the_target_and_says_what_fits(tmp_path):
    said = json.loads(swoop("compile", MODEL, "--board", "corstone-300", "-o", tmp_path / "a.pte", "--no-verify", "--json"))
    assert (said["target"], said["memory_mode"]) == ("ethos-u55-128", "Shared_Sram")
    memories = {memory["name"]: memory for memory in said["board"]["memories"]}
    pools = said["memory"]
    assert memories["SRAM"]["needed_bytes"] == pools["planned_bytes"] + pools["method_bytes"] + pools["temp_bytes"]
    assert memories["SRAM"]["bytes"] == 2 << 20 and memories["SRAM"]["fits"] is True
    assert memories["flash"]["needed_bytes"] == said["pte_bytes"]
    said = json.loads(swoop("compile", MODEL, "--board", "himax-we2", "-o", tmp_path / "b.pte", "--no-verify", "--json"))
    assert {memory["name"]: memory["fits"] for memory in said["board"]["memories"]} == {"SRAM": True, "flash": None}, "its flash is not known"


# -- the rest


def test_doctor_finds_this_installation_well():
    said = json.loads(swoop("doctor", "--json"))
    assert said["ok"] and {"npu", "runtime", "memory"} <= {finding["what"] for finding in said["findings"]}


def test_doctor_names_what_is_missing(tmp_path):
    shutil.copy(SWOOP, tmp_path / "swoop")
    done = subprocess.run([tmp_path / "swoop", "doctor"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "runtime   FAULT" in done.stdout and "libswoop_run.so" in done.stdout


@pytest.mark.parametrize("word, says", [("u55.c3", "limit"), ("merge-transposes", "roots"), ("conv", "U85"), ("gelu", "range of the result"), ("few-samples", "meaning")])
def test_explain_prints_the_rows_of_the_tables(word, says):
    assert says in swoop("explain", word)
    assert json.loads(swoop("explain", word, "--json"))["tables"]


def test_explain_without_a_word_lists_the_words():
    said = swoop("explain")
    assert all(word in said.split() for word in ["u55.c3", "merge-transposes", "conv", "few-samples"])


def test_every_warning_ends_with_a_code_that_explain_knows(tmp_path):
    model = ROOT / "test" / "models" / "autoencoder.pt2"
    said = json.loads(swoop("compile", model, "--calibrate", "random:1", "-o", tmp_path / "a.pte", "--no-verify", "--json"))
    assert said["warnings"]
    for warning in said["warnings"]:
        assert "advice" in swoop("explain", re.search(r"\[([a-z-]+)\]$", warning)[1])


def test_colour_is_for_terminals_without_no_color(tmp_path):
    command = f"{SWOOP} compile {MODEL} -o {tmp_path}/a.pte --no-verify"
    def said(**environment):
        return subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment}).stdout
    if not shutil.which("script"):
        pytest.skip("script is not installed")
    assert "\033[1mtarget\033[0m" in said(NO_COLOR="")
    assert "\033[" not in said(NO_COLOR="1")
    assert "\033[" not in subprocess.run(command.split(), capture_output=True, text=True).stdout


def test_a_bar_counts_in_a_terminal_and_is_gone_at_the_end(tmp_path):
    samples = np.load(MODEL.with_name("mobilenet_v1.npz"))["calibrate"].astype(np.float32)
    np.savez(tmp_path / "s.npz", x=np.concatenate([samples] * (768 // len(samples))))  # so many take over a second on any machine
    master, slave = os.openpty()
    child = subprocess.Popen([SWOOP, "compile", MODEL.with_name("mobilenet_v1.pt2"), "-c", tmp_path / "s.npz", "--threads", "1", "-o", tmp_path / "m.pte"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while piece := os.read(master, 4096):
            said += piece
    except OSError:  # the other end is closed
        pass
    summary = child.communicate(timeout=60)[0]
    os.close(master)
    assert child.returncode == 0, said
    assert re.search(rb"\r\x1b\[K\[#*\.*\] +\d+ %  [a-zA-Z ]+, \d+ s", said), said
    assert said.endswith(b"\r\x1b[K") and b"\x1b" not in summary


def test_several_targets_make_several_files(tmp_path):
    lines = swoop("compile", MODEL, "-t", "ethos-u55-128", "-t", "ethos-u85-256", "-o", tmp_path / "m.pte", "--no-verify", "--json").splitlines()
    assert [json.loads(line)["target"] for line in lines] == ["ethos-u55-128", "ethos-u85-256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.ethos-u55-128.pte", "m.ethos-u85-256.pte"]
    assert "give one NPU" in swoop("accuracy", MODEL, "-t", "ethos-u55-128", "-t", "ethos-u85-256", code=1)


def test_a_tosa_file_comes_out_and_is_read_by_its_specification(tmp_path):
    said = json.loads(swoop("compile", MODEL, "--target", "tosa", "-o", tmp_path / "m.tosa", "--json"))
    assert said["accuracy"]["bit_exact"] and said["tosa_bytes"] == (tmp_path / "m.tosa").stat().st_size
    shown = json.loads(swoop("inspect", tmp_path / "m.tosa", "--json"))
    assert shown["kind"] == "tosa" and {"CONV2D", "RESCALE"} <= {op["op"] for op in shown["operators"]}
    assert "leave out --header" in swoop("compile", MODEL, "--target", "tosa", "--header", tmp_path / "m.h", code=1)


def test_inspect_and_accuracy_print_json(tmp_path):
    swoop("compile", MODEL, "-o", tmp_path / "m.pte", "--no-verify", "-q")
    method = json.loads(swoop("inspect", tmp_path / "m.pte", "--json"))["methods"][0]
    assert method["inputs"][0]["shape"] == [1, 3, 32, 32] and method["delegates"][0]["id"] == "EthosUBackend"
    assert json.loads(swoop("inspect", MODEL, "--json"))["inputs"][0]["name"] == "x"
    float_model = MODEL.with_name("resnet8.pt2")
    np.savez(tmp_path / "s.npz", x=np.load(MODEL.with_name("resnet8.npz"))["calibrate"][:2])
    said = json.loads(swoop("accuracy", float_model, "-c", tmp_path / "s.npz", "--json"))
    assert said["output_sqnr_db"][0] > 20 and said["layers"][0]["own_db"] <= said["layers"][-1]["own_db"]
