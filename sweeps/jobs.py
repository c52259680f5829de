"""What is run: a cell is a chain of jobs, of which several cells may share some.

::

    export (program) -> quantize (program x recipe x target x delegates) -> cell -> time, on a quiet machine

A job is known by the digest of everything that its result depends on. Its result is an artefact of that name, so that
nothing that any sweep has made is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etir.sweeps.calls import source_of
from etir.sweeps.errors import E1902
from etir.sweeps.identity import compiler_digest, digest_of, digest_of_files
from etir.sweeps.model import Cell, Figure
from etir.sweeps.plan import Plan, ProgramEntry

LATE = (
    *("plan_inputs", "plan_outputs", "share_state", "external_weights", "external_state", "optimizer"),
    *("state_methods", "debug_info"),
)
"""Options of a compilation that say nothing about quantization: cells that differ in them share that stage."""

FILE_KEYWORD = "ranges"
"""The keyword of a recipe that is the path of a file: its contents decide, not where it is."""


@dataclass(frozen=True)
class Job:
    """One stage. ``stage`` names the function of :mod:`etir.sweeps.stages` that does it on ``given``.

    ``needs`` are the artefacts that it reads. ``exclusive`` jobs run while nothing else does on a machine.
    """

    key: str
    stage: str
    given: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    shared: bool = False
    exclusive: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a job. ``status`` is ``ok``, ``wrong`` (a difference above the tolerance), ``unchecked`` (nothing
    was compared), ``error``, ``crash``, ``timeout``, ``memory``, ``disk`` or ``lost``; ``error`` the id and ``message``
    the text of the cause.
    """

    status: str = "ok"
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    error: str = ""
    message: str = ""
    seconds: float = 0.0
    host: str = ""
    processor: str = ""


FAILURES = ("error", "crash", "timeout", "memory", "disk", "lost")
"""Statuses after which the stages that follow have nothing to work on."""


@dataclass
class Chain:
    """A cell with its jobs in order; ``at`` is the next one, ``done`` what became of those before it.

    ``attempts`` counts the starts of the next one, ``lost`` the workers that were lost with any of them.
    """

    id: str
    cell: Cell
    jobs: tuple[Job, ...]
    at: int = 0
    done: list[Outcome] = field(default_factory=list[Outcome])
    attempts: int = 0
    lost: int = 0


class Chains:
    """The cells of a plan as chains of jobs, each with its id."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._programs: dict[str, str] = {}
        self._functions: dict[str, list[str]] = {}
        self._digests: dict[str, str] = {}
        self._manifests: dict[str, str] = {}
        depends = _contents(plan.depends)
        self._base = digest_of([compiler_digest(), depends])

    def functions(self) -> list[str]:
        """The names of all functions of the plan."""
        names = {self._plan.function, *(name for program in self._plan.programs for name in _functions(program))}
        return sorted(name for name in names if name is not None and ":" in name)

    def code(self) -> str:
        """The digest of the plan's functions and of the compiler: processes that have loaded another one are no use."""
        return digest_of([self._base, [self._function(name) for name in self.functions()]])

    def id_of(self, program: ProgramEntry, cell: Cell) -> str:
        """The digest of everything that decides what a row says."""
        plan = self._plan
        metric = [self._function(program.metric), self._tolerance(program), list(plan.measure)]
        function = [self._function(plan.function), plan.exclusive]
        where = [cell.name, cell.delegate_texts, _recipe(cell), cell.option_keywords, self._files(cell)]
        return digest_of([self._program(program), where, metric, function])

    def chain(self, program: ProgramEntry, cell: Cell) -> Chain:
        """The jobs that make the cell's row."""
        plan, id = self._plan, self.id_of(program, cell)
        if plan.function is not None:
            given = {"function": plan.function, "cell": cell}
            return Chain(id, cell, (Job(id, "call", given, exclusive=plan.exclusive),))
        source = self._program(program)
        export = Job(source, "export", {"program": program}, shared=True)
        jobs, last = [export], export
        if cell.recipe_keywords is not None:
            options = {k: v for k, v in cell.option_keywords.items() if k not in LATE}
            what = {"options": options, "delegates": list(cell.delegate_texts)}
            key = digest_of([source, what, cell.target, _recipe(cell), self._files(cell)])
            what |= {"recipe": dict(cell.recipe_keywords), "target": cell.compiled_for}
            last = Job(key, "quantize", what, (source,), shared=True)
            jobs.append(last)
        measure = [m for m in plan.measure if m != "latency"]
        given = {
            "cell": cell,
            "measure": measure,
            "tolerance": self._tolerance(program),
            "metric": program.metric,
            "quantized": cell.recipe_keywords is not None,
        }
        key = digest_of([id, "cell"])
        # Schedules are measured while the file is made: nothing else may run on the machine.
        tuned = any("tune=" in text for text in cell.delegate_texts)
        jobs.append(Job(key, "cell", given, tuple(dict.fromkeys((source, last.key))), exclusive=tuned))
        if "latency" in plan.measure:
            given = {"target": cell.target}
            jobs.append(Job(id, "time", given, (source, key), exclusive=True))
        return Chain(id, cell, tuple(jobs))

    def _tolerance(self, program: ProgramEntry) -> float:
        return self._plan.tolerance if program.tolerance is None else program.tolerance

    def _files(self, cell: Cell) -> list[str]:
        """Digests of files of the user's that a cell names: its target's manifest, ranges of its recipe."""
        ranges = None if cell.recipe_keywords is None else cell.recipe_keywords.get(FILE_KEYWORD)
        found = [self._file(ranges)] if ranges else []
        return [*found, *self._manifest(cell.manifest)] if cell.manifest else found

    def _file(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = _contents([path])
        return self._digests[path]

    def _manifest(self, path: str) -> list[str]:
        """The digests of a manifest, and of the kernels that it has in other files."""
        if path not in self._manifests:
            from etir.targets.manifest import read_target  # Few plans have one, and every worker imports this module.

            self._manifests[path] = digest_of(read_target(Path(path)))
        return [self._file(path), self._manifests[path]]

    def _program(self, program: ProgramEntry) -> str:
        """The digest of a program: of its file, or of its factory with all that is known to decide what it makes."""
        found = self._programs.get(program.name)
        if found is None:
            what: list[Any] = [self._base, dict(program.arguments), self._function(program.factory)]
            if program.file is not None:
                what.append(_contents([program.file]))
            for data in (program.calibration, program.samples):
                is_file = data is not None and data.endswith(".npz")
                what.append(_contents([data]) if is_file and data is not None else self._function(data))
            found = self._programs[program.name] = digest_of(what)
        return found

    def _function(self, name: str | None) -> list[str] | None:
        """A function by its name and the bytes of its module's source."""
        if name is None:
            return None
        if name not in self._functions:
            source = source_of(name.partition(":")[0], self._plan.folder)
            self._functions[name] = [name, digest_of_files([source]) if source is not None else ""]
        return self._functions[name]


def _contents(paths: Iterable[str]) -> str:
    """The digest of files. Raises error E1902 for one that is gone since the plan was read."""
    try:
        return digest_of_files(map(Path, paths))
    except OSError as error:
        raise E1902.error(f"cannot read '{error.filename}': {error.strerror}") from None


def _recipe(cell: Cell) -> dict[str, Any] | None:
    """What is quantized how, without the places of files."""
    keywords = cell.recipe_keywords
    return None if keywords is None else {key: value for key, value in keywords.items() if key != FILE_KEYWORD}


def _functions(program: ProgramEntry) -> list[str | None]:
    """The names of functions that make a program and what goes with it."""
    return [program.factory, program.metric, program.samples, program.calibration]
