"""``verify-native``: prove that the lowering to ``tile`` takes everything that a function has.

The lowering passes over what it does not know, and broadcasts what it is told to. So every operation of a function is a
group, a view, a weight or a constant; a group has operators that templates compute, its first one is what its kind
says, and declared types follow from the operands. The pass runs in every compilation, and on text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from etir.backends.api.patterns import Table, operator_of
from etir.backends.native.dialect import GroupOp, YieldOp
from etir.backends.native.dims import SIZE
from etir.backends.native.elementwise import ELEMENTWISE
from etir.backends.native.errors import E1165
from etir.backends.native.groups import inlined
from etir.backends.native.kinds import WITH_EPILOGUE, kind_of
from etir.backends.native.operators import BETWEEN
from etir.backends.native.rows import claimed, viewed_numbers
from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.sym.ops import ArithmeticOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.text import source_location
from etir.lowering.verify_types import type_problems
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@cache
def _table() -> Table:
    return Table([*claimed(), *viewed_numbers()])


def verify_groups(func: FuncOp) -> None:
    """Raises one E1165 with everything in ``func`` that the lowering cannot take."""
    raise_if_errors(list(_problems(func)))


def _problems(func: FuncOp) -> Iterator[Diagnostic]:
    try:
        func.verify()
    except VerifyException as error:
        yield E1165.diagnostic(str(error), source_location(func.location))
        return
    for op in func.body.block.ops:
        for problem in _of_operation(op):
            yield E1165.diagnostic(problem, source_location(op.location))


def _of_operation(op: Operation) -> Iterator[str]:
    if isinstance(op, GroupOp):
        yield from _of_group(op)
    elif isinstance(op, EdgeOp) and operator_of(op) == SIZE:
        return
    elif isinstance(op, EdgeOp) and operator_of(op) not in BETWEEN:
        yield f"'{operator_of(op)}' is in no group, and is no view"
    elif isinstance(op, EdgeOp):
        yield from _of_operator(op, "as a view")
    elif not isinstance(op, (GetWeightOp, ConstantOp, ReturnOp, SymConstantOp, ArithmeticOp)):
        yield f"'{op.name}' is no group, view, weight or constant"


def _of_operator(op: EdgeOp, where: str) -> Iterator[str]:
    name = operator_of(op)
    reason = _table().why_not(op)
    if reason is not None:
        yield f"'{name}' {where} is not what the delegate takes: {reason}"
    yield from (f"'{name}' {where} {problem}" for problem in type_problems(op, None))


def _of_group(group: GroupOp) -> Iterator[str]:
    kind = group.kind.data
    problems: list[str] = []
    with inlined(group) as members:
        for op in members:
            where = f"in the group '{kind}'"
            found = _of_operator(op, where) if isinstance(op, EdgeOp) else [f"'{op.name}' {where} is no operator"]
            problems += found
    yield from problems
    if group.schedule is not None:
        yield f"the group '{kind}' has a schedule, which nothing takes: schedules are of operations of tile"
    *members, _ = group.body.block.ops
    if not members:
        yield f"the group '{kind}' has no operators"
    elif not problems:
        yield from _of_template(group, kind, members)


def _of_template(group: GroupOp, kind: str, members: list[Operation]) -> Iterator[str]:
    root = members[0]
    name = operator_of(root)
    wanted = kind_of(root) if isinstance(root, EdgeOp) else None
    if wanted != kind:
        yield f"the group '{kind}' starts with '{name}', which is a '{wanted}'"
    if len(members) > 1 and kind not in WITH_EPILOGUE:
        yield f"the group '{kind}' has operators after '{name}'"
    result = root.results[0]
    for op in members[1:]:
        if operator_of(op) not in ELEMENTWISE or _shape(op.results[0]) != _shape(result):
            yield f"'{operator_of(op)}' after '{name}' is not elementwise on tensors of its shape"
    last = group.body.block.last_op
    assert isinstance(last, YieldOp)
    if [*last.values] != [members[-1].results[0]]:
        yield f"the group '{kind}' yields what its last operator computes, and nothing else"


def _shape(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(cast("TensorType[Attribute]", value.type))


@register_pass
@dataclass(frozen=True)
class VerifyNativePass(Pass):
    """Check functions of groups: everything is in a group or a view, kinds and types agree"""

    name = "verify-native"
    checks_only = True

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with everything that is wrong (E1165)."""
        found: list[Diagnostic] = []
        for func in module.body.block.ops:
            if isinstance(func, FuncOp) and "backend.delegate" in func.attributes:
                found += _problems(func)
        raise_if_errors(found)
