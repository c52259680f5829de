"""Operators that are better whole than decomposed, if the target has a kernel for them.

Core ATen is what every backend can be expected to know; a kernel that does more in one call saves instructions, and
for ``linear`` a transposed copy of the weight. The kernel is the operator's out variant in the target's manifest, and
it must take the call: its element types and ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.aten.table import out_variant
from etir.dialects.dtypes import BY_TYPE
from etir.dialects.schema_op import SchemaOp
from etir.lowering.promotion import number_type_of
from etir.targets.manifest import KernelEntry, load

BETTER_WHOLE: tuple[str, ...] = (
    "aten.linear.default",
    "aten.stack.default",
    "aten.masked_fill.Scalar",
    "aten.rsub.Scalar",
    "aten.floor_divide.default",
    "aten.glu.default",
    "aten.logit.default",
    "aten.roll.default",
    "aten.tril.default",
    "aten.pixel_shuffle.default",
    "aten.pixel_unshuffle.default",
    "aten.masked_select.default",
    "aten.repeat_interleave.Tensor",
    "aten.replication_pad1d.default",
    "aten.var_mean.correction",
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten._upsample_bilinear2d_aa.default",
    # Core operators that have a decomposition for targets without a kernel.
    "aten.adaptive_avg_pool1d.default",
    "aten.avg_pool1d.default",
    "aten.avg_pool3d.default",
    "aten._adaptive_avg_pool3d.default",
)
"""The operators that stay whole where the target has a kernel that takes the call."""


@cache
def _kernels(target: str | None) -> dict[str, KernelEntry]:
    """The target's kernels for the table, by operator; those of libraries that it may not have are left out."""
    if target is None:
        return {}
    manifest = load(target)
    found: dict[str, KernelEntry] = {}
    for op_name in BETTER_WHOLE:
        schema = out_variant(op_name)
        entry = None if schema is None else manifest.lookup(schema.qualified_name)
        if entry is not None and manifest.libraries.get(entry.library, False):
            found[op_name] = entry
    return found


class Kept:
    """The operators that stay whole: the ones that the user names, and for ``target`` those of the table.

    Raises E0601 for an unknown target; None keeps nothing.
    """

    def __init__(self, target: str | None, keep: Iterable[str]):
        self.names = frozenset(keep)
        self.kernels = _kernels(target)

    def keeps(self, op: Operation) -> bool:
        """Whether ``op`` stays whole."""
        if op.name in self.names:
            return True
        entry = self.kernels.get(op.name)
        return entry is not None and isinstance(op, SchemaOp) and _takes(entry, op)


def _takes(entry: KernelEntry, op: SchemaOp) -> bool:
    """Whether a kernel takes the types and ranks of a call."""
    given = op.args()
    results = iter(op.results)
    dtypes: dict[str, Any] = {}
    ranks: dict[str, Any] = {}
    for argument in entry.schema.arguments:
        if not argument.is_tensor:
            continue
        value: Any = next(results) if argument.is_write and argument.kwarg_only else given.get(argument.name)
        items = value if isinstance(value, tuple) else (value,)
        described = [None if item is None else _described(item) for item in items]
        if any(item is not None and item[0] is None for item in described):
            return False
        for table, position in ((dtypes, 0), (ranks, 1)):
            column = [None if item is None else item[position] for item in described]
            table[argument.name] = column if isinstance(value, tuple) else column[0]
    return entry.check(dtypes, ranks=ranks) is None


def _described(value: Any) -> tuple[int | None, int]:
    """Number of the element type (None: not one) and rank of a tensor, or of the tensor that a number becomes."""
    if isinstance(value, SSAValue) and isinstance(value.type, TensorType):
        row = BY_TYPE.get(value.type.element_type)
        return None if row is None else row.number, value.type.get_num_dims()
    return BY_TYPE[number_type_of(value)].number, 0
