"""The constants of a delegate as numbers: weights, small constants, and what is computed from them.

A weight of small integers is kept beside its scales (:class:`QuantizedWeight`), since XNNPACK multiplies with the
integers; it is multiplied out only where an operator needs its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.backends.xnnpack.legalize.numbers import BF16, rounded, stored_as, to_stored, widened
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import order_of, tensor_of
from etir.dialects.et.program import ConstantOp as DenseOp
from etir.dialects.et.program import GetWeightOp, dense_bytes
from etir.dialects.et.weights import Blob

if TYPE_CHECKING:
    import numpy as np

    from etir.backends.api.interface import Outlined


@dataclass(frozen=True)
class QuantizedWeight:
    """A constant of small integers: ``value`` is an int8 tensor, ``scales`` has one number, one for each index of dim
    ``axis``, or a row of numbers for each channel, one for each ``block`` elements. ``bits`` is 4 or 8. Where all
    zero points are 0 there are none.
    """

    value: SSAValue
    scales: np.ndarray
    axis: int | None = None
    block: int | None = None
    bits: int = 8
    zero_points: np.ndarray | None = None


class Constants:
    """What is known of the constants of an outlined function. ``error`` makes the error for a value that is none."""

    def __init__(self, outlined: Outlined, error: Callable[[str], Exception]):
        self._outlined = outlined
        self._error = error
        self.quantized: dict[SSAValue, QuantizedWeight] = {}
        """Values that are constants with scales, before they are multiplied out."""
        self.arrays: dict[SSAValue, np.ndarray] = {}
        """Constants as arrays of their logical dims, those that are computed from others included."""

    def __contains__(self, value: SSAValue) -> bool:
        """Whether a value is a weight or a constant."""
        return isinstance(value.owner, GetWeightOp | DenseOp) or value in self.quantized or value in self.arrays

    def bytes_of(self, value: SSAValue) -> Blob:
        """The bytes of a weight or a constant, in its type's dim order."""
        owner = value.owner
        if isinstance(owner, GetWeightOp):
            return self._outlined.weight(owner.symbol.root_reference.data)
        if isinstance(owner, DenseOp):
            return Blob.of(dense_bytes(owner.value))
        if value in self.quantized or value in self.arrays:
            type = tensor_of(value)
            return blob_of(to_stored(self.array(value).transpose(order_of(type)), dtype_of(type.element_type)))
        raise self._error("needs a constant")

    def array(self, value: SSAValue) -> np.ndarray:
        """A weight or a constant as an array of its logical dims."""
        import numpy as np

        known = self.arrays.get(value)
        if known is None and value in self.quantized:
            known = self.arrays[value] = self._multiplied_out(self.quantized[value], tensor_of(value))
        if known is None:
            type = tensor_of(value)
            order = order_of(type)
            shape = type.get_shape()
            row = dtype_of(type.element_type)
            flat = np.frombuffer(self.bytes_of(value).data, dtype=stored_as(row))
            stored = (widened(flat) if row.torch_name == BF16 else flat).reshape([shape[d] for d in order])
            known = self.arrays[value] = stored.transpose(np.argsort(order)) if shape else stored.reshape(())
        return known

    def _multiplied_out(self, weight: QuantizedWeight, type: TensorType[Attribute]) -> np.ndarray:
        import numpy as np

        stored = self.array(weight.value).astype(np.float32)
        scales, points = weight.scales.astype(np.float32), weight.zero_points
        points = np.zeros_like(scales) if points is None else points.astype(np.float32)
        if weight.block is not None:
            scales, points = (np.repeat(array, weight.block, axis=-1) for array in (scales, points))
        elif weight.axis is not None:
            shape = [-1 if d == weight.axis else 1 for d in range(stored.ndim)]
            scales, points = scales.reshape(shape), points.reshape(shape)
        return rounded((stored - points) * scales, dtype_of(type.element_type))


def blob_of(array: np.ndarray) -> Blob:
    """The bytes of an array, row by row."""
    import numpy as np

    return Blob.of(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def name_of(blob: Blob) -> str:
    """The key under which a constant's bytes are among the named data: their digest."""
    return blob.digest.removeprefix("sha256:")
