"""Operators that raise for what tensors hold, as assertions that the runtime checks.

``torch._assert_async`` is what a strict export makes of ``assert`` of a tensor; ``_linalg_check_errors`` is in torch's
decompositions of ``inv``, ``solve`` and ``cholesky``, and in ``check_errors=True`` of their ``_ex`` forms. Without them
a program would go on with numbers that mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.schema import OpSchema
from etir.lowering.build.assertions import assert_factored, assert_true
from etir.lowering.import_fx.structures import Value

FACTORIZATION = "aten._linalg_check_errors.default"
FUNCTIONAL = "aten._functional_assert_async.msg"
CHECKS = frozenset({"aten._assert_async.default", "aten._assert_async.msg", FUNCTIONAL, FACTORIZATION})


def check(name: str, arguments: Sequence[Value], keywords: Mapping[str, Value], block: Block) -> Value:
    """Append the assertion of one of ``CHECKS``; the token that a functional one hands on."""
    value, *rest = arguments
    assert isinstance(value, SSAValue)
    if name == FACTORIZATION:
        assert_factored(value, str(rest[0] if rest else keywords["api_name"]), block.add_op)
    else:
        assert_true(value, str(rest[0] if rest else "what the model asserts is not true"), block.add_op)
    return rest[1] if name == FUNCTIONAL else None


def check_results(op: Operation, schema: OpSchema, given: Mapping[str, object], block: Block) -> None:
    """Append the assertion that ``check_errors=True`` asks for; ``info`` is the last result."""
    if given.get("check_errors") is True:
        assert_factored(op.results[-1], schema.name.strip("_").replace("linalg_", "linalg."), block.add_op)
