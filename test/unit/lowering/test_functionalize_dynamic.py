"""Pass ``functionalize``: views and changes of tensors whose sizes change at run time, against eager PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import Dim

from etir_testing.lowering.functionalize_models import Model, check, values


def dynamic_views(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    y[1:].add_(1)
    y[:, :2].zero_()
    y.view(-1)[2:5].mul_(2)
    y.t()[0] += y.shape[0]
    a, b = y[:1], y[1:]
    b.mul_(2)
    y.unsqueeze(0).expand(1, y.shape[0], y.shape[1])[0, 0].fill_(3)
    c = torch.zeros(x.shape[0], 6)
    c.copy_(x[0])
    c[-1].copy_(x.sum())
    return y, a, b, c, y.flatten()


def two_dynamic_dims(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    y.reshape(-1).add_(1)
    z = y.view(x.shape[0] * x.shape[1])
    z[1:].mul_(2)
    y.permute(1, 0)[2:].sub_(1)
    y.view(1, x.shape[0], 1, x.shape[1]).squeeze().add_(1)
    u = x.new_zeros(x.shape[0], 2, x.shape[1])
    u.copy_(x.unsqueeze(1))
    u.transpose(0, 2)[1].fill_(9)
    v = x.new_zeros(2, x.shape[0], x.shape[1])
    v.copy_(x)
    v[1].zero_()
    return y, z, u, v


def dynamic_strides(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """A column and the rows of a matrix of which the number of columns is not known."""
    y = x * 1
    y.as_strided((2,), (x.shape[1],), 1).add_(1)
    y.as_strided((x.shape[0], x.shape[1]), (x.shape[1], 1)).mul_(2)
    y.as_strided((1, 2), (1, x.shape[1]), 0).clamp_(-1, 1)
    x.as_strided((2,), (x.stride(0),), 0).zero_()
    return y, x * 1


def dynamic_cache(m: Model, x: Tensor, position: Tensor) -> Tensor:
    m.cache.narrow(0, 0, 4)[:, : x.shape[1]].index_add_(0, position, x)
    return m.cache[:, : x.shape[1]] + 1


def test_dynamic_dim() -> None:
    rows = Dim("n", min=3, max=16)
    check(dynamic_views, values(4, 6), dynamic=({0: rows},), others=[(values(7, 6),), (values(3, 6),)])


def test_two_dynamic_dims() -> None:
    dims = {0: Dim("n", min=2, max=16), 1: Dim("k", min=3, max=16)}
    for function in (two_dynamic_dims, dynamic_strides):
        check(function, values(4, 6), dynamic=(dims,), others=[(values(7, 3),), (values(3, 9),)])


def test_dynamic_cache() -> None:
    dynamic = ({1: Dim("k", min=2, max=5)}, None)
    others = [(values(2, 5), torch.tensor([0, 2])), (values(2, 2), torch.tensor([3, 3]))]
    check(dynamic_cache, values(2, 3), torch.tensor([1, 3]), dynamic=dynamic, others=others)
