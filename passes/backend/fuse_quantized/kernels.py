"""The kernels that a target has for integers, as operators of the edge level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.integer_kernels import kernel_rows
from etir.backends.api.quantization import QuantizedRow
from etir.dialects.declarations import functional_form
from etir.dialects.dtypes import dtype_of, f16, f32, i8, i32, ui8
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.dialects.schema import parse_schema
from etir.dialects.schema_op import SchemaOp
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.stored import HIGH, LOW, Encoding, Integers, as_line, as_row, is_image, row_of
from etir.passes.infra.rewriting import PatternRewriter
from etir.targets.manifest import Manifest

if TYPE_CHECKING:
    import numpy as np

TABLES = {"etir::int8_lookup.out": ("input", "table"), "cortex_m::quantized_activation.out": ("input", "lut")}
"""Kernels that look numbers up, with the names of what they take."""


def _cortex_m_pool(window: dict[str, list[int]], encoding: Encoding) -> dict[str, Any] | None:
    if window["dilation"] != [1, 1]:
        return None
    points = dict.fromkeys(("input_zero_point", "output_zero_point"), encoding.zero_point)
    limits = {"activation_min": LOW, "activation_max": HIGH}
    others = {name: window[name] for name in ("stride", "padding", "dilation")}
    return {"kernel_size": window["kernel"], **others, "ceil_mode": False, **points, **limits}


_POOLS: dict[str, Callable[[dict[str, list[int]], Encoding], dict[str, Any] | None]] = {
    "etir::int8_max_pool2d.out": lambda window, _: dict(window),
    "cortex_m::quantized_max_pool2d.out": _cortex_m_pool,
}
"""Kernels of max pools, with their arguments by those of a window; None for a window that one does not do."""


def weight_name(layer: EdgeOp) -> str:
    """The name of a layer's weight, which its constants are called after."""
    value = layer.args().get("weight")
    while isinstance(value, SSAValue) and isinstance(value.owner, EdgeOp):
        value = value.owner.operands[0]
    return (weight_symbol(value) if isinstance(value, SSAValue) else "") or "layer"


def weight_symbol(value: SSAValue) -> str:
    """The symbol of a weight, nothing where a value is none."""
    return value.owner.symbol.root_reference.data if isinstance(value.owner, GetWeightOp) else ""


class Kernels:
    """Operators of a target's kernels, and what stands for their constants."""

    def __init__(self, module: ModuleOp, manifest: Manifest, libraries: Sequence[str]):
        self.store = ConstantStore(module)
        self.rows: dict[str, list[tuple[str, QuantizedRow]]] = {}
        for kernel, row in kernel_rows(manifest, libraries):
            self.rows.setdefault(row.operator, []).append((kernel, row))
        # Where no kernel of a namespace says which operators it computes, they are there for files of another target.
        computing = {name.partition("::")[0] for name, entry in manifest.kernels.items() if entry.quantized}
        linked = [
            name
            for name, entry in manifest.kernels.items()
            if name.partition("::")[0] in computing
            and name.startswith(("etir::int", "cortex_m::"))
            and (manifest.libraries.get(entry.library) or entry.library in libraries)
        ]
        self._schemas = {name: manifest.kernels[name].schema_text for name in linked}
        self._made: dict[str, None] = {}
        self._pool = next((name for name in _POOLS if name in linked), None)
        self._table = next((name for name in TABLES if name in linked), None)
        self.integers = Integers(None if self._pool is None else (self.operator(self._pool), _POOLS[self._pool]))

    def operator(self, kernel: str) -> type[EdgeOp]:
        """The operator that a kernel computes."""
        return edge_class(parse_schema(functional_form(self._schemas[kernel])))

    def has(self, kernel: str) -> bool:
        """Whether the target has a kernel."""
        return kernel in self._schemas

    def make(
        self, kernel: str, arguments: dict[str, Any], result: Attribute, rewriter: PatternRewriter, hint: str
    ) -> SSAValue:
        """A call of a kernel, inserted before the root; NumPy arrays among the arguments become constants,
        which are called after ``hint``.
        """
        import numpy as np

        values = {
            name: self.constant(value, rewriter.root, f"{hint}_{'packed' if name == 'weight' else name}", rewriter)
            if isinstance(value, np.ndarray)
            else value
            for name, value in arguments.items()
        }
        self._made[kernel] = None
        made = self.operator(kernel).make(values, [result])
        rewriter.insert_op(made)
        return made.results[0]

    @property
    def has_tables(self) -> bool:
        """Whether the target has a kernel that looks numbers up."""
        return self._table is not None

    def table(self, value: SSAValue, table: np.ndarray, rewriter: PatternRewriter) -> SSAValue:
        """The entries of a table, in the order of the integers from -128 on, for the numbers of ``value``; ``value``
        where each is the number itself.
        """
        import numpy as np

        if (table == np.arange(LOW, HIGH + 1)).all():
            return value
        assert self._table is not None
        is_row = row_of(value) is not None
        value = as_row(value, rewriter) if is_row or is_image(value) else value
        type = tensor_type(i8, dims_of(tensor_of(value)), order_of(tensor_of(value)))
        arguments = dict(zip(TABLES[self._table], (value, table), strict=True))
        made = self.make(self._table, arguments, type, rewriter, "lookup")
        return as_line(made, rewriter) if is_row else made

    def constant(self, array: np.ndarray, like: Any, hint: str, rewriter: PatternRewriter) -> SSAValue:
        """A constant with the elements of ``array``."""
        import numpy as np

        type = next(t for t, name in _types().items() if np.dtype(name) == array.dtype)
        assert isinstance(like, SchemaOp)
        made = self.store.make(np.ascontiguousarray(array).tobytes(), tensor_type(type, array.shape), like, hint)
        rewriter.insert_op(made)
        return made.results[0]

    def schemas(self) -> list[str]:
        """The schemas of the operators that were made, each with that of its out variant."""
        if self.integers.used and self._pool is not None:
            self._made[self._pool] = None
        return [text for name in self._made for text in (functional_form(self._schemas[name]), self._schemas[name])]


def _types() -> dict[Attribute, str]:
    return {type: str(dtype_of(type).numpy_name) for type in (f16, f32, i8, i32, ui8)}
