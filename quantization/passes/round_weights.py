"""`round-weights`: the integers of weights, chosen by more than which one is nearest.

Before::

    %y = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>} : ...

After ``round-weights{method=gptq data=seen.npz}``::

    %1 = et.get_weight @w_int4 : tensor<64x64xi8>
    %2 = edge.quantized_decomposed.dequantize_per_channel_group.default(%1, %scales, ...) : ...
    %y = edge.aten.linear.default(%x, %2) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>} : ...

| method | scales | integers | data |
| --- | --- | --- | --- |
| ``nearest`` | of the largest magnitude | the nearest | none |
| ``mse`` | with the least squared error of the weight | the nearest | none |
| ``hqq`` | that fit most numbers well, and large ones less | the nearest | none |
| ``gptq`` | as ``mse`` | errors of a column are made up for by those after it | needed |
| ``awq`` | as ``mse``, after channels that see large inputs were made larger | the nearest | needed |

``gptq`` is Frantar et al., ICLR 2023, with scales that are chosen before and columns in the order of what they see.
``awq`` (Lin et al., *AWQ: Activation-aware Weight Quantization*, MLSys 2024) tries twenty exponents of the mean
magnitude of the inputs where the operator before can undo the factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import did_you_mean
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.program import GetWeightOp
from etir.dialects.quant.ops import Uniform
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.channels import LINEAR, Group, channel_groups
from etir.quantization.errors import E1501, E1503
from etir.quantization.layers import encoding_of, layers_with_weights, weight_of
from etir.quantization.moments import Moments, moments_of, takes_moments, together
from etir.quantization.parameters import Parameters
from etir.quantization.passes.equalize_channels import scale_group
from etir.quantization.passes.materialize_quantization import least_scales, write_weight
from etir.quantization.rounding import Grid, as_rows, from_rows, gptq
from etir.quantization.samples import samples_of
from etir.quantization.weights import as_bfloat16, bounds_of

ROUNDINGS = {"nearest": "minmax", "mse": "mse", "hqq": "hqq", "gptq": "mse", "awq": "mse"}
"""The methods, and how each chooses scales."""
SEEING = frozenset({"gptq", "awq"})
"""Methods that need data."""
EXPONENTS = 20
TABLE = "aten.embedding.default"


@register_pass
@dataclass(frozen=True)
class RoundWeightsPass(Pass):
    """Write the integers of marked weights, with scales and roundings by ``method``.

    ``data`` is an ``.npz`` file of arrays with a sample in each index of their first dims, for ``gptq`` and ``awq``.
    ``ordered`` rounds columns in the order of what they see.
    """

    name = "round-weights"
    method: Literal["nearest", "mse", "hqq", "gptq", "awq"] = "mse"
    data: str = ""
    ordered: bool = True

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1503 where a method needs data and there is none, E1504 for data that does not fit."""
        func = next(iter(methods(module)), None)
        samples = samples_of(self.data, func) if self.data else []
        name = "forward" if func is None else func.sym_name.data
        round_weights(module, self.method, samples, name, ordered=self.ordered)


def check_rounding(method: str, seen: bool) -> None:
    """Raises E1501 for an unknown method, E1503 for one that needs data where there is none."""
    if method not in ROUNDINGS:
        raise E1501.error(f"there is no rounding '{method}'{did_you_mean(method, ROUNDINGS)}; {', '.join(ROUNDINGS)}")
    if method in SEEING and not seen:
        raise E1503.error(f"rounding weights by '{method}' needs to see inputs")


def round_weights(
    module: ModuleOp,
    method: str,
    samples: Sequence[Sequence[Any]] = (),
    name: str = "forward",
    *,
    ordered: bool = True,
) -> int:
    """Write the integers of all marked weights that are loaded; how many were.

    Raises what :func:`check_rounding` does.
    """
    check_rounding(method, bool(samples))
    seen = moments_of(module, samples, name) if method in SEEING else {}
    if method == "awq":
        _scale_by_inputs(module, seen)
    parameters = Parameters(module)
    written = 0
    for ops in _of_one_weight(module, parameters):
        how = encoding_of(ops[0]).data
        array = parameters.array(weight_of(ops[0]))
        # GPTQ's integers for a head would be poor ones of a table, which has no columns that make up for each other: a
        # net of 4,096 x 128 has outputs at 14.9 dB so, at 17.3 with the nearest for both.
        is_table = any(op.op_name == TABLE for op in ops)
        moments = together([seen[op] for op in ops if op in seen]) if method == "gptq" and not is_table else None
        bounds = [least for op in ops if (least := least_scales(op, parameters.store)) is not None]
        least = np.max(bounds, axis=0) if bounds else None
        integers, scales = _rounded(array, how, ROUNDINGS[method], moments, least, ordered=ordered)
        for op in ops:
            write_weight(op, integers, scales, how, parameters.store)
        written += len(ops)
    return written


def _of_one_weight(module: ModuleOp, parameters: Parameters) -> list[list[EdgeOp]]:
    """The marked layers whose weights are loaded, those that multiply by one weight together: the steps of a recurrent
    net and layers that are called twice have one weight, which is rounded once, for all that they see.

    So has a table that is a layer's weight as well, so that a file holds it once.
    """
    found: dict[object, list[EdgeOp]] = {}
    for op in layers_with_weights(module):
        weight = weight_of(op)
        if parameters.is_known(weight):
            shared = isinstance(weight.owner, GetWeightOp) and (takes_moments(op) or op.op_name == TABLE)
            name = weight.owner.symbol.root_reference.data if shared and isinstance(weight.owner, GetWeightOp) else op
            kind = LINEAR if op.op_name == TABLE else op.op_name
            found.setdefault((name, kind, encoding_of(op), _groups(op)), []).append(op)
    return list(found.values())


def _groups(op: EdgeOp) -> object:
    return op.arg("groups") if "groups" in op.SCHEMA.index else 1


def grid_of(how: Uniform, columns: int) -> Grid:
    """The integers of a weight that is stored like this, in rows of so many numbers."""
    low, high = bounds_of(how)
    return Grid(low, high, columns if how.block is None else how.block)


def _scales(grid: Grid, rows: np.ndarray, how: Uniform, method: str) -> np.ndarray:
    """Scales of blocks are such that bfloat16 holds them, so that backends with such scales compute the same."""
    scales = grid.scales(rows, method)
    return scales if how.block is None else as_bfloat16(scales)


def _rounded(
    weight: np.ndarray,
    how: Uniform,
    method: str,
    moments: Moments | None,
    least: np.ndarray | None,
    *,
    ordered: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """The integers of a weight, int8 of its shape, and its scales as they are stored, none below ``least``."""
    axis = how.axis or 0
    rows = as_rows(weight, axis)
    grid = grid_of(how, rows.shape[1])
    scales = _scales(grid, rows, how, method)
    if least is not None and how.block is None:
        scales = np.maximum(scales, least[:, None]).astype(np.float32)
    if moments is None or not moments.count or axis != 0:
        integers = grid.nearest(rows, scales)
    else:
        along = np.repeat(scales, grid.block, axis=1)
        groups, parts = moments.squares.shape[:2]
        integers = np.zeros(rows.shape, np.int8)
        for group, part in np.ndindex(groups, parts):
            height, width = len(rows) // groups, rows.shape[1] // parts
            cut = slice(group * height, (group + 1) * height), slice(part * width, (part + 1) * width)
            square = moments.squares[group, part]
            integers[cut] = gptq(rows[cut], square, along[cut], Grid(grid.low, grid.high, 1), ordered=ordered)
    return from_rows(integers, weight.shape, axis), scales.reshape(-1) if how.block is None else scales


def _scale_by_inputs(module: ModuleOp, seen: dict[EdgeOp, Moments]) -> None:
    """Make channels larger that see large inputs where all who read them are marked layers."""
    parameters = Parameters(module)
    marked = list(layers_with_weights(module))
    for func in methods(module):
        for group in channel_groups(func, parameters):
            plain = all(end.op.op_name == LINEAR and end.repeat == 1 for end in group.readers)
            if plain and all(any(end.op is op for op in marked) and end.op in seen for end in group.readers):
                factors = _factors(group, parameters, seen)
                scale_group(group, 1 / factors, parameters, "scaled")


def _factors(group: Group, parameters: Parameters, seen: dict[EdgeOp, Moments]) -> np.ndarray:
    """By how much the columns of those who read a group are made larger: what loses least of their results."""
    first = seen[group.readers[0].op]
    sizes = np.maximum(first.sizes[0] / max(first.count, 1), 1e-8)
    best, least = np.ones(group.size), np.inf
    for exponent in np.arange(EXPONENTS) / EXPONENTS:
        factors = sizes**exponent
        factors = factors / np.sqrt(factors.max() * factors.min())
        loss = sum(_loss(end.op, factors, parameters, seen[end.op]) for end in group.readers)
        if loss < least:
            best, least = factors, loss
    return best


def _loss(op: EdgeOp, factors: np.ndarray, parameters: Parameters, moments: Moments) -> float:
    """The squared error of a layer's results over all inputs when its columns are larger by ``factors``."""
    how = encoding_of(op).data
    rows = parameters.array(weight_of(op))
    larger = (rows * factors).astype(np.float32)
    grid = grid_of(how, rows.shape[1])
    scales = _scales(grid, larger, how, "minmax")
    error = grid.values(grid.nearest(larger, scales), scales) / factors - rows
    parts = np.split(error, len(moments.squares[0]), axis=1)
    return float(sum(((p @ square) * p).sum() for p, square in zip(parts, moments.squares[0], strict=True)))
