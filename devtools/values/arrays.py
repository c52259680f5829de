"""Values as arrays: of a profile's buffer, of torch, and back to what the interpreter computes with."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

from etir.emit.etdump.model import TensorValue, ValueKind
from etir.emit.etdump.model import Value as Logged
from etir.emit.etdump.values import value_bytes
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import NUMPY_NAMES, ScalarType

Array: TypeAlias = "np.ndarray[Any, Any]"

_DTYPES = {**NUMPY_NAMES, ScalarType.BFLOAT16: "uint16"}


def array_of(tensor: TensorValue, buffer: Buffer, name: str = "<values>") -> Array | None:
    """A tensor of a profile as an array of its sizes, bfloat16 as float32; None for dtypes without arrays.

    Raises error E0842 when the buffer does not have its bytes.
    """
    dtype = _DTYPES.get(tensor.scalar_type)
    data = value_bytes(tensor, buffer, name)
    if dtype is None:
        return None
    flat = np.frombuffer(data, dtype)
    strides = [step * flat.itemsize for step in tensor.strides]
    there = np.lib.stride_tricks.as_strided(flat, tensor.sizes, strides) if flat.size else np.zeros(tensor.sizes, dtype)
    if tensor.scalar_type is ScalarType.BFLOAT16:
        return np.asarray((there.astype(np.uint32) << 16).view(np.float32))
    return np.array(there)


def logged_values(value: Logged | None, buffer: Buffer, name: str = "<values>") -> list[Any]:
    """What a profile says of one value: arrays of its tensors, or one number; None for what it cannot say."""
    if value is None or value.kind in (ValueKind.NULL, ValueKind.STRING):
        return [None]
    if value.kind in (ValueKind.TENSOR, ValueKind.TENSOR_LIST):
        return [array_of(tensor, buffer, name) for tensor in value.tensors]
    return [value.content]


def like(held: Any, array: Any) -> Any:
    """``array`` as the interpreter holds ``held``: a tensor of its library, dtype, shape and order in memory, or a
    number; None where the sizes differ.
    """
    if not hasattr(held, "shape"):
        return type(held)(array) if np.size(array) == 1 and isinstance(held, (bool, int, float)) else None
    found = np.asarray(array)
    if found.size != int(np.prod(tuple(held.shape), dtype=np.int64)):
        return None
    if isinstance(held, np.ndarray):
        return found.astype(held.dtype).reshape(held.shape)
    import torch

    made = torch.empty_like(held)
    return made.copy_(torch.from_numpy(np.ascontiguousarray(found)).reshape(held.shape))


def dtype_name(held: Any) -> str:
    """``float32``, of a tensor of either library."""
    return str(held.dtype).rpartition(".")[2]


def largest_of(held: Any) -> float:
    """The largest finite absolute value in a tensor of either library; 0 where there is none.

    An expanded tensor is looked at once: it may have more elements than there is memory for.
    """
    if isinstance(held, np.ndarray):
        held = held[_once(held.strides)]
        values = np.abs(held[np.isfinite(held)]) if held.dtype.kind in "fciu" else np.zeros(0)
        return float(values.max()) if values.size else 0.0
    import torch

    tensor = held.detach()[_once(held.stride())]
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return 0.0
    values = tensor.abs().to(torch.float64)
    return float(torch.where(torch.isfinite(values), values, 0.0).max())


def _once(strides: Sequence[int]) -> tuple[slice | EllipsisType, ...]:
    """The part of a tensor that has each element of an expanded dim once."""
    return (..., *(slice(0, 1) if stride == 0 else slice(None) for stride in strides))


_EPSILON = {"float32": 1.2e-7, "float64": 2.3e-16, "float16": 9.8e-4, "bfloat16": 7.9e-3, "complex64": 1.2e-7}
_COARSE = {"float16": 100.0, "bfloat16": 500.0, "complex32": 100.0}
_UNITS = 64
"""Units in the last place of an operand that a result may be off by, beside the tolerance."""


def roundoff(dtype: str, largest: float) -> float:
    """By how much two ways to compute a value from numbers up to ``largest`` may differ by rounding alone."""
    return _UNITS * _EPSILON.get(dtype, 0.0) * largest


def allowed(dtype: str, tolerance: float) -> float:
    """The tolerance for values of a dtype: more for the short floats."""
    return min(tolerance * _COARSE.get(dtype, 1.0), 0.5)
