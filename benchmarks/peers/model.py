"""A model as peers get it, and what they make of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from etir_testing.models.zoo_entry import Built
from stock import independent_copy


@dataclass(frozen=True)
class Prepared:
    """A loaded model: ``outputs()`` are those of one call, flat, ``call`` is what is timed.

    ``notes`` says what the peer chose; it is for the reader. ``keep`` is memory that the engine uses without holding
    it: whoever calls has to keep this object.
    """

    call: Callable[[], Any]
    outputs: Callable[[], Sequence[torch.Tensor]]
    notes: dict[str, str] = field(default_factory=dict)
    keep: object = None


class Model:
    """One model with its inputs. What peers get of it is theirs: a program to change, a module with fresh state."""

    def __init__(self, build: Callable[[], Built]) -> None:
        self._build = build
        built = build()
        self.inputs: tuple[torch.Tensor, ...] = tuple(pytree.tree_leaves(built.inputs))
        self.arguments = built.inputs
        """The inputs as the module takes them."""

    def module(self) -> torch.nn.Module:
        """The module, built anew."""
        return self._build().module.eval()

    @cached_property
    def _exported(self) -> torch.export.ExportedProgram:
        with torch.no_grad():
            return torch.export.export(self.module(), self.arguments)

    def export(self) -> torch.export.ExportedProgram:
        """The program at the sizes of the inputs; nobody else has this one."""
        return independent_copy(self._exported)

    @cached_property
    def expected(self) -> list[torch.Tensor]:
        """Eager's outputs of the first call, flat."""
        with torch.inference_mode():
            return [t.clone() for t in pytree.tree_leaves(self.module()(*self.arguments))]


def fastest(candidates: dict[str, Callable[[], Prepared]], tries: int = 5) -> Prepared:
    """Of several ways to prepare a model with one engine, the one whose calls take least; one that fails is no
    candidate. Raises what the last one raised when all fail.
    """
    best: tuple[float, Prepared] | None = None
    failure: Exception | None = None
    for name, candidate in candidates.items():
        try:
            prepared = candidate()
            prepared.call()
            taken = min(_cpu(prepared.call) for _ in range(tries))
        except Exception as error:  # an engine may raise anything
            failure = error
            continue
        if best is None or taken < best[0]:
            best = taken, replace(prepared, notes={**prepared.notes, "from": name})
    if best is None:
        assert failure is not None
        raise failure
    return best[1]


def _cpu(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
