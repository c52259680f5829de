"""Diagnostics: every message a user sees has an id, a location and a next step.

Errors are data first and exceptions second. A component *defines* its ids once, in the ``errors.py`` of its package
(``etir.emit.errors``, ``etir.lowering.errors`` ...), with :func:`define`; the documentation page of all ids is
generated from that registry. Code that finds several problems collects :class:`Diagnostic` objects and raises them
together as one :class:`EtirError`, so that one run reports everything that is wrong. The command-line tools print
the diagnostics of an ``EtirError`` and exit with 1; a Python traceback means a bug in etir itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Severity(StrEnum):
    """How bad a diagnostic is. Only ``ERROR`` makes a tool fail."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"


_TORCH_FILE = re.compile(r"(?:^|[/\\](?:site|dist)-packages[/\\])torch[/\\]")


def is_torch_file(path: str) -> bool:
    """Whether a source file is torch's own, of this or of another machine's installation: no user can change it."""
    return _TORCH_FILE.search(path) is not None


@dataclass(frozen=True)
class SourceLocation:
    """A place in a file: ``line`` and ``column`` count from 1, 0 means unknown.

    ``module`` is the path of the ``torch.nn.Module`` that the place belongs to (``layers.0.attn.q_proj``), empty where
    there is none; it describes the place and takes no part in comparisons.
    """

    file: str
    line: int = 0
    column: int = 0
    module: str = field(default="", compare=False)

    @property
    def is_hidden(self) -> bool:
        """Whether only the module says anything to a user: the file is torch's."""
        return bool(self.module) and is_torch_file(self.file)

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True)
class ErrorId:
    """One kind of error: a stable id (``E0801``), a one-line title and what a user does about it."""

    id: str
    title: str
    help: str

    def __str__(self) -> str:
        return self.id

    def diagnostic(
        self,
        message: str,
        location: SourceLocation | None = None,
        *,
        help: str | None = None,
        notes: Sequence[str] = (),
        severity: Severity = Severity.ERROR,
    ) -> Diagnostic:
        """A diagnostic of this kind; ``help`` replaces the generic next step with a specific one."""
        return Diagnostic(self, message, location, help or self.help, tuple(notes), severity)

    def error(
        self,
        message: str,
        location: SourceLocation | None = None,
        *,
        help: str | None = None,
        notes: Sequence[str] = (),
    ) -> EtirError:
        """An exception carrying one diagnostic of this kind: ``raise E0801.error("...")``."""
        return EtirError([self.diagnostic(message, location, help=help, notes=notes)])


REGISTRY: dict[str, ErrorId] = {}
"""Every defined id, in definition order. The documentation generator imports all ``errors`` modules and reads this."""


def define(id: str, title: str, help: str) -> ErrorId:
    """Define an error id. Raises ``ValueError`` when the id is already taken by another kind of error."""
    if id in REGISTRY and REGISTRY[id] != ErrorId(id, title, help):
        raise ValueError(f"error id {id} is defined twice")
    return REGISTRY.setdefault(id, ErrorId(id, title, help))


@dataclass(frozen=True)
class Diagnostic:
    """One message: what is wrong, where, and what to do next."""

    id: ErrorId
    message: str
    location: SourceLocation | None = None
    help: str = ""
    notes: tuple[str, ...] = field(default=())
    severity: Severity = Severity.ERROR
    pass_name: str = ""
    """The pass that found it; a note says so too."""
    operator: str = ""
    """The operator that it is about, by the name of its overload (``aten.add.Tensor``) at whatever level."""

    def at(self, location: SourceLocation | None) -> Diagnostic:
        """The same diagnostic at ``location``, unless it already has one."""
        return self if self.location is not None or location is None else replace(self, location=location)

    def about(self, operator: str) -> Diagnostic:
        """The same diagnostic about ``operator``, unless it is about one already."""
        return replace(self, operator=operator) if operator and not self.operator else self

    def render(self, source_line: str | None = None) -> str:
        """``file:line:col: error[E0312]: message``, then the source line with a caret, notes and the next step."""
        location = self.location
        place = None if location is None or location.is_hidden else location
        where = f"{place}: " if place is not None else ""
        lines = [f"{where}{self.severity}[{self.id.id}]: {self.message}"]
        if source_line is not None and place is not None:
            lines.append(f"    {source_line}")
            if place.column:
                pad = "".join("\t" if c == "\t" else " " for c in source_line[: place.column - 1])
                lines.append(f"    {pad}^")
        if location is not None and location.module:
            lines.append(f"  note: in module '{location.module}'")
        lines.extend(f"  note: {note}" for note in self.notes)
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class EtirError(Exception):
    """One or more diagnostics that stop the current operation."""

    def __init__(self, diagnostics: Iterable[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[EtirError], tuple[tuple[Diagnostic, ...]]]:
        """An exception is rebuilt from its message unless it says otherwise."""
        return type(self), (self.diagnostics,)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the diagnostics, in order: what a test checks."""
        return tuple(d.id.id for d in self.diagnostics)


def did_you_mean(name: str, known: Iterable[str], form: str = "'{}'") -> str:
    """``; did you mean 'a' or 'b'?`` with those of the ``known`` names that are most similar, else nothing.

    ``form`` says how a name is written.
    """
    near = [form.format(other) for other in similar(name, known)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of the ``known`` names that ``name`` may be a misspelling of, best first."""
    from difflib import SequenceMatcher, get_close_matches

    near = get_close_matches(name, list(known), 3)
    ratios = [SequenceMatcher(None, other, name).ratio() for other in near]
    return [other for other, ratio in zip(near, ratios, strict=True) if ratio > ratios[0] - _SIMILAR]


_SIMILAR = 0.05
"""How much less similar than the best name another one may be."""


def short_errors(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as users call it: an ``EtirError`` comes without the frames and the causes inside of etir.

    What went wrong is in the diagnostics, with its place in the user's own source; a traceback through a compiler says
    nothing more. A bug is shown whole, and everything is where the variable ``ETIR_DEBUG`` is set in the environment.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except EtirError as error:
            if os.environ.get("ETIR_DEBUG") or any(id in BUGS for id in error.ids):
                raise
            raise error.with_traceback(None) from None

    return call


BUGS = ("E0504", "E0505")
"""Ids of what a pass did wrong, not its user."""


def raise_if_errors(diagnostics: Sequence[Diagnostic]) -> None:
    """Raise one :class:`EtirError` with all of ``diagnostics`` when any of them is an error."""
    if any(d.severity is Severity.ERROR for d in diagnostics):
        raise EtirError(diagnostics)
