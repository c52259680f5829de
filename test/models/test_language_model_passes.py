"""Decoders of transformers with attention by position, int8 caches and rings: eager's tokens on both runtimes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("executorch.extension.pybindings.portable_lib")
pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
pytest.importorskip("executorch.kernels.quantized")

from torch.export import Dim

import etir
import etir.runtime
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.llm.passes.cache_types import CacheType
from etir.llm.passes.pipeline import language_model_passes, link_libraries
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline

from etir_testing import ROOT
from etir_testing.models.static_cache import (
    CACHE,
    DECODERS,
    RUNTIMES,
    Generated,
    Step,
    exported,
    generate,
    without_cache,
    wrapped,
)


@cache
def expected(name: str) -> Generated:
    """What eager generates without a cache."""
    return without_cache(DECODERS[name].build())


def compiled(program: Any, target: str, **options: Any) -> etir.Program:
    """The program with the passes of language models."""
    module = import_program(program)
    run_pipeline(EtContext(), module, language_model_passes(target, **options))
    return etir.compile(module, target=target, link_libraries=link_libraries(target, options.get("cache", "float32")))


def rows(step: Step) -> Step:
    """A step whose logits are ``[1, V]``, as one with ``[1, 1, V]``."""

    def call(ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        logits = step(ids, positions)
        assert logits.shape == (1, 96)
        return logits[:, None]

    return call


def operators(program: etir.Program, method: int = 0) -> dict[str, int]:
    """How often a method calls each operator."""
    return dict(program.report().methods[method].operators)


def dynamic(name: str, tokens: int, attention: str = "sdpa") -> Any:
    """A decoder for up to ``tokens`` tokens a call."""
    model = DECODERS[name].build()
    model.set_attn_implementation(attention)  # type: ignore[operator]
    count = Dim("tokens", max=tokens)
    sizes = {"input_ids": {1: count}, "cache_position": {0: count}}
    kwargs = {"input_ids": torch.ones(1, 3, dtype=torch.int64), "cache_position": torch.arange(3)}
    with torch.no_grad():
        return torch.export.export(wrapped(model), (), kwargs, dynamic_shapes=sizes)


CASES = [
    ("llama", "eager"),
    *(pytest.param(name, "sdpa", marks=pytest.mark.nightly) for name in DECODERS if name != "gemma3"),
    *(pytest.param(name, "eager", marks=pytest.mark.nightly) for name in DECODERS if name not in ("gemma3", "llama")),
]


@pytest.mark.parametrize(("name", "attention"), CASES)
def test_same_tokens_as_eager(name: str, attention: str) -> None:
    """A prompt at once, then token by token; no softmax over the capacity is left."""
    program = dynamic(name, CACHE - 1, attention)
    for target, load in RUNTIMES.items():
        made = compiled(program, target)
        assert operators(made)["llama::custom_sdpa.out"] == 2
        assert "aten::_softmax.out" not in operators(made)
        step = rows(load(made.buffer))
        found = generate(step, prefill=step)
        assert found.tokens == expected(name).tokens, target
        assert found.difference(expected(name)) < 1e-5, target


def test_int8_caches() -> None:
    """The tokens are eager's, the logits near; the caches take a third of the bytes (narrow heads: a scale each)."""
    program = dynamic("llama", CACHE - 1)
    for target, load in RUNTIMES.items():
        made = compiled(program, target, cache="int8")
        assert operators(made)["llama::custom_quantized_sdpa.out"] == 2
        step = rows(load(made.buffer))
        found = generate(step, prefill=step)
        assert found.tokens == expected("llama").tokens, target
        assert 0 < found.difference(expected("llama")) < 0.04, target


_NEAR: dict[CacheType, float] = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "int8": 0.05}


@pytest.mark.parametrize(("cache_type", "held"), [("float16", "f16"), ("bfloat16", "bf16")])
def test_caches_of_two_bytes(cache_type: CacheType, held: str) -> None:
    """Half of the bytes, the same tokens; the stock runtime has no such kernel, and its caches stay what they are."""
    program = dynamic("llama", CACHE - 1)
    for target, type in (("etir", held), ("executorch", "f32")):
        made = compiled(program, target, cache=cache_type)
        assert operators(made)["llama::custom_sdpa.out"] == 2
        kept = [str(s.type.get_element_type()) for s in _states(made) if len(s.type.get_shape()) == 4]
        assert kept == [type] * 4
        step = rows(RUNTIMES[target](made.buffer))
        found = generate(step, prefill=step)
        assert found.tokens == expected("llama").tokens, target
        difference = found.difference(expected("llama"))
        assert 1e-6 < difference < _NEAR[cache_type] if type == held else difference < 1e-5, target


_RINGS_NIGHTLY = ("bfloat16", "int8")


@pytest.mark.parametrize(
    "cache_type", [pytest.param(c, marks=pytest.mark.nightly if c in _RINGS_NIGHTLY else ()) for c in _NEAR]
)
def test_rings(cache_type: CacheType) -> None:
    """Twenty positions go through a ring of 13; the other layer keeps all of its 32."""
    program = dynamic("gemma3", 6)
    for target, load in RUNTIMES.items():
        made = compiled(program, target, cache=cache_type)
        lengths = sorted(int(s.type.get_shape()[1]) for s in _states(made) if len(s.type.get_shape()) == 4)
        assert set(lengths) == {13, 32}
        step = rows(load(made.buffer))
        found = generate(step, prefill=step)
        assert found.tokens == expected("gemma3").tokens, target
        assert found.difference(expected("gemma3")) < _NEAR[cache_type], target


def _states(program: etir.Program) -> list[Any]:
    return [op for op in program.module.body.block.ops if op.name == "et.state"]


def test_a_window_that_needs_all_positions_is_left_alone() -> None:
    """A prompt may have as many tokens as the cache: the layer with the window computes as before."""
    program = exported(DECODERS["gemma3"].build(), tokens=3, dynamic=True)
    made = compiled(program, "etir")
    assert operators(made)["llama::custom_sdpa.out"] == 1
    step = rows(RUNTIMES["etir"](made.buffer))
    assert generate(step, prefill=step).tokens == expected("gemma3").tokens


def test_two_methods_share_caches() -> None:
    """Prefill fills what decode reads."""
    programs = {"prefill": dynamic("llama", CACHE - 1), "decode": exported(DECODERS["llama"].build())}
    module = import_program(programs)
    run_pipeline(EtContext(), module, language_model_passes("etir"))
    made = etir.compile(module, target="etir", share_state=True)
    loaded = etir.runtime.load(made.buffer)

    def step(method: str) -> Step:
        return lambda ids, positions: loaded[method](ids, positions)[0].reshape(1, 1, -1)

    found = generate(step("decode"), prefill=step("prefill"))
    assert found.tokens == expected("llama").tokens


def test_positions_that_do_not_follow_each_other() -> None:
    """transformers' programs count from the first position, with and without the passes."""
    program = dynamic("llama", CACHE - 1)
    plain, ours = etir.compile(program, target="etir"), compiled(program, "etir", last_logits=False)
    ids, positions = torch.tensor([[5, 17, 42]]), torch.tensor([0, 9, 4])
    first, second = (RUNTIMES["etir"](made.buffer)(ids, positions) for made in (plain, ours))
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5)


def test_a_position_past_the_cache_is_an_error() -> None:
    made = compiled(dynamic("llama", CACHE - 1), "etir")
    step = RUNTIMES["etir"](made.buffer)
    step(torch.ones(1, 2, dtype=torch.int64), torch.tensor([CACHE - 2, CACHE - 1]))
    for first in (CACHE - 1, -1):
        with pytest.raises(etir.EtirError):
            step(torch.ones(1, 2, dtype=torch.int64), torch.tensor([first, first + 1]))


def test_a_negative_position_in_a_ring_is_an_error() -> None:
    """Rings have a slot for every position from 0 on, also past the cache that there was; none for those before."""
    text = (ROOT / "test/lit/passes/llm/ring-cache.mlir").read_text(encoding="utf-8").split("// -----")[0]
    ctx = EtContext()
    module = parse_module(text, ctx)
    run_pipeline(ctx, module, language_model_passes("etir", last_logits=False))
    method = etir.runtime.load(etir.compile(module, target="etir").buffer)["window"]
    numbers = (torch.ones(1, 2, 3, 4), torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 4))
    for first in (0, 3, 30):
        assert torch.from_dlpack(method(*numbers, torch.arange(first, first + 3))[0]).isfinite().all()
    with pytest.raises(etir.EtirError):
        method(*numbers, torch.arange(-1, 2))
