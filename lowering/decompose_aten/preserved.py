"""Operators that `decompose-aten` preserves: those that the target has a kernel for.

A kernel does more in one call than the operators that a pattern makes, and was written for the operator: it is exact
where a formula made of others cancels, it needs no memory for what is between them, and it takes the special values
as torch does. So where the target has one that takes the call, its element types and ranks, the operator stays. The
kernel is the operator's out variant in the target's manifest. What is better decomposed all the same is a list with
reasons (:mod:`~etir.lowering.decompose_aten.exceptions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue, Use

from etir.backends.api.integer_kernels import fuses_pairs
from etir.backends.api.registry import parse_delegate
from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.dtypes import BY_TYPE
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, QUANTIZE
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.extensions import registry_cache
from etir.lowering.build.builder import is_tensor
from etir.lowering.build.promotion import scalar_type_of
from etir.lowering.decompose_aten.exceptions import DECOMPOSED, PIECES
from etir.lowering.decompose_aten.value_range import value_range
from etir.targets.manifest import KernelEntry, load

SPELLED_OUT = ("quantized_decomposed.", "torchao.")
"""Operators that spell out how a model is quantized: they are preserved for kernels and for any delegate, which claims
them in patterns that are seen after the edge level only (`decompose-preserved` decomposes what is left then).
"""

CENTERED = "centered"
"""The attribute of a normalization whose input had its mean subtracted (``families/centered.py``)."""
PAIRS = (QUANTIZE, DEQUANTIZE, DEQUANTIZE_PER_CHANNEL)
READS_INTEGERS = "etir::int8_weight_linear.out"
GROUPED = ("quantized_decomposed.dequantize_per_channel_group.default", "torchao.dequantize_affine.default")
"""Operators that multiply out weights with a scale for each group in a row."""
AFFINE_INPUT = (
    "torchao.choose_qparams_affine.default",
    "torchao.quantize_affine.default",
    "torchao.dequantize_affine.default",
)
"""torchao's operators that choose parameters from an input, quantize it with them, and multiply it out again."""


def is_layers_weight(op: Operation) -> bool:
    """Whether ``op``, of any level, multiplies out constants with a scale for each group, for linear layers alone."""
    if not isinstance(op, SchemaOp) or op.SCHEMA.op_name not in GROUPED:
        return False
    if any(not isinstance(v.owner, GetWeightOp | ConstantOp) for v in op.operands):
        return False
    readers = {("aten.linear.default", 1), ("aten.embedding.default", 0)}
    return bool(op.results[0].first_use) and all(_use(use) in readers for use in op.results[0].uses)


def _use(use: Use) -> tuple[str, int]:
    return use.operation.name.removeprefix("edge."), use.index


def is_layers_input(op: Operation) -> bool:
    """Whether ``op``, of any level, is one of :data:`AFFINE_INPUT` for linear layers with such weights alone."""
    if not isinstance(op, SchemaOp) or op.SCHEMA.op_name not in AFFINE_INPUT:
        return False
    place = AFFINE_INPUT.index(op.SCHEMA.op_name)
    # A weight is multiplied out by an operator of the same name.
    if place == 2 and isinstance(op.operands[0].owner, GetWeightOp | ConstantOp):
        return False
    if not any(result.first_use for result in op.results):
        return False
    for result in op.results:
        for use in result.uses:
            if place == 2:
                weight = use.operation.operands[1].owner if _use(use) == ("aten.linear.default", 0) else None
                if not isinstance(weight, Operation) or not is_layers_weight(weight):
                    return False
            elif _use(use)[0] not in AFFINE_INPUT[place + 1 :] or not is_layers_input(use.operation):
                return False
    return True


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
    """The operators to preserve: the ones that the user names, those that ``target`` has a kernel for, and those that a
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
        self.reads_integers = False
        """Whether the target has linear layers that read a weight of integers (`fuse-quantized` makes the calls)."""
        if target is not None:
            entry = load(target).lookup(READS_INTEGERS)
            linked = entry is not None and (
                load(target).libraries.get(entry.library) or entry.library in self.libraries
            )
            self.reads_integers = bool(linked)
        self.fuses_pairs = target is not None and fuses_pairs(target, self.libraries)
        """Whether `fuse-quantized` is going to make calls of pairs of quantize and dequantize operators."""

    def preserves(self, op: Operation) -> bool:
        """Whether to preserve ``op`` rather than to run etir's own patterns on it."""
        if op.name in self.names or any(delegate.preserves(op) for delegate in self.delegates):
            return True
        if op.name.startswith(SPELLED_OUT):
            return (
                bool(self.delegates)
                or self.has_kernel(op)
                or (self.fuses_pairs and op.name in PAIRS)
                or (self.reads_integers and (is_layers_weight(op) or is_layers_input(op)))
            )
        if op.name in DECOMPOSED or (self.delegates and op.name in PIECES):
            return False
        return self.has_kernel(op)

    def has_kernel(self, op: Operation) -> bool:
        """Whether the target has a kernel that takes the call."""
        if self.target is None or not isinstance(op, SchemaOp):
            return False
        entry = _kernel(self.target, op.SCHEMA, self.libraries)
        return entry is not None and _takes(entry, op)


def _takes(entry: KernelEntry, op: SchemaOp) -> bool:
    """Whether a kernel takes the types, ranks, numbers and flags of a call."""
    given = op.args()
    if any(isinstance(value, complex) for value in given.values()):
        # Nor does a file hold one.
        return False
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
    if not all(_is_below_width(given[wrong.counts], op) for wrong in entry.wrong if wrong.counts):
        return False
    if CENTERED not in op.attributes and any(wrong.wants_center(given) for wrong in entry.wrong):
        return False
    if any(wrong.wants_parts(shapes, given.get("dim")) for wrong in entry.wrong):
        return False
    others: dict[str, Any] = {name: value for name, value in given.items() if _is_plain(value)}
    return entry.check(dtypes, ranks=ranks, others=others, shapes=shapes) is None


def _is_below_width(count: Any, op: SchemaOp) -> bool:
    """Whether a number, or all of a tensor, is known to be a count of bits that the result's type has."""
    (result,) = op.results
    assert isinstance(result.type, TensorType)
    known = (count, count) if isinstance(count, int) else value_range(count) if is_tensor(count) else None
    return known is not None and known[0] >= 0 and known[1] < 8 * BY_TYPE[result.type.element_type].itemsize


def _is_plain(value: Any) -> bool:
    """Whether a value is what it will be at run time: a number, a flag, a word, or a list of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))


def _dims(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(value.type) if isinstance(value.type, TensorType) else ()


def _described(value: Any) -> tuple[int | None, int, tuple[int | None, ...]]:
    """Number of the element type (None: not one), rank and shape of a tensor, or of what a number becomes."""
    if isinstance(value, SSAValue) and isinstance(value.type, TensorType):
        row = BY_TYPE.get(value.type.element_type)
        shape = tuple(d if isinstance(d, int) else None for d in _dims(value))
        return None if row is None else row.number, len(shape), shape
    return BY_TYPE[scalar_type_of(value)].number, 0, ()
