"""Models that change tensors in place, and the comparison of their functional form with eager PyTorch.

Each model is exported, imported, functionalized and interpreted several times in a row, with its state kept in between;
outputs, changed inputs and buffers must be those of the eager module after every call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.dialects.et.program import StateOp
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.dialects.verify import verify_module
from etir.interpret.interpreter import Interpreter
from etir.lowering.functionalize import FunctionalizePass
from etir.lowering.import_fx import import_program

CALLS = 3


class Model(nn.Module):
    """A few buffers, and a forward that is given as a function of the module and the inputs."""

    def __init__(self, forward: Callable[..., Any], parts: dict[str, nn.Module] | None = None):
        super().__init__()
        self.register_buffer("cache", torch.arange(24.0).reshape(4, 6))
        self.register_buffer("row", torch.arange(6.0))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cube", torch.arange(24.0).reshape(2, 3, 4))
        self.weight = nn.Parameter(torch.linspace(-1, 1, 6))
        self.function = forward
        for name, part in (parts or {}).items():
            self.add_module(name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def export(model: nn.Module, inputs: Sequence[Any], dynamic: Any = None) -> ModuleOp:
    """The imported module of a model."""
    example = tuple(copy.deepcopy(list(inputs)))
    with torch.no_grad():
        shapes = None if dynamic is None else (dynamic,)
        return import_program(torch.export.export(copy.deepcopy(model), example, dynamic_shapes=shapes))


def functionalized(module: ModuleOp) -> ModuleOp:
    """Run the pass and check what it leaves."""
    FunctionalizePass().apply(EtContext(), module)
    verify_module(module, require_locations=True)
    for op in module.walk():
        assert not isinstance(op, SchemaOp) or op.SCHEMA.kind is SchemaKind.FUNCTIONAL, f"{op.name} is left"
    return module


def compare(model: nn.Module, module: ModuleOp, inputs: Sequence[Any], calls: int = CALLS) -> None:
    """Run both ``calls`` times with the state they keep; outputs, inputs and buffers must be equal."""
    eager = copy.deepcopy(model)
    interpreter = Interpreter(module, "torch")
    states = [op for op in module.body.block.ops if isinstance(op, StateOp)]
    for call in range(calls):
        ours, theirs = copy.deepcopy(list(inputs)), copy.deepcopy(list(inputs))
        with torch.no_grad():
            expected = pytree.tree_leaves(eager(*theirs))
        got = interpreter.run(pytree.tree_leaves(ours))
        assert len(got) == len(expected)
        for name, a, b in [
            *((f"output {i}", a, b) for i, (a, b) in enumerate(zip(got, expected, strict=True))),
            *((f"input {i}", a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True))),
            *((f"buffer {s.sym_name.data}", interpreter.state(s.sym_name.data), _buffer(eager, s)) for s in states),
        ]:
            if isinstance(b, Tensor):
                torch.testing.assert_close(a, b, msg=lambda text, name=name, call=call: f"call {call}, {name}: {text}")
            else:
                assert a == b, f"call {call}, {name}"
    unchanged = {name for name, _ in model.named_buffers()} - {s.attributes["fqn"].data for s in states}  # type: ignore[attr-defined]
    for name in sorted(unchanged):
        torch.testing.assert_close(eager.get_buffer(name), model.get_buffer(name), msg=f"buffer {name} is no state")


def _buffer(model: nn.Module, state: StateOp) -> Tensor:
    return model.state_dict()[state.attributes["fqn"].data]  # type: ignore[attr-defined]


def check(
    forward: Callable[..., Any], *inputs: Any, parts: dict[str, nn.Module] | None = None, dynamic: Any = None,
    others: Sequence[Sequence[Any]] = (), train: bool = False,
) -> ModuleOp:  # fmt: skip
    """Compare a model with its functional form; ``others`` are further inputs for the same program."""
    model = Model(forward, parts).train(train)
    module = functionalized(export(model, inputs, dynamic))
    for one in (inputs, *others):
        compare(model, module, one)
    return module


def values(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Distinct values of both signs."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float32) - count // 3).reshape(shape).to(dtype)


X = (values(4, 6),)
"""What most models take."""
