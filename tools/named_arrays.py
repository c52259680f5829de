"""Arrays by the names of a method's inputs and outputs, for ``et-run``; it needs neither a module nor the runtime."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etir.diagnostics import SourceLocation
from etir.tools.common import read_head
from etir.tools.errors import E0902, E0910, E0921
from etir.tools.kinds import refuse_bombs, refuse_others

Names = Sequence[str | None]
_NUMBERED = re.compile(r"(arr|input|output)_(\d+)")
"""Names that say a place: what ``numpy.savez`` calls arrays without a name, and what ``et-run`` calls outputs."""


@dataclass(frozen=True)
class MethodSignature:
    """A method's name, and (name, description) of each input and output; a name is None where nobody gave one."""

    name: str
    inputs: tuple[tuple[str | None, str], ...]
    outputs: tuple[tuple[str | None, str], ...]

    def __str__(self) -> str:
        inputs = _lines("", (name or f"input_{i}" for i, (name, _) in enumerate(self.inputs)), self.inputs)
        outputs = _lines("-> ", output_labels([name for name, _ in self.outputs]), self.outputs)
        return "\n".join([self.name, *inputs, *outputs])


def _lines(mark: str, labels: Iterable[str], values: Sequence[tuple[str | None, str]]) -> list[str]:
    return [f"  {mark}{label}: {text}" for label, (_, text) in zip(labels, values, strict=True)]


def order_inputs(arrays: Mapping[str, Any], names: Names) -> list[Any]:
    """The arrays in the order of the method's inputs: by name, or as they stand when they or the inputs have none.

    Raises error E0910 for names that the method does not have, and for inputs that are not there.
    """
    known = [name for name in names if name is not None]
    if not known or len(known) < len(names) or _are_numbered(arrays, known):
        return list(arrays.values())
    missing = [name for name in known if name not in arrays]
    strange = [name for name in arrays if name not in known]
    if missing or strange:
        parts = [f"missing {', '.join(missing)}"] if missing else []
        parts += [f"unknown {', '.join(strange)}"] if strange else []
        raise E0910.error(f"the inputs do not fit: {'; '.join(parts)}; the method takes {', '.join(known)}")
    return [arrays[name] for name in known]


def _are_numbered(arrays: Mapping[str, Any], known: Sequence[str]) -> bool:
    """Whether the names of arrays only number them, from 0 in order; names that an input has say more."""
    found = [_NUMBERED.fullmatch(name) for name in arrays]
    places = [int(match[2]) for match in found if match is not None]
    return places == list(range(len(arrays))) and not any(name in known for name in arrays)


def output_labels(names: Names) -> list[str]:
    """What outputs are called: by their names, otherwise by their number."""
    return [name or f"output_{i}" for i, name in enumerate(names)]


def read_arrays(path: str) -> dict[str, Any]:
    """The arrays of an ``.npz`` file in file order.

    Raises error E0902, and E0921 for arrays that do not fit into memory.
    """
    import struct
    import tokenize
    import zipfile
    import zlib

    import numpy as np

    damaged = (zipfile.BadZipFile, zlib.error, struct.error, KeyError, RuntimeError)
    malformed = (
        tokenize.TokenError,
        ValueError,
        AttributeError,
        SyntaxError,
        RecursionError,
        OverflowError,
    )
    help = "write arrays with numpy.savez"
    refuse_others(path, read_head(path), "an .npz file", help)
    refuse_bombs(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except MemoryError as error:  # what the header of an array says
        raise E0921.error(str(error), SourceLocation(path)) from None
    except (OSError, EOFError, *damaged, *malformed) as error:
        raise E0902.error(f"cannot read the arrays '{path}': {error}", help=help) from None
    if strange := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise E0902.error(f"'{path}' is not an .npz file: '{strange[0]}' in it is no array", help=help)
    return arrays
