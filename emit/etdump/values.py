"""The bytes of the values that a profile names, in the buffer that was written with it."""

from __future__ import annotations

from etir.diagnostics import SourceLocation
from etir.emit.errors import E0842
from etir.emit.etdump.model import NO_DATA, TensorValue
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import ITEM_BYTES


def value_bytes(tensor: TensorValue, buffer: Buffer, name: str = "<values>") -> memoryview:
    """The bytes from a tensor's first element to its last one, as a view into ``buffer``; empty without elements.

    ``name`` is the buffer's file for messages. Raises ``EtirError`` E0842 when the buffer does not have them, or when
    strides are negative.
    """
    data = memoryview(buffer).toreadonly().cast("B") if len(buffer) else memoryview(b"")
    if not tensor.nbytes:
        return data[:0]
    steps = [(size - 1) * stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True)]
    end = tensor.offset + (sum(steps) + 1) * ITEM_BYTES[tensor.scalar_type]
    what = f"the tensor of {tensor.scalar_type.name} with sizes {list(tensor.sizes)}"
    if tensor.offset == NO_DATA:
        raise E0842.error(f"{what} has no place in the values", SourceLocation(name))
    # A runtime writes every element, so that there is no tensor of more bytes than the buffer has (by strides of 0).
    if max(end, tensor.nbytes) > len(data) or any(step < 0 for step in steps):
        message = f"{what} and strides {list(tensor.strides)} from byte {tensor.offset} on"
        raise E0842.error(f"{message} does not fit into {len(data)} bytes", SourceLocation(name))
    return data[tensor.offset : end]
