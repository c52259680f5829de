"""Builds the nodes of a delegate: every value in the forms that its users need, each form made once.

A value of the outlined function is *held* as one or more values of the graph, by layout
(:mod:`etir.backends.xnnpack.legalize.layouts`). Permuting a tensor moves nothing: the result is held by the same value
under another layout. An operator asks for its operands in the layout that it needs, or takes the one that costs least;
only then a transpose is made, or a reshape where no byte moves. So layouts spread through chains of operators that do
not care, and transposes stand where a layout has to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.errors import E1106
from etir.backends.xnnpack.datatypes import BY_FLOAT_NAME, BY_NAME
from etir.backends.xnnpack.dialect import CLAMP, NODE_OPS, ConstantOp, InputOp, NodeOp, OutputOp
from etir.backends.xnnpack.legalize.constants import Constants, blob_of, name_of
from etir.backends.xnnpack.legalize.layouts import (
    Layout,
    aligned,
    default_layout,
    same_bytes,
    stored_dims,
)
from etir.backends.xnnpack.legalize.numbers import BF16, to_stored
from etir.backends.xnnpack.scales import DEQUANTIZE, Scale
from etir.backends.xnnpack.schema import NODE_BY_NAME
from etir.backends.xnnpack.shapes import Dims, result_dims
from etir.backends.xnnpack.types import TensorInfo, XnnTensorType, xnn_type
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import dims_of, order_of, tensor_of
from etir.dialects.et.origin import give_marks, handed_on, standing_for
from etir.dialects.et.program import ConstantOp as DenseOp
from etir.dialects.et.program import GetWeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.literals import float_attr
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import bounds
from etir.dialects.text import source_location

if TYPE_CHECKING:
    import numpy as np

    from etir.backends.api.interface import Outlined


@dataclass
class Held:
    """A value's forms by layout; ``scale`` says how stored integers of a quantized value stand for numbers."""

    forms: dict[Layout, SSAValue] = field(default_factory=dict[Layout, SSAValue])
    scale: Scale | None = None


MOVES = frozenset({"static_transpose", "static_reshape", "copy"})
"""Nodes that keep the scale of what they move."""


def quantized_info(dims: Dims, scale: Scale) -> TensorInfo:
    """The type of int8 numbers with one scale."""
    return TensorInfo(BY_NAME["qint8"], dims or (1,), scale=scale.scale, zero_point=scale.zero_point)


def is_float(value: SSAValue) -> bool:
    """Whether a tensor's elements are floating-point numbers outside of the delegate."""
    return dtype_of(tensor_of(value).element_type).is_float


class Emitter:
    """Creates the nodes of one delegate before ``op``, the operation that is being legalized."""

    def __init__(self, outlined: Outlined):
        self.outlined = outlined
        self.ranges = outlined.ranges
        self.block = outlined.func.body.block
        self.op: Operation = outlined.result
        self.held: dict[SSAValue, Held] = {}
        self.widened: dict[SSAValue, dict[Layout, SSAValue]] = {}
        """Forms in floating point of values that are held quantized."""
        self.dynamic_sources: dict[SSAValue, SSAValue] = {}
        """Values that are quantized at run time, by what is quantized."""
        self.scale_out: Scale | None = None
        """Set while an operation is made on quantized values: what its result is stored with."""
        self.shared: dict[SSAValue, None] = {}
        """Forms that stand for several values."""
        self.made: dict[tuple[object, ...], SSAValue] = {}
        """Values of the graph that are made once, by what they are made of."""
        self.own: dict[Operation, None] = {}
        """Nodes that were made for ``op``."""
        self.constants = Constants(outlined, self.error)

    # --- types ------------------------------------------------------------------------------------------------------

    def dims(self, value: SSAValue) -> Dims:
        """The dims of a tensor, upper bounds where dynamic. Raises E1106 for an unbounded one."""
        found: list[int] = []
        for dim in dims_of(tensor_of(value)):
            upper = dim if isinstance(dim, int) else bounds(dim, self.ranges)[1]
            if upper is None:
                raise self.error(f"dim {dim} of {value.type} has no upper bound")
            found.append(int(upper))
        return tuple(found)

    def units(self, value: SSAValue) -> frozenset[int]:
        """The dims of size 1, whatever the sizes of the others at run time."""
        return frozenset(i for i, d in enumerate(tensor_of(value).get_shape()) if d == 1)

    def info(self, value: SSAValue, dims: Dims | None = None) -> TensorInfo:
        """The graph's type of a tensor, in the default layout or with the stored ``dims``."""
        name = dtype_of(tensor_of(value).element_type).torch_name
        shape = self.dims(value) if dims is None else dims
        if name == "int8" and (scale := self.scale_of(value)) is not None:
            return quantized_info(shape, scale)
        if name not in BY_FLOAT_NAME:
            raise self.error(f"XNNPACK has no tensors of {name}")
        return TensorInfo(BY_FLOAT_NAME[name], shape or (1,))

    def error(self, message: str) -> Exception:
        """E1106 about the operation that is being legalized."""
        return E1106.error(f"'{self.op.name}': {message}", source_location(self.op.location))

    # --- constants --------------------------------------------------------------------------------------------------

    def constant(
        self, info: TensorInfo, data: Blob, scales: Blob | None = None, key: tuple[object, ...] | None = None
    ) -> SSAValue:
        """A constant of the graph with these bytes; one that was made under the same ``key`` is used again."""
        key = (info, data, scales) if key is None else key
        known = self.made.get(key)
        if known is None:
            payloads = [None if blob is None else (name_of(blob), BlobAttr(blob)) for blob in (data, scales)]
            place = handed_on(self.op.location)
            op = ConstantOp.make(xnn_type(info), cast(Any, payloads[0]), payloads[1], location=place)
            known = self.made[key] = self.insert(op).results[0]
        return known

    def float_constant(self, array: np.ndarray, like: SSAValue) -> SSAValue:
        """An array as a constant with the datatype of ``like``; without dims it becomes one of one element."""
        type = dtype_of(tensor_of(like).element_type)
        data = to_stored(array, type)
        info = TensorInfo(BY_FLOAT_NAME[type.torch_name], data.shape or (1,))
        return self.constant(info, blob_of(data))

    def bias(self, value: SSAValue | None) -> SSAValue | None:
        """The constant that a layer adds, in the default layout: float32 for a layer in bfloat16."""
        if value is None or dtype_of(tensor_of(value).element_type).torch_name != BF16:
            return None if value is None else self.get(value)
        data = self.constants.array(value)
        return self.constant(TensorInfo(BY_NAME["fp32"], data.shape), blob_of(data))

    def scalar(self, number: float, like: SSAValue) -> SSAValue:
        """A number as a constant with the datatype of ``like``."""
        import numpy as np

        return self.float_constant(np.array([number]), like)

    # --- forms ------------------------------------------------------------------------------------------------------

    def hold(self, value: SSAValue, form: SSAValue, layout: Layout | None = None) -> None:
        """Say that ``form`` is ``value`` in ``layout`` (default: the default one).

        Of the nodes that were made for an operation, the one that holds its result computes its value. Those on the way
        to it compute none of the imported program.
        """
        if form.owner in self.own:
            give_marks(value, form)
        held = self.held.setdefault(value, Held())
        held.forms[default_layout(len(self.dims(value))) if layout is None else layout] = form
        info = cast(XnnTensorType, form.type).data
        held.scale = None if info.scale is None else Scale(info.scale, cast(int, info.zero_point))

    def layouts(self, value: SSAValue) -> list[Layout]:
        """The layouts in which a value is there already."""
        return list(self.held[value].forms) if value in self.held else []

    def scale_of(self, value: SSAValue) -> Scale | None:
        """What a value is stored with, None when it is held as it is."""
        return self.held[value].scale if value in self.held else None

    def _forms(self, value: SSAValue, layout: Layout) -> dict[Layout, SSAValue]:
        """The forms that a user sees: floating point, unless the operation is made on quantized values."""
        held = self.held[value]
        if held.scale is None or not is_float(value) or self.scale_out is not None:
            return held.forms
        forms = self.widened.setdefault(value, {})
        if not forms:
            source = layout if layout in held.forms else next(iter(held.forms))
            form = held.forms[source]
            info = self.info(value, cast(XnnTensorType, form.type).data.dims)
            forms[source] = self.node("convert", [form], info=info)
        return forms

    def get(self, value: SSAValue, layout: Layout | None = None) -> SSAValue:
        """A value in ``layout``, by default the default one: found, transposed, reshaped, or made as a constant."""
        dims = self.dims(value)
        layout = default_layout(len(dims)) if layout is None else layout
        if value not in self.held and value in self.constants:
            return self._constant_form(value, layout)
        forms = self._forms(value, layout)
        if layout in forms:
            return forms[layout]
        units = self.units(value)
        source = next((known for known in forms if same_bytes(known, layout, units)), None)
        if source is not None and self._can_reshape(value, layout):
            form = self._reshaped(value, forms[source], layout)
        else:
            source = next(iter(forms))
            form = self._transposed(value, forms[source], source, layout)
        forms[layout] = form
        return form

    def stored(self, value: SSAValue, layout: Layout | None = None) -> SSAValue:
        """A value in ``layout`` as the integers that it is held as."""
        before, self.scale_out = self.scale_out, self.scale_of(value)
        form = self.get(value, layout)
        self.scale_out = before
        return form

    def _transposed(self, value: SSAValue, form: SSAValue, source: Layout, layout: Layout) -> SSAValue:
        """``form`` in another layout; dims that were added or are to be added take a reshape besides."""
        plain_source = tuple(d for d in source if d >= 0)
        plain_layout = tuple(d for d in layout if d >= 0)
        if sorted(plain_source) != sorted(plain_layout):
            every = default_layout(len(self.dims(value)))
            plain_source = (*(d for d in every if d not in plain_source), *plain_source)
            plain_layout = (*(d for d in every if d not in plain_layout), *plain_layout)
        if plain_source != source:
            form = self._reshaped(value, form, plain_source)
        if plain_source != plain_layout:
            perm = tuple(plain_source.index(d) for d in plain_layout)
            form = self.node("static_transpose", [form], {"perm": perm})
        if plain_layout != layout:
            form = self._reshaped(value, form, layout)
        return form

    def _can_reshape(self, value: SSAValue, layout: Layout) -> bool:
        """Whether a reshape can name the dims of ``layout``: it infers one of them at run time, not more."""
        return len(self.dynamic(value, layout)) <= 1

    def dynamic(self, value: SSAValue, layout: Layout) -> list[int]:
        """The places in ``layout`` whose sizes change at run time."""
        shape = tensor_of(value).get_shape()
        return [i for i, d in enumerate(layout) if d >= 0 and shape[d] < 0]

    def _reshaped(self, value: SSAValue, form: SSAValue, layout: Layout) -> SSAValue:
        return self.reshape(form, stored_dims(self.dims(value), layout), self.dynamic(value, layout))

    def _constant_form(self, value: SSAValue, layout: Layout) -> SSAValue:
        import numpy as np

        dims = self.dims(value)
        key = ("weight", value.owner.properties.get("symbol", value), layout)  # type: ignore[union-attr]
        if key in self.made:
            return self.made[key]
        info = self.info(value, stored_dims(dims, layout))
        units = self.units(value)
        if same_bytes(layout, order_of(tensor_of(value)), units):
            return self.constant(info, self.constants.bytes_of(value), key=key)
        array = self.constants.array(value)
        plain = [d for d in layout if d >= 0]
        array = np.squeeze(array, tuple(i for i in range(array.ndim) if i not in plain))
        rank = {d: i for i, d in enumerate(sorted(plain))}
        data = to_stored(array.transpose([rank[d] for d in plain]), dtype_of(tensor_of(value).element_type))
        return self.constant(info, blob_of(data), key=key)

    def cheapest(self, values: Sequence[SSAValue], rank: int) -> Layout:
        """The layout of ``rank`` dims in which the fewest bytes of ``values`` have to be moved.

        Constants are free. Of equal costs, the layout of the operand that comes first wins, and one that is not the
        default before the default: something asked for it.
        """
        plain = default_layout(rank)
        full = [v for v in values if v in self.held and len(self.dims(v)) == rank]
        candidates = list(dict.fromkeys(layout for v in full for layout in self.layouts(v)))
        best, least = plain, self.cost(values, plain, rank)
        for layout in candidates:
            cost = self.cost(values, layout, rank)
            if cost < least or (cost == least and best == plain):
                best, least = layout, cost
        return best

    def cheapest_for(self, value: SSAValue) -> Layout:
        """The layout in which one value is there without a move."""
        return self.cheapest([value], len(self.dims(value)))

    def cost(self, values: Sequence[SSAValue], layout: Layout, rank: int) -> int:
        """Bytes of ``values`` that a transpose would have to move for ``layout``."""
        total = 0
        for value in dict.fromkeys(values):
            if value not in self.held:
                continue
            dims, units = self.dims(value), self.units(value)
            wanted = aligned(layout, rank, len(dims))
            if not any(same_bytes(known, wanted, units) for known in self.layouts(value)):
                total += self.info(value).nbytes
        return total

    # --- nodes ------------------------------------------------------------------------------------------------------

    def insert(self, op: Any) -> Any:
        """Insert an operation before the one that is being legalized."""
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        return op

    def node(
        self,
        name: str,
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, int | float | Sequence[int]] | None = None,
        *,
        like: SSAValue | None = None,
        info: TensorInfo | None = None,
        clamp: tuple[float, float] | None = None,
    ) -> SSAValue:
        """A node's result; its dims follow from the operands, its datatype from ``like`` (a form) or ``info``."""
        kind = NODE_BY_NAME[name]
        given = dict(attributes or {})
        full: dict[str, int | float | tuple[int, ...]] = dict.fromkeys(kind.attributes, 0)
        full.update({k: tuple(v) if not isinstance(v, int | float) else v for k, v in given.items()})
        present = [o for o in operands if o is not None]
        try:
            dims = result_dims(kind, [cast(XnnTensorType, o.type).data.dims for o in present], full)
        except ValueError as error:
            raise self.error(str(error)) from None
        if info is None and self.scale_out is not None and name not in MOVES:
            info = quantized_info((), self.scale_out)
        base = info if info is not None else cast(XnnTensorType, (like or present[0]).type).data
        result = TensorInfo(base.datatype, dims, scale=base.scale, zero_point=base.zero_point, nonbatch=base.nonbatch)
        place = handed_on(self.op.location)
        op = NODE_OPS[name].make(operands, [xnn_type(result)], given, clamp=clamp, location=place)
        self.own[op] = None
        return self.insert(op).results[0]

    def reshape(self, form: SSAValue, dims: Dims, dynamic: Sequence[int] = ()) -> SSAValue:
        """A form with other dims over the same bytes. ``dynamic`` are the places in ``dims`` whose sizes change at run
        time: at most one, which then follows from the others.
        """
        info = cast(XnnTensorType, form.type).data
        dims = dims or (1,)
        if info.dims == dims:
            return form
        if len(dynamic) > 1:
            raise self.error(f"a reshape to {list(dims)} cannot follow {len(dynamic)} sizes at run time")
        if isinstance(form.owner, NodeOp) and form.owner.KIND.name == "static_reshape":
            form = form.owner.operands[0]
            if cast(XnnTensorType, form.type).data.dims == dims:
                return form
        shape = [0 if i in dynamic else d for i, d in enumerate(dims)]
        result = TensorInfo(info.datatype, dims, scale=info.scale, zero_point=info.zero_point)
        place = handed_on(self.op.location)
        op = NODE_OPS["static_reshape"].make([form], [xnn_type(result)], {"new_shape": shape}, location=place)
        self.own[op] = None
        return self.insert(op).results[0]

    def alias(self, result: SSAValue, source: SSAValue, layouts: Mapping[Layout, Layout]) -> None:
        """Hold ``result`` by the forms of ``source``: ``layouts`` maps layouts of the one to layouts of the other."""
        for old, new in layouts.items():
            form = self.held[source].forms[old]
            self.hold(result, form, new)
            if old == new and isinstance(form.owner, NodeOp):
                give_marks(result, form)
            if source.has_more_than_one_use():
                self.shared[form] = None

    def clamp(self, value: SSAValue, low: float, high: float) -> SSAValue | None:
        """Narrow the range of the node that gives ``value``, where nothing else sees it; its form, or None."""
        held = self.held.get(value)
        if held is None or value.has_more_than_one_use() or len(held.forms) != 1:
            return None
        form = next(iter(held.forms.values()))
        node = form.owner
        if not isinstance(node, NodeOp) or not node.KIND.clamps or form.first_use is not None or form in self.shared:
            return None
        before = node.clamp or (-inf, inf)
        clamp = (min(max(before[0], low), high), max(min(before[1], high), low))
        node.properties[CLAMP] = ArrayAttr([float_attr(bound) for bound in clamp])
        # It computes what the clamp gave from now on, at the place where it was.
        node.location = standing_for(node.location, [node, self.op], self.op.results)
        return form

    # --- boundary ---------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Hold the delegate's arguments."""
        first = self.block.first_op
        assert first is not None
        self.op = first
        for argument in self.block.args:
            order = order_of(tensor_of(argument))
            info = self.argument_info(argument, stored_dims(self.dims(argument), order))
            op = self.insert(InputOp.make(argument, xnn_type(info), location=handed_on(first.location)))
            self.hold(argument, op.results[0], order)

    def argument_info(self, argument: SSAValue, dims: Dims) -> TensorInfo:
        """The graph's type of an argument; the scale of integers is told by the operator that multiplies them out."""
        for use in argument.uses:
            user = use.operation
            if isinstance(user, SchemaOp) and user.SCHEMA.op_name == DEQUANTIZE:
                return quantized_info(dims, Scale(user.arg("scale"), user.arg("zero_point")))
        return self.info(argument, dims)

    def leave(self) -> None:
        """Return the delegate's results in the layout of their types."""
        result = self.outlined.result
        self.op = result
        given: dict[SSAValue, None] = {}
        for i, value in enumerate(result.operands):
            form = self.get(value, order_of(tensor_of(value)))
            if not isinstance(form.owner, NodeOp) or form in given:
                form = self.node("copy", [form])
            given[form] = None
            op = self.insert(OutputOp.make(form, value.type, location=result.location))
            result.operands[i] = op.results[0]

    def run(
        self,
        legalizers: Mapping[str, Any],
        quantized_scale: Callable[[Emitter, SchemaOp], Scale | None] = lambda emitter, op: None,
    ) -> None:
        """Legalize the whole function. ``quantized_scale`` says which operations are made on quantized values, and
        what their results are stored with.
        """
        operations = [op for op in self.block.ops if isinstance(op, SchemaOp)]
        self.enter()
        for op in operations:
            self.op, self.own = op, {}
            legalizer = legalizers.get(op.SCHEMA.op_name)
            if legalizer is None:
                raise self.error("no form of it is known")
            self.scale_out = quantized_scale(self, op)
            legalizer(self, op)
            self.scale_out = None
        self.leave()
        for op in reversed(operations):
            Rewriter.erase_op(op)
        for op in reversed(list(self.block.ops)):
            if isinstance(op, GetWeightOp | DenseOp | NodeOp | ConstantOp) and not any(r.first_use for r in op.results):
                Rewriter.erase_op(op)
