"""Calls single kernels of the runtime on torch tensors, through a shared library built from the sources.

The library is built for the families a test asks for (``ETIR_RUNTIME_BUILD`` names a build of the runtime by CMake,
whose objects are linked instead of compiled again; ``ETIR_KERNEL_FLAGS`` adds compiler flags, such as
``-fsanitize=address,undefined``); only what changed is compiled again. A call makes the method's table of values just
as the loader would, and every result is a tensor with room to spare whose size the kernel has to set.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from etir_testing import ROOT

RUNTIME = ROOT / "runtime"
BUILD = ROOT / "build" / "kernels"

DTYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10, torch.bool: 11,
    torch.bfloat16: 15, torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""Numbers of the format for torch's dtypes."""

_ALL_DTYPES = "0xffffffffu"
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
        self, name: str, arguments: Sequence[Any], outs: Sequence[torch.Tensor | Sequence[torch.Tensor]] = ()
    ) -> list[Any]:
        """Run an out-variant kernel, for instance ``aten::add.out``.

        Args:
            name: the operator's name.
            arguments: one Python value for each input of the schema, defaults included. Tensors must be dense.
            outs: what the results should look like (dtype, shape, layout); the kernel writes into new, larger buffers.

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
                args.append(self._out(values, like))  # type: ignore[arg-type]
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
    """Compile the kernels of some folders of runtime/kernels and load them.

    Without arguments all of them; with ``folders`` alone, those of folders elsewhere that have a ``kernels.json``.
    """
    name = "-".join(("kernels", *families, *(path.resolve().name for path in folders)))
    sources = [RUNTIME / "kernels" / "kernel.cc", RUNTIME / "kernels" / "call_for_test.cc"]
    return Kernels(link_kernels(f"{name}.so", sources, "-shared", families, folders))


def link_kernels(
    output: str,
    sources: Sequence[Path],
    link: str,
    families: Sequence[str] = (),
    folders: Sequence[Path] = (),
    only: Path | None = None,
) -> Path:
    """Compile ``sources``, the kernels of some families and their table, and link them with the flags ``link``.

    ``only`` is the file of a selection (runtime/kernels/generate.py), which says what is compiled for which types.
    Everything that is built with the same flags shares the objects of one folder; processes take turns in it.
    """
    flags = os.environ.get("ETIR_KERNEL_FLAGS", "-O2 -fno-math-errno -fno-trapping-math").split()
    key = "-".join(flag.strip("-").replace("=", "_").replace(",", "_") for flag in flags)
    folder = BUILD / key
    folder.mkdir(parents=True, exist_ok=True)
    select = [word for family in families for word in ("--family", family)]
    for path in folders:
        select += ["--folder", str(path), "--family", str(path.resolve())]
    if only is not None:
        select += ["--only", str(only)]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _link(folder, output, sources, link, folders, select, flags)
    return folder / output


def _link(
    folder: Path,
    output: str,
    sources: Sequence[Path],
    link: str,
    folders: Sequence[Path],
    select: Sequence[str],
    flags: Sequence[str],
) -> None:
    generate = [sys.executable, str(RUNTIME / "kernels" / "generate.py")]
    table, listing = folder / f"table-{output}.cc", folder / f"sources-{output}.txt"
    subprocess.run([*generate, str(table), *select], check=True)
    subprocess.run([*generate, str(listing), "--dtypes", *select], check=True)
    own = [word for path in folders for word in ("--folder", str(path))]
    subprocess.run([*generate, str(folder / "generated"), "--headers", *own], check=True)
    masks = dict(line.split() for line in listing.read_text().splitlines())
    kernels = {RUNTIME / "kernels" / source: mask for source, mask in masks.items()}
    compiler = os.environ.get("CXX", "g++")
    common = f"-std=c++17 -fPIC -Wall -Wextra -Werror -fvisibility=hidden -I{RUNTIME} -Igenerated {' '.join(flags)}"
    lines = [
        f"rule cxx\n  command = {compiler} {common}$types -fno-exceptions -fno-rtti -MMD -MF $out.d -c $in -o $out\n"
        "  depfile = $out.d\n  deps = gcc\n",
        f"rule link\n  command = {compiler} {link} {' '.join(flags)} $in -o $out -lpthread\n",
    ]
    objects: list[str] = []
    for source in [*kernels, *sources, table]:
        path = source.relative_to(RUNTIME) if source.is_relative_to(RUNTIME) else source
        mask = kernels.get(source, _ALL_DTYPES)
        built = _built_object(path) if mask == _ALL_DTYPES else None
        if built is not None:
            objects.append(str(built))
            continue
        suffix = "" if mask == _ALL_DTYPES else f"-{mask}"
        objects.append(str(path).strip("/").replace("/", "_") + f"{suffix}.o")
        lines.append(f"build {objects[-1]}: cxx {source}\n")
        if suffix:
            lines.append(f"  types = $ -DETIR_DTYPES={mask}\n")
    lines.append(f"build {output}: link {' '.join(objects)}\n")
    (folder / f"{output}.ninja").write_text("".join(lines))
    # The compiler must not run under the sanitizers that the tests may run under.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        ["ninja", "-C", str(folder), "-f", f"{output}.ninja", "-j2"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stdout[-8000:])


def _built_object(path: Path) -> Path | None:
    """The object of a source (relative to runtime/) in the CMake build that ``ETIR_RUNTIME_BUILD`` names, if any.

    Who has just built the runtime, as the gate has, need not compile it again, and tests the code that is installed.
    """
    build = os.environ.get("ETIR_RUNTIME_BUILD")
    if not build or "ETIR_KERNEL_FLAGS" in os.environ:
        return None
    candidates = (Path(build) / f"CMakeFiles/{target}.dir/{path}.o" for target in ("etir_kernels", "etir_core"))
    return next((candidate.resolve() for candidate in candidates if candidate.exists()), None)


def manifest() -> dict[str, dict[str, Any]]:
    """All rows of the kernel manifest."""
    rows: dict[str, dict[str, Any]] = {}
    for path in sorted((RUNTIME / "kernels").glob("*/kernels.json")):
        rows |= json.loads(path.read_text(encoding="utf-8"))
    return rows
