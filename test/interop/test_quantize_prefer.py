"""``prefer="speed"``: weights of integers that nothing computes on are numbers in the file, and no run multiplies them
out; what a kernel or a delegate takes as integers stays that, and so do the bits of the results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.tools.et_compile import main

from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock

torch.manual_seed(0)
X = torch.randn(1, 8, 8, 8)
NET = torch.export.export(
    nn.Sequential(
        nn.Conv2d(8, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, groups=32),
        nn.Flatten(2),
        nn.Linear(64, 96),
        nn.GELU(),
        nn.Linear(96, 128),
    ).eval(),
    (X,),
)
FLOATS = 4 * (8 * 32 * 9 + 32 * 9 + 64 * 96 + 96 * 128)
ETIR: dict[str, Any] = {"target": "etir"}


def _files(recipe: str, **options: Any) -> list[bytes]:
    return [
        bytes(etir.quantize(NET, recipe, calibration=[(X,)], prefer=prefer, **options).compile().buffer)
        for prefer in ("size", "speed")
    ]


@pytest.mark.parametrize("recipe", ["weight-int8", "weight-int4"])
def test_weights_that_no_kernel_takes(recipe: str) -> None:
    """The stock kernels take none: what splits, converts and multiplies weights in each run is gone."""
    small, fast = _files(recipe)
    assert len(small) < 0.5 * FLOATS < FLOATS < len(fast) < FLOATS + 8000
    names = {name.split("::")[1].split(".")[0] for name in facts_of(fast).kernels}
    assert names == {"convolution", "relu", "linear", "gelu"}
    for run in (run_stock, run_own):
        assert torch.equal(run(small, [X])[0], run(fast, [X])[0])


@pytest.mark.parametrize("recipe", ["weight-int8", "weight-int4", "8da4w"])
def test_weights_that_a_kernel_takes(recipe: str) -> None:
    """Of etir's runtime, linear layers read integers; convolutions do not."""
    small, fast = _files(recipe, **ETIR)
    if recipe == "8da4w":  # convolutions are in floating point
        assert small == fast
        return
    assert len(small) < len(fast) < len(small) + 3 * (8 * 32 * 9 + 32 * 9) + 1000
    assert sum("group_linear" in name for name in facts_of(fast).kernels.elements()) == 2
    assert not any("dequantize" in name for name in facts_of(fast).kernels)
    assert torch.equal(run_own(small, [X])[0], run_own(fast, [X])[0])


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("static-int8", ETIR),
        ("static-int8", {"link_libraries": ["cortex_m"]}),
        *((recipe, {"delegates": ["xnnpack"]}) for recipe in ("static-int8", "8da4w", "weight-int8", "weight-int4")),
    ],
)
def test_programs_on_integers(recipe: str, options: dict[str, Any]) -> None:
    small, fast = _files(recipe, **options)
    assert small == fast


def test_the_command(tmp_path: Path) -> None:
    torch.export.save(NET, tmp_path / "net.pt2")
    for prefer, file in zip(("size", "speed"), _files("weight-int8"), strict=True):
        path = tmp_path / f"{prefer}.pte"
        arguments = ["--quantize", "weight-int8", "--prefer", prefer]
        assert main([str(tmp_path / "net.pt2"), "-o", str(path), *arguments]) == 0
        assert abs(len(path.read_bytes()) - len(file)) < 1000
