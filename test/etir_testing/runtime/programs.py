"""Programs written by hand, value by value and instruction by instruction, valid or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model, writer
from etir.emit.pte.model import AllocationDetails, Bool, Int, KernelCall, Operator, Tensor, TensorShapeDynamism

STATIC, BOUND, UNBOUND = TensorShapeDynamism


class Builder:
    """Collects the values, operators and instructions of one method. Planned tensors go one after the other."""

    def __init__(self, name: str = "forward") -> None:
        self.name = name
        self.values: list[Any] = []
        self.operators: list[str] = []
        self.instructions: list[Any] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.delegates: list[model.BackendDelegate] = []
        self.sizes = [0, 0]
        self.constants: list[bytes] = [b""]
        self.mutable: list[bytes] = []

    def value(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def int(self, value: int) -> int:
        return self.value(Int(value))

    def tensor(
        self,
        *sizes: int,
        dtype: str = "FLOAT",
        order: tuple[int, ...] | None = None,
        planned: bool = True,
        memory: int = 1,
        dynamism: TensorShapeDynamism = STATIC,
        constant: bytes | None = None,
        initial: bytes | None = None,
        **other: Any,
    ) -> int:
        order = tuple(range(len(sizes))) if order is None else order
        made = Tensor(ScalarType[dtype], sizes, order, shape_dynamism=dynamism, **other)
        place, index = None, 0
        if constant is not None:
            self.constants.append(constant)
            index = len(self.constants) - 1
        elif planned:
            while len(self.sizes) <= memory:
                self.sizes.append(0)
            place = AllocationDetails(memory, self.sizes[memory])
            self.sizes[memory] += (made.nbytes + 15) // 16 * 16
        if initial is not None:
            self.mutable = self.mutable or [b""]
            self.mutable.append(initial)
            index = len(self.mutable) - 1
        return self.value(replace(made, allocation_info=place, data_buffer_idx=index))

    def input(self, index: int) -> int:
        self.inputs.append(index)
        return index

    def call(self, name: str, *args: int) -> None:
        if name not in self.operators:
            self.operators.append(name)
        self.instructions.append(KernelCall(self.operators.index(name), tuple(args)))

    def clone(self, source: int, target: int) -> None:
        self.call("aten::clone.out", source, self.none(), target, target)

    def none(self) -> int:
        return self.value(model.Null())

    def false(self) -> int:
        return self.value(Bool(False))

    def plan(self) -> model.ExecutionPlan:
        operators = [name.partition(".") for name in self.operators]
        return model.ExecutionPlan(
            self.name, tuple(self.values), tuple(self.inputs), tuple(self.outputs),
            (model.Chain(tuple(self.instructions)),), tuple(Operator(a, c) for a, _, c in operators),
            tuple(self.delegates), tuple(self.sizes),
        )  # fmt: skip

    def pte(self, *others: Builder, check: bool = True, **options: Any) -> bytes:
        program = model.Program(
            tuple(b.plan() for b in (self, *others)), tuple(self.constants), tuple(self.mutable), **options
        )
        if check:
            return writer.write_pte(program)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "validate_program", lambda *_, **__: [])
            patch.setattr(writer, "raise_if_errors", lambda *_: None)
            return writer.write_pte(program)


def chain(length: int) -> bytes:
    """``length`` times ``aten::add.out``, each on the result of the one before, with 2 * length + 1 values."""
    b = Builder()
    x = b.tensor(4, memory=1)
    b.input(x)
    for _ in range(length):
        one = b.int(1)
        y = b.tensor(4)
        b.call("aten::add.out", x, x, one, y, y)
        x = y
    b.outputs.append(x)
    return b.pte(check=False)


def number_chain(length: int) -> bytes:
    """``length`` additions of numbers, each on the result of the one before: kernels that do next to nothing."""
    b = Builder()
    x, one = b.int(0), b.int(1)
    for _ in range(length):
        y = b.int(0)
        b.call("executorch_prim::add.Scalar", x, one, y)
        x = y
    b.outputs.append(x)
    return b.pte()
