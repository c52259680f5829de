"""Loops in decompositions: ``control.scan`` around operators that a function builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from etir.dialects.control.ops import ScanOp, YieldOp
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, dims, element

Step = Callable[[list[SSAValue], list[SSAValue]], tuple[Sequence[SSAValue], Sequence[SSAValue]]]
"""Carried values and slices of what is gone over → the next carried values, and what is stacked."""


def scan(
    b: Builder, inits: Sequence[SSAValue], inputs: Sequence[SSAValue], step: Step
) -> tuple[list[SSAValue], list[SSAValue]]:
    """Go over the leading dims of ``inputs``: the last carried values, and the stacked ones.

    ``step`` builds the loop's body with ``b``; it must not ask for dynamic sizes, which would
    be read in the body and used after it.
    """
    slices = [tensor_type(element(x), dims(x)[1:]) for x in inputs]
    block = Block(arg_types=[*(v.type for v in inits), *slices])
    before = b.rewriter.insertion_point
    b.rewriter.insertion_point = InsertPoint.at_end(block)
    carried, stacked = step(list(block.args[: len(inits)]), list(block.args[len(inits) :]))
    b.insert(YieldOp([*carried, *stacked]))
    b.rewriter.insertion_point = before
    types = [v.type for v in inits]
    for value in stacked:
        assert isinstance(value.type, TensorType)
        types.append(tensor_type(value.type.element_type, [dims(inputs[0])[0], *dims_of(value.type)]))
    loop = b.insert(ScanOp(inits, inputs, types, Region(block)))
    return list(loop.results[: len(inits)]), list(loop.results[len(inits) :])
