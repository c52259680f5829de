"""The harness itself: it follows programs to the end, sees what is wrong, and compares with the list of exceptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import etir
from etir.runtime.errors import E1206

from etir_testing.opinfo.op_samples import dtypes_of, entries, samples
from etir_testing.opinfo.op_stages import Outcome, outcome_of
from etir_testing.opinfo.op_table import EXCEPTIONS, differences, exceptions, is_green, run_entry

ENTRIES = ["add", "sort", "__getitem__", "nn.functional.dropout", "empty", "linalg.svd", "unique", "std_mean", "clone"]
"""Scalars, ties, baked indices, random and undefined values, factors that are not unique, sizes from data, pairs."""


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_run(name: str) -> None:
    outcomes = run_entry(name, 1, True)
    assert outcomes and is_green(outcomes), outcomes
    assert all(o.stock != "-" for o in outcomes)


def test_refusals_have_a_stage_and_an_id() -> None:
    outcome, *_ = run_entry("to_sparse", 1, False)
    assert outcome.stage == "decompose" and outcome.message.startswith("E0410 ")
    assert {o.stage for o in run_entry("equal", 1, False)} == {"export"}


def test_what_torch_exports_and_cannot_run_is_no_program() -> None:
    """Export bounds the number of elements that are selected by those of the operand, which a mask may exceed."""
    outcomes = [outcome_of(sample, False) for sample in samples("masked_select", torch.float32, None)]
    refused = [o for o in outcomes if o.stage != "ok"]
    assert len(refused) < len(outcomes) and {o.stage for o in refused} == {"export"}
    assert all(o.message.startswith("the exported program: ") for o in refused)


def test_what_torch_can_run_is_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, inputs: Any):
            self.inputs = inputs

        def __call__(self, *_: Any) -> Any:
            raise E1206.error("no")

    load = etir.runtime.load
    monkeypatch.setattr(etir.runtime, "load", lambda buffer: {"forward": Refusing(load(buffer)["forward"].inputs)})
    outcome = outcome_of(next(samples("tanh", torch.float32, 1)), False)
    assert (outcome.stage, outcome.message) == ("run", "E1206 no")


@pytest.mark.parametrize("change", [lambda y: y + 1e-3, lambda y: y.double(), lambda y: y[..., None], lambda y: (y, y)])
def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], Any]) -> None:
    """A program that is not what eager runs: export sees a function that is a little off."""
    sample = next(samples("exp", torch.float32, 1))
    export = torch.export.export

    def exported(module: Any, inputs: Any, *, strict: bool) -> Any:
        right, module.function = module.function, lambda x: change(torch.exp(x))
        program = export(module, inputs, strict=strict)
        module.function = right
        return program

    monkeypatch.setattr(torch.export, "export", exported)
    assert outcome_of(sample, False).stage == "match"


def test_samples_are_the_same_in_every_run_and_differ_from_each_other() -> None:
    first, second = list(samples("sum", torch.float32, 4)), list(samples("sum", torch.float32, 4))
    assert [s.text for s in first] == [s.text for s in second] and len({s.text for s in first}) == 4
    assert all(
        torch.equal(a, b) for s, t in zip(first, second, strict=True) for a, b in zip(s.tensors, t.tensors, strict=True)
    )
    assert dtypes_of("bitwise_and") == [torch.int64, torch.bool]


def test_differences_from_the_list() -> None:
    good = Outcome("a", "float32", "(x)", "ok")
    bad = replace(good, entry="b", stage="match", message="off")
    refused = replace(good, entry="c", stage="export")
    results = {"a": [good], "b": [good, bad], "c": [refused]}
    assert differences(results, {"b": "known"}) == []
    assert differences(results, {"b": "known", "c": "no program"}) == []
    assert differences(results, {"a": "known", "b": "known"}) == ["a runs, but is listed: known"]
    assert differences(results, {}) == ["b(x) in float32 stops at match: off"]


def test_the_list_names_entries_once_with_reasons() -> None:
    assert EXCEPTIONS.is_file()
    listed = exceptions(None)
    assert set(listed) <= set(entries()) and all(listed.values())
    assert set(exceptions(1)) <= set(listed)
