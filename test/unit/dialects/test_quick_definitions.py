"""Quick verifiers of operations accept and refuse what xDSL's own do, with the same words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValues
from xdsl.irdl import IRDLOperation, OpDef, get_accessors_from_op_def
from xdsl.utils.exceptions import VerifyException

import etir
from etir.dialects.quick_definitions import quicken
from etir.passes.infra.instrumentation import Instrument, PassRun, watching

from etir_testing.native.functions import functions_of


class Small(nn.Module):
    """Weights, state, views, a product of several operands, and what joins many."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.add_(1)
        y = torch.relu(self.conv(x)) + 1
        return torch.cat([y, y * self.seen], 1).softmax(1), self.linear(y.mean((2, 3))).topk(2)[0]


class _Seen(Instrument):
    """Two operations of each class and pass."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[Operation]] = {}

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        self.take(module.clone())

    def take(self, module: Operation) -> None:
        for op in module.walk():
            if isinstance(op, IRDLOperation) and len(found := self.found.setdefault(op.name, [])) < 2:
                found.append(op)


@pytest.fixture(scope="module")
def operations() -> list[Operation]:
    torch.manual_seed(0)
    seen = _Seen()
    with watching(seen):
        program = torch.export.export(Small().eval(), (torch.randn(1, 3, 8, 8),))
        etir.compile(program, target="etir", delegates=["native"])
    for tiled in functions_of(program):
        seen.take(tiled.func)
    return [op for found in seen.found.values() for op in found]


def _said(verify: object, op: Operation) -> str | None:
    assert callable(verify)
    try:
        verify(op)
    except VerifyException as error:
        return str(error)
    return None


def _spoiled(op: Operation) -> Iterator[tuple[str, Operation]]:
    """The operation with one thing after another that may be wrong."""
    yield "as it is", op
    for name in op.properties:
        for value in (None, StringAttr("other"), IntegerType(7)):
            other = op.clone()
            other.properties.pop(name)
            other.properties |= {} if value is None else {name: value}
            yield f"{name} is {value}", other
    other = op.clone()
    other.properties["unknown"] = StringAttr("")
    yield "an unknown property", other
    for count in range(len(op.operands)):
        other = op.clone()
        other.operands = [*op.operands[:count], *op.operands[count + 1 :]]
        yield f"without operand {count}", other
        other = op.clone()
        other.operands = [*op.operands[:count], Block(arg_types=[IntegerType(7)]).args[0], *op.operands[count + 1 :]]
        yield f"operand {count} of another type", other
    if op.operands:
        other = op.clone()
        other.operands = [*op.operands, op.operands[0]]
        yield "one operand more", other
    for number in range(len(op.results)):
        other = op.clone()
        other.results[number]._type = IntegerType(7)  # pyright: ignore[reportPrivateUsage]
        yield f"result {number} of another type", other
        other = op.clone()
        other.results = SSAValues(other.results[:number])
        yield f"{number} results", other
    other = op.clone()
    other.add_region(Region(Block()))
    yield "one region more", other
    for number in range(len(op.regions)):
        other = op.clone()
        other.regions[number].add_block(Block())
        yield "one block more", other
        other = op.clone()
        first = other.regions[number].blocks.first
        taking = [nested for nested in (() if first is None else first.ops) if nested.operands]
        if taking:
            taking[0].operands = [Block(arg_types=[v.type]).args[0] for v in taking[0].operands]
            yield "what is inside reads values of outside", other


def test_the_same_is_accepted_and_said(operations: list[Operation]) -> None:
    quick, refused = 0, 0
    for op in operations:
        assert isinstance(op, IRDLOperation)
        definition = op.get_irdl_definition()
        quicken(type(op))
        quick += "verify" in vars(definition)
        for what, other in _spoiled(op):
            wanted = _said(lambda op, of=definition: OpDef.verify(of, op), other)
            assert _said(definition.verify, other) == wanted, f"{op.name}: {what}"
            refused += wanted is not None
    assert quick > 40 and refused > 300


def test_accessors_give_the_same(operations: list[Operation]) -> None:
    count = 0
    for op in operations:
        assert isinstance(op, IRDLOperation)
        definition = op.get_irdl_definition()
        accessors = get_accessors_from_op_def(definition, None)
        for name, _ in (*definition.operands, *definition.results, *definition.regions):
            wanted = accessors[name].__get__(op)
            found = getattr(op, name)
            assert (type(found), found) == (type(wanted), wanted), f"{op.name}: {name}"
            count += 1
    assert count > 60
