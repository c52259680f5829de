"""The rules that a bundled program has to follow; the reader and the writer both check them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from etir.diagnostics import Diagnostic, SourceLocation
from etir.emit.bundled.model import BundledProgram, Tensor, Value
from etir.emit.errors import E0825, E0828, E0830, E0831, E0835, E0844
from etir.emit.formats.buffers import buffer_bytes
from etir.emit.formats.checks import name_error, quoted, text_error
from etir.emit.formats.shape import shape_error

MAX_DIAGNOSTICS = 64


def validate_bundled(bundled: BundledProgram, *, file: str | None = None) -> list[Diagnostic]:
    """Everything that is wrong with ``bundled``, at most :data:`MAX_DIAGNOSTICS` errors; ``file`` is its file."""
    location = None if file is None else SourceLocation(file)
    return [diagnostic.at(location) for diagnostic in islice(_check(bundled), MAX_DIAGNOSTICS)]


def _check(bundled: BundledProgram) -> Iterator[Diagnostic]:
    if bytes(memoryview(bundled.program).cast("B")[4:8]) != b"ET12":
        yield E0844.diagnostic("the bundled bytes are no ExecuTorch program (.pte)")
    names: set[str] = set()
    for suite in bundled.suites:
        if (problem := name_error(suite.method)) is not None:
            yield E0828.diagnostic(f"the name of a bundled method {problem}")
        elif (problem := text_error(suite.method)) is not None:
            yield E0835.diagnostic(f"the name of a bundled method {problem}")
        if suite.method in names:
            yield E0831.diagnostic(f"there are two suites of the method {quoted(suite.method)}")
        names.add(suite.method)
        for number, case in enumerate(suite.cases):
            for kind, values in (("input", case.inputs), ("expected output", case.expected)):
                for i, value in enumerate(values):
                    yield from _check_value(value, f"{kind} {i} of case {number} of {quoted(suite.method)}")


def _check_value(value: Value, where: str) -> Iterator[Diagnostic]:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        yield E0830.diagnostic(f"{where} is {value}, which 64 bits cannot hold")
    if not isinstance(value, Tensor):
        return
    if (problem := shape_error(value.scalar_type, value.sizes, value.dim_order)) is not None:
        yield E0825.diagnostic(f"{where}: {problem}")
    elif value.nbytes != (size := buffer_bytes(value.data)):
        what = f"{value.scalar_type.name} of sizes {list(value.sizes)} has {value.nbytes} bytes, the data {size}"
        yield E0844.diagnostic(f"{where}: {what}")
