"""Manifests: what a runtime can execute.

A manifest is a JSON file: limits and backends of the runtime, and one entry per kernel with its schema, library and
the rules of :mod:`etir.targets.rules`. It answers the question of the link check: will this call, with these types, dim
orders and ranks, run there and give right results? Where the runtime executes a call but writes wrong bytes, the
manifest says no.

Every ``NAME.json`` beside this module is a target called NAME, and a file anywhere is one by its path: a new target is
one file. ``features`` names what tools can say of a runtime besides; see :data:`FEATURES`. Where ``kernels`` is text
instead of entries, it is a folder, relative to the manifest: each folder in it that has a ``kernels.json`` is a
library, with the entries in there. So a kernel of etir's own runtime is written down once, beside its source
(``runtime/kernels/FAMILY/kernels.json``), for the C++ build and for the compiler. What a user links into a runtime
besides is added by :func:`extend_target`, or by installed plug-ins.

Form of an entry::

    "aten::relu.out": {
        "schema": "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
        "library": "portable",          # the library that registers it; see Manifest.libraries
        "dtypes": [{"self": "REALHBF16", "out": "=self"}],
        "dim_orders": "same",
        "kind": "prim",                 # optional; default "kernel"
        "ranks": {"self": [3, 4]},      # optional; least and greatest rank of an argument
        "items": {"indices": [1, 1]},   # optional; least and greatest number of tensors in a list
        "complex_shapes": "equal",      # optional; which complex tensors it does not get wrong, see KernelEntry
        "optimized": true,              # optional; a vectorized kernel replaces the portable one
        "in_place": ["self"],           # optional; operands that the first result may be written over
        "quantized": {"aten.add.Tensor": ["self", "other"]},  # optional; what it computes on int8, see KernelEntry
        "resizes_output": false,        # optional; default true
        "notes": "...",                 # optional
        "wrong": [                      # optional; calls that it takes and gets wrong, see targets/wrong.py
            {"dtypes": {"self": "Int+Long"}, "why": "..."},
            {"values": "NaN", "why": "..."}
        ]
    }
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from etir.diagnostics import EtirError
from etir.dialects.aten.table import find_out_variant
from etir.dialects.schema import Argument, OpSchema, SchemaKind, parse_schema
from etir.emit.formats.scalar_type import ScalarType
from etir.extensions import installed_plugins, registry_cache, registry_changed, taken, warn
from etir.targets.dtypes import SETS, DTypeLike, scalar_type
from etir.targets.errors import E0601, E0602
from etir.targets.rules import Call, DimOrder, DimOrderRule, DtypeRule, Literal, Shape
from etir.targets.wrong import Wrong

T = TypeVar("T")
PerTensor = Sequence[T | Sequence[T] | None] | Mapping[str, T | Sequence[T] | None]
"""One item per tensor argument, in schema order with the results last, or by name; a list where the argument is one."""

FOLDER = Path(__file__).resolve().parent
DEFAULT_TARGET = "executorch"

FEATURES: Mapping[str, str] = {
    "dynamic_memory": "tensors whose sizes have no upper bound get memory from the client's allocator at run time",
    "runtime_memory": "method and temporary memory follow etir.emit.runtime_memory, to the byte",
    "parts": "kernels take as long for the parts of a result, one after the other, as for the whole",
}
"""What a manifest's ``features`` may name: a word for each, and what holds of a runtime that has it."""


@dataclass(frozen=True)
class KernelEntry:
    """One kernel. ``ranks`` gives the least and greatest rank, inclusive, of the arguments that have a limit, and
    ``items`` the least and greatest number of tensors, absent ones not counted, of lists that have one.

    ``temp`` is an expression over the arguments for the bytes of scratch memory that the kernel asks for, empty for
    none (see :mod:`etir.emit.runtime_memory`). ``kind`` is ``kernel`` or ``prim`` (an operator on values that is called
    without the trailing return slot); ``library`` is where it lives. A kernel that does not ``resizes_output``
    needs its results in their final size. With complex tensors all have to have dims where ``complex_shapes`` is
    ``with_dims``, and the same ones where it is ``equal``. The first result may have the bytes of one of the
    operands ``in_place``, where both have the same dtype, dims and dim order: the kernel has read an element before
    it writes it. Of a list of tensors each may already be where the result has it. ``selected`` are the element
    types that its tensors may have in a selective build, None where that is no matter. ``wrong`` are the calls that
    the runtime takes and gets wrong, or ends the process on. ``quantized`` are the operators of float32 that it
    computes between dequantize and quantize operators, each with its arguments that are int8 then; those with none are
    layers whose input it quantizes itself.
    """

    name: str
    schema_text: str
    library: str
    dtypes: DtypeRule
    dim_orders: DimOrderRule
    kind: str = "kernel"
    ranks: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    items: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    optimized: bool = False
    resizes_output: bool = True
    temp: str = ""
    notes: str = ""
    selected: tuple[ScalarType, ...] | None = None
    complex_shapes: str = "any"
    wrong: tuple[Wrong, ...] = ()
    in_place: tuple[str, ...] = ()
    quantized: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __post_init__(self) -> None:
        if self.complex_shapes not in ("any", "with_dims", "equal"):
            raise E0602.error(f"{self.name}: complex_shapes '{self.complex_shapes}' is none of any, with_dims, equal")

    @cached_property
    def schema(self) -> OpSchema:
        """The parsed schema."""
        return parse_schema(self.schema_text)

    @cached_property
    def tensor_arguments(self) -> tuple[Argument, ...]:
        """The arguments that are tensors or lists of tensors, in schema order."""
        return tuple(a for a in self.schema.arguments if a.is_tensor)

    def check(
        self,
        dtypes: PerTensor[DTypeLike],
        dim_orders: PerTensor[DimOrder] | None = None,
        ranks: PerTensor[int] | None = None,
        others: Mapping[str, Literal] | None = None,
        shapes: PerTensor[Shape] | None = None,
    ) -> str | None:
        """``None`` if the kernel takes such a call, otherwise the reason; see :meth:`Manifest.check_call`."""
        others = others or {}
        types = {name: tuple(map(scalar_type, items)) for name, items in self._by_name("dtypes", dtypes).items()}
        if self.selected is not None:
            for argument, items in types.items():
                left_out = next((t.name for t in items if t not in self.selected), None)
                if left_out is not None:
                    built = ", ".join(t.name.lower() for t in self.selected)
                    return f"left out of this build: '{argument}' has dtype {left_out.lower()}, built are {built}"
        call = Call(types, others)
        problem = self.dtypes.failure(call)
        if problem is not None:
            return f"unsupported dtypes: {problem}"
        for name, limits in self.items.items():
            if not limits[0] <= len(types[name]) <= limits[1]:
                return f"unsupported list: '{name}' has {len(types[name])} tensors, must have {range_text(limits)}"
        orders = {} if dim_orders is None else self._by_name("dim_orders", dim_orders)
        sizes = {} if shapes is None else self._by_name("shapes", shapes)
        problem = self.dim_orders.failure(orders, sizes, others)
        if problem is not None:
            return f"unsupported dim orders: {problem}"
        if ranks is not None:
            known = self._by_name("ranks", ranks)
        else:
            known = {name: tuple(map(len, items)) for name, items in (sizes or orders).items()}
        for name, limits in self.ranks.items():
            for rank in known.get(name, ()):
                if not limits[0] <= rank <= limits[1]:
                    return f"unsupported rank: '{name}' has rank {rank}, must be {range_text(limits)}"
        for wrong in self.wrong:
            if wrong.holds(call, known, sizes):
                return f"{wrong.effect}: {wrong.why}"
        if self.complex_shapes != "any" and any(t in SETS["COMPLEXH"] for items in types.values() for t in items):
            problem = _shape_failure(sizes, self.complex_shapes == "equal")
            if problem is not None:
                return f"unsupported shapes: {problem}"
        if not self.resizes_output:
            for argument in self.tensor_arguments:
                if argument.is_write and any(None in shape for shape in sizes.get(argument.name, ()) if shape):
                    return f"dynamic result: it does not resize '{argument.name}', whose sizes are dynamic"
        return None

    def _by_name(self, what: str, given: PerTensor[Any]) -> dict[str, tuple[Any, ...]]:
        """Items of each argument as a tuple, empty if absent. Raises E0602 if they do not fit the schema."""
        arguments = self.tensor_arguments
        names = [a.name for a in arguments]
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in names]
            if unknown:
                raise E0602.error(f"{self.name} has no tensor argument '{unknown[0]}'; it has {', '.join(names)}")
            values = [given.get(name) for name in names]
        elif len(given) == len(names):
            values = list(given)
        else:
            raise E0602.error(
                f"{len(given)} {what} are given for {self.name}, which has {len(names)} tensor arguments: "
                f"{', '.join(names)}"
            )
        result: dict[str, tuple[Any, ...]] = {}
        for argument, value in zip(arguments, values, strict=True):
            if value is None:
                result[argument.name] = ()
            elif argument.is_list:
                result[argument.name] = tuple(item for item in value if item is not None)
            else:
                result[argument.name] = (value,)
        return result


@dataclass(frozen=True)
class Manifest:
    """A runtime: its kernels, backends and limits.

    ``libraries`` maps each library to whether the runtime always has it; kernels of the others need an extra library
    to be linked or imported. ``tensor_alignment`` is in bytes: what the runtime guarantees for the start of constants
    and planned memory. ``limits`` holds ``rank``, ``operator_name`` (characters), ``instructions`` (executed per run)
    and ``kernel_key`` (bytes, see the runtime's kernel lookup). ``features`` are words of :data:`FEATURES`.
    ``unchecked`` are operators of linked libraries that have no row: any call of them is taken to be right.
    """

    name: str
    version: str
    schema_version: int
    tensor_alignment: int
    limits: Mapping[str, int]
    backends: tuple[str, ...]
    libraries: Mapping[str, bool]
    kernels: Mapping[str, KernelEntry]
    features: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [feature for feature in self.features if feature not in FEATURES]
        if unknown:
            raise E0602.error(f"{self.name}: no feature is called '{unknown[0]}'; there are {', '.join(FEATURES)}")

    def lookup(self, op_name: str) -> KernelEntry | None:
        """The kernel called ``op_name`` (``aten::add.out``), ``None`` if there is none."""
        return self.kernels.get(op_name)

    def out_variants(self, schema: OpSchema) -> list[OpSchema]:
        """The schemas of all kernels of an operator's name that write into given tensors."""
        start = f"{schema.namespace}::{schema.name}."
        found = [entry.schema for name, entry in self.kernels.items() if name.startswith(start)]
        return [candidate for candidate in found if candidate.kind is SchemaKind.OUT]

    def out_variant(self, schema: OpSchema) -> OpSchema | None:
        """The kernel that computes what a functional operator does, apart from where the result goes."""
        return find_out_variant(schema, self.out_variants(schema))

    def check_call(
        self,
        op_name: str,
        dtypes: PerTensor[DTypeLike],
        dim_orders: PerTensor[DimOrder] | None = None,
        ranks: PerTensor[int] | None = None,
        others: Mapping[str, Literal] | None = None,
        shapes: PerTensor[Shape] | None = None,
    ) -> str | None:
        """``None`` if the runtime executes such a call correctly, otherwise the reason as text.

        ``dtypes``, ``dim_orders`` and ``ranks`` have one item per tensor argument of the schema, results included, in
        order or by name: a list for a list of tensors, ``None`` for an absent one. So has ``shapes``, where a size may
        be ``None``, not known; they matter because some kernels broadcast channels-last tensors wrongly. Ranks are
        taken from shapes or dim orders if left out; what is left out of all is not checked. ``others`` holds the
        arguments that are no tensors, by name: a Python value, a ``ScalarType`` for a dtype, or ``int``, ``float``,
        ``bool`` itself for a runtime scalar. Names left out are not checked.

        Raises E0602 if the items do not fit the schema.
        """
        entry = self.lookup(op_name)
        if entry is None:
            return f"{self.name} {self.version} has no kernel '{op_name}'"
        return entry.check(dtypes, dim_orders, ranks, others, shapes)

    def nearest(self, op_name: str, count: int = 3) -> tuple[str, ...]:
        """Up to ``count`` kernels to suggest for a missing one: other overloads first, then similar names."""
        base = op_name.partition(".")[0]
        overloads = [name for name in self.kernels if name.partition(".")[0] == base]
        similar = difflib.get_close_matches(
            op_name, [n for n in self.kernels if n not in overloads], n=count, cutoff=0.75
        )
        return (*overloads, *similar)[:count]


@cache
def available() -> tuple[str, ...]:
    """The names that :func:`load` knows, the default target first."""
    names = sorted(name.removesuffix(".json") for name in os.listdir(FOLDER) if name.endswith(".json"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_TARGET))


@registry_cache
def load(name: str) -> Manifest:
    """The manifest of a target: ``executorch`` is the stock 1.5.1 runtime, ``etir`` this project's own.

    A name that ends in ``.json`` is the path of a manifest, such as a selective build writes. What was added to the
    target of the manifest's name is in it. Raises E0601 for an unknown name or a file that cannot be read, and E0602.
    """
    manifest = _load_plain(name)
    for addition in _ADDED.get(manifest.name, ()):
        manifest = addition.to(manifest)
    for owner, plugin in installed_plugins().items():
        for source in plugin.kernels.get(manifest.name, ()):
            try:
                manifest = _addition(source, owner).to(manifest)
            except EtirError as error:
                warn(error)
    return manifest


@dataclass(frozen=True)
class _Addition:
    """What a library adds to a target."""

    library: str
    kernels: Mapping[str, KernelEntry]
    backends: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    replace: bool = False

    def to(self, manifest: Manifest) -> Manifest:
        """The manifest with it. Raises E1303 for a kernel that the manifest has, unless it is to be replaced."""
        for name in self.kernels:
            if name in manifest.kernels and not self.replace:
                holder = f"library '{manifest.kernels[name].library}' of target '{manifest.name}'"
                raise taken("kernels", name, holder, f"'{self.library}'")
        unknown = (name for name in self.unchecked if name not in manifest.kernels and name not in self.kernels)
        return dataclasses.replace(
            manifest,
            libraries={**manifest.libraries, **{entry.library: True for entry in self.kernels.values()}},
            kernels={**manifest.kernels, **self.kernels},
            backends=tuple(dict.fromkeys([*manifest.backends, *self.backends])),
            unchecked=tuple(dict.fromkeys([*manifest.unchecked, *unknown])),
        )


_ADDED: dict[str, list[_Addition]] = {}
"""What :func:`extend_target` has added, by the name of the target."""

Rows: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


def extend_target(
    target: str,
    kernels: Rows | None = None,
    *,
    library: str = "",
    operators: Sequence[str] = (),
    backends: Sequence[str] = (),
    replace: bool = False,
) -> None:
    """Say that a library of your own is linked into a target's runtime: the link check knows what it has.

    ``kernels`` is a folder with a ``kernels.json``, such a file, or its rows. ``operators`` of the library that have no
    row are taken whatever they are called with; ``backends`` are runtime halves of delegates, as files name them.
    ``library`` is what messages call it (default: the folder's name). What is added belongs to every manifest that says
    it is the target's, selective builds included; the same rows from the same library again are no conflict.

    Raises E0601 for an unknown target or a file that cannot be read, E0602 for a malformed row, and E1303 for a kernel
    that the target has, unless it is to be replaced (``replace``).
    """
    if target not in available():
        raise E0601.error(f"unknown target '{target}'; available are {', '.join(available())}")
    made = _addition({} if kernels is None else kernels, library)
    made = dataclasses.replace(made, backends=tuple(backends), unchecked=tuple(operators), replace=replace)
    others = [addition for addition in _ADDED.get(target, ()) if addition.library != made.library or not made.library]
    manifest = _load_plain(target)
    for addition in [*others, made]:
        manifest = addition.to(manifest)
    _ADDED[target] = [*others, made]
    registry_changed()


def _addition(source: Rows, library: str) -> _Addition:
    """The rows of a folder, of a file, or as they are. Raises E0601 and E0602."""
    if isinstance(source, Mapping):
        rows: Mapping[str, Any] = source
        place = library or "added rows"
    else:
        file = Path(source) / "kernels.json" if Path(source).is_dir() else Path(source)
        place = str(file)
        library = library or file.resolve().parent.name
        try:
            rows = _read_json(file)
        except (OSError, UnicodeDecodeError) as error:
            raise E0601.error(
                f"the kernels of '{file}' cannot be read: {error}", help="name a folder with a kernels.json"
            ) from None
    found: dict[str, KernelEntry] = {}
    for name, row in rows.items():
        try:
            found[name] = kernel_entry(name, {"library": library, **row})
            _check_in_place(found[name])
        except KeyError as error:
            raise E0602.error(f"{place}: '{name}' lacks the field {error}") from None
        except (TypeError, ValueError) as error:
            raise E0602.error(f"{place}: '{name}' is malformed: {error}") from None
    return _Addition(library, found)


@cache
def _load_plain(name: str) -> Manifest:
    """The manifest as its file has it."""
    if name.endswith(".json"):
        try:
            return make_manifest(read_target(Path(name)), name)
        except (OSError, UnicodeDecodeError) as error:
            raise E0601.error(f"the target '{name}' cannot be read: {error}") from None
    if name not in available():
        raise E0601.error(f"unknown target '{name}'; available are {', '.join(available())}")
    return make_manifest(read_target(FOLDER / f"{name}.json"), name)


def read_target(path: Path) -> dict[str, Any]:
    """The data of a manifest's file, with the kernels in it that it has in files of their own.

    Raises ``OSError``, ``UnicodeDecodeError`` and E0602.
    """
    data = _read_json(path)
    folder = data.get("kernels")
    if not isinstance(folder, str):
        return data
    files: dict[str, str] = {}
    for entry in os.scandir(path.parent / folder):
        file = os.path.join(entry.path, "kernels.json")
        if os.path.exists(file):
            files[entry.name] = file
    libraries = sorted(files)
    rows: dict[str, dict[str, Any]] = {}
    for library in libraries:
        for name, row in _read_json(files[library]).items():
            if name in rows:
                raise E0602.error(f"{files[library]}: '{name}' is also in {rows[name]['library']}")
            row["library"] = library
            rows[name] = row
    return data | {"libraries": dict.fromkeys(libraries, True), "kernels": dict(sorted(rows.items()))}


def _read_json(path: Path | str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            data: object = json.load(file)
    except json.JSONDecodeError as error:
        raise E0602.error(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise E0602.error(f"{path} holds no JSON object")
    return cast("dict[str, Any]", data)


def other_target(name: str | None, takes: Callable[[Manifest], bool]) -> str | None:
    """The first target besides ``name`` that takes a call: one to propose where ``name`` does not."""
    return next((other for other in available() if other != name and takes(load(other))), None)


def kernel_forms(schema: OpSchema) -> list[OpSchema]:
    """The out variants of an operator's name that a runtime of :func:`available` has a kernel for."""
    found = [form for name in available() for form in load(name).out_variants(schema)]
    return list({form.op_name: form for form in found}.values())


def make_manifest(data: Mapping[str, Any], source: str) -> Manifest:
    """A manifest from the data of file ``source``. Raises E0602 with the kernel and what is wrong with it."""
    try:
        return Manifest(
            name=data["name"],
            version=data["version"],
            schema_version=data["schema_version"],
            tensor_alignment=data["tensor_alignment"],
            limits=data["limits"],
            backends=tuple(data["backends"]),
            libraries=data["libraries"],
            kernels={name: kernel_entry(name, entry) for name, entry in data["kernels"].items()},
            features=tuple(data.get("features", ())),
        )
    except KeyError as error:
        raise E0602.error(f"{source} lacks the field {error}") from None


def range_text(limits: tuple[int, int]) -> str:
    """The smallest and the largest number that is allowed, in words."""
    return f"{limits[0]}" if limits[0] == limits[1] else f"{limits[0]} to {limits[1]}"


def _limits(limits: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, int]]:
    return {argument: (least, greatest) for argument, (least, greatest) in limits.items()}


def _check_in_place(entry: KernelEntry) -> None:
    """Raises E0602 for a name in ``in_place`` that is no tensor which the kernel only reads."""
    operands = [a.name for a in entry.tensor_arguments if not a.is_write]
    for name in entry.in_place:
        if name not in operands:
            raise E0602.error(f"{entry.name}: 'in_place' names '{name}', its operands are {', '.join(operands)}")


def _shape_failure(sizes: Mapping[str, Sequence[Shape]], equal: bool) -> str | None:
    """Why a kernel that broadcasts real tensors only does not take complex ones of these shapes."""
    shapes = [(name, shape) for name, items in sizes.items() for shape in items]
    if all(shape and (shape == shapes[0][1] or not equal) for _, shape in shapes):
        return None
    shown = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes)
    return f"complex tensors must have {'the same dims' if equal else 'dims'}: {shown}"


def kernel_entry(name: str, entry: Mapping[str, Any]) -> KernelEntry:
    """One kernel from its row in a manifest. Raises E0602, and KeyError for a field that is not there."""
    return KernelEntry(
        name=name,
        schema_text=entry["schema"],
        library=entry["library"],
        dtypes=DtypeRule.parse(entry["dtypes"]),
        dim_orders=DimOrderRule.parse(entry["dim_orders"]),
        ranks=_limits(entry["ranks"]) if "ranks" in entry else {},
        items=_limits(entry["items"]) if "items" in entry else {},
        selected=tuple(map(scalar_type, entry["selected"])) if "selected" in entry else None,
        kind=entry.get("kind", "kernel"),
        optimized=entry.get("optimized", False),
        resizes_output=entry.get("resizes_output", True),
        temp=entry.get("temp", ""),
        notes=entry.get("notes", ""),
        complex_shapes=entry.get("complex_shapes", "any"),
        wrong=tuple(map(Wrong.parse, entry.get("wrong", ()))),
        in_place=tuple(entry.get("in_place", ())),
        quantized={operator: tuple(names) for operator, names in entry.get("quantized", {}).items()},
    )
