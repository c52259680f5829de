"""The whole models that etir is tested and measured on, as data: how each is built, exported, fed and judged.

A case owns everything random about it (seeded weights, seeded inputs), so any two processes see the same program and
the same numbers. Tests and benchmarks import it as ``etir_testing.models.registry``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from etir_testing.models.dynamic_encoder import DynamicEncoder
from etir_testing.models.gpt import GptBlock
from etir_testing.models.llama import LlamaBlock
from etir_testing.models.lstm import LstmTagger
from etir_testing.models.minilm import LONGEST, PACKAGE, VOCABULARY, load_minilm
from etir_testing.models.mobilenet_v2 import MobileNetV2
from etir_testing.models.resnet import ResNet18
from etir_testing.models.seeding import seed_weights, seeded_integers, seeded_normal
from etir_testing.models.two_conds import TwoConds

Tensors: TypeAlias = tuple[torch.Tensor, ...]
Built: TypeAlias = tuple[nn.Module, Tensors, dict[str, torch.Tensor]]


@dataclass(frozen=True)
class ModelCase:
    """One model: ``build()`` gives (module in eval mode, example args, example kwargs) to export it with.

    ``inputs(step)`` gives the user inputs of one call for ``step`` in ``range(steps)``: flat, in the order of the
    module's ``forward``, which is the order that the program takes them in. The steps of a stateful case are one
    sequence on one loaded method; those of other cases are independent. ``tolerance`` is the largest allowed absolute
    difference of an output from eager, relative to the largest magnitude in that output. ``requires`` names the
    importable packages that ``build`` needs beyond torch.
    """

    name: str
    build: Callable[[], Built]
    inputs: Callable[[int], Tensors]
    steps: int
    dynamic_shapes: dict[str, Any] | None = None
    stateful: bool = False
    tolerance: float = 1e-4
    requires: tuple[str, ...] = field(default=())

    def missing(self) -> list[str]:
        """The packages of ``requires`` that are not installed."""
        return [package for package in self.requires if importlib.util.find_spec(package) is None]

    def export(self) -> ExportedProgram:
        """The case's program, from a fresh module, as ``torch.export`` gives it for inference."""
        module, args, kwargs = self.build()
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, dynamic_shapes=self.dynamic_shapes)

    def reference(self) -> list[list[torch.Tensor]]:
        """Eager's outputs, one flat list per step, from a fresh module that sees the steps in order.

        Computed on one thread: the same sums in the same order on any number of cores.
        """
        module, _, _ = self.build()
        with torch.no_grad(), _one_thread():
            return [pytree.tree_leaves(module(*self.inputs(step))) for step in range(self.steps)]

    def check(self, outputs: Sequence[Sequence[torch.Tensor]]) -> float:
        """The largest relative difference of ``outputs``, flat lists per step, from :meth:`reference`."""
        steps = zip(outputs, self.reference(), strict=True)
        return max(relative_difference(output, expected) for output, expected in steps)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def relative_difference(outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest absolute difference between paired tensors over the largest magnitude in the expected one.

    Infinite where the number of tensors, a shape or a dtype differs, or where a NaN stands on one side only.
    """
    if len(outputs) != len(expected):
        return float("inf")
    worst = 0.0
    for output, wanted in zip(outputs, expected, strict=True):
        if output.shape != wanted.shape or output.dtype != wanted.dtype:
            return float("inf")
        difference = (output.double() - wanted.double()).abs().max()
        if not difference.isfinite():
            return float("inf")
        worst = max(worst, (difference / wanted.double().abs().max().clamp(min=1e-12)).item())
    return worst


def _stateless(
    name: str, module: Callable[[], nn.Module], inputs: Callable[[int], Tensors], steps: int = 2, gain: float = 1.0
) -> ModelCase:
    """A case with static shapes and no state: seeded weights, the inputs of step 0 as example."""

    def build() -> Built:
        return seed_weights(module(), seed=0, gain=gain), inputs(0), {}

    return ModelCase(name, build, inputs, steps)


_RELU_GAIN = 2.0**0.5
_LLAMA_TOKENS = 8
_LLAMA_STEPS = 8
_DYNAMIC_SIZES = ((3, 17), (1, 2), (7, 50))
"""(batch, tokens) of each step, all below the bounds (8, 64) that the program is exported with."""
_MINILM_TOKENS = (24, 2, 101)


def _image(step: int) -> Tensors:
    return (seeded_normal(100 + step, 1, 3, 224, 224),)


def _llama_inputs(step: int) -> Tensors:
    first = step * _LLAMA_TOKENS
    return seeded_normal(200 + step, 1, _LLAMA_TOKENS, 256), torch.arange(first, first + _LLAMA_TOKENS)


def _build_llama() -> Built:
    return seed_weights(LlamaBlock(), seed=0, gain=1.0), _llama_inputs(0), {}


def _two_conds_inputs(step: int) -> Tensors:
    """The four steps take the four combinations of branches."""
    x, y = seeded_normal(300 + step, 2, 2, 48)
    return x + (0.5 if step & 1 else -0.5), y + (0.5 if step & 2 else -0.5)


def _padded_ids(seed: int, vocabulary: int, batch: int, tokens: int) -> torch.Tensor:
    """Token ids whose rows get shorter one by one, the rest filled with 0; every row keeps at least one token."""
    ids = seeded_integers(seed, vocabulary, batch, tokens)
    lengths = (tokens - torch.arange(batch)).clamp(min=1)
    return torch.where(torch.arange(tokens) < lengths[:, None], ids, 0)


def _dynamic_inputs(step: int) -> Tensors:
    return (_padded_ids(400 + step, 500, *_DYNAMIC_SIZES[step]),)


def _build_dynamic() -> Built:
    return seed_weights(DynamicEncoder(), seed=0, gain=1.0), _dynamic_inputs(0), {}


def _minilm_inputs(step: int) -> Tensors:
    """Token ids and their mask; every step but the shortest hides its last five tokens as padding."""
    tokens = _MINILM_TOKENS[step]
    mask = (torch.arange(tokens) < max(2, tokens - 5)).to(torch.int64).unsqueeze(0)
    return seeded_integers(500 + step, VOCABULARY, 1, tokens) * mask, mask


def _build_minilm() -> Built:
    input_ids, mask = _minilm_inputs(0)
    return load_minilm(), (input_ids,), {"attention_mask": mask}


def _cases() -> list[ModelCase]:
    batch = Dim("batch", min=1, max=8)
    tokens = Dim("tokens", min=2, max=64)
    words = Dim("words", min=2, max=LONGEST)
    return [
        ModelCase(
            "minilm",
            _build_minilm,
            _minilm_inputs,
            steps=len(_MINILM_TOKENS),
            dynamic_shapes={"input_ids": {1: words}, "attention_mask": {1: words}},
            requires=(PACKAGE, "safetensors"),
        ),
        _stateless("mobilenet_v2", MobileNetV2, _image, gain=_RELU_GAIN),
        _stateless("resnet18", ResNet18, _image, gain=_RELU_GAIN),
        _stateless("gpt_block", GptBlock, lambda step: (seeded_normal(600 + step, 1, 64, 256),)),
        ModelCase("llama_block", _build_llama, _llama_inputs, steps=_LLAMA_STEPS, stateful=True),
        _stateless("lstm", LstmTagger, lambda step: (seeded_normal(700 + step, 1, 24, 40),)),
        _stateless("two_conds", TwoConds, _two_conds_inputs, steps=4),
        ModelCase(
            "dynamic_encoder",
            _build_dynamic,
            _dynamic_inputs,
            steps=len(_DYNAMIC_SIZES),
            dynamic_shapes={"ids": {0: batch, 1: tokens}},
        ),
    ]


MODELS: dict[str, ModelCase] = {case.name: case for case in _cases()}
