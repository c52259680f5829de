"""What a program requires, as instructions: the sizes of inputs at the start of a method, assertions where they stand.

``dialects/sym/requirements.py`` has the rules. Two forms, by what the target's runtime has:

* ``kernel``: ``et.call "etir::check_size"(%x, 1, 8, 8, 1, "dim 1 of input 'x' is 8")``, one instruction for a dim, and
  ``etir::check_number`` for an input that is a number: that it stands there tells the runtime that the number may vary.
  It compares a few numbers; its text is read only when it fails.
* ``jump``: primitive operators compute whether the rule holds, and ``et.jump_false`` goes to a block on the end of the
  method, whose one instruction adds two bools, which runtimes refuse. Nothing follows that block, so that no value is
  alive in it and the memory plan is what it was.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.et.instructions import CallOp, JumpFalseOp, JumpOp
from etir.dialects.et.values import ScalarOp
from etir.dialects.signatures import requirements_of
from etir.dialects.sym.atoms import Kind
from etir.dialects.sym.ops import AssertOp
from etir.dialects.sym.requirements import GREATEST, LARGEST, SMALLEST, Size, SizeRule
from etir.lowering.build.sizes import evaluate_dim
from etir.lowering.to_out_variant.calls import PRIMITIVES, ArgumentList, primitive_call

if TYPE_CHECKING:
    from etir.lowering.to_out_variant.method import MethodLowering

Form: TypeAlias = Literal["none", "kernel", "jump"]
"""How requirements are checked."""


class InputChecks:
    """Emits the checks of one method in one form."""

    def __init__(self, lowering: MethodLowering, form: Form):
        self.lowering = lowering
        self.form = form
        self.failed: Block | None = None
        self.symbols: dict[str, SSAValue] = {}

    def sizes(self) -> None:
        """Check the sizes of the inputs: the first instructions after the inputs are set."""
        if self.form == "none":
            return
        func = self.lowering.func
        self.required = requirements_of(func, self.lowering.ranges)
        for rule in (rule for rule in self.required.rules if not rule.counted):
            given = self.lowering.inputs[func.body.block.args[rule.input]]
            low = self._number(rule.low)
            high = low if rule.high == rule.low else self._number(rule.high)
            if self.form == "kernel" and rule.number:
                self._call("etir::check_number", (given, low, high, rule.step, rule.text))
            elif self.form == "kernel":
                self._call("etir::check_size", (given, rule.dim, low, high, rule.step, rule.text))
            else:
                self._compare(rule, given if rule.number else self._size(given, rule.dim), low, high)

    def assertion(self, op: AssertOp) -> None:
        """Check a number of the program."""
        if self.form == "none":
            return
        condition = self.lowering.literal_or_value(op.condition)
        if condition is True:
            return
        if not isinstance(condition, SSAValue):
            condition = self.lowering.scalar(op.condition, False)
        if self.form == "kernel":
            self._call("etir::check", (condition, op.message.data), op)
        else:
            self._jump(condition, op)

    def finish(self, op: Operation) -> None:
        """Append the block that checks jump to; what follows goes into a block of its own."""
        if self.failed is None:
            return
        end = Block()
        self.lowering.emit(JumpOp(end), op)
        self.lowering.blocks.append(self.failed)
        self.lowering.emit(self._arithmetic_call("sym.add", True, True, self._slot()), op)
        self.lowering.emit(JumpOp(self.failed), op)
        self.lowering.blocks.append(end)

    # --- sizes as numbers ---------------------------------------------------------------------------------------------

    def _number(self, size: Size) -> Any:
        """An int, or the value that holds an expression's number at run time."""
        number = evaluate_dim(size, self._symbol, _OPERATORS)
        return number.value if isinstance(number, _Number) else number

    def _symbol(self, name: str) -> _Number:
        value = self.symbols.get(name)
        if value is None:
            source = self.required.sources[name]
            given = self.lowering.inputs[self.lowering.func.body.block.args[source.input]]
            size = self._size(given, source.dim) if isinstance(given.type, TensorType) else given
            number = _Number(self, size) - source.offset
            value = self.symbols[name] = (number // source.factor).value
        return _Number(self, value)

    def _size(self, tensor: SSAValue, dim: int) -> SSAValue:
        result = self._slot()
        self.lowering.emit(primitive_call("aten::sym_size.int", [tensor, dim], result), self.lowering.func)
        return result

    def compute(self, name: str, a: Any, b: Any, slot: bool | int = 0) -> SSAValue:
        """Emit ``sym.<name>`` of two numbers."""
        result = self._slot(slot)
        self.lowering.emit(self._arithmetic_call(f"sym.{name}", a, b, result), self.lowering.func)
        return result

    def _arithmetic_call(self, name: str, a: Any, b: Any, result: SSAValue) -> CallOp:
        return primitive_call(PRIMITIVES[name], [a, b], result)

    def _slot(self, value: bool | int = 0) -> SSAValue:
        return self.lowering.define(ScalarOp(value), self.lowering.func)

    # --- instructions -------------------------------------------------------------------------------------------------

    def _call(self, kernel: str, arguments: tuple[object, ...], source: Operation | None = None) -> None:
        call = ArgumentList.empty()
        for argument in arguments:
            call.add(argument)
        self.lowering.emit(call.call(kernel, None, ()), source or self.lowering.func)

    def _compare(self, rule: SizeRule, size: SSAValue, low: Any, high: Any) -> None:
        if rule.low == rule.high:
            self._jump(self.compute("eq", size, low, False))
            return
        if rule.low not in (0, SMALLEST):
            self._jump(self.compute("ge", size, low, False))
        if rule.high not in (LARGEST, GREATEST):
            self._jump(self.compute("le", size, high, False))
        if rule.step != 1:
            distance = self.compute("sub", size, low)
            rest = self.compute("mod", distance, rule.step)
            self._jump(self.compute("eq", rest, 0, False))

    def _jump(self, condition: SSAValue, source: Operation | None = None) -> None:
        if self.failed is None:
            self.failed = Block()
        following = Block()
        self.lowering.emit(JumpFalseOp(condition, self.failed, following), source or self.lowering.func)
        self.lowering.blocks.append(following)


class _Number:
    """A number at run time, with the arithmetic of sizes."""

    def __init__(self, checks: InputChecks, value: Any):
        self.checks = checks
        self.value = value

    def _with(self, name: str, other: Any, neutral: int | None) -> _Number:
        if other is neutral or (isinstance(other, int) and other == neutral):
            return self
        operand = other.value if isinstance(other, _Number) else other
        return _Number(self.checks, self.checks.compute(name, self.value, operand))

    def __add__(self, other: Any) -> _Number:
        return self._with("add", other, 0)

    def __sub__(self, other: Any) -> _Number:
        return self._with("sub", other, 0)

    def __mul__(self, other: Any) -> _Number:
        return self._with("mul", other, 1)

    def __floordiv__(self, other: Any) -> _Number:
        return self._with("floordiv", other, 1)

    def __mod__(self, other: Any) -> _Number:
        return self._with("mod", other, None)

    def __rfloordiv__(self, other: int) -> _Number:
        return _Number(self.checks, self.checks.compute("floordiv", other, self.value))

    def __rmod__(self, other: int) -> _Number:
        return _Number(self.checks, self.checks.compute("mod", other, self.value))

    __radd__ = __add__
    __rmul__ = __mul__


def _extremum(name: str) -> Any:
    def combine(a: Any, b: Any) -> Any:
        if isinstance(a, _Number):
            return a._with(name, b, None)
        if isinstance(b, _Number):
            return b._with(name, a, None)
        return min(a, b) if name == "min" else max(a, b)

    return combine


_OPERATORS = {
    Kind.FLOORDIV: operator.floordiv,
    Kind.MOD: operator.mod,
    Kind.MIN: _extremum("min"),
    Kind.MAX: _extremum("max"),
}
"""What the operators of expressions are on numbers at run time."""
