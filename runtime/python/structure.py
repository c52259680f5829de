"""Python's containers as the flat inputs of a method.

A file says how the program's inputs were packed, in torch's JSON form of a tree: positional arguments and keyword
arguments, with tuples, lists and dicts inside. Arguments are taken apart along that tree, so that dicts may have their
keys in any order and arguments may be passed by keyword; files without it take flat arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etir.runtime.errors import E1208, usage_failure

_CONTAINERS = (list, tuple, dict)


@dataclass(frozen=True)
class Structure:
    """A node of the tree: ``keys`` for dicts, ``children`` for all containers, neither for a leaf."""

    children: tuple[Structure, ...] | None = None
    keys: tuple[Any, ...] | None = None

    @property
    def leaves(self) -> int:
        """Inputs below."""
        return 1 if self.children is None else sum(child.leaves for child in self.children)


def parse_structure(text: str) -> Structure | None:
    """The tree of a method's inputs, or None when the file has none that can be read."""
    try:
        protocol, root = json.loads(text)
        return _node(root) if protocol == 1 else None
    except (ValueError, KeyError, TypeError):
        return None


def _node(spec: Mapping[str, Any]) -> Structure:
    if spec["type"] is None:
        return Structure()
    children = tuple(_node(child) for child in spec["children_spec"])
    keys: tuple[Any, ...] | None = None
    if spec["type"] in ("builtins.dict", "collections.OrderedDict"):
        keys = tuple(json.loads(spec["context"]))
        if len(keys) != len(children):
            raise ValueError("a dict has other keys than children")
    return Structure(children, keys)


def input_names(structure: Structure | None, count: int) -> list[str | None]:
    """For each input the keyword it is passed by, or None."""
    names: list[str | None] = []
    if structure is not None and structure.children is not None and len(structure.children) == 2:
        positional, keywords = structure.children
        names += [None] * positional.leaves
        for key, child in zip(keywords.keys or (), keywords.children or (), strict=False):
            names += [str(key)] * child.leaves
    return names if len(names) == count else [None] * count


def flatten(args: Sequence[Any], kwargs: Mapping[str, Any], structure: Structure | None) -> Sequence[Any]:
    """The inputs in order. Raises error E1208 when the arguments do not have the structure of the program's."""
    for argument in args:
        if isinstance(argument, _CONTAINERS):
            break
    else:
        if not kwargs:
            return args
    if structure is None or structure.children is None or len(structure.children) != 2:
        if kwargs:
            raise usage_failure(E1208, "the program does not say what its inputs are called", help="pass them in order")
        return list(_leaves(args))
    flat: list[Any] = []
    positional, keywords = structure.children
    _take(args, positional, flat, "the arguments")
    _take(kwargs, keywords, flat, "the keyword arguments")
    return flat


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, _CONTAINERS):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _take(value: Any, structure: Structure, flat: list[Any], where: str) -> None:
    if structure.children is None:
        if isinstance(value, _CONTAINERS):
            raise usage_failure(E1208, f"{where}: a {type(value).__name__} where the program takes one value")
        flat.append(value)
    elif structure.keys is not None:
        if not isinstance(value, Mapping) or sorted(map(str, value)) != sorted(map(str, structure.keys)):
            given = ", ".join(map(str, value)) if isinstance(value, Mapping) else f"a {type(value).__name__}"
            expected = ", ".join(map(str, structure.keys)) or "none"
            raise usage_failure(E1208, f"{where}: got {given or 'none'}; the program takes {expected}")
        for key, child in zip(structure.keys, structure.children, strict=True):
            _take(value[key], child, flat, f"{where}, '{key}'")
    else:
        if not isinstance(value, list | tuple) or len(value) != len(structure.children):
            given = f"{len(value)} values" if isinstance(value, _CONTAINERS) else f"a {type(value).__name__}"
            raise usage_failure(E1208, f"{where}: got {given}; the program takes {len(structure.children)}")
        for i, (item, child) in enumerate(zip(value, structure.children, strict=True)):
            _take(item, child, flat, f"{where}, item {i}")
