"""Products of sorted rows with their groups' matrices, alone and in a mixture of experts, on both runtimes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from etir_testing.models.zoo_entry import declare_torchvision  # noqa: E402

declare_torchvision()

import transformers  # noqa: E402
import transformers.integrations.moe  # noqa: E402  # defines the operator
from torch.export import Dim  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, eager, f32, stock, trace  # noqa: E402

SPLITS = ([2, 2, 5, 7], [0, 0, 0, 7], [7, 7, 7, 7], [1, 2, 3, 4], [0, 0, 0, 0])
"""Ends of four groups of up to seven rows: empty ones, one for all, rows after the last group."""


def check(module: Any, calls: list[tuple[Any, ...]], dynamic: Any = None, tolerance: float = 1e-5) -> None:
    expected = eager(module, calls)
    exported = torch.export.export(module, calls[0], dynamic_shapes=dynamic)
    assert_same(stock(etir.compile(exported).buffer, calls), expected, "stock runtime", tolerance)
    own = etir.runtime.load(etir.compile(exported, target="etir").buffer)
    assert_same(trace(lambda flat: own.forward(*flat), calls), expected, "etir's runtime", tolerance)


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_by_groups(dynamic: bool) -> None:
    matrices = f32(4, 5, 8)

    def function(x: Any, ends: Any) -> Any:
        return torch.ops.transformers.grouped_mm_fallback(x, matrices.transpose(1, 2), ends)

    calls = [(f32(7, 8, seed=i), torch.tensor(ends, dtype=torch.int32)) for i, ends in enumerate(SPLITS)]
    shapes = {"args": ({0: Dim("rows", min=1, max=32)}, None)} if dynamic else None
    if dynamic:
        calls.append((f32(12, 8), torch.tensor([3, 3, 9, 12], dtype=torch.int32)))
    check(Function(function), calls, shapes)


def test_aten() -> None:
    """torch's own operator, which its CPU kernel computes for bfloat16."""
    x, matrices = f32(8, 16).bfloat16(), f32(4, 16, 8, seed=1).bfloat16()
    calls = [(x, matrices, torch.tensor(ends, dtype=torch.int32)) for ends in ([2, 4, 5, 8], [0, 8, 8, 8])]
    check(Function(lambda x, y, ends: torch._grouped_mm(x, y, offs=ends)), calls, tolerance=5e-2)


def test_aten_batched() -> None:
    x, y = f32(4, 3, 16).bfloat16(), f32(4, 16, 8, seed=1).bfloat16()
    check(Function(lambda x, y: torch._grouped_mm(x, y)), [(x, y)], tolerance=5e-2)


@pytest.mark.parametrize("family", ["Qwen3Moe", "GptOss"])
def test_experts(family: str) -> None:
    """Decoders that send each token to two of four experts, without and with biases."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=16, num_hidden_layers=2, head_dim=8,
        num_attention_heads=4, num_key_value_heads=2, num_experts=4, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    tokens = [(torch.randint(0, 64, (1, 6)),) for _ in range(2)]
    check(Function(lambda ids: model(input_ids=ids).logits), tokens, tolerance=1e-4)
