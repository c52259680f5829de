"""Quantized models of the zoo beside their float programs: no false alarm, and what is planted is found there."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

import etir
from etir.devtools.comparison import compare
from etir.devtools.comparison.layers import COARSE, WRONG, Layers

from etir_testing.models.registry import MODELS
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.nightly import cases
from etir_testing.quantization.planted import FAULTS, places_of

SETTINGS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "xnnpack": ({"delegates": ["xnnpack"]}, ("etir",)),
    "xnnpack/stock": ({"delegates": ["xnnpack"]}, ("stock",)),  # a process that imports torch once more
    "kernels": ({"target": "etir"}, ("etir",)),
    "portable": ({}, ("etir", "stock")),
}
"""By name: how a model is quantized and compiled, and what runs it."""
RECIPES = {
    "static-int8": ("xnnpack", "xnnpack/stock", "kernels"),
    "dynamic-int8": ("xnnpack", "xnnpack/stock", "kernels"),
    "8da4w": ("xnnpack", "xnnpack/stock", "kernels"),
    "weight-int8": ("xnnpack", "xnnpack/stock", "kernels", "portable"),
    "weight-int4": ("xnnpack", "xnnpack/stock", "kernels", "portable"),
}
IMAGES = ("mobilenet_v2", "squeezenet1_1", "resnet18")
"""Models of convolutions, for which there is no recipe with scales that are found at run time."""
NAMES = ("gpt_block", "llama_block", "lstm", *IMAGES)
EVERY = [
    (name, recipe, setting)
    for name in NAMES
    for recipe, settings in RECIPES.items()
    for setting in settings
    if name not in IMAGES or recipe not in ("dynamic-int8", "8da4w")
]
FIRST = ("gpt_block", "static-int8", "xnnpack")
STATIC = [(name, setting) for name in NAMES if name != "lstm" for setting in RECIPES["static-int8"]]


@cache
def model(name: str) -> tuple[ExportedProgram, tuple[tuple[torch.Tensor, ...], ...]]:
    """A model of the zoo and its samples."""
    if name in MODELS:
        case = MODELS[name]
        return case.export(), tuple(case.inputs(i) for i in range(min(case.steps, 3)))
    built = ENTRIES[name].build()
    with torch.no_grad():
        return torch.export.export(built.module, built.inputs), (built.inputs,)


def layers(name: str, recipe: str, setting: str, fault: str = "") -> tuple[Layers, tuple[str, ...]]:
    """What a comparison finds in a model that was quantized, and the places of what was planted in it."""
    program, samples = model(name)
    options, runtimes = SETTINGS[setting]
    quantized = etir.quantize(program, recipe, calibration=samples, **options)
    places = places_of(FAULTS[fault](quantized.module)) if fault else ()
    found = compare(program, quantized.compile(trace=True), inputs=samples[:1], runtime=runtimes)
    assert isinstance(found, Layers)
    return found, places


@pytest.mark.parametrize("case", cases(map(" ".join, EVERY), nightly=[" ".join(one) for one in EVERY if one != FIRST]))
def test_a_healthy_model_raises_no_alarm(case: str) -> None:
    """Layers in delegates are seen, and all that is not seen has a reason."""
    name, recipe, setting = case.split()
    found, _ = layers(name, recipe, setting)
    assert found.is_good, found
    for stage in found.stages:
        assert not stage.failure and stage.compared > 0, found
        for row in stage.rows:
            bar = -20 * torch.tensor(row.allowed).log10().item()
            assert row.accumulated is None or bar in (pytest.approx(WRONG), pytest.approx(COARSE)), row
        hidden = stage.total - stage.compared
        assert not hidden or any(note.startswith("not seen: ") for note in found.notes), found
    if setting.startswith("xnnpack"):
        assert any(row.what.startswith("delegate ") for row in found.stages[0].rows)


OPERATIONS = [f"{name} {setting}" for name, setting in STATIC if setting.startswith("xnnpack")]


@pytest.mark.parametrize("case", cases(OPERATIONS, nightly=[one for one in OPERATIONS if one != "gpt_block xnnpack"]))
def test_operations_of_a_healthy_model_raise_no_alarm(case: str) -> None:
    """Inside of delegates, too: each is a step or two off for the values that it was given, whatever adds up."""
    name, setting = case.split()
    program, samples = model(name)
    options, runtimes = SETTINGS[setting]
    quantized = etir.quantize(program, "static-int8", calibration=samples, **options)
    found = compare(quantized.module, quantized.compile(trace=True), inputs=samples[:1], runtime=runtimes)
    assert found.is_good, found
    (level,) = (stage for stage in found.stages if stage.name == "et")
    assert level.compared > 3 * max(stage.compared for stage in found.stages if stage.name.startswith("et/")), found


PLANTED = [f"{name} {setting} {fault}" for name, setting in STATIC for fault in FAULTS]


@pytest.mark.parametrize(
    "case", cases(PLANTED, nightly=[one for one in PLANTED if not one.startswith("gpt_block xnnpack ")])
)
def test_a_planted_fault_is_found_first(case: str) -> None:
    name, setting, fault = case.split(maxsplit=2)
    found, places = layers(name, "static-int8", setting, fault)
    assert found.finding is not None and found.finding.where.endswith(places), (places, str(found))
    assert "by itself" in str(found)
