"""The datatypes of XNNPACK values: one table that ties name, number in the blob, bits and element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Quantization: TypeAlias = Literal["none", "tensor", "channel", "block", "token"]
"""What scales a datatype has: none, one per tensor, per channel, per block of a channel, or per token at run time."""


@dataclass(frozen=True)
class Datatype:
    """One datatype. ``torch_name`` is the dtype of such a tensor outside of the delegate, None where it has none."""

    name: str
    number: int
    bits: int
    quantization: Quantization = "none"
    torch_name: str | None = None

    def nbytes(self, count: int, last: int) -> int:
        """Bytes of ``count`` elements whose last dim is ``last``: rows of 4-bit elements end on whole bytes."""
        if self.bits >= 8 or not last:
            return count * self.bits // 8
        return count // last * (-(-last * self.bits // 8))


DATATYPES: tuple[Datatype, ...] = (
    Datatype("fp32", 1, 32, torch_name="float32"),
    Datatype("fp16", 2, 16, torch_name="float16"),
    Datatype("qint8", 3, 8, "tensor", "int8"),
    Datatype("quint8", 4, 8, "tensor", "uint8"),
    Datatype("qint32", 5, 32, "tensor", "int32"),
    Datatype("qcint8", 6, 8, "channel"),
    Datatype("qcint32", 7, 32, "channel"),
    Datatype("qcint4", 8, 4, "channel"),
    Datatype("qdint8", 9, 8, "token"),
    Datatype("qbint4", 10, 4, "block"),
    Datatype("qpint8", 11, 8, "token"),
    Datatype("int32", 12, 32, torch_name="int32"),
    Datatype("pfp32", 13, 32),
    Datatype("bf16", 14, 16, torch_name="bfloat16"),
)
"""All datatypes of version ``XN01``, by their numbers."""

BY_NAME = {d.name: d for d in DATATYPES}
BY_NUMBER = {d.number: d for d in DATATYPES}
BY_FLOAT_NAME = {str(BY_NAME[name].torch_name): BY_NAME[name] for name in ("fp32", "fp16", "bf16")}
"""The datatype of a tensor that is not quantized, by the name of its torch dtype."""
