"""Origins through the whole compiler: no pass loses one, none changes a byte, and marked values are what they say."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import etir
from etir.devtools.trace.read import Table, Trace
from etir.devtools.values.interpreted import interpreted_values
from etir.dialects.et.origin import number_origins
from etir.dialects.verify import verify_module
from etir.passes.infra.instrumentation import Instrument, PassRun, watching

from etir_testing import exports
from etir_testing.devtools.programs import PROGRAMS, exported
from etir_testing.models.registry import MODELS

SETTINGS = {
    "executorch": {},
    "xnnpack": {"delegates": "xnnpack"},
    "native": {"target": "etir", "delegates": "native"},
    "reference": {"target": "etir", "delegates": "reference"},
}

ENDS_OF_PHASES = ("verify-core-aten", "verify-edge", "verify-link", "verify-plan")

export = functools.cache(exported)


class Watch(Instrument):
    """Looks for operations without an origin after every pass, and keeps the values at the end of every phase."""

    def __init__(self, module: ModuleOp, inputs: list):
        super().__init__()
        self.inputs = inputs
        self.module: ModuleOp | None = None
        self.values = {}
        self.reference = interpreted_values(module, inputs)

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        self.module = self.module or module

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        if module is not self.module:
            return  # a backend's own pipeline
        verify_module(module, origins=True)
        if run.name in ENDS_OF_PHASES:
            self.values[run.name] = interpreted_values(module, self.inputs)


CASES = [
    *((name, setting) for name in PROGRAMS for setting in ("executorch", "xnnpack")),
    ("image", "native"),
    ("cond", "native"),
    ("state", "reference"),
    ("loop", "reference"),
]


@pytest.mark.parametrize(("name", "setting"), CASES)
def test_origins_stay_and_marks_are_true(name: str, setting: str) -> None:
    program, inputs = export(name)
    plain = etir.compile(program, **SETTINGS[setting])
    module = etir.import_program(program)
    number_origins(module)
    watch = Watch(module, inputs)
    with watching(watch):
        traced = etir.compile(module, **SETTINGS[setting])
    assert traced.buffer == plain.buffer
    assert traced.debug_file() == plain.debug_file()
    assert list(watch.values) == list(ENDS_OF_PHASES)
    for phase, values in watch.values.items():
        assert values, f"nothing is marked after {phase}"
        for key, value in values.items():
            wanted = watch.reference[key]
            assert value.size == wanted.size, (phase, key)
            np.testing.assert_allclose(
                value.ravel(), wanted.ravel(), rtol=1e-3, atol=1e-4, err_msg=f"{phase}, origin {key}"
            )


def test_every_value_that_is_no_view_is_found_at_the_lowest_level() -> None:
    """Without a delegate and without a decomposition that has other values: all but views and what was folded."""
    program, inputs = export("encoder")
    module = etir.import_program(program)
    number_origins(module)
    watch = Watch(module, inputs)
    with watching(watch):
        etir.compile(module)
    lost = watch.reference.keys() - watch.values["verify-plan"].keys()
    names = {op.name for op in module.walk() for m in _numbers(op) if any(m == key[0] for key in lost)}
    assert names <= VIEWS, names


VIEWS = {
    "et.get_weight",  # instructions read weights where they are: nothing computes them
    "aten.contiguous.default",
    "aten.select.int",
    "aten.squeeze.dim",
    "aten.transpose.int",
    "aten.unflatten.int",
    "aten.unsqueeze.default",
    "aten.view.default",
}


def _numbers(op):
    from etir.dialects.et.origin import origins_in

    found = origins_in(op.location)
    return () if found is None else found.numbers


MADE_BY_THE_COMPILER = ("et.jump", "et.jump_false", "et.move", "executorch_prim::", "aten::sym_size.int")
"""What need not have a line: checks of the sizes of inputs, counters and jumps of loops. All that computes has one."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("delegates", [(), ("xnnpack",)], ids=["kernels", "xnnpack"])
def test_every_instruction_of_the_models_has_a_line(name: str, delegates: tuple[str, ...]) -> None:
    """And an origin; the operations inside of delegates have both, too. Torch gives every node of them a line."""
    if MODELS[name].missing():
        pytest.skip(f"needs {', '.join(MODELS[name].missing())}")
    trace = etir.compile(exports.exported(MODELS[name]), delegates=delegates, trace=True).trace
    assert isinstance(trace, Trace)
    tables = [*trace.instructions.values(), *trace.delegates.values()]
    rows = [(table, row) for table in tables for row in range(len(table))]
    assert rows and all(table.several("origins", row) for table, row in rows)

    def has_line(table: Table, row: int) -> bool:
        origins = [trace.origin(number) for number in table.several("origins", row)]
        return bool(table["source"][row]) or any(origin is not None and origin.file for origin in origins)

    without = [
        (table["operator"] if "operator" in table.columns else table["name"])[row]
        for table, row in rows
        if not has_line(table, row)
    ]
    assert [name for name in without if not name.startswith(MADE_BY_THE_COMPILER)] == []
    assert len(without) <= len(rows) / 8, "most of a program is no bookkeeping"
