"""What watches a pipeline run: printing the IR around passes, explaining matches, tracing operations.

An :class:`Instrument` is an observer of the rewrite driver that also hears of passes. The pass manager calls every
instrument around every pass and hands it every rewrite and near miss. Instruments only look: none changes the module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation

from etir.dialects.et.weights import write_atomically
from etir.dialects.text import print_module, source_location
from etir.passes.infra.rewriting import Observer, Pattern


@dataclass(frozen=True)
class PassRun:
    """One pass of a running pipeline: its place (from 0) among ``total``, its name and its text."""

    index: int
    total: int
    name: str
    text: str


class Instrument(Observer):
    """Hears of passes, rewrites and near misses. The base class counts rewrites by pattern."""

    def before_pipeline(self, module: ModuleOp) -> None:
        """The module was verified; no pass has run."""

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """A pass is about to run."""

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """A pass has run and the module it left verifies."""

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """A pass raised, or left invalid IR: ``module`` may be in any state."""

    def after_pipeline(self, module: ModuleOp) -> None:
        """The last pass has run."""


_WATCHERS: ContextVar[tuple[Instrument, ...]] = ContextVar("watchers", default=())


def watchers() -> tuple[Instrument, ...]:
    """The instruments of the :func:`watching` blocks around the caller."""
    return _WATCHERS.get()


@contextmanager
def watching(instrument: Instrument) -> Iterator[None]:
    """Let an instrument watch every pipeline that runs in the block, whoever runs it."""
    token = _WATCHERS.set((*_WATCHERS.get(), instrument))
    try:
        yield
    finally:
        _WATCHERS.reset(token)


class ShowPasses(Instrument):
    """Says which pass is running, and nothing of its rewrites."""

    def __init__(self, say: Callable[[str], object]):
        super().__init__()
        self._say = say

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Say it."""
        self._say(f"{run.name} (pass {run.index + 1} of {run.total})")

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Not even counted."""


class Relay(Observer):
    """What the rewrite driver talks to while a pass runs: counts, and hands everything on to several observers."""

    def __init__(self, listeners: Sequence[Observer]):
        super().__init__()
        self.listeners = listeners

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Count and hand on."""
        super().on_rewrite(pattern, op_name, location, new_ops)
        for listener in self.listeners:
            listener.on_rewrite(pattern, op_name, location, new_ops)

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """Hand on."""
        for listener in self.listeners:
            listener.on_match_failure(pattern, op, reason)

    def on_refused(self, backend: str, op: Operation, reason: str) -> None:
        """Hand on."""
        for listener in self.listeners:
            listener.on_refused(backend, op, reason)


# --- printing the IR -------------------------------------------------------------------------------------------------

Render = Callable[[ModuleOp], str]
"""Module to text."""

Write = Callable[[str, str], None]
"""Takes a title (``after cse``) and the text of a module."""


def write_to_stream(write: Callable[[str], object]) -> Write:
    """Dumps one after the other, each under a header like mlir-opt's."""

    def dump(title: str, text: str) -> None:
        write(f"// -----// IR dump {title} //----- //\n{text}\n")

    return dump


def write_to_directory(directory: Path, prefix: str = "", written: list[Path] | None = None) -> Write:
    """One numbered file for each dump: ``00-input.mlir``, ``01-after-canonicalize.mlir``. Makes the directory.

    The files are added to ``written``.
    """
    count = 0

    def dump(title: str, text: str) -> None:
        nonlocal count
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{prefix}{count:02d}-{title.replace(' ', '-')}.mlir"
        write_atomically(directory / name, [text.encode()])
        if written is not None:
            written.append(directory / name)
        count += 1

    return dump


class PrintIR(Instrument):
    """Prints the module around passes.

    ``before`` and ``after`` hold names of passes, or ``*`` for all. ``only_changes`` leaves out an "after" whose text
    equals the last one seen. ``on_failure`` prints what a failing pass left, in the generic form, because printers of
    custom forms may rely on what the verifier checks. ``with_input`` prints what the first pass gets.
    """

    def __init__(
        self,
        write: Write,
        render: Render,
        *,
        before: Collection[str] = (),
        after: Collection[str] = (),
        only_changes: bool = False,
        on_failure: bool = False,
        with_input: bool = False,
    ):
        super().__init__()
        self._write, self._render = write, render
        self._before, self._after = before, after
        self._only_changes, self._on_failure, self._with_input = only_changes, on_failure, with_input
        self._last = ""

    def before_pipeline(self, module: ModuleOp) -> None:
        """Print the input if asked to, and remember it."""
        if self._only_changes or self._with_input:
            self._last = self._render(module)
        if self._with_input:
            self._write("input", self._last)

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Print if the pass is among ``before``."""
        if _selected(run.name, self._before):
            self._write(f"before {run.name}", self._render(module))

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Print if the pass is among ``after`` and, with ``only_changes``, changed the text."""
        wanted = _selected(run.name, self._after)
        if not wanted and not self._only_changes:
            return
        text = self._render(module)
        if wanted and not (self._only_changes and text == self._last):
            self._write(f"after {run.name}", text)
        self._last = text

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """Print what the pass left."""
        if self._on_failure:
            self._write(f"after failure of {run.name}", print_module(module, generic=True))


def _selected(name: str, names: Collection[str]) -> bool:
    return name in names or "*" in names


# --- explaining rewrites ---------------------------------------------------------------------------------------------


def _place(location: LocationAttr) -> str:
    found = source_location(location)
    return "" if found is None else f"{found}: "


class ExplainMatch(Instrument):
    """``--explain-match=PATTERN``: why patterns of that name (``*`` stands for anything) matched, or did not."""

    def __init__(self, pattern: str, write: Callable[[str], object]):
        super().__init__()
        self._pattern, self._write = pattern, write
        self._pass = ""
        self._missed: Counter[str] = Counter()

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Remember which pass runs."""
        self._pass = run.name

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Say what matched."""
        if fnmatchcase(pattern.name, self._pattern):
            super().on_rewrite(pattern, op_name, location, new_ops)
            self._write(f"{_place(location)}explain-match: {self._pass}: '{pattern.name}' rewrote '{op_name}'\n")

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """Say why not."""
        if fnmatchcase(pattern.name, self._pattern):
            self._missed[pattern.name] += 1
            self._write(
                f"{_place(op.location)}explain-match: {self._pass}: '{pattern.name}' left '{op.name}' alone: {reason}\n"
            )

    def on_refused(self, backend: str, op: Operation, reason: str) -> None:
        """Say why a backend does not take an operation, where the pattern fits its name."""
        if fnmatchcase(backend, self._pattern):
            self._missed[backend] += 1
            self._write(
                f"{_place(op.location)}explain-match: {self._pass}: '{backend}' refused '{op.name}': {reason}\n"
            )

    def after_pipeline(self, module: ModuleOp) -> None:
        """Sum up, so that silence is not mistaken for success."""
        names = sorted({**self.applied, **self._missed})
        for name in names:
            self._write(f"explain-match: '{name}': {self.applied[name]} rewrites, {self._missed[name]} near misses\n")
        if not names:
            self._write(f"explain-match: no operation came near a pattern named '{self._pattern}'\n")


class TraceOp(Instrument):
    """``--trace-op=aten.silu``: every rewrite and near miss of operations of that name, at any level, any overload."""

    def __init__(self, op_name: str, write: Callable[[str], object]):
        super().__init__()
        self._op_name, self._write = op_name, write
        self._pass = ""

    def _traced(self, name: str) -> bool:
        wanted = self._op_name
        return any(
            known == wanted or known.startswith(wanted + ".") or fnmatchcase(known, wanted)
            for known in (name, name.removeprefix("edge."))
        )

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Remember which pass runs."""
        self._pass = run.name

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Say what an operation became, and what it came from."""
        names = ", ".join(f"'{op.name}'" for op in new_ops) or "values that exist, or itself"
        if self._traced(op_name) or any(self._traced(op.name) for op in new_ops):
            self._write(
                f"{_place(location)}trace-op: {self._pass}: '{pattern.name}' rewrote '{op_name}' into {names}\n"
            )

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """Say why an operation stayed."""
        if self._traced(op.name):
            self._write(
                f"{_place(op.location)}trace-op: {self._pass}: '{pattern.name}' left '{op.name}' alone: {reason}\n"
            )

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Say how many are left, so that passes without patterns are seen as well."""
        left = sum(1 for op in module.walk() if self._traced(op.name))
        self._write(f"trace-op: after {run.name}: {left} operations '{self._op_name}'\n")
