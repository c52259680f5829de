"""What the tests of the copying kernels share: tensors of every dtype in several layouts, and comparison with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from etir_testing.runtime.kernels import DTYPES, Kernels, build_kernels

ALL_DTYPES = tuple(DTYPES)

_STAND_IN = {
    torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64, torch.complex32: torch.int32,
}  # fmt: skip
"""Dtypes that torch's own kernels do not all take: elements are moved as those of a dtype of the same size."""


def kernels() -> Kernels:
    return build_kernels("copy")


def make(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """A tensor whose elements have all bytes in use, without NaNs."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if dtype.is_complex:
        part = {torch.complex32: torch.float16, torch.complex64: torch.float32}.get(dtype, torch.float64)
        return torch.view_as_complex(torch.randn((*shape, 2), generator=generator).to(part))
    if dtype.is_floating_point:
        return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)
    stand_in = _STAND_IN.get(dtype, dtype)
    info = torch.iinfo(stand_in)
    return torch.randint(info.min, info.max, tuple(shape), generator=generator, dtype=stand_in).view(dtype)


def in_order(tensor: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """The same values, with dims in memory from outermost to innermost as given."""
    inverse = [list(order).index(d) for d in range(tensor.dim())]
    return tensor.permute(tuple(order)).contiguous().permute(inverse)


def layouts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor row-major, channels-last, and with all dims reversed."""
    rank = tensor.dim()
    yield tensor.contiguous()
    if rank >= 3:
        yield in_order(tensor, (0, *range(2, rank), 1))
    if rank >= 2:
        yield in_order(tensor, tuple(reversed(range(rank))))


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Bit for bit."""
    assert actual.dtype == expected.dtype
    assert tuple(actual.shape) == tuple(expected.shape)
    a, b = actual.contiguous(), expected.resolve_conj().contiguous()
    if a.dim() == 0:
        a, b = a.reshape(1), b.reshape(1)
    assert torch.equal(a.view(torch.uint8), b.view(torch.uint8)), (actual, expected)


def moved(function: Callable[..., Any], tensors: Sequence[torch.Tensor], *rest: Any) -> Any:
    """torch's result for a function that moves elements, for dtypes that torch's kernel does not take too."""
    dtype = tensors[0].dtype
    if dtype not in _STAND_IN:
        return function(*tensors, *rest)
    result = function(*(t.view(_STAND_IN[dtype]) for t in tensors), *rest)
    if isinstance(result, torch.Tensor):
        return result.contiguous().view(dtype)
    return [r.contiguous().view(dtype) for r in result]


def check_moves(
    name: str, function: Callable[..., Any], tensors: Sequence[torch.Tensor], *rest: Any, rows_only: bool = False
) -> None:
    """Compare a kernel with torch for all layouts of its first argument and of its results.

    Args:
        name: the kernel's name without the namespace.
        function: what torch calls it, on the same arguments.
        tensors: the leading tensor arguments.
        rest: all other arguments of the schema, with defaults.
        rows_only: leave out layouts other than row-major.
    """
    expected = moved(function, tensors, *rest)
    several = not isinstance(expected, torch.Tensor)
    for first in [tensors[0]] if rows_only else layouts(tensors[0]):
        for turn in range(3):
            outs = [_turned(item, 0 if rows_only else turn) for item in (expected if several else [expected])]
            results = kernels().call(f"aten::{name}", [first, *tensors[1:], *rest], [outs] if several else outs)
            for actual, wanted in zip(results[0] if several else results, outs, strict=True):
                same(actual, wanted)
            if rows_only:
                break


def _turned(tensor: torch.Tensor, turn: int) -> torch.Tensor:
    choices = list(layouts(tensor.resolve_conj()))
    return choices[turn % len(choices)]
