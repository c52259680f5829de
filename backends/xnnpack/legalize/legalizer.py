"""What a legaliser is: a function that makes the nodes of one operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.dialects.schema_op import SchemaOp

Legalizer: TypeAlias = Callable[[Emitter, SchemaOp], None]


def table(function: Callable[..., None], names: dict[str, str]) -> dict[str, Legalizer]:
    """One function for several operators, each given the name of its node."""
    return {operator: partial(function, node=node) for operator, node in names.items()}
