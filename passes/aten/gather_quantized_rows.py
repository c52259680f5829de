"""`gather-quantized-rows`: of a table of integers, only the rows that are looked up are multiplied out.

Before::

    %t = torchao.dequantize_affine.default(%table, [1, 32], %scales, %points, i8, -8, 7) : ... -> tensor<1000x64xf32>
    %y = aten.embedding.default(%t, %i) : ... -> tensor<3x64xf32>

After, on a target with such a kernel: one operator, and four bits for each number that has no more of them::

    %y = quantized_decomposed.embedding_4bit.default(%packed, %scales, -8, 7, none, %i) : ... -> tensor<3x64xf32>

On others, rows are gathered first::

    %r = aten.embedding.default(%table, %i) : ... -> tensor<3x64xi8>
    %s = aten.embedding.default(%scales, %i) : ... -> tensor<3x2xf32>
    (r - z) * s

Either way the numbers are the same. A table that something else reads, too, is left alone. At the edge level the pass
does the same with `edge` operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp, custom_op
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of, f32, i8, ui8
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_static, tensor_of, tensor_type
from etir.dialects.quantized import EMBEDDING_4BIT, EMBEDDING_BYTE, declare, quantized_op, schema_of
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder, element
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.targets.manifest import load

if TYPE_CHECKING:
    import numpy as np

BY_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"
BY_GROUP = "quantized_decomposed.dequantize_per_channel_group.default"
AFFINE = "torchao.dequantize_affine.default"


@register_pass
@dataclass(frozen=True)
class GatherQuantizedRowsPass(Pass):
    """Multiply out the rows of tables that are looked up, not the tables.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "gather-quantized-rows"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        manifest = load(self.target)
        entries = {name: manifest.lookup(_kernel(name)) for name in (EMBEDDING_BYTE, EMBEDDING_4BIT)}
        linked = {
            name
            for name, entry in entries.items()
            if entry is not None and (manifest.libraries.get(entry.library, False) or entry.library in self.libraries)
        }
        pattern = _Lookup(ConstantStore(module), frozenset(linked))
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        declare(module, [name for name in (EMBEDDING_BYTE, EMBEDDING_4BIT) if name in pattern.made])


def _kernel(name: str) -> str:
    namespace, packet, _ = name.split(".")
    return f"{namespace}::{packet}.out"


@dataclass(frozen=True)
class _Table:
    """Rows of integers, a scale (and a zero point, where they are not all 0) for each group in a row."""

    integers: np.ndarray
    scales: np.ndarray
    points: np.ndarray | None
    low: int
    high: int


_Embedding: TypeAlias = "aten.embedding.default | edge.aten.embedding.default"


def operator_name(op: SchemaOp) -> str:
    """The operator of an operation of either level."""
    return op.SCHEMA.op_name


class _Lookup(Pattern):
    """``embedding(dequantize(table), indices)``"""

    name = "lookup-in-integers"

    def __init__(self, store: ConstantStore, linked: frozenset[str]):
        self.store = store
        self.linked = linked
        self.made: dict[str, None] = {}

    def rewrite(self, op: aten.embedding.default | edge.aten.embedding.default, rewriter: PatternRewriter) -> None:
        source = op.weight.owner
        if not isinstance(source, AtenOp | EdgeOp) or operator_name(source) not in (BY_CHANNEL, BY_GROUP, AFFINE):
            rewriter.notify_match_failure("no table of integers")
            return
        if not op.weight.has_one_use() or element(op.weight) != f32:
            rewriter.notify_match_failure("something else reads the table, or it is not float32")
            return
        table = self._table(source)
        if table is None:
            rewriter.notify_match_failure("not int8 rows with a scale for each or for equal groups in it")
            return
        b = Builder(rewriter, "edge" if isinstance(op, EdgeOp) else "aten")
        fits = table.low >= -8 and table.high <= 7 and table.integers.shape[1] % 2 == 0
        if fits and EMBEDDING_4BIT in self.linked:
            shifted = (table.integers.astype("int16") + 8).astype("uint8")
            packed = (shifted[:, 0::2] << 4) | shifted[:, 1::2]
            result = self._kernel(
                b, op, EMBEDDING_4BIT, self._constant(b, packed, ui8, op, "table_4bit"), table, (-8, 7)
            )
        elif EMBEDDING_BYTE in self.linked:
            bounds = table.low, table.high
            result = self._kernel(b, op, EMBEDDING_BYTE, cast(SSAValue, source.arg("input")), table, bounds)
        else:
            result = self._gathered(b, op, cast(SSAValue, source.arg("input")), table)
        rewriter.replace_op(op, [result])

    def _kernel(
        self, b: Builder, op: _Embedding, name: str, rows: SSAValue, table: _Table, bounds: tuple[int, int]
    ) -> SSAValue:
        scales = table.scales[:, 0] if table.scales.shape[1] == 1 else table.scales
        points = None if table.points is None else table.points.reshape(scales.shape)
        arguments: dict[str, Any] = {
            "weight": rows,
            "weight_scales": self._constant(b, scales, f32, op, "scales"),
            "weight_zero_points": None if points is None else self._constant(b, points, f32, op, "zero_points"),
            "weight_quant_min": bounds[0],
            "weight_quant_max": bounds[1],
            "indices": op.indices,
        }
        cls = quantized_op(name) if isinstance(op, EdgeOp) else custom_op(schema_of(name))
        made = cls.make(arguments, [op.results[0].type])
        b.insert(made)
        self.made[name] = None
        return made.results[0]

    def _gathered(self, b: Builder, op: _Embedding, rows: SSAValue, table: _Table) -> SSAValue:
        sizes = b.sizes(op.results[0])
        groups = table.scales.shape[1]
        split = [*sizes[:-1], groups, table.integers.shape[1] // groups]

        def looked_up(values: SSAValue, shape: Sequence[Any]) -> SSAValue:
            return b.view(b(aten.embedding.default, values, op.indices), shape)

        numbers = b.cast(looked_up(rows, split), f32)
        along = [*sizes[:-1], groups, 1]
        if table.points is not None:
            numbers = b.sub(numbers, looked_up(self._constant(b, table.points, f32, op, "zero_points"), along))
        return b.view(b.mul(numbers, looked_up(self._constant(b, table.scales, f32, op, "scales"), along)), sizes)

    def _constant(self, b: Builder, array: np.ndarray, type: Any, op: SchemaOp, hint: str) -> SSAValue:
        data = array.astype(str(dtype_of(type).numpy_name)).tobytes()
        made = self.store.make(data, tensor_type(type, array.shape), op, hint)
        b.insert(made)
        return made.results[0]

    def _table(self, op: SchemaOp) -> _Table | None:
        """The rows of a dequantize operator whose operands are constants."""
        operator = operator_name(op)
        scale_name, point_name = ("scale", "zero_point") if operator == AFFINE else ("scales", "zero_points")
        integers, scales, points = (self._array(op.arg(name)) for name in ("input", scale_name, point_name))
        stored = tensor_of(cast(SSAValue, op.arg("input"))).element_type
        if integers is None or scales is None or integers.ndim != 2 or stored != i8:
            return None
        if points is None and op.arg(point_name) is not None:
            return None
        if operator == BY_CHANNEL and cast(int, op.arg("axis")) not in (0, -2):
            return None
        rows, columns = integers.shape
        if not rows or not columns or scales.size % rows or columns % max(scales.size // rows, 1):
            return None
        groups = scales.size // rows
        if operator == AFFINE and tuple(cast(Any, op.arg("block_size"))) != (1, columns // max(groups, 1)):
            return None
        zeros = None if points is None or not points.any() else points.reshape(rows, groups)
        low, high = (op.arg(name) for name in ("quant_min", "quant_max"))
        bounds = (-128 if low is None else int(cast(Any, low))), (127 if high is None else int(cast(Any, high)))
        return _Table(integers, scales.reshape(rows, groups), zeros, *bounds)

    def _array(self, value: object) -> np.ndarray | None:
        import numpy as np

        if not isinstance(value, SSAValue) or not self.store.is_constant(value):
            return None
        type = tensor_of(value)
        numpy_name = dtype_of(type.element_type).numpy_name
        if numpy_name is None or not is_static(type):
            return None
        return np.frombuffer(self.store.data(value), numpy_name).reshape(type.get_shape())
