"""Error records of the runtime as text, and the table of checks that they refer to.

A device prints a record as one line (``format_record`` in ``runtime/core/error_text.h``)::

    etir-error 602 0 12 3 1 7

for the check, the method, the instruction, the operator and the check's two numbers, -1 for what does not apply. The
same as JSON has the keys ``check``, ``method``, ``instruction``, ``op`` (or ``operator``), ``a`` and ``b`` (or
``values``); check, method and operator may be names.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etir.tools.errors import E0912


@dataclass(frozen=True)
class CheckRow:
    """A row of ``runtime/core/checks.def``: ``category`` is the error that callers switch on."""

    name: str
    number: int
    category: str
    sentence: str


@dataclass(frozen=True)
class Record:
    """A failed check. Indices are those of the file, -1 for none; names take the place of indices where given."""

    check: CheckRow
    method: int | str = -1
    instruction: int = -1
    op: int | str = -1
    a: int = -1
    b: int = -1


@functools.cache
def checks() -> dict[int, CheckRow]:
    """All checks by number."""
    import etir.runtime

    # In an installed package the table lies beside the module; in the repository where the C++ sources include it.
    folder = Path(etir.runtime.__file__).parent
    path = next(p for p in (folder / "checks.def", folder.parent / "core" / "checks.def") if p.is_file())
    rows = re.findall(r'^ETIR_CHECK\((\w+), (\d+), (\w+), "(.*)"\)$', path.read_text(encoding="utf-8"), re.M)
    return {int(number): CheckRow(name, int(number), category, text) for name, number, category, text in rows}


_LINE = re.compile(r"\betir-error((?: -?\d{1,20}){6})(?!\S)")


def read_records(text: str) -> list[Record]:
    """The records in a text: a log with any number of lines that hold one, or one JSON object.

    Raises error E0912 when there is none, or a check that this version does not have.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            return [_from_json(json.loads(stripped))]
        except ValueError as error:
            raise E0912.error(f"the error record is no JSON: {error}") from None
    found = [list(map(int, match[1].split())) for match in _LINE.finditer(text)]
    if not found:
        raise E0912.error("the text holds no error record")
    return [Record(_check(row[0]), *row[1:]) for row in found]


def _check(key: object) -> CheckRow:
    for row in checks().values():
        if key in (row.number, row.name):
            return row
    raise E0912.error(f"this version of the runtime has no check {key}")


def _from_json(data: Mapping[str, Any]) -> Record:
    def index(*keys: str) -> Any:
        value = next((data[key] for key in keys if data.get(key) is not None), -1)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise E0912.error(f"'{keys[0]}' of the error record is {json.dumps(value)}, expected an index or a name")
        return value

    def number(value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise E0912.error(f"'{key}' of the error record is {json.dumps(value)}, expected a whole number")
        return value

    if "check" not in data:
        raise E0912.error("the error record has no 'check'")
    values = data.get("values", (data.get("a", -1), data.get("b", -1)))
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise E0912.error(f"'values' of the error record is {json.dumps(values)}, expected two numbers")
    return Record(
        _check(data["check"]),
        index("method"),
        number(index("instruction"), "instruction"),
        index("op", "operator"),
        number(values[0], "a"),
        number(values[1], "b"),
    )
