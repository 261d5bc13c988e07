"""import/ against PyTorch: what torch.export saves comes in with the same operators, shapes, source lines and numbers."""

import copy
import importlib.util
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed (tools/setup.sh test)")

from torch.export.graph_signature import InputKind  # noqa: E402

import import_cases  # noqa: E402
import import_cases_flow  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"
CASES = import_cases.build()
SEEN = set()


def export(module, inputs, decompose=False):
    module = copy.deepcopy(module).eval()
    program = torch.export.export(module, tuple(x.clone() for x in inputs))
    if decompose:
        program = program.run_decompositions()
    return program


def graphs(module):
    yield module
    for _, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            yield from graphs(child)


def targets(program):
    for module in graphs(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                yield f"{node.target.namespace}.{node.target._schema.name.split('::')[1]}.{node.target._overloadname or 'default'}"


def save(program, path):
    torch.export.save(program, path)
    return path


def text_of(path):
    done = subprocess.run([TOOL, "import", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(path):
    """The sentence with which a file is refused."""
    done = subprocess.run([TOOL, "import", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "", (done.returncode, done.stderr)
    return done.stderr.strip()


def equal(a, b):
    return torch.equal(a, b) or (a.is_floating_point() and torch.allclose(a, b, 0, 0, equal_nan=True))


def results(module, inputs):
    """PyTorch's results, in the order in which the graph gives them: changed buffers and inputs first."""
    module = copy.deepcopy(module).eval()
    given = tuple(x.clone() for x in inputs)
    before = {name: value.clone() for name, value in module.named_buffers()}
    result = module(*given)
    changed = [value for name, value in module.named_buffers() if not equal(value, before[name])]
    changed += [now for now, then in zip(given, inputs) if not equal(now, then)]
    return changed + [x.detach() for x in torch.utils._pytree.tree_leaves(result) if x is not None]


class Together(torch.nn.Module):
    """Several cases as one program: exporting costs far more than importing."""

    def __init__(self, names):
        super().__init__()
        self.names = names
        self.parts = torch.nn.ModuleList(copy.deepcopy(CASES[name][0]) for name in names)

    def forward(self, *args):
        outputs, at = [], 0
        for name, part in zip(self.names, self.parts):
            count = len(CASES[name][1])
            outputs.append(part(*args[at : at + count]))
            at += count
        return outputs


ALONE = set(import_cases.mutations()) | set(import_cases_flow.control_flow()) | {"weights", "no_grad"}
SIZE = int(os.environ.get("CASES_PER_PROGRAM", "20"))  # 1 finds the case that spoils its program
SHARED = [name for name in CASES if name not in ALONE]
PROGRAMS = [[name] for name in CASES if name in ALONE] + [SHARED[i : i + SIZE] for i in range(0, len(SHARED), SIZE)]
PROGRAM_OF = {name: number for number, names in enumerate(PROGRAMS) for name in names}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Results by case, for a program and a way of exporting it; computed when first asked for."""
    done = {}

    def get(number, decompose):
        if (number, decompose) not in done:
            names = PROGRAMS[number]
            module = CASES[names[0]][0] if len(names) == 1 else Together(names)
            inputs = [x.clone() for name in names for x in CASES[name][1]]
            path = tmp_path_factory.mktemp("import")
            done[number, decompose] = execute(names, module, inputs, decompose, path)
        return done[number, decompose]

    return get


def execute(names, module, inputs, decompose, folder):
    program = export(module, inputs, decompose)
    SEEN.update(targets(program))
    path = save(program, folder / "model.pt2")
    users = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    np.savez(folder / "in.npz", **{user: x.numpy() for user, x in zip(users, inputs)})
    command = [TOOL, "import", path, "--run", folder / "in.npz", folder / "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or "= opaque" in done.stdout:
        return done.stderr or done.stdout
    got = np.load(folder / "out.npz")
    arrays = [got[f"out{i}"] for i in range(len(got.files))]
    by_case = {}
    for name in names:
        count = len(results(*CASES[name]))
        by_case[name], arrays = arrays[:count], arrays[count:]
    return by_case if not arrays else "there are more results than expected"


@pytest.mark.parametrize("decompose", [False, True], ids=["training", "core"])
@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(imported, name, decompose):
    got = imported(PROGRAM_OF[name], decompose)
    assert isinstance(got, dict), got
    wanted = results(*CASES[name])
    assert len(got[name]) == len(wanted)
    for have, want in zip(got[name], wanted):
        assert have.shape == tuple(want.shape)
        if want.is_floating_point():
            want = want.double().numpy()
            finite = np.abs(want[np.isfinite(want)])
            largest = float(finite.max()) if finite.size else 0.0
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=2e-6 * max(largest, 1.0))
        else:
            np.testing.assert_array_equal(have, want.numpy())


def test_covers_enough_overloads():
    if len(SEEN) < 50:
        pytest.skip("runs only together with the cases")
    assert len(SEEN) > 200, f"{len(SEEN)} overloads were exported"


# -- files of other releases


LAYOUTS = sorted((ROOT / "test" / "layouts").glob("*.pt2"))


@pytest.mark.parametrize("path", LAYOUTS, ids=lambda path: path.stem)
def test_files_of_every_release_since_2_9_give_what_that_release_computed(path, tmp_path):
    wanted = np.load(path.with_suffix(".npz"))
    np.savez(tmp_path / "in.npz", x=wanted["x"])
    done = subprocess.run([TOOL, "import", path, "--run", tmp_path / "in.npz", tmp_path / "out.npz"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert 'name "conv2d"' in done.stdout and '"make_layouts.py":' in done.stdout
    got = np.load(tmp_path / "out.npz")
    assert len(got.files) == 3
    for i, name in enumerate(("calls", "result0", "result1")):
        np.testing.assert_allclose(got[f"out{i}"], wanted[name], rtol=1e-5, atol=1e-6)


# -- the table against PyTorch's own schemas


def table():
    lines = subprocess.run([TOOL, "operators"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t") for line in lines]


def schema_of(name):
    namespace, op, overload = name.split(".")
    if namespace == "quantized_decomposed":
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    if namespace == "dim_order_ops":
        pytest.importorskip("executorch.exir.passes.dim_order_ops_registry", reason="the peer executorch is not installed")
    if namespace == "transformers":
        pytest.importorskip("transformers.integrations.moe", reason="transformers is not installed")
    return getattr(getattr(getattr(torch.ops, namespace), op), overload)._schema


def literal(value):
    if value == "None":
        return None
    if value in ("True", "False"):
        return value == "True"
    return value[1:-1] if value.startswith("'") else json.loads(value) if value.startswith("[") else float(value)


def same_default(ours, theirs):
    if isinstance(theirs, (list, tuple)) and not isinstance(ours, list):
        return all(same_default(ours, one) for one in theirs)
    if isinstance(theirs, (list, tuple)):
        return list(theirs) == ours
    if isinstance(theirs, bool) or theirs is None or isinstance(theirs, str):
        return theirs is ours or theirs == ours
    return ours is not None and float(theirs) == float(ours)


def test_every_row_has_pytorchs_schema():
    rows = table()
    assert len(rows) > 400
    for name, ours, _ in rows:
        if name.startswith("transformers.") and importlib.util.find_spec("transformers") is None:
            continue
        theirs = [a for a in schema_of(name).arguments]
        params = [p for p in ours.split(", ") if p != "*"]
        assert [p.split("=")[0] for p in params] == [a.name for a in theirs], name
        for param, arg in zip(params, theirs):
            if "=" not in param:
                assert not arg.has_default_value(), f"{name}: {arg.name} has the default {arg.default_value}"
            elif arg.name != "memory_format" or param != "memory_format=0":
                assert arg.has_default_value() and same_default(literal(param.split("=", 1)[1]), arg.default_value), f"{name}: {param}"


def test_derived_names_have_the_same_arguments():
    """add_ and view_copy share the row of add and view: their schemas must agree."""
    checked = 0
    for name, ours, _ in table():
        namespace, op, overload = name.split(".")
        if namespace != "aten":
            continue
        for derived in (op + "_", op + "_copy"):
            packet = getattr(torch.ops.aten, derived, None)
            if packet is None or overload not in packet.overloads():
                continue
            if any(row[0] == f"aten.{derived}.{overload}" for row in table_names()):
                continue
            theirs = [a.name for a in getattr(packet, overload)._schema.arguments]
            params = [p.split("=")[0] for p in ours.split(", ") if p != "*"]
            assert theirs[1:] == params[1:], derived  # the first is matched by position
            checked += 1
    assert checked > 100


def table_names(cache=[]):  # noqa: B006
    if not cache:
        cache.extend(table())
    return cache


# -- what the graph says about itself


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())

    def forward(self, x):
        y = self.inner(x)
        return y.movedim(1, -1)


def test_nodes_know_their_python_line_and_module(tmp_path):
    text = text_of(save(export(Net(), (torch.zeros(1, 3, 8, 8),)), tmp_path / "net.pt2"))
    source = Path(__file__).read_text().splitlines()
    line = next(i for i, code in enumerate(source, 1) if "y = self.inner(x)" in code)
    assert re.search(rf'= conv .*@ "test_import.py":{line} "y = self.inner\(x\)" "inner.0" "Conv2d" name "conv2d"', text)
    assert re.search(rf'= transpose %relu perm=\[0,2,3,1\] .*@ "test_import.py":{line + 1} .*"Net" name "movedim"', text)


def test_unknown_operators_stay_opaque_with_all_their_arguments(tmp_path):
    module = import_cases.Fn(lambda x: torch.topk(x, 2)[0] + 1)
    text = text_of(save(export(module, (torch.rand(3, 500),)), tmp_path / "topk.pt2"))
    assert '["self=%0","k=2","dim=1","largest=true","sorted=true"]' in text and 'target="aten::topk"' in text, text


def test_opaque_operators_without_a_row(tmp_path):
    module = import_cases.Fn(lambda x: torch.special.bessel_j0(x) + torch.polygamma(1, x))
    text = text_of(save(export(module, (torch.rand(3, 5) + 1,)), tmp_path / "bessel.pt2"))
    assert 'target="aten::special_bessel_j0"' in text and '["n=1","self=%0"]' in text


def test_state_and_mutation_ports(tmp_path):
    for decompose in (False, True):
        module, inputs = CASES["count"]
        text = text_of(save(export(module, inputs, decompose), tmp_path / "count.pt2"))
        assert re.search(r'%state: f32\[3,4\] state "state"', text), text
        assert 'state "state"' in text.splitlines()[-1], text
    module, inputs = CASES["mutate_input"]
    text = text_of(save(export(module, inputs), tmp_path / "mutate.pt2"))
    assert 'mutates "args_0"' in text.splitlines()[-1], text


def test_quantization_is_in_the_types(tmp_path):
    text = text_of(save(export(*CASES["q moved"]), tmp_path / "moved.pt2"))
    assert "transpose %quantize_per_tensor perm=[0,2,3,1] : i8[2,4,5,3] q(0.05, 3)" in text
    text = text_of(save(export(*CASES["q per channel weight"]), tmp_path / "weight.pt2"))
    assert re.search(r"%w = const i8\[4,5\] q\(axis=0, .*-127..127\)", text)
    assert "%s =" not in text and "%z =" not in text
    text = text_of(save(export(*CASES["q input"]), tmp_path / "input.pt2"))
    assert "%args_0: i8[2,3] q(0.1, -1)" in text


def test_bodies_are_closed_over_nothing(tmp_path):
    text = text_of(save(export(*CASES["cond"]), tmp_path / "cond.pt2"))
    bodies = text[text.index("cond %") :]
    assert bodies.count("%l.bias = const f32[5]") == 2 and "%l.weight = const" in bodies


def run(path, tmp_path, **inputs):
    np.savez(tmp_path / "in.npz", **inputs)
    subprocess.run([TOOL, "import", path, "--run", tmp_path / "in.npz", tmp_path / "out.npz"], check=True, capture_output=True)
    return np.load(tmp_path / "out.npz")


def test_numbers_among_the_inputs_are_constants(tmp_path):
    class Scaled(torch.nn.Module):
        def forward(self, x, factor, flag, mode, nothing=None):
            return x * factor if flag and mode == "mul" and nothing is None else x

    program = torch.export.export(Scaled(), (torch.ones(3), 4, True, "mul"))
    got = run(save(program, tmp_path / "scaled.pt2"), tmp_path, x=np.ones(3, np.float32))
    np.testing.assert_array_equal(got["out0"], np.full(3, 4, np.float32))


def test_inputs_and_outputs_in_trees(tmp_path):
    class Trees(torch.nn.Module):
        def forward(self, m, pair, *, k):
            return {"sum": m["a"] + pair[0], "list": [pair[1] * k, None], "k": k}

    x = torch.arange(3.0)
    program = torch.export.export(Trees(), ({"a": x + 2}, (x, x + 3)), {"k": x + 1})
    path = save(program, tmp_path / "trees.pt2")
    a = x.numpy()
    got = run(path, tmp_path, m_a=a, pair_0=a + 5, pair_1=a + 2, k=a)
    wanted = [2 * a + 5, (a + 2) * a, a]
    assert len(got.files) == 3
    for i, want in enumerate(wanted):
        np.testing.assert_array_equal(got[f"out{i}"], want)


def test_symbols_with_a_single_value_are_numbers(tmp_path):
    program = torch.export.export(
        import_cases.Fn(lambda x: x.reshape(x.shape[0], -1) * x.shape[0]),
        (torch.rand(4, 3, 2),),
        dynamic_shapes=(({0: torch.export.Dim("batch", min=2, max=64)},),),
    )
    path = save(program, tmp_path / "dynamic.pt2")
    fixed = rewrite(path, tmp_path / "fixed.pt2", lambda n, d: (n, re.sub(rb'"min_val": 2, "max_val": 64', b'"min_val": 4, "max_val": 4', d)))
    assert "f32[4,6]" in text_of(fixed)


def test_graphs_of_the_edge_dialect_are_read(tmp_path):
    exir = pytest.importorskip("executorch.exir", reason="the peer executorch is not installed")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.LayerNorm(36), torch.nn.Linear(36, 2)).eval()
    x = torch.rand(1, 3, 5, 5)
    program = exir.to_edge(torch.export.export(model, (x,)), compile_config=exir.EdgeCompileConfig(_check_ir_validity=False)).exported_program()
    got = run(save(program, tmp_path / "edge.pt2"), tmp_path, **{program.graph_signature.user_inputs[0]: x.numpy()})
    np.testing.assert_allclose(got["out0"], model(x).detach().numpy(), rtol=1e-5, atol=1e-5)


# -- files that are refused, each with a sentence that helps


def test_dynamic_shapes_name_the_dimension(tmp_path):
    program = torch.export.export(
        import_cases.Fn(lambda x: x * 2), (torch.rand(4, 3),), dynamic_shapes=(({0: torch.export.Dim("batch", min=2, max=64)},),)
    )
    sentence = refused(save(program, tmp_path / "dynamic.pt2"))
    assert "Dimension 0 of the input `args_0` is dynamic" in sentence and "2 to 64" in sentence and "static shapes" in sentence


def test_sizes_that_depend_on_the_data(tmp_path):
    sentence = refused(save(export(import_cases.Fn(lambda x: torch.nonzero(x)), (torch.rand(4),)), tmp_path / "nonzero.pt2"))
    assert sentence.startswith("import_cases.py:") and "depends on the data" in sentence and "node `nonzero`" in sentence


@pytest.mark.parametrize("fn,x,says", [
    (lambda x: torch.fft.fft(x), torch.rand(4), "return torch.view_as_real() of it"),
    (lambda x: x.abs(), torch.rand(4, dtype=torch.cfloat), "take its real and imaginary parts as an input"),
    (lambda x: torch.fft.fft(x).tan().abs(), torch.rand(4), "compute with real and imaginary parts"),
    (lambda x: torch.view_as_real(torch.fft.fft(x).mul_(2)), torch.rand(4), "compute with real and imaginary parts"),
], ids=["output", "input", "operator", "in place"])
def test_complex_numbers_stay_inside(fn, x, says, tmp_path):
    assert says in refused(save(export(import_cases.Fn(fn), (x,)), tmp_path / "complex.pt2"))


def test_training_mode(tmp_path):
    program = torch.export.export(torch.nn.Sequential(torch.nn.BatchNorm1d(3)).train(), (torch.rand(4, 3),))
    assert "call model.eval() before export" in refused(save(program, tmp_path / "training.pt2"))


def test_dropout_in_training_mode_is_left_out_with_a_warning(tmp_path):
    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)).train(), (torch.rand(4, 3),))
    path = save(program, tmp_path / "dropout.pt2")
    done = subprocess.run([TOOL, "import", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "opaque" not in done.stdout and "call model.eval() before export" in done.stderr


def test_all_problems_show_at_once(tmp_path):
    program = torch.export.export(torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)).train(), (torch.rand(4, 3),))
    assert refused(save(program, tmp_path / "training.pt2")).count("call model.eval()") == 2


def rewrite(path, out, change):
    """A copy of the archive with change(name, data) -> (name, data) or None applied to each entry."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for entry in source.infolist():
            changed = change(entry.filename, source.read(entry))
            if changed:
                target.writestr(*changed)
    return out


def test_older_layouts_say_how_to_save_again(tmp_path):
    path = save(export(Net(), (torch.zeros(1, 3, 8, 8),)), tmp_path / "net.pt2")
    old = rewrite(path, tmp_path / "old.pt2", lambda n, d: ("serialized_exported_program.json", d) if n.endswith("model.json") else None)
    assert "torch 2.7 or older" in refused(old) and "save it again" in refused(old)
    mid = rewrite(path, tmp_path / "mid.pt2", lambda n, d: (n.replace("model_weights_config.json", "model.pt"), d))
    assert "pickled, as torch 2.8" in refused(mid)
    pickled = rewrite(path, tmp_path / "p.pt2", lambda n, d: (n, d.replace(b'"use_pickle": false', b'"use_pickle": true')))
    assert "unpickling runs code" in refused(pickled)
    newer = rewrite(path, tmp_path / "n.pt2", lambda n, d: (n, d.replace(b'"major": 8', b'"major": 9')))
    assert "version 9 of torch.export's schema" in refused(newer)
    torch.save(torch.zeros(3), tmp_path / "t.pt2")
    assert "no exported program" in refused(tmp_path / "t.pt2")


def test_deflated_archives_are_read(tmp_path):
    path = save(export(Net(), (torch.zeros(1, 3, 8, 8),)), tmp_path / "net.pt2")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tmp_path / "d.pt2", "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry))
    assert text_of(tmp_path / "d.pt2") == text_of(path)


def test_zero_byte_payloads_are_zeros(tmp_path):
    path = save(export(Net(), (torch.zeros(1, 3, 8, 8),)), tmp_path / "net.pt2")
    empty = rewrite(path, tmp_path / "zero.pt2", lambda n, d: (n, b"" if "/weight_" in n else d))
    np.savez(tmp_path / "in.npz", x=np.ones((1, 3, 8, 8), np.float32))
    subprocess.run([TOOL, "import", empty, "--run", tmp_path / "in.npz", tmp_path / "out.npz"], check=True)
    assert not np.load(tmp_path / "out.npz")["out0"].any()


def test_same_file_same_text(tmp_path):
    path = save(export(*CASES["transformer"]), tmp_path / "t.pt2")
    assert text_of(path) == text_of(path)
