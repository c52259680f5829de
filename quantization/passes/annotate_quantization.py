"""`annotate-quantization`: say which values and which weights are going to be integers.

Before::

    %y = edge.aten.linear.default(%x, %w, %b) : ...
    %z = edge.aten.relu.default(%y) : ...

After ``annotate-quantization{backend=xnnpack}``::

    %0 = quant.observe %x : tensor<2x8xf32>
    %y = edge.aten.linear.default(%0, %w, %b) {quant.weight = #quant.uniform<i8, axis = 0>} : ...
    %z = edge.aten.relu.default(%y) : ...
    %1 = quant.observe %z : tensor<2x4xf32>

What can be integers is what the backends' rows say (:mod:`etir.backends.api.quantization`), nothing else. A clamp
that alone reads a result is a part of the operator: the range after it is the one that counts. Integers go through
what only moves or chooses elements, so that nothing is observed twice. An operator of which a row exists and does not
hold, or that is skipped, has the reason as ``quant.why``.

Layers come first. An operator without a weight (a sum, a function) is quantized where what it reads is integers
already: one that stands among others in floating point would need a conversion of each operand, and lose by it.

A result that no operator reads as integers is not rounded to them where the row says that it may be float32
(``quant.float`` on its observer): outputs of the program, for one.

With ``recipe=dynamic-int8`` the layer is marked ``quant.dynamic``: its input becomes integers when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.conditions import is_constant
from etir.backends.api.integer_kernels import kernel_rows
from etir.backends.api.quantization import CHOOSES, CLAMPS, JOINS, MOVES, PAD, STATIC, QuantizedRow
from etir.backends.api.quantization import DYNAMIC as DYNAMIC_ROW
from etir.backends.api.quantization import WEIGHT as WEIGHT_ROW
from etir.backends.api.registry import leave_integers, parse_delegate
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.quant.ops import ObserveOp, Uniform, UniformAttr
from etir.dialects.text import source_location
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.errors import E1501
from etir.quantization.recipes import Recipe, recipe_of
from etir.quantization.weights import BLOCK, weight_rows
from etir.targets.manifest import load

WEIGHT, WHY, INTEGERS, DYNAMIC = "quant.weight", "quant.why", "quant.integers", "quant.dynamic"
FLOAT = "quant.float"
"""On an observer: the value stays float32, unless a file of encodings has one for it."""


@register_pass
@dataclass(frozen=True)
class AnnotateQuantizationPass(Pass):
    """Observe what a backend computes on int8, and mark the weights.

    ``recipe`` is a name of :data:`~etir.quantization.recipes.RECIPES`; ``backend`` names backends as `partition` does;
    ``skip`` are shell patterns of source modules (``head.*``) and of operators (``aten.mul.Tensor``) that stay in
    floating point. ``results`` observes results of recipes without calibration, too, so that losses can be compared.
    ``block`` is how many numbers of 4 bits share a scale in ``weight-int4``, 0 all of an output channel.
    ``reduce_range`` marks weights of 8 bits that are multiplied by integers for integers from -63 to 63.
    """

    name = "annotate-quantization"
    recipe: str = "static-int8"
    backend: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    results: bool = False
    block: int = BLOCK
    target: str = ""
    libraries: tuple[str, ...] = ()
    reduce_range: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1501 for an unknown recipe, E1101, E1107 and E1110 for wrong backends."""
        recipe = recipe_of(self.recipe)
        if self.block < 0 or (self.block != BLOCK and (recipe.integers or recipe.bits != 4)):
            raise E1501.error(f"'{recipe.name}' with blocks of {self.block}: 'weight-int4' has them, and 0 for none")
        if self.reduce_range and (not recipe.integers or recipe.bits != 8):
            raise E1501.error(
                f"'{recipe.name}' with weights of a reduced range: 'static-int8' and 'dynamic-int8', which multiply "
                "integers of 8 bits, have them"
            )
        found = rows_of(recipe, self.backend, self.block, self.target, self.libraries)
        known = [row for row in found if row.bits in (recipe.bits, 8)]
        rows: dict[str, list[QuantizedRow]] = {}
        for row in sorted(known, key=lambda row: row.bits):
            rows.setdefault(row.operator, []).append(row)
        for method in methods(module):
            known_ops = [op for op in method.walk() if isinstance(op, EdgeOp) and op.op_name in rows]
            may_be_float: list[EdgeOp] = []
            for op in sorted(known_ops, key=lambda op: not any(row.weight for row in rows[op.op_name])):
                row = self._annotate(op, rows[op.op_name])
                if row is not None and row.scheme == STATIC and row.float_result:
                    may_be_float.append(op)
            for op in may_be_float:
                observe = result_of(op)
                if observe is not None and not read_as_integers(observe.result):
                    observe.attributes[FLOAT] = UnitAttr()

    def _annotate(self, op: EdgeOp, rows: list[QuantizedRow]) -> QuantizedRow | None:
        """Mark an operator by the first row that holds, which is returned; say why if none does."""
        refusals = [row.refusal(op) or self._lost(op, row) for row in rows]
        row = next((row for row, refusal in zip(rows, refusals, strict=True) if refusal is None), None)
        reason = self._skipped(op)
        if reason is None:
            nearest = max((refusal for refusal in refusals if refusal is not None), key=lambda r: r[0], default=None)
            reason = _not_numbers(op, row) if row is not None else nearest[1] if nearest is not None else ""
        if reason is None and row is not None and not row.weight and not all(map(_at_hand, _activations(op, row))):
            reason = "reads float32: integers would be made for it alone"
        if row is None or reason is not None:
            op.attributes[WHY] = StringAttr(reason or "")
            return None
        if row.weight:
            reduced = self.reduce_range and row.bits == 8 and row.block is None and row.scheme != WEIGHT_ROW
            op.attributes[WEIGHT] = UniformAttr(Uniform(axis=row.axis, bits=row.bits, block=row.block, reduced=reduced))
        if row.scheme == DYNAMIC_ROW:
            op.attributes[DYNAMIC] = ArrayAttr([StringAttr(name) for name in row.activations])
        if row.scheme != STATIC:
            if self.results:
                _observe_result(op)
            return row
        op.attributes[INTEGERS] = UnitAttr()
        for name in dict.fromkeys(row.activations):
            index = op.operands.index(op.arg(name))
            op.operands[index] = _observed(op.operands[index], op)
        _observe_result(op)
        return row

    def _lost(self, op: EdgeOp, row: QuantizedRow) -> tuple[int, str] | None:
        """Why a backend that takes the operator would not keep the integers of its weight: what its rows of that scheme
        say.
        """
        if row.scheme != WEIGHT_ROW:
            return None
        found = [row.refusal(op) for row in backend_rows(WEIGHT_ROW, self.backend) if row.operator == op.op_name]
        return next(((len(row.conditions) + 1, refusal[1]) for refusal in found if refusal is not None), None)

    def _skipped(self, op: Operation) -> str | None:
        pattern = next((p for p in self.skip if _fits(op, p)), None)
        return None if pattern is None else f"skipped by '{pattern}'"


def _fits(op: Operation, pattern: str) -> bool:
    """Whether a shell pattern fits the module that an operation is from, or its operator."""
    place = source_location(op.location)
    names = [place.module if place is not None else "", op.op_name if isinstance(op, EdgeOp) else ""]
    return any(name and fnmatchcase(name, pattern) for name in names)


def unfitting(module: ModuleOp, skip: Sequence[str]) -> list[str]:
    """The patterns of ``skip`` that fit no operation of a module."""
    found = [op for method in methods(module) for op in method.walk()] if skip else []
    return [pattern for pattern in skip if not any(_fits(op, pattern) for op in found)]


def rows_of(
    recipe: Recipe, backends: Iterable[str], block: int = BLOCK, target: str = "", libraries: Sequence[str] = ()
) -> Iterator[QuantizedRow]:
    """The rows of a recipe: what backends compute on integers, or what may have weights of integers on any target.
    Without a backend, or with backends that leave integers to the target, what counts is what the kernels of ``target``
    compute, with those of ``libraries``.

    Raises E1101, E1107 and E1110 for wrong backends.
    """
    if not recipe.integers:
        yield from weight_rows(block)
        return
    texts = tuple(backends)
    if target and (not texts or leave_integers(texts)):
        for _, row in kernel_rows(load(target), libraries, dynamic=recipe.scheme == DYNAMIC_ROW):
            yield replace(row, scheme=recipe.scheme, activations=row.activations or ("input",))
    yield from backend_rows(recipe.scheme, texts)


def backend_rows(scheme: str, backends: Iterable[str]) -> Iterator[QuantizedRow]:
    """The rows of backends that are of a scheme. Raises E1101, E1107 and E1110 for wrong backends."""
    for text in backends:
        delegate = parse_delegate(text)
        rows = delegate.backend.quantization_rows(delegate.options)
        yield from (row for row in rows if row.scheme == scheme)


def _not_numbers(op: EdgeOp, row: QuantizedRow) -> str | None:
    for name in row.activations:
        value = op.arg(name)
        if not isinstance(value, SSAValue) or not isinstance(value.type, TensorType):
            return f"'{name}' is a number"
        if is_constant(value):
            return f"'{name}' is a constant"
    types = [tensor_of(v).element_type for v in (*op.results[:1],)]
    return None if types == [f32] else "a result that is not float32"


def _activations(op: EdgeOp, row: QuantizedRow) -> list[SSAValue]:
    return [cast(SSAValue, op.arg(name)) for name in row.activations]


def _at_hand(value: SSAValue) -> bool:
    """Whether a value is stored as integers, or joined from such, or such with numbers around them."""
    if _is_stored(value) or any(isinstance(use.operation, ObserveOp) for use in value.uses):
        return True
    owner = value.owner
    return isinstance(owner, EdgeOp) and owner.op_name in JOINS | {PAD} and all(map(_at_hand, owner.operands))


def read_as_integers(value: SSAValue) -> bool:
    """Whether an operator computes on the integers of a value, or a pool chooses among them, moved or joined."""
    return any(_reads_integers(use.operation) for use in value.uses)


def _reads_integers(user: Operation) -> bool:
    if isinstance(user, ObserveOp):
        return read_as_integers(user.result)
    if not isinstance(user, EdgeOp):
        return False
    if INTEGERS in user.attributes or user.op_name in CHOOSES:
        return True
    return user.op_name in MOVES | JOINS | {PAD} and any(map(read_as_integers, user.results))


def made_of_integers(observe: ObserveOp) -> bool:
    """Whether what is observed is the result of an operator that computes on integers, clamps aside."""
    maker = observe.input.owner
    while isinstance(maker, EdgeOp) and maker.op_name in CLAMPS and INTEGERS not in maker.attributes:
        maker = maker.operands[0].owner
    return isinstance(maker, EdgeOp) and INTEGERS in maker.attributes


def _observed(value: SSAValue, before: Operation) -> SSAValue:
    """``value`` observed: it is already, or for those that compute on integers alone. The observer stands where it
    reaches all others that read the value, whichever of them is annotated first.
    """
    if _is_stored(value):
        return value
    known = next((use.operation for use in value.uses if isinstance(use.operation, ObserveOp)), None)
    if isinstance(known, ObserveOp):
        return known.result
    observe = ObserveOp(value)
    observe.location = before.location
    Rewriter.insert_op(observe, _before_readers(value) if isinstance(value.owner, Operation) else _start(value))
    return observe.result


def _before_readers(value: SSAValue) -> InsertPoint:
    """Before the first operation of the block of ``value`` that reads it, itself or in a region."""
    owner = cast(Operation, value.owner)
    block = cast(Block, owner.parent)
    readers = {block.find_ancestor_op_in_block(use.operation) for use in value.uses}
    after = owner.next_op
    while after is not None and after not in readers:
        after = after.next_op
    return InsertPoint.after(owner) if after is None else InsertPoint.before(after)


def _is_stored(value: SSAValue) -> bool:
    """Whether the elements of ``value`` are those of a value that is observed."""
    while isinstance(value.owner, EdgeOp) and value.owner.op_name in MOVES | CHOOSES:
        value = value.owner.operands[0]
    return isinstance(value.owner, ObserveOp)


def _start(value: SSAValue) -> InsertPoint:
    assert not isinstance(value.owner, Operation)
    return InsertPoint.at_start(value.owner)


def _clamped(op: EdgeOp) -> SSAValue:
    """The result, after clamps that alone read it."""
    value: SSAValue = op.results[0]
    while isinstance(user := value.get_user_of_unique_use(), EdgeOp) and user.op_name in CLAMPS:
        value = user.results[0]
    return value


def result_of(op: EdgeOp) -> ObserveOp | None:
    """The observer of an operator's result."""
    users = [use.operation for use in _clamped(op).uses]
    return next((user for user in users if isinstance(user, ObserveOp)), None)


def _observe_result(op: EdgeOp) -> None:
    """Whoever reads the result reads what is stored."""
    value = _clamped(op)
    if value.first_use is None or any(isinstance(use.operation, ObserveOp) for use in value.uses):
        return
    last = value.owner
    assert isinstance(last, Operation)
    observe = ObserveOp(value)
    observe.location = op.location
    Rewriter.insert_op(observe, InsertPoint.after(last))
    value.replace_uses_with_if(observe.result, lambda use: use.operation is not observe)
