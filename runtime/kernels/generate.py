"""Writes the C++ kernel table from the manifest: every ``kernels.json`` in the folders beside this file.

    python generate.py table.cc [--only names.txt] [--family FOLDER]...
    python generate.py --target ../../targets/etir.json

A row of the manifest is keyed by the operator's full name and holds

* ``schema``: the operator's schema with its namespace; arguments, results and their kinds come from it,
* ``function``: the C++ function, declared nowhere else; ``source``: its file, relative to the manifest,
* ``dtypes`` and ``dim_orders``: what the kernel takes, for the link check, the documentation and the tests,
* ``prim`` (optional): true for primitives, whose result is their last argument.

``--only`` keeps the named operators: a selective build; ``--family`` keeps those of some folders. ``--folder`` adds the
kernels of a folder elsewhere, which has a ``kernels.json`` of its own. ``--target`` writes the manifest in the form
that the compiler's link check reads. Needs nothing but Python's standard library, because the C++ build runs it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

_LETTERS = {
    "Tensor": "T",
    "int": "I",
    "SymInt": "I",
    "ScalarType": "I",
    "Layout": "I",
    "MemoryFormat": "I",
    "Device": "I",
    "float": "D",
    "bool": "B",
    "Scalar": "N",
    "str": "S",
}
_LISTS = {"I": "L", "D": "F", "B": "O", "T": "V"}


def load_manifest(folders: Sequence[Path] = ()) -> dict[str, dict[str, Any]]:
    """All rows, sorted by name, and those of ``folders`` outside of this one.

    ``source`` becomes relative to this folder, or absolute outside of it. Raises ValueError for a name that is there
    twice.
    """
    rows: dict[str, dict[str, Any]] = {}
    for path in [*sorted(HERE.glob("*/kernels.json")), *(folder / "kernels.json" for folder in folders)]:
        for name, row in json.loads(path.read_text(encoding="utf-8")).items():
            if name in rows:
                raise ValueError(f"{path}: {name} is also in {rows[name]['source']}")
            own = path.parent.parent == HERE
            source = f"{path.parent.name}/{row['source']}" if own else str(path.parent.resolve() / row["source"])
            rows[name] = row | {"source": source}
    return dict(sorted(rows.items()))


def split_arguments(schema: str) -> tuple[list[str], list[str]]:
    """The argument declarations of a schema: inputs and results (those behind ``*`` that are written)."""
    inside = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    parts = [part.strip() for part in re.split(r",(?![^\[(]*[\])])", inside) if part.strip()]
    inputs: list[str] = []
    results: list[str] = []
    keyword_only = False
    for part in parts:
        if part == "*":
            keyword_only = True
        elif keyword_only and re.match(r"Tensor\(\w+!\)", part):
            results.append(part)
        else:
            inputs.append(part)
    return inputs, results


def letter(declaration: str) -> str:
    """The letter of one argument declaration, as kernels/kernel.h explains it."""
    type = declaration.split("=")[0].rsplit(" ", 1)[0]
    type = re.sub(r"\(\w+!?(?:\s*->\s*\w+)?\)", "", type)
    optional = type.endswith("?")
    type = type.removesuffix("?")
    found = re.fullmatch(r"(\w+)(\?)?(\[\d*\])?", type)
    if found is None or found[1] not in _LETTERS:
        raise ValueError(f"no kernel can take an argument of type '{type}'")
    code = _LETTERS[found[1]]
    if found[3] is not None:
        code = "W" if found[2] and code == "T" else _LISTS[code]
    elif found[2]:
        optional = True
    return code.lower() if optional else code


def signature(schema: str, prim: bool) -> str:
    """The signature of a row, as kernels/kernel.h explains it."""
    inputs, results = split_arguments(schema)
    text = "".join(map(letter, inputs))
    if prim:
        returned = schema[schema.rindex("-> ") + 3 :]
        return text + "".join(map(letter, results)) + ("" if returned == "()" else letter(f"{returned} result")) + "!"
    return text + ">" + "".join(map(letter, results))


def writes(schema: str, prim: bool) -> int:
    """The arguments that a kernel writes, results included, one bit each. Results of primitives are not memory."""
    inputs, results = split_arguments(schema)
    parts = inputs + ([] if prim else results)
    return sum(1 << i for i, part in enumerate(parts) if re.match(r"Tensor\(\w+!(?:\s*->\s*\w+)?\)", part))


def table_text(rows: dict[str, dict[str, Any]]) -> str:
    """The C++ source of the table."""
    functions = sorted({row["function"] for row in rows.values()})
    declarations = "\n".join(f"void {name}(KernelContext& ctx);" for name in functions)
    entries = "\n".join(
        f'    {{"{name}", {row["function"]}, "{signature(row["schema"], row.get("prim", False))}", '
        f"{writes(row['schema'], row.get('prim', False)):#x}u}},"
        for name, row in sorted(rows.items(), key=lambda item: item[0].encode())
    )
    return f"""// Generated by runtime/kernels/generate.py.
#include "kernels/kernel.h"

namespace etir {{
{declarations}

namespace {{
constexpr Kernel kRows[] = {{
{entries}
}};
}}  // namespace

extern const KernelTable kKernels;
const KernelTable kKernels = {{kRows, {len(rows)}}};
}}  // namespace etir
"""


_PASSED_ON = ("ranks", "items", "resizes_output", "temp", "notes")


def target_text(rows: dict[str, dict[str, Any]]) -> str:
    """The manifest of the target ``etir``: limits of the runtime, and every kernel with what it takes."""
    kernels: dict[str, dict[str, Any]] = {}
    for name, row in rows.items():
        entry = {"schema": row["schema"], "library": row["source"].split("/")[0]}
        if row.get("prim", False):
            entry["kind"] = "prim"
        entry |= {"dtypes": row["dtypes"], "dim_orders": row["dim_orders"]}
        kernels[name] = entry | {key: row[key] for key in _PASSED_ON if key in row}
    head: dict[str, Any] = {
        "name": "etir",
        "version": "0.1.0",
        "schema_version": 0,
        "tensor_alignment": 16,
        "limits": {"rank": 16, "operator_name": 99, "instructions": 10_000_000, "kernel_key": 1 << 20},
        "backends": [],
        "libraries": dict.fromkeys(sorted({row["library"] for row in kernels.values()}), True),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    lines.append('  "kernels": {')
    lines.append(",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in kernels.items()))
    return "{\n" + "\n".join(lines) + "\n  }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", type=Path, help="a file with one operator name a line")
    parser.add_argument("--family", action="append", default=[], help="a folder of kernels")
    parser.add_argument("--folder", action="append", default=[], type=Path, help="kernels of your own")
    parser.add_argument("--target", action="store_true", help="write the manifest for the link check instead")
    parser.add_argument("--sources", action="store_true", help="write the list of source files instead")
    arguments = parser.parse_args()
    rows = load_manifest(arguments.folder)
    if arguments.family:
        rows = {name: row for name, row in rows.items() if str(Path(row["source"]).parent) in arguments.family}
    if arguments.only is not None:
        wanted = dict.fromkeys(arguments.only.read_text(encoding="utf-8").split())
        unknown = [name for name in wanted if name not in rows]
        if unknown:
            print(f"no kernel for {', '.join(unknown)}", file=sys.stderr)
            return 1
        rows = {name: row for name, row in rows.items() if name in wanted}
    if arguments.target:
        text = target_text(rows)
    elif arguments.sources:
        text = "".join(f"{source}\n" for source in sorted({row["source"] for row in rows.values()}))
    else:
        text = table_text(rows)
    if not arguments.output.exists() or arguments.output.read_text(encoding="utf-8") != text:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
