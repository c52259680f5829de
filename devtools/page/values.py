"""What is in the values of a run, as numbers that a page can show: shape, range, mean, and how many are not numbers."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from etir.devtools.errors import E1422
from etir.devtools.profile.profile import LoggedValue, Profile
from etir.diagnostics import SourceLocation
from etir.dialects.dtypes import BY_NUMBER
from etir.emit.etdump.model import TensorValue


def value_rows(profile: Profile, buffer: bytes | mmap.mmap, name: str = "<values>") -> list[list[Any]]:
    """A row for each value of the last run: instruction (-1 for an output), position, dtype, shape, smallest, largest,
    mean (None where there are none), not-a-numbers.

    Raises error E1422 when the buffer is not that of the profile.
    """
    if bytes(buffer[:4]) == b"PK\x03\x04" or bytes(buffer[4:8]) == b"ET12" or bytes(buffer[8:12]) == b"ED00":
        raise E1422.error("it is a file of another kind", SourceLocation(name))
    latest: dict[tuple[int, int, int], LoggedValue] = {}
    for value in profile.values:
        if value.id is None:
            latest[value.instruction, value.position, int(value.output)] = value
    rows: list[list[Any]] = []
    for (instruction, position, _), logged in latest.items():
        for tensor in () if logged.value is None else logged.value.tensors:
            rows.append([instruction, position, *_summary(tensor, buffer, name)])
    return rows


def _summary(tensor: TensorValue, buffer: bytes | mmap.mmap, name: str) -> Iterator[Any]:
    dtype = BY_NUMBER.get(int(tensor.scalar_type))
    shape = list(tensor.sizes)
    yield "?" if dtype is None else dtype.torch_name
    yield shape
    array = None if dtype is None else _array(tensor, buffer, dtype.numpy_name, dtype.torch_name, name)
    if array is None or not array.size:
        yield from (None, None, None, 0)
        return
    numbers = np.abs(array) if np.iscomplexobj(array) else array.astype(np.float64, copy=False)
    missing = np.isnan(numbers)
    count = int(missing.sum())
    known = numbers[~missing] if count else numbers
    if not known.size:
        yield from (None, None, None, count)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        yield from (_number(known.min()), _number(known.max()), _number(known.mean()), count)


def _number(value: Any) -> float | str:
    """JSON has no infinities."""
    found = float(value)
    return float(f"{found:.6g}") if np.isfinite(found) else str(found)


def _array(
    tensor: TensorValue, buffer: bytes | mmap.mmap, numpy_name: str | None, torch_name: str, name: str
) -> np.ndarray[Any, Any] | None:
    count = 1
    for size in tensor.sizes:
        count *= size
    if tensor.offset < 0 or not count:
        return np.zeros(0)
    bits = torch_name == "bfloat16"
    if numpy_name is None and not bits:
        return None
    dtype = np.dtype(np.uint16 if bits else numpy_name)
    if tensor.offset + count * dtype.itemsize > len(buffer):
        message = f"a value ends at byte {tensor.offset + count * dtype.itemsize:,}, the file has {len(buffer):,}"
        raise E1422.error(message, SourceLocation(name))
    flat = np.frombuffer(buffer, dtype, count, tensor.offset)  # in whichever order: nothing here depends on it
    return (flat.astype(np.uint32) << 16).view(np.float32) if bits else flat
