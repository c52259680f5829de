"""The containers of a program's inputs and outputs as text, and back as torch's pytrees.

The text is what ``torch.utils._pytree.treespec_dumps`` writes, and goes through all levels into the ``.pte`` file
(``container_meta_type``), where ``etir.runtime`` reads it. Three things are added that torch's form has no place for,
in ways that its reader passes over or that only occur where it would refuse to write:

* positional arguments and the fields of named tuples have their names, in a member ``names`` of their container;
* a class that has no serialized name goes by its module and name;
* a container whose context is no JSON becomes a tuple of the same leaves.

::

    def forward(self, x, batch): ...      # forward(x, {"ids": i, "mask": m})

    [1, {"type": "builtins.tuple", "context": "null", "children_spec": [
      {"type": "builtins.tuple", "context": "null", "names": ["x", "batch"], "children_spec": [
        {"type": null, "context": null, "children_spec": []},
        {"type": "builtins.dict", "context": "[\\"ids\\", \\"mask\\"]", "children_spec": [...]}]},
      {"type": "builtins.dict", "context": "[]", "children_spec": []}]}]
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from torch.utils import _pytree as pytree

_PROTOCOL = 1
_LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
_TUPLE: dict[str, Any] = {"type": "builtins.tuple", "context": "null"}


def dump_tree(spec: pytree.TreeSpec | None) -> str:
    """A tree as text; empty for none."""
    return "" if spec is None else _text(_node(spec))


def dump_arguments(spec: pytree.TreeSpec | None, names: Sequence[str] | None) -> str:
    """The tree of a program's arguments as text, with the names of the positional ones where they are known.

    ``names`` are those of all arguments, positional ones first.
    """
    if spec is None:
        return ""
    root = _node(spec)
    if names is not None and spec.type is tuple and len(root["children_spec"]) == 2:
        positional = root["children_spec"][0]
        count = len(positional["children_spec"])
        if 0 < count <= len(names) and positional["type"] == "builtins.tuple":
            positional["names"] = list(names[:count])
    return _text(root)


def load_tree(text: str) -> pytree.TreeSpec:
    """The tree that a text describes; a container that torch does not know in this process is a tuple of its leaves.

    Raises ValueError, KeyError or TypeError for what is no such text.
    """
    protocol, root = json.loads(text)
    if protocol != _PROTOCOL:
        raise ValueError(f"protocol {protocol} is not known")
    return _spec(root)


def _text(root: dict[str, Any]) -> str:
    return json.dumps([_PROTOCOL, root], cls=pytree.EnumEncoder)


def _node(spec: pytree.TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return _LEAF
    children = [_node(spec.child(i)) for i in range(spec.num_children)]
    head = _head(spec.type, spec.context)
    names = head.pop("names", None)
    return head | {"children_spec": children} | ({} if names is None else {"names": names})


def _head(cls: Any, context: Any) -> dict[str, Any]:
    """What the text says of a container, without what is in it."""
    if cls is namedtuple:
        record = pytree.SUPPORTED_SERIALIZED_TYPES.get(context)
        name = _qualified(context) if record is None else _serialized(record, context)
        return {"type": "collections.namedtuple", "context": name, "names": list(context._fields)}
    record = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)
    if record is None:
        return dict(_TUPLE)
    try:
        dumped = (record.to_dumpable_context or _json)(context)
        json.dumps(dumped)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return dict(_TUPLE)
    names = list(cls.__match_args__) if pytree.is_structseq_class(cls) else None
    return {"type": _serialized(record, cls), "context": dumped, "names": names}


def _json(context: Any) -> str:
    return json.dumps(context, cls=pytree.EnumEncoder)


def _serialized(record: Any, cls: type) -> str:
    name = record.serialized_type_name
    return _qualified(cls) if name == pytree.NO_SERIALIZED_TYPE_NAME_FOUND else name


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _spec(node: dict[str, Any]) -> pytree.TreeSpec:
    if node["type"] is None:
        return pytree.treespec_leaf()
    children = [_spec(child) for child in node["children_spec"]]
    try:
        # torch's own reader knows what a class makes of its context; its leaves stand in for what is below.
        alone = dict(node) | {"children_spec": []}
        head = pytree.treespec_loads(json.dumps([_PROTOCOL, alone]))
        return pytree.TreeSpec(head.type, head.context, children)
    except NotImplementedError:
        return pytree.treespec_tuple(children)
