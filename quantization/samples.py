"""Calibration data: calls of the program, or a file of arrays with a sample in each index of their first dim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from xdsl.dialects.func import FuncOp

from etir.dialects.signatures import input_names
from etir.quantization.errors import E1503, E1504

Calibration: TypeAlias = "Iterable[Sequence[Any]] | str | PathLike[str]"


def samples_of(calibration: Calibration, func: FuncOp | None) -> list[tuple[Any, ...]]:
    """The inputs of each call. A file's arrays are those of the inputs by name where it has all of them, else in order.

    Raises E1503 for a file without samples, E1504 for one that cannot be read, or whose arrays differ in their first
    dims.
    """
    if not isinstance(calibration, str | PathLike):
        return [tuple(sample) if isinstance(sample, Sequence) else (sample,) for sample in calibration]
    arrays = _arrays(Path(calibration))
    names = [] if func is None else list(input_names(func))
    chosen = [arrays[name] for name in names] if names and all(n in arrays for n in names) else list(arrays.values())
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


def _samples(arrays: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, ...]]:
    for index in range(arrays[0].shape[0] if arrays else 0):
        yield tuple(np.ascontiguousarray(array[index]) for array in arrays)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("not an .npz file")
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile, EOFError) as error:
        raise E1504.error(f"cannot read '{path}': {error}") from None
