"""A ``.ptd`` file (FlatTensor) as plain data: tensors by name, for programs that keep their weights outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from etir.emit.formats.buffers import SEGMENT_ALIGNMENT, Buffer
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.formats.shape import tensor_bytes


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Dtype, sizes and dim order (outermost to innermost) of stored data."""

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return tensor_bytes(self.scalar_type, self.sizes)


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """The data under one name. Without a ``tensor_layout`` it is a blob that only a delegate understands.

    ``alignment`` in bytes applies beside the segment alignment.
    """

    data: Buffer
    tensor_layout: TensorLayout | None = None
    alignment: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """A whole file; ``named_data`` keeps its order. Alignments are in bytes and do not take part in comparison."""

    named_data: Mapping[str, NamedTensor]
    version: int = 0
    segment_alignment: int = field(default=SEGMENT_ALIGNMENT, compare=False)
