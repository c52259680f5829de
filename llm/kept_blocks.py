"""Integers that a checkpoint has already, written into a program: as blocks of a GGUF file, not rounded again.

Before::

    %w = et.get_weight @model.layers.0.mlp.up_proj.weight : tensor<1536x576xf32>
    %y = edge.aten.linear.default(%x, %w) : ...

After::

    %q = et.get_weight @model.layers.0.mlp.up_proj.weight_int4 : tensor<1536x576xi8>
    %s = et.get_weight @model.layers.0.mlp.up_proj.weight_scales : tensor<1536x18xf32>
    %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%q, %s, group_size = 32, ...) : ...
    %y = edge.aten.linear.default(%x, %w) : ...

That is the form in which `materialize-quantization` writes weights, so that whatever computes on the one computes on
the other. A table that the head reads as well is multiplied out by an operator for each of both, of the same bytes,
which a file has once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.dtypes import f32, i8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.dialects.experts import EXPERT_LINEAR
from etir.dialects.quantized import DEQUANTIZE_PER_GROUP, declare, quantized_op
from etir.llm.checkpoint.blocks import GROUP, Blocks
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import methods
from etir.quantization.passes.annotate_quantization import DYNAMIC
from etir.quantization.passes.experts_to_layers import ROWS

FOLDED = "_folded"
"""What the name of a weight ends with that was transposed when the program was compiled."""
LINEAR, TABLE = "aten.linear.default", "aten.embedding.default"


def layers(module: ModuleOp) -> list[tuple[EdgeOp, str]]:
    """The linear layers, experts and tables of a module with the names of their weights, where these are weights of it:
    of experts, those that they had before their rows were put below each other.
    """
    found: list[tuple[EdgeOp, str]] = []
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, EdgeOp) and op.op_name in (LINEAR, TABLE, EXPERT_LINEAR):
                source = cast(SSAValue, op.arg("weight")).owner
                if isinstance(source, GetWeightOp):
                    name = source.symbol.root_reference.data
                    experts = op.op_name == EXPERT_LINEAR
                    found.append((op, name.removesuffix(ROWS).removesuffix(FOLDED) if experts else name))
    return found


def keep_blocks(module: ModuleOp, blocks: Mapping[str, Blocks], *, dynamic: bool) -> list[str]:
    """Give layers of a module at the edge level the integers of ``blocks``, by the names of their weights; returns the
    names of those that it has. ``dynamic`` marks inputs of linear layers to be quantized when they run, as
    `annotate-quantization` does.
    """
    store = ConstantStore(module)
    found: dict[str, None] = {}
    for op, name in layers(module):
        kept = blocks.get(name)
        if kept is None or tuple(tensor_of(cast(SSAValue, op.arg("weight"))).get_shape()) != kept.integers.shape:
            continue
        _write(op, name, kept, store)
        if dynamic and op.op_name in (LINEAR, EXPERT_LINEAR) and kept.bits == 4:
            op.attributes[DYNAMIC] = ArrayAttr([StringAttr("input")])
        found[name] = None
    if found:
        declare(module, [DEQUANTIZE_PER_GROUP])
    return list(found)


def _write(op: EdgeOp, name: str, kept: Blocks, store: ConstantStore) -> None:
    weight = cast(SSAValue, op.arg("weight"))
    arrays = {"input": (kept.integers, i8, f"{name}_int{kept.bits}"), "scales": (kept.scales, f32, f"{name}_scales")}
    if kept.zeros is not None:
        arrays["zero_points"] = (kept.zeros, f32, f"{name}_zero_points")
    low, high = kept.bounds
    arguments: dict[str, Any] = {"quant_min": low, "quant_max": high, "dtype": i8}
    arguments |= {"group_size": GROUP, "output_dtype": f32}
    for argument, (array, element, hint) in arrays.items():
        number = store.make(np.ascontiguousarray(array).tobytes(), tensor_type(element, array.shape), op, hint)
        Rewriter.insert_op(number, InsertPoint.before(op))
        arguments[argument] = number.results[0]
    made = quantized_op(DEQUANTIZE_PER_GROUP).make(
        arguments, [tensor_type(f32, kept.integers.shape)], location=op.location
    )
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.operands[op.operands.index(weight)] = made.results[0]
    source = weight.owner
    if isinstance(source, GetWeightOp) and source.results[0].first_use is None:
        Rewriter.erase_op(source)
