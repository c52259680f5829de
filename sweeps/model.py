"""What a plan's functions take and return: :class:`Model` from factories, :class:`Cell` for functions of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Figure: TypeAlias = "float | int | str | bool | None"
"""What a row says of one thing that was measured."""


@dataclass
class Model:
    """What a factory gives: a module with what it is exported on, or a program that is exported already.

    ``inputs`` are the positional arguments of the call that it is exported on and compared by; ``more`` those of
    further calls, which a module with state sees in this order. ``calibration`` has the flat inputs of some calls for
    recipes that have to see data. ``metric`` takes the outputs of all calls, a list of NumPy arrays for each, and gives
    a number that is larger for better ones; it runs where the program does and has to be importable. ``tolerance`` is
    that of the comparison with eager, None for the plan's.
    """

    module: Any
    inputs: tuple[Any, ...] = ()
    dynamic_shapes: Any = None
    more: Sequence[tuple[Any, ...]] = ()
    calibration: Sequence[Sequence[Any]] = ()
    metric: Callable[[list[list[Any]]], float] | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of the grid by the names of its coordinates, and what they stand for.

    ``arguments`` are those of the program's entry in the plan; ``recipe`` and ``options`` the keywords of
    ``etir.quantize`` and ``etir.compile``, the former None for a program that is not quantized. ``manifest`` is where
    the target's manifest is, when the plan names a file: two machines have the same cells, wherever they keep the plan.
    """

    program: str
    target: str
    delegates: str
    recipe: str
    options: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    delegate_texts: tuple[str, ...] = ()
    recipe_keywords: Mapping[str, Any] | None = None
    option_keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    manifest: str = ""

    @property
    def compiled_for(self) -> str:
        """What ``etir.compile`` takes as the target: the path of its manifest, or its name."""
        return self.manifest or self.target

    @property
    def name(self) -> str:
        """The coordinates in one line: ``digits/etir/none/float32/default``."""
        return "/".join((self.program, self.target, self.delegates, self.recipe, self.options))
