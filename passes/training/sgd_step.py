"""`sgd-step`: let a joint graph of forward and backward update its parameters itself.

Before::

    %w = et.read_state @w : tensor<2x3xf32>
    ...
    func.return %loss, %gradient, %w : ...          {et.training = {gradients = 1, parameters = 2, states = {w = "w"}}}

After, with ``lr=0.1``::

    %new = aten.add.Tensor(%w, %gradient, alpha = -0.1) : ...
    et.write_state @w, %new : tensor<2x3xf32>
    func.return %loss : ...

Stochastic gradient descent as ``torch.optim.SGD`` computes it, with momentum, dampening, weight decay and Nesterov's
momentum. A step is then one call, the gradients need no place among the outputs, and each one dies as soon as it is
used. The momentum of each parameter is a state of its own, ``NAME.momentum``. In the first step the momentum is the
whole gradient, later the gradient is dampened: the factor is a state as well, which the first step changes. Without
``lr`` the method takes the learning rate as a further input, a float32 without dims, by the keyword ``lr``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.et.program import ConstantOp
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.training.training_step import TrainingStep, append_steps, check_not_negative, scalar


@register_pass
@dataclass(frozen=True)
class SgdStepPass(Pass):
    """Append a step of stochastic gradient descent to joint graphs.

    ``lr`` is the learning rate; without it the method takes it as an input. The others are those of
    ``torch.optim.SGD``; ``nesterov`` needs momentum and no dampening.
    """

    name = "sgd-step"
    lr: float | None = None
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_not_negative(self, "lr", "momentum", "weight_decay")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError("nesterov needs a momentum and no dampening")

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises error E0521 when no method is a joint graph."""
        append_steps(module, lambda module, method: _Step(self, module, method))


class _Step(TrainingStep):
    def __init__(self, options: SgdStepPass, module: ModuleOp, method: FuncOp):
        super().__init__(module, method, options.lr)
        self.options = options
        self.factor: SSAValue | None = None
        """What the gradient is multiplied with when it is added to the momentum: one at first."""

    def begin(self) -> None:
        if self.options.momentum and self.options.dampening:
            self.factor = self.scalar("factor", 1.0)
            assert isinstance(self.factor.owner, Operation)
            later = ConstantOp(scalar(1.0 - self.options.dampening))
            later.location = self.factor.owner.location
            self.insert(later)
            self.write(self.factor, later.result)

    def updated(self, fqn: str, symbol: str, parameter: SSAValue, gradient: SSAValue) -> SSAValue:
        options, step = self.options, gradient
        if options.weight_decay:
            step = self.add(gradient, parameter, options.weight_decay, parameter, gradient)
        if options.momentum:
            old = self.zeros(fqn, symbol, "momentum", parameter)
            fresh = step
            if self.factor is not None:
                fresh = self.op(aten.mul.Tensor, {"self": step, "other": self.factor}, parameter, gradient)
            kept = self.op(aten.mul.Scalar, {"self": old, "other": options.momentum}, parameter, gradient)
            momentum = self.add(kept, fresh, 1, parameter, gradient)
            self.write(old, momentum)
            step = self.add(step, momentum, options.momentum, parameter, gradient) if options.nesterov else momentum
        if self.lr is not None:
            return self.add(parameter, step, -self.lr, parameter, gradient)
        assert self.rate is not None
        scaled = self.op(aten.mul.Tensor, {"self": step, "other": self.rate}, parameter, gradient)
        return self.op(aten.sub.Tensor, {"self": parameter, "other": scaled}, parameter, gradient)
