"""Loads and runs programs on the runtime's executor, through runtime/executor/executor_api_test.cc and ctypes.

The library is built like that of the kernel tests (``kernels.py``).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from etir_testing.runtime.kernels import DTYPES, TensorHeader, check_names, dim_order, kernel_library

TORCH = {number: dtype for dtype, number in DTYPES.items()}
NONE, INT, BOOL, DOUBLE, TENSOR, STRING, INT_LIST, DOUBLE_LIST, BOOL_LIST, TENSOR_LIST, OPTIONAL_TENSOR_LIST = range(
    1, 12
)


class ExecutorError(Exception):
    """A call failed: the error's category, the check, where, and its two numbers."""

    def __init__(self, error: int, record: Sequence[int]):
        self.error = error
        self.check = check_names().get(record[0], str(record[0]))
        self.method, self.instruction, self.op, self.a, self.b = record[1:6]
        super().__init__(
            f"error {error:#x}, check {self.check}, method {self.method}, instruction {self.instruction}, "
            f"operator {self.op}, a={self.a}, b={self.b}"
        )


class _Input(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_uint8),
        ("rank", ctypes.c_uint8),
        ("sizes", ctypes.c_void_p),
        ("dim_order", ctypes.c_void_p),
    ]


class _Planned(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint64), ("contents", ctypes.c_uint8)]


_KEPT = 2
"""``Contents::Kept`` of ``executor/method.h``."""


class Memory:
    """Bytes at a multiple of 64."""

    def __init__(self, size: int, offset: int = 0):
        self.size = size
        self._buffer = (ctypes.c_char * (size + 64 + offset))()
        address = ctypes.addressof(self._buffer)
        self.address = (address + 63) // 64 * 64 + offset

    def bytes(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


@functools.cache
def build_executor(*families: str) -> Any:
    """The executor with all kernels, as a ctypes library. ``families`` are those that a test needs, for its reader."""
    return open_executor(kernel_library("etir_executor_test"))


def open_executor(path: Path) -> Any:
    """The library of an executor, with the types of its functions."""
    library = ctypes.CDLL(str(path))
    for name in ("etir_program_new", "etir_external_new", "etir_method_new", "etir_meta_string"):
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("etir_meta", "etir_method_list_item", "etir_method_number", "etir_program_named_data"):
        getattr(library, name).restype = ctypes.c_uint64
    for name in ("load", "run", "set_tensor", "set_number", "set_output"):
        getattr(library, f"etir_method_{name}").restype = ctypes.c_uint32
    library.etir_method_output.restype = ctypes.c_uint8
    return library


def _checked(error: int, record: Any) -> None:
    if error:
        raise ExecutorError(error, list(record))


class Program:
    """A loaded program. ``data`` are its bytes, or a path with ``kind`` 1 (read) or 2 (mapped)."""

    def __init__(self, library: Any, data: bytes | str, kind: int = 0):
        self.library = library
        self.methods: dict[Any, None] = {}
        self.handle = ctypes.c_void_p(library.etir_program_new())
        record = (ctypes.c_int64 * 6)()
        if kind == 0:
            self.memory = Memory(len(data))
            ctypes.memmove(self.memory.address, data, len(data))  # type: ignore[arg-type]
            given: Any = ctypes.c_void_p(self.memory.address)
        else:
            given = ctypes.c_char_p(str(data).encode())
        size = ctypes.c_size_t(len(data) if kind == 0 else 0)
        _checked(library.etir_program_load(self.handle, kind, given, size, record), record)

    def __del__(self) -> None:
        # Garbage that refers to itself is collected in any order, but methods have to end before their program.
        for method in self.methods:
            self.library.etir_method_free(ctypes.c_void_p(method))
        self.methods = {}
        self.library.etir_program_free(self.handle)

    def __len__(self) -> int:
        return self.library.etir_program_methods(self.handle)

    def meta(self, method: int, what: int, i: int = 0) -> int:
        return self.library.etir_meta(self.handle, method, what, i)

    def text(self, method: int, what: int, i: int = 0) -> str:
        size = ctypes.c_size_t()
        data = self.library.etir_meta_string(self.handle, method, what, i, ctypes.byref(size))
        return ctypes.string_at(data, size.value).decode() if size.value else ""

    @property
    def names(self) -> list[str]:
        return [self.text(i, 0) for i in range(len(self))]

    def method_memory(self, method: int = 0) -> int:
        return self.meta(method, 4)

    def planned(self, method: int = 0) -> list[int]:
        return [self.meta(method, 3, i) for i in range(self.meta(method, 2))]

    def operators(self, method: int = 0) -> list[str]:
        pairs = [(self.text(method, 1, i), self.text(method, 2, i)) for i in range(self.meta(method, 7))]
        return [".".join(filter(None, pair)) for pair in pairs]

    def named_data(self, key: str) -> bytes | None:
        data = ctypes.c_void_p()
        size = self.library.etir_program_named_data(self.handle, key.encode(), ctypes.byref(data))
        return None if size == 2**64 - 1 else ctypes.string_at(data.value, size) if size else b""


class External:
    """A loaded .ptd file."""

    def __init__(self, library: Any, data: bytes):
        self.library = library
        self.memory = Memory(len(data))
        ctypes.memmove(self.memory.address, data, len(data))
        self.handle = ctypes.c_void_p(
            library.etir_external_new(ctypes.c_void_p(self.memory.address), ctypes.c_size_t(len(data)))
        )
        record = (ctypes.c_int64 * 6)()
        _checked(library.etir_external_load(self.handle, record), record)

    def __del__(self) -> None:
        self.library.etir_external_free(self.handle)


class Method:
    """A loaded method, with memory of exactly the size that the program asks for."""

    def __init__(
        self,
        program: Program,
        index: int | str = 0,
        *,
        memory: Memory | None = None,
        planned: Sequence[tuple[Memory, bool]] | None = None,
        temp: int = 1 << 20,
        external: External | None = None,
        limit: int = 10_000_000,
        allocator: bool = False,
        extra: int = 0,
        share: Method | None = None,
        watched: bool = False,
    ):
        self.program, self.library, self.external = program, program.library, external
        self.index = program.names.index(index) if isinstance(index, str) else index
        self.memory = Memory(program.method_memory(self.index) + extra) if memory is None else memory
        if planned is None:
            planned = [(Memory(size), False) for size in program.planned(self.index)]
        self.planned = planned
        buffers = ((memory.address, memory.size, _KEPT if keep else 0) for memory, keep in planned)
        self._buffers = (_Planned * max(len(planned), 1))(*buffers)
        self.handle = ctypes.c_void_p(self.library.etir_method_new())
        program.methods[self.handle.value] = None
        self._kept: dict[int, Any] = {}
        self._record = (ctypes.c_int64 * 6)()
        self._limit, self._allocator = limit, allocator
        self._shared = share
        self.library.etir_method_delegates(self.handle, share.handle if share else ctypes.c_void_p(None), int(watched))
        self.load(temp)

    def load(self, temp: int) -> None:
        """Load the method, again with all that it was given before but ``temp`` bytes of temporary memory."""
        self.temp = Memory(temp)
        self._call(
            "load", self.program.handle, self.index, ctypes.c_void_p(self.memory.address),
            ctypes.c_size_t(self.memory.size), self._buffers, ctypes.c_size_t(len(self.planned)),
            ctypes.c_void_p(self.temp.address), ctypes.c_size_t(temp),
            self.external.handle if self.external else ctypes.c_void_p(None), ctypes.c_uint64(self._limit),
            int(self._allocator),
        )  # fmt: skip

    def __del__(self) -> None:
        if self.handle.value in self.program.methods:
            del self.program.methods[self.handle.value]
            self.library.etir_method_free(self.handle)

    def _call(self, name: str, *arguments: Any) -> None:
        _checked(getattr(self.library, f"etir_method_{name}")(self.handle, *arguments, self._record), self._record)

    def set_input(self, i: int, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.set_tensor(i, value.data_ptr(), value.dtype, list(value.shape), list(dim_order(value)))
            self._kept[i] = value
        else:
            tag = {type(None): NONE, bool: BOOL, int: INT, float: DOUBLE}[type(value)]
            bits = 0 if value is None else int(value) & (2**64 - 1) if tag != DOUBLE else _bits(value)
            self._call("set_number", i, ctypes.c_uint8(tag), ctypes.c_uint64(bits))

    def set_tensor(self, i: int, address: int | None, dtype: torch.dtype, sizes: list[int], order: list[int]) -> None:
        rank = len(sizes)
        given = _Input(
            address, DTYPES[dtype], rank,
            ctypes.cast((ctypes.c_int32 * max(rank, 1))(*sizes), ctypes.c_void_p),
            ctypes.cast((ctypes.c_uint8 * max(rank, 1))(*order), ctypes.c_void_p),
        )  # fmt: skip
        self._call("set_tensor", i, ctypes.byref(given))

    def set_output(self, i: int, memory: Memory) -> None:
        self._kept[-1 - i] = memory
        self._call("set_output", i, ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.size))

    def execute(self) -> None:
        self._call("run", 0)

    def step(self) -> None:
        self._call("run", 1)

    def reset(self) -> None:
        self._call("run", 2)

    def number(self, what: int) -> int:
        return self.library.etir_method_number(self.handle, what)

    def output(self, i: int) -> Any:
        bits = ctypes.c_uint64()
        tag = self.library.etir_method_output(self.handle, i, ctypes.byref(bits))
        if tag == NONE:
            return None
        if tag == BOOL:
            return bool(bits.value)
        if tag == INT:
            return ctypes.c_int64(bits.value).value
        if tag == DOUBLE:
            return ctypes.c_double.from_buffer(bits).value
        if tag == TENSOR:
            return read_tensor(bits.value)
        count = self.library.etir_method_list_size(self.handle, i)
        if tag == STRING:
            return ctypes.string_at(bits.value + 4, count).decode()
        items = [self.library.etir_method_list_item(self.handle, i, k) for k in range(count)]
        if tag == INT_LIST:
            return [ctypes.c_int64(item).value for item in items]
        if tag == DOUBLE_LIST:
            return [ctypes.c_double.from_buffer(ctypes.c_uint64(item)).value for item in items]
        if tag == BOOL_LIST:
            return [bool(item) for item in items]
        return [read_tensor(item) if item else None for item in items]

    def outputs(self) -> list[Any]:
        return [self.output(i) for i in range(self.program.meta(self.index, 1))]

    def __call__(self, *inputs: Any) -> list[Any]:
        for i, value in enumerate(inputs):
            self.set_input(i, value)
        self.execute()
        return self.outputs()


def _bits(value: float) -> int:
    return int.from_bytes(bytes(ctypes.c_double(value)), "little")


def read_tensor(address: int) -> torch.Tensor:
    """A copy of a tensor of the runtime's."""
    header = TensorHeader.from_address(address)
    dtype = TORCH[header.dtype]
    sizes = list((ctypes.c_int32 * header.rank).from_address(header.sizes)) if header.rank else []
    order = list(range(header.rank))
    if header.dim_order:
        order = list((ctypes.c_uint8 * header.rank).from_address(header.dim_order))
    count = 1
    for size in sizes:
        count *= size
    if count == 0:
        return torch.empty(sizes, dtype=dtype)
    data = ctypes.string_at(header.data, count * dtype.itemsize)
    flat = torch.frombuffer(bytearray(data), dtype=dtype)
    return flat.reshape([sizes[d] for d in order]).permute([order.index(d) for d in range(len(order))])
