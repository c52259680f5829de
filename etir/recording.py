"""What a compilation is recorded by, as far as the compiler is concerned.

Traces are made by the developer tools (``etir.devtools``), which stand above the compiler: it knows of them that there
is something to start before the first pass, to watch with, and to finish, and loads it by name when a trace is asked
for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.errors import E0914
from etir.passes.infra.instrumentation import Instrument

Detail: TypeAlias = Literal["levels", "passes"]
"""Whether a trace has the text at the end of every phase, or after every pass that changed something as well."""


class Recorded(Protocol):
    """What was recorded: a trace (``etir.devtools.trace.read.Trace``)."""

    data: bytes

    def save(self, path: str | Path) -> None: ...


class Recorder(Instrument):
    """Watches one compilation."""

    @abstractmethod
    def start(
        self,
        module: ModuleOp,
        nodes: Mapping[SSAValue, Sequence[tuple[str, int]]] | None = None,
        phases: Mapping[int, str] | None = None,
        target: str = "",
    ) -> None:
        """A module that was imported or read, before any pass: values by the nodes of the graph that they are outputs
        of, and which phase is reached after so many passes.
        """

    @abstractmethod
    def finish(
        self,
        pte: bytes | None = None,
        times: Sequence[tuple[str, float]] = (),
        remarks: Sequence[Mapping[str, Any]] = (),
    ) -> Recorded:
        """What was recorded, with the file that was made and the seconds that each pass took."""


def recorder(trace: bool | str) -> Recorder | None:
    """What records a compilation in the detail that is asked for; None for False. Raises error E0914."""
    if trace is False:
        return None
    if trace not in (True, "levels", "passes"):
        raise E0914.error(f"option 'trace' takes True, False, 'levels' or 'passes', not {trace!r}")
    made = import_module("etir.devtools.trace.record").TraceRecorder
    return cast("Recorder", made("levels" if trace is True else trace))
