"""`lower-expert-layers`: rows times the matrices that they choose are calls of kernels, or loops.

Before, with or without the input quantized where it is read::

    %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %scales, group_size = 32, ...) : ...
    %y = edge.etir.expert_linear.default(%x, %w, %numbers, columns = 256) : ...

After, on a target with kernels for weights in groups::

    %y = edge.etir.int4_group_expert_linear.default(%x, %numbers, %packed, %scales16, none, columns = 256) : ...

On others, a loop over the rows that multiplies out the matrix of each::

    %y = control.scan over (%r = %x, %n = %numbers) : ... {
      %i = edge.aten.index_select.default(%integers, dim = 0, %n) : ...
      ...
      control.yield %p : tensor<256xf32>
    }

Either way a file has the integers, packed once, two of 4 bits in a byte, and a run takes time for the experts that were
chosen. A weight that is not of integers is the loop that it was before `experts-to-layers`. A kernel takes rows that
follow each other and have one matrix together: the loop takes each alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas
from etir.dialects.dtypes import f32, i32
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of
from etir.dialects.experts import EXPERT_LINEAR
from etir.interpret.numpy_ops.groups import LANES, packed_groups
from etir.lowering.build.builder import Builder
from etir.lowering.decompose_aten.loops import scan
from etir.passes.backend.fuse_quantized.grouped import Grouped, Rows, grouped, kernel_name, rows_of_integers
from etir.passes.backend.fuse_quantized.inputs import quantized_there
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import array_of
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.targets.manifest import load


@register_pass
@dataclass(frozen=True)
class LowerExpertLayersPass(Pass):
    """Write ``etir.expert_linear`` as what the target has.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "lower-expert-layers"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        if not any(op.name == PREFIX + EXPERT_LINEAR for method in methods(module) for op in method.walk()):
            return
        pattern = _Layer(Kernels(module, load(self.target), self.libraries))
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        schemas = pattern.kernels.schemas()
        for text in schemas:
            ctx.declare_schema(text)
        declare_schemas(module, schemas)


class _Layer(Pattern):
    """``expert_linear(x, weight, numbers)``"""

    name = "layer-of-experts"
    roots = (PREFIX + EXPERT_LINEAR,)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        made = self._call(op, rewriter)
        rewriter.replace_op(op, [self._loop(op, rewriter) if made is None else made])

    def _call(self, op: EdgeOp, rewriter: PatternRewriter) -> SSAValue | None:
        """The call of a kernel; None where there is none that takes the layer."""
        rows = rows_of_integers(op.arg("weight"), self.kernels.store)
        weight = rows if isinstance(rows, str) else grouped(rows)
        columns = cast(int, op.arg("columns"))
        if isinstance(weight, str) or -(-columns // LANES) * LANES * 8 > columns * 9:
            return None
        there = quantized_there(op.arg("input"))
        if there is not None and there.block not in (0, weight.numbers.shape[1] // weight.scales.shape[1]):
            return None
        kernel = kernel_name(weight.bits, "expert_linear" if there is None else "dynamic_expert_linear")
        source = cast(SSAValue, op.arg("input")) if there is None else there.source
        if not self.kernels.has(kernel) or not is_contiguous(tensor_of(source)):
            return None
        whole = _whole_panels(weight, columns)
        packed = packed_groups(whole.numbers, whole.scales, whole.minimums, whole.bits)
        numbers = cast(SSAValue, op.arg("experts"))
        if there is None:
            # Kernels of this family have wider vectors for calls without integers of 64 bits alone (`--limit linalg`).
            numbers = _in_32_bits(numbers, Builder(rewriter, "edge"))
        arguments: dict[str, Any] = {
            "input": source,
            "experts": numbers,
            "weight": packed.weight,
            "scales": packed.scales,
            "minimums": packed.minimums,
            "columns": columns,
        }
        if there is not None:
            arguments["sums"] = weight.sums() if there.block == 0 else None
        return self.kernels.make(kernel, arguments, op.results[0].type, rewriter, weight_name(op))

    def _loop(self, op: EdgeOp, rewriter: PatternRewriter) -> SSAValue:
        """A product for each row with its matrix, which is chosen as it is stored, ``[experts, depth, columns]``."""
        b = Builder(rewriter, "edge")
        columns = cast(int, op.arg("columns"))
        depth = tensor_of(cast(SSAValue, op.arg("weight"))).get_shape()[1]
        name = weight_name(op)
        rows = rows_of_integers(op.arg("weight"), self.kernels.store)
        arrays = self._floats(op, columns) if isinstance(rows, str) else _stored(rows, columns)
        constants = {what: self.kernels.constant(a, op, f"{name}_{what}", rewriter) for what, a in arrays.items()}

        def product(_: object, slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
            one, number = slices
            index = b.unsqueeze(number, 0)
            chosen = {what: b(aten.index_select.default, value, 0, index) for what, value in constants.items()}
            made = b.mm(b.unsqueeze(one, 0), _matrix(b, chosen, depth, columns))
            if "scales" in chosen and arrays["scales"].ndim == 2:
                made = b.mul(made, chosen["scales"])
            return [], [b.view(made, [columns])]

        return scan(b, [], [cast(SSAValue, op.arg("input")), cast(SSAValue, op.arg("experts"))], product)[1][0]

    def _floats(self, op: EdgeOp, columns: int) -> dict[str, np.ndarray]:
        numbers = array_of(op.arg("weight"), self.kernels.store)
        assert numbers is not None, "experts-to-layers takes constants alone"
        return {"matrices": numbers.reshape(-1, columns, numbers.shape[1]).swapaxes(1, 2)}


def _in_32_bits(numbers: SSAValue, b: Builder) -> SSAValue:
    """int64 ``[rows]`` as int32. What has more bits becomes the nearest number of 32, which the kernel refuses as it
    does any that is no expert's; cut off, it could be another expert's.
    """
    least, most = -(2**31), 2**31 - 1
    op = numbers.owner
    limits = [op.arg("min"), op.arg("max")] if isinstance(op, EdgeOp) and op.op_name == "aten.clamp.default" else []
    if not limits or not all(isinstance(limit, int) and least <= limit <= most for limit in limits):
        numbers = b.clamp(numbers, least, most)
    return b.cast(numbers, i32)


def _matrix(b: Builder, chosen: dict[str, SSAValue], depth: int, columns: int) -> SSAValue:
    """The chosen matrix, float32 ``[depth, columns]``, but for scales of its columns."""
    if "matrices" in chosen:
        return b.view(chosen["matrices"], [depth, columns])
    if "halves" in chosen:
        both = b.cast(b.view(chosen["halves"], [depth, columns // 2]), f32)
        upper = b.floor(b.mul(both, 0.0625))
        lower = b(aten.sub.Tensor, both, upper, alpha=16)
        numbers = b.sub(b(aten.cat.default, [lower, upper], 1), 8)
    else:
        numbers = b.cast(b.view(chosen["integers"], [depth, columns]), f32)
    groups = {what: tensor_of(v).get_shape()[1] for what, v in chosen.items() if tensor_of(v).get_num_dims() == 3}
    if "scales" not in groups:
        return numbers
    count = groups["scales"]
    numbers = b.view(numbers, [count, depth // count, columns])
    if "zero_points" in chosen:
        numbers = b.sub(numbers, b.view(chosen["zero_points"], [count, 1, columns]))
    return b.view(b.mul(numbers, b.view(chosen["scales"], [count, 1, columns])), [depth, columns])


def _stored(rows: Rows, columns: int) -> dict[str, np.ndarray]:
    """What a loop chooses from: integers ``[experts, depth, columns]``, or two in a byte, those of the first half of
    the columns in its low half; scales and zero points ``[experts, groups, columns]``, or ``[experts, columns]`` of one
    scale.
    """

    def turned(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.reshape(-1, columns, array.shape[1]).swapaxes(1, 2))

    integers = turned(rows.integers)
    arrays = {"integers": integers}
    if integers.dtype == np.int8 and integers.min() >= -8 and integers.max() <= 7 and columns % 2 == 0:
        low, high = np.split((integers + np.int8(8)).astype(np.uint8), 2, axis=-1)
        arrays = {"halves": low | high << np.uint8(4)}
    scales = turned(rows.scales)
    zeros = None if rows.zeros is None else turned(rows.zeros.astype(np.float32))
    arrays["scales"] = scales[:, 0] if zeros is None and scales.shape[1] == 1 else scales
    return arrays if zeros is None else arrays | {"zero_points": zeros}


def _whole_panels(weight: Grouped, columns: int) -> Grouped:
    """The same with the rows of each expert filled up to whole panels, by rows that stand for zeros."""
    more = -columns % LANES
    if not more:
        return weight

    def filled(array: np.ndarray, value: int) -> np.ndarray:
        parts = array.reshape(-1, columns, array.shape[1])
        return np.pad(parts, ((0, 0), (0, more), (0, 0)), constant_values=value).reshape(-1, array.shape[1])

    minimums = weight.minimums
    zero = 0 if minimums is not None else 1 << (weight.bits - 1)
    return Grouped(
        weight.bits,
        filled(weight.numbers, zero),
        filled(weight.scales, 0),
        None if minimums is None else filled(minimums, 0),
    )
