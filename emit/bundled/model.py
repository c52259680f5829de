"""A bundled program as plain data: a ``.pte`` file and test cases for its methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.formats.shape import tensor_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """Elements, dense, with the dims in memory in ``dim_order`` from outermost to innermost."""

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: Buffer

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return tensor_bytes(self.scalar_type, self.sizes)


Value: TypeAlias = Tensor | bool | int | float
"""An input or an expected output. The stock runtime takes no other kinds, and only tensors as expected outputs."""


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs of one run, and what it should give; no expected outputs at all say nothing."""

    inputs: tuple[Value, ...]
    expected: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one method."""

    method: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class BundledProgram:
    """A whole file: the bytes of a ``.pte`` file, and suites in the order of their methods' names."""

    program: Buffer
    suites: tuple[Suite, ...] = ()
    version: int = 2
