"""Writes the C++ kernel table from the manifest: every ``kernels.json`` in the folders beside this file.

    python generate.py table.cc [--only selection.txt] [--family FOLDER]...
    python generate.py --target ../../targets/etir.json
    python generate.py --target selected.json --only selection.txt

A row of the manifest is keyed by the operator's full name and holds

* ``schema``: the operator's schema with its namespace; arguments, results and their kinds come from it,
* ``function``: the C++ function, declared nowhere else; ``source``: its file, relative to the manifest,
* ``dtypes`` and ``dim_orders``: what the kernel takes, for the link check, the documentation and the tests,
* ``prim`` (optional): true for primitives, whose result is their last argument.

``--only`` keeps the named operators: a selective build. Each line of the file has an operator, and the element types
that its tensors may have, as core/scalar_type.h names them (none: all that the kernel takes)::

    aten::add.out Float Long
    aten::clone.out

``--family`` keeps the operators of some folders, ``--limit FOLDER=Float,Half`` those of one for some element types
(without a selection of their own). ``--folder`` adds the kernels of a folder elsewhere, which has a
``kernels.json`` of its own. ``--target`` writes the manifest in the form that the compiler's link check reads,
``--sources`` the source files, ``--dtypes`` the element types that each source file is compiled for. Needs nothing but
Python's standard library, because the C++ build runs it.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
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
    "Generator": "G",
}
_LISTS = {"I": "L", "D": "F", "B": "O", "T": "V"}


DTYPES = {
    "Byte": 0, "Char": 1, "Short": 2, "Int": 3, "Long": 4, "Half": 5, "Float": 6, "Double": 7, "ComplexHalf": 8,
    "ComplexFloat": 9, "ComplexDouble": 10, "Bool": 11, "BFloat16": 15, "UInt16": 27, "UInt32": 28, "UInt64": 29,
}  # fmt: skip
"""Element types that kernels compute with, as core/scalar_type.h names and numbers them."""

ALL_DTYPES = 0xFFFFFFFF

SHARED_SOURCES = ("util/blocks.cc", "util/elementwise.cc")
"""Sources of no family, which kernels of several share; linkers drop what no kernel of a build calls."""

_INTEGRAL = ("Byte", "Char", "Short", "Int", "Long", "Bool", "UInt16", "UInt32", "UInt64")


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


def read_selection(text: str) -> dict[str, tuple[str, ...]]:
    """Operators and their element types, none for all, from the lines of a selection. Raises ValueError."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        name, *dtypes = line.partition("#")[0].split() or [""]
        if not name:
            continue
        unknown = [dtype for dtype in dtypes if dtype not in DTYPES]
        if unknown:
            raise ValueError(f"{name}: no element type {', '.join(unknown)}; there are {', '.join(DTYPES)}")
        before = found.get(name, ())
        # A name that is there twice has the types of both lines; all of them when one line has none.
        both = not dtypes or (name in found and not before)
        found[name] = () if both else tuple(dict.fromkeys((*before, *dtypes)))
    return found


def select(rows: dict[str, dict[str, Any]], selection: dict[str, tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """The rows that a selection names, with their element types under ``selected``. Raises ValueError."""
    unknown = [name for name in selection if name not in rows]
    if unknown:
        raise ValueError(f"no kernel for {', '.join(unknown)}")
    return {
        name: row | ({"selected": list(selection[name])} if selection[name] else {})
        for name, row in rows.items()
        if name in selection
    }


def limit(rows: dict[str, dict[str, Any]], limits: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Rows with the kernels of some folders for some element types only, ``folder=Type,Type``; those that a selection
    has for none of them are left out. Raises ValueError."""
    types: dict[str, list[str]] = {}
    for text in limits:
        folder, _, names = text.partition("=")
        types[folder] = names.split(",")
        unknown = [name for name in types[folder] if name not in DTYPES]
        if unknown:
            raise ValueError(f"--limit {text}: no element type {', '.join(unknown)}")
    found: dict[str, dict[str, Any]] = {}
    for name, row in rows.items():
        allowed = types.get(str(Path(row["source"]).parent))
        if allowed is None:
            found[name] = row
            continue
        selected = [dtype for dtype in row.get("selected", allowed) if dtype in allowed]
        if selected:
            found[name] = row | {"selected": selected}
    return found


def dtype_mask(row: dict[str, Any]) -> int:
    """The element types of a row that was selected, one bit each."""
    chosen = row.get("selected")
    return ALL_DTYPES if chosen is None else sum(1 << DTYPES[name] for name in chosen)


def source_masks(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """The element types that each source file has to be compiled for: what its operators' tensors may have, and what
    they are promoted to on the way."""
    masks: dict[str, int] = {}
    for row in rows.values():
        mask = dtype_mask(row)
        letters = signature(row["schema"], row.get("prim", False)).partition(">")[0].upper()
        if "N" in letters and mask & sum(1 << DTYPES[name] for name in _INTEGRAL):
            # An integer tensor and a Python number are an int64 or a float32 together.
            mask |= 1 << DTYPES["Long"] | 1 << DTYPES["Float"]
        masks[row["source"]] = masks.get(row["source"], 0) | mask
    return dict(sorted(masks.items()))


def all_sources(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """As source_masks, with the shared sources, which are compiled for the types of all others."""
    masks = source_masks(rows)
    return masks | dict.fromkeys(SHARED_SOURCES, functools.reduce(operator.or_, masks.values(), 0))


def table_text(rows: dict[str, dict[str, Any]]) -> str:
    """The C++ source of the table."""
    functions = sorted({row["function"] for row in rows.values()})
    declarations = "\n".join(f"void {name}(KernelContext& ctx);" for name in functions)
    entries = "\n".join(
        f'    {{"{name}", {row["function"]}, "{signature(row["schema"], row.get("prim", False))}", '
        f"{writes(row['schema'], row.get('prim', False)):#x}u, {dtype_mask(row):#x}u}},"
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


_PASSED_ON = ("selected", "ranks", "items", "resizes_output", "temp", "notes")


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
        "backends": ["EtirReferenceBackend"],
        "libraries": dict.fromkeys(sorted({row["library"] for row in kernels.values()}), True),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    lines.append('  "kernels": {')
    lines.append(",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in kernels.items()))
    return "{\n" + "\n".join(lines) + "\n  }\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", type=Path, help="a file with an operator, and its element types, in each line")
    parser.add_argument("--family", action="append", default=[], help="a folder of kernels")
    parser.add_argument(
        "--limit", action="append", default=[], help="FOLDER=TYPE,...: a folder's kernels for these types"
    )
    parser.add_argument("--folder", action="append", default=[], type=Path, help="kernels of your own")
    parser.add_argument("--target", action="store_true", help="write the manifest for the link check instead")
    parser.add_argument("--sources", action="store_true", help="write the list of source files instead")
    parser.add_argument("--dtypes", action="store_true", help="write each source file with a mask of its types instead")
    arguments = parser.parse_args()
    rows = load_manifest(arguments.folder)
    if arguments.only is not None:
        try:
            rows = select(rows, read_selection(arguments.only.read_text(encoding="utf-8")))
        except ValueError as error:
            print(f"{arguments.only}: {error}", file=sys.stderr)
            return 1
    if arguments.family:
        rows = {name: row for name, row in rows.items() if str(Path(row["source"]).parent) in arguments.family}
    try:
        rows = limit(rows, arguments.limit)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.target:
        text = target_text(rows)
    elif arguments.dtypes:
        text = "".join(f"{source} {mask:#x}u\n" for source, mask in all_sources(rows).items())
    elif arguments.sources:
        text = "".join(f"{source}\n" for source in all_sources(rows))
    else:
        text = table_text(rows)
    if not arguments.output.exists() or arguments.output.read_text(encoding="utf-8") != text:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
