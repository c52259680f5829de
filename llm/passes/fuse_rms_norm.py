"""`fuse-rms-norm`: a norm by the root of the mean square that a model writes out is one operator.

Before::

    %p = edge.aten.pow.Tensor_Scalar(%x, exponent = 2) : ... -> tensor<1x?x64xf32>
    %m = edge.aten.mean.dim(%p, dim = [-1], keepdim = true) : ... -> tensor<1x?x1xf32>
    %a = edge.aten.add.Scalar(%m, other = 1e-6) : ... -> tensor<1x?x1xf32>
    %r = edge.aten.rsqrt.default(%a) : ... -> tensor<1x?x1xf32>
    %n = edge.aten.mul.Tensor(%x, %r) : ... -> tensor<1x?x64xf32>
    %y = edge.aten.mul.Tensor(%weight, %n) : ... -> tensor<1x?x64xf32>

After::

    %y = edge.etir.rms_norm.default(%x, %weight, eps = 1e-6) : ... -> tensor<1x?x64xf32>

A token's six operators of 576 numbers take as long to be started as to be computed, twice in each layer: between them
the weights of products go through the caches, so that each of them waits for memory again. Recognized in float32 and
over the last dim; the weight may be absent, or be what is known of it when the program is compiled. Which kernels there
are is what the target's manifest says.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_contiguous, tensor_of
from etir.llm.passes.one_operator import OneOperator, to_one_operator
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter

KERNEL = "etir::rms_norm.out"


@register_pass
@dataclass(frozen=True)
class FuseRmsNormPass(Pass):
    """Compute norms by the root of the mean square with one operator, if ``target`` has a kernel."""

    name = "fuse-rms-norm"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        to_one_operator(ctx, module, self.target, KERNEL, NormOfMeanSquare)


class NormOfMeanSquare(OneOperator):
    """x * rsqrt(mean(x ** 2) + eps), and what it is multiplied with."""

    name = "norm-of-mean-square"

    def rewrite(self, op: edge.aten.rsqrt.default, rewriter: PatternRewriter) -> None:
        found = _mean_square(op.self_)
        if found is None:
            return rewriter.notify_match_failure("not of a mean of squares over the last dim and a number")
        x, eps = found
        type = tensor_of(x)
        if not isinstance(type.element_type, Float32Type) or not is_contiguous(type):
            return rewriter.notify_match_failure("not float32, or a dim order that the kernel does not take")
        if not op.result.has_one_use():
            return rewriter.notify_match_failure("the root has another use")
        last = next(iter(op.result.uses)).operation
        if not isinstance(last, edge.aten.mul.Tensor) or {last.self_, last.other} != {x, op.result}:
            return rewriter.notify_match_failure("it does not scale what it was computed from")
        weight = None
        scaled = _weighted(last.result)
        if scaled is not None:
            last, weight = scaled
        made = self.operator.make({"input": x, "weight": weight, "eps": eps}, [x.type])
        made.results[0].name_hint = last.result.name_hint
        self.made += 1
        rewriter.insert_op(made, last)
        rewriter.replace_op(last, [made.results[0]])
        return None


def _mean_square(value: SSAValue) -> tuple[SSAValue, float] | None:
    """``x`` and ``eps`` of ``mean(x ** 2, -1, keepdim=True) + eps``."""
    match value.owner:
        case edge.aten.add.Scalar(other=eps, alpha=1) as total if isinstance(eps, (int, float)):
            mean = total.self_.owner
        case _:
            return None
    if not isinstance(mean, edge.aten.mean.dim) or not mean.keepdim or mean.arg("dtype") is not None:
        return None
    square = mean.self_.owner
    match square:
        case edge.aten.pow.Tensor_Scalar(exponent=2):
            x = square.self_
        case edge.aten.mul.Tensor() if square.self_ == square.other:
            x = square.self_
        case _:
            return None
    rank = len(dims_of(tensor_of(x)))
    if rank == 0 or list(mean.dim or ()) not in ([-1], [rank - 1]):
        return None
    return x, float(eps)


def _weighted(value: SSAValue) -> tuple[edge.aten.mul.Tensor, SSAValue] | None:
    """The product of a norm, which has no other use, with a vector of the last dim; and the vector."""
    if not value.has_one_use():
        return None
    op = next(iter(value.uses)).operation
    if not isinstance(op, edge.aten.mul.Tensor) or op.result.type != value.type:
        return None
    weight = op.other if op.self_ == value else op.self_
    type = tensor_of(weight)
    same = dims_of(type) == dims_of(tensor_of(value))[-1:]
    return (op, weight) if same and isinstance(type.element_type, Float32Type) else None
