"""Functions of ``tile`` as code: compiled for one processor, copied to executable memory, called."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

from etir.backends.native.cc import compiler, shared_object
from etir.backends.native.cpu import cpu, family_of_host
from etir.backends.native.functions import outputs_of
from etir.backends.native.image import flat_image
from etir.backends.native.interpreted import array_in, run_function, values_of
from etir.backends.native.packing import packed
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.print_c import ENTRY, print_c, weights_of
from etir.backends.native.print_sizes import given_sizes, is_dynamic
from etir.backends.native.specialize import type_at
from etir.backends.native.tile import extent_of

from etir_testing.native.emulated import EMULATORS, EmulatedCode

GUARD = 16
"""Floats before and after everything that is written, which must stay as they are."""


class _Call(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("inputs", "outputs", "weights", "arena", "sizes", "pool", "run")]


def here() -> list[str]:
    """The processors for which this machine runs code."""
    family = family_of_host()
    if family != "x86-64":
        return [family]
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return ["x86-64", *(name for name, flag in (("x86-64-v3", " avx2 "), ("x86-64-v4", " avx512vl ")) if flag in flags)]


def ends() -> list[Any]:
    """Those of :func:`here` for parameters of tests: what is between the first and the last one is tested nightly."""
    import pytest

    first, *between = here()
    last = between[-1:]
    return [first, *(pytest.param(name, marks=pytest.mark.nightly) for name in between[:-1]), *last]


def emulated() -> list[str]:
    """The processors for which the tools of an emulation are installed, without those of :func:`here`."""
    return [name for name, emulator in EMULATORS.items() if emulator.missing is None and name not in here()]


def _aligned(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Floats at a multiple of 64 bytes, all NaN, and the same with the guards."""
    whole = np.full(count + 2 * GUARD + 16, np.nan, np.float32)
    start = (-whole.ctypes.data % 64) // 4 + GUARD
    return whole[start : start + count], whole


class Code:
    """A function of ``tile`` for one processor."""

    def __init__(self, func: FuncOp, name: str, weights: Mapping[str, np.ndarray] | None = None, cc: str = ""):
        self.func = func
        self.arena_bytes = plan_function(func)
        target = cpu(name)
        choose_schedules(func, target)
        share_kernels(func, target)
        self.text = print_c(func, target).text
        self.weights = {op: packed(op, (weights or {})[op.symbol.data]) for op in weights_of(func)}
        outputs = outputs_of(func)
        args = func.body.block.args
        self.inputs, self.outputs = args[: len(args) - outputs], args[len(args) - outputs :]
        self.emulated = EmulatedCode(self.text, name, cc) if name not in here() else None
        if self.emulated is not None:
            return
        self.image = flat_image(shared_object(self.text, target, compiler(cc)), ENTRY)
        self._memory = mmap.mmap(-1, len(self.image.code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(self.image.code)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Call))(start + self.image.entry)

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the code writes. Fails when it writes anywhere else."""
        given = [np.ascontiguousarray(x, x.dtype if x.dtype == np.bool_ else np.float32) for x in inputs]
        if self.emulated is not None:
            return self._emulate(self.emulated, given)
        types = types_of_call(self.func, given)[len(given) :]
        results = [_aligned(extent_of(type)) for type in types]
        arena, whole_arena = _aligned(self.arena_bytes // 4)
        pointers = [
            (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
            for arrays in (given, [r[0] for r in results], list(self.weights.values()))
        ]
        call = _Call(*(ctypes.addressof(p) for p in pointers), arena.ctypes.data, None, None, None)
        dims, wanted = numbers_of_call(self.func, given)
        array = (ctypes.c_int64 * len(dims))(*dims)
        if dims:
            call.sizes, call.outputs = ctypes.addressof(array), None
            assert self._entry(ctypes.byref(call)) == 0, "the code does not take the sizes"
            assert [*array] == wanted, "the code says other sizes of results"
            call.outputs = ctypes.addressof(pointers[1])
        assert self._entry(ctypes.byref(call)) == 0
        for inner, whole in [*results, (arena, whole_arena)]:
            first = (inner.ctypes.data - whole.ctypes.data) // 4
            assert np.isnan(whole[:first]).all() and np.isnan(whole[first + inner.size :]).all(), "written outside"
        return [array_in(r[0], type).copy() for r, type in zip(results, types, strict=True)]

    def _emulate(self, code: EmulatedCode, given: Sequence[np.ndarray]) -> list[np.ndarray]:
        types = types_of_call(self.func, given)[len(given) :]
        sizes = [4 * extent_of(type) for type in types]
        weights = [w.tobytes() for w in self.weights.values()]
        dims, _ = numbers_of_call(self.func, given)
        made = code([x.tobytes() for x in given], sizes, weights, self.arena_bytes, dims)
        return [array_in(np.frombuffer(m, np.float32), type).copy() for m, type in zip(made, types, strict=True)]


def types_of_call(func: FuncOp, inputs: Sequence[np.ndarray]) -> list[Any]:
    """The types of the arguments of a function for these inputs."""
    values = values_of(func, [x.shape for x in inputs])
    return [type_at(arg.type, values) for arg in func.body.block.args]


def numbers_of_call(func: FuncOp, inputs: Sequence[np.ndarray]) -> tuple[list[int], list[int]]:
    """What a function is told of sizes for these inputs, and what it makes of it."""
    places = given_sizes(func, outputs_of(func)).places if is_dynamic(func) else []
    types = types_of_call(func, inputs)
    shapes = [*(x.shape for x in inputs), *(type.get_shape() for type in types[len(inputs) :])]
    found = [shapes[argument][dim] for argument, dim in places]
    return [n if argument < len(inputs) else -1 for n, (argument, _) in zip(found, places, strict=True)], found


def meaning(
    func: FuncOp, inputs: Sequence[np.ndarray], weights: Mapping[str, np.ndarray], precision: str = "float32"
) -> list[np.ndarray]:
    """What a function of ``tile`` means, operation by operation; memory that nothing has written is NaN."""
    return run_function(func, inputs, weights.__getitem__, precision)
