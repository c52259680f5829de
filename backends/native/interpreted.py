"""Running a function of ``tile`` with the NumPy meanings of its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, SSAValue

from etir.backends.native.functions import outputs_of
from etir.backends.native.kernels import template_of
from etir.backends.native.packing import packed
from etir.backends.native.print_sizes import given_sizes, is_dynamic
from etir.backends.native.specialize import specialized
from etir.backends.native.tile import BufferOp, TemplateOp, WeightOp, dims_of_type, extent_of, is_flags, strides_of

if TYPE_CHECKING:
    import numpy as np


def run_function(
    func: FuncOp, inputs: Sequence[np.ndarray], weight: Callable[[str], np.ndarray], precision: str = "float32"
) -> list[np.ndarray]:
    """What a function of ``tile`` computes, operation by operation; memory that nothing has written is NaN.

    ``weight`` gives the weight of a symbol, in its own shape. Memory holds numbers of ``precision``: "float64" says how
    far off those of "float32" are.
    """
    import numpy as np

    func = specialized(func, values_of(func, [np.shape(x) for x in inputs]))
    memory: dict[SSAValue, tuple[Any, int]] = {}
    args = func.body.block.args
    for arg, x in zip(args, inputs, strict=False):
        memory[arg] = (np.ascontiguousarray(x, np.bool_ if is_flags(arg.type) else precision).reshape(-1), 0)
    for arg in args[len(inputs) :]:
        empty = np.zeros(extent_of(arg.type), np.bool_) if is_flags(arg.type) else None
        memory[arg] = (np.full(extent_of(arg.type), np.nan, precision) if empty is None else empty, 0)
    for op in func.body.block.ops:
        if isinstance(op, WeightOp):
            memory[op.result] = (packed(op, weight(op.symbol.data), precision), 0)
        elif isinstance(op, BufferOp):
            memory[op.result] = (np.full(extent_of(op.result.type), np.nan, precision), 0)
        elif isinstance(op, ReinterpretCastOp):
            base, offset = memory[op.source]
            memory[op.results[0]] = (base, offset + op.static_offsets.get_values()[0])
        elif isinstance(op, TemplateOp):
            template_of(op).numpy(op, [array_in(memory[v][0], v.type, memory[v][1]) for v in op.operands])
    return [array_in(memory[arg][0], arg.type).copy() for arg in args[len(inputs) :]]


def values_of(func: FuncOp, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The values of the symbols of a function for inputs of these shapes."""
    return given_sizes(func, outputs_of(func)).values(shapes) if is_dynamic(func) else {}


def array_in(memory: np.ndarray, type: Attribute, offset: int = 0) -> np.ndarray:
    """The elements of a memref of this type, which starts ``offset`` elements into ``memory``."""
    import numpy as np

    strides = [memory.itemsize * s for s in strides_of(type)]
    return np.lib.stride_tricks.as_strided(memory[offset:], dims_of_type(type), strides)
