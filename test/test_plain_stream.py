"""--plain-stream: the NPU's program is what the peer's Vela makes of the same TOSA, byte for byte, and its results are those of the changed one."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh test)")
arm_vela = pytest.importorskip("executorch.backends.arm.arm_vela", reason="the peer executorch is not installed (tools/setup.sh test)")
import test_weights_in_sram  # noqa: E402
from formulas import Model, compiled, swoop  # noqa: E402
from test_products import attention  # noqa: E402

nn = torch.nn
torch.manual_seed(0)
CASES = {  # what is changed in the stream by default: a model, the shape of x
    "kept_weights": test_weights_in_sram.CASES["lstm"][:2],
    "weights_ahead": test_weights_in_sram.AHEAD["flash"][:2],
    "computed_products": (Model(attention, qkv=nn.Linear(64, 192), out=nn.Linear(64, 64)), (1, 48, 64)),
}
CONFIG = ["--system-config", "Ethos_U55_High_End_Embedded", "--memory-mode", "Shared_Sram"]


@pytest.mark.parametrize("change", CASES)
def test_the_program_is_velas(change, tmp_path):
    model, shape = CASES[change]
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    outputs = []
    for flags in [[], ["--plain-stream", "--dump", "steps"]]:
        summary = compiled(model, x, "ethos-u55-128", tmp_path, "--weight-rate", "0", "--precision", "int8", *CONFIG, *flags)
        assert bool(summary["regions"][0][change]) == (not flags)
        assert summary["accuracy"]["bit_exact"] is True
        swoop(tmp_path, "run", "model.pte", "-i", "samples.npz", "-o", "out.npz")
        outputs.append(np.load(tmp_path / "out.npz")["out0"])
    options = ["--accelerator-config=ethos-u55-128", "--output-format=raw", *(f"{key}={value}" for key, value in zip(CONFIG[::2], CONFIG[1::2]))]
    velas = arm_vela.vela_compile((tmp_path / "steps" / "region0.tosa").read_bytes(), options).processed_bytes
    assert velas in (tmp_path / "model.pte").read_bytes()
    signal, noise = np.sum(outputs[1] ** 2), np.sum((outputs[0] - outputs[1]) ** 2)
    assert noise < 1e-3 * signal
    if change != "computed_products":  # there, types of the second matrix differ
        np.testing.assert_array_equal(*outputs)
