"""One view on the way from a changed tensor back to the memory that it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0413
from etir.lowering.functionalize.aliases import Alias, View
from etir.lowering.functionalize.emitter import Emitter, SymInt, Tensor, tensor_of, with_element
from etir.lowering.functionalize.strides import Layouts


@dataclass
class Step:
    """One view on the way back: ``new`` is the changed view, ``base()`` what its parent held before."""

    emit: Emitter
    alias: Alias
    view: View
    current: Callable[[Alias], SSAValue]
    """What a tensor held before."""
    new: SSAValue
    layouts: Layouts
    written: tuple[Alias, SSAValue]
    """The view that the program changes, of which ``alias`` is one that it looks through, and what it holds now."""
    element: Attribute | None = None
    """The element type of the values, where it is not that of the tensors."""

    @property
    def op(self) -> SchemaOp:
        """The view operator."""
        return self.view.op

    @property
    def type(self) -> Tensor:
        """The type of the parent."""
        type = self.view.parent.type
        return type if self.element is None else with_element(type, self.element)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the parent."""
        return dims_of(self.type)

    def base(self) -> SSAValue:
        """What the parent held before."""
        return self.current(self.view.parent)

    @property
    def fills(self) -> bool:
        """Whether the program writes one number to all that it changes: torch lets it write elements twice."""
        return isinstance(self.emit.point, (aten.fill_.Scalar, aten.zero_.default))

    def make(self, operator: type[AtenOp], /, **arguments: object) -> SSAValue:
        """An operator that gives the parent."""
        return self.emit(operator, self.type, arguments)  # type: ignore[arg-type]

    def reshape(self) -> SSAValue:
        """The changed view with the parent's sizes."""
        return self.emit.reshape(self.new, self.type, self.base)

    def slice_scatter(self, dim: int, start: SymInt | None, end: SymInt | None, step: SymInt = 1) -> SSAValue:
        """The parent with a changed slice; the slice itself when it is all of the parent."""
        if dims_of(tensor_of(self.new)) == self.dims:
            return self.emit.ordered(self.new, self.type)
        return self.make(
            aten.slice_scatter.default,
            self=self.base(),
            src=self.new,
            dim=dim,
            start=start,
            end=end,
            step=step,
        )

    def unsupported(self, why: str) -> Exception:
        """Error E0413 at the write."""
        assert self.emit.point is not None
        return E0413.error(
            f"'{self.emit.point.name}' changes a tensor through '{self.op.name}': {why}",
            source_location(self.emit.location),
        )
