"""Writes the C++ kernel table from the manifest: every ``kernels.json`` in the folders beside this file.

    python generate.py table.cc [--only selection.txt] [--family FOLDER]...
    python generate.py --headers FOLDER
    python generate.py --build FOLDER
    python generate.py --target selected.json --only selection.txt

A row of the manifest is keyed by the operator's full name and holds

* ``schema``: the operator's schema with its namespace; arguments, results and their kinds come from it,
* ``function``: the C++ function, declared nowhere else; ``source``: its file, relative to the manifest,
* ``dtypes`` and ``dim_orders``: what the kernel takes, for the link check, the documentation and the tests,
* ``kind`` (optional): ``prim`` for primitives, whose result is their last argument.

The same rows are what the compiler's link check reads (``etir.targets.manifest`` says what else may be in one).

``--headers`` writes a header for each source file, which the source includes: ``FOLDER/kernels/FAMILY/NAME.gen.h`` for
``FAMILY/NAME.cc``, and ``FOLDER/NAME.gen.h`` for a ``NAME.cc`` elsewhere. It declares each of the file's functions with
the arguments of its rows' schemas, by name and type, and defines what the table points to: a function that reads the
arguments and calls the declared one. Both are in one translation unit, so that the compiler makes them one function.
Rows may share a function where their arguments differ in kind alone (a tensor in one and a number in the other is a
``TensorOrScalar``), or where one has a generator, which no program has and no function is given.

``--only`` keeps the named operators: a selective build. Each line of the file has an operator, and the element types
that its tensors may have, as core/scalar_type.h names them (none: all that the kernel takes)::

    aten::add.out Float Long
    aten::clone.out

``--family`` keeps the operators of some folders, ``--limit FOLDER=Float,Half`` those of one for some element types
(without a selection of their own). ``--folder`` adds the kernels of a folder elsewhere, which has a
``kernels.json`` of its own. ``--target`` writes the manifest in the form that the compiler's link check reads,
``--rows`` the rows alone,
``--sources`` the source files, ``--dtypes`` the element types that each source file is compiled for. ``--build`` writes
all that a build needs to a folder: ``sources.txt`` (as ``--dtypes``), ``kernel_table.cc`` and ``generated`` (as
``--headers``). Needs nothing but Python's standard library, because the C++ build runs it.
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
from typing import Any, NamedTuple

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
    """The argument declarations of a schema: inputs and results (those after ``*`` that are written)."""
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


# --- typed functions --------------------------------------------------------------------------------------------------


class Argument(NamedTuple):
    """An argument of a C++ function: its place among the operator's, its type, and the accessor that reads it.

    Without an accessor the function is handed the place.
    """

    name: str
    position: int
    type: str
    accessor: str

    def value(self, position: int) -> str:
        """The C++ expression of the argument at a place among the operator's."""
        return f"ctx.{self.accessor}({position})" if self.accessor else f"{self.type}{{{position}}}"


_READ = {
    "T": ("const Tensor&", "tensor"),
    "I": ("int64_t", "integer"),
    "D": ("double", "real"),
    "B": ("bool", "boolean"),
    "N": ("const Scalar&", "scalar"),
    "S": ("StringView", "string"),
    "L": ("const IntList&", "int_list"),
    "F": ("const DoubleList&", "double_list"),
    "O": ("const BoolList&", "bool_list"),
    "V": ("const TensorList&", "tensor_list"),
    "W": ("const TensorList&", "tensor_list"),
}
_EITHER = ("const TensorOrScalar&", "tensor_or_scalar")
_NO_NAMES = ("ctx", "arg", "default", "double", "float", "int", "long", "new", "operator", "short", "signed", "this")


def read_argument(declaration: str, position: int) -> Argument | None:
    """The C++ argument of one declaration of a schema. None for a generator, which no program has."""
    kind = letter(declaration)
    if kind.upper() == "G":
        return None
    name = declaration.split("=")[0].rsplit(" ", 1)[1]
    if name in _NO_NAMES:
        raise ValueError(f"no C++ argument can be called '{name}'")
    type, accessor = _READ[kind.upper()]
    if declaration.startswith("ScalarType"):
        type, accessor = "ScalarType", "dtype"
    written = re.match(r"Tensor\(\w+!", declaration) is not None
    if written and kind.upper() == "T":
        type = "Tensor&"
    if kind == "t":
        return Argument(name, position, type.replace("&", "*"), "optional_tensor")
    if kind.islower():
        value = type.removeprefix("const ").removesuffix("&")
        return Argument(name, position, f"std::optional<{value}>", f"optional_{accessor}")
    return Argument(name, position, type, accessor)


def read_arguments(schema: str, prim: bool) -> tuple[Argument, ...]:
    """The C++ arguments of one row's function."""
    inputs, results = split_arguments(schema)
    found = [read_argument(declaration, i) for i, declaration in enumerate((*inputs, *results))]
    if prim:
        numbers = ("scalar", "integer", "real", "boolean")
        found = [a._replace(type="ScalarArgument", accessor="") if a and a.accessor in numbers else a for a in found]
    returned = schema[schema.rindex("-> ") + 3 :]
    if prim and returned != "()":
        tensor = returned.startswith("Tensor")
        kind = ("Tensor&", "tensor") if tensor else ("ScalarResult", "")
        found.append(Argument("result", len(found), *kind))
    return tuple(argument for argument in found if argument is not None)


class Function(NamedTuple):
    """A C++ function and, for each of its entries in the table, where the arguments are among the operator's."""

    name: str
    source: str
    arguments: tuple[Argument, ...]
    places: tuple[tuple[int, ...], ...]

    def entry(self, places: tuple[int, ...]) -> str:
        """The name of the function that the table points to."""
        index = self.places.index(places)
        return self.name if index == 0 else f"{self.name}_{index}"


def _merged(a: Argument, b: Argument, function: str) -> Argument:
    """What takes both of an argument's forms in rows that share a function. The name is that of the first row."""
    if (a.type, a.accessor) == (b.type, b.accessor):
        return a
    kinds = {a.accessor, b.accessor}
    if kinds == {"tensor", "optional_tensor"}:
        return a if a.accessor == "optional_tensor" else a._replace(type=b.type, accessor=b.accessor)
    if kinds <= {"tensor", "scalar", "real", "optional_tensor", "optional_scalar", "tensor_or_scalar"}:
        return a._replace(type=_EITHER[0], accessor=_EITHER[1])
    raise ValueError(f"{function}: no C++ argument is both {a.type} and {b.type} ('{a.name}')")


def functions_of(rows: dict[str, dict[str, Any]]) -> dict[str, Function]:
    """Every C++ function by its name. Raises ValueError where rows that share one do not go together."""
    found: dict[str, Function] = {}
    for name, row in rows.items():
        arguments = read_arguments(row["schema"], row.get("kind") == "prim")
        places = tuple(a.position for a in arguments)
        known = found.setdefault(row["function"], Function(row["function"], row["source"], arguments, (places,)))
        if known.source != row["source"]:
            raise ValueError(f"{known.name}: a function of {known.source} and of {row['source']}")
        if len(known.arguments) != len(arguments):
            raise ValueError(f"{known.name}: {name} has other arguments than another row")
        found[known.name] = Function(
            known.name,
            known.source,
            tuple(_merged(known.arguments[i], argument, known.name) for i, argument in enumerate(arguments)),
            tuple(dict.fromkeys((*known.places, places))),
        )
    return found


def header_name(source: str) -> str:
    """The generated header of a source file, as the source includes it: those of other folders have no folder."""
    path = Path(source)
    return f"{path.stem}.gen.h" if path.is_absolute() else f"kernels/{path.parent}/{path.stem}.gen.h"


def headers(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Name to text of every generated header."""
    found: dict[str, list[str]] = {}
    for _, function in sorted(functions_of(rows).items()):
        found.setdefault(function.source, []).append(_function_text(function))
    texts: dict[str, str] = {}
    for source, parts in sorted(found.items()):
        name = header_name(source)
        if name in texts:
            raise ValueError(f"{source}: another source has the header {name}, too")
        texts[name] = (
            "// Generated by runtime/kernels/generate.py.\n#pragma once\n\n"
            f'#include "kernels/kernel.h"\n\nnamespace etir {{\n\n{"".join(parts)}}}  // namespace etir\n'
        )
    return texts


def _function_text(function: Function) -> str:
    name = function.name
    declared = "".join(f", {a.type} {a.name}" for a in function.arguments)
    fixed = [a for i, a in enumerate(function.arguments) if len({places[i] for places in function.places}) == 1]
    places = ", ".join(f"{a.name} = {a.position}" for a in fixed)
    entries = ""
    for places_of_entry in function.places:
        read = "".join(f", {a.value(places_of_entry[i])}" for i, a in enumerate(function.arguments))
        entries += f"void {function.entry(places_of_entry)}(KernelContext& ctx) {{ etir::{name}(ctx{read}); }}\n"
    return (
        f"static void {name}(KernelContext& ctx{declared});\n"
        f"namespace arguments {{\nstruct {name} {{\n  enum : int {{ {places} }};\n}};\n}}  // namespace arguments\n"
        f"namespace entry {{\n{entries}}}  // namespace entry\n\n"
    )


# --- the table --------------------------------------------------------------------------------------------------------


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
        letters = signature(row["schema"], row.get("kind") == "prim").partition(">")[0].upper()
        if "N" in letters and mask & sum(1 << DTYPES[name] for name in _INTEGRAL):
            # An integer tensor and a Python scalar are an int64 or a float32 together.
            mask |= 1 << DTYPES["Long"] | 1 << DTYPES["Float"]
        masks[row["source"]] = masks.get(row["source"], 0) | mask
    return dict(sorted(masks.items()))


@functools.cache
def _headers_of(path: Path) -> frozenset[Path]:
    """The headers of the runtime that a file includes, directly or not; generated ones include none of interest."""
    found: set[Path] = set()
    for name in re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE):
        for header in (HERE.parent / name, path.parent / name):
            if header.exists():
                found |= {header, *_headers_of(header)}
                break
    return frozenset(found)


def all_sources(rows: dict[str, dict[str, Any]]) -> dict[str, int]:
    """As source_masks, with the shared sources that these include, which are compiled for the types of those."""
    masks = source_masks(rows)
    shared: dict[str, int] = {}
    for name in SHARED_SOURCES:
        header = (HERE / name).with_suffix(".h")
        using = [mask for source, mask in masks.items() if header in _headers_of(HERE / source)]
        if using:
            shared[name] = functools.reduce(operator.or_, using)
    return masks | shared


def _entry(row: dict[str, Any], functions: dict[str, Function]) -> str:
    arguments = read_arguments(row["schema"], row.get("kind") == "prim")
    return functions[row["function"]].entry(tuple(a.position for a in arguments))


def table_text(rows: dict[str, dict[str, Any]], functions: dict[str, Function]) -> str:
    """The C++ source of the table of some rows. ``functions`` are those of all rows, as the headers have them."""
    entries = {name: _entry(row, functions) for name, row in rows.items()}
    declarations = "\n".join(f"void {entry}(KernelContext& ctx);" for entry in sorted(set(entries.values())))
    lines = "\n".join(
        f'    {{"{name}", entry::{entries[name]}, "{signature(row["schema"], row.get("kind") == "prim")}", '
        f"{writes(row['schema'], row.get('kind') == 'prim'):#x}u, {dtype_mask(row):#x}u}},"
        for name, row in sorted(rows.items(), key=lambda item: item[0].encode())
    )
    return f"""// Generated by runtime/kernels/generate.py.
#include "kernels/kernel.h"

namespace etir {{
namespace entry {{
{declarations}
}}  // namespace entry

namespace {{
constexpr Kernel kRows[] = {{
{lines}
}};
}}  // namespace

extern const KernelTable kKernels;
const KernelTable kKernels = {{kRows, {len(rows)}}};
}}  // namespace etir
"""


def rows_text(rows: dict[str, dict[str, Any]]) -> str:
    """What each kernel takes, for the link check: a library's rows, which lie beside it."""
    left_out = ("function", "source")
    return (
        json.dumps({n: {k: v for k, v in row.items() if k not in left_out} for n, row in rows.items()}, indent=1) + "\n"
    )


def target_text(rows: dict[str, dict[str, Any]]) -> str:
    """The manifest of a runtime with these kernels only: ``targets/etir.json``, and what each of them takes."""
    kernels: dict[str, dict[str, Any]] = json.loads(rows_text(rows))
    for name, row in rows.items():
        kernels[name]["library"] = Path(row["source"]).parent.name
    head: dict[str, Any] = json.loads((HERE.parents[1] / "targets" / "etir.json").read_text(encoding="utf-8"))
    libraries = dict.fromkeys(sorted({row["library"] for row in kernels.values()}), True)
    return json.dumps(head | {"libraries": libraries, "kernels": kernels}, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", type=Path, help="a file with an operator, and its element types, in each line")
    parser.add_argument("--family", action="append", default=[], help="a folder of kernels")
    parser.add_argument(
        "--limit", action="append", default=[], help="FOLDER=TYPE,...: a folder's kernels for these types"
    )
    parser.add_argument("--folder", action="append", default=[], type=Path, help="kernels of your own")
    parser.add_argument(
        "--target", action="store_true", help="write the manifest of such a runtime, for the link check, instead"
    )
    parser.add_argument("--rows", action="store_true", help="write the rows, for the link check, instead")
    parser.add_argument("--sources", action="store_true", help="write the list of source files instead")
    parser.add_argument("--dtypes", action="store_true", help="write each source file with a mask of its types instead")
    parser.add_argument("--headers", action="store_true", help="write the sources' headers to a folder instead")
    parser.add_argument("--build", action="store_true", help="write all that a build needs to a folder instead")
    arguments = parser.parse_args()
    try:
        return _run(arguments)
    except ValueError as error:
        print(f"{arguments.only or arguments.output}: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    rows = load_manifest(arguments.folder)
    functions = functions_of(rows)
    if arguments.headers or arguments.build:
        folder = arguments.output / "generated" if arguments.build else arguments.output
        for name, text in headers(rows).items():
            _write(folder / name, text)
    if arguments.headers:
        return 0
    if arguments.only is not None:
        rows = select(rows, read_selection(arguments.only.read_text(encoding="utf-8")))
    if arguments.family:
        rows = {name: row for name, row in rows.items() if str(Path(row["source"]).parent) in arguments.family}
    rows = limit(rows, arguments.limit)
    if arguments.build:
        _write(arguments.output / "sources.txt", sources_text(rows))
        _write(arguments.output / "kernel_table.cc", table_text(rows, functions))
        return 0
    if arguments.target:
        text = target_text(rows)
    elif arguments.rows:
        text = rows_text(rows)
    elif arguments.dtypes:
        text = sources_text(rows)
    elif arguments.sources:
        text = "".join(f"{source}\n" for source in all_sources(rows))
    else:
        text = table_text(rows, functions)
    _write(arguments.output, text)
    return 0


def sources_text(rows: dict[str, dict[str, Any]]) -> str:
    """Each source file with a mask of the element types that it is compiled for."""
    return "".join(f"{source} {mask:#x}u\n" for source, mask in all_sources(rows).items())


def _write(path: Path, text: str) -> None:
    """Leaves a file alone that has the text already: nothing is compiled again for it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
