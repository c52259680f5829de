"""What the backend claims of truth values, as conditions of rows.

A mask begins small, with a byte for each key, and is expanded to one for each query and key; what says which rows have
a key at all is made of that, and chooses what is added to the scores. If kernels made it, all of the mask would wait
from before the delegate begins, and so would the rows. So code makes what is larger than what it is made of, with all
that follows. Other truth values that kernels make of integers they go on with: the delegate has what they have made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.conditions import dtype_name, dtypes, is_constant
from etir.backends.api.patterns import Condition, Match, condition, operator_of
from etir.backends.native.dims import dims
from etir.backends.native.operators import FLAG_VIEWS, QUANTIFIERS
from etir.backends.native.sizes import most
from etir.backends.native.truth import CONNECTIVES, TRUTH
from etir.dialects.schema_op import SchemaOp

Type = TensorType[Attribute]

MOST_FLAGS = 1 << 16
"""Truth values of a constant: each is a float of the file for code, and a byte for the kernels."""
OF_FLAGS = (*CONNECTIVES, *QUANTIFIERS, *FLAG_VIEWS)
"""Operators that make truth values of others."""


def _flags_problem(value: SSAValue) -> str | None:
    """What speaks against truth values that an operator reads: constants are floats of the file for code."""
    shape = cast(Type, value.type).get_shape()
    if not shape:
        return "a truth value that is a number"
    if not is_constant(value):
        return None
    count = math.prod(shape)
    return f"more than {MOST_FLAGS:,} constant truth values" if count > MOST_FLAGS else None


def choices(flags: str, *numbers: str) -> tuple[Condition, ...]:
    """Conditions of a choice between numbers by the truth values ``flags``."""
    given = lambda match: _flags_problem(cast(SSAValue, match.arg(flags)))  # noqa: E731
    fitting = Condition("truth values that are no constant, or few", given)
    return dtypes("float32", of=numbers), dtypes("bool", of=(flags,)), fitting


def between_flags(results: Sequence[str], *operands: str) -> Condition:
    """Operators on tensors of some dtypes, truth values among them."""

    def failure(match: Match) -> str | None:
        for values, allowed in ((match.op.operands, operands), (match.op.results, results)):
            for value in values:
                if isinstance(value.type, TensorType) and (name := dtype_name(value.type)) not in allowed:
                    return f"dtype {name}, takes {' or '.join(allowed)}"
        flags = [v for v in (*match.op.operands, *match.op.results) if dtype_name(v.type) == "bool"]
        return next((reason for v in flags if (reason := _flags_problem(v)) is not None), None)

    return Condition(f"dtype {' or '.join(operands)} to {' or '.join(results)}", failure)


def _is_of_code(values: Sequence[SSAValue]) -> bool:
    """Whether truth values are made of floats or of given ones, or kernels make fewer that one of them is made of."""
    pending, seen = [*values], dict.fromkeys(values)
    widest = small = 0
    while pending:
        value = pending.pop()
        op = value.owner
        if not isinstance(op, SchemaOp):
            if not is_constant(value):
                return True
        elif operator_of(op) in OF_FLAGS:
            widest = max(widest, _bytes(value))
            more = [v for v in op.operands if isinstance(v.type, TensorType) and v not in seen]
            seen.update(dict.fromkeys(more))
            pending += more
        elif operator_of(op) in TRUTH and any(dtype_name(v.type) == "float32" for v in op.operands):
            return True
        else:
            small += _bytes(value)
    return 0 < small < widest


def _bytes(value: SSAValue) -> int:
    """A byte for each truth value, at most."""
    return most(math.prod(dims(value)))


@condition("truth values of floats, that are given, or larger than what they are made of")
def of_code(match: Match) -> str | None:
    """Kernels that make a mask of as many numbers make all of it."""
    flags = [v for v in (*match.op.operands, *match.op.results) if dtype_name(v.type) == "bool"]
    return None if _is_of_code(flags) else "truth values that kernels make"


@condition("floats, or truth values of code")
def cast_of_code(match: Match) -> str | None:
    """A number of a truth value, or the other way around."""
    given = match.type("self")
    return of_code.failure(match) if given is not None and dtype_name(given) == "bool" else None
