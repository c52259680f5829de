"""Which tensors show something else than their storage holds: complex conjugates, and negated imaginary parts.

torch keeps a conjugate and a negative bit beside a tensor; ``conj``, and ``imag`` of a conjugated tensor, set them
without touching memory. They decide what ``as_strided`` reads, and whether ``resolve_conj`` and ``resolve_neg`` give
their tensor itself or a copy. Only views carry the bits: what the program computes has neither.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType

from etir.lowering.functionalize.aliases import Alias

_CONJUGATES = frozenset({"_conj", "conj", "mH", "adjoint", "matrix_H"})
_PARTS = frozenset({"imag", "view_as_real"})


def conjugate_bits(alias: Alias) -> tuple[bool, bool]:
    """Whether a tensor shows the conjugates of what its storage holds, and whether it shows negated numbers."""
    chain: list[Alias] = []
    one = alias
    while one.view is not None:
        chain.append(one)
        one = one.view.parent
    conjugated = negated = False
    for each in reversed(chain):
        assert each.view is not None
        name = each.view.op.SCHEMA.name
        is_complex = isinstance(each.view.parent.type.element_type, ComplexType)
        if name == "_neg_view":
            negated = not negated
        elif name in _PARTS and conjugated:
            conjugated, negated = False, not negated
        elif name == "real" and is_complex:
            conjugated = False
        elif name in _CONJUGATES and is_complex:
            conjugated = not conjugated
    return conjugated, negated
