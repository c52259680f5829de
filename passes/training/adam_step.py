"""`adam-step`: let a joint graph of forward and backward update its parameters itself, by Adam.

Before::

    %w = et.read_state @w : tensor<2x3xf32>
    ...
    func.return %loss, %gradient, %w : ...          {et.training = {gradients = 1, parameters = 2, states = {w = "w"}}}

After, with the first moment ``m``, the second moment ``v``, and the pass's ``beta1`` and ``beta2`` as ``b1``, ``b2``::

    %step = @forward.step + 1
    %m = b1 * @w.exp_avg + (1 - b1) * %gradient
    %v = b2 * @w.exp_avg_sq + (1 - b2) * %gradient * %gradient
    %new = %w - lr / (1 - b1 ** %step) * %m / (sqrt(%v) / sqrt(1 - b2 ** %step) + eps)
    et.write_state @w, %new : tensor<2x3xf32>
    func.return %loss : ...

Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), as ``torch.optim.Adam`` computes it. The states have
the names that torch gives them. The corrections of the moments are ``-expm1(step * log(beta))``, which loses no digit
in float32 where ``beta ** step`` is close to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.training.training_step import TrainingStep, append_steps, check_not_negative


@register_pass
@dataclass(frozen=True)
class AdamStepPass(Pass):
    """Append a step of Adam to joint graphs.

    ``lr`` is the learning rate; without it the method takes it as an input. ``beta1`` and ``beta2`` are the two numbers
    of ``betas`` of ``torch.optim.Adam``; the others are named as there.
    """

    name = "adam-step"
    decoupled: ClassVar[bool] = False
    """Whether the weight decay is apart from the gradient, as in AdamW."""
    lr: float | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False

    def __post_init__(self) -> None:
        check_not_negative(self, "lr", "eps", "weight_decay")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least 0 and less than 1")

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises error E0521 when no method is a joint graph."""
        append_steps(module, lambda module, method: _Step(self, module, method))


class _Step(TrainingStep):
    scale: SSAValue
    """The learning rate over the correction of the first moment, negated."""
    second: SSAValue | None
    """The square root of the correction of the second moment; None for one."""
    kept: SSAValue | None
    """What a parameter is multiplied with first, when the learning rate is an input."""

    def __init__(self, options: AdamStepPass, module: ModuleOp, method: FuncOp):
        super().__init__(module, method, options.lr)
        self.options = options

    def begin(self) -> None:
        options, old = self.options, self.scalar("step", 0.0)
        step = self.op(aten.add.Scalar, {"self": old, "other": 1}, old)
        self.write(old, step)
        first, second = (self._correction(step, beta) for beta in (options.beta1, options.beta2))
        if self.rate is not None:
            self.scale = self.op(aten.neg.default, {"self": self.rate}, old)
            if first is not None:
                self.scale = self.op(aten.div.Tensor, {"self": self.rate, "other": first}, old)
        elif first is not None:
            inverse = self.op(aten.reciprocal.default, {"self": first}, old)
            self.scale = self.op(aten.mul.Scalar, {"self": inverse, "other": self.lr}, old)
        else:
            self.scale = self.op(aten.full_like.default, {"self": old, "fill_value": -(self.lr or 0.0)}, old)
        self.second = None
        if second is not None:
            positive = self.op(aten.neg.default, {"self": second}, old)
            self.second = self.op(aten.sqrt.default, {"self": positive}, old)
        self.kept = None
        if self.rate is not None and options.decoupled and options.weight_decay:
            one = self.op(aten.ones_like.default, {"self": old}, old)
            self.kept = self.add(one, self.rate, -options.weight_decay, old, old)

    def _correction(self, step: SSAValue, beta: float) -> SSAValue | None:
        """``beta ** step - 1``; None for -1."""
        if beta == 0:
            return None
        exponent = self.op(aten.mul.Scalar, {"self": step, "other": math.log(beta)}, step)
        return self.op(aten.expm1.default, {"self": exponent}, step)

    def updated(self, fqn: str, symbol: str, parameter: SSAValue, gradient: SSAValue) -> SSAValue:
        options = self.options

        def op(operator: type[AtenOp], value: SSAValue, **others: SSAValue | float) -> SSAValue:
            return self.op(operator, {"self": value, **others}, parameter, gradient)

        def moment(kind: str, beta: float, value: SSAValue) -> SSAValue:
            old = self.zeros(fqn, symbol, kind, parameter)
            new = self.add(op(aten.mul.Scalar, old, other=beta), value, 1 - beta, parameter, gradient)
            self.write(old, new)
            return new

        if options.weight_decay and not options.decoupled:
            gradient = self.add(gradient, parameter, options.weight_decay, parameter, gradient)
        elif self.kept is not None:
            parameter = op(aten.mul.Tensor, parameter, other=self.kept)
        elif options.weight_decay and options.decoupled:
            assert self.lr is not None
            parameter = op(aten.mul.Scalar, parameter, other=1 - self.lr * options.weight_decay)
        first = moment("exp_avg", options.beta1, gradient)
        second = moment("exp_avg_sq", options.beta2, op(aten.mul.Tensor, gradient, other=gradient))
        if options.amsgrad:
            old = self.zeros(fqn, symbol, "max_exp_avg_sq", parameter)
            second = op(aten.maximum.default, old, other=second)
            self.write(old, second)
        root = op(aten.sqrt.default, second)
        if self.second is not None:
            root = op(aten.div.Tensor, root, other=self.second)
        direction = op(aten.div.Tensor, first, other=op(aten.add.Scalar, root, other=options.eps))
        return op(aten.add.Tensor, parameter, other=op(aten.mul.Tensor, direction, other=self.scale))
