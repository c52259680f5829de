"""`fuse-quantized`: what stands between dequantize and quantize operators is computed on integers.

Before::

    %1 = edge.quantized_decomposed.dequantize_per_tensor.default(%0, scale = 0.03, zero_point = -5, ...)
    %2 = edge.quantized_decomposed.dequantize_per_channel.default(%w, %scales, %zeros, axis = 0, ...)
    %3 = edge.aten.linear.default(%1, %2, %b) : ...
    %4 = edge.aten.relu.default(%3) : ...
    %5 = edge.quantized_decomposed.quantize_per_tensor.default(%4, scale = 0.1, zero_point = -128, ...)

After::

    %5 = edge.etir.int8_linear.default(%0, %packed, %bias, %factors, zero_point = -128, low = -128, high = 127)

A layer on integers whose result nobody quantizes gives float32 at once (``edge.etir.int8_float_linear``).

Linear layers whose input is quantized with a scale that is computed where it is read, and those of float32 with a
weight of integers, are calls of kernels as well: the first take a scale for each row, of which the second multiply the
weight out while they read it, four bits for each number that has no more.

For ExecuTorch's library for Cortex-M the calls are those of its kernels, ``cortex_m.quantized_linear`` and so on.

Which operators have such a kernel is what the target's manifest says (``quantized`` in its rows). For a target without
one, constants of four bits are two in a byte (`half_bytes.py`), and the rest is left alone. The kernels round where
integers are made and nowhere else, so that a result is within one step of that of the separate operators. Weights are
packed for the kernels here. Images have their channels innermost between operators on integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas
from etir.dialects.dtypes import i8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.quantized import NAMESPACE
from etir.lowering.decompose_aten.preserved import AFFINE_INPUT
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.device_moves import DeviceMove
from etir.passes.backend.fuse_quantized.given_order import GivenOrder
from etir.passes.backend.fuse_quantized.half_bytes import HalfBytes
from etir.passes.backend.fuse_quantized.kernels import Kernels
from etir.passes.delegation.decompose_preserved import DecomposePreservedPass
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import apply_patterns_greedily
from etir.targets.manifest import load


@register_pass
@dataclass(frozen=True)
class FuseQuantizedPass(Pass):
    """Call the target's integer kernels.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "fuse-quantized"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        manifest = load(self.target)
        linked = {name for name, always in manifest.libraries.items() if always or name in self.libraries}
        has_kernels = any(entry.quantized and entry.library in linked for entry in manifest.kernels.values())
        if not has_kernels:
            _halve(ctx, module)
        if not has_kernels or not _is_quantized(module):
            return
        # NumPy is loaded by programs that are quantized, and by no other.
        from etir.passes.backend.fuse_quantized.float_results import FloatResult
        from etir.passes.backend.fuse_quantized.grouped import GroupedLayer, GroupedTable, WeightOfGroups, Weights
        from etir.passes.backend.fuse_quantized.layers import DynamicLayer, LayerOfIntegers
        from etir.passes.backend.fuse_quantized.operators import DeviceConversion, QuantizedOperator

        kernels, weights = Kernels(module, manifest, self.libraries), Weights()
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [QuantizedOperator(kernels)])
            apply_patterns_greedily(ctx, method, [FloatResult(kernels)])
            apply_patterns_greedily(ctx, method, [GivenOrder()])
            # What the kernels for integers have left.
            apply_patterns_greedily(ctx, method, [GroupedLayer(kernels, weights)])
            apply_patterns_greedily(ctx, method, [DynamicLayer(kernels), LayerOfIntegers(kernels)])
        for method in methods(module):
            # Tables of any method that layers of any method read.
            apply_patterns_greedily(ctx, method, [GroupedTable(kernels, weights)])
            last = [WeightOfGroups(kernels), DeviceConversion(kernels), DeviceMove(kernels)]
            apply_patterns_greedily(ctx, method, last)
        _declare(ctx, module, kernels.schemas())
        if any(_of_inputs(op) for method in methods(module) for op in method.walk()):
            # They were preserved for layers that no kernel takes: too small to be packed, of another type.
            DecomposePreservedPass(target=self.target, libraries=self.libraries, fused=True).run(ctx, module)


def _halve(ctx: EtContext, module: ModuleOp) -> None:
    """Constants of four bits as such, where there is a constant of int8."""
    constants = (op.results[0] for op in module.walk() if isinstance(op, (GetWeightOp, ConstantOp)))
    if not any(tensor_of(value).element_type == i8 for value in constants):
        return
    pattern = HalfBytes(module, ConstantStore(module))
    for method in methods(module):
        apply_patterns_greedily(ctx, method, [pattern])


def _of_inputs(op: Operation) -> bool:
    return isinstance(op, EdgeOp) and op.op_name in AFFINE_INPUT


def _is_quantized(module: ModuleOp) -> bool:
    names = (op.op_name for m in methods(module) for op in m.walk() if isinstance(op, EdgeOp))
    return any(name.startswith((f"{NAMESPACE}.", "torchao.")) for name in names)


def _declare(ctx: EtContext, module: ModuleOp, schemas: list[str]) -> None:
    """Say what the operators of the kernels are, before everything else."""
    for text in schemas:
        ctx.declare_schema(text)
    declare_schemas(module, schemas)
