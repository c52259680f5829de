"""``--verify-roundtrip`` finds operations whose text does not give them back."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.tools.roundtrip import verify_roundtrip


@irdl_op_definition
class ForgetfulOp(IRDLOperation):
    """Prints nothing of its number."""

    name = "broken.forgetful"
    number = opt_prop_def(IntegerAttr)

    def print(self, printer: Any) -> None:
        pass

    @classmethod
    def parse(cls, parser: Any) -> ForgetfulOp:
        return cls()


@irdl_op_definition
class GarbledOp(IRDLOperation):
    """Prints what its own parser does not read."""

    name = "broken.garbled"
    number = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, parser: Any) -> GarbledOp:
        return cls()

    def print(self, printer: Any) -> None:
        printer.print_string(" ???")


@irdl_op_definition
class GrowingOp(IRDLOperation):
    """Reads back as another operation, which prints otherwise."""

    name = "broken.growing"
    number = opt_prop_def(IntegerAttr)

    def print(self, printer: Any) -> None:
        if self.number is not None:
            printer.print_string(" {more}")

    @classmethod
    def parse(cls, parser: Any) -> GrowingOp:
        parser.parse_optional_attr_dict()
        return cls.create(properties={"number": IntegerAttr(1, 64)})


def verified(op: Any, number: int | None) -> None:
    """Check a module of one operation."""
    ctx = EtContext()
    ctx.register_dialect("broken", lambda: Dialect("broken", [ForgetfulOp, GarbledOp, GrowingOp], []))
    properties = {} if number is None else {"number": IntegerAttr(number, 64)}
    verify_roundtrip(ModuleOp([op.create(properties=properties)]), ctx)


def test_an_operation_that_prints_all_that_it_is() -> None:
    verified(ForgetfulOp, None)


@pytest.mark.parametrize(
    ("op", "number", "message"),
    [
        (ForgetfulOp, 3, "the custom form loses something that it does not print"),
        (GarbledOp, None, "the custom form does not parse"),
        (GrowingOp, None, "the custom form changes when it is read and printed again"),
    ],
)
def test_operations_that_do_not_come_back(op: Any, number: int | None, message: str) -> None:
    with pytest.raises(EtirError, match=message) as caught:
        verified(op, number)
    assert caught.value.ids == ("E0904",)
