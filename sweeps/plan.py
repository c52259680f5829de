"""A plan: the grid of programs, targets, delegates, recipes and options, and what is measured of each cell.

:func:`read_plan` takes a TOML file or a mapping of the same form, and reports everything that is wrong with it at once,
each with its line. Nothing of the user's is imported for that: whether a module has a function is read off its source,
so that a plan is checked, and a sweep that is done already is read, without waiting for torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

from etir.sweeps.errors import E1901
from etir.sweeps.model import Cell

MEASURES: dict[str, str] = {
    "compile_seconds": "seconds from the exported program to the bytes of the file, quantization not counted",
    "bytes": "the .pte file and the .ptd files beside it",
    "arena": "bytes of planned memory of all methods",
    "method_memory": "bytes of method memory on etir's own runtime (target etir)",
    "difference": "the largest difference of an output from eager, relative to its largest number",
    "accuracy": "what the program's metric says of the outputs; larger is better",
    "latency": "median seconds of a run, while no other measurement runs on the machine",
}
"""What a cell can be asked for."""

FLOAT = "float32"
"""The recipe that does nothing."""

NONE = "none"
"""The delegates of a cell without any."""


@dataclass(frozen=True)
class ProgramEntry:
    """A program of the plan: a ``.pt2`` file, or a factory ``module:function`` with its arguments.

    ``calibration`` and ``samples`` are ``.npz`` files or ``module:function``, ``metric`` is ``module:function``.
    """

    name: str
    file: str | None = None
    factory: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calibration: str | None = None
    samples: str | None = None
    metric: str | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Named:
    """A coordinate with its keywords; None for a recipe that does nothing."""

    name: str
    keywords: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Limits:
    """What one stage of a cell may take: seconds, bytes above what its process had, attempts after a lost worker;
    ``cpus`` is what a cell asks of a Ray node and how many threads it may use, ``resources`` what it asks for besides.
    """

    seconds: float = 600.0
    memory: int | None = None
    retries: int = 2
    cpus: int = 1
    resources: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Plan:
    """Everything that a sweep is asked to do. ``folder`` is where relative paths and modules beside the plan are."""

    name: str
    programs: tuple[ProgramEntry, ...]
    targets: tuple[str, ...]
    delegates: tuple[tuple[str, tuple[str, ...]], ...]
    recipes: tuple[Named, ...]
    options: tuple[Named, ...]
    measure: tuple[str, ...]
    tolerance: float = 1e-3
    excludes: tuple[Mapping[str, str], ...] = ()
    only: str | None = None
    function: str | None = None
    """``module:function`` that makes the row of a cell instead of compiling and running a program."""
    exclusive: bool = False
    """Whether cells of ``function`` hold the machine's lock."""
    limits: Limits = Limits()
    depends: tuple[str, ...] = ()
    """Files, by shell pattern, whose contents decide what factories make."""
    folder: str = "."
    manifests: Mapping[str, str] = field(default_factory=dict[str, str])
    """The whole paths of targets that are files."""

    def cells(self) -> Iterator[tuple[ProgramEntry, Cell]]:
        """The grid without what is excluded: all cells of a program after each other, those of a recipe as well."""
        for program in self.programs:
            for recipe in self.recipes:
                for target in self.targets:
                    for label, texts in self.delegates:
                        for options in self.options:
                            cell = Cell(
                                program.name,
                                target,
                                label,
                                recipe.name,
                                options.name,
                                program.arguments,
                                texts,
                                recipe.keywords,
                                options.keywords or {},
                                self.manifests.get(target, ""),
                            )
                            if self.only is not None and not fnmatchcase(cell.name, self.only):
                                continue
                            if not any(_fits(exclude, cell) for exclude in self.excludes):
                                yield program, cell


def _fits(exclude: Mapping[str, str], cell: Cell) -> bool:
    return all(fnmatchcase(getattr(cell, key), pattern) for key, pattern in exclude.items())


def call_name(function: Callable[..., Any]) -> str:
    """``module:function`` of a function that other processes can import. Raises error E1901 for any other."""
    name = cast("str", getattr(function, "__qualname__", repr(function)))
    module = cast("str", getattr(function, "__module__", "__main__"))
    if module == "__main__" or not name.isidentifier():
        raise E1901.error(
            f"'{name}' of '{module}' cannot be imported by other processes",
            help="put the function at the top of a module of its own",
        )
    return f"{module}:{name}"


__all__ = ["FLOAT", "MEASURES", "NONE", "Limits", "Named", "Plan", "ProgramEntry"]
