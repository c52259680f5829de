"""Prompts for which a model's routers choose experts clearly.

Choosing experts is no continuous function: where two scores are nearly the same, a rounding of any size chooses another
expert, and logits differ by half of their magnitude. Eager in float16 does so, too. A test of what a recipe of numbers
loses needs a prompt for which experts are the same before and after it.
"""

from __future__ import annotations

from typing import Any

import torch

from etir_testing.models.rounded_weights import ROUTERS
from etir_testing.models.static_cache import PROMPT, VOCABULARY

CLEAR = 0.15
"""A difference of scores that counts as clear; the largest scores of these models are some 2."""


def least_margin(model: torch.nn.Module, prompt: tuple[int, ...]) -> float:
    """The least difference between a score that is chosen and one that is not, of all routers and tokens."""
    scores: list[torch.Tensor] = []

    def keep(_module: Any, _inputs: Any, results: Any) -> None:
        scores.append(results[0] if isinstance(results, tuple) else results)

    routers = [layer for name, layer in model.named_modules() if name.rpartition(".")[2] in ROUTERS]
    hooks = [router.register_forward_hook(keep) for router in routers]
    try:
        with torch.no_grad():
            model(torch.tensor([prompt]))
    finally:
        for hook in hooks:
            hook.remove()
    config: Any = model.config
    chosen = int(config.num_experts_per_tok)
    ordered = torch.cat([found.reshape(-1, found.shape[-1]) for found in scores]).sort(-1, descending=True).values
    return float((ordered[:, chosen - 1] - ordered[:, chosen]).min())


def clear_prompt(model: torch.nn.Module) -> tuple[int, ...]:
    """``PROMPT``, or for a model with experts the first of some seeded prompts of its length with clear choices.

    Raises:
        LookupError: there is none.
    """
    if not hasattr(model.config, "num_experts_per_tok"):
        return PROMPT
    generator = torch.Generator().manual_seed(0)
    prompt = PROMPT
    for _ in range(256):
        if least_margin(model, prompt) >= CLEAR:
            return prompt
        prompt = tuple(torch.randint(1, VOCABULARY - 1, (len(PROMPT),), generator=generator).tolist())
    raise LookupError("no prompt with clear choices of experts")
