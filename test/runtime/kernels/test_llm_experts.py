"""The mixture of experts against ExecuTorch's operator and its definition in double."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels
from etir_testing.runtime.moe_weights import Experts

NAME = "llama::quantized_moe_ffn.out"
CASES: list[dict[str, Any]] = [
    {},
    {"bits": 8, "bias": False},
    {"score": "softmax", "bias": False},
    {"score": "softmax", "bias": False, "bits": 8, "active": 1},
    {"dim": 48, "hidden": 80, "group_size": 16, "experts": 9, "active": 5},
    {"dim": 64, "hidden": 128, "group_size": 64, "experts": 3, "active": 3, "bits": 8},
    {"dim": 16, "hidden": 16, "group_size": 16, "experts": 1, "active": 1},
    {"dim": 96, "hidden": 288, "group_size": 96, "experts": 2, "active": 1},
    {"dim": 416, "hidden": 208, "group_size": 208, "bits": 8},
    {"route_scale": 0.0},
]  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("llm")


@pytest.fixture(scope="module")
def stock() -> Any:
    """ExecuTorch's C++ operator, as a torch operator: it unpacks, and multiplies in float."""
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    assert torch.ops.llama._quantized_moe_ffn_active()
    return torch.ops.llama.quantized_moe_ffn


def tokens(count: int, experts: Experts) -> torch.Tensor:
    return torch.randn(count, experts.gate.shape[1], generator=torch.Generator().manual_seed(count))


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    finite = expected[expected.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=4e-6 * scale, equal_nan=True)


@pytest.mark.parametrize("case", CASES)
def test_results(kernels: Kernels, stock: Any, case: dict[str, Any]) -> None:
    """One token, several, and more than are routed at once. The packed weights are what the stock operator reads."""
    experts = Experts(**case)
    for count in (1, 11, 259):
        x = tokens(count, experts)
        expected = stock(x, *experts.arguments)
        (got,) = kernels.call(NAME, [x, *experts.arguments], [expected])
        close(got, expected)
        if count <= 11:
            close(got, experts(x))
        sizes = experts.arguments[4:9]
        active, number, hidden, dim, _ = sizes
        assert kernels.temp_used == 12 * number + 16 * min(count, 256) * active + 8 * min(count, 8) * (dim + hidden)


def test_no_tokens(kernels: Kernels) -> None:
    experts = Experts()
    (got,) = kernels.call(NAME, [torch.empty(0, 32), *experts.arguments], [torch.empty(0, 32)])
    assert got.shape == (0, 32)
    assert kernels.temp_used == 0


def test_more_bytes_than_needed(kernels: Kernels) -> None:
    """What follows an expert's weights is not read."""
    experts = Experts()
    x = tokens(5, experts)
    arguments = list(experts.arguments)
    for i in (2, 3):
        rest = torch.full((4, 7), 255, dtype=torch.uint8)
        arguments[i] = torch.cat([arguments[i], rest], 1).contiguous()
    close(kernels.call(NAME, [x, *arguments], [x])[0], experts(x))


@pytest.mark.parametrize("score", ["sigmoid", "softmax"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_choice_between_equals(kernels: Kernels, stock: Any, score: str, value: float) -> None:
    """Of equal scores the first expert is chosen, and scores that are no numbers come last, in order."""
    experts = Experts(experts=7, active=3, score=score, bias=False)
    x = tokens(6, experts).abs()
    gates = [torch.full((7, 32), value)]
    for row in range(7):
        gates.append(experts.gate.clone())
        gates[-1][row] = value
        gates[-1][(row + 3) % 7] = value
    for gate in gates:
        arguments = [gate, *experts.arguments[1:]]
        expected = stock(x, *arguments)
        close(kernels.call(NAME, [x, *arguments], [x])[0], expected)


@pytest.mark.parametrize("score", ["sigmoid", "softmax"])
def test_tokens_that_are_no_numbers(kernels: Kernels, stock: Any, score: str) -> None:
    """They spoil their own rows."""
    experts = Experts(score=score, bias=False)
    x = tokens(10, experts)
    x[2] = float("nan")
    x[5, 7] = float("inf")
    expected = stock(x, *experts.arguments)
    (got,) = kernels.call(NAME, [x, *experts.arguments], [x])
    assert got.isnan().any(1).tolist() == expected.isnan().any(1).tolist()
    assert got.isnan().all(1).nonzero().flatten().tolist()[:1] == [2]
    rows = [i for i in range(10) if i not in (2, 5)]
    close(got[rows], expected[rows])


def test_scores_next_to_nothing(kernels: Kernels, stock: Any) -> None:
    """The sum that weights are divided by is at the least the smallest normal number."""
    experts = Experts(dim=16, hidden=16, group_size=16, bias=False)
    x = torch.ones(1, 16)
    for exponent in (-40.0, -86.0, -92.0, -200.0):
        arguments = [torch.full((4, 16), exponent / 16), *experts.arguments[1:]]
        expected = stock(x, *arguments)
        (got,) = kernels.call(NAME, [x, *arguments], [x])
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-6)
    assert expected.abs().max() < 1e-6


def test_any_bytes(kernels: Kernels) -> None:
    """Weights, scales and sums may be anything."""
    for bits in (4, 8):
        experts = Experts(bits=bits)
        for i in (2, 3):
            blobs = experts.arguments[i].clone()
            blobs[:, 64:] = torch.randint(0, 256, (4, blobs.shape[1] - 64), dtype=torch.uint8)
            experts.arguments[i] = blobs
        x = tokens(9, experts)
        (got,) = kernels.call(NAME, [x, *experts.arguments], [x])
        assert got.shape == x.shape


def _with(mixture: Experts, /, **changes: Any) -> list[Any]:
    names = (
        "gate", "bias", "w13", "w2", "active", "experts", "hidden", "dim", "group", "bits", "score", "scale",
    )  # fmt: skip
    arguments = list(mixture.arguments)
    for name, value in changes.items():
        arguments[names.index(name)] = value
    return arguments


def test_refusals(kernels: Kernels) -> None:
    experts = Experts()
    x, w13, w2 = tokens(3, experts), experts.arguments[2], experts.arguments[3]
    huge = 2**62
    numbers: list[tuple[dict[str, Any], int]] = [
        *(({"active": n}, 5) for n in (0, -1, 5, huge)),
        *(({"experts": n}, 6) for n in (0, -4, 2**31, huge)),
        *(({"hidden": n}, 7) for n in (0, -64, 65, 48, 2**30 + 2**29, huge)),
        *(({"dim": n}, 8) for n in (0, -32, 33, 2**31, huge)),
        *(({"group": n}, 9) for n in (0, -16, 8, 24, 2**32, -(2**63))),
        *(({"bits": n}, 10) for n in (0, -4, 2, 16, huge)),
        *(({"score": s}, 11) for s in ("", "sigmoi", "sigmoids", "none")),
        ({"score": "softmax"}, 2),
    ]
    for changes, argument in numbers:
        refused(kernels, [x, *_with(experts, **changes)], "KernelArgument", argument)
    shapes: list[tuple[dict[str, Any], int, str]] = [
        ({"experts": 3}, 1, "KernelShape"),
        ({"dim": 64}, 0, "KernelShape"),
        ({"gate": experts.gate[:3].contiguous()}, 1, "KernelShape"),
        ({"gate": torch.randn(4, 64)}, 1, "KernelShape"),
        ({"bias": torch.randn(3)}, 2, "KernelShape"),
        ({"bias": torch.randn(4, 1)}, 2, "KernelRank"),
        ({"bias": torch.randn(4).double()}, 2, "KernelDtypeMismatch"),
        ({"w13": w13[:, :-1].contiguous()}, 3, "KernelShape"),
        ({"w13": w13[:3].contiguous()}, 3, "KernelShape"),
        ({"w13": w13.view(torch.int8)}, 3, "KernelDtypeMismatch"),
        ({"w2": w2[:, :64].contiguous()}, 4, "KernelShape"),
        ({"w2": w2[0]}, 4, "KernelRank"),
        ({"hidden": 96}, 3, "KernelShape"),
        ({"hidden": 2**30 - 32}, 3, "KernelShape"),
        ({"bits": 8}, 3, "KernelShape"),
        ({"group": 16}, 3, "KernelShape"),
    ]
    for changes, argument, check in shapes:
        refused(kernels, [x, *_with(experts, **changes)], check, argument)
    refused(kernels, [x.double(), *experts.arguments], "KernelDtypeMismatch", 0)
    refused(kernels, [x[None], *experts.arguments], "KernelRank", 0)
    refused(kernels, [x.t().contiguous().t(), *experts.arguments], "KernelDimOrder", 0)


@pytest.mark.parametrize("word", range(8))
def test_headers(kernels: Kernels, word: int) -> None:
    """Every number in them counts, of both matrices."""
    experts = Experts(active=4)
    x = tokens(1, experts)
    for argument in (2, 3):
        blobs = experts.arguments[argument].clone()
        blobs.view(torch.int32)[2, word] += 1
        arguments = list(experts.arguments)
        arguments[argument] = blobs
        refused(kernels, [x, *arguments], "KernelArgument", argument + 1, int(blobs.view(torch.int32)[2, word]))


def refused(kernels: Kernels, arguments: list[Any], check: str, a: int, b: int | None = None) -> None:
    with pytest.raises(KernelFailure) as caught:
        kernels.call(NAME, arguments, [torch.empty(3, 32)])
    assert (caught.value.check, caught.value.a) == (check, a), (arguments[5:], str(caught.value))
    assert b is None or caught.value.b == b
