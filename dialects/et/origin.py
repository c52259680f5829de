"""Origins: which operations of the imported program an operation comes from, and whose values it computes.

An origin is an integer from 1 that each operation gets when a trace is recorded. It travels in the location, as the
metadata of a fused one around the location that is there without it, so that every pass that keeps locations keeps it:
``loc(fused<#et.origin<17 value>>["fc"("model.py":10:0)])``. An entry ``17`` says "comes from operation 17"; ``17
value`` says besides that the operation's result *is* what operation 17 gave; ``17 value 1`` that its second result is
the second of 17, and ``17 value 1 at 0`` that its first one is. Numbers are compared by these marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp, NoneAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Data, Operation, OpResult, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.sym.ops import DimOp

MAX_ORIGINS = 64
"""Origins that a location keeps: a constant that was folded from thousands of operations names the first ones."""


@dataclass(frozen=True, order=True)
class Mark:
    """Result ``at`` of the operation is result ``result`` of the operation ``origin``."""

    origin: int
    result: int
    at: int


@dataclass(frozen=True)
class Origins:
    """What a location says: numbers in order, each once, those of the marks among them; marks in order."""

    numbers: tuple[int, ...]
    marks: tuple[Mark, ...] = ()

    @staticmethod
    def of(numbers: Iterable[int], marks: Iterable[Mark] = ()) -> Origins:
        """In canonical form: at most :data:`MAX_ORIGINS` numbers, those with marks before the others."""
        kept = tuple(sorted(dict.fromkeys(marks)))
        marked = dict.fromkeys(mark.origin for mark in kept)
        every = sorted(dict.fromkeys((*numbers, *marked)))
        if len(every) > MAX_ORIGINS:
            rest = [number for number in every if number not in marked]
            every = sorted([*marked, *rest[: max(MAX_ORIGINS - len(marked), 0)]])
        return Origins(tuple(every), kept)


@irdl_attr_definition
class OriginAttr(Data[Origins]):
    """Where an operation comes from: ``#et.origin<3, 17 value>``."""

    name = "et.origin"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Origins:
        entries = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _parse_entry(parser))
        found = Origins.of((number for number, _ in entries), (mark for _, mark in entries if mark is not None))
        if not entries or any(number < 1 for number, _ in entries):
            parser.raise_error("an origin is a number from 1")
        return found

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.text)

    @property
    def text(self) -> str:
        """What stands after the name: ``<3, 17 value>``."""
        marks: dict[int, list[Mark]] = {}
        for mark in self.data.marks:
            marks.setdefault(mark.origin, []).append(mark)
        entries: list[str] = []
        for number in self.data.numbers:
            entries += [f"{number} value{_places(mark)}" for mark in marks.get(number, ())] or [str(number)]
        return f"<{', '.join(entries)}>"


def _parse_entry(parser: AttrParser) -> tuple[int, Mark | None]:
    number = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if not parser.parse_optional_keyword("value"):
        return number, None
    result = parser.parse_optional_integer(allow_boolean=False, allow_negative=False) or 0
    at = result
    if parser.parse_optional_keyword("at"):
        at = parser.parse_integer(allow_boolean=False, allow_negative=False)
    return number, Mark(number, result, at)


def _places(mark: Mark) -> str:
    if mark.at != mark.result:
        return f" {mark.result} at {mark.at}"
    return f" {mark.result}" if mark.result else ""


# --- locations -------------------------------------------------------------------------------------------------------


def origins_in(location: Attribute) -> Origins | None:
    """The origins that a location carries, or None."""
    # Classes by identity, here and below: these are final, and asked of every operation after every pass.
    if type(location) is FusedLoc and type(location.metadata) is OriginAttr:
        return location.metadata.data
    return None


def plain(location: LocationAttr) -> LocationAttr:
    """The location as it is without origins: what is written into files, and what readers of source lines want."""
    if type(location) is not FusedLoc or type(location.metadata) is not OriginAttr:
        return location
    inside = location.locations
    assert isinstance(inside, ArrayAttr)
    return inside.data[0] if len(inside.data) == 1 else FusedLoc(inside, NoneAttr())


def with_origins(location: LocationAttr, found: Origins | None) -> LocationAttr:
    """The location with these origins instead of its own; None and no number for none."""
    place = plain(location)
    if found is None or not found.numbers:
        return place
    if isinstance(place, FusedLoc) and isinstance(place.metadata, NoneAttr):
        assert isinstance(place.locations, ArrayAttr)
        return FusedLoc(place.locations, OriginAttr(found))
    return FusedLoc((place,), OriginAttr(found))


def handed_on(location: LocationAttr) -> LocationAttr:
    """The location for an operation that is made on the way to another one: it computes none of the marked values."""
    found = origins_in(location)
    return location if found is None or not found.marks else with_origins(location, Origins(found.numbers))


def of_result(location: LocationAttr, index: int) -> LocationAttr:
    """The location for an operation whose only result is result ``index`` of the operation at ``location``."""
    found = origins_in(location)
    if found is None or not found.marks:
        return location
    marks = [Mark(mark.origin, mark.result, 0) for mark in found.marks if mark.at == index]
    return with_origins(location, Origins.of(found.numbers, marks))


def origins_only(value: SSAValue) -> LocationAttr:
    """A location for an argument that is ``value``: its origins, and no place in the source."""
    if isinstance(value, OpResult):
        return with_origins(UnknownLoc(), origins_in(of_result(value.owner.location, value.index)))
    return with_origins(UnknownLoc(), origins_in(value.location) if isinstance(value, BlockArgument) else None)


def give_marks(old: SSAValue, new: SSAValue) -> None:
    """Say of the operation that defines ``new`` that it computes what ``old`` was marked as.

    Where an argument of a block takes the place of ``old`` there is no operation to say it of.
    """
    if not isinstance(old, OpResult) or not isinstance(new, OpResult):
        return
    found, target = origins_in(old.owner.location), new.owner
    if found is None or not found.marks or target is old.owner:
        return
    moved = [Mark(mark.origin, mark.result, new.index) for mark in found.marks if mark.at == old.index]
    if moved:
        own = origins_in(target.location) or Origins(())
        target.location = with_origins(target.location, Origins.of(own.numbers, (*own.marks, *moved)))


def united(locations: Sequence[LocationAttr]) -> Origins | None:
    """The origins of all locations together, with their marks; None where none has any."""
    found = [origins for location in locations if (origins := origins_in(location)) is not None]
    if not found:
        return None
    return Origins.of((n for o in found for n in o.numbers), (m for o in found for m in o.marks))


def standing_for(location: LocationAttr, ops: Iterable[Operation], results: Sequence[SSAValue] = ()) -> LocationAttr:
    """The location, with the origins of all of ``ops``, for one operation whose results are ``results`` of them."""
    found = [origins for op in ops if (origins := origins_in(op.location)) is not None]
    if not found:
        return location
    marks: list[Mark] = []
    for at, value in enumerate(results):
        if isinstance(value, OpResult) and (own := origins_in(value.owner.location)) is not None:
            marks += [Mark(mark.origin, mark.result, at) for mark in own.marks if mark.at == value.index]
    return with_origins(location, Origins.of((number for origins in found for number in origins.numbers), marks))


# --- modules ---------------------------------------------------------------------------------------------------------


def carries_origin(op: Operation) -> bool:
    """Whether an operation is one that has origins: everything but the module itself and declarations."""
    return not isinstance(op, (ModuleOp, DimOp, SchemaDeclOp))


def block_arguments(op: Operation) -> Iterable[tuple[Block, int]]:
    """The arguments of the blocks of a method, as blocks and indices; those of inner regions stand for other values."""
    if isinstance(op, (FuncOp, MethodOp)) and op.body.blocks:
        first = op.body.blocks[0]
        for index in range(len(first.args)):
            yield first, index


def number_origins(module: ModuleOp) -> int:
    """Give every operation without an origin, and every input of a method, one; returns the largest number.

    What has no origin becomes one of its own: all its results are marked as its values. Numbers go on after the largest
    one that is there, in the order of the text.
    """
    every = [op for op in module.walk() if carries_origin(op)]
    places = [op.location for op in every]
    places += [block.args[i].location for op in every for block, i in block_arguments(op)]
    last = max((found.numbers[-1] for place in places if (found := origins_in(place)) is not None), default=0)
    for op in every:
        if origins_in(op.location) is None:
            last += 1
            marks = tuple(Mark(last, i, i) for i in range(len(op.results)))
            op.location = with_origins(op.location, Origins((last,), marks))
        for block, index in block_arguments(op):
            argument = block.args[index]
            if origins_in(argument.location) is None:
                last += 1
                argument.location = with_origins(argument.location, Origins((last,), (Mark(last, 0, 0),)))
    return last


def remove_origins(module: ModuleOp) -> None:
    """Leave the locations as they are without a trace."""
    for op in module.walk():
        op.location = plain(op.location)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.location = plain(argument.location)


def has_place(location: LocationAttr) -> bool:
    """Whether a location says anything besides origins."""
    return not isinstance(plain(location), UnknownLoc)
