"""Small programs that the delegate takes whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import etir
from etir.backends.native.backend import BACKEND
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.weights import BlobAttr
from etir.emit.from_pte import read_program


class Images(nn.Module):
    """Windows with and without borders and steps, one channel each, pools, a residual, products of images and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, stride=2, padding=1)
        self.each = nn.Conv2d(40, 40, 3, padding=1, groups=40)
        self.mixed = nn.Conv2d(40, 70, 1)
        self.square = nn.Conv2d(70, 70, 3, padding=1)
        self.wide = nn.Conv2d(70, 33, (5, 3), padding=(2, 0), stride=2, bias=False)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.last = nn.Linear(33, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(x))
        x = nn.functional.relu6(self.each(x))
        x = self.mixed(x)
        x = self.pool(x + torch.nn.functional.silu(self.square(x)))
        x = self.wide(x)
        return self.last(x.mean((2, 3))), nn.functional.avg_pool2d(x, 2)


class Rows(nn.Module):
    """Products of three and four dims, of two inputs, with constants and bodies of every weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(70, 130), nn.GELU(), nn.LayerNorm(130), nn.Linear(130, 33, bias=False))
        self.table = nn.Parameter(torch.randn(2, 33, 9))

    def forward(self, x: Any, y: Any) -> Any:
        x = self.fc(x) * 0.3 + y
        z = torch.bmm(x, self.table).softmax(-1)
        return torch.matmul(z, z.transpose(1, 2))[:, 1:, ::2], x.permute(2, 0, 1)


class Shuffled(nn.Module):
    """Pixels made of channels where a product has them, with and without windows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 128, 3, padding=1)
        self.second = nn.Conv2d(32, 288, 1, bias=False)
        self.scale = nn.Parameter(torch.randn(288, 1, 1))
        self.last = nn.Conv2d(32, 3, 5, padding=2)

    def forward(self, x: Any) -> Any:
        y = torch.relu(nn.functional.pixel_shuffle(self.first(x), 2))
        return self.last(nn.functional.pixel_shuffle(self.second(y) * self.scale, 3))


class Reduced(nn.Module):
    """Walks over pixels, channels and all of an image, and pools of several sizes and of neighbors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 20, 3, padding=1)
        self.response = nn.LocalResponseNorm(3)

    def forward(self, x: Any) -> Any:
        x = torch.sigmoid(self.first(x))
        variance, mean = torch.var_mean(x, (2, 3), keepdim=True)
        x = (x - mean) / (variance.sqrt() + x.norm(p=3, dim=1, keepdim=True) + x.prod(1, keepdim=True))
        x = self.last(nn.functional.avg_pool2d(self.response(x), 3, 2, 1))
        rows = nn.functional.adaptive_max_pool2d(x, (4, 3)) + nn.functional.adaptive_avg_pool2d(x, (4, 3))
        return rows - rows.max(1, keepdim=True)[0], torch.logsumexp(x, (1, 2)), ((x - 1) ** 2).mean()


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True, norm_first=True)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "images": (Images, ((2, 3, 41, 37),)),
    "rows": (Rows, ((2, 17, 70), (2, 17, 33))),
    "shuffled": (Shuffled, ((2, 3, 5, 4),)),
    "reduced": (Reduced, ((2, 3, 13, 11),)),
    "encoder": (encoder, ((1, 19, 64),)),
}


def built(name: str, options: str = "") -> tuple[nn.Module, tuple[Any, ...], etir.Program]:
    torch.manual_seed(len(name))
    make, shapes = CASES[name]
    module = make().eval()
    inputs = tuple(torch.randn(shape) for shape in shapes)
    program = etir.compile(torch.export.export(module, inputs), target="etir", delegates=[f"native{options}"])
    return module, inputs, program


def outputs(module: nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    with torch.no_grad():
        found = module(*inputs)
    return [found] if isinstance(found, torch.Tensor) else list(found)


def blob_of(program: etir.Program) -> bytes:
    """The data of the program's only delegate."""
    (delegate,) = (op for op in read_program(program.buffer).walk() if isinstance(op, DelegateOp))
    assert delegate.backend.data == BACKEND.runtime_id and isinstance(delegate.value, BlobAttr)
    return bytes(delegate.value.data.data)
