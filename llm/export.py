"""transformers' decoders as exported programs, in the form that ExecuTorch's runner for text takes.

One method, ``forward(tokens: int64[1, n], positions: int64[n]) -> logits``, does prefill and decode: n goes from 1 to
``max_prefill``. The caches are transformers' static ones, as buffers of the program. Only the last position has logits,
float32 ``[1, vocabulary]``: of a prompt, nobody reads the others, and they are a fifth of the work of a small model.

The cache of every layer has the size of the context, also of layers with a sliding window, whose mask keeps what is too
old out of sight: transformers' own cache for windows cannot be exported.

Not every model of transformers can do with such a cache, and some that cannot compute something else without a word (a
mask that is counted from the cache's end, a state beside it). So the logits with it are compared with those without
before anything is exported: of a few tokens, and of as few with windows shorter than they are, as a model may be wrong
beyond its window only. Some models find the positions of tokens, or how many of them to mask, in a way that cannot be
traced; these are given them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from etir.diagnostics import EtirError
from etir.llm.checkpoint.checkpoint import positions_of
from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1607, E1610, E1611
from etir.llm.positions import fix_frequencies

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from transformers import PreTrainedModel

METHOD = "forward"
_EXAMPLE = 5
"""Tokens of the example that is traced; any number that is not special."""


_SAME = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}
"""By how much of the largest one logits with a cache may differ from those without: far more than by rounding, and far
less than by a wrong mask."""


class StaticDecoder(nn.Module):
    """A decoder with its caches as buffers: tokens int64 ``[1, n]`` and their positions int64 ``[n]`` to logits.

    ``tells_positions`` hands the positions to the model, which otherwise counts from what the cache holds; ``masks``
    tells it that no token of the whole context is padding, which it otherwise says itself of as many as there are.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        context: int,
        all_logits: bool = False,
        *,
        tells_positions: bool = False,
        masks: bool = False,
    ):
        super().__init__()
        from transformers.cache_utils import StaticCache, StaticLayer
        from transformers.configuration_utils import get_head_shapes

        config = model.config.get_text_config()
        self.model = model
        self.all_logits = all_logits
        self.tells_positions = tells_positions
        self.masked = context if masks else 0
        self.cache = StaticCache(config=config, max_cache_len=context)
        self.cache.layers[:] = [StaticLayer(context) for _ in self.cache.layers]
        # A decoder that was half of another model may have more layers than that one's configuration says first.
        self.cache.layer_class_to_replicate = partial(StaticLayer, context)  # type: ignore[assignment]
        # Keys and values get the shapes that the model gives them (one head for all queries, keys of other sizes than
        # values); layers that it does not write have those of its configuration.
        ids = torch.ones(1, 1, dtype=torch.int64)
        self._call(ids, torch.arange(1))
        self.layers = cast("list[StaticLayer]", list(self.cache.layers))
        written = [layer.is_initialized for layer in self.layers]
        heads, size = get_head_shapes(config)
        self.cache.early_initialization(1, heads, size, model.dtype, torch.device("cpu"))
        for index, layer in enumerate(self.layers):
            for name in ("keys", "values", "cumulative_length") if written[index] else ("cumulative_length",):
                self.register_buffer(f"cache_{index}_{name}", getattr(layer, name), persistent=False)
        self.clear()

    def clear(self) -> None:
        """Empty the caches."""
        for tensor in self.buffers(recurse=False):
            tensor.zero_()

    def _call(self, tokens: torch.Tensor, positions: torch.Tensor) -> Any:
        more: dict[str, Any] = {"position_ids": positions.unsqueeze(0)} if self.tells_positions else {}
        if not self.all_logits and _takes(self.model, "logits_to_keep"):
            more["logits_to_keep"] = 1
        # Made here, as a constant that is traced: models look into a mask that is a buffer.
        mask = torch.ones(1, self.masked, dtype=torch.int64) if self.masked else None
        return self.model(input_ids=tokens, attention_mask=mask, past_key_values=self.cache, use_cache=True, **more)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # The position is the caller's: a program keeps no count that would have to be reset.
        for layer in self.layers:
            count: Any = layer.cumulative_length
            count.copy_(positions[0])
        found = self._call(tokens, positions)
        return found.logits.float() if self.all_logits else found.logits[:, -1].float()


def export_decoder(
    model: PreTrainedModel, context: int, max_prefill: int, *, all_logits: bool = False
) -> ExportedProgram:
    """The program of a decoder for ``context`` positions, and up to ``max_prefill`` tokens in a call.

    ``model`` is in the dtype that the program computes in. ``all_logits`` gives ``[1, n, vocabulary]``. Linear layers
    that GPT-2 stores transposed become ordinary ones, and frequencies of rotary positions those of the context
    (:mod:`~etir.llm.positions`), in ``model`` itself.

    Raises E1607 for sizes that the model does not have, E1610 where transformers or torch cannot export it, E1611 where
    the model computes something else with a static cache than without one.
    """
    import_transformers()
    most = positions_of(model)
    if context < 2 or (most is not None and context > most):
        has = "" if most is None else f"the model has up to {most} positions, and "
        raise E1607.error(f"a context of {context}: {has}2 are the least")
    if not 1 < max_prefill <= context:
        raise E1607.error(f"{max_prefill} tokens in a call: 2 to {context}, the context, are possible")
    straighten(model)
    fix_frequencies(model, context)
    model.config.use_cache = True
    example = min(_EXAMPLE, max_prefill)
    count = torch.export.Dim("tokens", min=1, max=max_prefill)
    sizes: Any = {"tokens": {1: count}, "positions": {0: count}}
    inputs = torch.ones(1, example, dtype=torch.int64), torch.arange(example)
    first: EtirError | None = None
    told = [name for name in ("position_ids", "attention_mask") if _takes(model, name)]
    for tells, masks in ((False, False), (True, False), (False, True), (True, True)):
        if (tells and "position_ids" not in told) or (masks and "attention_mask" not in told):
            continue
        # What computes something else is not asked for another way that a few tokens could not tell from the right one.
        if masks and first is not None and first.ids == (E1611.id,):
            break
        try:
            with torch.no_grad():
                module = StaticDecoder(model, context, all_logits, tells_positions=tells, masks=masks).eval()
                _check_cache(module, example)
                with _short_windows(model, max(1, example - 2)) as shortened:
                    if shortened:
                        _check_cache(module, example, " beyond its window")
                return _traced(module, inputs, sizes)
        except EtirError as error:
            first = first or error
        except _FAILURES as error:
            first = first or _failed(model, error)
    assert first is not None
    raise first


_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError, AssertionError, LookupError)
"""What transformers and torch raise for a model that they cannot do this with."""


def cached_layers(program: ExportedProgram) -> int:
    """How many layers of a decoder that :func:`export_decoder` gave have keys and values of their own. Those that read
    another layer's are not among them; a configuration may mean the layers of a model's other half.
    """
    buffers = program.graph_signature.buffers
    return sum(name.startswith("cache_") and name.endswith("_keys") for name in buffers)


def _traced(module: nn.Module, inputs: tuple[torch.Tensor, ...], sizes: Any) -> ExportedProgram:
    """The exported program. torch refuses relations of sizes that it cannot prove, also those that hold for each number
    of tokens (``n * min(64, 64 * n) == 64 * n``); it is asked once more to leave them to the program.
    """
    from torch._dynamo.exc import UserError, UserErrorType

    try:
        return torch.export.export(module, inputs, dynamic_shapes=sizes, strict=False)
    except UserError as error:
        if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
            raise
    return torch.export.export(
        module, inputs, dynamic_shapes=sizes, strict=False, prefer_deferred_runtime_asserts_over_guards=True
    )


def _failed(model: nn.Module, error: Exception) -> EtirError:
    """E1610 with the first line of what was raised, which stays the cause."""
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    found = E1610.error(f"{type(model).__name__} cannot be exported: {line}")
    found.__cause__ = error
    return found


def _takes(model: nn.Module, name: str) -> bool:
    """Whether a model has an argument of this name, not only room for any."""
    return name in inspect.signature(model.forward).parameters


_WINDOWS = ("sliding_window", "attention_chunk_size")
"""What transformers' configurations, and layers that keep a copy, call the number of positions that a token sees."""


def _windows(model: PreTrainedModel) -> list[tuple[Any, str, int]]:
    """Who keeps a number of positions that a token sees, under which name, and the number."""
    owners: list[Any] = [model.config, model.config.get_text_config(), *model.modules()]
    return [(o, name, vars(o)[name]) for o in owners for name in _WINDOWS if type(vars(o).get(name)) is int]


def shortest_window(model: PreTrainedModel) -> int | None:
    """The least number of positions that tokens of a layer see; None: all of them see all."""
    return min((window for _, _, window in _windows(model)), default=None)


@contextmanager
def _short_windows(model: PreTrainedModel, size: int) -> Iterator[bool]:
    """While it is entered the windows of a model are ``size`` positions; whether it has any.

    Masks are made from the configuration at each call, so that a few tokens go beyond such a window, and take the same
    code as thousands beyond the model's own.
    """
    found = _windows(model)
    try:
        for owner, name, _ in found:
            setattr(owner, name, size)
        yield bool(found)
    finally:
        for owner, name, window in found:
            setattr(owner, name, window)


def _check_cache(module: StaticDecoder, count: int, where: str = "") -> None:
    """Compare the logits of ``count`` tokens, all but the last of them in one call, with those without a cache. Raises
    E1611, with ``where`` the tokens are. The caches are empty afterwards.
    """
    model = module.model
    table: Any = model.get_input_embeddings()
    rows = int(table.weight.shape[0])
    ids = (torch.arange(1, count + 1) * 7919 % rows)[None]
    wanted = model(input_ids=ids, use_cache=False).logits[0, -1].float()
    module(ids[:, :-1], torch.arange(count - 1))
    got = module(ids[:, -1:], torch.arange(count - 1, count)).reshape(-1, wanted.shape[0])[-1]
    module.clear()
    most = float(wanted.abs().max())
    # Logits that are no numbers say nothing here; a runner refuses them.
    if math.isfinite(most) and not float((got - wanted).abs().max()) <= _SAME.get(model.dtype, 0.1) * most:
        raise E1611.error(
            f"{type(model).__name__} computes other logits with a static cache than without one{where}: "
            f"{float((got - wanted).abs().max()):.3g} apart, and the largest is {most:.3g}"
        )


def straighten(model: nn.Module) -> None:
    """Replace layers that are linear in another form by ordinary ones, which everything that quantizes and computes
    knows: transformers' ``Conv1D``, whose weight is ``[inputs, outputs]``, and Falcon's, which multiplies by a
    transposed weight.
    """
    from transformers.models.falcon.modeling_falcon import FalconLinear
    from transformers.pytorch_utils import Conv1D

    for name, module in list(model.named_modules()):
        if isinstance(module, Conv1D):
            inputs, outputs = module.weight.shape
            linear = nn.Linear(inputs, outputs, device="meta")
            linear.weight = nn.Parameter(module.weight.detach().T.contiguous(), requires_grad=False)
            linear.bias = nn.Parameter(module.bias.detach(), requires_grad=False)
            model.set_submodule(name, linear)
        elif isinstance(module, FalconLinear):
            linear = nn.Linear(module.in_features, module.out_features, device="meta")
            # The same parameters: one may be the table of tokens as well.
            linear.weight, linear.bias = module.weight, module.bias
            model.set_submodule(name, linear)
