"""The walk over samples with dynamic sizes: what it runs, what it sees, what it does not count."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import etir

from etir_testing.opinfo import dynamic
from etir_testing.opinfo.dynamic import dynamic_outcome
from etir_testing.opinfo.dynamic_calls import calls, sample_of
from etir_testing.opinfo.op_samples import OneOp, Sample
from etir_testing.opinfo.op_stages import Outcome

from torch.utils import _pytree as pytree  # isort: skip


def outcome(function: Any, *tensors: torch.Tensor) -> Outcome:
    leaves, structure = pytree.tree_flatten((tensors, {}))
    module = OneOp(function, leaves, structure)
    return dynamic_outcome(Sample("one", torch.float32, module, tensors, "", lambda x: x))


def test_three_sizes_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    real = dynamic._run

    def noted(method: Any, sample: Sample, *rest: Any) -> Any:
        shapes.append(tuple(sample.tensors[0].shape))
        return real(method, sample, *rest)

    monkeypatch.setattr(dynamic, "_run", noted)
    assert outcome(lambda x, y: x @ y, torch.ones(4, 5), torch.ones(5, 3)).stage == "ok"
    assert shapes == [(4, 5), (7, 6), (2, 2)]


def test_wrong_numbers_at_another_size_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = etir.compile

    def other(program: Any, **options: Any) -> Any:
        """A program that is right at the sample's own size."""
        wrong = torch.export.export(
            OneOp(lambda x: x + x.shape[0] - 4, [torch.ones(4)], pytree.tree_flatten(((torch.ones(4),), {}))[1]),
            (torch.ones(4),),
            dynamic_shapes=(({0: torch.export.Dim.AUTO(max=20)},),),
        )
        return real(wrong, **options)

    monkeypatch.setattr(etir, "compile", other)
    found = outcome(lambda x: x * 1, torch.ones(4))
    assert (found.stage, found.message.split(":")[0]) == ("match", "at larger sizes")


def test_sizes_that_the_program_does_not_take_do_not_count() -> None:
    assert outcome(lambda x: x.reshape(2, 2), torch.ones(4)).stage == "export"
    assert outcome(lambda x: x[3], torch.arange(4.0)).stage == "ok"


@pytest.mark.parametrize("part", range(8))
def test_operands_that_models_have_as_constants(part: int) -> None:
    for number, (name, call) in enumerate(calls().items()):
        if number % 8 == part:
            found = dynamic_outcome(sample_of(name, call))
            assert (found.stage, found.message) == ("ok", ""), name
