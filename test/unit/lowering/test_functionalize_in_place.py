"""Pass ``functionalize``: operators that change their operand or write into an ``out``, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from etir_testing.lowering.functionalize_models import Model, X, check


def relu_chain(m: Model, x: Tensor) -> Tensor:
    y = x * 2
    y.relu_().add_(1).mul_(x).clamp_(-3, 3)
    return y


def hardtanh(m: Model, x: Tensor) -> Tensor:
    return nn.functional.hardtanh(x + 1, -2.0, 2.0, inplace=True) + nn.functional.hardswish(x * 1, inplace=True)


def fills(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.clone(), x.clone(), x.clone()
    a.zero_()
    b.fill_(2.5)
    c[0].fill_(x[1, 1])
    return a, b, c


def several_dtypes(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    half = x.to(torch.float16)
    half.add_(x * 1.001)
    compared = x.clone()
    compared.eq_(x.abs())
    integers = x.to(torch.int32)
    integers.mul_(3).add_(torch.ones(6, dtype=torch.int64))
    mask = x > 0
    mask.logical_and_(x)
    return half, compared, integers, mask


def copies(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a = torch.zeros(4, 6)
    a.copy_(x[0])
    b = torch.zeros(4, 6, dtype=torch.int64)
    b.copy_(x)
    c = x.clone()
    c[1:3].copy_(torch.tensor(7.0))
    c[:, 0:1].copy_(x[:, 2:3])
    return a, b, c


def indexed(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a, b, c, d = x.clone(), x.clone(), x.clone(), x.clone()
    a[torch.tensor([0, 2])] = 5.0
    b[x > 0] = -1.0
    c.index_put_((torch.tensor([1, 1]),), torch.ones(6), accumulate=True)
    d.index_add_(0, torch.tensor([0, 3]), torch.ones(2, 6))
    return a, b, c, d


def masked(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.clone(), x.clone(), x.clone()
    a.masked_fill_(x > 1, 9.0)
    b.scatter_(1, torch.zeros(4, 1, dtype=torch.int64), 3.0)
    c.scatter_add_(0, torch.zeros(2, 6, dtype=torch.int64), torch.ones(2, 6))
    return a, b, c


def triangles(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.clone(), x.clone(), x.clone()
    a.tril_()
    b.fill_diagonal_(8.0)
    c.addcmul_(x, x, value=0.5).lerp_(x, 0.25).neg_()
    return a, b, c


def augmented(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    y[1] += x[0]
    y[:, 2] *= 3
    y[2:, 1:3] -= 1
    y[0, 0] = 4
    bits = x.to(torch.int32)
    bits |= 1
    return y, bits


def foreach(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    a, b = x.clone(), x[0].clone()
    torch._foreach_add_([a, b], 2.0)
    torch._foreach_mul_([a[1], b], [x[1], x[1]])
    return a, b


def out_variants(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = torch.empty(4, 6)
    torch.add(x, x, out=y)
    torch.mul(x, 2, out=m.cache)
    torch.sum(x, 1, out=y[:, 0])
    values_, indices = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(x, 1, out=(values_, indices))
    torch.arange(6, out=m.row)
    return y, values_, indices, m.cache * 1


def nested_parts(m: Model, x: Tensor) -> Tensor:
    return m.get_submodule("layers")(x)


def in_place_layers() -> nn.Module:
    torch.manual_seed(0)
    first = nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Hardswish(inplace=True), nn.Dropout(0.5, inplace=True)
    return nn.Sequential(*first, nn.Linear(6, 3), nn.SiLU(inplace=True))


MODELS = {
    f.__name__: f
    for f in [
        relu_chain,
        hardtanh,
        fills,
        several_dtypes,
        copies,
        indexed,
        masked,
        triangles,
        augmented,
        foreach,
        out_variants,
    ]
}


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager(name: str) -> None:
    check(MODELS[name], *X)


def test_layers_in_place() -> None:
    check(nested_parts, *X, parts={"layers": in_place_layers()})
