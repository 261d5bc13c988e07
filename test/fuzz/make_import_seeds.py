"""Writes the seeds of import_fuzz: small exported programs, without the metadata that only makes them long."""

import io
import json
import sys
import zipfile
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import import_cases  # noqa: E402

# Programs without weights go in as their JSON alone, the others as whole archives.
PROGRAMS = """add_inplace clamp_tensor glu where_scalar max_dim var_correction norm_2 movedim_list pixel_shuffle roll repeat_interleave
pad_reflect split_sizes stack tensor_split slice_scatter matmul_vector sdpa_gqa softmax avg_pool2d_divisor upsample_bilinear index_pair
index_put scatter arange_step size_arithmetic map scan while_loop q_moved pow_base triu""".split()
ARCHIVES = "weights cond no_grad write_strided lstm_bidirectional conv2d_same q_per_channel_weight batch_norm".split()


def strip(value):
    if isinstance(value, dict):
        return {k: ({} if k == "metadata" else strip(v)) for k, v in value.items() if k != "guards_code"}
    return [strip(v) for v in value] if isinstance(value, list) else value


def exported(name):
    module, inputs = CASES[name]
    file = io.BytesIO()
    torch.export.save(torch.export.export(module.eval(), inputs), file)
    return zipfile.ZipFile(file)


def model_json(archive):
    name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
    return name, json.dumps(strip(json.loads(archive.read(name))), separators=(",", ":"))


CASES = {name.replace(" ", "_"): case for name, case in import_cases.build().items()}
folder = HERE / "import_fuzz"
folder.mkdir(exist_ok=True)
for name in PROGRAMS:
    (folder / f"{name}.json").write_text(model_json(exported(name))[1])
for name in ARCHIVES:
    source = exported(name)
    model, text = model_json(source)
    with zipfile.ZipFile(folder / f"{name}.pt2", "w") as target:
        for entry in source.namelist():
            if "sample_inputs" not in entry:
                target.writestr(zipfile.ZipInfo(entry), text if entry == model else source.read(entry))
