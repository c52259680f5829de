"""What a sample call is made of; see the modules that list samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from etir.emit.formats.scalar_type import ScalarType

Fill = (
    Literal["data", "signed", "unit", "sparse", "small", "mask", "index2", "index3", "zero"]
    | Literal["special", "negative", "extreme", "offset", "precise"]
)


@dataclass(frozen=True)
class T:
    """A tensor argument. ``fill`` names its contents and what dtype it has unless the probe says otherwise.

    ``data`` counts 1 to 4, ``signed`` -2 to 2 in halves, ``small`` 1 to 3, ``unit`` alternates 0 and 1,
    ``sparse`` is 1 in one of 8 places: Float. ``mask`` alternates 1 and 0: Bool.
    What is hostile: ``special`` has NaN, infinities and signed zeros among small numbers, ``negative`` -7 to -1,
    ``extreme`` the ends of the type, ``offset`` small differences far from zero, ``precise`` what only the type itself
    holds: numbers that a computation in a narrower one rounds. ``indexN`` counts 0 to N-1: Long.
    ``zero`` is zeros: Float. ``dtype`` and ``dim_order`` replace the usual ones.
    ``exclude`` lists types with which the argument means something that the other shapes do not fit.
    """

    shape: tuple[int, ...]
    fill: Fill = "data"
    dtype: ScalarType | None = None
    dim_order: tuple[int, ...] | None = None
    exclude: tuple[ScalarType, ...] = ()

    @property
    def base(self) -> ScalarType:
        """The dtype when nothing else is asked for."""
        if self.dtype is not None:
            return self.dtype
        if self.fill == "mask":
            return ScalarType.BOOL
        if self.fill.startswith("index"):
            return ScalarType.LONG
        return ScalarType.FLOAT


Plain = bool | int | float | str | None | tuple[int, ...] | tuple[float, ...]
Argument = T | tuple[T | None, ...] | Plain | ScalarType


@dataclass(frozen=True)
class Sample:
    """``args`` in schema order without results; ``outs`` gives the results' shapes where PyTorch does not tell them.

    ``dynamic`` marks results whose shape depends on data; of a ``shape_only`` sample the dtypes stay as they are.
    """

    args: tuple[Argument, ...]
    outs: tuple[T | tuple[T, ...], ...] | None = None
    dynamic: bool = False
    shape_only: bool = False


def sample(*args: Argument, outs: tuple[T | tuple[T, ...], ...] | None = None, dynamic: bool = False) -> Sample:
    """A sample whose dtypes are varied."""
    return Sample(args, outs, dynamic)


def shape_sample(*args: Argument) -> Sample:
    """A sample for the sake of its shapes: only the usual dtypes are tried."""
    return Sample(args, shape_only=True)


def index(shape: tuple[int, ...], limit: Literal[2, 3]) -> T:
    """Positions below ``limit``; a Byte or Bool tensor in its place would be a mask."""
    return T(shape, "index2" if limit == 2 else "index3", exclude=(ScalarType.BYTE, ScalarType.BOOL))


def index_mask(size: int) -> T:
    """A mask in the place of positions."""
    return T((size,), "mask", exclude=(ScalarType.INT, ScalarType.LONG))
