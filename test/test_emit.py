"""emit/ against the peers: the kernel table against the installed runtime, emitted host programs in the stock runtime against PyTorch,
and the file against ExecuTorch's own reader."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
pytest.importorskip("executorch", reason="executorch is not installed (tools/setup.sh test)")

import torch.nn.functional as F  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOL = Path(os.environ.get("SWOOP_BUILD", ROOT / "build" / "release")) / "swoop_test_tool"


def numbers(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))) * 4 - 2


# name -> (graph as text, inputs, PyTorch)
PROGRAMS = {
    "cnn": (
        """graph "main" (%x: f32[1,3,12,12], %w: f32[8,3,3,3], %b: f32[8], %v: f32[5,8])
  %c = conv %x, %w, %b dilation=[1,1] groups=1 padding=[1,1,1,1] stride=[2,2] act_min=0.0 : f32[1,8,6,6]
  %p = max_pool %c ceil_mode=false dilation=[1,1] kernel=[2,2] padding=[0,0,0,0] stride=[2,2] : f32[1,8,3,3]
  %m = mean %p axes=[2,3] keepdim=false : f32[1,8]
  %l = linear %m, %v, _ : f32[1,5]
  %s = softmax %l axis=1 : f32[1,5]
  return %s
""",
        (numbers(1, 3, 12, 12), numbers(8, 3, 3, 3), numbers(8), numbers(5, 8)),
        lambda x, w, b, v: F.softmax(F.linear(F.max_pool2d(F.conv2d(x, w, b, 2, 1).relu(), 2).mean((2, 3)), v), 1),
    ),
    "transformer": (
        """graph "main" (%x: f32[1,6,8], %w: f32[8], %b: f32[8], %q: f32[8,8])
  %n = layer_norm %x, %w, %b axis=2 eps=1e-05 : f32[1,6,8]
  %q1 = linear %n, %q, _ : f32[1,6,8]
  %h = reshape %q1 shape=[1,6,2,4] : f32[1,6,2,4]
  %t = transpose %h perm=[0,2,1,3] : f32[1,2,6,4]
  %a = attention %t, %t, %t, _ causal=true scale=0.5 : f32[1,2,6,4]
  %g = unary %a fn="gelu" : f32[1,2,6,4]
  return %g, %q1
""",
        (numbers(1, 6, 8), numbers(8), numbers(8, seed=1), numbers(8, 8)),
        lambda x, w, b, q: (lambda y: (lambda t: (F.gelu(F.scaled_dot_product_attention(t, t, t, is_causal=True, scale=0.5)), y))(
            y.reshape(1, 6, 2, 4).permute(0, 2, 1, 3)))(F.linear(F.layer_norm(x, (8,), w, b), q)),
    ),
    "quantized": (
        """graph "main" (%x: f32[2,3])
  %q = quantize %x : i8[2,3] q(0.0317, -5)
  %t = transpose %q perm=[1,0] : i8[3,2] q(0.0317, -5)
  %d = dequantize %t : f32[3,2]
  return %d
""",
        (numbers(2, 3),),
        lambda x: (torch.ops.quantized_decomposed.dequantize_per_tensor(
            torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.0317, -5, -128, 127, torch.int8).T, 0.0317, -5, -128, 127, torch.int8)),
    ),
}


def emit(tmp_path, name):
    (tmp_path / "graph.ir").write_text(PROGRAMS[name][0])
    done = subprocess.run([TOOL, "emit", tmp_path / "graph.ir", tmp_path / "model.pte"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return tmp_path / "model.pte"


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_pytorch_in_the_stock_runtime(tmp_path, name):
    import executorch.kernels.quantized  # noqa: F401  (the q/dq kernels)
    from executorch.runtime import Runtime, Verification
    from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the q/dq operators)

    _, inputs, reference = PROGRAMS[name]
    method = Runtime.get().load_program(emit(tmp_path, name), verification=Verification.InternalConsistency).load_method("forward")
    for _ in range(2):  # the second run finds the arena as the first one left it
        outputs = method.execute(list(inputs))
        wanted = reference(*inputs)
        for output, expected in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert output.shape == expected.shape
            assert torch.allclose(output, expected, rtol=1e-5, atol=1e-5)


def test_equals_what_the_peer_reads(tmp_path):
    """ExecuTorch's own deserializer finds the same program, and writes it back as one that holds the same values."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    pte = deserialize_pte_binary(emit(tmp_path, "cnn").read_bytes())
    plan = pte.program.execution_plan[0]
    assert plan.name == "forward" and len(plan.inputs) == 4 and len(plan.outputs) == 1 and len(plan.chains) == 1
    names = [f"{op.name}.{op.overload}" for op in plan.operators]
    calls = [names[i.instr_args.op_index] for i in plan.chains[0].instructions]
    assert calls == ["aten::convolution.out", "aten::clamp.out", "aten::max_pool2d_with_indices.out", "aten::mean.out",
                     "aten::permute_copy.out", "aten::mm.out", "aten::_softmax.out"]
    assert plan.non_const_buffer_sizes[0] == 0
    for value in plan.values:
        tensor = value.val
        if type(tensor).__name__ == "Tensor" and tensor.allocation_info:
            assert tensor.allocation_info.memory_offset_low % 16 == 0
            size = int(np.prod(tensor.sizes)) * {1: 1, 4: 8, 6: 4}[int(tensor.scalar_type)]
            assert tensor.allocation_info.memory_offset_low + size <= plan.non_const_buffer_sizes[1]
    again = deserialize_pte_binary(bytes(serialize_pte_binary(pte)))
    assert again.program.execution_plan[0] == plan


def test_kernel_table_is_that_of_the_installed_runtime():
    done = subprocess.run([sys.executable, ROOT / "tools" / "kernel_table.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "src" / "emit" / "kernels.def").read_text(), "run tools/kernel_table.py > src/emit/kernels.def"
