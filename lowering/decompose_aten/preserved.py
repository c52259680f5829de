"""Operators that `decompose-aten` preserves, if the target has a kernel for them.

Core ATen is what every backend can be expected to know; a kernel that does more in one call saves instructions, and
for ``linear`` a transposed copy of the weight. The kernel is the operator's out variant in the target's manifest, and
it must take the call: its element types and ranks.

Two kinds of operators are preserved: those of the table, whose kernel beats the decomposition of etir's own patterns,
and all that etir has no pattern for, whose kernel beats torch's decomposition (or which torch has none for).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.backends.api.registry import parse_delegate
from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.dtypes import BY_TYPE
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.extensions import registry_cache
from etir.lowering.build.promotion import scalar_type_of
from etir.targets.manifest import KernelEntry, load

PRESERVED: tuple[str, ...] = (
    "aten.linear.default",
    "aten.stack.default",
    "aten.masked_fill.Scalar",
    "aten.rsub.Scalar",
    "aten.floor_divide.default",
    "aten.glu.default",
    "aten.logit.default",
    "aten.roll.default",
    "aten.as_strided_scatter.default",
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
    "aten.sort.default",
    "aten.avg_pool2d_backward.default",
    "aten.avg_pool3d_backward.default",
    "aten._adaptive_avg_pool2d_backward.default",
    "aten._adaptive_avg_pool3d_backward.default",
    "aten.max_pool2d_with_indices_backward.default",
    "aten.max_pool3d_with_indices.default",
    "aten.max_pool3d_with_indices_backward.default",
    "aten.adaptive_max_pool2d_backward.default",
    "aten.adaptive_max_pool3d_backward.default",
    "aten.convolution_backward.default",
    # Core operators that have a decomposition for targets without a kernel.
    "aten.adaptive_avg_pool1d.default",
    "aten.avg_pool1d.default",
    "aten.avg_pool3d.default",
    "aten._adaptive_avg_pool3d.default",
    "aten.convolution.default",
    "aten.scatter_reduce.two",
    "aten.col2im.default",
    # Others that a kernel does in one pass.
    "aten.histc.default",
    "aten.cumprod.default",
    "aten.cummax.default",
    "aten.cummin.default",
    "aten.logcumsumexp.default",
    "aten.im2col.default",
    "aten.adaptive_max_pool2d.default",
    "aten.adaptive_max_pool3d.default",
    "aten.median.dim",
    "aten.median.default",
    "aten.nanmedian.dim",
    "aten.nanmedian.default",
    "aten.bincount.default",
    "aten.nonzero_static.default",
    "aten.linalg_lu_factor_ex.default",
    "aten.lu_unpack.default",
    "aten.linalg_solve_triangular.default",
    "aten.linalg_cholesky_ex.default",
    "aten.geqrf.default",
    "aten.linalg_householder_product.default",
    "aten._embedding_bag.default",
    "aten._embedding_bag_forward_only.default",
    "aten.randint.default",
    "aten.randint.low",
    "aten.randint_like.default",
    "aten.randint_like.low_dtype",
    "aten.randperm.default",
)
"""The operators that are preserved where the target has a kernel that takes the call."""


SPELLED_OUT = ("quantized_decomposed.", "torchao.")
"""Operators that spell out how a model is quantized: they are preserved for kernels and for any delegate, which claims
them in patterns that are seen after the edge level only (`decompose-preserved` decomposes what is left then).
"""


@registry_cache
def _kernel(target: str, functional: OpSchema, linked: tuple[str, ...]) -> KernelEntry | None:
    """The target's kernel for an operator; those of libraries that it may not have count when they are ``linked``."""
    manifest = load(target)
    known = functional.op_name in load_table()
    schema = out_variant(functional.op_name) if known else manifest.out_variant(functional)
    entry = None if schema is None else manifest.lookup(schema.qualified_name)
    if entry is None or not (manifest.libraries.get(entry.library, False) or entry.library in linked):
        return None
    return entry


class PreservedOps:
    """The operators to preserve: the ones that the user names, for ``target`` those of the table, and those that a
    backend in ``delegates`` (texts like ``xnnpack{fp16=true}``) wants preserved and would claim. ``libraries`` of the
    target are linked besides those that it always has.

    Raises E0601 for an unknown target; None preserves nothing. Raises E1101, E1107 and E1110 for wrong delegates.
    """

    def __init__(
        self,
        target: str | None,
        keep: Iterable[str],
        delegates: Iterable[str] = (),
        libraries: Iterable[str] = (),
    ):
        self.names = frozenset(keep)
        self.delegates = [parse_delegate(text) for text in delegates]
        self.target = target
        self.libraries = tuple(libraries)
        if target is not None:
            load(target)

    def preserves(self, op: Operation) -> bool:
        """Whether to preserve ``op`` rather than to run etir's own patterns on it."""
        if op.name in self.names or any(delegate.preserves(op) for delegate in self.delegates):
            return True
        if op.name.startswith(SPELLED_OUT):
            return bool(self.delegates) or self.has_kernel(op)
        return op.name in PRESERVED and self.has_kernel(op)

    def has_kernel(self, op: Operation) -> bool:
        """Whether the target has a kernel that takes the call."""
        if self.target is None or not isinstance(op, SchemaOp):
            return False
        entry = _kernel(self.target, op.SCHEMA, self.libraries)
        return entry is not None and _takes(entry, op)


def _takes(entry: KernelEntry, op: SchemaOp) -> bool:
    """Whether a kernel takes the types, ranks, numbers and flags of a call."""
    given = op.args()
    results = iter(op.results)
    dtypes: dict[str, Any] = {}
    ranks: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    for argument in entry.schema.arguments:
        if not argument.is_tensor:
            continue
        value: Any = next(results) if argument.is_write and argument.kwarg_only else given.get(argument.name)
        items = value if isinstance(value, tuple) else (value,)
        described = [None if item is None else _described(item) for item in items]
        if any(item is not None and item[0] is None for item in described):
            return False
        for table, position in ((dtypes, 0), (ranks, 1), (shapes, 2)):
            column = [None if item is None else item[position] for item in described]
            table[argument.name] = column if isinstance(value, tuple) else column[0]
    if not entry.resizes_output and any(not isinstance(d, int) for r in op.results for d in _dims(r)):
        return False
    others = {name: value for name, value in given.items() if _is_plain(value)}
    return entry.check(dtypes, ranks=ranks, others=others, shapes=shapes) is None


def _is_plain(value: Any) -> bool:
    """Whether a value is what it will be at run time: a number, a flag, or a list of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float))


def _dims(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(value.type) if isinstance(value.type, TensorType) else ()


def _described(value: Any) -> tuple[int | None, int, tuple[int | None, ...]]:
    """Number of the element type (None: not one), rank and shape of a tensor, or of what a number becomes."""
    if isinstance(value, SSAValue) and isinstance(value.type, TensorType):
        row = BY_TYPE.get(value.type.element_type)
        shape = tuple(d if isinstance(d, int) else None for d in _dims(value))
        return None if row is None else row.number, len(shape), shape
    return BY_TYPE[scalar_type_of(value)].number, 0, ()
