"""What the passes that append an optimizer's step to joint graphs of forward and backward share.

The values of the step are computed after the backward part, new parameters are written to their states, and gradients
and parameters are no outputs any more. What the optimizer remembers are states of their own, ``NAME.momentum`` of
parameter ``NAME``. Without a learning rate the method takes one as a further input.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import ArgValue
from etir.passes.analysis.memory_effects import tensor_bytes
from etir.passes.errors import E0521
from etir.passes.infra.base import methods

_QUESTIONS = ("__et_training_gradients_index_", "__et_training_parameters_index_", "__et_training_fqn_")
"""Methods that tell a training module about gradients and parameters, which are no outputs any more."""

RATE = "lr"
"""The keyword of the learning rate among the inputs of a method."""


def append_steps(module: ModuleOp, step: Callable[[ModuleOp, FuncOp], TrainingStep]) -> None:
    """Append what ``step`` makes to every joint graph. Raises error E0521 when no method is one."""
    joint = [method for method in methods(module) if "et.training" in method.attributes]
    if not joint:
        raise E0521.error("no method of the program returns gradients")
    for method in joint:
        step(module, method).run()
    questions = {prefix + method.sym_name.data for method in joint for prefix in _QUESTIONS}
    for method in methods(module):
        if method.sym_name.data in questions:
            Rewriter.erase_op(method)


def check_not_negative(options: object, *names: str) -> None:
    """Raises ``ValueError`` for an option of a pass that is negative."""
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 0:
            raise ValueError(f"{name.replace('_', '-')} is {value}; it cannot be negative")


class TrainingStep(ABC):
    """The step of one method; ``lr`` is the learning rate, None for one that is an input."""

    def __init__(self, module: ModuleOp, method: FuncOp, lr: float | None):
        self.module = module
        self.method = method
        self.lr = lr
        self.rate: SSAValue | None = None
        """The learning rate that is an input."""
        training = cast(DictionaryAttr, method.attributes["et.training"]).data
        self.gradients = cast("IntegerAttr[Any]", training["gradients"]).value.data
        self.parameters = cast("IntegerAttr[Any]", training["parameters"]).value.data
        states = cast(DictionaryAttr, training["states"]).data
        self.states = {fqn: cast(StringAttr, symbol).data for fqn, symbol in states.items()}
        self.taken = {
            name.data
            for op in module.body.block.ops
            if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }  # fmt: skip
        last = method.body.block.last_op
        assert isinstance(last, FuncReturnOp)
        self.last = last

    @abstractmethod
    def begin(self) -> None:
        """Compute what all parameters share."""

    @abstractmethod
    def updated(self, fqn: str, symbol: str, parameter: SSAValue, gradient: SSAValue) -> SSAValue:
        """The parameter after the step."""

    def run(self) -> None:
        """Append the step, and take gradients and parameters from the outputs."""
        self.rate = self._rate_input() if self.lr is None else None
        self.begin()
        values = list(self.last.operands)
        updates: list[Operation] = []
        for position, (fqn, symbol) in enumerate(self.states.items()):
            gradient, parameter = values[self.gradients + position], values[self.parameters + position]
            updates.append(WriteStateOp(symbol, self.updated(fqn, symbol, parameter, gradient)))
            updates[-1].location = NameLoc(StringAttr(fqn), _plain_location(gradient))
        for op in updates:
            self.insert(op)
        self._drop_outputs()

    # --- operations -------------------------------------------------------------------------------------------------

    def insert(self, op: Operation) -> None:
        """Append an operation."""
        self.method.body.block.insert_op_before(op, self.last)

    def op(
        self, operator: type[AtenOp], arguments: dict[str, ArgValue], like: SSAValue, source: SSAValue | None = None
    ) -> SSAValue:
        """Append an operator with a result of the type of ``like``, located where ``source`` is computed."""
        op = operator.make(arguments, [like.type], location=_plain_location(like if source is None else source))
        self.insert(op)
        return op.result

    def add(self, a: SSAValue, b: SSAValue, scale: float, like: SSAValue, source: SSAValue) -> SSAValue:
        """``a + scale * b``."""
        return self.op(aten.add.Tensor, {"self": a, "other": b, "alpha": scale}, like, source)

    # --- state ------------------------------------------------------------------------------------------------------

    def zeros(self, fqn: str, symbol: str, kind: str, parameter: SSAValue) -> SSAValue:
        """A state ``kind`` of one parameter, like it and zero at first: what it holds before the step."""
        type = cast("TensorType[Attribute]", parameter.type)
        return self.new_state(f"{symbol}.{kind}", f"{fqn}.{kind}", type, bytes(tensor_bytes(type)))

    def scalar(self, kind: str, value: float) -> SSAValue:
        """A state ``kind`` of the method, one float32: what it holds before the step."""
        name = f"{self.method.sym_name.data}.{kind}"
        return self.new_state(name, name, tensor_type(f32, []), scalar(value).data.data)

    def write(self, old: SSAValue, new: SSAValue) -> None:
        """Store what a state, read as ``old``, holds after the step."""
        assert isinstance(old.owner, ReadStateOp)
        write = WriteStateOp(old.owner.symbol.root_reference.data, new)
        write.location = old.owner.location
        self.insert(write)

    def new_state(self, wanted: str, fqn: str, type: TensorType[Attribute], data: bytes) -> SSAValue:
        """A state with initial bytes: what it holds before the step."""
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        attributes: dict[str, Attribute] = {"fqn": StringAttr(fqn), "kind": StringAttr("buffer")}
        state = StateOp(name, type, BlobAttr(Blob.of(memoryview(data))), attributes)
        state.location = NameLoc(StringAttr(fqn), UnknownLoc())
        self.module.body.block.insert_op_before(state, next(iter(methods(self.module))))
        read = ReadStateOp(name, type)
        read.location = state.location
        block = self.method.body.block
        assert block.first_op is not None
        block.insert_op_before(read, block.first_op)
        return read.result

    # --- signature --------------------------------------------------------------------------------------------------

    def _rate_input(self) -> SSAValue:
        """The learning rate as the last input, a keyword."""
        method, block = self.method, self.method.body.block
        argument = block.insert_arg(tensor_type(f32, []), len(block.args), NameLoc(StringAttr(RATE), UnknownLoc()))
        argument.name_hint = RATE
        if method.arg_attrs is not None:
            method.properties["arg_attrs"] = ArrayAttr([*method.arg_attrs, DictionaryAttr({})])
        names = method.attributes.get("et.input_names")
        if isinstance(names, ArrayAttr):
            method.attributes["et.input_names"] = ArrayAttr([*names.data, StringAttr(RATE)])
        spec = method.attributes.get("et.in_spec")
        if isinstance(spec, StringAttr) and spec.data:
            method.attributes["et.in_spec"] = StringAttr(_with_keyword(spec.data, RATE))
        return argument

    def _drop_outputs(self) -> None:
        method = self.method
        kept = list(self.last.operands)[: self.gradients]
        last = FuncReturnOp(*kept)
        last.location = self.last.location
        Rewriter.replace_op(self.last, last)
        inputs = [argument.type for argument in method.body.block.args]
        method.function_type = FunctionType.from_lists(inputs, [value.type for value in kept])
        names = method.attributes.get("et.output_names")
        if isinstance(names, ArrayAttr):
            method.attributes["et.output_names"] = ArrayAttr(names.data[: self.gradients])
        del method.attributes["et.training"]


def _plain_location(value: SSAValue) -> Any:
    return value.owner.location if isinstance(value.owner, Operation) else UnknownLoc()


def scalar(value: float) -> DenseIntOrFPElementsAttr:
    """A float32 without dims."""
    return DenseIntOrFPElementsAttr.from_list(tensor_type(f32, []), [value])  # type: ignore[arg-type]


def _with_keyword(spec: str, name: str) -> str:
    """A pytree of arguments, as JSON, with one more keyword argument at the end."""
    protocol, root = json.loads(spec)
    keywords = root["children_spec"][1]
    keywords["context"] = json.dumps([*json.loads(keywords["context"]), name])
    keywords["children_spec"].append({"type": None, "context": None, "children_spec": []})
    return json.dumps([protocol, root])
