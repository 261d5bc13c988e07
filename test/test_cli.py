"""The command line: help of every command, and a sentence, exit code 1 and no file left for everything a user can get wrong."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWOOP = pathlib.Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop"
MODELS = ROOT / "test" / "models"
MODEL = MODELS / "resnet8_int8.pt2"
FLOAT_MODEL = MODELS / "resnet8.pt2"
COMMANDS = ["compile", "run", "inspect", "accuracy", "diff", "ops", "explain", "boards", "doctor", "init", "options", "completion", "sweep", "advise"]


def swoop(*arguments):
    return subprocess.run([SWOOP, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def refused(*arguments):
    """The sentence with which a command is refused."""
    done = swoop(*arguments)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.strip(), "no sentence on standard error"
    assert "terminate called" not in done.stderr and "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def pte(tmp_path_factory):
    """A finished program and inputs for it: one sample and two stacked ones."""
    folder = tmp_path_factory.mktemp("program")
    path = folder / "resnet8.pte"
    done = swoop("compile", MODEL, "-o", path, "--no-verify", "-q")
    assert done.returncode == 0, done.stderr
    samples = np.load(MODELS / "resnet8.npz")["test"].astype(np.float32)
    np.savez(folder / "one.npz", x=samples[0])
    np.savez(folder / "two.npz", x=samples)
    return path


# -- help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = swoop(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[0].strip(), "the first line says what the command does"
    assert "Usage" in done.stdout


def test_the_program_lists_its_commands():
    done = swoop("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout, command


def test_the_version_is_a_version():
    done = swoop("--version")
    assert done.returncode == 0 and done.stdout.strip().count(".") == 2


# -- flags


@pytest.mark.parametrize(
    "arguments",
    [[], ["translate"], ["--no-such-flag"], *[[c, "--no-such-flag"] for c in COMMANDS], *[[c] for c in COMMANDS if c not in ("ops", "explain", "boards", "doctor", "init", "options")]],
    ids=lambda a: " ".join(a) or "nothing",
)
def test_a_wrong_or_missing_word_is_named(arguments):
    sentence = refused(*arguments)
    if "--no-such-flag" in arguments and len(arguments) == 1:
        assert "--no-such-flag" in sentence


@pytest.mark.parametrize(
    "flags, word",
    [
        (["--target", "ethos-u55"], "ethos-u55-128"),
        (["--target", "cortex-m55"], "ethos-u85-2048"),
        (["--system-config", "Nonsense"], "Nonsense"),
        (["--memory-mode", "Nonsense"], "Nonsense"),
        (["--optimise", "Everything"], "Everything"),
        (["--precision", "int7"], "int7"),
        (["--calibration-method", "guess"], "guess"),
        (["--weight-bits", "5"], "5"),
        (["--io", "complex"], "complex"),
        (["--config", "missing.ini"], "missing.ini"),
        (["--quantize-config", "missing.toml"], "missing.toml"),
        (["--threads", "many"], "many"),
        (["--stop-after", "lunch"], "lunch"),
        (["--arena-cache-size", "-5"], "5"),
    ],
    ids=lambda x: "=".join(x) if isinstance(x, list) else "",
)
def test_compile_refuses_a_bad_value_and_names_it(flags, word, tmp_path):
    output = tmp_path / "out.pte"
    assert word in refused("compile", MODEL, "-o", output, *flags)
    assert list(tmp_path.iterdir()) == []


def test_ops_lists_the_targets_when_it_does_not_know_one():
    assert "ethos-u65-512" in refused("ops", "--target", "ethos-u66-128")


# -- files


def bad_files(folder):
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_text("This is not a model.\n" * 40)
    (folder / "noise").write_bytes(np.random.default_rng(0).bytes(4096))
    (folder / "zip").write_bytes(b"PK\x05\x06" + bytes(18))
    (folder / "folder").mkdir()
    return {"missing": folder / "missing", "folder": folder / "folder", **{n: folder / n for n in ("empty", "text", "noise", "zip")}}


KINDS = ["missing", "folder", "empty", "text", "noise", "zip"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["compile", "accuracy", "inspect"])
def test_a_file_that_is_no_model_is_refused(command, kind, tmp_path):
    path = bad_files(tmp_path)[kind]
    before = sorted(tmp_path.rglob("*"))
    flags = {"compile": ["-o", tmp_path / "out.pte"], "accuracy": ["--calibrate", "random:0"], "inspect": []}[command]
    assert str(path) in refused(command, path, *flags), "the sentence names the file"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_run_refuses_a_file_that_is_no_program(kind, pte, tmp_path):
    path = bad_files(tmp_path)[kind]
    before = sorted(tmp_path.rglob("*"))
    assert str(path) in refused("run", path, "--inputs", pte.parent / "one.npz", "-o", tmp_path / "out.npz")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_run_refuses_inputs_that_are_no_arrays(kind, pte, tmp_path):
    path = bad_files(tmp_path)[kind]
    before = sorted(tmp_path.rglob("*"))
    refused("run", pte, "--inputs", path, "-o", tmp_path / "out.npz")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_diff_refuses_a_file_that_is_no_program(kind, pte, tmp_path):
    path = bad_files(tmp_path)[kind]
    assert str(path) in refused("diff", pte, path)
    assert str(path) in refused("diff", path, pte)


@pytest.mark.parametrize("kind", KINDS)
def test_calibration_refuses_what_holds_no_samples(kind, tmp_path):
    path = bad_files(tmp_path)[kind]
    before = sorted(tmp_path.rglob("*"))
    refused("compile", FLOAT_MODEL, "--calibrate", path, "-o", tmp_path / "out.pte")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_float_model_without_samples_is_told_what_to_give(tmp_path):
    sentence = refused("compile", FLOAT_MODEL, "-o", tmp_path / "out.pte")
    assert "--calibrate" in sentence and "random:" in sentence
    assert list(tmp_path.iterdir()) == []


BAD_ARRAYS = {
    "wrong shape": np.zeros((1, 3, 31, 32), np.float32),
    "wrong rank": np.zeros((3, 32), np.float32),
    "wrong type": np.zeros((1, 3, 32, 32), np.int64),
    "text": np.array(["a", "b"]),
    "objects": np.array([None, {}], dtype=object),
}


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_run_refuses_arrays_that_do_not_fit(what, pte, tmp_path):
    np.savez(tmp_path / "x.npz", x=BAD_ARRAYS[what])
    refused("run", pte, "--inputs", tmp_path / "x.npz", "-o", tmp_path / "out.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("what", ["wrong shape", "wrong rank", "text", "objects"])
def test_calibration_refuses_arrays_that_do_not_fit(what, tmp_path):
    np.savez(tmp_path / "x.npz", x=BAD_ARRAYS[what])
    refused("compile", FLOAT_MODEL, "--calibrate", tmp_path / "x.npz", "-o", tmp_path / "out.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_calibration_refuses_samples_that_are_no_numbers(value, tmp_path):
    samples = np.zeros((2, 1, 3, 32, 32), np.float32)
    samples[1, 0, 2, 3, 4] = value
    np.savez(tmp_path / "x.npz", x=samples)
    refused("compile", FLOAT_MODEL, "--calibrate", tmp_path / "x.npz", "-o", tmp_path / "out.pte")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("command", ["compile", "run"])
def test_an_output_that_cannot_be_written_is_named(command, pte, tmp_path):
    output = tmp_path / "no" / "such" / "folder" / "out"
    arguments = [MODEL, "--no-verify"] if command == "compile" else [pte, "--inputs", pte.parent / "one.npz"]
    assert str(output) in refused(command, *arguments, "-o", output)
    assert list(tmp_path.iterdir()) == []


# -- run


def test_run_gives_stacked_inputs_back_stacked(pte, tmp_path):
    for name, runs in (("one", 1), ("two", 2)):
        done = swoop("run", pte, "--inputs", pte.parent / f"{name}.npz", "-o", tmp_path / f"{name}.npz", "--json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["schema"] == 1 and summary["runs"] == runs
        assert summary["memory"]["planned_bytes"] > 0 and summary["memory"]["temp_bytes"] > 0
    one, two = np.load(tmp_path / "one.npz")["out0"], np.load(tmp_path / "two.npz")["out0"]
    assert one.shape == (1, 10) and two.shape == (2, 1, 10)
    assert np.array_equal(one, two[0]) and not np.array_equal(two[0], two[1])
    assert abs(float(one.sum()) - 1) < 0.1, "a softmax"


def test_run_traces_commands_and_dumps_borders(pte, tmp_path):
    done = swoop("run", pte, "--inputs", pte.parent / "one.npz", "--trace", "--dump", tmp_path / "dump")
    assert done.returncode == 0, done.stderr
    assert "call 0: region 0 on ethos-u55-128" in done.stdout
    assert "NPU_SET_IFM_REGION" in done.stdout and "NPU_OP_CONV" in done.stdout
    codes = np.load(tmp_path / "dump" / "region0_in0.npy")
    assert codes.dtype == np.int8 and codes.size == 3 * 32 * 32

    assert "--layers" in refused("run", pte, "--inputs", pte.parent / "one.npz", "--model", MODEL)
    assert "--trace" in refused("run", pte, "--inputs", pte.parent / "one.npz", "--trace", "--json")


# -- diff


def test_diff_of_a_file_with_itself_shows_no_change(pte):
    done = swoop("diff", pte, pte, "--inputs", pte.parent / "two.npz", "--max-cycles", 0, "--max-bytes", 0, "--min-sqnr", 200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "out0: equal" in done.stdout and "%" not in done.stdout
    summary = json.loads(swoop("diff", pte, pte, "--json").stdout)
    assert summary["a"] == summary["b"] and summary["broken"] == [] and summary["outputs"] == []
    assert summary["a"]["regions"] == 1 and summary["a"]["npu_operations"]["CONV"] > 0
    assert summary["a"]["total_cycles"] > summary["a"]["npu_cycles"] // 2 > 0


def test_diff_breaks_on_each_threshold(pte, tmp_path):
    """ResNet8 against itself on a smaller NPU (more cycles), and against another model (other outputs, more bytes)."""
    slow = tmp_path / "slow.pte"
    assert swoop("compile", MODEL, "-o", slow, "--target", "ethos-u55-32", "--no-verify", "-q").returncode == 0
    done = swoop("diff", pte, slow, "--max-cycles", 10, "--inputs", pte.parent / "one.npz", "--json")
    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert len(summary["broken"]) == 1 and "--max-cycles" in summary["broken"][0]
    assert summary["outputs"][0]["equal"], "every NPU computes the same"
    assert swoop("diff", pte, slow, "--max-cycles", 100000).returncode == 0
    assert swoop("diff", slow, pte, "--max-cycles", 0).returncode == 0, "faster is no fault"

    other = tmp_path / "other.pte"
    samples = pte.parent / "two.npz"
    done = swoop("compile", FLOAT_MODEL, "-o", other, "--calibrate", samples, "--weight-bits", 8, "--per-tensor", "--no-verify", "-q")
    assert done.returncode == 0, done.stderr
    done = swoop("diff", pte, other, "--inputs", samples, "--min-sqnr", 300)
    assert done.returncode == 1 and "broken: --min-sqnr" in done.stdout and "elements differ" in done.stdout
    assert swoop("diff", pte, other, "--inputs", samples).returncode == 0, "no threshold, no fault"
    integer = tmp_path / "integer.pte"
    assert swoop("compile", MODEL, "-o", integer, "--io", "int8", "--no-verify", "-q").returncode == 0
    assert swoop("diff", integer, pte, "--max-bytes", 0).returncode == 1, "the border's kernels make the file larger"
    assert "--inputs" in refused("diff", pte, pte, "--min-sqnr", 10)


# -- limits of a build


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    np.savez(path, x=np.load(MODELS / "resnet8.npz")["calibrate"].astype(np.float32))
    return path


@pytest.mark.parametrize(
    "limit, figure",
    [(["--max-sram", "1.5KiB"], "bytes of SRAM"), (["--max-flash", "1024"], "bytes of flash"), (["--max-cycles", "1000"], "cycles"),
     (["--max-ms", "0.001"], "ms"), (["--min-sqnr", "300"], "output out0 has ")],
    ids=lambda a: a[0] if isinstance(a, list) else "",
)
def test_a_broken_limit_is_a_sentence_with_the_value_and_no_file(tmp_path, samples, limit, figure):
    output = tmp_path / "r.pte"
    sentence = refused("compile", FLOAT_MODEL, "-c", samples, "-o", output, *limit)
    assert limit[0] in sentence and figure in sentence and "no file is written" in sentence
    assert list(tmp_path.iterdir()) == []


def test_limits_that_hold_let_the_file_through(tmp_path, samples):
    output = tmp_path / "r.pte"
    done = swoop("compile", FLOAT_MODEL, "-c", samples, "-o", output, "--max-sram", "1MiB", "--max-flash", "1.5 MiB", "--max-cycles", 10**7,
                 "--max-ms", 100, "--one-region", "--no-host", "--min-sqnr", 30)
    assert done.returncode == 0 and output.exists(), done.stderr


def test_a_file_that_falls_short_of_its_forecast_gets_more_layers_in_int16(tmp_path, samples):
    """Quiet inputs: rounding is as loud as on the samples, so the file is worse on them than the forecast says."""
    np.savez(tmp_path / "quiet.npz", x=0.3 * np.load(MODELS / "resnet8.npz")["test"].astype(np.float32))
    def build(*arguments):
        done = swoop("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", "--json", "--precision", "int8", *arguments)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        return result["accuracy"]["sqnr_db"][0], result["warnings"]
    forecast, _ = build()
    wanted = build("--test", tmp_path / "quiet.npz")[0] + 0.2
    assert wanted < forecast
    reached, warnings = build("--test", tmp_path / "quiet.npz", "--min-sqnr", wanted)
    assert reached >= wanted
    assert any(f"--min-sqnr {wanted:.1f} dB is met" in warning for warning in warnings)
    sentence = refused("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "no.pte", "--test", tmp_path / "quiet.npz", "--min-sqnr", 90)
    assert "is the best that was reached" in sentence and not (tmp_path / "no.pte").exists()


def test_an_output_that_is_mostly_noise_gets_a_warning(tmp_path, samples):
    loud = 100 * np.load(MODELS / "resnet8.npz")["test"].astype(np.float32)  # far outside of what the samples show
    np.savez(tmp_path / "loud.npz", x=loud)
    def warnings(*arguments):
        done = swoop("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return [warning for warning in json.loads(done.stdout)["warnings"] if warning.endswith("[noisy]")]
    assert warnings() == []
    assert len(warnings("--test", tmp_path / "loud.npz")) == 1


@pytest.mark.parametrize("flag", ["--max-ms", "--min-sqnr"])
@pytest.mark.parametrize("value", ["nan", "-1"])
def test_limits_that_mean_nothing_are_refused(tmp_path, samples, flag, value):
    assert flag in refused("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", f"{flag}={value}")


@pytest.mark.parametrize("size", ["", "kib", "5x", "-1", "nan", "1e30"])
def test_what_is_no_size_is_refused(tmp_path, size):
    assert "--max-sram" in refused("compile", FLOAT_MODEL, "-o", tmp_path / "r.pte", f"--max-sram={size}")


def test_a_model_that_keeps_an_operator_on_the_host_breaks_no_host_and_one_region(tmp_path, samples):
    arguments = ["compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", "--keep-float", "add_1"]
    assert "the host computes aten::" in refused(*arguments, "--no-host")
    assert "--one-region: there are 2" in refused(*arguments, "--one-region")


# -- names that match nothing


@pytest.mark.parametrize("arguments, sentence", [
    (["--keep-float", "ad_1"], "--keep-float ad_1: no node or module of this model has that name; did you mean add_1?"),
    (["--keep-float", "conv2d_3"], "--keep-float conv2d_3: this node was joined with batch_norm_3: name that one"),
    (["--stop-after", "layuot"], "did you mean layout?"),
    ('[[module]]\nname = "nowhere"\nprecision = "int16"', "[[module]] nowhere: no module of this model has that name"),
    ('[[op]]\nname = "convv"\nprecision = "int16"', "[[op]] convv: no operator of this model has that name; did you mean conv?"),
    ('[[node]]\nname = "conv2d_3"\nmethod = "minmax"', "[[node]] conv2d_3: this node was joined with batch_norm_3"),
], ids=["near", "joined", "step", "module", "op", "node"])
def test_a_name_that_matches_nothing_is_refused_with_the_nearest(tmp_path, samples, arguments, sentence):
    if isinstance(arguments, str):
        (tmp_path / "q.toml").write_text(arguments)
        arguments = ["--quantize-config", tmp_path / "q.toml"]
    assert sentence in refused("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", *arguments)


# -- held-out samples


def test_accuracy_is_that_of_the_test_samples_with_labels_beside_float(tmp_path, samples):
    import torch

    arrays = np.load(MODELS / "resnet8.npz")
    held_out = np.concatenate([arrays["test"], arrays["calibrate"]]).astype(np.float32)
    module = torch.export.load(FLOAT_MODEL).module(check_guards=False)
    with torch.no_grad():
        scores = np.concatenate([module(torch.from_numpy(x)).numpy() for x in held_out])
    labels = scores.argsort(1)[:, -2]  # the second best: never the largest output of the float model
    labels[0] = scores[0].argmax()
    np.savez(tmp_path / "test.npz", x=held_out, labels=labels)
    output = tmp_path / "r.pte"
    arguments = ["compile", FLOAT_MODEL, "-c", samples, "-o", output, "--json", "--test"]
    accuracy = json.loads(swoop(*arguments, tmp_path / "test.npz").stdout)["accuracy"]
    assert (accuracy["samples_kind"], accuracy["samples"], accuracy["samples_given"]) == ("test", len(held_out), len(held_out))
    assert accuracy["labels"]["count"] == len(held_out)
    assert accuracy["labels"]["float_top1"] == pytest.approx(1 / len(held_out))
    assert accuracy["labels"]["float_top5"] == 1.0

    np.savez(tmp_path / "inputs.npz", x=held_out)
    ran = swoop("run", output, "--inputs", tmp_path / "inputs.npz", "-o", tmp_path / "got.npz")
    assert ran.returncode == 0, ran.stderr
    got = np.load(tmp_path / "got.npz")["out0"].reshape(scores.shape)
    noise = 10 * np.log10((scores**2).sum() / ((scores - got) ** 2).sum())
    assert accuracy["sqnr_db"][0] == pytest.approx(noise, abs=0.05), "pooled over the samples, not a mean of decibels"
    ranks = [int((row > row[label]).sum()) for row, label in zip(got, labels)]
    assert accuracy["labels"]["top1"] == pytest.approx(np.mean([rank < 1 for rank in ranks]), abs=1.5 / len(ranks))

    np.savez(tmp_path / "expected.npz", x=held_out, out0=2 * scores.reshape(len(held_out), 1, -1))
    accuracy = json.loads(swoop(*arguments, tmp_path / "expected.npz").stdout)["accuracy"]
    assert accuracy["sqnr_db"][0] == pytest.approx(10 * np.log10(4), abs=0.3), "half of what is expected is missing"


@pytest.mark.parametrize("arrays, sentence", [
    ({"labels": [1, 2]}, "there are 2 labels for 4 samples"), ({"labels": [1, 2, 3, 10]}, "label 10 is not one of the 10 classes"),
    ({"out0": np.zeros((3, 1, 10), np.float32)}, "out0 holds 3 samples and the inputs 4")], ids=["few", "beyond", "outputs"])
def test_a_test_set_that_does_not_fit_is_refused(tmp_path, samples, arrays, sentence):
    np.savez(tmp_path / "test.npz", x=np.load(samples)["x"][:4], **arrays)
    assert sentence in refused("compile", FLOAT_MODEL, "-c", samples, "-o", tmp_path / "r.pte", "--test", tmp_path / "test.npz")


# -- where outputs go


def test_an_output_never_replaces_an_input(tmp_path, pte):
    model = tmp_path / "model.pt2"
    model.write_bytes(MODEL.read_bytes())
    link = tmp_path / "link.pte"
    link.symlink_to(model)
    hard = tmp_path / "hard.pte"
    os.link(model, hard)
    for output in (model, link, hard):
        assert "would replace" in refused("compile", model, "-o", output)
    assert model.read_bytes() == MODEL.read_bytes()
    assert "would replace" in refused("run", pte, "--inputs", pte.parent / "one.npz", "-o", pte)


def test_an_output_is_a_regular_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for output in (pipe, "/dev/null", tmp_path):
        assert "not a regular file" in refused("compile", MODEL, "-o", output)


def test_a_link_is_followed_and_a_mode_is_kept(tmp_path):
    file = tmp_path / "file.pte"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link = tmp_path / "link.pte"
    link.symlink_to("file.pte")
    assert swoop("compile", MODEL, "-o", link, "--no-verify", "-q").returncode == 0
    assert link.is_symlink() and file.read_bytes() != b"old" and file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.pte", "link.pte"]


def test_a_sweep_has_a_row_for_every_npu_and_memory_mode(tmp_path):
    flags = ["--target", "ethos-u55-128", "--targets", "ethos-u65-*", "--no-verify"]
    done = swoop("sweep", MODEL, *flags, "--max-sram", "50KiB", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["target"] for row in rows} == {"ethos-u55-128", "ethos-u65-256", "ethos-u65-512"}
    assert len({(row["target"], row["memory_mode"]) for row in rows}) == len(rows)
    mode = next(row for row in rows if row["target"] == "ethos-u55-128" and row["memory_mode"] == "Shared_Sram")
    alone = swoop("compile", MODEL, "-o", tmp_path / "r.pte", "--no-verify", "--json")
    assert mode["total_cycles"] == json.loads(alone.stdout)["totals"]["total_cycles"]
    assert not mode["fits"] and "--max-sram" in mode["why"], "ResNet8 takes 51 KiB"
    for row in rows:  # on the front: no other is better in one and as good in the other
        better = [other for other in rows if other["inference_ms"] <= row["inference_ms"] and other["sram_bytes"] <= row["sram_bytes"]
                  and (other["inference_ms"], other["sram_bytes"]) != (row["inference_ms"], row["sram_bytes"])]
        assert not (row["front"] and better), (row, better)
    assert any(row["front"] for row in rows)
    assert "--target" in refused("sweep", MODEL, "--target", "ethos-u99-*")
