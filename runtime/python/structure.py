"""How the arguments and results of a method are packed into Python's containers: the tree that its file has.

The file has a text for each (``ContainerMetadata``): torch's JSON form of a tree of containers, as ``treespec_dumps``
writes it. The root of the arguments is a pair of the positional and the keyword arguments. A node may have the member
``names`` besides, which torch's reader does not look at: what positional arguments and the fields of named tuples are
called. Text in another form (ExecuTorch's own) is a tree that is not known; such a method takes flat arguments.

This module reads the text and derives the names of leaves. It needs no torch: the importer, which writes the text,
takes the names of the program at other levels from here too, so that they are the same at all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_DICTS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")
_KEYS = (str, int, float, bool, type(None))
"""What a key in a dict may be: what JSON has and Python can hash."""
_DEEPEST = 100
"""Containers in containers that are followed: a file may say anything."""


@dataclass(frozen=True)
class Structure:
    """A node of the tree.

    Attributes:
        type: the serialized name of the container's type, ``"builtins.dict"``; None for a leaf.
        children: what is in it, in order.
        keys: what the children are called: keys of a dict, fields, names of arguments; None where they are numbered.
        context: what else torch recorded of the container, as it stands in the file.
        leaves: how many values are in it.
    """

    type: str | None = None
    children: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] | None = None
    context: Any = None
    leaves: int = 1


def parse_structure(text: str) -> Structure | None:
    """The tree that a text describes, or None when it is none that can be read."""
    try:
        protocol, root = json.loads(text)
        return _node(root, _DEEPEST) if protocol == 1 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _node(spec: dict[str, Any], depth: int) -> Structure:
    type, context = spec["type"], spec["context"]
    if type is None:
        return Structure()
    if depth == 0:
        raise ValueError("containers are nested too deeply")
    children = [_node(child, depth - 1) for child in spec["children_spec"]]
    return container(str(type), children, _keys(type, context, spec.get("names"), len(children)), context)


def container(
    type: str, children: Sequence[Structure], keys: tuple[Any, ...] | None = None, context: Any = None
) -> Structure:
    """A node that is no leaf."""
    return Structure(type, tuple(children), keys, context, sum(child.leaves for child in children))


def _keys(type: str, context: Any, names: Any, count: int) -> tuple[Any, ...] | None:
    """What the children of a node are called. Raises ValueError for a dict that has other keys than children."""
    if names is None and type not in _DICTS:
        names = _fields(context)
        return tuple(names) if len(names) == count and names else None
    if names is None:
        names = context["dict_context"] if type == "collections.defaultdict" else json.loads(context)
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, _KEYS) for name in names):
        raise ValueError("the keys of a container do not fit its children")
    return tuple(names)


def _fields(context: Any) -> list[str]:
    """The names in what a class recorded: a list, or, of dataclasses, two: fields and those that are None."""
    try:
        names = json.loads(context) if isinstance(context, str) else context
    except ValueError:
        return []
    if isinstance(names, list) and len(names) == 2 and all(isinstance(part, list) for part in names):
        names = names[0]
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def leaf_names(structure: Structure | None, count: int, prefix: str) -> list[str | None]:
    """What ``count`` leaves are called: the keys on the way to each, joined by ``_``; None without any key on the way.

    Of the arguments pass :func:`arguments_of`. ``prefix`` comes before a way that starts with a number:
    ``({"a": x},)`` has the leaf ``output_0_a``. Names are made different by numbers at their ends.
    """
    if structure is None or structure.leaves != count:
        return [None] * count
    taken: dict[str, None] = {}
    names: list[str | None] = []
    for path, has_key in _paths(structure):
        if not has_key:
            names.append(None)
            continue
        parts = [prefix, *path] if isinstance(path[0], _Number) else path
        name = base = "_".join(map(str, parts))
        number = 0
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken[name] = None
        names.append(name)
    return names


class _Number(int):
    """The number of a child that has no key."""


def _paths(structure: Structure) -> Iterator[tuple[list[Any], bool]]:
    """The way to each leaf, and whether it has a key."""
    if structure.type is None:
        yield [], False
        return
    for number, child in enumerate(structure.children):
        key = None if structure.keys is None else structure.keys[number]
        for path, has_key in _paths(child):
            yield [_Number(number) if key is None else key, *path], has_key or key is not None


def arguments_of(structure: Structure | None) -> Structure | None:
    """The arguments of a method side by side, positional ones first, or None for a tree that has no arguments.

    Positional arguments without names have None as keys.
    """
    if structure is None or len(structure.children) != 2:
        return None
    positional, keywords = structure.children
    if positional.type != "builtins.tuple" or keywords.type not in _DICTS[:2]:
        return None
    names = positional.keys or (None,) * len(positional.children)
    return container("builtins.dict", positional.children + keywords.children, names + (keywords.keys or ()))


def flat_structure(names: Sequence[str]) -> str:
    """The text for a tuple of as many values as there are names, with these names."""
    return json.dumps([1, _flat(names)])


def flat_arguments(names: Sequence[str]) -> str:
    """The text for as many positional arguments as there are names, with these names."""
    children = [_flat(names), {"type": "builtins.dict", "context": "[]", "children_spec": []}]
    return json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": children}])


def _flat(names: Sequence[str]) -> dict[str, Any]:
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    return {"type": "builtins.tuple", "context": "null", "children_spec": [leaf] * len(names), "names": list(names)}
