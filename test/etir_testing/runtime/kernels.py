"""Calls single kernels of the runtime on torch tensors, through a shared library that CMake builds (builds.py).

A call makes the method's table of values just as the loader would, and every result is a tensor with room to spare
whose size the kernel has to set.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from etir_testing import ROOT
from etir_testing.runtime import builds

RUNTIME = ROOT / "runtime"
BUILD = ROOT / "build" / "kernels"

DTYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10, torch.bool: 11,
    torch.bfloat16: 15, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""Numbers of the format for torch's dtypes."""

_NONE, _INT, _BOOL, _DOUBLE, _TENSOR, _STRING, _INTS, _DOUBLES, _BOOLS, _TENSORS, _OPTIONAL_TENSORS = range(1, 12)
_STATIC, _BOUND = 0, 1


class KernelFailure(Exception):
    """A kernel refused its arguments: the number of the check, and its two numbers."""

    def __init__(self, check: int, a: int, b: int):
        super().__init__(f"check {check} ({check_names().get(check, '?')}), a={a}, b={b}")
        self.check = check_names().get(check, str(check))
        self.a, self.b = a, b


@functools.cache
def check_names() -> dict[int, str]:
    """Number to name of every check in core/checks.def."""
    text = (RUNTIME / "core" / "checks.def").read_text(encoding="utf-8")
    return {int(number): name for name, number in re.findall(r"ETIR_CHECK\((\w+), (\d+),", text)}


class TensorHeader(ctypes.Structure):
    """A tensor as core/tensor.h lays it out."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("dim_order", ctypes.c_void_p),
        ("dtype", ctypes.c_uint8),
        ("rank", ctypes.c_uint8),
        ("dynamism", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("capacity", ctypes.c_uint32),
    ]


class _Values:
    """A table of values in the making; keeps everything that it points to alive."""

    def __init__(self) -> None:
        self.payloads: list[int] = []
        self.tags: list[int] = []
        self.kept: list[Any] = []

    def add(self, tag: int, payload: int = 0) -> int:
        self.payloads.append(payload & 0xFFFFFFFFFFFFFFFF)
        self.tags.append(tag)
        return len(self.tags) - 1

    def keep(self, data: Any) -> int:
        self.kept.append(data)
        return ctypes.addressof(data)

    def vector(self, data: bytes, count: int) -> int:
        # The items of 8 bytes are aligned as a file aligns them: the count comes 4 bytes before.
        buffer = ctypes.create_string_buffer(b"\0" * 4 + count.to_bytes(4, "little") + data)
        return self.keep(buffer) + 4

    def tensor(self, tensor: torch.Tensor, dynamic: bool = False) -> int:
        order = dim_order(tensor)
        rank = tensor.dim()
        sizes = (ctypes.c_int32 * max(rank, 1))(*tensor.shape)
        orders = (ctypes.c_uint8 * max(rank, 1))(*order)
        row_major = list(order) == list(range(rank))
        header = TensorHeader(
            tensor.data_ptr(),
            self.keep(sizes),
            None if row_major else self.keep(orders),
            DTYPES[tensor.dtype],
            rank,
            _BOUND if dynamic else _STATIC,
            0,
            tensor.numel() if dynamic else 0,
        )
        self.kept.append(tensor)
        return self.add(_TENSOR, self.keep(header))

    def header(self, index: int) -> TensorHeader:
        return TensorHeader.from_address(self.payloads[index])

    def value(self, letter: str, value: Any) -> int:
        if value is None:
            return self.add(_NONE)
        kind = letter.upper()
        if kind == "T":
            return self.tensor(value)
        if isinstance(value, torch.dtype):
            return self.add(_INT, DTYPES[value])
        if isinstance(value, torch.memory_format):
            return self.add(_INT, {torch.contiguous_format: 0, torch.preserve_format: 1}[value])
        if kind in "VW":
            items = [-1 if item is None else self.tensor(item) for item in value]
            data = b"".join(i.to_bytes(4, "little", signed=True) for i in items)
            return self.add(_TENSORS if kind == "V" else _OPTIONAL_TENSORS, self.vector(data, len(items)))
        if kind == "S":
            data = value.encode() + b"\0"
            return self.add(_STRING, self.vector(data, len(data) - 1))
        if kind == "L":
            items = [self.add(_INT, int(item)) for item in value]
            return self.add(_INTS, self.vector(b"".join(i.to_bytes(8, "little") for i in items), len(items)))
        if kind == "F":
            return self.add(_DOUBLES, self.vector(b"".join(map(_double_bytes, value)), len(value)))
        if kind == "O":
            return self.add(_BOOLS, self.vector(bytes(map(bool, value)), len(value)))
        if isinstance(value, bool):
            return self.add(_BOOL, int(value)) if kind in "BN" else self.add(_INT, int(value))
        if isinstance(value, int) and kind in "IN":
            return self.add(_INT, value)
        return self.add(_DOUBLE, int.from_bytes(_double_bytes(value), "little"))


def _double_bytes(value: float) -> bytes:
    return bytes(ctypes.c_double(value))


def dim_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Dims from outermost to innermost, as a file orders them. Raises ValueError for layouts that it cannot express."""
    order = tuple(sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))) if not tensor.is_contiguous() else None
    if order is None:
        return tuple(range(tensor.dim()))
    if not tensor.permute(order).is_contiguous():
        raise ValueError(f"strides {tensor.stride()} of shape {tuple(tensor.shape)} are not dense")
    return order


class Kernels:
    """The kernels of some families, compiled."""

    def __init__(self, path: Path):
        self.library = ctypes.CDLL(str(path))
        self.library.etir_call_kernel.restype = ctypes.c_bool
        self.library.etir_kernel_signature.restype = ctypes.c_char_p
        self.temp = ctypes.create_string_buffer(64 << 20)
        self.temp_used = 0

    def call(
        self,
        name: str,
        arguments: Sequence[Any],
        outs: Sequence[torch.Tensor | Sequence[torch.Tensor]] = (),
        over: int | None = None,
    ) -> list[Any]:
        """Run an out-variant kernel, for instance ``aten::add.out``.

        Args:
            name: the operator's name.
            arguments: one Python value for each input of the schema, defaults included. Tensors must be dense.
            outs: what the results should look like (dtype, shape, layout); the kernel writes into new, larger buffers.
            over: the argument whose memory the first result has, which is changed.

        Returns:
            The results, in order; for a list of results a list. Arguments that a kernel writes are changed in place.

        Raises:
            KernelFailure: the kernel refused.
        """
        found = self.library.etir_kernel_signature(name.encode())
        assert found is not None, f"no kernel {name}"
        inputs, _, results = found.decode().partition(">")
        assert len(arguments) == len(inputs), f"{name} takes {inputs}, got {len(arguments)} arguments"
        values = _Values()
        args = [values.value(letter, value) for letter, value in zip(inputs, arguments, strict=True)]
        made: list[Any] = []
        for kind, like in zip(results, outs, strict=True):
            if kind == "V":
                indices = [self._out(values, item) for item in like]
                data = b"".join(i.to_bytes(4, "little") for i in indices)
                args.append(values.add(_TENSORS, values.vector(data, len(indices))))
                made.append(indices)
            else:
                first = over is not None and not made
                args.append(self._over(values, arguments[over]) if first else self._out(values, like))  # type: ignore[arg-type, index]
                made.append(args[-1])
        args.append(args[-1] if args else 0)
        payloads = (ctypes.c_uint64 * len(values.payloads))(*values.payloads)
        tags = (ctypes.c_uint8 * len(values.tags))(*values.tags)
        record = (ctypes.c_int64 * 4)()
        indices = (ctypes.c_int32 * (1 + len(args)))(len(args), *args)  # a vector of a file: its count comes first
        self.library.etir_call_kernel(
            name.encode(), payloads, tags, ctypes.c_uint32(len(values.tags)), ctypes.byref(indices, 4),
            self.temp, ctypes.c_size_t(len(self.temp)), record,
        )  # fmt: skip
        self.temp_used = record[3]
        if record[0]:
            raise KernelFailure(record[0], record[1], record[2])
        return [[self._read(values, i) for i in m] if isinstance(m, list) else self._read(values, m) for m in made]

    def _out(self, values: _Values, like: torch.Tensor) -> int:
        """A result with room for 3 elements more, sizes that are wrong, and rubbish in it."""
        order = dim_order(like)
        storage = torch.empty(like.numel() + 3, dtype=like.dtype)
        storage.view(torch.uint8).fill_(0xA5) if like.dtype != torch.bool else storage.fill_(True)
        index = values.tensor(like, True)
        header = values.header(index)
        header.data = storage.data_ptr()
        header.capacity = storage.numel()
        if like.dim() > 0:
            sizes = (ctypes.c_int32 * like.dim()).from_address(header.sizes)
            sizes[0] = 1 if sizes[0] != 1 else 0
        values.kept.append((storage, order))
        self._storages = getattr(self, "_storages", {})
        self._storages[index] = (storage, order, like.dtype)
        return index

    def _over(self, values: _Values, operand: torch.Tensor) -> int:
        """A result in the memory of an operand."""
        order = dim_order(operand)
        index = values.tensor(operand, True)
        self._storages = getattr(self, "_storages", {})
        self._storages[index] = (operand.permute(order).reshape(-1), order, operand.dtype)
        return index

    def _read(self, values: _Values, index: int) -> torch.Tensor:
        storage, order, dtype = self._storages[index]
        header = values.header(index)
        sizes = list((ctypes.c_int32 * header.rank).from_address(header.sizes)) if header.rank else []
        count = 1
        for size in sizes:
            count *= size
        if header.data != storage.data_ptr():
            raise AssertionError("the kernel moved its result")
        flat = storage[:count]
        return flat.reshape([sizes[d] for d in order]).permute([order.index(d) for d in range(len(order))])


@functools.cache
def build_kernels(*families: str, folders: tuple[Path, ...] = ()) -> Kernels:
    """Build the kernels and load them: all of etir's, or those of ``folders`` elsewhere that have a ``kernels.json``.

    ``families`` are what a test calls, for its reader: one library has them all.
    """
    known = manifest()
    assert all(any(row["family"] == family for row in known.values()) for family in families)
    return Kernels(kernel_library("etir_kernel_test", folders=folders))


def kernel_library(
    target: str, *, families: Sequence[str] = (), folders: Sequence[Path] = (), only: Path | None = None
) -> Path:
    """A library for ctypes. With ``families`` or ``folders`` its kernels are theirs alone, with ``only`` those of a
    selection (docs/runtime.md); else it has them all.
    """
    defines: dict[str, object] = {}
    if families or folders:
        names = [name for name, row in manifest().items() if row["family"] in families]
        for folder in folders:
            names += json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
        only = builds.selection(names)
        defines["ETIR_KERNEL_FOLDERS"] = ";".join(str(folder.resolve()) for folder in folders)
    if only is not None:
        defines |= {"ETIR_ONLY_OPS": only, "ETIR_ISAS": ""}
    flags = os.environ.get("ETIR_CXX_FLAGS")
    if flags:
        defines |= {"CMAKE_CXX_FLAGS": flags, "ETIR_ISAS": ""}
    folder = builds.build(builds.preset_of_tests(), target, defines=defines)
    (found,) = (folder / "runtime" / "testing").glob(f"lib{target}.*")
    return found


def manifest() -> dict[str, dict[str, Any]]:
    """All rows of the kernel manifest, each with its folder under ``family``."""
    rows: dict[str, dict[str, Any]] = {}
    for path in sorted((RUNTIME / "kernels").glob("*/kernels.json")):
        family = {"family": path.parent.name}
        rows |= {name: row | family for name, row in json.loads(path.read_text(encoding="utf-8")).items()}
    return rows
