"""Equations of ``einsum``: the label of each dim of each operand and of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Labels = tuple[str, ...]
"""One name for each dim; dims of an ellipsis are called ``.0`` from the right."""


@dataclass(frozen=True)
class Equation:
    """The labels of each operand and of the result."""

    inputs: tuple[Labels, ...]
    output: Labels


def parse_equation(text: str, ranks: Sequence[int]) -> Equation:
    """``"bij, bjk -> bik"``, with the number of dims of each operand. torch has checked that they fit together."""
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = tuple(_labels(term, count) for term, count in zip(left.split(","), ranks, strict=True))
    longest = max((sum(label[0] == "." for label in labels) for labels in inputs), default=0)
    ellipsis = tuple(f".{i}" for i in reversed(range(longest)))
    if arrow:
        head, dots, tail = right.partition("...")
        return Equation(inputs, (*head, *(ellipsis if dots else ()), *tail))
    every = [label for labels in inputs for label in labels if label[0] != "."]
    return Equation(inputs, (*ellipsis, *sorted(label for label in dict.fromkeys(every) if every.count(label) == 1)))


def _labels(term: str, count: int) -> Labels:
    head, dots, tail = term.partition("...")
    hidden = count - len(head) - len(tail) if dots else 0
    return (*head, *(f".{i}" for i in reversed(range(hidden))), *tail)
