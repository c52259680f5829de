"""Constants as passes see them: reading the value of an operand, and making new constants.

Small constants stand in the text (``et.constant``), larger ones are weights. :class:`ConstantStore` reads both as bytes
with a type and adds new ones beside them.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.dtypes import dtype_of, i1
from etir.dialects.et.layout import is_contiguous
from etir.dialects.et.origin import handed_on
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp, dense_bytes
from etir.dialects.et.weights import Blob, BlobAttr, SyntheticAttr, payload_of

INLINE_ELEMENTS = 16
"""Constants with at most this many elements stand in the text."""

_END = 64
"""Bytes at each end that tell most constants of a type from each other."""

_INLINE_DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")


class ConstantStore:
    """The constants of one module."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.weights: dict[str, WeightOp] = {}
        self._taken: dict[str, None] = {}
        self._anchor: Operation | None = None
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self._taken[name.data] = None
            if isinstance(op, WeightOp):
                self.weights[op.sym_name.data] = op
                self._anchor = op
        # By type and a few bytes: hashes of all bytes are made only of those that may be equal.
        self._known: dict[tuple[Attribute, bytes], list[tuple[Blob, str]]] = {}

    def is_constant(self, value: SSAValue) -> bool:
        """Whether the bytes of ``value`` are known and loaded."""
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return True
        if not isinstance(owner, GetWeightOp):
            return False
        weight = self.weights.get(owner.symbol.root_reference.data)
        if weight is None or "external" in weight.attributes:
            return False
        payload = weight.value
        return isinstance(payload, SyntheticAttr) or (isinstance(payload, BlobAttr) and payload.data.has_data)

    def data(self, value: SSAValue) -> memoryview | bytes:
        """The bytes of a constant. Raises ``TypeError`` when ``value`` is none."""
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return dense_bytes(owner.value)
        if not isinstance(owner, GetWeightOp):
            raise TypeError("the value is not a constant")
        weight = self.weights[owner.symbol.root_reference.data]
        assert isinstance(weight.type, TensorType)
        return payload_of(weight.value, weight.type).data

    def make(self, data: bytes | memoryview, type: TensorType[Attribute], like: Operation, hint: str) -> Operation:
        """An operation (not inserted) that gives a constant; weights take their name from ``hint``."""
        op = self._inline(data, type)
        if op is None:
            blob = Blob.of(data)
            similar = self._known.setdefault((type, _ends_of(blob.data)), [])
            name = next((name for known, name in similar if known == blob), None)
            if name is None:
                name = self._name(hint)
                similar.append((blob, name))
                weight = WeightOp(name, type, BlobAttr(blob), {"kind": StringAttr("constant")})
                weight.location = handed_on(like.location)
                self.add(weight)
            op = GetWeightOp(name, type)
        op.location = like.location
        return op

    def add(self, weight: WeightOp) -> None:
        """Put a weight after the others."""
        block = self.module.body.block
        if self._anchor is not None and self._anchor.parent is block:
            block.insert_op_after(weight, self._anchor)
        elif block.first_op is not None:
            block.insert_op_before(weight, block.first_op)
        else:
            block.add_op(weight)
        self._anchor = weight
        self.weights[weight.sym_name.data] = weight

    def _name(self, hint: str) -> str:
        base = hint or "folded"
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken[name] = None
        return name

    @staticmethod
    def _inline(data: bytes | memoryview, type: TensorType[Attribute]) -> ConstantOp | None:
        count = 1
        for dim in type.get_shape():
            count *= dim
        row = dtype_of(type.element_type)
        if count > INLINE_ELEMENTS or count == 0 or row.torch_name not in _INLINE_DTYPES or not is_contiguous(type):
            return None
        raw = bytes(data)
        if type.element_type == i1:
            raw = bytes(0xFF if byte else 0 for byte in raw)
        size = row.itemsize
        if count > 1 and all(raw[i : i + size] == raw[:size] for i in range(0, len(raw), size)):
            raw = raw[:size]
        return ConstantOp(DenseIntOrFPElementsAttr(cast("TensorType[Any]", type), BytesAttr(raw)))


def _ends_of(data: memoryview) -> bytes:
    return bytes(data[:_END]) + bytes(data[-_END:])
