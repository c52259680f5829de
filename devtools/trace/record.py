"""Records a compilation: an instrument that watches the passes of one module, and what is made of what it saw.

    program = etir.compile(ep, trace=True)
    program.trace.save("model.trace")

The recorder gives operations their origins before the first pass and looks on afterwards. ``levels`` keeps the text at
the end of every phase and what each pass changed, ``passes`` the text after every pass that changed something besides.
"""

from __future__ import annotations

import gc
import hashlib
import json
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

import xdsl
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

import etir
from etir.devtools.trace import program as described
from etir.devtools.trace.changes import Rewrites, Watcher, origin_numbers
from etir.devtools.trace.container import pack
from etir.devtools.trace.levels import level_of, print_level
from etir.devtools.trace.places import AttributeTexts, place_of
from etir.devtools.trace.read import VERSION, Trace
from etir.dialects.et.origin import carries_origin, number_origins
from etir.passes.infra.instrumentation import PassRun
from etir.passes.infra.registry import find_pass
from etir.passes.infra.rewriting import Pattern
from etir.phases import phase_of
from etir.recording import Detail, Recorder

P = ParamSpec("P")

Nodes = Mapping[SSAValue, Sequence[tuple[str, int]]]
"""Values of the imported module by the nodes of the FX graph that they are outputs of."""


def _undisturbed(method: Callable[P, None]) -> Callable[P, None]:
    """Without collecting garbage: what is made here is kept, and to look through it again and again takes as long."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        collecting = gc.isenabled()
        gc.disable()
        try:
            method(*args, **kwargs)
        finally:
            if collecting:
                gc.enable()

    return call


class TraceRecorder(Recorder):
    """Watches the pipeline of one module; others that run inside of it (a backend's own) are none of its business."""

    def __init__(self, detail: Detail = "levels"):
        super().__init__()
        self.detail = detail
        self._module: ModuleOp | None = None
        self._watcher: Watcher | None = None
        self._rewrites: Rewrites | None = None
        self._phases: dict[int, str] | None = None
        self._level: str = ""
        self._levels: dict[str, str | bytes] = {}
        self._changes: dict[str, str | bytes] = {}
        self._passes: list[dict[str, Any]] = []
        self._delegates: dict[str, Any] = {}
        self._origins: list[dict[str, Any]] = []
        self._target = ""
        self._texts = AttributeTexts()
        self._lines: dict[Operation, int] = {}

    def start(
        self,
        module: ModuleOp,
        nodes: Nodes | None = None,
        phases: Mapping[int, str] | None = None,
        target: str = "",
    ) -> None:
        """Give the operations of a module origins, and watch it from now on.

        ``phases`` says which phase is reached after so many passes; without it, levels are told by their operations.
        """
        number_origins(module)
        self._module = module
        self._phases = None if phases is None else dict(phases)
        self._origins = origins_of(module, nodes or {})
        self._target = target

    # --- watching ----------------------------------------------------------------------------------------------------

    def before_pipeline(self, module: ModuleOp) -> None:
        """Keep the first level."""
        if module is not self._module or self._watcher is not None:
            return
        self._watcher = Watcher(module, self._texts)
        self._keep_level(module, phase_of(module))

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Listen to the driver from now on; look into delegates while they are still IR."""
        if module is not self._module:
            return
        self._rewrites = Rewrites()
        if run.name == "lower-delegates":
            self._delegates.update(described.delegates(module, self._texts))

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Remember what a pattern made."""
        if self._rewrites is not None:
            self._rewrites.on_rewrite(pattern, op_name, location, new_ops)

    def on_match_failure(self, pattern: Pattern, op: Operation, reason: str) -> None:
        """Remember why a pattern left an operation alone."""
        if self._rewrites is not None:
            self._rewrites.on_match_failure(pattern, op, reason)

    def on_refused(self, backend: str, op: Operation, reason: str) -> None:
        """Remember why a backend did not take an operation."""
        if self._rewrites is not None:
            self._rewrites.missed[backend, op.name, origin_numbers(op.location), reason] += 1

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Keep what the pass changed, and the text where a phase ends."""
        if module is not self._module:
            return
        self._end_pass(run, module, None)
        if self._phases is not None:
            phase = self._phases.get(run.index + 1)
        else:
            phase = found if (found := phase_of(module)) != self._level else None
        if phase is not None:
            self._keep_level(module, phase)

    def pass_failed(self, run: PassRun, module: ModuleOp) -> None:
        """Note which pass it was; what it left is not kept, since it may be in any state."""
        if module is self._module:
            self._end_pass(run, module, "failed")

    @_undisturbed
    def _end_pass(self, run: PassRun, module: ModuleOp, outcome: str | None) -> None:
        assert self._watcher is not None
        rewrites = self._rewrites or Rewrites()
        self._rewrites = None
        number = len(self._passes)
        looks_only = outcome is not None or getattr(find_pass(run.name), "checks_only", False)
        changes = None if looks_only else self._watcher.changes(module, rewrites)
        entry: dict[str, Any] = {"name": run.name, "text": run.text, "rewrites": _counts(rewrites.applied)}
        if outcome is not None:
            entry["outcome"] = outcome
        if changes is not None:
            entry |= {key: len(rows) for key, rows in changes.items()}
        if rewrites.missed:
            entry["missed"] = sum(rewrites.missed.values())
        if changes is not None or rewrites.missed:
            entry["changes"] = f"changes/{number:02d}-{run.name}.json"
            missed = [[*key, count] for key, count in rewrites.missed.items()]
            self._changes[entry["changes"]] = _json({**(changes or {}), "missed": missed})
        if changes is not None and self.detail == "passes":
            entry["level"] = f"passes/{number:02d}-{run.name}.mlir"
            self._changes[entry["level"]] = print_level(module, self._texts)[0]
        self._passes.append(entry)

    @_undisturbed
    def _keep_level(self, module: ModuleOp, phase: str) -> None:
        name = f"{sum(key.endswith('.mlir') for key in self._levels)}-{phase}"
        level = level_of(module, self._texts)
        self._levels[f"levels/{name}.mlir"] = level.text
        self._levels[f"levels/{name}.json"] = _json(level.columns)
        self._level, self._lines = phase, level.lines

    # --- the trace ---------------------------------------------------------------------------------------------------

    def finish(
        self,
        pte: bytes | None = None,
        times: Sequence[tuple[str, float]] = (),
        remarks: Sequence[Mapping[str, Any]] = (),
    ) -> Trace:
        """The trace of what was seen; ``pte`` is the file that was made, ``times`` the seconds of each pass."""
        assert self._module is not None
        head = {
            "etir_trace": VERSION,
            "etir": etir.__version__,
            "xdsl": str(xdsl.__version__),
            "python": platform.python_version(),
            "target": self._target,
            "sha256": None if pte is None else hashlib.sha256(pte).hexdigest(),
            "detail": self.detail,
            "origins": self._origins,
            "passes": self._passes,
            "remarks": list(remarks),
        }
        entries: dict[str, str | bytes] = {"trace.json": _json(head), **self._levels, **self._changes}
        entries["delegates.json"] = _json(self._delegates)
        entries["instructions.json"] = _json(described.instructions(self._module, self._lines))
        entries["memory.json"] = _json(described.memory(self._module, self._target))
        if times:
            entries["times.json"] = _json([[name, seconds] for name, seconds in times])
        return Trace(pack(entries))


def _counts(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"


def origins_of(module: ModuleOp, nodes: Nodes) -> list[dict[str, Any]]:
    """A row for each origin, in the order of their numbers."""
    rows: dict[int, dict[str, Any]] = {}

    def add(numbers: Sequence[int], row: Callable[[], dict[str, Any]]) -> None:
        for number in numbers:
            if number not in rows:
                rows[number] = {"origin": number, **row()}

    for top in module.body.block.ops:
        name = top.properties.get("sym_name")
        symbol = getattr(name, "data", None)
        inside = top.name in ("func.func", "et.method")
        for op in top.walk():
            if not carries_origin(op):
                continue

            def row(op: Operation = op, symbol: Any = symbol, inside: bool = inside) -> dict[str, Any]:
                return _row(op, symbol if inside else None, nodes)

            add(origin_numbers(op.location), row)
        for region in top.regions if inside else ():
            for argument in region.blocks[0].args if region.blocks else ():

                def of_argument(argument: Any = argument, symbol: Any = symbol) -> dict[str, Any]:
                    found = [list(n) for n in nodes.get(argument, ())]
                    named = argument.name_hint or f"input_{argument.index}"
                    row = {"method": symbol, "op": "input", "name": named, "file": "", "line": 0, "path": ""}
                    return row | ({"nodes": [found]} if found else {})

                add(origin_numbers(argument.location), of_argument)
    return [rows[number] for number in sorted(rows)]


def _row(op: Operation, method: str | None, nodes: Nodes) -> dict[str, Any]:
    file, line, path = place_of(op)
    symbol = op.properties.get("symbol") or op.properties.get("sym_name")
    named = getattr(getattr(symbol, "root_reference", symbol), "data", "")
    if not isinstance(named, str):
        named = ""
    if op.results and not named:
        named = op.results[0].name_hint or ""
    row: dict[str, Any] = {"method": method, "op": op.name, "name": named, "file": file, "line": line, "path": path}
    found = [[list(n) for n in nodes.get(r, ())] for r in op.results if isinstance(r, OpResult)]
    return row | ({"nodes": found} if any(found) else {})
