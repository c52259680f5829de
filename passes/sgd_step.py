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

import json
from dataclasses import dataclass
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

from etir.dialects.aten.base import aten_op
from etir.dialects.context import EtContext
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import ConstantOp, ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import ArgValue
from etir.passes.base import Pass, methods
from etir.passes.errors import E0521
from etir.passes.memory_effects import tensor_bytes

_QUESTIONS = ("__et_training_gradients_index_", "__et_training_parameters_index_", "__et_training_fqn_")
"""Methods that tell a training module about gradients and parameters, which are no outputs any more."""

RATE = "lr"
"""The keyword of the learning rate among the inputs of a method."""


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
        for option in ("lr", "momentum", "weight_decay"):
            value = getattr(self, option)
            if value is not None and value < 0:
                raise ValueError(f"{option.replace('_', '-')} is {value}; it cannot be negative")
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError("nesterov needs a momentum and no dampening")

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises error E0521 when no method is a joint graph."""
        joint = [method for method in methods(module) if "et.training" in method.attributes]
        if not joint:
            raise E0521.error("no method of the program returns gradients")
        for method in joint:
            _Step(self, module, method).run()
        questions = {prefix + method.sym_name.data for method in joint for prefix in _QUESTIONS}
        for method in methods(module):
            if method.sym_name.data in questions:
                Rewriter.erase_op(method)


class _Step:
    """Rewrites one method."""

    def __init__(self, options: SgdStepPass, module: ModuleOp, method: FuncOp):
        self.options = options
        self.module = module
        self.method = method
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

    def run(self) -> None:
        """Append the step, and take gradients and parameters from the outputs."""
        rate = self._rate_input() if self.options.lr is None else None
        factor = self._factor()
        values = list(self.last.operands)
        updates: list[Operation] = []
        for position, (fqn, symbol) in enumerate(self.states.items()):
            gradient, parameter = values[self.gradients + position], values[self.parameters + position]
            updates.append(WriteStateOp(symbol, self._updated(fqn, symbol, parameter, gradient, rate, factor)))
            updates[-1].location = NameLoc(StringAttr(fqn), _plain_location(gradient))
        for op in updates:
            self._insert(op)
        if factor is not None:
            later = ConstantOp(_number(1.0 - self.options.dampening))
            later.location = factor.owner.location  # type: ignore[union-attr]
            self._insert(later)
            assert isinstance(factor.owner, ReadStateOp)
            write = WriteStateOp(factor.owner.symbol.root_reference.data, later.result)
            write.location = factor.owner.location
            self._insert(write)
        self._drop_outputs()

    def _insert(self, op: Operation) -> None:
        block = self.method.body.block
        block.insert_op_before(op, self.last)

    def _op(self, name: str, arguments: dict[str, ArgValue], like: SSAValue, source: SSAValue) -> SSAValue:
        op = aten_op(name).make(arguments, [like.type], location=_plain_location(source))
        self._insert(op)
        return op.results[0]

    def _updated(
        self,
        fqn: str,
        symbol: str,
        parameter: SSAValue,
        gradient: SSAValue,
        rate: SSAValue | None,
        factor: SSAValue | None,
    ) -> SSAValue:
        """The parameter after the step."""
        options, step = self.options, gradient
        if options.weight_decay:
            step = self._add(gradient, parameter, options.weight_decay, parameter, gradient)
        if options.momentum:
            old = self._momentum(fqn, symbol, parameter)
            fresh = step
            if factor is not None:
                fresh = self._op("aten.mul.Tensor", {"self": step, "other": factor}, parameter, gradient)
            kept = self._op("aten.mul.Scalar", {"self": old, "other": options.momentum}, parameter, gradient)
            momentum = self._add(kept, fresh, 1, parameter, gradient)
            assert isinstance(old.owner, ReadStateOp)
            write = WriteStateOp(old.owner.symbol.root_reference.data, momentum)
            write.location = old.owner.location
            self._insert(write)
            step = self._add(step, momentum, options.momentum, parameter, gradient) if options.nesterov else momentum
        if rate is None:
            assert options.lr is not None
            return self._add(parameter, step, -options.lr, parameter, gradient)
        scaled = self._op("aten.mul.Tensor", {"self": step, "other": rate}, parameter, gradient)
        return self._op("aten.sub.Tensor", {"self": parameter, "other": scaled}, parameter, gradient)

    def _add(self, a: SSAValue, b: SSAValue, scale: float, like: SSAValue, source: SSAValue) -> SSAValue:
        return self._op("aten.add.Tensor", {"self": a, "other": b, "alpha": scale}, like, source)

    # --- state ------------------------------------------------------------------------------------------------------

    def _momentum(self, fqn: str, symbol: str, parameter: SSAValue) -> SSAValue:
        """The momentum of one parameter, a state that is zero at first."""
        type = cast("TensorType[Attribute]", parameter.type)
        return self._new_state(f"{symbol}.momentum", f"{fqn}.momentum", type, bytes(tensor_bytes(type)))

    def _factor(self) -> SSAValue | None:
        """What the gradient is multiplied with when it is added to the momentum: one at first."""
        if not self.options.momentum or not self.options.dampening:
            return None
        name = f"{self.method.sym_name.data}.factor"
        return self._new_state(name, name, tensor_type(f32, []), _number(1.0).data.data)

    def _new_state(self, wanted: str, fqn: str, type: TensorType[Attribute], data: bytes) -> SSAValue:
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


def _number(value: float) -> DenseIntOrFPElementsAttr:
    return DenseIntOrFPElementsAttr.from_list(tensor_type(f32, []), [value])  # type: ignore[arg-type]


def _with_keyword(spec: str, name: str) -> str:
    """A pytree of arguments, as JSON, with one more keyword argument at the end."""
    protocol, root = json.loads(spec)
    keywords = root["children_spec"][1]
    keywords["context"] = json.dumps([*json.loads(keywords["context"]), name])
    keywords["children_spec"].append({"type": None, "context": None, "children_spec": []})
    return json.dumps([protocol, root])
