"""Small programs with native delegates whose images are no code: seeds of the fuzzers.

Every image is :data:`IMAGE` and its contract, and ends a process that runs it (``runtime/executor/program_fuzz.cc``).
One file is of linked code: its function is found by its contract, so that the fuzzer knows both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn

import etir
from etir.backends.native import compile as native
from etir.backends.native import linked
from etir.backends.native.image import Image
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.weights import BlobAttr
from etir.emit.from_pte import read_program

IMAGE = b"\xcc" * 64


def blobs_of(data: bytes) -> list[bytes]:
    """The blobs of the delegates of a file, in order."""
    delegates = [op for op in read_program(data).walk() if isinstance(op, DelegateOp)]
    return [bytes(op.value.data.data) for op in delegates if isinstance(op.value, BlobAttr)]


class _Images(nn.Module):
    """A window, a product of a window, one channel each, a pool and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3, (3, 2), padding=1)
        self.each = nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.last = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.each(self.first(x)))
        return self.last(nn.functional.max_pool2d(x, 2).mean((2, 3)))


class _Rows(nn.Module):
    """Two inputs and two outputs, a constant, a product of inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(5)
        self.table = nn.Parameter(torch.randn(1, 5, 4))

    def forward(self, x: Any, y: Any) -> Any:
        x = self.norm(x) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        z = torch.bmm(x, self.table).softmax(-1)
        return z, torch.bmm(y, z)


class _Two(nn.Module):
    """Two delegates around an operator that stays with the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3, bias=False)

    def forward(self, x: Any) -> Any:
        return self.b(torch.logcumsumexp(self.a(x), 1))


class _Shuffled(nn.Module):
    """Pixels made of channels: weights whose channels go round groups."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(2, 128, 1)

    def forward(self, x: Any) -> Any:
        return nn.functional.pixel_shuffle(self.wide(x), 2)


_CASES: dict[str, tuple[Callable[[], nn.Module], Sequence[tuple[int, ...]], Sequence[str]]] = {
    "linear": (lambda: nn.Linear(3, 2), [(2, 3)], ["x86-64"]),
    "images": (_Images, [(1, 2, 5, 4)], ["x86-64", "x86-64-v3"]),
    "rows": (_Rows, [(1, 3, 5), (1, 2, 3)], ["x86-64", "x86-64-v3", "x86-64-v4"]),
    "two": (_Two, [(2, 4)], ["x86-64"]),
    "shuffled": (_Shuffled, [(1, 2, 3, 2)], ["x86-64"]),
    "sizes": (lambda: nn.Linear(3, 2), [(4, 3, 3)], ["x86-64", "x86-64-v3"]),
}
_SIZES: dict[str, Any] = {"sizes": ({0: torch.export.Dim("n", max=5), 1: torch.export.Dim("m", max=4)},)}
"""What of the inputs is known at run time only."""


def digest_of(tables: bytes, text: str) -> bytes:
    """The digest of linked code in these files: its contract."""
    return tables


def linked_program() -> bytes:
    """A file whose code is linked."""
    torch.manual_seed(0)
    exported = torch.export.export(_Images().eval(), (torch.randn(1, 2, 5, 4),))
    with (
        mock.patch.object(linked, "digest_of", digest_of),
        mock.patch.object(linked, "_code_bytes", lambda *_: (None, "")),
    ):
        return bytes(etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 linked=true}"]).buffer)


def programs() -> dict[str, bytes]:
    """The files, by name."""
    found: dict[str, bytes] = {"linked": linked_program()}
    for name, (make, shapes, cpus) in _CASES.items():
        torch.manual_seed(0)
        exported = torch.export.export(make().eval(), tuple(map(torch.randn, shapes)), dynamic_shapes=_SIZES.get(name))
        with (
            mock.patch.object(native, "compiler"),
            mock.patch.object(native, "shared_objects", lambda texts, *_: [b""] * len(texts)),
            mock.patch.object(native, "flat_image", lambda *_: Image(IMAGE, 16)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            delegate = f"native{{cpus={','.join(cpus)}}}"
            found[name] = bytes(etir.compile(exported, target="etir", delegates=[delegate]).buffer)
    return found
