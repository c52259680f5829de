"""Recipes by name: what is stored as integers, and when the scales of activations are found."""

from __future__ import annotations

from dataclasses import dataclass

from etir.backends.api.quantization import DYNAMIC, STATIC, WEIGHT
from etir.diagnostics import did_you_mean
from etir.quantization.errors import E1501


@dataclass(frozen=True)
class Recipe:
    """``scheme`` is that of the rows that it takes; ``bits`` are those of weights, where a row has so few, else 8."""

    name: str
    scheme: str
    meaning: str
    bits: int = 8

    @property
    def activations(self) -> bool:
        """Whether calibration has to see what layers compute on."""
        return self.scheme == STATIC

    @property
    def stored(self) -> str:
        """How its layers are stored, as the report names it."""
        how = {STATIC: "int8", DYNAMIC: "int8 at run time", WEIGHT: f"int{self.bits} weights"}[self.scheme]
        return f"{how}, int{self.bits} weights" if self.scheme == DYNAMIC and self.bits != 8 else how

    @property
    def integers(self) -> bool:
        """Whether layers compute on integers."""
        return self.scheme != WEIGHT


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("static-int8", STATIC, "activations and weights are int8, with scales that calibration finds"),
        Recipe("dynamic-int8", DYNAMIC, "weights are int8, and so are the inputs of layers, row by row when they run"),
        Recipe("8da4w", DYNAMIC, "as dynamic-int8 with weights of 4 bits, a scale for each 32 of them", bits=4),
        Recipe("weight-int8", WEIGHT, "weights are int8 in the file; layers compute in float32"),
        Recipe("weight-int4", WEIGHT, "weights have 4 bits, a scale for each 32 of them; layers compute in float32", 4),
    )
}
ALIASES = {"8da8w": "dynamic-int8"}
"""Other names of the same recipe."""


def recipe_of(name: str) -> Recipe:
    """The recipe of that name. Raises E1501 when there is none."""
    known = ALIASES.get(name, name)
    if known not in RECIPES:
        raise E1501.error(f"'{name}'{did_you_mean(name, RECIPES)}; there are {', '.join(RECIPES)}")
    return RECIPES[known]
