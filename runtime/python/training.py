"""Training on the device: a joint graph of forward and backward, and an optimizer of the host's.

    module = TrainingModule(program)              # compiled from a joint graph with state_methods=True
    optimizer = SGD(module, lr=0.1, momentum=0.9)
    for x, label in data:
        loss, *_ = module.forward_backward(x, label)
        optimizer.step()

``Adam`` and ``AdamW`` are the other optimizers. Parameters are state of the program. A program that was compiled with
``optimizer="sgd{...}"`` does the step itself and needs nothing of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etir.runtime.errors import E1213, one_frame, usage_failure
from etir.runtime.state import Methods, State

GRADIENTS = "__et_training_gradients_index_"
PARAMETERS = "__et_training_parameters_index_"
NAMES = "__et_training_fqn_"


class TrainingModule:
    """A method that returns the loss, and the gradients that belong to it."""

    @one_frame
    def __init__(self, program: Methods, method: str = "forward"):
        """Raises RuntimeFailure (E1213) when ``method`` has no gradients, or no methods for the state are there."""
        if NAMES + method not in program.methods:
            raise usage_failure(
                E1213,
                f"method '{method}' returns no gradients",
                help="compile a joint graph (torch.export.experimental._export_forward_backward), without optimizer=",
            )
        self._method = program[method]
        self._state = State(program)
        self._names: tuple[str, ...] = tuple(program[NAMES + method]())
        self._first = int(program[GRADIENTS + method]()[0])
        self._end = int(program[PARAMETERS + method]()[0])
        self._gradients: dict[str, Any] | None = None

    @one_frame
    def forward_backward(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Execute: what the user's program returns, flat. The gradients are kept until the next call."""
        outputs = self._method(*args, **kwargs)
        self._gradients = dict(zip(self._names, outputs[self._first : self._end], strict=False))
        return outputs[: self._first]

    def named_gradients(self) -> dict[str, Any]:
        """The gradients of the last call by the names of their parameters. Raises RuntimeFailure (E1213) before one."""
        if self._gradients is None:
            raise usage_failure(E1213, "there are no gradients yet", help="call forward_backward first")
        return self._gradients

    def named_parameters(self) -> dict[str, Any]:
        """What the parameters are now: copies, torch tensors where the gradients are some, NumPy arrays otherwise."""
        state = self._state.read(torch=any(hasattr(g, "numpy") for g in (self._gradients or {}).values()))
        return {name: state[name] for name in self._names}

    def write_parameters(self, values: Mapping[str, Any]) -> None:
        """Change parameters, or other state, by name; see :meth:`etir.runtime.State.write`."""
        self._state.write(values)


class SGD:
    """Stochastic gradient descent as ``torch.optim.SGD`` computes it, on the host, in NumPy or torch arithmetic."""

    def __init__(
        self,
        module: TrainingModule,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        if nesterov and (momentum == 0 or dampening != 0):
            raise usage_failure(E1213, "nesterov needs a momentum and no dampening")
        self._module = module
        self.lr = lr
        """The learning rate, which may be changed between steps."""
        self._momentum = momentum
        self._dampening = dampening
        self._weight_decay = weight_decay
        self._nesterov = nesterov
        self._buffers: dict[str, Any] = {}

    def step(self) -> None:
        """Change the parameters by the gradients of the last call."""
        parameters = self._module.named_parameters()
        changed: dict[str, Any] = {}
        for name, gradient in self._module.named_gradients().items():
            parameter, step = parameters[name], gradient
            if self._weight_decay:
                step = step + self._weight_decay * parameter
            if self._momentum:
                old = self._buffers.get(name)
                new = step if old is None else self._momentum * old + (1 - self._dampening) * step
                self._buffers[name] = new
                step = step + self._momentum * new if self._nesterov else new
            changed[name] = parameter - self.lr * step
        self._module.write_parameters(changed)


class Adam:
    """Adam as ``torch.optim.Adam`` computes it, on the host, in NumPy or torch arithmetic."""

    _decoupled = False

    def __init__(
        self,
        module: TrainingModule,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ):
        for beta in betas:
            if not 0 <= beta < 1:
                raise usage_failure(E1213, f"betas are {betas}; they are at least 0 and less than 1")
        self._module = module
        self.lr = lr
        """The learning rate, which may be changed between steps."""
        self._betas = betas
        self._eps = eps
        self._weight_decay = weight_decay
        self._amsgrad = amsgrad
        self._steps = 0
        self._moments: dict[str, tuple[Any, Any, Any]] = {}

    def step(self) -> None:
        """Change the parameters by the gradients of the last call."""
        parameters = self._module.named_parameters()
        gradients = self._module.named_gradients()
        self._steps += 1
        beta, beta2 = self._betas
        correction, correction2 = 1 - beta**self._steps, 1 - beta2**self._steps
        changed: dict[str, Any] = {}
        for name, gradient in gradients.items():
            parameter = parameters[name]
            if self._weight_decay and self._decoupled:
                parameter = parameter * (1 - self.lr * self._weight_decay)
            elif self._weight_decay:
                gradient = gradient + self._weight_decay * parameter
            first, second, largest = self._moments.get(name, (0.0, 0.0, 0.0))
            first = beta * first + (1 - beta) * gradient
            second = beta2 * second + (1 - beta2) * gradient * gradient
            largest = second * (second >= largest) + largest * (second < largest) if self._amsgrad else second
            self._moments[name] = (first, second, largest)
            root = largest**0.5 / correction2**0.5
            changed[name] = parameter - self.lr / correction * first / (root + self._eps)
        self._module.write_parameters(changed)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient, as ``torch.optim.AdamW`` computes it."""

    _decoupled = True

    def __init__(
        self,
        module: TrainingModule,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ):
        super().__init__(module, lr, betas, eps, weight_decay, amsgrad)
