"""Inputs that are numbers: ``torch.export`` writes those that are not dynamic into the program."""

from __future__ import annotations

from typing import Any

VARYING_NUMBERS = (
    "give the value of the export; for a number that may vary export with torch.export.Dim.DYNAMIC in its place in "
    "dynamic_shapes, and compile for target 'etir'"
)
"""The next step for who gives another number than the one in the program."""


def number_of(value: Any) -> Any:
    """A number where an array or a tensor of one element is given for an input that is no tensor."""
    return value.item() if hasattr(value, "item") and tuple(value.shape) == () else value


def is_another(given: Any, own: Any) -> bool:
    """Whether an input is not the number or string ``own`` of the program; floats are compared as on the runtimes."""
    if isinstance(given, float) and isinstance(own, float):
        if given != given or own != own:
            return (given == given) != (own == own)
        if abs(given) == float("inf") or abs(own) == float("inf"):
            return given != own
        return abs(given - own) > 1e-4 + 1e-5 * abs(own)
    return given != own
