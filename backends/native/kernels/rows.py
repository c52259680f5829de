"""``tile.softmax`` and ``tile.norm``: sums and largest numbers along the last dim, then one walk that writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import addresses, collapsed, outer_indices
from etir.backends.native.kernels.template import CFunction, Template, float_text, template
from etir.backends.native.sizes import Size, most
from etir.backends.native.tile import NormOp, SoftmaxOp, shape_of, strides_of

CHAINS = 4
"""Maxima that are found side by side: each waits some cycles for the one before."""
LONG = 2
"""Steps of all chains that a row has at least, where it has chains."""


def _contiguous(op: SoftmaxOp | NormOp) -> str | None:
    one = all(strides_of(v.type)[-1] == 1 or shape_of(v)[-1] == 1 for v in (op.x, op.out))
    return None if one else "elements of a row lie side by side"


def _rows(operands: Sequence[SSAValue], body: list[str]) -> tuple[str, int, int]:
    """A loop over rows of ``x``, ``o`` and ``s``, how many there are, and how many are worth a thread."""
    shape = shape_of(operands[0])
    strides = [strides_of(v.type)[:-1] for v in operands]
    dims, steps = collapsed(shape[:-1], strides) if len(shape) > 1 else ([1], [[1] for _ in operands])
    lines = [
        "for (long row = begin; row < end; ++row) {",
        *(f"  {line}" for line in outer_indices(dims)),
        *(f"  {line}" for line in addresses(len(dims), steps, ["x", "o", "s"][: len(operands)], 1, 2)),
        *(f"  {line}" for line in body),
        "}",
    ]
    return "\n".join(lines), math.prod(dims), max(1, 2048 // max(1, most(shape[len(shape) - 1])))


def _walk(n: int, lanes: int, whole: str, some: str, first: int = 0) -> list[str]:
    """The statements ``whole`` for every vector at ``j``, from ``first`` on, and ``some`` for the last ``n % lanes``
    elements.
    """
    lines = []
    if isinstance(n, Size) or n - first >= lanes:
        lines.append(f"for (long j = {first}; j < {n // lanes * lanes}; j += {lanes}) {{ {whole} }}")
    if n % lanes:
        lines.append(f"{{ const long j = {n // lanes * lanes}; {some} }}")
    return lines


def _by_chains(n: int, cpu: Cpu) -> int:
    """The elements of a row of which the largest is found by several chains of vectors."""
    step = CHAINS * cpu.vector
    return 0 if isinstance(n, Size) or cpu.linked or n < LONG * step else n // step * step


def _largest(n: int, cpu: Cpu) -> list[str]:
    """The statements that make ``most`` the largest of so many elements of a row: one chain would wait for each of its
    maxima, and their order does not matter.
    """
    end, lanes = _by_chains(n, cpu), cpu.vector
    if not end:
        return []
    chains = ["most", *(f"most{i}" for i in range(1, CHAINS))]
    steps = [f"{name} = vmax_bound({name}, vload(x + j + {i * lanes}));" for i, name in enumerate(chains)]
    return [
        f"vf {', '.join(f'{name} = most' for name in chains[1:])};",
        f"for (long j = 0; j < {end}; j += {CHAINS * lanes}) {{ {' '.join(steps)} }}",
        *(f"most = vmax_bound(most, {name});" for name in chains[1:]),
    ]


@template(SoftmaxOp)
class Softmax(Template):
    """The largest element is subtracted first, so that nothing overflows."""

    name = "softmax"

    def illegal(self, op: SoftmaxOp, cpu: Cpu) -> str | None:
        return _contiguous(op)

    def in_place(self, op: SoftmaxOp) -> Sequence[SSAValue]:
        """A row is read before the same row is written."""
        return (op.x,)

    def c(self, op: SoftmaxOp, cpu: Cpu) -> CFunction:
        n, lanes = shape_of(op.x)[-1], cpu.vector
        rest = n % lanes
        is_log, is_safe, first = op.log is not None, op.safe is not None, _by_chains(n, cpu)
        whole_store, some_store = "vstore(o + j, e); ", f"vstore_some(o + j, e, {rest}); "
        over = "(vsum(sums) == 0.0f ? 0.0f : 1.0f / vsum(sums))" if is_safe else "1.0f / vsum(sums)"
        peak = "vlargest(most)"
        if is_safe:
            # All are minus infinity, or no numbers, which the sum shows.
            peak = "vlargest(most) == -__builtin_inff() ? 0.0f : vlargest(most)"
        last, result, some_result = (
            f"const vf scale = vset({over});",
            "vload(o + j) * scale",
            f"vload_some(o + j, {rest}) * scale",
        )
        if is_log:
            whole_store = some_store = ""
            # One after the other: beside a large number, the logarithm of the sum would be rounded away.
            last = "const vf total = vlog(vset(vsum(sums)));"
            result, some_result = "vload(x + j) - shift - total", f"vload_some(x + j, {rest}) - shift - total"
        scaled = _walk(n, lanes, f"vstore(o + j, {result});", f"vstore_some(o + j, {some_result}, {rest});")
        if op.scale is not None:
            last, scaled = f"s[0] = {over};", []
        # Lanes that are not there must not win; exp makes 0 of them.
        padded = f"vselect(vfirst({rest}), vload_some(x + j, {rest}), vset(-__builtin_inff()))"
        body = [
            "vf most = vset(-__builtin_inff());",
            # A number that is none may be lost here: it comes back with the sum.
            *_largest(n, cpu),
            *_walk(n, lanes, "most = vmax_bound(most, vload(x + j));", f"most = vmax_bound(most, {padded});", first),
            f"const vf shift = vset({peak});",
            "vf sums = vset(0.0f);",
            *_walk(
                n,
                lanes,
                f"const vf e = vexp_below(vload(x + j) - shift); {whole_store}sums += e;",
                f"const vf e = vselect(vfirst({rest}), vexp_below({padded} - shift), vset(0.0f)); "
                f"{some_store}sums += e;",
            ),
            last,
            *scaled,
        ]
        given = [op.x, op.out] if op.scale is None else [op.x, op.out, op.scale]
        return CFunction(*_rows(given, body))

    def numpy(self, op: SoftmaxOp, operands: Sequence[Any]) -> None:
        import numpy as np

        x, out, *scale = operands
        with np.errstate(all="ignore"):
            peak = x.max(-1, keepdims=True, initial=-np.inf)
            off = x.astype(np.float64) - (peak if op.safe is None else np.where(peak == -np.inf, 0, peak))
            e = np.exp(off)
            total = e.sum(-1, keepdims=True)
            if op.safe is not None:
                total = np.where(total == 0, np.inf, total)
            if scale:
                out[...], scale[0][...] = e, 1 / total
                return
            out[...] = e / total if op.log is None else off - np.log(total)


@template(NormOp)
class Norm(Template):
    """The mean first, then the squares of the differences from it: sums of squares alone lose digits. What the sum of
    the differences says that the mean has lost is put back, so that rows of equal numbers give zeros.
    """

    name = "norm"

    def illegal(self, op: NormOp, cpu: Cpu) -> str | None:
        if not isinstance(op.eps, FloatAttr):
            return "eps is a number"
        if isinstance(shape_of(op.x)[-1], Size):
            return "rows have a length that is known"
        if shape_of(op.x)[-1] != 1 and any(strides_of(p.type) != (1,) for p in op.parameters):
            return "elements of scale and shift lie side by side"
        return _contiguous(op)

    def in_place(self, op: NormOp) -> Sequence[SSAValue]:
        """A row is read before the same row is written."""
        return (op.x,)

    def c(self, op: NormOp, cpu: Cpu) -> CFunction:
        n, lanes = shape_of(op.x)[-1], cpu.vector
        rest = n % lanes
        assert isinstance(op.eps, FloatAttr)
        some = f"vload_some(x + j, {rest})"
        off = f"vselect(vfirst({rest}), {some} - mean, vset(0.0f))"
        whole, last = "(vload(x + j) - mean) * scale", f"({some} - mean) * scale"
        if op.parameters:
            whole = f"{whole} * vload(p2 + j) + vload(p3 + j)"
            last = f"{last} * vload_some(p2 + j, {rest}) + vload_some(p3 + j, {rest})"
        body = [
            "vf sums = vset(0.0f), squares = vset(0.0f), off = vset(0.0f);",
            *_walk(n, lanes, "sums += vload(x + j);", f"sums += {some};"),
            f"vf mean = vset(vsum(sums) / {float_text(n)});",
            *_walk(
                n,
                lanes,
                "const vf d = vload(x + j) - mean; squares = vfma(squares, d, d); off += d;",
                f"const vf d = {off}; squares = vfma(squares, d, d); off += d;",
            ),
            f"const vf lost = vset(vsum(off) / {float_text(n)});",
            f"const vf variance = vmax_bound(vset(0.0f), vset(vsum(squares) / {float_text(n)}) - lost * lost);",
            f"const vf scale = 1.0f / vsqrt(variance + {float_text(op.eps.value.data)});",
            "mean += lost;",
            *_walk(n, lanes, f"vstore(o + j, {whole});", f"vstore_some(o + j, {last}, {rest});"),
        ]
        return CFunction(*_rows((op.x, op.out), body))

    def numpy(self, op: NormOp, operands: Sequence[Any]) -> None:
        import numpy as np

        x, out, *parameters = operands
        wide = x.astype(np.float64)
        off = wide - wide.mean(-1, keepdims=True)
        assert isinstance(op.eps, FloatAttr)
        result = off / np.sqrt((off * off).mean(-1, keepdims=True) + op.eps.value.data)
        out[...] = result * parameters[0] + parameters[1] if parameters else result
