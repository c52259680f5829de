"""Whole models: compiled by etir, executed by the stock ExecuTorch runtime, compared with eager.

The checks of one model share one export and one compilation. A model that keeps state is called over several steps on one
loaded method; a dynamic one is called at every size of its case.
"""

from __future__ import annotations

from functools import cache

import pytest
from models.registry import MODELS

import etir

torch = pytest.importorskip("torch")
portable_lib = pytest.importorskip("executorch.extension.pybindings.portable_lib")


@cache
def exported(name: str):
    """The exported program of a model; exporting takes longer than compiling."""
    case = MODELS[name]
    for package in case.missing():
        pytest.skip(f"{package} is not installed")
    return case.export()


@cache
def compiled(name: str) -> etir.Program:
    """The model compiled for the stock runtime."""
    return etir.compile(exported(name), target="executorch")


def run_stock(data: bytes, name: str) -> list[list[torch.Tensor]]:
    """The outputs of every step on the stock runtime; ``data`` stays alive as long as the method."""
    case = MODELS[name]
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return [[torch.as_tensor(o).clone() for o in loaded.forward(case.inputs(step))] for step in range(case.steps)]


@pytest.mark.parametrize("name", list(MODELS))
def test_stock_runtime_gives_eager_results(name: str) -> None:
    """Largest difference relative to the largest magnitude within the case's tolerance."""
    case = MODELS[name]
    assert case.check(run_stock(compiled(name).buffer, name)) <= case.tolerance
