"""``_foreach_add`` and ``add``: which operator does to one tensor what an operator on lists does to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etir.dialects.aten.table import load_table
from etir.dialects.schema import OpSchema

PREFIX = "aten._foreach_"


def single_operator(many: OpSchema) -> OpSchema | None:
    """The operator of one tensor for an operator on lists, in place if that is; None when there is none."""
    if not many.op_name.startswith(PREFIX):
        return None
    table = load_table()
    schemas = map(table.get, table.overloads(f"aten.{many.op_name.removeprefix(PREFIX).partition('.')[0]}"))
    return next((s for s in schemas if s is not None and _is_of_one(s, many)), None)


def _is_of_one(one: OpSchema, many: OpSchema) -> bool:
    """Whether ``one`` takes an item where ``many`` takes a list of tensors, and an item or the same otherwise."""
    if any(b.optional and not a.optional for a, b in zip(one.arguments, many.arguments, strict=False)):
        return False
    rest = one.arguments[len(many.arguments) :]
    if len(one.arguments) < len(many.arguments) or len(one.returns) != 1 or not all(a.has_default for a in rest):
        return False
    pairs = list(zip(one.arguments, many.arguments, strict=False))
    return all(a.kind is b.kind and not a.is_list and (b.is_list or not a.is_tensor) for a, b in pairs)


def arguments_of_one(one: OpSchema, many: OpSchema, given: Mapping[str, Any], index: int) -> dict[str, Any]:
    """What ``one`` is called with for item ``index`` of the lists that ``many`` was given."""
    pairs = zip(one.arguments, many.arguments, strict=False)
    found = {a.name: given[b.name][index] if b.is_list else given[b.name] for a, b in pairs}
    # None is what an optional argument of the one means by its default.
    return {a.name: found[a.name] for a in one.arguments if found.get(a.name) is not None}
