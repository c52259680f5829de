"""Calibration data: calls of the program, or a file of arrays with a sample in each index of their first dim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast
from zipfile import BadZipFile

import numpy as np
from xdsl.dialects.func import FuncOp

from etir.dialects.signatures import input_names
from etir.quantization.errors import E1503, E1504

Calibration: TypeAlias = "Iterable[Sequence[Any] | Mapping[str, Any]] | str | PathLike[str] | None"
_NUMBERS = "biufc"
"""Kinds of NumPy's dtypes that are numbers."""


def samples_of(calibration: Calibration, func: FuncOp | None) -> list[tuple[Any, ...]]:
    """The inputs of each call: of a mapping by name, else in order. A file's arrays are those of the inputs by name
    where it has all of them, else in order.

    Raises E1503 for a file without samples, E1504 for one that cannot be read or whose arrays differ in their first
    dims, and for what is no tensor, array or number.
    """
    if calibration is None:
        return []
    if not isinstance(calibration, str | PathLike):
        if not isinstance(calibration, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise E1504.error(f"calibration is a {type(calibration).__name__}, not the inputs of some calls or a file")
        return [_given(sample, index, func) for index, sample in enumerate(calibration)]
    arrays = _arrays(Path(calibration))
    names = [] if func is None else list(input_names(func))
    chosen = [arrays[name] for name in names] if names and all(n in arrays for n in names) else list(arrays.values())
    text = next((name for name, array in arrays.items() if array.dtype.kind not in _NUMBERS), None)
    if text is not None:
        raise E1504.error(f"{calibration}: '{text}' has elements of {arrays[text].dtype}, not numbers")
    if any(not array.ndim for array in chosen):
        raise E1504.error(f"{calibration}: an array without dims has no samples")
    counts = {name: array.shape[0] for name, array in arrays.items() if any(array is c for c in chosen)}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise E1504.error(f"{calibration}: arrays of different numbers of samples: {told}")
    found = list(_samples(chosen))
    if not found:
        raise E1503.error(f"{calibration} has no sample")
    return found


def _given(sample: object, index: int, func: FuncOp | None) -> tuple[Any, ...]:
    """The inputs of one call, in order."""
    if isinstance(sample, Mapping):
        named = cast("Mapping[str, Any]", sample)
        names = list(named) if func is None else list(input_names(func))
        if sorted(names) != sorted(named):
            raise E1504.error(f"sample {index} has {_listed(named)}, the inputs are {_listed(names)}")
        values = tuple(named[name] for name in names)
    else:
        values = tuple(cast("Sequence[Any]", sample)) if isinstance(sample, list | tuple) else (sample,)
    for position, value in enumerate(values):
        if (wrong := _not_numbers(value)) is not None:
            raise E1504.error(f"sample {index}: input {position} is {wrong}")
    return values


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def _not_numbers(value: object) -> str | None:
    """What a value is that has no numbers to calibrate with, None for one that has."""
    if isinstance(value, bool | int | float):
        return None
    device, layout = getattr(value, "device", None), getattr(value, "layout", None)
    if getattr(device, "type", "cpu") == "meta":
        return "a tensor of device 'meta', which has no numbers"
    if layout is not None and str(layout) != "torch.strided":
        return f"a tensor of layout {layout}, not a dense one"
    if device is not None and layout is not None:
        return None
    try:
        kind = np.asarray(value).dtype.kind
    except (TypeError, ValueError):
        kind = "O"
    return None if kind in _NUMBERS else f"a {type(value).__name__}, not a tensor, an array or a number"


def _samples(arrays: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, ...]]:
    for index in range(arrays[0].shape[0] if arrays else 0):
        yield tuple(np.ascontiguousarray(array[index]) for array in arrays)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("one array alone; np.savez makes a file of arrays")
        with file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile, EOFError) as error:
        raise E1504.error(f"cannot read '{path}': {error}") from None
