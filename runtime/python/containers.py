"""Python's containers of a node of a :class:`~etir.runtime.structure.Structure`: flattened, and rebuilt.

Tuples, lists, dicts and their kin are built in. A class of the user's is found where it is: among the containers that
torch knows in this process, or in a module that has been imported. Nothing is imported because a file names it: where
the class is not known, results have its fields in a stand-in (:class:`Record`, or a named tuple of the same fields).
"""

from __future__ import annotations

import collections
import dataclasses
import json
import keyword
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etir.runtime.errors import E1213, usage_failure
from etir.runtime.structure import Structure

SEQUENCES = ("builtins.tuple", "builtins.list", "collections.deque", "collections.namedtuple")
MAPPINGS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
_PLAIN = (list, tuple, dict, collections.deque)
_FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "int": int, "float": float, "set": set, "tuple": tuple}


class Record(types.SimpleNamespace):
    """The fields of a container whose class is not known here, as attributes and by name: ``r.a``, ``r["a"]``.

    Children without names are ``r["0"]``, ``r["1"]`` and so on.
    """

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)


def is_container(value: object) -> bool:
    """Whether a value is a container that torch would flatten."""
    if isinstance(value, _PLAIN):
        return True
    return type(value) in _torch_nodes() or (dataclasses.is_dataclass(value) and not isinstance(value, type))


def is_built_in(structure: Structure) -> bool:
    """Whether the tree has no container but Python's own."""
    if structure.type is not None and structure.type not in (*SEQUENCES, *MAPPINGS):
        return False
    return all(map(is_built_in, structure.children))


def rebuild(structure: Structure, values: Iterator[Any]) -> Any:
    """The container with the next values as its leaves."""
    if structure.type is None:
        return next(values)
    return _make(structure, [rebuild(child, values) for child in structure.children])


def _make(structure: Structure, items: list[Any]) -> Any:
    match structure.type:
        case "builtins.list":
            return items
        case "builtins.tuple":
            return tuple(items)
        case "builtins.dict":
            return dict(zip(structure.keys or (), items, strict=True))
        case "collections.OrderedDict":
            return collections.OrderedDict(zip(structure.keys or (), items, strict=True))
        case "collections.defaultdict":
            recorded = structure.context if isinstance(structure.context, dict) else {}
            factory = _FACTORIES.get(str(recorded.get("default_factory_name")))
            return collections.defaultdict(factory, zip(structure.keys or (), items, strict=True))
        case "collections.deque":
            longest = _loaded(structure.context)
            return collections.deque(items, longest if isinstance(longest, int) and longest >= len(items) else None)
        case "collections.namedtuple":
            return named_tuple(structure)._make(items)
        case _:
            return _make_registered(structure, items)


def named_tuple(structure: Structure) -> Any:
    """The class of a named tuple: the user's where it is known here, else one with the same fields."""
    name, fields = str(structure.context), structure.keys or ()
    found = _class(name)
    own = _fields(found)
    if own is not None and len(own) == len(structure.children) and own == (fields or own):
        return found
    given = [str(field) for field in fields] or [f"_{i}" for i in range(len(structure.children))]
    short = name.rpartition(".")[2]
    return collections.namedtuple(
        short if short.isidentifier() and not keyword.iskeyword(short) else "Fields", given, rename=True
    )


def _fields(cls: Any) -> tuple[str, ...] | None:
    """The fields of a class of named tuples, None for anything else."""
    return getattr(cls, "_fields", None) if isinstance(cls, type) and issubclass(cls, tuple) else None


def _make_registered(structure: Structure, items: list[Any]) -> Any:
    """A container of a class that torch was told about; a :class:`Record` where it is not known here.

    Raises RuntimeFailure (E1213) when the class refuses its fields.
    """
    found = _class(str(structure.type))
    node = _torch_nodes().get(found)
    context = _NO_CONTEXT if node is None else _context(found, structure.context)
    keys = structure.keys or tuple(map(str, range(len(items))))
    fields = dict(zip(map(str, keys), items, strict=True)) | dict.fromkeys(_absent(structure))
    try:
        if node is not None and context is not _NO_CONTEXT:
            return node.unflatten_fn(items, context)
        if isinstance(found, type) and _init_fields(found) == set(fields):
            return found(**fields)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise usage_failure(E1213, f"the class {structure.type} refuses the outputs: {error}") from None
    return Record(**fields)


def _init_fields(cls: type) -> set[str] | None:
    """What a dataclass is made of, None for anything else."""
    return {f.name for f in dataclasses.fields(cls) if f.init} if dataclasses.is_dataclass(cls) else None


def _absent(structure: Structure) -> list[str]:
    """The fields of a dataclass that were None when the program was exported."""
    parts = _loaded(structure.context)
    is_pair = isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, list) for part in parts)
    return [str(name) for name in parts[1]] if is_pair else []


def children_of(structure: Structure, value: Any) -> Sequence[Any] | str:
    """What is in a container, in the order of the tree's children; a text that says what is wrong with it instead."""
    kind = structure.type
    if kind in MAPPINGS:
        return _by_key(structure.keys or (), value) if isinstance(value, Mapping) else _unlike(structure, value)
    if kind in SEQUENCES:
        fits = isinstance(value, list | tuple | collections.deque) and len(value) == len(structure.children)
        return list(value) if fits else _unlike(structure, value)
    node = None if isinstance(value, _PLAIN) else _torch_nodes().get(type(value))
    if node is not None:
        children, context = node.flatten_fn(value)
        children = list(children)
        expected = _context(type(value), structure.context)
        if expected is not _NO_CONTEXT and expected != context:
            return f"got {_described(context)}; the program takes {_described(expected)}"
        return children if len(children) == len(structure.children) else _unlike(structure, value)
    if structure.keys is not None:
        fields = value if isinstance(value, Mapping) else _given_fields(value)
        absent = _absent(structure)
        if fields is not None and all(fields.get(name) is None for name in absent):
            return _by_key(structure.keys, {key: item for key, item in fields.items() if key not in absent})
    return _unlike(structure, value)


def _given_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass that are not None; None for anything else."""
    if not dataclasses.is_dataclass(value):
        return None
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: item for name, item in fields.items() if item is not None}


def _by_key(keys: Sequence[Any], value: Mapping[Any, Any]) -> Sequence[Any] | str:
    if len(value) == len(keys) and all(key in value for key in keys):
        return [value[key] for key in keys]
    return f"got {', '.join(map(str, value)) or 'none'}; the program takes {', '.join(map(str, keys)) or 'none'}"


def _unlike(structure: Structure, value: object) -> str:
    given = (
        f"{len(value)} values" if isinstance(value, list | tuple | dict) else f"a value of type {type(value).__name__}"
    )
    if structure.type in SEQUENCES:
        return f"got {given}; the program takes {len(structure.children)}"
    names = ", ".join(map(str, structure.keys or ()))
    return f"got {given}; the program takes {names or f'a {structure.type}'}"


def _described(context: Any) -> str:
    """What torch records of a container, for people: the fields of a dataclass, the start of anything else."""
    if isinstance(context, list) and len(context) == 2 and all(isinstance(part, list) for part in context):
        return ", ".join(map(str, context[0])) or "none"
    text = str(context)
    return text if len(text) <= 60 else text[:57] + "..."


# --- what this process knows ------------------------------------------------------------------------------------------


_NO_CONTEXT = object()


def _pytree() -> Any:
    """torch's module of containers where torch has been imported, else None."""
    return sys.modules.get("torch.utils._pytree")


def _torch_nodes() -> Mapping[Any, Any]:
    return getattr(_pytree(), "SUPPORTED_NODES", {})


def _serialized() -> Mapping[str, Any]:
    """The classes that torch knows by a serialized name."""
    return getattr(_pytree(), "SERIALIZED_TYPE_TO_PYTHON_TYPE", {})


def _context(cls: Any, dumped: Any) -> Any:
    """What torch's functions for a class take as context, from what the file has of it."""
    record = getattr(_pytree(), "SUPPORTED_SERIALIZED_TYPES", {}).get(cls)
    try:
        if record is not None and record.from_dumpable_context is not None:
            return record.from_dumpable_context(dumped)
        return _loaded(dumped)
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError):
        return _NO_CONTEXT


def _class(name: str) -> Any:
    """The class of a name in the file: as torch writes it, of an imported module, or known to torch."""
    found = _serialized().get(name) or _imported(name)
    if found is None:
        # Classes made inside of functions have no other way to them.
        for cls in reversed(list(_torch_nodes())):
            if f"{getattr(cls, '__module__', None)}.{getattr(cls, '__qualname__', None)}" == name:
                return cls
    return found


def _imported(name: str) -> Any:
    """What ``module.Class.Inner`` names, if its module has been imported; else None."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:end]))
        if found is not None:
            for part in parts[end:]:
                found = getattr(found, part, None)
            return found if isinstance(found, type) else None
    return None


def _loaded(context: Any) -> Any:
    try:
        return json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return None
