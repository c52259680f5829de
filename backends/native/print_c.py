"""A function of the ``tile`` level as C.

Every operation becomes a function of its template; equal texts are one function, and so are those of parts that several
of them call. The entry calls them one after
another with addresses that are constants from the start of an input, a weight or the arena::

    int32_t etir_native_forward(const struct etir_native_call* call)

The text includes ``vec.h``, so that it is one file that any C compiler takes, also that of a microcontroller.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.calling import Address, Base, Call, calls_in_a_row, fits_table, table_of_calls
from etir.backends.native.cpu import Cpu
from etir.backends.native.errors import E1164
from etir.backends.native.functions import outputs_of
from etir.backends.native.kernels import template_of
from etir.backends.native.kernels.template import CFunction, part_text, uses_sizes
from etir.backends.native.packing import count_of
from etir.backends.native.placing import entry_lines, table_text
from etir.backends.native.print_sizes import SizeTable, given_sizes, is_dynamic
from etir.backends.native.tile import BufferOp, TemplateOp, WeightOp, bytes_of
from etir.backends.native.users import base_of
from etir.backends.native.view import view_of
from etir.dialects.text import source_location
from etir.dialects.walking import ops_of

PARALLEL = """\
ETIR_NOINLINE void etir_parallel(const struct etir_native_call* call, int64_t count, int64_t grain,
                                 void (*part)(void* given, int64_t begin, int64_t end), void* given) {
  if (call->run == 0) {
    part(given, 0, count);
  } else {
    call->run(call->pool, count, grain, part, given);
  }
}
"""
ENTRY = "etir_native_entry"
_HELPER = re.compile(r"@\w*")
"""The name of a helper in the text of a template."""


@dataclass(frozen=True)
class CSource:
    """The C of a function for one processor; ``weights`` are what it reads by index."""

    text: str
    weights: tuple[WeightOp, ...]
    arena_bytes: int
    prologue: str = ""
    """What ``text`` starts with and all functions for the processor share."""
    places: tuple[int, ...] = ()
    """The places of buffers, where the text has a table for them."""


@cache
def header() -> str:
    """Vectors and their functions: ``vec.h`` with ``functions.h`` after it."""
    return f"{_text('vec.h')}\n{_text('functions.h')}"


@cache
def call_text() -> str:
    """How the entry is called, ``call.h``, and how it shares out work."""
    return f"{_text('call.h')}\n{PARALLEL}"


def _text(name: str) -> str:
    return (Path(__file__).parent / "kernels" / name).read_text(encoding="utf-8")


def weights_of(func: FuncOp) -> tuple[WeightOp, ...]:
    """The weights that a function reads, in the order in which the entry is given them."""
    return tuple(op for op in ops_of(func.body.block) if isinstance(op, WeightOp))


def print_c(
    func: FuncOp, cpu: Cpu, entry: str = ENTRY, arrays: Sequence[str] | None = None, *, table: bool = False
) -> CSource:
    """The C of ``func`` for a processor. Raises E1164 for a schedule that it cannot do.

    ``arrays`` are names of arrays that have the weights, for code that is linked with them; else the entry is given
    the weights. With ``table``, places of buffers are put into the image (``placing.py``) and are not in the text.
    """
    return _Printer(func, cpu, arrays, table).source(entry)


class _Printer:
    def __init__(self, func: FuncOp, cpu: Cpu, arrays: Sequence[str] | None, table: bool):
        self.func, self.cpu, self.arrays, self.table = func, cpu, arrays, table
        self.is_linked = arrays is not None or cpu.linked
        """Whether a linker puts weights in their place, also of code that could be loaded."""
        self.places: list[int] = []
        self.weights = weights_of(func)
        self.functions: dict[str, str] = {}
        self.made: dict[Hashable, tuple[str, bool]] = {}
        """The function of an operation, and whether it is given sizes, by what its text depends on."""
        self.helpers: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []
        self.shared_out: dict[str, str] = {}
        """How each function is shared out among threads, by its name."""
        self.called: dict[str, int] = {}
        self.address: dict[SSAValue, Address] = {}
        self.arena_bytes = 0
        self.sizes = SizeTable(func, given_sizes(func, outputs_of(func))) if is_dynamic(func) else None

    def source(self, entry: str) -> CSource:
        block = self.func.body.block
        inputs = len(self.func.function_type.inputs) - outputs_of(self.func)
        for i, arg in enumerate(block.args):
            self.address[arg] = (
                Address(Base.INPUT, i, f"((const float*)call->inputs[{i}])")
                if i < inputs
                else Address(Base.OUTPUT, i - inputs, f"((float*)call->outputs[{i - inputs}])")
            )
        numbers = {op: i for i, op in enumerate(self.weights)}
        calls: list[Call] = []
        for op in block.ops:
            if isinstance(op, WeightOp):
                number = numbers[op]
                at = f"((const float*)call->weights[{number}])" if self.arrays is None else self.arrays[number]
                self.address[op.result] = Address(Base.WEIGHT, number, at)
            elif isinstance(op, BufferOp):
                assert op.at is not None, "places are planned"
                at, number = op.at.value.data, len(self.places)
                place = str(at) if self.is_linked else f"places[{number}]"
                self.places.append(at)
                self.address[op.result] = Address(Base.ARENA, number, f"((float*)(call->arena + {place}))")
                self.arena_bytes = max(self.arena_bytes, at + bytes_of(op.result.type))
            elif (view := view_of(op)) is not None:
                self.address[op.results[0]] = self.address[view[0]].after(view[1])
            elif isinstance(op, TemplateOp):
                calls.append(self._call(op))
            else:
                assert isinstance(op, ReturnOp), op.name
        extents = {
            name: count_of(op) for name, op in zip(self.arrays or (), self.weights, strict=self.arrays is not None)
        }
        prologue = f"#define ETIR_VW {self.cpu.vector}\n{header()}\n{call_text()}"
        has_places = bool(self.places) and not self.is_linked
        has_table = self.sizes is None and not self.is_linked and fits_table(calls)
        functions, lines = self._table(calls) if has_table else self._row(calls)
        visible = '__attribute__((visibility("default")))' + ("" if has_table or self.cpu.linked else " ETIR_AS_IS")
        helpers = [] if self.sizes is None else self.sizes.helpers()
        text = "\n".join(
            [
                prologue,
                *(f"extern const float {name}[{count}];" for name, count in extents.items()),
                *helpers,
                *([table_text(self.places, is_filled=not self.table)] if has_places else []),
                *self.texts,
                *functions,
                f"{visible} int32_t {entry}(const struct etir_native_call* call) {{",
                *(f"  {line}" for line in ((*entry_lines(), *lines) if has_places else lines)),
                "  return 0;",
                "}",
                "",
            ]
        )
        return CSource(text, self.weights, self.arena_bytes, prologue, tuple(self.places) if self.table else ())

    def _table(self, calls: Sequence[Call]) -> tuple[list[str], list[str]]:
        """The table of calls, and the statements of an entry that works it off."""
        table, lines = table_of_calls(calls, self.shared_out)
        return [table], lines

    def _row(self, calls: Sequence[Call]) -> tuple[list[str], list[str]]:
        """Functions that an entry calls in a row, and its statements."""
        given = "const struct etir_native_call* call, void** args"
        functions = [
            f"{self._linkage(name)} void {name}({given}) {{\n  {does}\n}}\n" for name, does in self.shared_out.items()
        ]
        lines = [self._with_sizes(line) for line in calls_in_a_row(calls)]
        return functions, [*([] if self.sizes is None else self.sizes.entry()), *lines]

    def _call(self, op: TemplateOp) -> Call:
        template = template_of(op)
        if (reason := template.illegal(op, self.cpu)) is not None:
            raise E1164.error(f"{op.name} on {self.cpu.name}: {reason}", source_location(op.location))
        key = _signature(op)
        if key not in self.made:
            function = template.c(op, self.cpu)
            name = self._function(template.name, function, len(op.operands))
            self.made[key] = name, uses_sizes(function)
        name, takes_sizes = self.made[key]
        self.called[name] = self.called.get(name, 0) + 1
        return Call(name, tuple(self.address[v] for v in op.operands), ("sizes",) if takes_sizes else ())

    def _linkage(self, name: str) -> str:
        """What is called once is a part of an entry that is linked with others. Compilers would copy all others there
        as well, and take longer for that than for the functions of small steps.
        """
        if not self.cpu.linked:
            return "static ETIR_AS_IS"
        return "static" if self.called[name] == 1 else "ETIR_NOINLINE"

    def _function(self, base: str, function: CFunction, count: int) -> str:
        """The name of a function with this text."""
        key = "\0".join([base, str(count), function.body, str(function.units), *function.helpers])
        if key not in self.functions:
            number = self.counts.get(base, 0)
            self.counts[base] = number + 1
            name = f"{base}{number}"
            self.functions[key] = name
            function = self._with_helpers(name, function)
            self.texts.append(self._with_sizes(part_text(name, function, count, self.cpu), True))
            units = self._units(function, count)
            self.shared_out[name] = f"etir_parallel(call, {units}, {function.grain}, {name}_part, args);"
        return self.functions[key]

    def _with_helpers(self, name: str, function: CFunction) -> CFunction:
        """The function with the names of its helpers, which are printed unless equal ones are there already."""
        named: dict[str, str] = {}

        def replaced(text: str) -> str:
            return _HELPER.sub(lambda found: named.get(found[0], found[0]), text)

        for helper in function.helpers:
            own = _HELPER.search(helper)
            assert own is not None, "a helper begins with its name"
            text = replaced(helper)
            key = text.replace(own[0], "@", 1)
            if key not in self.helpers:
                self.helpers[key] = own[0].replace("@", name)
                self.texts.append(self._with_sizes(text.replace("@", name), True) + "\n")
            named[own[0]] = self.helpers[key]
        return replace(function, body=replaced(function.body))

    def _units(self, function: CFunction, count: int) -> str:
        units = str(function.units)
        return units if self.sizes is None else self.sizes.in_entry(units, f"((const int64_t*)args[{count}])")

    def _with_sizes(self, text: str, is_function: bool = False) -> str:
        if self.sizes is None:
            return text
        return self.sizes.in_function(text) if is_function else self.sizes.in_entry(text)


def _signature(op: TemplateOp) -> Hashable:
    """All that the text of an operation depends on besides the processor: types, properties and bodies, which operands
    are the same, and which are weights. Where its operands are is not in its text.
    """
    numbers: dict[SSAValue, int] = {}
    weights = tuple(isinstance(base_of(value).owner, WeightOp) for value in op.operands)
    return (weights, *_described(op, numbers))


def _described(op: Operation, numbers: dict[SSAValue, int]) -> Iterator[Hashable]:
    """An operation with its regions; values are numbers in the order in which they are seen."""
    yield type(op)
    for value in op.operands:
        yield numbers.setdefault(value, len(numbers)), value.type
    for entries in (op.properties, op.attributes):
        yield tuple(sorted(entries.items(), key=lambda entry: entry[0]))
    for value in op.results:
        yield numbers.setdefault(value, len(numbers)), value.type
    for region in op.regions:
        for block in region.blocks:
            yield tuple((numbers.setdefault(arg, len(numbers)), arg.type) for arg in block.args)
            for inner in block.ops:
                yield from _described(inner, numbers)
