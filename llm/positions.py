"""Rotary positions whose frequencies depend on how long a text is: chosen once, by the context of the program.

Some models have two sets of frequencies, one for texts of up to as many tokens as they were trained with first and one
for longer ones (``longrope``: Phi 3.5, Phi 4 mini, MiniCPM); others compute frequencies from the length (``dynamic``).
transformers decides by the tokens of each call. With a cache that cannot be right: keys that are in it were turned by
other frequencies than the queries that come later, and nothing says so. As llama.cpp does, a program for a context that
the first set is for takes that one, exactly what transformers computes; a program for a longer context takes the second
set for every text.
"""

from __future__ import annotations

from typing import Any

from torch import nn

FIXED = "fixed"
"""What takes the place of the name of a scaling that depends on the length: transformers asks for the names of these
only."""


def fix_frequencies(model: nn.Module, context: int) -> int | None:
    """Let rotary positions of ``model`` not depend on the length of a text any more, for a program of ``context``
    positions. Gives the positions that the set for short texts is for, where that is not the one that was taken.
    """
    beyond: int | None = None
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if isinstance(kind, str):
            original = _fix(module, kind, "", None, context)
            if _depends(kind):
                module.rope_type = FIXED  # type: ignore[assignment]
        elif isinstance(kind, dict):
            found = [_fix(module, each, f"{layer}_", layer, context) for layer, each in kind.items()]
            original = next((one for one in found if one is not None), None)
            module.rope_type = {layer: FIXED if _depends(each) else each for layer, each in kind.items()}  # type: ignore[assignment]
        else:
            continue
        beyond = original if beyond is None else beyond
    return beyond


def _depends(kind: str) -> bool:
    return kind == "longrope" or "dynamic" in kind


def _fix(module: Any, kind: str, prefix: str, layer: str | None, context: int) -> int | None:
    """Choose the frequencies of a module, or of its layers of one kind. A scaling that is computed from the length is
    the plain one for any context that the model has: longer ones are refused elsewhere.
    """
    if kind != "longrope":
        return None
    parameters = module.config.rope_parameters
    parameters = parameters if layer is None else parameters[layer]
    original = int(parameters["original_max_position_embeddings"])
    if context <= original:
        return None
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    more = {} if layer is None else {"layer_type": layer}
    frequencies, _ = ROPE_INIT_FUNCTIONS[kind](module.config, seq_len=original + 1, **more)
    getattr(module, f"{prefix}inv_freq").copy_(frequencies)
    return original
