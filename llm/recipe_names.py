"""Recipes for language models: how many bits weights have, and what is computed on integers.

A recipe of a language model is one for its linear layers and one for the head and the table of tokens, which have 8
bits in all of them, as GGUF files do: an error there is one in every token. Names are data, so that a command line that
only lists them imports no compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.diagnostics import did_you_mean
from etir.llm.errors import E1608
from etir.llm.passes.cache_types import CacheType


@dataclass(frozen=True)
class ModelRecipe:
    """``layers`` and ``head`` are recipes of ``etir.quantize``; ``bits`` those of the layers' weights. Without them a
    program computes in ``dtype``. ``cache`` is what caches hold where the target's attention reads that: bfloat16 where
    layers compute on integers, which rounds as much as it does.
    """

    name: str
    meaning: str
    layers: str = ""
    head: str = ""
    bits: int = 32
    dtype: str = "float32"
    cache: CacheType = "float32"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        ModelRecipe("fp32", "float32 throughout"),
        ModelRecipe("fp16", "float16 throughout; logits are float32", dtype="float16", bits=16),
        ModelRecipe("int8", "weights of 8 bits; layers compute in float32", "weight-int8", "weight-int8", 8),
        ModelRecipe("int4", "weights of 4 bits, a scale for each 32 of them", "weight-int4", "weight-int8", 4),
        ModelRecipe(
            "8da4w", "as int4, and layers compute on int8, row by row", "8da4w", "dynamic-int8", 4, cache="bfloat16"
        ),
    )
}


def recipe_of(name: str) -> ModelRecipe:
    """The recipe of that name. Raises E1608 when there is none."""
    if name not in RECIPES:
        raise E1608.error(f"there is no recipe '{name}'{did_you_mean(name, RECIPES)}; there are {', '.join(RECIPES)}")
    return RECIPES[name]
