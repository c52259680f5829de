"""The executable level: what the runtime will do, one operation per instruction, over explicit values.

A method's entry block first defines its values, one operation for each value of the ``.pte`` file (buffers, views,
weights, numbers), then come the instructions; control flow is blocks and jumps, in the order of the file::

    et.method @forward pools [0, 1024] {
      %x = et.buffer at <1, 0> : tensor<1x8xf32>
      %w = et.get_weight @w : tensor<8x8xf32>
      %y = et.buffer at <1, 64> : tensor<1x8xf32>
      et.inputs %x
      et.call "aten::linear.out"(%x, %w, none, %y) -> %y
      et.return %y
    }

The values are in :mod:`etir.dialects.et.values`, the instructions in :mod:`etir.dialects.et.instructions`, what
delegates bring along in :mod:`etir.dialects.et.payloads`; here is the method, and the list of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, SymbolNameConstraint
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from etir.dialects.et.values import VALUE_OPS
from etir.dialects.literals import dense_values, ints_attr
from etir.dialects.walking import ops_of


@irdl_op_definition
class MethodOp(IRDLOperation):
    """A method at the executable level.

    ``pools`` are the sizes of the planned memories as the file has them: entry 0 is reserved and 0, entry n is memory
    id n. ``in_spec`` and ``out_spec`` are the pytree descriptions, absent when the file has none. ``devices`` lists
    ``[memory id, device type, device index]`` for memories that are not the CPU's.
    """

    name = "et.method"
    sym_name = prop_def(SymbolNameConstraint())
    pools = opt_prop_def(DenseArrayBase)
    devices = opt_prop_def(DenseArrayBase)
    in_spec = opt_prop_def(StringAttr)
    out_spec = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        body: Region,
        *,
        pools: Sequence[int] | None = None,
        in_spec: str | None = None,
        out_spec: str | None = None,
        devices: Sequence[tuple[int, int, int]] = (),
    ):
        flat = tuple(number for device in devices for number in device)
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "pools": None if pools is None else ints_attr(tuple(pools)),
                "devices": ints_attr(flat) if flat else None,
                "in_spec": None if in_spec is None else StringAttr(in_spec),
                "out_spec": None if out_spec is None else StringAttr(out_spec),
            },
            regions=[body],
        )

    @property
    def pool_sizes(self) -> tuple[int, ...] | None:
        """The sizes in bytes, entry 0 reserved; None before planning."""
        return None if self.pools is None else tuple(int(v) for v in dense_values(self.pools))

    @property
    def instructions(self) -> list[Operation]:
        """Every operation after the value definitions, in file order, block by block, terminators included."""
        return [op for block in self.body.blocks for op in ops_of(block) if type(op) not in VALUE_OPS]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name)}
        for field in ("pools", "devices"):
            if parser.parse_optional_keyword(field) is not None:
                values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                properties[field] = ints_attr(tuple(values))
        for field in ("in_spec", "out_spec"):
            if parser.parse_optional_keyword(field) is not None:
                properties[field] = StringAttr(parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        op = cls.create(properties=properties, regions=[body])
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for field, value in (("pools", self.pools), ("devices", self.devices)):
            if value is not None:
                printer.print_string(f" {field} [{', '.join(str(v) for v in dense_values(value))}]")
        for field, text in (("in_spec", self.in_spec), ("out_spec", self.out_spec)):
            if text is not None:
                printer.print_string(f" {field} ")
                printer.print_string_literal(text.data)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        """M1 value definitions stand in the entry block, before the instructions; M2 pool 0 is reserved."""
        sizes = self.pool_sizes
        if sizes is not None and (not sizes or sizes[0] != 0 or min(sizes) < 0):
            raise VerifyException("'pools' starts with the reserved entry 0 and has no negative size (M2)")
        for index, block in enumerate(self.body.blocks):
            started = index > 0
            for op in ops_of(block):
                if type(op) not in VALUE_OPS:
                    started = True
                elif started:
                    raise VerifyException(f"'{op.name}' stands after the first instruction of the method (M1)")
