"""What a method takes and gives, what memory it has, and where its time goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.runtime.errors import E1203, E1205, E1213, usage_failure

if TYPE_CHECKING:
    from etir.runtime import _native


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a method's signature.

    Attributes:
        shape: sizes; the largest ones where the tensor is dynamic.
        dtype: the name that torch and NumPy use: ``"float32"``.
        dim_order: dims from the outermost to the innermost in memory: ``(0, 2, 3, 1)`` is channels-last.
        dynamic: whether a run may have smaller sizes.
        name: what the program calls it, where the file says so: the argument of an input and the keys on the way to it
            (``"batch_ids"`` of ``batch={"ids": ...}``), the keys of an output.
    """

    shape: tuple[int, ...]
    dtype: str
    dim_order: tuple[int, ...]
    dynamic: bool = False
    name: str | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"<={size}" if self.dynamic else str(size) for size in self.shape)
        order = "" if self.dim_order == tuple(range(len(self.shape))) else f" in dim order {list(self.dim_order)}"
        return f"{self.dtype}[{sizes}]{order}"


@dataclass(frozen=True)
class ScalarInfo:
    """A value in a method's signature that is no tensor: ``"int"``, ``"float"``, ``"bool"``, ``"str"``, ``"none"``.

    ``name`` is as for tensors. ``fixed`` is the one value that an input may have, because the program was compiled for
    it; None for an input that may have others, and for outputs.
    """

    kind: str
    name: str | None = None
    fixed: bool | int | float | str | None = None

    def __str__(self) -> str:
        return self.kind if self.fixed is None else f"{self.kind} = {self.fixed!r}"


@dataclass(frozen=True)
class MethodMemory:
    """Memory of a method in bytes.

    Attributes:
        method: tables of values, tensors and operators.
        planned: one buffer for each memory id of the file, from 1.
        temp: the most scratch memory that kernels have used in a run so far.
    """

    method: int
    planned: tuple[int, ...]
    temp: int

    @property
    def total(self) -> int:
        """All together."""
        return self.method + sum(self.planned) + self.temp


@dataclass(frozen=True)
class OperatorTime:
    """The time that one operator took in a run, over all its instructions."""

    operator: str
    calls: int
    nanoseconds: int


class Recorded:
    """What the runtime recorded of runs, in its own form and as ExecuTorch's developer tools take it.

    Attributes:
        dropped: records that there was no room for.
        dropped_values: values that there was no room for.
    """

    def __init__(self, handle: _native.Recording):
        self._handle = handle
        self.dropped, self.dropped_values = handle.dropped

    @property
    def records(self) -> bytes:
        """The records of ``runtime/devtools/recorder.h``, 16 bytes each, as a device would send them."""
        return self._handle.records

    @property
    def load_ticks(self) -> tuple[int, int]:
        """When loading the method began and ended, in nanoseconds of the clock of records."""
        return self._handle.load_ticks

    @property
    def values(self) -> list[tuple[int, bool, str, Any, Any]]:
        """(index of the record, whether it is an output, kind, number, tensors) of each value.

        A tensor is (number of its dtype, sizes, strides, offset in :attr:`value_bytes`, -1 for none).
        """
        return self._handle.values

    @property
    def value_bytes(self) -> bytes:
        """The bytes of the tensors."""
        return self._handle.value_bytes

    @property
    def etdump(self) -> bytes:
        """The profile as an ETDump. Raises RuntimeFailure E1205 when it is more than the format can hold."""
        data = self._handle.etdump()
        if not data:
            raise usage_failure(E1205, "the profile is more than 2 GB", help="record fewer runs")
        return data


@dataclass(frozen=True)
class Profile:
    """Runs, timed.

    Attributes:
        outputs: of the last run.
        instructions: (index, operator, nanoseconds) in the order of execution, of all runs.
        runs: how many there were.
        recorded: all that was recorded, the insides of delegates and values too; None for a sum of other profiles.
    """

    outputs: list[Any]
    instructions: tuple[tuple[int, str, int], ...]
    runs: int = 1
    recorded: Recorded | None = None

    def save(self, path: str | os.PathLike[str], values: str | os.PathLike[str] | None = None) -> None:
        """Write the profile as an ETDump (``.etdp``), and the bytes of values to a file of their own.

        Raises RuntimeFailure E1213 when nothing was recorded, E1203 when a file cannot be written.
        """
        if self.recorded is None:
            raise usage_failure(E1213, "there is no recording to save", help="save what Method.profile returned")
        try:
            Path(path).write_bytes(self.recorded.etdump)
            if values is not None:
                Path(values).write_bytes(self.recorded.value_bytes)
        except OSError as error:
            message = f"cannot write '{error.filename}': {error.strerror or error}"
            raise usage_failure(E1203, message, help="pass a path in a folder that exists") from None

    @property
    def nanoseconds(self) -> int:
        """All instructions together."""
        return sum(time for _, _, time in self.instructions)

    @property
    def operators(self) -> tuple[OperatorTime, ...]:
        """Time by operator, the slowest first."""
        return sum_by_operator(self.instructions)

    def __str__(self) -> str:
        total = max(self.nanoseconds, 1)
        lines = [f"{'operator':<48} {'calls':>6} {'us':>12} {'share':>7}"]
        for row in self.operators:
            share = f"{100 * row.nanoseconds / total:.1f} %"
            lines.append(f"{row.operator:<48} {row.calls:>6} {row.nanoseconds / 1e3:>12,.1f} {share:>7}")
        calls = len(self.instructions)
        lines.append(f"{'all':<48} {calls:>6} {self.nanoseconds / 1e3:>12,.1f} {'100.0 %':>7}")
        return "\n".join(lines)


def sum_by_operator(instructions: Iterable[tuple[int, str, int]]) -> tuple[OperatorTime, ...]:
    """Add up the times of instructions (index, operator, nanoseconds), the slowest operator first."""
    times: dict[str, tuple[int, int]] = {}
    for _, name, spent in instructions:
        calls, total = times.get(name, (0, 0))
        times[name] = (calls + 1, total + spent)
    rows = [OperatorTime(name, calls, total) for name, (calls, total) in times.items()]
    return tuple(sorted(rows, key=lambda row: (-row.nanoseconds, row.operator)))


def info_of(row: tuple[Any, ...], name: str | None) -> TensorInfo | ScalarInfo:
    """From a row of the native module's signature; without a ``name`` a tensor has its own, if the file has it."""
    if row[0] != "tensor":
        return ScalarInfo(row[0], name, *row[1:])
    _, dtype, shape, dim_order, dynamic, own_name = row
    return TensorInfo(shape, dtype, dim_order, dynamic, name or own_name or None)


@dataclass(frozen=True)
class Signature:
    """What a method takes and gives, flat, in the order of the file."""

    name: str
    inputs: tuple[TensorInfo | ScalarInfo, ...]
    outputs: tuple[TensorInfo | ScalarInfo, ...]

    def __str__(self) -> str:
        return f"{self.name}({signature_text(self.inputs)}) -> [{signature_text(self.outputs)}]"


def signature_text(infos: Sequence[TensorInfo | ScalarInfo], most: int | None = None) -> str:
    """What a method takes or gives, in one line: ``x: float32[2, 3], int``; only the first ones with ``most``."""
    shown = infos if most is None or len(infos) <= most else infos[: most - 1]
    texts = [str(info) if info.name is None else f"{info.name}: {info}" for info in shown]
    return ", ".join(texts if len(shown) == len(infos) else [*texts, f"... {len(infos) - len(shown)} more"])
