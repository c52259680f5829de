"""Weights and biases of layers as arrays, and the way back."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.dtypes import f32
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_static, order_of, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.passes.analysis.constants import ConstantStore


class Parameters:
    """The constant float32 operands of one module's operators."""

    def __init__(self, module: ModuleOp):
        self.store = ConstantStore(module)
        self.readers: dict[str, int] = {}
        for op in module.walk():
            if isinstance(op, GetWeightOp):
                name = op.symbol.root_reference.data
                self.readers[name] = self.readers.get(name, 0) + sum(1 for _ in op.results[0].uses)

    def is_known(self, value: object) -> TypeGuard[SSAValue]:
        """Whether ``value`` is a loaded float32 constant."""
        if not isinstance(value, SSAValue) or not isinstance(value.type, TensorType):
            return False
        return value.type.element_type == f32 and is_static(value.type) and self.store.is_constant(value)

    def is_own(self, value: object) -> TypeGuard[SSAValue]:
        """Whether ``value`` is a loaded float32 constant that nobody else reads."""
        if not self.is_known(value):
            return False
        owner = value.owner
        if isinstance(owner, GetWeightOp):
            return self.readers.get(owner.symbol.root_reference.data, 0) <= 1
        return value.has_one_use()

    def array(self, value: SSAValue) -> np.ndarray:
        """The numbers of a constant, float32, in the dims of its type."""
        type = tensor_of(value)
        order, shape = order_of(type), type.get_shape()
        stored = np.frombuffer(self.store.data(value), np.float32).reshape([shape[d] for d in order])
        return stored.transpose(np.argsort(order))

    def constant(self, before: EdgeOp, array: np.ndarray, like: SSAValue | None, suffix: str) -> SSAValue:
        """A new float32 constant before an operator, laid out as ``like`` and named after it."""
        owner = None if like is None else like.owner
        hint = owner.symbol.root_reference.data if isinstance(owner, GetWeightOp) else "parameter"
        type = tensor_type(f32, array.shape) if like is None else tensor_of(like)
        data = np.ascontiguousarray(array.astype(np.float32).transpose(order_of(type)))
        made = self.store.make(data.tobytes(), type, before, f"{hint}_{suffix}")
        Rewriter.insert_op(made, InsertPoint.before(before))
        return made.results[0]

    def replace(self, op: EdgeOp, name: str, array: np.ndarray, suffix: str) -> None:
        """Make ``array`` the argument ``name`` of an operator, whose constant it was. The old one goes where nobody
        else reads it.
        """
        old = op.arg(name)
        assert isinstance(old, SSAValue)
        made = self.constant(op, array, old, suffix)
        op.operands[op.operands.index(old)] = made
        _erase_unused(old.owner)

    def replaced(self, op: EdgeOp, name: str, array: np.ndarray, suffix: str) -> EdgeOp:
        """The operator with ``array`` as its argument ``name``, which it may not have had."""
        if isinstance(op.arg(name), SSAValue):
            self.replace(op, name, array, suffix)
            return op
        made = self.constant(op, array, None, suffix)
        new = op.with_args([r.type for r in op.results], **{name: made})
        new.location = op.location
        for key, attribute in op.attributes.items():
            new.attributes.setdefault(key, attribute)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
        Rewriter.replace_op(op, new)
        return new


def _erase_unused(owner: object) -> None:
    if isinstance(owner, Operation) and all(r.first_use is None for r in owner.results):
        Rewriter.erase_op(owner)
