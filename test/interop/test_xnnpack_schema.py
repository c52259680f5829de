"""The tables of the format against the schema file that the wheel ships."""

from __future__ import annotations

import re
from pathlib import Path

import executorch.backends.xnnpack.serialization as serialization
import pytest

from etir.backends.xnnpack import schema
from etir.backends.xnnpack.datatypes import DATATYPES
from etir.emit.flatbuffer.schema import TableSchema

_TEXT = re.sub(r"//[^\n]*", "", (Path(next(iter(serialization.__path__))) / "schema.fbs").read_text())
_CODES = {"uint": "I", "int": "i", "float": "f", "uint64": "Q", "XNNDatatype": "h"}
_UNIONS = ("XNodeUnion", "XValueUnion", "XNNQuantParams")


def _body(kind: str, name: str) -> list[str]:
    match = re.search(rf"{kind}\s+{name}\b[^{{]*{{(.*?)}}", _TEXT, re.DOTALL)
    assert match is not None, name
    return [part.strip() for part in re.split(r"[;,]", match[1]) if part.strip()]


def _slots(name: str) -> list[tuple[str, str]]:
    """Name and code of every slot; a union takes two."""
    found: list[tuple[str, str]] = []
    for field in _body("table", name):
        slot, _, type = field.partition(":")
        type = type.split("(")[0].strip()
        if type in _UNIONS:
            found.append((f"{slot.strip()}_type", "B"))
        found.append((slot.strip(), _CODES.get(type, "o")))
    return found


TABLES = [
    schema.GRAPH,
    schema.TENSOR_VALUE,
    *schema.QUANT_PARAMS.values(),
    schema.CONSTANT_DATA,
    schema.OUTPUT_MIN_MAX,
    *{kind.table.name: kind.table for kind in schema.NODES}.values(),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_slots(table: TableSchema) -> None:
    """The same slots in the same order, with the same codes."""
    assert list(zip(table.slots, table.codes, strict=True)) == _slots(table.name)


@pytest.mark.parametrize(
    ("table", "name"),
    [(schema.NODE, "XNode"), (schema.VALUE, "XValue"), (schema.QUANTIZED_VALUE, "XNNQuantizedTensorValue")],
)
def test_slots_with_unions(table: TableSchema, name: str) -> None:
    """Unions have names of their own here; their places and codes agree."""
    assert list(table.codes) == [code for _, code in _slots(name)]


def test_node_numbers() -> None:
    """The union of nodes lists every kind, with its table, in the order of the numbers."""
    members = [re.split(r":\s*", member) for member in _body("union", "XNodeUnion")]
    assert len(members) == len(schema.NODES)
    for number, (member, kind) in enumerate(zip(members, schema.NODES, strict=True), 1):
        assert kind.number == number
        assert kind.table.name == (member[1] if len(member) > 1 else member[0])


def test_datatypes() -> None:
    """Names and numbers of all datatypes."""
    listed = [re.split(r"\s*=\s*", member) for member in _body("enum", "XNNDatatype")]
    assert [(d.name, d.number) for d in DATATYPES] == [
        (name.removeprefix("xnn_datatype_"), int(number)) for name, number in listed[1:]
    ]


def test_identifier() -> None:
    """The version that is written."""
    assert f'file_identifier "{schema.IDENTIFIER.decode()}"' in _TEXT
