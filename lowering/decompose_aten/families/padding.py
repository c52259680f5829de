"""Padding by mode as the core operators for each mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, dims, rank
from etir.lowering.decompose_aten.decomposition import decomposition

MODES = ("reflect", "replicate", "circular", "constant")
"""Names of the modes in the order of torch's enumeration."""

_REFLECTIONS = {1: aten.reflection_pad1d.default, 2: aten.reflection_pad2d.default, 3: aten.reflection_pad3d.default}
_REPLICATIONS = {
    1: aten.replication_pad1d.default,
    2: aten.replication_pad2d.default,
    3: aten.replication_pad3d.default,
}


@decomposition(aten.pad.default, symint_args=("pad",))
def pad(b: Builder, x: SSAValue, amounts: Sequence[Any], mode: str, value: float | None) -> SSAValue | None:
    """``constant_pad_nd``, ``reflection_pad*`` or ``replication_pad*``; slices and ``cat`` for circular padding"""
    return _pad(b, x, amounts, mode, value)


@decomposition(aten._pad_enum.default, symint_args=("pad",))
def pad_enum(b: Builder, x: SSAValue, amounts: Sequence[Any], mode: int, value: float | None) -> SSAValue | None:
    """As ``pad``"""
    return _pad(b, x, amounts, MODES[mode], value)


def _pad(b: Builder, x: SSAValue, amounts: Sequence[Any], mode: str, value: float | None) -> SSAValue | None:
    type = b.rewriter.root.results[0].type
    if all(isinstance(a, int) and a == 0 for a in amounts):
        return x
    if mode == "constant":
        return b(aten.constant_pad_nd.default, x, amounts, 0 if value is None else value, types=[type])
    if mode == "circular":
        return circular_pad(b, x, amounts)
    return b((_REFLECTIONS if mode == "reflect" else _REPLICATIONS)[len(amounts) // 2], x, amounts, types=[type])


@decomposition(aten._pad_circular.default)
def circular_pad(b: Builder, x: SSAValue, amounts: Sequence[Any]) -> SSAValue | None:
    """``cat`` of the end, the tensor and its beginning, dim by dim"""
    if any(not isinstance(a, int) or a < 0 for a in amounts):
        return b.notify_match_failure("an amount is negative or dynamic")
    for i in range(len(amounts) // 2):
        position = rank(x) - 1 - i
        before, after = amounts[2 * i], amounts[2 * i + 1]
        parts = [x]
        if before:
            parts.insert(0, b.slice(x, position, b.size(x, position) - before, None))
        if after:
            parts.append(b.slice(x, position, 0, after))
        x = b.cat(parts, position)
    return x


@decomposition(aten.replication_pad1d.default)
def replication_pad1d(b: Builder, x: SSAValue, amounts: Sequence[Any]) -> SSAValue:
    """``replication_pad2d`` with a height of 1"""
    return b.squeeze(b(aten.replication_pad2d.default, b.unsqueeze(x, -2), [*amounts, 0, 0]), -2)


@decomposition(aten.constant_pad_nd.default)
def constant_pad(b: Builder, x: SSAValue, amounts: Sequence[int], value: float) -> SSAValue | None:
    """The input, when nothing is added; slices for negative amounts, which not every target's kernel takes"""
    if not any(amounts) and dims(x) == dims(b.rewriter.root.results[0]):
        return x
    if all(amount >= 0 for amount in amounts):
        return b.notify_match_failure("it only adds")
    for i in range(len(amounts) // 2):
        before, after = amounts[2 * i], amounts[2 * i + 1]
        if before < 0 or after < 0:
            position = rank(x) - 1 - i
            end = b.size(x, position) + after if after < 0 else None
            x = b.slice(x, position, max(-before, 0), end)
    rest = [max(amount, 0) for amount in amounts]
    if not any(rest):
        return x
    return b(aten.constant_pad_nd.default, x, rest, value, types=[b.rewriter.root.results[0].type])
