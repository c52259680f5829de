"""Operators that once stopped with an internal error, or gave other numbers than torch, as programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import etir
from etir import runtime

aten = torch.ops.aten

CASES: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "diff of order 0": (lambda x, y: torch.diff(x, n=0, dim=0, prepend=y), (torch.ones(3, 2), torch.ones(1, 2))),
    "unique_dim without inverse": (lambda x: aten.unique_dim(x, 0), (torch.tensor([[3.0, 1], [2, 2], [3, 1]]),)),
    "complex householder_product": (
        lambda x, t: torch.linalg.householder_product(x, t),
        (torch.randn(4, 3, dtype=torch.complex64), torch.randn(3, dtype=torch.complex64)),
    ),
    "complex pairwise_distance": (
        torch.pairwise_distance,
        (torch.randn(2, 3, dtype=torch.complex64), torch.randn(2, 3, dtype=torch.complex64)),
    ),
    "divide_ of mixed integers": (
        lambda x, y: x.clone().divide_(y, rounding_mode="trunc"),
        (torch.tensor([7, -7], dtype=torch.int32), torch.tensor([2, 2])),
    ),
    "_foreach_norm": (lambda x, y: torch._foreach_norm([x, y]), (torch.ones(2, 3), torch.arange(3.0))),
    "_foreach_add of one tensor": (lambda x, y: torch._foreach_add([x, x], y), (torch.ones(3), torch.tensor(2.0))),
    "grid_sampler_2d_backward": (
        lambda g, x, p: aten.grid_sampler_2d_backward(g, x, p, 0, 1, True, [True, True]),
        (torch.randn(1, 2, 3, 3), torch.randn(1, 2, 4, 5), torch.randn(1, 3, 3, 2)),
    ),
    "grid_sampler_2d_backward, reflected": (
        lambda g, x, p: aten.grid_sampler_2d_backward(g, x, p, 0, 2, False, [True, True]),
        (torch.randn(1, 2, 3, 3), torch.randn(1, 2, 4, 5), torch.randn(1, 3, 3, 2)),
    ),
    "transformer layer in one operator": (
        lambda x, w: aten._transformer_encoder_layer_fwd(
            x, 4, 2, w[:12], w[:12, 0], w[:4], w[:4, 1], False, True, 1e-5, w[0], w[1], w[2], w[3], w[:6], w[:6, 0],
            w[:6].t() @ w[:6] @ w[:4].t() @ w[:4, :6] if w.shape[1] > 4 else torch.cat([w[:4], w[:4, :2]], 1), w[4],
        ),
        (torch.randn(2, 3, 4), torch.randn(12, 4)),
    ),
    "_amp_update_scale": (
        lambda s, t, f: aten._amp_update_scale(s, t, f, 2.0, 0.5, 2),
        (torch.tensor([4.0]), torch.tensor([1], dtype=torch.int32), torch.tensor([0.0])),
    ),
    "a gradient that nobody asks for": (
        lambda g, x, w: aten.native_layer_norm_backward(
            g, x, [4], x.mean(1, True), x.var(1, keepdim=True).rsqrt(), w, None, [True, False, False]
        )[0],
        (torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)),
    ),
    "hash_tensor": (lambda x: aten.hash_tensor(x, [1]).view(torch.int64), (torch.randn(3, 5),)),
    "kaiser_window": (lambda x: x * torch.kaiser_window(7, False, 4.5), (torch.ones(7),)),
}  # fmt: skip


class _Program(torch.nn.Module):
    def __init__(self, function: Callable[..., object]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*inputs)


@pytest.mark.parametrize("case", CASES)
def test_form(case: str) -> None:
    function, inputs = CASES[case]
    program = torch.export.export(_Program(function), inputs, strict=False)
    got = runtime.load(etir.compile(program, target="etir").buffer)["forward"](*inputs)
    wanted = torch.utils._pytree.tree_leaves(function(*inputs))
    torch.testing.assert_close(
        [torch.as_tensor(g) for g in got], [w.resolve_conj() for w in wanted], rtol=1e-4, atol=1e-4
    )


def test_instance_norm_updates_its_statistics() -> None:
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.InstanceNorm1d(3, track_running_stats=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x)

    model, x = Norm().train(), torch.randn(2, 3, 5)
    method = runtime.load(etir.compile(torch.export.export(model, (x,)), target="etir").buffer)["forward"]
    for _ in range(2):
        (got,) = method(x)
        torch.testing.assert_close(torch.as_tensor(got), model(x))
    eager = Norm().train()
    statistics = torch.export.export(_Statistics(eager.norm), (x,), strict=False)
    mean, variance = runtime.load(etir.compile(statistics, target="etir").buffer)["forward"](x)
    torch.testing.assert_close(torch.as_tensor(mean), eager.norm.running_mean * 0.9 + 0.1 * x.mean((0, 2)))
    wanted = eager.norm.running_var * 0.9 + 0.1 * x.var(2).mean(0)
    torch.testing.assert_close(torch.as_tensor(variance), wanted)


class _Statistics(torch.nn.Module):
    def __init__(self, norm: torch.nn.InstanceNorm1d):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = torch.zeros(3), torch.ones(3)
        torch.instance_norm(x, None, None, mean, variance, True, 0.1, 1e-5, False)
        return mean, variance
