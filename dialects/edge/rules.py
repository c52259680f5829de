"""The edge level's rules as data: what becomes of views, of scalars in tensor slots, and of dim orders.

`aten-to-edge` reads these tables to lower, `verify-edge` to check. docs/reference/dialects/edge.md numbers the rules:
E1 functional, E2 no view, E3 every tensor slot a tensor, E4 dim order explicit and agreeing, E5 dtypes.
"""

from __future__ import annotations

from functools import cache

from etir.dialects.aten.table import load_table
from etir.dialects.schema import Kind, OpSchema, SchemaKind

IDENTITIES = frozenset(
    {
        "aten.alias.default",
        "aten.alias_copy.default",
        "aten.detach.default",
        "aten.detach_copy.default",
        "aten.lift.default",
        "aten.lift_fresh.default",
        "aten.lift_fresh_copy.default",
        "aten.positive.default",
        "aten.resolve_conj.default",
        "aten.resolve_neg.default",
    }
)
"""Functional operators that give their argument back: nothing is left of them."""

_RENAMED_VIEWS = {
    "aten.reshape.default": "aten.view_copy.default",
    "aten._unsafe_view.default": "aten.view_copy.default",
    "aten._reshape_copy.default": "aten.view_copy.default",
    "aten.split.sizes": "aten.split_with_sizes_copy.default",
}


@cache
def copy_form(op_name: str) -> str | None:
    """The ``*_copy`` overload that replaces a view, or None when ``op_name`` is not a view (E2)."""
    renamed = _RENAMED_VIEWS.get(op_name)
    if renamed is not None:
        return renamed
    schema = load_table().get(op_name)
    if schema is None or not schema.is_view:
        return None
    name = f"{schema.namespace}.{schema.name}_copy.{schema.overload or 'default'}"
    return name if name in load_table() else None


@cache
def scalar_form(op_name: str, argument: str) -> str | None:
    """The overload that takes a number where ``op_name`` takes tensor ``argument``, or None (E3).

    ``aten.add.Tensor`` and ``other`` give ``aten.add.Scalar``; the other arguments must be the same.
    """
    table = load_table()
    schema = table.get(op_name)
    if schema is None:
        return None
    for candidate_name in table.overloads(op_name.rsplit(".", 1)[0]):
        candidate = table.get(candidate_name)
        # Only core overloads: the others have no kernel in most runtimes.
        if candidate is not None and "c" in table.flags(candidate_name) and _same_but(schema, candidate, argument):
            return candidate_name
    return None


def _same_but(schema: OpSchema, candidate: OpSchema, argument: str) -> bool:
    if len(candidate.arguments) != len(schema.arguments) or candidate.kind is not schema.kind:
        return False
    for a, b in zip(schema.arguments, candidate.arguments, strict=True):
        if a.name != b.name:
            return False
        if a.name == argument:
            if b.kind is not Kind.SCALAR or b.is_list:
                return False
        elif a.type_text != b.type_text:
            return False
    return True


def refusal(op_name: str) -> str | None:
    """Why the edge level has no operator ``aten.add_.Tensor`` of the schema table, or None when it has."""
    schema = load_table().get(op_name)
    if schema is None:
        return None
    if schema.kind is not SchemaKind.FUNCTIONAL:
        return f"the edge level has no '{op_name}': it writes an argument (E1)"
    if schema.is_view:
        copy = copy_form(op_name)
        return f"the edge level has no '{op_name}': it is a view (E2)" + (f"; use 'edge.{copy}'" if copy else "")
    return None


def is_pointwise(op_name: str) -> bool:
    """Whether the operator works element by element with broadcasting (torch's own tag)."""
    return "p" in load_table().flags(op_name)


ORDER_KEEPING = frozenset(
    {
        "aten.convolution.default",
        "aten._native_batch_norm_legit_no_training.default",
        "aten.max_pool2d_with_indices.default",
        "aten.avg_pool2d.default",
        "aten.upsample_nearest2d.vec",
        "aten.upsample_bilinear2d.vec",
        "aten.cat.default",
        "aten.constant_pad_nd.default",
        "aten.hardswish.default",
    }
)
"""Besides pointwise operators: those that read and write a channels-last tensor in its own order.

Not every kernel does; `legalize-dim-order` puts copies around those of a target that do not."""
