"""Remarks: what passes did, and what they left alone and why, one line or record for each.

Named and chosen as mlir-opt does: *passed* is a rewrite, *missed* one that did not come about (a near miss of a
pattern, an operation that a backend refuses), *failed* a pass that did not end. A filter is a regular expression for
``PASS:PATTERN`` (``partition:xnnpack``, ``decompose-aten:softplus``). The YAML form is that of LLVM's optimization
records, which its viewers read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation

from etir.dialects.text import source_location
from etir.passes.infra.instrumentation import Instrument, PassRun
from etir.passes.infra.rewriting import Pattern

Kind: TypeAlias = Literal["passed", "missed", "failed"]
KINDS: tuple[Kind, ...] = ("passed", "missed", "failed")
FORMATS = ("emitRemark", "yaml", "json")


@dataclass(frozen=True)
class Remark:
    """One remark. ``name`` is the pattern's or the backend's, empty for a pass that failed; ``line`` 0 is unknown."""

    kind: Kind
    pass_name: str
    name: str
    operation: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def category(self) -> str:
        """What a filter is matched with."""
        return f"{self.pass_name}:{self.name}" if self.name else self.pass_name

    def render(self, format: str) -> str:
        """One line of text or JSON, or a YAML document. Raises ``KeyError`` for another format."""
        return {"emitRemark": self._text, "json": self._json, "yaml": self._yaml}[format]()

    def _text(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{where}remark: [{self.kind}] {self.category}: {self.message}\n"

    def _json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"

    def _yaml(self) -> str:
        # A string of JSON is one of YAML, whatever is in it.
        lines = [f"--- !{self.kind.capitalize()}", f"Pass:            {_quoted(self.pass_name)}"]
        lines.append(f"Name:            {_quoted(self.name or self.pass_name)}")
        if self.line:
            place = f"File: {_quoted(self.file)}, Line: {self.line}, Column: {self.column}"
            lines.append(f"DebugLoc:        {{ {place} }}")
        lines += [
            f"Function:        {_quoted(self.operation)}",
            "Args:",
            f"  - Message:         {_quoted(self.message)}",
        ]
        return "\n".join([*lines, "...\n"])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def rewrote(pattern: str, operation: str) -> str:
    """What is said of a rewrite."""
    return f"'{pattern}' rewrote '{operation}'"


def left_alone(pattern: str, operation: str, reason: str) -> str:
    """What is said of a near miss, and of what a backend refused."""
    return f"'{pattern}' left '{operation}' alone: {reason}"


class Remarks(Instrument):
    """Hands on every remark that a filter of its kind fits; a kind without a filter is not asked for."""

    def __init__(self, filters: dict[Kind, re.Pattern[str]], tell: Callable[[Remark], object]):
        super().__init__()
        self._filters, self._tell = filters, tell
        self._pass = ""

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Remember which pass runs."""
        self._pass = run.name

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """A remark of a rewrite."""
        self._say("passed", pattern.name, op_name, rewrote(pattern.name, op_name), location)

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """A remark of a near miss."""
        self._say("missed", pattern.name, op.name, left_alone(pattern.name, op.name, reason), op.location)

    def on_refused(self, backend: str, op: Operation, reason: str) -> None:
        """A remark of what a backend does not take."""
        self._say("missed", backend, op.name, left_alone(backend, op.name, reason), op.location)

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """A remark of a pass that did not end; the error itself is told elsewhere."""
        self._say("failed", "", "", f"pass {run.index + 1} of {run.total} failed", module.location)

    def _say(self, kind: Kind, name: str, operation: str, message: str, location: LocationAttr) -> None:
        wanted = self._filters.get(kind)
        if wanted is None:
            return
        found = source_location(location)
        place: dict[str, Any] = {}
        if found is not None:
            place = {"file": found.file, "line": found.line, "column": found.column}
        remark = Remark(kind, self._pass, name, operation, message, **place)
        if wanted.search(remark.category):
            self._tell(remark)
