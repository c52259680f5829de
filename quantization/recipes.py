"""Recipes by name: what is stored as integers."""

from __future__ import annotations

from dataclasses import dataclass

from etir.diagnostics import did_you_mean
from etir.quantization.errors import E1501


@dataclass(frozen=True)
class Recipe:
    """``activations``: what layers compute on is int8, so that calibration has to see it; weights are int8 always."""

    name: str
    activations: bool
    meaning: str


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("static-int8", True, "activations and weights are int8, with scales that calibration finds"),
        Recipe("weight-int8", False, "weights are int8 in the file; layers compute in float32"),
    )
}


def recipe_of(name: str) -> Recipe:
    """The recipe of that name. Raises E1501 when there is none."""
    if name not in RECIPES:
        raise E1501.error(f"'{name}'{did_you_mean(name, RECIPES)}; there are {', '.join(RECIPES)}")
    return RECIPES[name]
