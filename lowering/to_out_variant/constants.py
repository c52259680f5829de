"""Small constants of the text become weights of the program: the executable level has one kind of constant."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from etir.dialects.et.program import ConstantOp, WeightOp, dense_bytes
from etir.dialects.et.weights import Blob, BlobAttr


class ConstantPool:
    """Weights made from ``et.constant``; equal constants of one type share a symbol."""

    def __init__(self, module: ModuleOp):
        self._taken = {
            op.properties["sym_name"].data: None  # type: ignore[attr-defined]
            for op in module.body.block.ops
            if "sym_name" in op.properties
        }
        self._known: dict[tuple[Attribute, Blob], str] = {}
        self.ops: list[Operation] = []

    def symbol(self, op: ConstantOp) -> str:
        """The symbol of the weight that holds a constant."""
        blob = Blob.of(dense_bytes(op.value))
        key = (op.result.type, blob)
        name = self._known.get(key)
        if name is None:
            index = len(self._known)
            while (name := f"constant_{index}") in self._taken:
                index += 1
            self._taken[name] = None
            weight = WeightOp(name, op.result.type, BlobAttr(blob), {"kind": StringAttr("constant")})
            weight.location = op.location
            self.ops.append(weight)
            self._known[key] = name
        return name
