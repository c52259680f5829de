"""What torch defines on storage instead of on the tensor, as source for a given tensor: ``as_strided`` of whatever it
is, its strides and offset as numbers, memory formats, and bytes under another dtype.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

INTEGERS = {torch.int64: torch.int32, torch.int32: torch.int16, torch.int16: torch.uint8, torch.uint8: torch.int8}
"""dtypes under which the bytes of another are read; of integers alone, where two right results are equal in bytes."""


def strided(r: random.Random, t: torch.Tensor, *, own: bool = False) -> str:
    """Sizes, strides and an offset in the storage of ``t``; for ``own`` in that of a copy, and no element is twice."""
    count = t.numel() if own else t.untyped_storage().nbytes() // t.element_size()
    if not count:
        return "(0,), (1,), 0"
    offset = r.randrange(count) if own or r.random() < 0.7 else t.storage_offset()
    left, dims, reach = count - 1 - offset, list[tuple[int, int]](), 0
    for _ in range(r.randint(0, 3)):
        step = r.randint(0 if r.random() < 0.2 else 1, 8)
        if own:
            step = reach + r.randint(1, 3)
        size = r.randint(1, max(1, min(4, left // step + 1 if step else 3)))
        left -= (size - 1) * step
        reach += (size - 1) * step
        dims.append((size, step))
    r.shuffle(dims)
    size, stride = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    return f"{size}, {stride}, {offset}"


def storage(r: random.Random, a: str, t: torch.Tensor, other: Callable[[], str]) -> str:
    """What depends on where ``a`` is in memory: a view of its storage mostly."""
    rank = t.dim()
    choices = [
        *(f"{a}.as_strided({strided(r, t)})" for _ in range(5)),
        f"{a}.as_strided({a}.shape, {a}.stride())",
        f"torch.as_strided({a}, {strided(r, t).rsplit(', ', 1)[0]})",
    ]
    if rank:
        dim = r.randrange(-rank, rank)
        size = t.shape[dim]
        choices += [
            f"{a}.unfold({dim}, {r.randint(1, max(size, 1))}, {r.randint(1, 3)})",
        ]
        if t.numel():
            choices.append(f"{a}.as_strided(({size},), ({a}.stride({dim}),), {t.storage_offset()})")
        if t.dtype in INTEGERS:
            choices.append(f"{a}.view({INTEGERS[t.dtype]})")
    if rank == 4:
        choices += [
            f"{a}.contiguous(memory_format=torch.channels_last)",
            f"{a}.to(memory_format=torch.channels_last)",
            f"{a}.permute(0, 2, 3, 1)",
            f"{a}.permute(0, 3, 1, 2)",
        ]
    return r.choice(choices)


def from_storage(r: random.Random, a: str, t: torch.Tensor, other: Callable[[], str]) -> str:
    """A new tensor whose values depend on the layout of ``a``, or that has one of its own."""
    where = strided(r, t, own=True)
    size = where[: where.index(")") + 1]
    literal = "1" if t.dtype is not torch.bool else "True"
    choices = [
        f"torch.as_strided_scatter({a}, {a}.new_full({size}, {literal}), {where})",
        f"torch.as_strided_copy({a}, {strided(r, t)})",
        f"{a}.clone().as_strided({where})",
        f"({a} + {other()}).as_strided({where})",
        f"{a}.where({a} == {a}, {other()}) if {a}.is_contiguous() else {a}.clone()",
        f"{a}.clone(memory_format=torch.preserve_format)",
        f"torch.empty_like({a}).copy_({a})",
    ]
    if t.dim():
        choices.append(f"{a} * {a}.stride({r.randrange(t.dim())})")
    if t.dim() == 4:
        choices += [
            f"{a}.clone(memory_format=torch.channels_last)",
            f"torch.zeros_like({a}, memory_format=torch.channels_last)",
        ]
        if t.dtype is torch.float32:
            channels = t.shape[1]
            choices += [
                f"torch.nn.functional.max_pool2d({a}, (1, 2))",
                f"torch.nn.functional.avg_pool2d({a}, 1)",
                f"torch.nn.functional.conv2d({a}, torch.full((2, {channels}, 1, 1), 0.25))",
                f"torch.nn.functional.interpolate({a}, scale_factor=2)",
                f"torch.nn.functional.group_norm({a}, 1, eps=0.1)",
            ]
    return r.choice(choices)
