"""Reductions and normalizations must refuse, or do, whatever a file asks of them, and never crash.

Every kernel of the two families is called with arguments drawn at random: right kinds, wrong everything else. There is
nothing to compare; run under the sanitizers, this finds reads and writes out of bounds and undefined behavior.
"""

from __future__ import annotations

import json
import random

import pytest
import torch

from etir_testing.runtime.kernels import RUNTIME, KernelFailure, build_kernels

DTYPES = (
    torch.float32,
    torch.float32,
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.uint8,
    torch.bool,
)
NUMBERS = (0, 1, 2, 3, -1, -2, 5, 2**31, 2**62, -(2**63), 2**63 - 1)
REALS = (0.0, 1.0, 2.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e300)


def tensor(rng: random.Random, dtype: torch.dtype | None = None) -> torch.Tensor:
    rank = rng.choice((0, 1, 1, 2, 2, 3, 4))
    sizes = [rng.choice((0, 1, 2, 2, 3, 4)) for _ in range(rank)]
    made = torch.randint(0, 5, sizes).to(dtype or rng.choice(DTYPES))
    if rank > 1 and rng.random() < 0.3:
        order = list(range(rank))
        rng.shuffle(order)
        made = made.permute(order).contiguous().permute([order.index(d) for d in range(rank)])
    return made


def value(rng: random.Random, letter: str, like: torch.Tensor) -> object:
    if letter.islower() and rng.random() < 0.4:
        return None
    kind = letter.upper()
    if kind == "T":
        return like.clone() if rng.random() < 0.4 else tensor(rng, like.dtype if rng.random() < 0.7 else None)
    if kind == "I":
        sizes = [*like.shape, like.numel()]
        return rng.choice((*NUMBERS, *sizes, 6, 7))
    if kind == "B":
        return rng.random() < 0.5
    if kind in "DN":
        return rng.choice(REALS) if kind == "D" or rng.random() < 0.6 else rng.choice(NUMBERS)
    if kind == "L":
        if like.dim() and rng.random() < 0.4:
            return list(like.shape[rng.randrange(like.dim()) :])
        return [rng.choice(NUMBERS[:7]) for _ in range(rng.randrange(4))]
    if kind == "O":
        return [rng.random() < 0.7 for _ in range(rng.choice((3, 3, 3, 0, 2)))]
    raise AssertionError(letter)


NAMES = [
    (family, name)
    for family in ("reduction", "normalization")
    for name in json.loads((RUNTIME / "kernels" / family / "kernels.json").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("family", "name"), NAMES, ids=[name for _, name in NAMES])
def test_any_arguments(family: str, name: str) -> None:
    library = build_kernels(family)
    inputs, _, results = library.library.etir_kernel_signature(name.encode()).decode().partition(">")
    rng = random.Random(name)
    for _ in range(150):
        like = tensor(rng)
        arguments = [like if i == 0 else value(rng, letter, like) for i, letter in enumerate(inputs)]
        outs = []
        for _ in results:
            dtype = rng.choice((like.dtype, like.dtype, torch.int64, torch.bool))
            out = like.to(dtype) if rng.random() < 0.5 else tensor(rng, dtype)
            outs.append(out)
        try:
            library.call(name, arguments, outs)
        except KernelFailure as failure:
            assert failure.check.startswith("Kernel")
