"""Copying kernels on arguments of the right kinds, but any shapes, dtypes and values: they refuse or obey, never crash.

A run under the sanitizers (see kernels.py) is what makes most of these checks bite.
"""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
import torch

from etir_testing.runtime.copy_cases import in_order, kernels, make
from etir_testing.runtime.kernels import DTYPES, RUNTIME, KernelFailure

NAMES = sorted(json.loads((RUNTIME / "kernels" / "copy" / "kernels.json").read_text(encoding="utf-8")))
NUMBERS = (0, 1, 2, 3, -1, -2, -3, 5, 7, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 46341)


class Arguments:
    """Random arguments; one dtype and rank more often than not, so that some calls come far."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.dtype = self.random.choice(list(DTYPES))
        self.rank = self.random.choice((0, 1, 2, 3, 3, 4, 4, 5))
        self.sizes = [self.random.choice((0, 1, 2, 3, 4, 6)) for _ in range(5)]

    def tensor(self) -> torch.Tensor:
        pick = self.random
        dtype = self.dtype if pick.random() < 0.9 else pick.choice(list(DTYPES))
        rank = min(5, max(0, self.rank + pick.choice((-1, 0, 0, 0, 1))))
        shape = [s if pick.random() < 0.8 else pick.choice((0, 1, 2, 4)) for s in self.sizes[:rank]]
        order = list(range(rank))
        if pick.random() < 0.5:
            pick.shuffle(order)
        return in_order(make(shape, dtype), order)

    def number(self) -> int:
        return self.random.choice(NUMBERS[:7] if self.random.random() < 0.8 else NUMBERS)

    def value(self, letter: str) -> Any:
        pick = self.random
        if letter.islower() and pick.random() < 0.3:
            return None
        kind = letter.upper()
        if kind == "T":
            return self.tensor()
        if kind == "V":
            return [self.tensor() for _ in range(pick.choice((0, 1, 2, 3)))]
        if kind == "L":
            return [self.number() for _ in range(pick.choice((0, 1, 2, 2, 3, 4, self.rank, self.rank, 6, 40)))]
        if kind == "B":
            return pick.random() < 0.5
        if kind == "N":
            return pick.choice((self.number(), True, 1.5, float("nan"), 1e300, -float("inf")))
        return self.number()


@pytest.mark.parametrize("name", NAMES)
def test_any_arguments(name: str) -> None:
    library = kernels()
    found = library.library.etir_kernel_signature(name.encode())
    inputs, _, results = found.decode().partition(">")
    obeyed = 0
    for seed in range(150):
        arguments = Arguments(seed)
        values = [arguments.value(letter) for letter in inputs]
        outs = [arguments.value(letter) for letter in results]
        try:
            library.call(name, values, outs)
            obeyed += 1
        except KernelFailure:
            pass
    assert obeyed < 150


@pytest.mark.parametrize("name", NAMES)
def test_no_data(name: str) -> None:
    """Tensors without memory are refused by name, not read."""
    library = kernels()

    class Nowhere(torch.Tensor):
        def data_ptr(self) -> int:
            return 0

    def hide(value: Any) -> Any:
        return value.as_subclass(Nowhere) if isinstance(value, torch.Tensor) else value

    inputs, _, results = library.library.etir_kernel_signature(name.encode()).decode().partition(">")
    for seed in range(60):
        arguments = Arguments(seed)
        values = [arguments.value(letter) for letter in inputs]
        hidden = [[hide(i) for i in v] if isinstance(v, list) else hide(v) for v in values]
        outs = [arguments.value(letter) for letter in results]
        with contextlib.suppress(KernelFailure):
            library.call(name, hidden, outs)
