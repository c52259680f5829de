"""Layers and tables whose weights have a scale for each group of a row: packed for the kernels that read them so.

Before, of a layer whose input is quantized where it is read (without that, of a layer on float32)::

    %d = edge.quantized_decomposed.dequantize_per_token.default(%q, %s, %z, ...)
    %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %scales, %zeros, group_size = 32, ...)
    %y = edge.aten.linear.default(%d, %w, %b)

After::

    %y = edge.etir.int4_group_dynamic_linear.default(%x, %packed, %scales16, %minimums, %sums, %b, columns = 576)

The order of the packed numbers is that of ``runtime/kernels/util/group_weights.h``: they lie in the file as they are
read. Numbers that span at most 16 steps have 4 bits. Scales are float16 where it holds every one of them; zero
points that are not the middle of the range become minimums. What the input is quantized with is the program's: a
scale and a zero point for each row, or a symmetric scale for each of its groups. A layer on float32 stays one.

A table that holds the same numbers as a layer, a language model's tied head, is looked up in the layer's packed weight,
so that a file has it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from etir.dialects.dtypes import f32
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, EMBEDDING_4BIT, EMBEDDING_BYTE
from etir.interpret.numpy_ops.groups import CHUNK, LANES, MOST_DEPTH, Packed, packed_groups
from etir.lowering.decompose_aten.preserved import GROUPED
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.inputs import bias_argument, quantized_there
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import array_of, weight_of
from etir.passes.infra.rewriting import Pattern, PatternRewriter

TABLES = {EMBEDDING_BYTE: 8, EMBEDDING_4BIT: 4}
_LOST = 2.0**-20
"""Relative to what a group's numbers span, by how much float16 may differ from a minimum that was computed from a zero
point in float32, which has lost as much.
"""


def kernel_name(bits: int, what: str) -> str:
    """``etir::int4_group_linear.out`` and the like."""
    return f"etir::int{bits}_group_{what}.out"


@dataclass(frozen=True)
class Rows:
    """Integers ``[rows, depth]`` as they are stored, float32 scales ``[rows, groups]``, zero points of any dtype in the
    same shape, or None where they are all 0.
    """

    integers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None


@dataclass(frozen=True)
class Grouped:
    """Unsigned numbers of ``bits`` bits, and scales and minimums in the dtype that a file has them in."""

    bits: int
    numbers: np.ndarray
    scales: np.ndarray
    minimums: np.ndarray | None

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells it from others, by its contents."""
        arrays = (self.numbers, self.scales, *(() if self.minimums is None else (self.minimums,)))
        return (bytes([self.bits]), *(np.ascontiguousarray(a).tobytes() for a in arrays))

    def packed(self) -> Packed:
        """In the order of the kernels."""
        return packed_groups(self.numbers, self.scales, self.minimums, self.bits)

    def sums(self) -> np.ndarray:
        """The sum of each row of what it stands for, float32."""
        rows, groups = self.scales.shape
        length = self.numbers.shape[1] // groups
        counted = self.numbers.astype(np.int64).reshape(rows, groups, length).sum(2)
        zero = 0 if self.minimums is not None else 1 << (self.bits - 1)
        totals = (counted - zero * length) * self.scales.astype(np.float64)
        if self.minimums is not None:
            totals += length * self.minimums.astype(np.float64)
        return totals.sum(1).astype(np.float32)


def rows_of_integers(value: Any, store: ConstantStore) -> Rows | str:
    """The constants that a weight is multiplied out from, with one scale a row or several; else why there are none."""
    owner = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(owner, EdgeOp):
        return "the weight is not made of integers"
    if owner.op_name in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
        weight = weight_of(value, store)
        return weight if isinstance(weight, str) else Rows(weight[0], weight[1].astype(np.float32)[:, None], None)
    return grouped_rows(owner, store)


def grouped_rows(op: EdgeOp, store: ConstantStore) -> Rows | str:
    """The constants of an operator that multiplies out a weight with groups in its rows; else why there are none."""
    if op.op_name not in GROUPED:
        return "the weight is not made of integers"
    names = ("scale", "zero_point") if op.op_name == GROUPED[1] else ("scales", "zero_points")
    numbers, scales, zeros = (array_of(op.arg(name), store) for name in ("input", *names))
    if numbers is None or scales is None or numbers.ndim != 2 or not numbers.size:
        return "the weight or its scales are no constants"
    if numbers.dtype not in (np.int8, np.uint8):
        return "the weight is not int8 or uint8"
    if zeros is None and op.arg(names[1]) is not None:
        return "the zero points are no constants"
    rows, columns = numbers.shape
    if scales.dtype != np.float32 or scales.size % rows or columns % (scales.size // rows or 1):
        return "groups of other lengths"
    count = scales.size // rows
    if op.op_name == GROUPED[1] and tuple(op.arg("block_size")) != (1, columns // count):
        return "groups of other shapes"
    if zeros is not None and not zeros.any():
        zeros = None
    if zeros is not None and zeros.size != scales.size:
        return "zero points of other groups"
    return Rows(numbers, scales.reshape(rows, count), None if zeros is None else zeros.reshape(rows, count))


def grouped(rows: Rows) -> Grouped | str:
    """A weight as the kernels take it; else why they do not."""
    integers, scales = rows.integers, rows.scales
    count, depth = integers.shape
    groups = scales.shape[1]
    if depth > MOST_DEPTH or (groups > 1 and depth % (groups * CHUNK)):
        return f"groups of {depth // groups} numbers, not of a multiple of {CHUNK}"
    if -(-count // LANES) * LANES * 8 > count * 9 or -(-depth // CHUNK) * CHUNK * 8 > depth * 9:
        return "a matrix so small that packing would make it much larger"
    low, high = int(integers.min()), int(integers.max())
    least, bits = next(
        (start, size) for start, size in ((-8, 4), (0, 4), (-128, 8), (0, 8)) if start <= low and high < start + 2**size
    )
    zeros = np.zeros_like(scales) if rows.zeros is None else rows.zeros.astype(np.float64)
    numbers = (integers.astype(np.int16) - least).astype(np.uint8)
    # Zero points as those of the unsigned numbers.
    zeros = zeros - least
    middle = 1 << (bits - 1)
    if (zeros == middle).all():
        return Grouped(bits, numbers, narrow(scales), None)
    lows = -zeros * scales.astype(np.float64)
    span = np.abs(lows) + scales * float(2**bits)
    with np.errstate(over="ignore"):
        half = lows.astype(np.float16)
    short = bool((np.abs(half.astype(np.float64) - lows) <= _LOST * span).all())
    minimums = half if short and narrow(scales).dtype == np.float16 else narrow(lows.astype(np.float32))
    return Grouped(bits, numbers, narrow(scales), minimums)


def narrow(scales: np.ndarray) -> np.ndarray:
    """float32 numbers as float16 where it holds all of them exactly."""
    with np.errstate(over="ignore"):
        short = scales.astype(np.float16)
    return short if (short.astype(np.float32) == scales).all() else scales


class Weights:
    """The packed weights of a module: one for each that has other numbers."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, ...], Packed] = {}

    def packed(self, weight: Grouped) -> Packed:
        """A weight in the order of the kernels."""
        found = self._known.get(weight.key)
        if found is None:
            found = self._known[weight.key] = weight.packed()
        return found

    def known(self, weight: Grouped) -> bool:
        """Whether something reads the same numbers packed."""
        return weight.key in self._known


class GroupedLayer(Pattern):
    """``linear(x, dequantize(weight))``, with or without ``x`` quantized there."""

    name = "layer-of-groups"

    def __init__(self, kernels: Kernels, weights: Weights):
        self.kernels, self.weights = kernels, weights

    def rewrite(self, op: edge.aten.linear.default, rewriter: PatternRewriter) -> None:
        store = self.kernels.store
        rows = rows_of_integers(op.arg("weight"), store)
        weight = rows if isinstance(rows, str) else grouped(rows)
        if isinstance(weight, str):
            rewriter.notify_match_failure(weight)
            return
        there = quantized_there(op.arg("input"))
        groups = weight.scales.shape[1]
        whole = there is not None and there.block == 0
        if whole and weight.bits == 8 and groups == 1 and weight.minimums is None:
            rewriter.notify_match_failure("one scale a row: a kernel for that is faster")
            return
        if there is not None and there.block not in (0, weight.numbers.shape[1] // groups):
            rewriter.notify_match_failure("the input has groups of another length than the weight")
            return
        kernel = kernel_name(weight.bits, "linear" if there is None else "dynamic_linear")
        values = (op.operands[0], op.results[0])
        if not all(is_contiguous(tensor_of(v)) and tensor_of(v).element_type == f32 for v in values):
            rewriter.notify_match_failure("not float32, or a dim order that the kernel does not take")
            return
        bias = bias_argument(op, store)
        if isinstance(bias, str) or not self.kernels.has(kernel):
            rewriter.notify_match_failure(bias if isinstance(bias, str) else "the target has no such kernel")
            return
        packed = self.weights.packed(weight)
        arguments: dict[str, Any] = {
            "input": op.arg("input") if there is None else there.source,
            "weight": packed.weight,
            "scales": packed.scales,
            "minimums": packed.minimums,
            "bias": bias,
            "columns": len(weight.numbers),
        }
        if there is not None:
            arguments["sums"] = weight.sums() if there.block == 0 else None
        made = self.kernels.make(kernel, arguments, op.results[0].type, rewriter, weight_name(op))
        rewriter.replace_op(op, [made])


class GroupedTable(Pattern):
    """A lookup in a table that multiplies rows out, or in one whose numbers a layer reads."""

    name = "table-of-groups"
    roots = (PREFIX + "aten.embedding.default", *(PREFIX + name for name in TABLES))

    def __init__(self, kernels: Kernels, weights: Weights):
        self.kernels, self.weights = kernels, weights

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        shared = op.op_name in TABLES
        rows = self._packed_rows(op) if shared else rows_of_integers(op.arg("weight"), self.kernels.store)
        weight = rows if isinstance(rows, str) else grouped(rows)
        if isinstance(weight, str):
            rewriter.notify_match_failure(weight)
            return
        if shared and not self.weights.known(weight):
            rewriter.notify_match_failure("no layer reads the same numbers")
            return
        kernel, result = kernel_name(weight.bits, "embedding"), op.results[0]
        plain = tensor_of(result).element_type == f32 and all(
            is_contiguous(tensor_of(v)) for v in (result, op.arg("indices"))
        )
        if not self.kernels.has(kernel) or not plain:
            rewriter.notify_match_failure("the target has no such kernel, or it takes no such tensors")
            return
        packed = self.weights.packed(weight)
        count, depth = weight.numbers.shape
        arguments = {
            "weight": packed.weight,
            "scales": packed.scales,
            "minimums": packed.minimums,
            "indices": op.arg("indices"),
            "rows": count,
            "depth": depth,
        }
        made = self.kernels.make(kernel, arguments, result.type, rewriter, weight_name(op))
        rewriter.replace_op(op, [made])

    def _packed_rows(self, op: EdgeOp) -> Rows | str:
        """The constants of an operator that looks rows of integers up."""
        store = self.kernels.store
        stored, scales = array_of(op.arg("weight"), store), array_of(op.arg("weight_scales"), store)
        zeros = op.arg("weight_zero_points")
        points = None if zeros is None else array_of(zeros, store)
        if stored is None or scales is None or (zeros is not None and points is None) or stored.ndim != 2:
            return "the table or its scales are no constants"
        if scales.dtype != np.float32 or not stored.size:
            return "the scales are not float32"
        integers = stored
        if TABLES[op.op_name] == 4:
            # The first number of a byte is in its upper half here.
            halves = np.stack([stored >> 4, stored & 15], -1).reshape(len(stored), -1)
            integers = (halves.astype(np.int16) - 8).astype(np.int8)
        scales = scales.reshape(len(integers), -1)
        if points is not None:
            points = points.reshape(scales.shape) if points.any() else None
        return Rows(integers, scales, points)


class WeightOfGroups(Pattern):
    """A weight with groups in its rows that no kernel reads is multiplied out now, as it is without a kernel."""

    name = "weight-of-groups"
    roots = tuple(PREFIX + name for name in GROUPED)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        found = grouped_rows(op, self.kernels.store)
        if isinstance(found, str):
            rewriter.notify_match_failure(found)
            return
        numbers, scales = found.integers, found.scales
        whole = numbers.reshape(*scales.shape, numbers.shape[1] // scales.shape[1]).astype(np.float32)
        if found.zeros is not None:
            whole = whole - found.zeros.astype(np.float32)[..., None]
        whole = (whole * scales[..., None]).reshape(numbers.shape).astype(np.float32)
        rewriter.replace_op(op, [self.kernels.constant(whole, op, "weight", rewriter)])
