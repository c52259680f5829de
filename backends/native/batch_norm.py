"""Batch norms in inference form that no convolution before them has taken: a factor and a summand of each channel.

Before::

    %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%x, %gamma, %beta, %mean, %var, ...)

After::

    %s = edge.aten.mul.Tensor(%x, %scale)          // tensor<Cx1x1xf32>, gamma / sqrt(var + eps)
    %y = edge.aten.add.Tensor(%s, %shift)          // beta - mean scale

`fold-batch-norm` moves what follows a convolution into its weights. Others, as before the activation of a DenseNet or
after that of a ConvMixer, would split a program at every layer. As two elementwise operators with constants they are
done with what stands before or after them. Factors are computed in float64 and rounded once; torch's kernel multiplies
and adds in the same way, with factors that it computes in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, SymbolRefAttr, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.backends.errors import E1106
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp, dense_bytes
from etir.dialects.et.weights import payload_of
from etir.dialects.text import source_location
from etir.dialects.walking import ops_of

if TYPE_CHECKING:
    import numpy as np

BatchNorm: TypeAlias = edge.aten._native_batch_norm_legit_no_training.default


def spell_out_batch_norms(func: FuncOp, symbols: Mapping[str, Operation]) -> None:
    """Rewrite the batch norms of an outlined function; ``symbols`` are weights of its module by name.

    Raises E0201 where the bytes of a weight are not loaded, and E1106 for a statistic that is no constant.
    """
    found = [op for op in ops_of(func.body.block) if isinstance(op, BatchNorm)]
    for op in found:
        _spell_out(op, symbols)
    if found:
        for op in [op for op in ops_of(func.body.block) if isinstance(op, (GetWeightOp, ConstantOp))]:
            if op.result.first_use is None:
                func.body.block.erase_op(op)


def _spell_out(op: BatchNorm, symbols: Mapping[str, Operation]) -> None:
    import numpy as np

    block = op.parent
    assert block is not None
    mean, variance = _array(op, op.running_mean, symbols), _array(op, op.running_var, symbols)
    gamma = np.ones_like(mean) if op.weight is None else _array(op, op.weight, symbols)
    beta = np.zeros_like(mean) if op.bias is None else _array(op, op.bias, symbols)
    scale = gamma / np.sqrt(variance + op.eps)
    shift = beta - mean * scale
    result = op.results[0]
    dims = (mean.size, *[1] * (len(dims_of(cast("TensorType[Attribute]", result.type))) - 2))

    def add(made: Operation) -> SSAValue:
        made.location = op.location
        block.insert_op_before(made, op)
        return made.results[0]

    def constant(numbers: np.ndarray[Any, Any]) -> SSAValue:
        data = numbers.astype(np.float32)
        value = DenseIntOrFPElementsAttr.from_list(TensorType(f32, dims), [float(x) for x in data])
        return add(ConstantOp(value))

    def call(cls: Any, x: SSAValue, other: SSAValue) -> SSAValue:
        return add(cls.make({"self": x, "other": other}, [result.type]))

    scaled = call(edge.aten.mul.Tensor, op.input, constant(scale))
    moved = call(edge.aten.add.Tensor, scaled, constant(shift))
    moved.name_hint = result.name_hint
    result.replace_all_uses_with(moved)
    block.erase_op(op)


def _array(op: BatchNorm, value: SSAValue, symbols: Mapping[str, Operation]) -> np.ndarray[Any, Any]:
    """The numbers of a weight or a constant."""
    import numpy as np

    owner = value.owner
    data: bytes | memoryview | None = None
    if isinstance(owner, ConstantOp):
        data = dense_bytes(owner.value)
    elif isinstance(owner, GetWeightOp):
        weight = symbols.get(cast(SymbolRefAttr, owner.symbol).root_reference.data)
        if isinstance(weight, WeightOp) and isinstance(weight.type, TensorType):
            data = payload_of(weight.value, weight.type).data
    if data is None:
        raise E1106.error("a batch norm's statistics or weights are no constants", source_location(op.location))
    return np.frombuffer(data, np.float32).astype(np.float64)
