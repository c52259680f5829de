"""`fold-constants`: what can be computed before the program runs is computed now.

Before::

    %w = et.get_weight @w : tensor<8x4xf32>
    %t = edge.aten.permute_copy.default(%w, dims = [1, 0]) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %y = edge.aten.mm.default(%x, %t) : ...

After::

    %t = et.get_weight @w_folded : tensor<4x8xf32>
    %y = edge.aten.mm.default(%x, %t) : ...

Every pure operator whose tensor operands are constants is a candidate; the interpreter's evaluator computes it (torch
where it is installed). A result may not be larger than ``limit`` bytes or than the constants it is made from, so that
masks and transposed weights fold and a ``zeros(1000, 1000)`` does not bloat the file. What is computed of a weight, as
biases gathered for relative positions or masks of shifted windows, may be larger, as long as all of that together is a
small part of the weights: making it in every run takes calls and memory, and keeps what is around them apart. Mere
repetitions and casts of a weight may not. Only results that something else uses become constants of the program, so
what is computed on the way may be larger (``WAY``), as the hidden layer of a network that makes a table of biases: an
operator whose result would be too large a constant stays if one that stays reads it.
Weights whose bytes are not loaded or are external are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i8, ui8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_contiguous, is_static, tensor_of
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.interpret.evaluator import Evaluator
from etir.interpret.evaluators import get_evaluator
from etir.passes.analysis.constants import ConstantStore
from etir.passes.analysis.memory_effects import tensor_bytes
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

EXPANDING = ("quantized_decomposed.dequantize_", "torchao.dequantize_")
"""Beginnings of operators that stay where their result is larger than the integers: they make a quantized weight
larger by far, and backends look for them. A bias of 32 bits is folded.
"""

CAST = "dim_order_ops._to_dim_order_copy.default"
REPEATS = (CAST, "aten._to_copy.default", "aten.expand_copy.default", "aten.repeat.default")
"""Operators whose result has nothing that their operand has not."""
PART, PARTS = 128, 32
"""Parts of the bytes of all weights: what one result computed of a weight may have, and all of them together."""
WAY = 64
"""What a result that is only computed with may have: so many times ``limit``."""
FEW = 256
"""Integers of 8 bits, no more than which become numbers in the file."""


@register_pass
@dataclass(frozen=True)
class FoldConstantsPass(Pass):
    """Compute operators over constants at compile time.

    ``limit`` is the size in bytes up to which any result may become a constant. With ``expand`` weights of integers
    become numbers, too, of any size: what no kernel or delegate takes as integers is then not multiplied out in each
    run, and the file has four bytes for each of them.
    """

    name = "fold-constants"
    limit: int = 65536
    expand: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Fold in every method."""
        folder = _Folder(ConstantStore(module), self.limit, self.expand)
        for method in methods(module):
            folder.block(method.body.block)


class _Folder:
    def __init__(self, store: ConstantStore, limit: int, expand: bool):
        self.store = store
        self.limit = limit
        self.of_weights = sum(tensor_bytes(weight.type) for weight in _static(store))
        self.made = max(limit, self.of_weights // PART) if limit else 0
        self.expand = expand
        self._evaluator: Evaluator | None = None
        self.values: dict[SSAValue, Any] = {}
        self.origin: dict[SSAValue, str] = {}
        self.larger: dict[SSAValue, None] = {}
        self.passing: dict[SSAValue, None] = {}
        """Results that are computed, and too large to become constants."""
        self.room = self.of_weights // PARTS

    @property
    def evaluator(self) -> Evaluator:
        """The library that computes; loaded when something folds."""
        if self._evaluator is None:
            self._evaluator = get_evaluator()
        return self._evaluator

    def block(self, block: Block) -> None:
        """Fold the operations of a block in order, then put constants where their results are used."""
        before, made = (dict(self.values), dict(self.origin)), self.made
        folded = self._fold(block)
        if self._growth(folded) > self.room:
            (self.values, self.origin), self.made = before, self.limit
            folded = self._fold(block)
        else:
            self.room -= self._growth(folded)
        self.made = made
        for op in block.ops:
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
        for op in reversed(folded):
            self.materialize(op)

    def _fold(self, block: Block) -> list[EdgeOp]:
        """The operations that can be computed, in order."""
        found = [op for op in block.ops if isinstance(op, EdgeOp) and self.try_fold(op)]
        kept = dict.fromkeys(found)
        for op in reversed(found):
            if any(v in self.passing and any(use.operation not in kept for use in v.uses) for v in op.results):
                del kept[op]
                for result in op.results:
                    self.values.pop(result, None)
        return [*kept]

    def _growth(self, folded: Sequence[EdgeOp]) -> int:
        """Bytes of the constants that are larger than what they are made from."""
        gone = dict.fromkeys(folded)
        larger = [v for op in folded for v in op.results if v in self.larger]
        return sum(tensor_bytes(v.type) for v in larger if any(use.operation not in gone for use in v.uses))

    def try_fold(self, op: EdgeOp) -> bool:
        """Compute ``op`` if it is a candidate. The results are kept in ``values``."""
        if not op.has_trait(Pure) or not op.results or not self._may_fold(op):
            return False
        # A missing argument without a default is None: convolution's bias.
        arguments: dict[str, Any] = {a.name: None for a in op.SCHEMA.arguments if not a.has_default}
        arguments.update((name, self._argument(value)) for name, value in op.args().items() if value is not None)
        try:
            results = self.evaluator.call(op.SCHEMA, arguments)
        except EtirError:
            # An operator that the evaluator does not have, or that refuses its arguments, is left for the runtime.
            return False
        flat = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(flat) != len(op.results) or any(
            tuple(v.shape) != cast(Any, r.type).get_shape()
            or self.evaluator.dtype(v).type != cast(Any, r.type).element_type
            for v, r in zip(flat, op.results, strict=True)
        ):
            return False
        origins = [self.origin.get(v) or _weight_name(v) for v in op.operands]
        known = self._known(op)
        is_larger = any(v in self.larger or v in self.passing for v in op.operands)
        most = self._most(op)
        for result, value in zip(op.results, flat, strict=True):
            if tensor_bytes(result.type) > most:
                self.passing[result] = None
            elif tensor_bytes(result.type) > (self.limit if is_larger else max(self.limit, known)):
                self.larger[result] = None
            self.values[result] = value
            self.origin[result] = next((o for o in origins if o), "")
        return True

    def _may_fold(self, op: EdgeOp) -> bool:
        expands = (op.SCHEMA.op_name.startswith(EXPANDING) or _widens(op)) and _expands(op)
        if expands and not self.expand:
            return False
        for operand in op.operands:
            if not isinstance(operand.type, TensorType):
                return False
            if operand not in self.values and not self.store.is_constant(operand):
                return False
        for result in op.results:
            type = result.type
            if not isinstance(type, TensorType) or not is_static(type) or not is_contiguous(type):
                return False
            if not expands and tensor_bytes(type) > max(self._most(op), WAY * self.limit):
                return False
        return True

    def _known(self, op: EdgeOp) -> int:
        """Bytes of the constants that an operator is computed from; those that are none in the file do not count."""
        return sum(tensor_bytes(v.type) for v in op.operands if v not in self.passing)

    def _most(self, op: EdgeOp) -> int:
        """Bytes that a result may have as a constant."""
        if self.expand and (op.SCHEMA.op_name.startswith(EXPANDING) or _widens(op)) and _expands(op):
            return sys.maxsize
        return max(self.made if self._is_made_of_a_weight(op) else self.limit, self._known(op))

    def _is_made_of_a_weight(self, op: EdgeOp) -> bool:
        """Whether an operator computes something of a weight that the program has."""
        return op.op_name not in REPEATS and any(self.origin.get(v) or _weight_name(v) for v in op.operands)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, SSAValue):
            if value not in self.values:
                type = tensor_of(value)
                self.values[value] = self.evaluator.from_bytes(self.store.data(value), type)
            return self.values[value]
        return [self._argument(v) for v in value] if isinstance(value, tuple) else value

    def materialize(self, op: EdgeOp) -> None:
        """Replace a folded operator: constants for the results that others use, nothing for the rest."""
        for result in op.results:
            if result.first_use is None:
                continue
            data = self.evaluator.to_bytes(self.values[result])
            origin = self.origin.get(result)
            hint = f"{origin}_folded" if origin else result.name_hint or "folded"
            constant = self.store.make(data, tensor_of(result), op, hint)
            Rewriter.insert_op(constant, InsertPoint.before(op))
            constant.results[0].name_hint = result.name_hint
            result.replace_all_uses_with(constant.results[0])
        Rewriter.erase_op(op)


def _static(store: ConstantStore) -> Iterator[WeightOp]:
    """The weights whose bytes are known."""
    for weight in store.weights.values():
        if isinstance(weight.type, TensorType) and is_static(weight.type):
            yield weight


def _widens(op: EdgeOp) -> bool:
    """Whether an operator makes numbers of more than a few integers of 8 bits: what is left of a dequantize operator
    that a target has no kernel for.
    """
    types = [cast("TensorType[Attribute]", v.type) for v in (*op.operands[:1], *op.results)]
    return (
        op.SCHEMA.op_name == CAST
        and types[0].element_type in (i8, ui8)
        and is_static(types[0])
        and tensor_bytes(types[0]) > FEW
    )


def _expands(op: EdgeOp) -> bool:
    before, after = (cast("TensorType[Attribute]", v.type) for v in (op.operands[0], op.results[0]))
    return not (is_static(before) and is_static(after)) or tensor_bytes(after) > tensor_bytes(before)


def _weight_name(value: SSAValue) -> str:
    owner = value.owner
    return owner.symbol.root_reference.data if isinstance(owner, GetWeightOp) else ""
