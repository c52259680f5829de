"""Pass ``functionalize``: changes through views, seen by every other view of the same tensor, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from etir_testing.lowering.functionalize_models import Model, X, check


def slice_of_slice(m: Model, x: Tensor) -> Tensor:
    y = x * 1
    y[1:][1:, 2:5][0].add_(100)
    y[::2, 1::2].mul_(-1)
    return y


def two_views(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    a, b = y[:3], y[1:]
    a.add_(1)
    b.mul_(2)
    a.sub_(3)
    b[0].zero_()
    return a, b, y, a + 1


def chained(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    v = y.view(2, 2, 6).transpose(0, 2)[1:4].unsqueeze(0).squeeze(0)
    v.add_(50)
    y.view(-1)[3:9].mul_(2)
    return y, v


def reordered(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y, z = x * 1, m.cube * 1
    y.T.add_(torch.arange(4.0))
    y.t()[0].mul_(2)
    z.permute(2, 0, 1)[1].add_(3)
    z.movedim(0, -1)[0].mul_(2)
    z.transpose(-1, 0)[0, 1].zero_()
    z.mT.sub_(1)
    return y, z


def splits(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    a, b, c = y.split(2, dim=1)
    b.add_(10)
    d, e = y.chunk(2)
    e.mul_(2)
    f, g = y.split([1, 3])
    g[0].zero_()
    h, i = torch.tensor_split(y, [4], dim=1)
    i.add_(a)
    return y, a, b, c, d, f, h


def unbound(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    rows = y.unbind(0)
    rows[1].add_(rows[0])
    for column in y.unbind(1)[2:4]:
        column.mul_(2)
    return y, *rows


def squeezes(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = (x * 1).view(1, 4, 1, 6)
    y.squeeze()[1].add_(1)
    y.squeeze(0)[2].add_(2)
    y.squeeze((0, 2))[3].add_(3)
    y.unsqueeze(-1)[0, 0].add_(4)
    return y, y.squeeze()


def narrows(m: Model, x: Tensor) -> Tensor:
    y = x * 1
    y.narrow(0, 1, 2).add_(1)
    y.narrow(1, -3, 2).mul_(5)
    y.select(1, -1).zero_()
    return y


def flattened(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y, z = x * 1, x * 1
    y.flatten()[5:9].add_(1)
    y.reshape(2, 12)[1].mul_(2)
    y.unflatten(1, (2, 3))[:, 1].sub_(1)
    z.t().reshape(-1).add_(1)  # a copy: z does not change
    z.t().contiguous().mul_(3)  # a copy
    z.contiguous().add_(7)  # z itself
    z.reshape_as(y.view(6, 4)).mul_(2)
    return y, z


def strides_matter(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x.t() + 1  # laid out as x.t() is
    z = y.reshape(-1)
    z.add_(5)
    w = y.t().reshape(-1)
    w.mul_(2)
    return y, z, w


def layouts_of_products(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """The importer knows how products and factors are laid out; only some of these reshapes are views."""
    square = x.mT @ x
    square.reshape(-1)[2:].zero_()
    y = torch.einsum("...ij->...ji", x) * 0.5
    y.reshape(24).add_(1)
    inverse = torch.linalg.inv(square + 50 * torch.eye(6))
    inverse.reshape(36).mul_(2)
    picked = x.t()[torch.tensor([0, 2])]
    picked.reshape(-1).sub_(3)
    summed = m.cube.permute(2, 0, 1).sum(2)
    summed.reshape(8).add_(1)
    return square, y, inverse, picked, summed


def diagonals(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y, z = x * 1, m.cube * 1
    y.diagonal().add_(10)
    y.diagonal(1).mul_(2)
    z.diagonal(0, 1, 2)[1].zero_()
    return y, z


def windows(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    y.unfold(1, 2, 3).mul_(-1)
    y.as_strided((2, 2), (6, 2)).add_(100)
    return y, y.unfold(1, 3, 1)


def same_tensors(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    y.detach().add_(1)
    y.to(torch.float32).mul_(2)
    y.to(torch.float64).mul_(2)
    y.view_as(x).sub_(1)
    y.expand(4, 6).add_(1)
    y.unsqueeze(0).expand(1, 4, 6)[0, 1].zero_()
    return y, torch.ops.aten.alias(y)


def expanded_parts(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x[0].clone()
    rows = y.expand(3, 6)
    some, most = rows[1:], rows[:, 1:]
    rows[2].mul_(2)
    some[1].add_(1)
    most[0].relu_()
    rows.unfold(1, 2, 2)[1, 2].fill_(7)
    rows[:, :3].diagonal().sub_(3)
    return y, rows * 1, some * 1, most + rows[:, :5]


def expanded_types(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    flags, numbers = x[0] > 3, (x[0] * 3).to(torch.int32)
    holes = torch.where(x[0] > 3, torch.nan, x[0])
    flags.expand(2, 6)[1].logical_not_()
    numbers.unsqueeze(1).expand(6, 4)[:, 2].mul_(2)
    holes.expand(2, 3, 6)[1, 2, 1:4] = 5
    x[:1].expand(4, 6)[3].neg_()
    m.row.expand(2, 6)[0].add_(x[1])
    return flags, numbers, holes, m.row * 1


def expanded_fills(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """One value for several elements that are one: all of the copies, some of them, through views of them."""
    y, numbers, flags = x[0].clone(), (x[0] * 3).to(torch.int32), x[0] > 3
    y.expand(3, 6)[:2, 1:3].fill_(5)
    y.expand(2, 3, 6).permute(2, 0, 1)[3:].zero_()
    y.unsqueeze(1).expand(6, 4)[1, :3].fill_(-2)
    numbers.expand(4, 6).zero_()
    flags.expand(4, 6)[1:, 2:].fill_(True)
    rows = x[:1].clone().expand(4, 6)
    rows.unfold(0, 2, 1).fill_(3)
    m.row.expand(2, 6)[:, 1:4].fill_(9)
    return y, numbers, flags, rows, m.row * 1


def expanded_bits(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """What compares equal and is another: the sign of a zero, seen through its reciprocal."""
    y, c = x[0] * 0, torch.complex(x[0], x[1])
    rows = y.expand(3, 6)
    rows[1].copy_(-(x[0].abs()) * 0.0)
    rows[2, 1:3].fill_(-0.0)
    rows[0, 2:4].fill_(0.0)
    c.expand(2, 6)[1, :3].real.mul_(2)
    torch.view_as_real(c).unsqueeze(0).expand(2, 6, 2)[0, 1].neg_()
    z = x[0].clone()
    z.expand(2, 6)[0].view(torch.int32)[:3].zero_()
    return 1 / y, c, z


def lists(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = [x.clone(), x * 2]
    torch._foreach_mul_(y, [x, x])
    torch._foreach_addcmul_(y, [x, x], [x, x], 0.5)
    torch._foreach_add_(y, [1.0, 2.0])
    torch._foreach_copy_(y, [y[1] * 1, x])
    torch._foreach_zero_(y[:1])
    return y[0], y[1], x.narrow(0, torch.tensor(-2), 1).mul_(2)


def inference_dropout(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    z = nn.functional.dropout(y, 0.5, training=False)
    z.relu_()
    return y, z


def complex_parts(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    z = torch.complex(x, x + 1)
    z.real.add_(1)
    z.imag.mul_(2)
    torch.view_as_real(z)[0].zero_()
    return torch.view_as_real(z), z.real * 1


def resolved(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    """Conjugates and negated parts are copied, what has neither bit is the tensor itself."""
    z = torch.complex(x, x + 1)
    z.conj()[1:].resolve_conj().mul_(2)
    z.conj().imag.resolve_neg().zero_()
    z.conj().conj().resolve_conj()[0].mul_(3)
    z.conj().real.resolve_neg().add_(1)
    z.resolve_neg()[2].mul_(5)
    return torch.view_as_real(z), z.real * 1


def bytes_of(m: Model, x: Tensor) -> Tensor:
    y = x * 1
    y.view(torch.int32)[0].bitwise_and_(0)
    return y


def resized_dims(m: Model, x: Tensor) -> tuple[Tensor, ...]:
    y = x * 1
    z = y.view(24)
    y.t_()
    y[0].add_(1)
    y.unsqueeze_(0)
    y[0, 1].mul_(2)
    z[3:5].zero_()
    return y, z


def stale_then_shape(m: Model, x: Tensor) -> tuple[Tensor, int]:
    y = x * 1
    v = y[1:]
    y.add_(1)
    return v.view(v.shape[0] * v.shape[1]), v.shape[0]


MODELS = {
    f.__name__: f
    for f in [
        slice_of_slice,
        two_views,
        chained,
        reordered,
        splits,
        unbound,
        squeezes,
        narrows,
        flattened,
        strides_matter,
        layouts_of_products,
        diagonals,
        windows,
        same_tensors,
        expanded_parts,
        expanded_types,
        expanded_fills,
        expanded_bits,
        lists,
        inference_dropout,
        complex_parts,
        resolved,
        bytes_of,
        resized_dims,
        stale_then_shape,
    ]
}


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager(name: str) -> None:
    check(MODELS[name], *X)
