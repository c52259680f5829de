"""The zoo's table and its report; the models themselves are what `python test/zoo.py --check` runs."""

from __future__ import annotations

import pytest
import torch

from etir_testing.models.zoo_entry import DEEP, EXACT
from etir_testing.models.zoo_report import document, failure, first_line
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.models.zoo_worker import Figures, work

SMALL_AND_OWN = ("llama3_decode", "emformer_predict", "lennard_jones_net")


def test_every_entry_has_a_source_and_one_of_two_tolerances() -> None:
    assert all(entry.source and entry.tolerance in (DEEP, EXACT) for entry in ENTRIES.values())
    assert not any(entry.small and (entry.sweep or entry.shape_only) for entry in ENTRIES.values())


@pytest.mark.parametrize("name", SMALL_AND_OWN)
def test_building_twice_gives_the_same_weights_and_inputs(name: str) -> None:
    first, second = ENTRIES[name].build(), ENTRIES[name].build()
    for key, tensor in first.module.state_dict().items():
        assert torch.equal(tensor, second.module.state_dict()[key]), key
    for one, other in zip(
        torch.utils._pytree.tree_leaves(first[1]), torch.utils._pytree.tree_leaves(second[1]), strict=True
    ):
        assert torch.equal(one, other)


def test_an_entry_compiles_runs_and_is_compared() -> None:
    figures = work(ENTRIES["emformer_predict"], "etir", wheel=False, timed=False)
    assert failure(ENTRIES["emformer_predict"], figures) is None
    assert figures.own_difference is not None and figures.file_bytes
    assert figures.stage == "done"


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"own_difference": 1e-6, "wheel_difference": None}, None),
        ({"own_difference": 1e-2, "wheel_difference": 1e-6}, "etir's runtime is 1.0e-02 from eager"),
        ({"own_difference": float("nan"), "wheel_difference": 1e-6}, "etir's runtime is nan from eager"),
        ({"error": "no kernel", "stage": "compile"}, "compile: no kernel"),
    ],
)
def test_failure(figures: dict[str, object], expected: str | None) -> None:
    assert failure(ENTRIES["resnet18"], Figures("resnet18", "etir", **figures)) == expected  # type: ignore[arg-type]


def test_the_document_names_what_the_stock_pipeline_refuses() -> None:
    own = Figures("lstm", "etir", compile_seconds=0.5, own_run_seconds=0.0004, own_difference=0.0, wheel_difference=0.0)
    stock = Figures("lstm", "stock", stage="compile", error="\nRuntimeError: no | kernel\nmore")
    text = document({"lstm": {"etir": own, "stock": stock}})
    assert "1 of 1 models" in text and "the stock pipeline does not do\n1." in text
    assert "| RuntimeError: no / kernel |" in text
    assert "| 0.50 / – |" in text


def test_first_line_is_short() -> None:
    assert len(first_line("x" * 500)) == 160
