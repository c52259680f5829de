"""transformers' decoders as exported programs, in the form that ExecuTorch's runner for text takes.

One method, ``forward(tokens: int64[1, n], positions: int64[n]) -> logits``, does prefill and decode: n goes from 1 to
``max_prefill``. The caches are transformers' static ones, as buffers of the program. Only the last position has logits,
float32 ``[1, vocabulary]``: of a prompt, nobody reads the others, and they are a fifth of the work of a small model.

The cache of every layer has the size of the context, also of layers with a sliding window, whose mask keeps what is too
old out of sight: transformers' own cache for windows cannot be exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1607, E1610

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from transformers import PreTrainedModel

METHOD = "forward"
_EXAMPLE = 5
"""Tokens of the example that is traced; any number that is not special."""


class StaticDecoder(nn.Module):
    """A decoder with its caches as buffers: tokens int64 ``[1, n]`` and their positions int64 ``[n]`` to logits."""

    def __init__(self, model: PreTrainedModel, context: int, all_logits: bool = False):
        super().__init__()
        from transformers.cache_utils import StaticCache, StaticLayer
        from transformers.configuration_utils import get_head_shapes

        config = model.config.get_text_config()
        self.model = model
        self.all_logits = all_logits
        self.cache = StaticCache(config=config, max_cache_len=context)
        self.layers = [StaticLayer(context) for _ in self.cache.layers]
        self.cache.layers[:] = self.layers
        heads, size = get_head_shapes(config)
        self.cache.early_initialization(1, heads, size, model.dtype, torch.device("cpu"))
        for index, layer in enumerate(self.layers):
            for name in ("keys", "values", "cumulative_length"):
                self.register_buffer(f"cache_{index}_{name}", getattr(layer, name), persistent=False)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # The position is the caller's: a program keeps no count that would have to be reset.
        for layer in self.layers:
            count: Any = layer.cumulative_length
            count.copy_(positions[0])
        found = self.model(
            input_ids=tokens,
            attention_mask=None,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=0 if self.all_logits else 1,
        )
        return found.logits.float() if self.all_logits else found.logits[:, -1].float()


def export_decoder(
    model: PreTrainedModel, context: int, max_prefill: int, *, all_logits: bool = False
) -> ExportedProgram:
    """The program of a decoder for ``context`` positions, and up to ``max_prefill`` tokens in a call.

    ``model`` is in the dtype that the program computes in. ``all_logits`` gives ``[1, n, vocabulary]``. Linear layers
    that GPT-2 stores transposed become ordinary ones, in ``model`` itself.

    Raises E1607 for sizes that the model does not have, E1610 where transformers or torch cannot export it.
    """
    import_transformers()
    most = int(model.config.get_text_config().max_position_embeddings)
    if not 1 < context <= most:
        raise E1607.error(f"a context of {context}: the model has up to {most} positions, and 2 are the least")
    if not 1 < max_prefill <= context:
        raise E1607.error(f"{max_prefill} tokens in a call: 2 to {context}, the context, are possible")
    straighten(model)
    model.config.use_cache = True
    example = min(_EXAMPLE, max_prefill)
    count = torch.export.Dim("tokens", min=1, max=max_prefill)
    sizes: Any = {"tokens": {1: count}, "positions": {0: count}}
    inputs = torch.ones(1, example, dtype=torch.int64), torch.arange(example)
    try:
        with torch.no_grad():
            module = StaticDecoder(model, context, all_logits).eval()
            return torch.export.export(module, inputs, dynamic_shapes=sizes, strict=False)
    except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError, AssertionError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise E1610.error(f"{type(model).__name__} cannot be exported: {first}") from error


def straighten(model: nn.Module) -> None:
    """Replace transformers' ``Conv1D``, whose weight is ``[inputs, outputs]``, by linear layers, which everything that
    quantizes and computes knows.
    """
    from transformers.pytorch_utils import Conv1D

    for name, module in list(model.named_modules()):
        if isinstance(module, Conv1D):
            inputs, outputs = module.weight.shape
            linear = nn.Linear(inputs, outputs, device="meta")
            linear.weight = nn.Parameter(module.weight.detach().T.contiguous(), requires_grad=False)
            linear.bias = nn.Parameter(module.bias.detach(), requires_grad=False)
            model.set_submodule(name, linear)
