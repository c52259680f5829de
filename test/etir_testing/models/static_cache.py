"""Decoders of transformers with their static cache, and greedy generation with them on every executor.

Small configurations with seeded weights, wrapped and exported as transformers itself does it for devices
(``transformers.integrations.executorch``). A compiled decoder generates token by token; the tokens have to be those
that the model gives without any cache, the whole sequence computed anew for each token.

    python test/static_cache.py                        every decoder, every export, both runtimes: a table
    python test/static_cache.py llama phi3 --dtype bfloat16
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from etir_testing.models.zoo_entry import Built, torchvision_models

VOCABULARY = 96
LAYERS = 2
CACHE = 32
"""Positions that the cache holds."""
PROMPT = (5, 17, 42, 8, 77)
NEW_TOKENS = 16

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Token ids i64[1, n] and their positions i64[n] → logits [1, n, vocabulary]."""
Wrapper = Literal["static", "decoder-only", "function"]
"""``TorchExportableModuleWithStaticCache``, ``TorchExportableModuleForDecoderOnlyLM`` (which takes the hybrid module
where the model has a sliding window), ``convert_and_export_with_cache``."""

_LLAMA_LIKE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_GEMMA = {
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
    "tie_word_embeddings": False,  # or every token brings itself again
}
_GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 64,
    "n_layer": LAYERS,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}


@dataclass(frozen=True)
class Decoder:
    """One decoder: its classes in transformers by their common prefix, and its configuration."""

    name: str
    model: str
    config: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    """One whose tokens vary and are far from a tie, which the test checks."""

    def build(self, dtype: torch.dtype = torch.float32) -> nn.Module:
        """The model with seeded weights, in eval mode, told to use a static cache of ``CACHE`` positions."""
        transformers = import_transformers()
        config = getattr(transformers, self.config)(**self.options)
        model = getattr(transformers, self.model)(config).eval()
        seed(model, self.seed)
        model.generation_config = transformers.GenerationConfig(
            use_cache=True,
            cache_implementation="static",
            max_length=CACHE,
            cache_config={"batch_size": 1, "max_cache_len": CACHE, "device": "cpu"},
        )
        return model.to(dtype)


DECODERS: dict[str, Decoder] = {
    decoder.name: decoder
    for decoder in (
        Decoder("llama", "LlamaForCausalLM", "LlamaConfig", _LLAMA_LIKE, seed=1),
        Decoder("qwen2", "Qwen2ForCausalLM", "Qwen2Config", _LLAMA_LIKE, seed=16),
        Decoder("qwen3", "Qwen3ForCausalLM", "Qwen3Config", _LLAMA_LIKE | {"head_dim": 16}, seed=16),
        Decoder("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", _LLAMA_LIKE | _GEMMA, seed=5),
        Decoder("phi", "PhiForCausalLM", "PhiConfig", _LLAMA_LIKE, seed=22),
        Decoder("phi3", "Phi3ForCausalLM", "Phi3Config", _LLAMA_LIKE, seed=3),
        Decoder("gpt2", "GPT2LMHeadModel", "GPT2Config", _GPT2, seed=27),
        Decoder("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", _LLAMA_LIKE),
    )
}


def import_transformers() -> Any:
    """The package, which imports torchvision."""
    torchvision_models()
    import transformers

    return transformers


def seed(model: nn.Module, seed: int) -> None:
    """Weights that keep the scale of what they multiply; norms and biases around what a fresh model has."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            parameter.data.copy_(noise / parameter.shape[-1] ** 0.5)
        else:
            parameter.data.add_(0.1 * noise)


def wrapped(model: nn.Module) -> nn.Module:
    """The module with the cache as transformers exports it."""
    import_transformers()
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    return TorchExportableModuleWithStaticCache(model)  # type: ignore[arg-type]


class OneToken(nn.Module):
    """The exported module for token ids and positions alone, without its other inputs: logits f32[1, n, vocabulary]."""

    def __init__(self, name: str):
        super().__init__()
        self.decoder = wrapped(DECODERS[name].build())

    def forward(self, input_ids: torch.Tensor, cache_position: torch.Tensor) -> torch.Tensor:
        return self.decoder(input_ids=input_ids, cache_position=cache_position)


def build(name: str) -> Built:
    """The decoder as an entry of the zoo: the prompt, token by token."""
    first, *more = ((torch.tensor([[token]]), torch.tensor([at])) for at, token in enumerate(PROMPT))
    return Built(OneToken(name), first, more=tuple(more))


def exported(
    model: nn.Module, *, wrapper: Wrapper = "static", strict: bool = False, tokens: int = 1, dynamic: bool = False
) -> ExportedProgram:
    """The decoder for ``tokens`` tokens a call, or any number of up to ``CACHE`` when ``dynamic``."""
    import_transformers()
    from transformers.integrations.executorch import (
        TorchExportableModuleForDecoderOnlyLM,
        convert_and_export_with_cache,
    )

    ids, positions = torch.ones(1, tokens, dtype=torch.int64), torch.arange(tokens)
    sizes: Any = None
    if dynamic:
        count = Dim("tokens", max=CACHE - 1)
        sizes = {"input_ids": {1: count}, "cache_position": {0: count}}
    with torch.no_grad():
        if wrapper == "function":
            return convert_and_export_with_cache(model, ids, positions, sizes, strict)  # type: ignore[arg-type]
        if wrapper == "decoder-only":
            module = TorchExportableModuleForDecoderOnlyLM(model, 1, CACHE, torch.device("cpu"))  # type: ignore[arg-type]
            return module.export(ids, None, positions, sizes, strict)
        kwargs = {"input_ids": ids, "cache_position": positions}
        return torch.export.export(wrapped(model), (), kwargs, dynamic_shapes=sizes, strict=strict)


@dataclass
class Generated:
    """Tokens that came after the prompt, and the logits that each was chosen from: f32[vocabulary]."""

    tokens: list[int] = field(default_factory=list)
    logits: list[torch.Tensor] = field(default_factory=list)

    def choose(self, logits: torch.Tensor) -> None:
        """Take the most likely token after the last position."""
        last = logits[0, -1].float()
        self.logits.append(last.clone())
        self.tokens.append(int(last.argmax()))

    @property
    def margin(self) -> float:
        """The smallest distance of the chosen logit from the next one, relative to the largest magnitude."""
        tops = [logits.topk(2).values for logits in self.logits]
        return min(float((top[0] - top[1]) / logits.abs().max()) for top, logits in zip(tops, self.logits, strict=True))

    def difference(self, other: Generated) -> float:
        """The largest difference of logits, relative to the largest magnitude of ``other``'s, where tokens agree."""
        worst = 0.0
        for mine, theirs, a, b in zip(self.logits, other.logits, self.tokens, other.tokens, strict=True):
            worst = max(worst, float((mine - theirs).abs().max() / theirs.abs().max()))
            if a != b:
                break
        return worst


def without_cache(model: nn.Module) -> Generated:
    """What eager generates: every token from the whole sequence before it, no cache involved."""
    found = Generated()
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            ids = torch.tensor([[*PROMPT, *found.tokens]])
            found.choose(model(input_ids=ids, use_cache=False).logits)
    return found


def generate(step: Step, *, prefill: Step | None = None) -> Generated:
    """Greedy tokens of a decoder that has a cache, the prompt token by token or all at once by ``prefill``."""
    found = Generated()
    ids, positions = torch.tensor([PROMPT]), torch.arange(len(PROMPT))
    if prefill is not None:
        logits = prefill(ids, positions)
    else:
        for at in range(len(PROMPT)):
            logits = step(ids[:, at : at + 1], positions[at : at + 1])
    found.choose(logits)
    while len(found.tokens) < NEW_TOKENS:
        at = len(PROMPT) + len(found.tokens) - 1
        found.choose(step(torch.tensor([[found.tokens[-1]]]), torch.tensor([at])))
    return found


def on_etir(data: bytes, method: str = "forward") -> Step:
    """The decoder on etir's runtime."""
    import etir.runtime

    loaded = etir.runtime.load(data)[method]
    return lambda ids, positions: loaded(ids, positions)[0]


def on_stock(data: bytes, method: str = "forward") -> Step:
    """The decoder on the stock runtime; the file lives as long as the function."""
    from executorch.extension.pybindings import portable_lib

    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return lambda ids, positions, _data=data: loaded.run_method(method, (ids, positions))[0].clone()  # type: ignore[misc]


RUNTIMES: dict[str, Callable[..., Step]] = {"etir": on_etir, "executorch": on_stock}
"""Runtimes by the target that they are compiled for."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command: every decoder by every way to export it, on both runtimes."""
    import etir

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decoders", nargs="*", metavar="DECODER", help=f"all of: {', '.join(DECODERS)}")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    failed = 0
    print(
        f"{'decoder':10} {'export':14} {'strict':6} {'tokens':7} {'target':10} {'seconds':>9} {'difference':>10}  same"
    )
    ways: tuple[tuple[Wrapper, bool, bool], ...] = tuple(
        (wrapper, strict, dynamic)
        for wrapper in ("static", "decoder-only", "function")
        for strict in (False, True)
        for dynamic in (False, True)
    )
    for name in options.decoders or DECODERS:
        for wrapper, strict, dynamic in ways:
            model = DECODERS[name].build(getattr(torch, options.dtype))
            expected = without_cache(model)
            program = exported(model, wrapper=wrapper, strict=strict, tokens=3 if dynamic else 1, dynamic=dynamic)
            for target, load in RUNTIMES.items():
                start = time.monotonic()
                data = etir.compile(program, target=target).buffer
                seconds = time.monotonic() - start
                step = load(data)
                found = generate(step, prefill=step if dynamic else None)
                same = found.tokens == expected.tokens
                failed += not same
                kind = "any" if dynamic else "1"
                print(
                    f"{name:10} {wrapper:14} {strict!s:6} {kind:7} {target:10} {seconds:9.2f} "
                    f"{found.difference(expected):10.2e}  {'yes' if same else 'NO'}",
                    flush=True,
                )
    return int(failed > 0)
