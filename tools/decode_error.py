"""What an error record means: a sentence with the names of the program that it comes from.

The sentence is the check's own (``runtime/core/checks.def``). Its numbers get the names that the program has for them:
``argument 1`` of an operator is looked up in the operator's schema, ``value 7`` in the method's table of values. The
place is the user's source line, where the program or the debug information beside it knows one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from etir.diagnostics import Diagnostic, SourceLocation
from etir.emit.debug_file import MethodDebug, Source
from etir.emit.pte import model
from etir.runtime.errors import id_of
from etir.tools.error_record import Record
from etir.tools.errors import E0913

_DTYPES = {
    "BYTE": "uint8", "CHAR": "int8", "SHORT": "int16", "INT": "int32", "LONG": "int64", "HALF": "float16",
    "FLOAT": "float32", "DOUBLE": "float64", "COMPLEXHALF": "complex32", "COMPLEXFLOAT": "complex64",
    "COMPLEXDOUBLE": "complex128",
}  # fmt: skip
"""Names that differ from torch's."""

_KINDS = (
    "", "none", "int", "bool", "float", "tensor", "str", "list of ints", "list of floats", "list of bools",
    "list of tensors", "list of optional tensors",
)  # fmt: skip
"""By the number of a value's tag in the file."""

_ITEMS = 8  # of a list that are shown


@dataclass(frozen=True)
class Origin:
    """The program that a record comes from, and what is known about its source by method."""

    program: model.Program
    debug: Mapping[str, MethodDebug] = field(default_factory=dict[str, MethodDebug])


def decode(record: Record, origin: Origin | None) -> Diagnostic:
    """The diagnostic of a record. Without a program it has numbers only.

    Raises error E0913 when the record cannot come from that program.
    """
    names = _NoNames(record) if origin is None else _Names(record, origin)
    row = record.check
    message = names.sentence()
    notes = [*names.notes(), f"check {row.name} ({row.number}), category {row.category}"]
    return id_of(row.number, row.name, row.category).diagnostic(message, names.location(), notes=notes)


def source_line(location: SourceLocation | None) -> str | None:
    """The text of the line, where the file is at hand."""
    if location is None or not location.line:
        return None
    try:
        lines = Path(location.file).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return lines[location.line - 1].strip() if location.line <= len(lines) else None


def _name_of(table: tuple[str, ...], number: int) -> str:
    return table[number] if 0 < number < len(table) else f"{number}"


def dtype_name(number: int) -> str:
    """torch's name for the number of a dtype in the file."""
    from etir.emit.formats.scalar_type import SCALAR_TYPES

    known = SCALAR_TYPES.get(number)
    return str(number) if known is None else _DTYPES.get(known.name, known.name.lower())


class _NoNames:
    """What can be said without the program."""

    def __init__(self, record: Record):
        self.record = record

    def sentence(self) -> str:
        return re.sub(r"(\w+ )?\{(\w+)\}", self._replace, self.record.check.sentence)

    def _replace(self, match: re.Match[str]) -> str:
        word, key = (match[1] or "").strip(), match[2]
        if key == "op":
            return f"{match[1] or ''}{self.operator()}"
        number = {"a": self.record.a, "b": self.record.b}[key]
        return self.phrase(word, number) if word else str(number)

    def phrase(self, word: str, number: int) -> str:
        """The words for a number that follows ``word`` in a check's sentence."""
        if word == "dtype":
            return f"dtype {dtype_name(number)}"
        if word == "kind":
            return f"kind {_name_of(_KINDS, number)}"
        return f"{word} {number}"

    def operator(self) -> str:
        return self.record.op if isinstance(self.record.op, str) else f"operator {self.record.op}"

    def notes(self) -> list[str]:
        parts = [f"method {self.record.method}"] if self.record.method != -1 else []
        parts += [f"instruction {self.record.instruction}"] if self.record.instruction >= 0 else []
        return [f"in {', '.join(parts)}"] if parts else []

    def location(self) -> SourceLocation | None:
        return None


class _Names(_NoNames):
    """What the program says about the numbers of a record."""

    def __init__(self, record: Record, origin: Origin):
        super().__init__(record)
        self.plan = self._plan(origin.program)
        self.instruction: model.Instruction | None = None
        self.source: Source | None = None
        self.names: tuple[str, ...] = ()
        if self.plan is None:
            return
        debug = origin.debug.get(self.plan.name)
        self.names = () if debug is None else debug.values
        if record.instruction < 0:
            return
        entries = [entry for chain in self.plan.chains for entry in chain.instructions]
        if record.instruction >= len(entries):
            raise E0913.error(
                f"the record names instruction {record.instruction}, method '{self.plan.name}' has {len(entries)}"
            )
        self.instruction = entries[record.instruction]
        if debug is not None and record.instruction < len(debug.instructions):
            self.source = debug.instructions[record.instruction]

    def _plan(self, program: model.Program) -> model.ExecutionPlan | None:
        key, plans = self.record.method, program.execution_plan
        if isinstance(key, str):
            found = next((plan for plan in plans if plan.name == key), None)
            if found is None:
                raise E0913.error(
                    f"the record names method '{key}'; the program has {', '.join(p.name for p in plans)}"
                )
            return found
        if key < 0:
            return None
        if key >= len(plans) and self.record.check.name != "MethodIndex":
            raise E0913.error(f"the record names method {key}, the program has {len(plans)}")
        return plans[key] if key < len(plans) else None

    def operator(self) -> str:
        if isinstance(self.record.op, str):
            return self.record.op
        index = self.record.op
        if index < 0 and isinstance(self.instruction, model.KernelCall):
            index = self.instruction.op_index
        if self.plan is None or index < 0:
            return super().operator()
        if index >= len(self.plan.operators):
            message = f"the record names operator {index}, method '{self.plan.name}' has {len(self.plan.operators)}"
            raise E0913.error(message)
        return self.plan.operators[index].full_name

    def phrase(self, word: str, number: int) -> str:
        text = super().phrase(word, number)
        if self.plan is None:
            return text
        known = None
        if word == "argument" and isinstance(self.instruction, model.KernelCall):
            known = self.argument(number)
        elif word in ("value", "tensor", "list"):
            known = self.value(number)
        elif word == "input" and 0 <= number < len(self.plan.inputs):
            known = self.value(self.plan.inputs[number])
        elif word == "output" and 0 <= number < len(self.plan.outputs):
            known = self.value(self.plan.outputs[number])
        elif word == "delegate" and 0 <= number < len(self.plan.delegates):
            known = f"'{self.plan.delegates[number].id}'"
        return text if known is None else f"{text} ({known})"

    def argument_names(self) -> tuple[str, ...]:
        """Of the operator that failed, as its schema names them; none for operators that etir has no kernel for."""
        from etir.targets.manifest import load

        entry = load("etir").lookup(self.operator())
        return () if entry is None else tuple(argument.name for argument in entry.schema.arguments)

    def argument(self, number: int) -> str | None:
        assert isinstance(self.instruction, model.KernelCall)
        if not 0 <= number < len(self.instruction.args):
            return None
        names = self.argument_names()
        value = self.value(self.instruction.args[number])
        return f"'{names[number]}', {value}" if number < len(names) else value

    def value(self, index: int) -> str | None:
        """A value in words: what it is called, and its type or content."""
        assert self.plan is not None
        if not 0 <= index < len(self.plan.values):
            return None
        value = self.plan.values[index]
        text = self._content(value)
        if isinstance(value, model.Tensor) and value.extra_tensor_info is not None:
            name = value.extra_tensor_info.fully_qualified_name
            text += f" '{name}'" if name else ""
        own = self.names[index] if index < len(self.names) else ""
        return f"%{own} = {text}" if own else text

    def _content(self, value: model.EValue) -> str:
        match value:
            case model.Tensor():
                bound = "" if value.shape_dynamism is model.TensorShapeDynamism.STATIC else "<="
                sizes = ", ".join(f"{bound}{size}" for size in value.sizes)
                return f"{dtype_name(int(value.scalar_type))}[{sizes}]"
            case model.Null():
                return "None"
            case model.Int(item) | model.Bool(item) | model.Double(item) | model.String(item):
                return repr(item)
            case model.IntList(items) | model.TensorList(items) | model.OptionalTensorList(items):
                assert self.plan is not None
                parts = ["None" if i < 0 else self._content(self.plan.values[i]) for i in items[:_ITEMS]]
            case model.DoubleList(items) | model.BoolList(items):
                parts = list(map(repr, items[:_ITEMS]))
        return f"[{', '.join(parts)}{', ...' if len(items) > _ITEMS else ''}]"

    def notes(self) -> list[str]:
        if self.plan is None:
            return super().notes()
        where = f"in method '{self.plan.name}'"
        if self.instruction is None:
            return [where]
        where += f", instruction {self.record.instruction}"
        if self.source is not None and self.source.path:
            where += f", submodule '{self.source.path}'"
        notes = [where]
        if isinstance(self.instruction, model.KernelCall):
            names = self.argument_names() or tuple(map(str, range(len(self.instruction.args))))
            pairs = zip(names, self.instruction.args, strict=False)
            notes.append(f"{self.operator()}({', '.join(f'{name}: {self.value(index)}' for name, index in pairs)})")
        return notes

    def location(self) -> SourceLocation | None:
        if self.source is None or not self.source.file:
            return None
        return SourceLocation(self.source.file, self.source.line)
