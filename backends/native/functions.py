"""Functions of ``tile`` in a module: what says that a function is one.

A method calls such a function with ``backend.call_delegate``; its arguments are the memory of the inputs and then of
the outputs. Weights are symbols of the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

OUTPUTS = "native.outputs"
"""How many of the last arguments of a function are outputs."""
PLACES = "native.places"
"""The bytes of the arena at which the arguments of a function may be, if it is a workspace that they are in."""

CUT = "native.cut"
"""Of an outlined function: the bytes from which on images have no border where their readers can do without."""
DIRECT = "native.direct"
"""Of an outlined function: the bytes from which on images are not transformed for Winograd's algorithm."""
ROOM = "native.room"
"""Of an outlined function: the bytes that its code may need, with its inputs and outputs. Blocks of tiles for
Winograd's algorithm are as large as there is room for beside what lives then, where they are saved on."""
LATE = "native.late"
"""Of an outlined function and of that of ``tile``: the bytes from which on what is joined, or lies in a border, is made
in memory of its own first."""
SAVES = "native.saves"
"""Of an outlined function and of that of ``tile``: what code does without, by name (``savings.py``)."""

FITTING = "fitting"
"""What a function does without that transforms images only where there is room for their tiles."""
PLANES = "planes"
"""What is saved where products write planes, and read what they add to their sums of them."""
RESIDUALS = "residuals"
"""What is saved where images are planes that products add to such planes, so that the sums may lie over them."""


def saved(func: FuncOp) -> tuple[str, ...]:
    """What the code of a function does without."""
    found = func.attributes.get(SAVES)
    names = found.data if isinstance(found, ArrayAttr) else ()
    return tuple(name.data for name in names if isinstance(name, StringAttr))


def least_bytes(func: FuncOp, name: str) -> int | None:
    """The number that one of these attributes has; None without it."""
    found = func.attributes.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else None


def tile_functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions of a module that are ``tile``."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and OUTPUTS in op.attributes and not op.is_declaration:
            yield op


def outputs_of(func: FuncOp) -> int:
    """How many of the last arguments are outputs."""
    return cast("IntegerAttr[IntegerType]", func.attributes[OUTPUTS]).value.data


def places_of(func: FuncOp) -> tuple[int, ...]:
    """The places of the arguments in a workspace; empty for a function that has an arena of its own."""
    places = func.attributes.get(PLACES)
    return tuple(places.get_values()) if isinstance(places, DenseArrayBase) else ()
