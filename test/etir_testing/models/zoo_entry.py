"""What an entry of the zoo is, and what every family of models uses to make one.

A family is a module under ``families/`` with builders: functions without arguments that give a :class:`Built`. All
randomness comes from seeds, so that any two processes build the same program and the same numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from etir_testing.models.seeding import seed_weights

DEEP = 1e-3
"""Tolerance of deep nets: the largest difference from eager over the largest magnitude of an output."""
EXACT = 1e-4
"""Tolerance of the others."""

RELU_GAIN = 2.0**0.5
LINEAR_GAIN = 1.0

Model = TypeVar("Model", bound=nn.Module)


class Built(NamedTuple):
    """One model with what it is exported on. ``more`` are the positional arguments of further calls, in order.

    A model with state sees all calls in one sequence: ``inputs``, then ``more``.
    """

    module: nn.Module
    inputs: tuple[Any, ...]
    dynamic_shapes: Any = None
    more: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class Entry:
    """One row of the zoo. ``source`` is the package or the paper.

    ``small`` ones run on every landing. ``shape_only`` ones are built of weights without bytes, and are compiled up to
    the memory plan. ``requires`` names packages beyond torch. ``sweep`` marks neighbors of the named models.
    """

    name: str
    build: Callable[[], Built]
    source: str
    tolerance: float = DEEP
    small: bool = False
    shape_only: bool = False
    sweep: bool = False
    requires: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The packages of ``requires`` that are not installed."""
        return [package for package in self.requires if importlib.util.find_spec(package) is None]


def seeded(module: Model, gain: float = RELU_GAIN, seed: int = 0) -> Model:
    """``module`` in eval mode with weights, biases and statistics from ``seed``, none of them trivial."""
    seed_weights(module, seed, gain)
    return module


def declare_torchvision() -> None:
    """Make ``import torchvision`` work, which transformers does as well.

    The published package is built for CUDA and its extension does not load beside a CPU build of torch; its Python code
    then only misses the schemas of ``nms``.
    """
    if "torchvision" in sys.modules or _KEEP:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEEP.append(library)


_KEEP: list[torch.library.Library] = []
"""A library's definitions end with it."""


def torchvision_models() -> Any:
    """``torchvision.models``."""
    declare_torchvision()
    import torchvision.models

    return torchvision.models
