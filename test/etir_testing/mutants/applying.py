"""A mutant in a running process; no file changes.

A process that has imported everything is worth keeping: :class:`LoadedFunctions` gives functions that exist the
mutated code, wherever decorators, tables and closures keep them. What runs at import (tables, defaults, decorators) is
past by then; for that :func:`import_mutated` lets a process that has not yet imported the module find the mutated one.
"""

from __future__ import annotations

import gc
import importlib.machinery
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


class LoadedFunctions:
    """The functions that the process has, by their code."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._functions: dict[CodeType, list[FunctionType]] = {}
        gc.unfreeze()  # What is frozen, as lit's tests do for the sake of their forks, is not listed.
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(str(root)):
                self._functions.setdefault(found.__code__, []).append(found)

    def mutate(self, path: str, source: str, mutated: str) -> bool:
        """Give functions of the file at ``path`` the code of the mutated source.

        False, and nothing has changed, if that does not express it: the change runs at import, or takes other closures.
        """
        place = str(self.root / path)
        old, new = (compile(text, place, "exec", dont_inherit=True) for text in (source, mutated))
        changes = _changed(old, new)
        if not changes:
            return False
        pairs = [(function, after) for before, after in changes for function in self._functions.get(before, ())]
        if not pairs or any(f.__code__.co_freevars != after.co_freevars for f, after in pairs):
            return False
        for function, after in pairs:
            function.__code__ = after
        return True


def _changed(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """The code of functions that differ, from the outermost in; nothing if something else differs."""
    found: list[tuple[CodeType, CodeType]] = []
    if not _same(old, new):
        return []
    for before, after in zip(_nested(old), _nested(new), strict=True):
        if _equal(before, after):
            continue
        is_function = bool(before.co_flags & 0x02)  # CO_NEWLOCALS, which the body of a class does not have.
        if not is_function:
            inside = _changed(before, after)
            if not inside:
                return []
            found += inside
            continue
        found.append((before, after))
        found += _inner(before, after)
    return found


def _inner(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Closures that may exist already, in a function that changed."""
    before, after = list(_nested(old)), list(_nested(new))
    if len(before) != len(after):
        return []
    found: list[tuple[CodeType, CodeType]] = []
    for one, other in zip(before, after, strict=True):
        if not _equal(one, other):
            found += [(one, other), *_inner(one, other)]
    return found


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def _same(one: CodeType, other: CodeType) -> bool:
    """Whether two pieces of code do the same themselves, whatever is nested in them and on which lines they stand."""

    def own(code: CodeType) -> tuple[object, ...]:
        constants = [c.co_qualname if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
        return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)

    return own(one) == own(other)


def _equal(one: CodeType, other: CodeType) -> bool:
    """The same with everything in them."""
    return _same(one, other) and all(map(_equal, _nested(one), _nested(other)))


def import_mutated(root: Path, path: str, mutated: str) -> None:
    """From now on the module in the file at ``path`` is imported as ``mutated``."""
    place = str((root / path).resolve())
    loader = importlib.machinery.SourceFileLoader
    real = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        if str(Path(self.path).resolve()) == place:
            return compile(mutated, self.path, "exec", dont_inherit=True)
        return real(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign]
