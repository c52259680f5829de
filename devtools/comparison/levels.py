"""The levels of a trace as modules that run: a trace holds no weights, so they are brought from elsewhere.

Weights of the imported program are those of the source, those of the lowest level are in the ``.pte`` file. What a pass
made and a later one changed again is in neither: then the passes of the trace run once more on the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from etir.backends.api.registry import backend_dialects
from etir.devtools.errors import E1412
from etir.devtools.trace.read import Trace
from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.et.origin import number_origins
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module
from etir.passes.infra.instrumentation import Instrument, PassRun
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.passes.infra.pipeline import parse_pipeline


class Blobs:
    """Bytes by their digests."""

    def __init__(self, modules: Iterable[ModuleOp] = ()):
        self.found: dict[Blob, Blob] = {}
        for module in modules:
            self.add(module)

    def add(self, module: ModuleOp) -> None:
        """Keep all bytes that a module has."""
        for blob in blobs_of(module):
            if blob.has_data:
                self.found.setdefault(blob, blob)

    def give(self, module: ModuleOp) -> int:
        """Attach what is known to a module; returns how many are missing."""
        missing = 0
        for blob in blobs_of(module):
            if blob in self.found:
                blob.attach(self.found[blob].data)
            missing += not blob.has_data
        return missing


def blobs_of(module: ModuleOp) -> Iterable[Blob]:
    """All references to bytes in a module."""
    return (a.data for op in module.walk() for a in op.properties.values() if isinstance(a, BlobAttr))


class _Collect(Instrument):
    def __init__(self, blobs: Blobs):
        super().__init__()
        self.blobs = blobs

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Keep what the pass made."""
        self.blobs.add(module)


def context() -> EtContext:
    """A context with the dialects of all backends."""
    return EtContext(dialects=backend_dialects())


def numbered(source: ModuleOp, trace: Trace) -> ModuleOp:
    """A copy of the imported program with origins. Raises error E1412 when it is not the one that was traced."""
    module = source.clone()
    last = number_origins(module)
    wanted = trace.origins[-1].number if trace.origins else 0
    if last != wanted:
        message = f"the program has {last} operations and inputs, the traced one has {wanted}"
        raise E1412.error(message, SourceLocation(trace.name))
    return module


def levels_of(trace: Trace, source: ModuleOp | None, final: ModuleOp | None) -> dict[str, ModuleOp | str]:
    """The levels in order, as modules with their weights, or why one does not run.

    ``source`` is the imported program, ``final`` the module of the ``.pte`` file. Raises error E1412 for a source that
    is not the program of the trace, and what parsing raises.
    """
    blobs = Blobs(module for module in (source, final) if module is not None)
    parsed = {level: parse_module(trace.text(level), context(), name=level) for level in trace.levels}
    missing = {level: blobs.give(module) for level, module in parsed.items()}
    if any(missing.values()) and source is not None:
        rerun = numbered(source, trace)
        passes = parse_pipeline(",".join(entry.text for entry in trace.passes))
        with suppress(EtirError):  # as far as it goes; what is missing is said below
            run_pipeline(context(), rerun, passes, PipelineOptions((_Collect(blobs),)))
        missing = {level: blobs.give(module) for level, module in parsed.items()}
    return {
        level: f"not run: the trace does not have {count} weights that passes made" if count else parsed[level]
        for level, count in missing.items()
    }


def passes_of(trace: Trace) -> tuple[Any, ...]:
    """The passes of a trace, to be run again."""
    return tuple(parse_pipeline(",".join(entry.text for entry in trace.passes)))
