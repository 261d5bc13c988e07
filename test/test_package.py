"""The Python package: a wheel of the existing build, installed into an empty environment, and its functions."""

import inspect
import os
import re
import signal
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "test" / "models"
pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed (tools/setup.sh test)")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT],
                          capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """An environment with the wheel and NumPy: this Python's NumPy is linked into it, so that no network is needed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python3*/site-packages"))
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-deps", "--no-compile", wheel],
                   check=True, timeout=120)
    for part in Path(np.__file__).parent.parent.glob("numpy*"):
        (site / part.name).symlink_to(part)
    return folder


@pytest.fixture(scope="session")
def swoop(environment):
    """The package of the wheel, in this process, where PyTorch is."""
    sys.path.insert(0, str(next(environment.glob("lib/python3*/site-packages"))))
    import swoop
    return swoop


@pytest.fixture(scope="session")
def arrays():
    with np.load(MODELS / "resnet8.npz") as file:
        return {name: file[name] for name in file.files}


@pytest.fixture(scope="session")
def demo(swoop):
    return swoop.compile(swoop.DEMO)


def test_the_wheel_is_for_every_python_and_holds_the_licences(wheel):
    assert "-py3-none-" in wheel.name
    assert wheel.stat().st_size < 15e6
    names = zipfile.ZipFile(wheel).namelist()
    licences = {Path(name).name for name in names if "LICENSE" in name}
    assert {"LICENSE", "LICENSE.executorch", "LICENSE.regor", "LICENSE.liblept5", "LICENSE.zlib1g", "LICENSE.libpng16-16"} <= licences
    assert "swoop/py.typed" in names
    needed = {Path(name).name for name in names if ".so" in name}
    assert not {name for name in needed if name.startswith(("libc.so", "libm.so", "libstdc++", "ld-linux"))}, "the machine's own"


def test_an_empty_environment_compiles_checks_and_runs(environment, tmp_path):
    script = """
import sys, numpy, swoop
program = swoop.compile(swoop.DEMO)
program.save("demo.pte")
assert program.json["accuracy"]["bit_exact"] is True
assert swoop.run("demo.pte", numpy.zeros((1, 3, 32, 32), numpy.float32)).shape == (1, 10)
assert "torch" not in sys.modules
"""
    done = subprocess.run([environment / "bin" / "python", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    missing = subprocess.run([environment / "bin" / "python", "-c", "import torch"], capture_output=True, timeout=60)
    assert missing.returncode != 0, "the environment has no torch"


def test_the_command_is_the_program_and_loads_what_came_with_it(environment, tmp_path):
    demo = next(environment.glob("lib/python3*/site-packages/swoop/native/share/swoop/*.pt2"))
    (tmp_path / "one.ppm").write_bytes(b"P6 1 1 255 abc")  # images are read with a library of their own
    done = subprocess.run([environment / "bin" / "swoop", "compile", demo, "-o", tmp_path / "demo.pte", "--calibrate", tmp_path], cwd=tmp_path,
                          env={**os.environ, "LD_DEBUG": "libs"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "bit for bit" in done.stdout, done.stderr[-2000:]
    loaded = {Path(path) for path in re.findall(r"calling init: (/\S*native\S+|/\S*/lib(?:lept|png|fmt|z|simdjson)\S*)", done.stderr)}
    assert {path.name.split(".")[0] for path in loaded} >= {"liblept", "libpng16", "libfmt", "libswoop_run", "libexecutorch"}
    assert [path for path in loaded if not path.resolve().is_relative_to(environment) and path.name.startswith(("liblept", "libfmt"))] == []


def test_samples_in_every_form_give_the_same_program(swoop, arrays):
    torch = pytest.importorskip("torch", reason="torch is not installed (tools/setup.sh test)")
    samples = arrays["calibrate"]
    rows = samples[:, 0]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(rows), torch.zeros(len(rows))), batch_size=3)
    forms = [samples, rows, torch.from_numpy(rows), {"x": samples}, (samples,), list(samples), iter(samples), loader]
    programs = {swoop.compile(MODELS / "resnet8.pt2", calibrate=form, no_verify=True).bytes for form in forms}
    assert len(programs) == 1
    with pytest.raises(ValueError, match=r"input x takes \[1, 3, 32, 32\].*given \[3, 3\]"):
        swoop.compile(MODELS / "resnet8.pt2", calibrate=np.zeros((3, 3)))


def test_outputs_have_the_form_of_the_inputs(swoop, demo, arrays):
    torch = pytest.importorskip("torch", reason="torch is not installed (tools/setup.sh test)")
    x = arrays["test"]
    expected = demo.run(x)
    assert expected.shape == (len(x), 1, 10) and isinstance(expected, np.ndarray)
    assert np.array_equal(demo.run(x[:, 0]), expected[:, 0])
    assert np.array_equal(demo.run(x[1]), expected[1])
    assert np.array_equal(demo.run(list(x)), expected)
    assert np.array_equal(demo.run({"x": x}), expected)
    tensor = demo.run(torch.from_numpy(x))
    assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), expected)


def test_several_inputs_and_outputs(swoop, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed (tools/setup.sh test)")

    class Two(torch.nn.Module):
        def forward(self, first, second):
            return first + second, first - second

    a, b = torch.rand(20, 4), torch.rand(20, 4)
    module = Two().train()
    program = swoop.compile(module, (a[:1], b[:1]), calibrate=(a, b), target="ethos-u85-256")
    assert module.training
    sums, differences = program.run((a, b))
    assert torch.allclose(sums, a + b, atol=0.03) and torch.allclose(differences, a - b, atol=0.03)
    exported = torch.export.export(module, (a[:1], b[:1]))
    samples = [(a[i : i + 1], b[i : i + 1]) for i in range(20)]
    assert swoop.compile(exported, calibrate=samples, target="ethos-u85-256").bytes == program.bytes
    with pytest.raises(ValueError, match="takes 2 inputs"):
        program.run(a)


def test_a_program_shows_itself(swoop, demo, tmp_path):
    assert demo.save(tmp_path / "demo.pte").read_bytes() == demo.bytes
    assert re.fullmatch(r"<swoop.Program ethos-u55-128, [\d,]+ bytes, 1 NPU region, 0 host nodes, [\d,]+ cycles.*, bit exact>", repr(demo))
    assert "bit for bit" in demo.report() == str(demo)
    assert sum(layer["cycles"] for layer in demo.layers) > 100_000
    assert "<table>" in demo._repr_html_() and demo.layers[0]["source"] in demo._repr_html_()
    assert "ExecuTorch program" in swoop.inspect(tmp_path / "demo.pte")


def test_host_nodes_have_reasons(swoop, arrays):
    program = swoop.compile(MODELS / "resnet8.pt2", calibrate=arrays["calibrate"], keep_float=["conv2d_5"], no_verify=True)
    assert [(node["node"], node["source"]) for node in program.why()] == [("conv2d_5", "make_models.py:38")]
    assert "1 host nodes" in repr(program)


def test_diff_and_accuracy(swoop, demo, arrays):
    other = swoop.compile(swoop.DEMO, target="ethos-u55-32", no_verify=True)
    changed = swoop.diff(demo, other, inputs=arrays["test"], max_cycles=0)
    assert changed["outputs"][0]["equal"] is True and "--max-cycles" in changed["broken"][0]
    assert swoop.diff(demo, demo, max_cycles=0)["broken"] == []
    assert "own dB" in swoop.accuracy(MODELS / "resnet8.pt2", calibrate=arrays["calibrate"])


def test_a_sweep_and_a_tosa_file(swoop, tmp_path):
    rows = swoop.sweep(swoop.DEMO, target=["ethos-u55-64", "ethos-u65-*"], no_verify=True, max_sram="50KiB")
    assert {row["target"] for row in rows} == {"ethos-u55-64", "ethos-u65-256", "ethos-u65-512"}
    assert any(row["front"] for row in rows) and not all(row["fits"] for row in rows)
    swoop.compile(swoop.DEMO, no_verify=True, dump=tmp_path)
    assert swoop.compile(tmp_path / "region0.tosa").json["accuracy"]["bit_exact"]


def test_errors_are_exceptions(swoop, tmp_path):
    with pytest.raises(TypeError, match="no option 'min_snr'; did you mean 'min_sqnr'"):
        swoop.compile(swoop.DEMO, min_snr=40)
    with pytest.raises(TypeError, match="strip is True or False"):
        swoop.compile(swoop.DEMO, strip=3)
    with pytest.raises(TypeError, match="not int"):
        swoop.compile(3)
    with pytest.raises(swoop.Error, match="nosuch.pt2: cannot open it") as caught:
        swoop.compile("nosuch.pt2")
    assert (caught.value.exit_code, caught.value.source) == (1, None)
    with pytest.raises(swoop.Error, match="max-sram|SRAM"):
        swoop.compile(swoop.DEMO, max_sram=10)
    with pytest.raises(swoop.Error):
        swoop.diff("nosuch.pte", "nosuch.pte")
    assert swoop.Error("m.pt2: net.py:31: the size of this depends on the data").source == "net.py:31"


def test_every_option_of_the_help_is_known(swoop):
    from swoop._child import call
    from swoop._options import OURS, flags
    listed = {flag.replace("-", "_") for flag in re.findall(r"--([a-z][a-z-]+)", re.sub(r"(?m)^ {20,}.*$", "", call("compile", "--help")))}
    assert listed - OURS <= set(flags("compile")) and len(listed) > 25
    assert flags("compile")["keep_float"] is True and flags("compile")["strip"] is False


def test_interrupting_ends_the_program(environment, tmp_path):
    """The call waits for a model from a pipe that nobody fills."""
    os.mkfifo(tmp_path / "model.pt2")
    script = "import swoop\ntry: swoop.inspect('model.pt2')\nexcept KeyboardInterrupt: print('interrupted')"
    # A shell starts jobs in the background with SIGINT ignored, and children inherit that.
    caller = subprocess.Popen([environment / "bin" / "python", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    children = Path(f"/proc/{caller.pid}/task/{caller.pid}/children")

    def waiting():
        """The child that reads the pipe; others come and go before it."""
        for child in children.read_text().split():
            try:
                if b"model.pt2" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return child
            except OSError:
                pass
        return None

    until = time.monotonic() + 60
    while not (child := waiting()) and time.monotonic() < until:
        time.sleep(0.05)
    assert child
    time.sleep(0.2)
    caller.send_signal(signal.SIGINT)
    try:
        assert caller.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        caller.kill()
    assert not Path(f"/proc/{child}").exists()


def test_functions_have_hints_and_docstrings(swoop):
    for name in swoop.__all__:
        thing = getattr(swoop, name)
        if inspect.isfunction(thing):
            assert thing.__doc__ and all(p.annotation is not p.empty for p in inspect.signature(thing).parameters.values()), name


def snippet(page, containing):
    """The only Python block of the page with this text."""
    blocks = [block for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S) if containing in block]
    assert len(blocks) == 1
    return blocks[0]


def run_snippet(code, environment, folder):
    site = next(environment.glob("lib/python3*/site-packages"))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(site)},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_goes_from_a_module_to_a_checked_file(environment, tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (tools/setup.sh test)")
    code = snippet("README.md", "load_digits")
    assert len(code.splitlines()) < 10
    printed = run_snippet(code, environment, tmp_path)
    assert (tmp_path / "digits.pte").stat().st_size > 1000
    top1, of_float = map(float, re.search(r"top-1 ([\d.]+) % \(float ([\d.]+) %\)", printed).groups())
    assert top1 > 80 and abs(top1 - of_float) < 2, printed  # the training starts from random weights


def test_an_executorch_script_changes_one_line(environment, tmp_path):
    """The script as it was, the changed one, and ExecuTorch's runtime on what that one made."""
    pytest.importorskip("executorch", reason="executorch is not installed (tools/setup.sh test)")
    page = "docs/from-executorch.md"
    difference = re.search(r"```diff\n(.*?)```", (ROOT / page).read_text(), re.S)[1].splitlines()
    before, after = ["\n".join(line[1:] for line in difference if line[0] in side) for side in ("- ", "+ ")]
    clock = "import time; started = time.perf_counter()\n", "\nprint('seconds', time.perf_counter() - started)\n"
    printed = run_snippet("\n".join([snippet(page, "prepare_pt2e"), before.join(clock), "assert hasattr(program, 'buffer'); import os; os.remove('model.pte')",
                                     after.join(clock), snippet(page, "import swoop.runtime")]), environment, tmp_path)
    print(printed)  # both times, with pytest -s
    assert "torch.Size([1, 10])" in printed
