"""What operations of ``tile`` touch, as ``verify-tile`` has found it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from etir.backends.native.footprint import Footprint
from etir.backends.native.tile import TemplateOp, extent_of


@dataclass(eq=False)
class Base:
    """Memory of its own: an input, an output, a weight or a buffer (``kind``)."""

    value: SSAValue
    name: str
    kind: str

    @property
    def floats(self) -> int:
        """How many floats it has, or flags."""
        return extent_of(self.value.type)


@dataclass(frozen=True)
class Touched:
    """The floats of ``base`` that a value is; it starts at ``offset``."""

    base: Base
    offset: int
    floats: Footprint


@dataclass
class Accesses:
    """The memory of a function, the operations that touch it in order, and what their operands are."""

    bases: list[Base] = field(default_factory=list[Base])
    steps: list[TemplateOp] = field(default_factory=list[TemplateOp])
    touched: dict[SSAValue, Touched] = field(default_factory=dict[SSAValue, Touched])
