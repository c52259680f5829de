"""The functions of ``tile`` that a program's native delegates are compiled from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

import etir
from etir.backends.api.interface import Artifact, Outlined
from etir.backends.api.registry import register_dialect
from etir.backends.native import compile as native
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.tile import WeightOp
from etir.dialects.context import EtContext
from etir.dialects.et.program import ConstantOp, GetWeightOp, dense_bytes
from etir.dialects.et.weights import Blob
from etir.dialects.text import parse_module


@dataclass(frozen=True)
class Tiled:
    """A function of ``tile`` with places and without schedules, and the weights that it reads, by symbol."""

    func: FuncOp
    weights: Mapping[str, np.ndarray]
    arena_bytes: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The sizes of the weights."""
        return {symbol: array.shape for symbol, array in self.weights.items()}


def parsed_function(text: str) -> FuncOp:
    """The only function of a text of ``tile``. Raises EtirError where it is none."""
    context = EtContext()
    register_dialect(context, "tile")
    (func,) = parse_module(text, context).body.block.ops
    assert isinstance(func, FuncOp)
    return func


def tiled(outlined: Outlined, family_of: str = "x86-64-v4") -> Tiled:
    """The function that an outlined one is compiled as."""
    from etir.backends.native.cpu import cpu

    func = native.tile_function(outlined.func, cpu(family_of))
    read = {op.symbol.data for op in func.body.block.ops if isinstance(op, WeightOp)}
    weights: dict[str, np.ndarray] = {}
    constants = 0
    for op in outlined.func.body.block.ops:
        if isinstance(op, GetWeightOp):
            symbol = op.symbol.root_reference.data
            data: Any = outlined.weight(symbol)
            data = data.data if isinstance(data, Blob) else data
        elif isinstance(op, ConstantOp):
            symbol = native.constant_name(constants)
            constants += 1
            data = dense_bytes(op.value)
        else:
            continue
        if symbol in read:
            shape = op.results[0].type.get_shape()  # type: ignore[union-attr]
            kind = {1: np.bool_, 8: np.int64}.get(len(data) // max(1, math.prod(shape)), np.float32)
            weights[symbol] = np.frombuffer(data, kind).astype(np.float32).reshape(shape)
    return Tiled(func, weights, plan_function(func))


@contextmanager
def collected(family_of: str = "x86-64-v4") -> Iterator[list[Tiled]]:
    """While it lasts, the functions of native delegates are collected instead of compiled."""
    found: list[Tiled] = []
    real = native.compile_function

    def collect(outlined: Outlined, *_: Any, **__: Any) -> Artifact:
        found.append(tiled(outlined, family_of))
        return Artifact(b"")

    native.compile_function = collect
    try:
        yield found
    finally:
        native.compile_function = real


def functions_of(exported: Any, family_of: str = "x86-64-v4") -> list[Tiled]:
    """The functions of ``tile`` of an exported program, in order; no code is made."""
    with collected(family_of) as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    return found
