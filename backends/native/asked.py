"""Which savings make a difference to a function: those that somebody asks for where the answer decides something.

Each saving that is tried (``savings.py``) lowers, rewrites and plans the function once more, and most of them find
nothing in it to save on. So whoever looks at a saving asks last, where all else that it depends on holds, and what has
been asked is written down: a function that is made with one more saving, for which nobody has asked, is the same.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from xdsl.dialects.func import FuncOp

from etir.backends.native.functions import saved

_WATCHED: WeakKeyDictionary[FuncOp, dict[str, None]] = WeakKeyDictionary()


def watched(func: FuncOp) -> dict[str, None]:
    """Gets the savings for which is asked from now on, until the function is watched again."""
    found = _WATCHED[func] = {}
    return found


def watched_as(copy: FuncOp, func: FuncOp) -> None:
    """Let what is asked of a copy be asked of the function."""
    if (found := _WATCHED.get(func)) is not None:
        _WATCHED[copy] = found


def saves(func: FuncOp, name: str) -> bool:
    """Whether the code of a function does without something. To be asked where that makes a difference."""
    found = _WATCHED.get(func)
    if found is not None:
        found[name] = None
    return name in saved(func)
