"""The description of what a plug-in adds. It is not imported before there is one: making the class takes time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass


def _nothing() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Plugin:
    """What a plug-in adds, by kind; what is named in text is imported when it is first needed.

    ``passes`` are classes, or ``module:Class``, by the name of the pass. ``dialects`` are functions that return an xDSL
    ``Dialect``, by its name. ``decompositions`` and ``meanings`` are names of modules that register theirs with
    ``@decomposition`` and ``@meaning``. ``kernels`` are, by the name of the target, folders with a ``kernels.json``,
    such files, or rows of one. ``backends`` are instances of ``Backend``, or ``module:INSTANCE``, by name.
    """

    passes: Mapping[str, str | type[ModulePass]] = field(default_factory=_nothing)
    dialects: Mapping[str, Callable[[], Dialect]] = field(default_factory=_nothing)
    decompositions: Sequence[str] = ()
    meanings: Sequence[str] = ()
    kernels: Mapping[str, Sequence[str | os.PathLike[str] | Mapping[str, Any]]] = field(default_factory=_nothing)
    backends: Mapping[str, Any] = field(default_factory=_nothing)
