"""What to tell about an operator that has no decomposition for dynamic sizes (E0423): which dims those are."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.diagnostics import Diagnostic
from etir.dialects.et.layout import dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr
from etir.dialects.text import source_location
from etir.lowering.build.builder import is_tensor
from etir.lowering.decompose_aten.errors import E0423


class Problems(dict[Operation, Diagnostic]):
    """Why operations cannot be decomposed. ``sizes`` has those that a pattern gave up for the sake of a dynamic size:
    they are no problem when another pattern, or tracing, takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[Operation, Diagnostic] = {}

    def conclude(self) -> None:
        """What nothing has taken is a problem."""
        for op, diagnostic in self.sizes.items():
            if op.parent is not None:
                self[op] = diagnostic


def has_dynamic_sizes(op: SchemaOp) -> bool:
    """Whether a size of an operand, or a number, is known at run time only."""
    return bool(_dynamic(op))


def needs_static_size(op: SchemaOp, pattern: str, error: Exception) -> Diagnostic:
    """The diagnostic for an operator whose pattern computes with a size while compiling."""
    listed = _dynamic(op)
    reason = " ".join(str(error).split())[:160]
    diagnostic = E0423.diagnostic(
        f"'{op.name}' has no decomposition for dynamic sizes; it has {', '.join(listed)}",
        source_location(op.location),
        notes=[f"pattern '{pattern}' stopped" + (f": {reason}" if reason else "")],
    )
    return diagnostic.about(op.name)


def _dynamic(op: SchemaOp) -> list[str]:
    """The dynamic sizes and numbers among the arguments, in words."""
    found: list[str] = []
    for name, value in op.args().items():
        items = value if isinstance(value, tuple) else (value,)
        for number, item in enumerate(items):
            if not isinstance(item, SSAValue):
                continue
            label = f"'{name}'" if not isinstance(value, tuple) else f"'{name}[{number}]'"
            if not is_tensor(item):
                found.append(f"the number {label}")
                continue
            assert isinstance(item.type, TensorType)
            found += [f"{d} as dim {i} of {label}" for i, d in enumerate(dims_of(item.type)) if isinstance(d, SymExpr)]
    return found
