"""Tensors as blobs: the bytes are referred to, not copied, when the tensor is dense, contiguous and on the CPU.

A fake tensor becomes a blob without bytes, as in a module that was read from text: a program of any size, exported
under ``FakeTensorMode``, compiles up to its memory plan without its weights.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.et.weights import Blob, BlobAttr
from etir.lowering.errors import E0404
from etir.lowering.import_fx.types import ELEMENT_TYPES, type_of_tensor


class BlobPool:
    """Blobs of one import; a tensor that is used under several names is hashed once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, torch.dtype], Blob] = {}
        self._keep: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor, name: str) -> tuple[TensorType[Attribute], BlobAttr]:
        """Type and payload of ``tensor``. Raises error E0404 for a tensor without plain CPU bytes."""
        data = tensor.detach()
        if isinstance(data, FakeTensor):
            return self._without_bytes(data, name)
        if type(data) not in (torch.Tensor, torch.nn.Parameter) or data.layout is not torch.strided:
            raise E0404.error(f"'{name}' is a {type(data).__name__} with layout {data.layout}")
        if data.dtype not in ELEMENT_TYPES:
            raise E0404.error(f"'{name}' has dtype {data.dtype}")
        if data.device.type != "cpu":
            raise E0404.error(f"'{name}' is on device {data.device}")
        data = data.contiguous()
        key = (data.data_ptr(), data.numel() * data.element_size(), data.dtype)
        blob = self._known.get(key) if data.numel() else None
        if blob is None:
            self._keep.append(data)
            blob = Blob.of(_bytes_of(data))
            self._known[key] = blob
        return type_of_tensor(data), BlobAttr(blob)

    def _without_bytes(self, tensor: torch.Tensor, name: str) -> tuple[TensorType[Attribute], BlobAttr]:
        """A blob known by the name of its tensor."""
        if tensor.dtype not in ELEMENT_TYPES:
            raise E0404.error(f"'{name}' has dtype {tensor.dtype}")
        return type_of_tensor(tensor), BlobAttr(Blob(f"fake:{name}", tensor.numel() * tensor.element_size()))


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    # A row of one element may have any stride, which another element size does not take.
    return tensor.reshape(-1).as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().data
