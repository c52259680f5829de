"""Traces, records and bundled programs whose entries say something else: an error with an id, never an internal one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import etir
from etir.devtools import Inspector
from etir.devtools.etrecord import debug_handles
from etir.devtools.explain import explain
from etir.devtools.exports import model_explorer
from etir.devtools.memory_picture import memory_svg
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.sizes import size_table
from etir.devtools.trace.read import Trace
from etir.diagnostics import EtirError
from etir.emit.bundled.model import Tensor
from etir.emit.formats.scalar_type import ScalarType
from etir.runtime import load
from etir.tools.bundle import array_of

from etir_testing.devtools.programs import exported


@pytest.fixture(scope="module")
def made() -> tuple[Trace, Any]:
    """The trace of a program, and a profile of a run."""
    program, inputs = exported("encoder")
    compiled = etir.compile(program, target="etir", trace=True)
    assert isinstance(compiled.trace, Trace)
    recorded = load(compiled.buffer)["forward"].profile(*inputs).recorded
    assert recorded is not None
    return compiled.trace, read_profile(recorded.etdump)


def changed(trace: Trace, entry: str, change: Callable[[Any], Any]) -> Trace:
    """The trace with another value in one of its entries, the first whose name begins so."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(trace.data)) as old, zipfile.ZipFile(made, "w") as new:
        name = next(n for n in old.namelist() if n.startswith(entry) and n.endswith(".json"))
        for one in old.namelist():
            data = old.read(one)
            new.writestr(one, json.dumps(change(json.loads(data))) if one == name else data)
    return Trace(made.getvalue(), "hostile.trace")


def without(key: str) -> Callable[[Any], Any]:
    return lambda value: {name: held for name, held in value.items() if name != key}


READERS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Trace, Any], object]]] = {
    "a list of changes": ("changes/", lambda value: [value], lambda t, _: explain(t, t.origins[-2].op)),
    "rows that are numbers": (
        "changes/",
        lambda v: {**v, "gone": [7], "new": [7]},
        lambda t, _: explain(t, t.origins[-2].op),
    ),
    "no buffers": (
        "memory",
        lambda v: {m: without("buffers")(p) for m, p in v.items()},
        lambda t, _: memory_svg(t, "forward"),
    ),
    "pools that are texts": (
        "memory",
        lambda v: {m: {**p, "pools": ["a", {}]} for m, p in v.items()},
        lambda t, _: memory_svg(t, "forward"),
    ),
    "bounds that are a list": (
        "memory",
        lambda v: {m: {**p, "bounds": []} for m, p in v.items()},
        lambda t, _: size_table(t, "forward", "line", None),
    ),
    "no operators": (
        "instructions",
        lambda v: {m: without("operator")(t) for m, t in v.items()},
        lambda t, p: Inspector(p, trace=t).by("module"),
    ),
    "times without seconds": ("times", lambda v: [["a"]], lambda t, _: t.times),
    "values that are lists": (
        "levels/",
        lambda v: {key: [[[]]] * len(held) if isinstance(held, list) else held for key, held in v.items()},
        lambda t, _: model_explorer(t),
    ),
}
"""By what is wrong: the entry, its change, and what reads it."""


@pytest.mark.parametrize("case", READERS)
def test_a_damaged_entry_of_a_trace(case: str, made: tuple[Trace, Any]) -> None:
    trace, profile = made
    entry, change, read = READERS[case]

    with pytest.raises(EtirError) as caught:
        read(changed(trace, entry, change), profile)
    assert caught.value.ids == ("E1403",), caught.value
    assert "hostile.trace" in str(caught.value)


def test_a_tensor_of_a_bundled_program_with_too_few_bytes() -> None:
    with pytest.raises(EtirError, match=r"E0910.*sizes \[3, 2\] has 20 bytes"):
        array_of(Tensor(ScalarType.FLOAT, (3, 2), (0, 1), bytes(20)))


def test_debug_handles_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "m.etrecord"
    for said in ({"forward": {"0": {"a": 1}}}, {"forward": [1]}, []):
        with zipfile.ZipFile(path, "w") as record:
            record.writestr("debug_handle_map", json.dumps(said))
        with pytest.raises(EtirError, match="E1407"):
            debug_handles(path)
