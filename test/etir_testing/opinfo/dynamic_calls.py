"""Calls of operators whose operands are all dynamic, where models have constants: weights, kernels, widths, lengths.

Each row is a function of tensors and their shapes; every dim of at least two elements is left to torch. The settings
that operators usually have as literals come from sizes of other inputs in some rows: ``y.shape[0]`` as the size of a
window, as ``k`` of ``topk``, as the size to resize to. :func:`dynamic_outcome` runs them as torch's own samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from etir_testing.opinfo.op_samples import OneOp, Sample

L = torch.linalg
Shape: TypeAlias = tuple[int, ...]
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


class Ints:
    """A tensor of integers from 0 to below ``high``."""

    def __init__(self, high: int, *shape: int):
        self.high = high
        self.shape = shape


def _regular(a: torch.Tensor) -> torch.Tensor:
    """A square matrix that has an inverse."""
    return a + 3 * torch.eye(a.shape[-1])


def _definite(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mT + torch.eye(a.shape[-2])


def _convolutions() -> Iterator[tuple[str, Call]]:
    plain = {1: (F.conv1d, F.conv_transpose1d), 2: (F.conv2d, F.conv_transpose2d), 3: (F.conv3d, F.conv_transpose3d)}
    for rank, (conv, transposed) in plain.items():
        x, kernel = (2, 4, *(9, 8, 7)[:rank]), (3, 2, 3)[:rank]
        weight, back = (6, 4, *kernel), (4, 6, *kernel)
        rows: dict[str, Call] = {
            "bias": (conv, (x, weight, (6,))),
            "stride": (lambda x, w, f=conv: f(x, w, stride=2, padding=1), (x, weight)),
            "dilation": (lambda x, w, f=conv: f(x, w, dilation=2, padding=2), (x, weight)),
            "groups": (lambda x, w, f=conv: f(x, w, groups=2), (x, (6, 2, *kernel))),
            "depthwise": (lambda x, w, f=conv: f(x, w, groups=x.shape[1]), (x, (4, 1, *kernel))),
            "no batch": (conv, (x[1:], weight)),
            "same": (lambda x, w, f=conv: f(x, w, padding="same"), (x, weight)),
            "padding from sizes": (lambda x, w, f=conv: f(x, w, padding=[s - 1 for s in w.shape[2:]]), (x, weight)),
            "transposed": (transposed, (x, back, (6,))),
            "transposed, stride": (
                lambda x, w, f=transposed: f(x, w, stride=2, padding=1, output_padding=1),
                (x, back),
            ),
            "transposed, groups": (lambda x, w, f=transposed: f(x, w, groups=2), (x, (4, 3, *kernel))),
        }
        yield from ((f"convolution {rank}d, {name}", row) for name, row in rows.items())


def _pooling() -> Iterator[tuple[str, Call]]:
    for rank in (1, 2, 3):
        x = (2, 3, *(9, 8, 7)[:rank])
        largest, mean, adaptive = (getattr(F, f"{name}_pool{rank}d") for name in ("max", "avg", "adaptive_avg"))
        rows: dict[str, Call] = {
            "max, indices": (lambda x, f=largest: f(x, 2, return_indices=True), (x,)),
            "max, hanging over": (lambda x, f=largest: f(x, 3, 2, 1, ceil_mode=True), (x,)),
            "max, window from size": (lambda x, y, f=largest: f(x, y.shape[0], 1), (x, (3,))),
            "mean, hanging over": (lambda x, f=mean: f(x, 3, 2, 1, True), (x,)),
            "mean, window from size": (lambda x, y, f=mean: f(x, y.shape[0]), (x, (3,))),
            "to a size": (lambda x, y, f=adaptive, n=rank: f(x, (y.shape[0],) * n), (x, (3,))),
        }
        yield from ((f"pooling {rank}d, {name}", row) for name, row in rows.items())
    samples = lambda x, s: F.fractional_max_pool2d(x, 2, output_size=(3, 3), _random_samples=s.sigmoid())  # noqa: E731
    yield "pooling 2d, fractional", (samples, ((2, 3, 9, 8), (2, 3, 2)))


def _resizing() -> Iterator[tuple[str, Call]]:
    modes = (("nearest", 1), ("linear", 1), ("nearest", 2), ("bilinear", 2), ("bicubic", 2), ("nearest-exact", 2))
    for mode, rank in (*modes, ("area", 2), ("nearest", 3), ("trilinear", 3)):
        x = (2, 3, *(6, 7, 5)[:rank])
        rows: dict[str, Call] = {
            "twice": (lambda x, m=mode: F.interpolate(x, scale_factor=2.0, mode=m), (x,)),
            "by 1.5": (lambda x, m=mode: F.interpolate(x, scale_factor=1.5, mode=m), (x,)),
            "to sizes": (lambda x, y, m=mode, n=rank: F.interpolate(x, size=y.shape[:n], mode=m), (x, (4, 9, 3))),
            "by 1.5 as a size": (
                lambda x, m=mode: F.interpolate(x, scale_factor=1.5, mode=m, recompute_scale_factor=True),
                (x,),
            ),
        }
        yield from ((f"resizing {rank}d, {mode}, {name}", row) for name, row in rows.items())


def _linear_algebra() -> Iterator[tuple[str, Call]]:
    yield from {
        "solve": (lambda a, x: L.solve(_regular(a), x), ((4, 4), (4, 3))),
        "solve, batch": (lambda a, x: L.solve(_regular(a), x), ((2, 4, 4), (2, 4, 3))),
        "solve, right": (lambda a, x: L.solve(_regular(a), x, left=False), ((4, 4), (3, 4))),
        "inverse": (lambda a: L.inv(_regular(a)), ((2, 4, 4),)),
        "determinant": (lambda a: L.det(_regular(a)), ((4, 4),)),
        "lu": (L.lu, ((4, 5),)),
        "lu, high": (L.lu, ((5, 3),)),
        "lu_solve": (lambda a, x: L.lu_solve(*L.lu_factor(_regular(a)), x), ((4, 4), (4, 3))),
        "qr": (lambda a: [t.abs() for t in L.qr(a)], ((5, 3),)),
        "qr, wide": (lambda a: [t.abs() for t in L.qr(a)], ((3, 5),)),
        "qr, complete": (lambda a: L.qr(a, "complete")[1].abs(), ((5, 3),)),
        "ormqr": (torch.ormqr, ((5, 3), (3,), (5, 2))),
        "cholesky": (lambda a: L.cholesky(_definite(a)), ((4, 5),)),
        "cholesky_solve": (lambda x, a: torch.cholesky_solve(x, L.cholesky(_definite(a))), ((4, 3), (4, 5))),
        "pinv": (L.pinv, ((5, 3),)),
        "pinv, wide": (L.pinv, ((2, 3, 5),)),
        "pinv, symmetric": (lambda a: L.pinv(a + a.mT, hermitian=True), ((4, 4),)),
        "pinv, tolerances": (lambda a, t: L.pinv(a, atol=t.abs() * 0, rtol=None), ((5, 3), ())),
        "matrix_rank": (L.matrix_rank, ((5, 3),)),
        "matrix_rank, symmetric": (lambda a: L.matrix_rank(a + a.mT, hermitian=True), ((4, 4),)),
        "matrix_power": (lambda a: [L.matrix_power(_regular(a), n) for n in (-2, 0, 1, 5)], ((4, 4),)),
        "matrix_norm": (lambda a: [L.matrix_norm(a, n) for n in (2, -2, 1, "nuc", "fro")], ((4, 5),)),
        "cond": (lambda a: L.cond(_regular(a)), ((2, 3, 4, 4),)),
        "svd": (lambda a: L.svd(a, full_matrices=False)[1], ((5, 3),)),
        "eigh": (lambda a: L.eigvalsh(a + a.mT), ((2, 4, 4),)),
        "vander": (lambda x, y: (L.vander(x), L.vander(x, N=y.shape[0])), ((3, 4), (5,))),
        "tensorsolve": (L.tensorsolve, ((6, 2, 3), (6,))),
        "a product without elements": (lambda a, b: a @ b.mT, ((3, 0), (4, 0))),
        "a batch without matrices": (L.pinv, ((0, 5, 4),)),
    }.items()


def _other() -> Iterator[tuple[str, Call]]:
    attention = F.scaled_dot_product_attention
    heads = ((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))
    yield from {
        "attention": (attention, heads),
        "attention, mask": (lambda q, k, v, m: attention(q, k, v, attn_mask=m), (*heads, (5, 7))),
        "attention, groups": (
            lambda q, k, v: attention(q, k, v, enable_gqa=True),
            ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)),
        ),
        "diag": (torch.diag, ((5, 6),)),
        "diag_embed": (torch.diag_embed, ((3, 4),)),
        "trace": (torch.trace, ((5, 6),)),
        "fill_diagonal": (lambda x: x.clone().fill_diagonal_(2.0), ((5, 6),)),
        "block_diag": (torch.block_diag, ((3, 4), (2, 5))),
        "pad, circular": (lambda x, y: F.pad(x, (y.shape[0], 0), mode="circular"), ((2, 3, 7), (2,))),
        "pad, reflect": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), ((2, 3, 7, 6),)),
        "topk": (lambda x, y: x.topk(y.shape[0]), ((5, 6), (3,))),
        "kthvalue": (lambda x, y: x.kthvalue(y.shape[0], 0), ((5, 6), (3,))),
        "quantile": (lambda x: (x.quantile(0.3, 0), x.nanquantile(0.7, 1)), ((5, 6),)),
        "unfold": (lambda x, y: x.unfold(1, y.shape[0], 1), ((5, 6), (3,))),
        "fold": (lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2), ((2, 3, 5, 6),)),
        "diff": (lambda x, y: (x.diff(), torch.diff(x, n=0, prepend=y)), ((5, 6), (5, 2))),
        "cumulative_trapezoid": (torch.cumulative_trapezoid, ((5, 6), (5, 6))),
        "tensor_split": (lambda x, n: torch.tensor_split(x, n), ((6, 5), Ints(5, 3))),
        "embedding_bag": (lambda i, w: F.embedding_bag(i, w, mode="max"), (Ints(2, 3, 4), (5, 6))),
        "index_put": (lambda x, i, v: x.index_put((i,), v, accumulate=True), ((5, 4), Ints(2, 6), (6, 4))),
        "scatter_reduce": (
            lambda x, i, v: x.scatter_reduce(0, i, v, "amax", include_self=False),
            ((5, 4), Ints(2, 6, 4), (6, 4)),
        ),
        "cdist": (torch.cdist, ((2, 5, 4), (2, 6, 4))),
        "einsum": (lambda x, y, z: torch.einsum("abc,cd,be->ade", x, y, z), ((2, 3, 4), (4, 5), (3, 6))),
        "lstm": (
            lambda x, h, c, a, b: torch._VF.lstm(x, (h, c), [a, b], False, 1, 0.0, False, False, False),  # type: ignore[attr-defined]
            ((6, 3, 4), (1, 3, 5), (1, 3, 5), (20, 4), (20, 5)),
        ),
        "gru_cell": (torch._VF.gru_cell, ((3, 4), (3, 5), (15, 4), (15, 5))),  # type: ignore[attr-defined]
        "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 6, 5), (6,), (6,))),
        "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v.abs() + 1), ((2, 6, 5), (6,), (6,))),
        "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), ((5, 4), (5, 1))),
        "multi_margin_loss": (F.multi_margin_loss, ((5, 4), Ints(2, 5))),
        "multilabel_margin_loss": (F.multilabel_margin_loss, ((5, 4), Ints(2, 5, 4))),
        "stft": (lambda x, w: torch.view_as_real(torch.stft(x, 8, 4, window=w, return_complex=True)), ((2, 40), (8,))),
        "ihfft2": (lambda x: torch.view_as_real(torch.fft.ihfft2(x)), ((3, 4, 6),)),
    }.items()


def calls() -> dict[str, Call]:
    """Functions and the shapes of their tensors, by name."""
    families = (_convolutions, _pooling, _resizing, _linear_algebra, _other)
    return {name: call for family in families for name, call in family()}


def sample_of(name: str, call: Call) -> Sample:
    """A call as a sample of torch's; the same tensors in every run."""
    function, shapes = call
    source = torch.Generator().manual_seed(0)
    tensors: list[torch.Tensor] = []
    for shape in shapes:
        if isinstance(shape, Ints):
            tensors.append(torch.randint(0, shape.high, shape.shape, generator=source).sort().values)
        else:
            tensors.append(torch.randn(shape, generator=source))
    leaves, structure = pytree.tree_flatten((tuple(tensors), {}))
    return Sample(name, torch.float32, OneOp(function, leaves, structure), tuple(tensors), "", lambda x: x)
