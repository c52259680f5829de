"""Calls as Python writes them, as the flat inputs of a method: positions, keywords, containers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etir.runtime.containers import children_of, is_built_in, is_container
from etir.runtime.errors import E1208, usage_failure
from etir.runtime.structure import Structure, arguments_of, leaf_names

_CONTAINERS = (list, tuple, dict)


class Arguments:
    """How a method is called.

    Attributes:
        names: what each flat input is called, or None where the file does not say.
    """

    def __init__(self, structure: Structure | None, count: int):
        """``structure`` is the tree of the arguments as the file has it, ``count`` the number of flat inputs."""
        arguments = arguments_of(structure)
        if arguments is None or arguments.leaves != count:
            arguments = None
        self.names: list[str | None] = leaf_names(arguments, count, "input")
        self._keys: tuple[str | None, ...] = () if arguments is None else arguments.keys or ()
        self._parameters: tuple[Structure, ...] = () if arguments is None else arguments.children
        self._known = arguments is not None
        self._built_in = arguments is None or is_built_in(arguments)

    def takes(self, name: str) -> bool:
        """Whether a keyword is one of the program's."""
        return name in self._keys or name in self.names

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The inputs in order. Raises error E1208 when the arguments do not have the structure of the program's."""
        if not kwargs:
            for argument in args:
                if isinstance(argument, _CONTAINERS):
                    break
            else:
                if self._built_in or not any(map(is_container, args)):
                    return args
        if not self._known:
            if kwargs:
                raise _unnamed()
            return list(_leaves(args))
        if not args and len(kwargs) == len(self.names) and all(name in kwargs for name in self.names):
            return [kwargs[str(name)] for name in self.names]
        flat: list[Any] = []
        for number, (value, parameter) in enumerate(zip(self._bind(args, kwargs), self._parameters, strict=True)):
            key = self._keys[number]
            _take(value, parameter, flat, f"argument {number}" if key is None else f"argument '{key}'")
        return flat

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters, each given once."""
        if len(args) > len(self._keys):
            raise self._refusal(f"got {len(args)} arguments")
        bound: dict[int, Any] = dict(enumerate(args))
        places = {key: number for number, key in enumerate(self._keys) if key is not None}
        for name, value in kwargs.items():
            if not places:
                raise _unnamed()
            if name not in places:
                raise self._refusal(f"there is no input '{name}'", name)
            if places[name] in bound:
                raise self._refusal(f"'{name}' is given twice, by position and by keyword")
            bound[places[name]] = value
        missing = [self._label(number) for number in range(len(self._keys)) if number not in bound]
        if missing:
            raise self._refusal(f"missing {', '.join(missing)}")
        return [bound[number] for number in range(len(self._keys))]

    def _label(self, number: int) -> str:
        key = self._keys[number]
        return f"argument {number}" if key is None else str(key)

    def _refusal(self, message: str, name: str | None = None) -> Exception:
        takes = ", ".join(map(self._label, range(len(self._keys)))) or "nothing"
        close = [] if name is None else difflib.get_close_matches(name, [str(key) for key in self._keys if key], 1)
        guess = f"did you mean '{close[0]}'?" if close else "the method's `inputs` say more"
        return usage_failure(E1208, f"{message}; the program takes {takes}", help=guess)


def _unnamed() -> Exception:
    return usage_failure(E1208, "the program does not say what its inputs are called", help="pass them in order")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, _CONTAINERS):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _take(value: Any, structure: Structure, flat: list[Any], where: str) -> None:
    if structure.type is None:
        if isinstance(value, _CONTAINERS):
            raise usage_failure(E1208, f"{where}: a {type(value).__name__} where the program takes one value")
        flat.append(value)
        return
    items = children_of(structure, value)
    if isinstance(items, str):
        raise usage_failure(E1208, f"{where}: {items}")
    for number, (item, child) in enumerate(zip(items, structure.children, strict=True)):
        step = f"item {number}" if structure.keys is None else f"'{structure.keys[number]}'"
        _take(item, child, flat, f"{where}, {step}")
