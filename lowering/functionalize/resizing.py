"""Operators that change the sizes of a tensor in place (``t_``, ``unsqueeze_``, ``as_strided_``, ``resize_``), or its
storage (``set_``).

The tensor is a view from then on, of what it was or of the other tensor; views that the program took before stay what
they are. The sizes of what the caller has (inputs, buffers, weights) cannot change, which no runtime could hand back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from etir.diagnostics import EtirError
from etir.dialects.aten.base import op_class
from etir.dialects.et.layout import dims_of, is_static, tensor_type
from etir.dialects.literals import ArgValue
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0413
from etir.lowering.functionalize.aliases import Alias, AliasSets, Origin
from etir.lowering.functionalize.emitter import Tensor, tensor_of
from etir.lowering.functionalize.storage_reads import StorageReads
from etir.lowering.functionalize.views import is_same_tensor, operand_index

RESIZES = frozenset({"aten.resize_.default", "aten.resize_as_.default"})
"""Operators that give a tensor other sizes, over the memory that it has."""

SETS = frozenset({"aten.set_.source_Tensor", "aten.set_.source_Tensor_storage_offset"})
"""Operators that give a tensor the storage of another one."""


class Resizing:
    """Changes the sizes of the tensors of one method."""

    def __init__(self, aliases: AliasSets, storage_reads: StorageReads):
        self.aliases = aliases
        self.emit = aliases.emit
        self._storage_reads = storage_reads

    def view(self, op: SchemaOp, functional: OpSchema, arguments: Callable[[Alias], dict[str, ArgValue]]) -> Alias:
        """The tensor after ``op``, which is ``functional`` of what it was, with those arguments. Raises error E0413."""
        alias = self._alias(op, f"make another tensor: {op.SCHEMA.name.rstrip('_')} instead of {op.SCHEMA.name}")
        if functional.name == "as_strided":
            return self._changed(alias, self._storage_reads.resized(op, alias))
        self.aliases.refresh(op)
        view_op: Any = self.emit.insert(
            op_class(functional).make(arguments(alias), [r.type for r in op.results], location=op.location)
        )
        source = functional.arguments[0].name
        view = self.aliases.view(
            view_op, alias, operand_index(view_op, source), view_op.results,
            same=is_same_tensor(view_op, alias.type), certain=True,
        )  # fmt: skip
        return self._changed(alias, view.aliases[0])

    def resize(self, op: SchemaOp) -> Alias:
        """The tensor after ``resize_``: what lies in its storage from its first element on, row-major.

        With the sizes that it has, it stays, with its strides too (torch's ``resize_impl_cpu_``). Raises error E0413,
        also where it would get elements that nobody has given a value.
        """
        if op.arg("memory_format") is not None:
            raise _error(op, "gives a tensor another memory format", "resize without one, then call contiguous()")
        kept = self.aliases.alias(op.arg("self"))
        if dims_of(tensor_of(op.results[0])) == dims_of(kept.type):
            return kept
        alias = self._alias(op, "make another tensor: reshape instead of resize_, or resize a clone")
        new = self._sized(op, alias, tensor_of(op.results[0]))
        if new is None:
            raise _error(
                op,
                "gives a tensor more elements than its storage has, or it is not known how many",
                "make a new tensor instead: new_empty, and copy what it is to hold",
            )
        return self._changed(alias, new)

    def out(self, op: SchemaOp, alias: Alias, result: Tensor) -> Alias:
        """The ``out`` tensor of ``op`` with the sizes of the result, before that is written. Raises error E0413."""
        sizes = tensor_type(alias.type.element_type, dims_of(result))
        help = "give an out of the result's size"
        self._check(op, alias, help)
        new = self._sized(op, alias, sizes)
        if new is None:
            raise _error(op, f"resizes its out tensor of {alias.type} beyond its storage", help)
        return self._changed(alias, new)

    def set(self, op: SchemaOp) -> Alias:
        """The tensor after ``set_``: a view of the storage of the source. Raises error E0413."""
        alias = self._alias(op, "make another tensor: a view of the source instead of set_")
        return self._changed(alias, self._storage_reads.seen(op, self.aliases.alias(op.arg("source"))))

    def _sized(self, op: SchemaOp, alias: Alias, type: Tensor) -> Alias | None:
        """A view of the storage; a storage without elements gets some, which torch does not initialize: zeros here."""
        if 0 in dims_of(alias.type) and alias.storage.root is alias and is_static(type):
            plain = tensor_type(type.element_type, dims_of(type))
            return self.aliases.alias(self.emit.full(0, plain, lambda: alias.value))
        return self._storage_reads.row_major(op, alias, type)

    def _alias(self, op: SchemaOp, help: str) -> Alias:
        alias = self.aliases.alias(op.arg(op.SCHEMA.arguments[0].name))
        self._check(op, alias, help)
        return alias

    def _check(self, op: SchemaOp, alias: Alias, help: str) -> None:
        if alias.depth != self.aliases.depth:
            raise _error(op, "changes the sizes of a tensor from outside of the region")
        if alias.storage.root is alias and alias.storage.origin is not Origin.FRESH:
            raise _error(op, f"changes the sizes of {alias.storage.origin.value}", help)

    def _changed(self, alias: Alias, new: Alias) -> Alias:
        self.aliases.rebind(alias, new)
        return new


def _error(op: SchemaOp, why: str, help: str | None = None) -> EtirError:
    return E0413.error(f"'{op.name}' {why}", source_location(op.location), help=help)
