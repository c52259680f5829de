"""`adamw-step`: let a joint graph of forward and backward update its parameters itself, by AdamW.

Before and after as with `adam-step` (``adam_step.py``, which has the code), except that the weight decay is apart from
the gradient: a parameter is multiplied with ``1 - lr * weight_decay`` first. Loshchilov and Hutter, "Decoupled Weight
Decay Regularization" (2019), as ``torch.optim.AdamW`` does it.
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.passes.infra.registry import register_pass
from etir.passes.training.adam_step import AdamStepPass


@register_pass
@dataclass(frozen=True)
class AdamwStepPass(AdamStepPass):
    """Append a step of AdamW to joint graphs.

    The options are those of `adam-step`, with the weight decay apart from the gradient.
    """

    name = "adamw-step"
    decoupled = True
    weight_decay: float = 1e-2
