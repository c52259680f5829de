"""`normalize-quantization`: activations of 8 bits in the one form that backends compute on, int8 from -128 to 127.

Before, as quantizers for other runtimes have it::

    %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.03, zero_point = 131, quant_min = 0,
         quant_max = 255, dtype = ui8) : (tensor<4x16xf32>) -> tensor<4x16xui8>
    %y = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.03, zero_point = 131, ...)

After::

    %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.03, zero_point = 3, quant_min = -128,
         quant_max = 127, dtype = i8) : (tensor<4x16xf32>) -> tensor<4x16xi8>
    %y = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.03, zero_point = 3, ...)

A number of eight bits without a sign is one with a sign, 128 less. A smaller range, -127 to 127 or 0 to 127, is a clamp
of what is quantized, which backends make a part of the layer before. Integers that come from outside, or go there,
keep their type: a pair with the same scale stands beside them, and changes no number.

Weights of uint8 are int8 in the file, 128 less, with zero points that are.

Also, dequantize operators say nothing by their range, so all of them say -128 to 127, and parameters that are constant
tensors become numbers. A product with integers that are cast, and a scale for each column, is a layer with that weight.
The pass does nothing unless one of ``backend`` computes on such integers
(:attr:`~etir.backends.api.interface.Backend.computes_on_int8`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.registry import parse_delegate
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of, f32, i8, i64, ui8
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_of, tensor_type
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, QUANTIZE, declare, quantized_op
from etir.lowering.build.builder import Builder
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    import numpy as np

LOW, HIGH = -128, 127
_SHIFT = 128
"""What a number of uint8 is more than the same of int8."""
PRODUCT, CAST = "aten.mm.default", "dim_order_ops._to_dim_order_copy.default"
BY_TENSORS = {f"{name.removesuffix('default')}tensor": name for name in (QUANTIZE, DEQUANTIZE)}
"""Operators whose parameters are tensors, with those whose parameters are numbers."""


@register_pass
@dataclass(frozen=True)
class NormalizeQuantizationPass(Pass):
    """Store activations of 8 bits as int8 from -128 to 127.

    ``backend`` names backends as `partition` does; none of them has to compute on int8, then nothing happens.
    """

    name = "normalize-quantization"
    backend: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1101, E1107 and E1110 for wrong backends."""
        if not any(parse_delegate(text).backend.computes_on_int8 for text in self.backend):
            return
        store = ConstantStore(module)
        for method in methods(module):
            for name, plain in BY_TENSORS.items():
                for op in _operators(method, name):
                    _with_numbers(op, plain, store)
            for name in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
                for op in _operators(method, name):
                    _weight_to_int8(op, store)
            for op in _operators(method, QUANTIZE):
                _quantize_to_int8(op)
            for op in _operators(method, DEQUANTIZE):
                _dequantize_from_int8(op)
            products = [_layer_of_integers(op, store) for op in _operators(method, PRODUCT)]
            if any(products):
                declare(module, (DEQUANTIZE_PER_CHANNEL,))
            if any(_operators(method, QUANTIZE)):
                declare(module, (QUANTIZE, DEQUANTIZE))


def _operators(method: Operation, name: str) -> list[EdgeOp]:
    return [op for op in method.walk() if isinstance(op, EdgeOp) and op.op_name == name]


def _with_numbers(op: EdgeOp, plain: str, store: ConstantStore) -> None:
    """A scale and a zero point that are constants of one element stand in the text as numbers."""
    numbers = [_number(op.arg(name), store) for name in ("scale", "zero_point")]
    if None in numbers:
        return
    arguments = {**op.given_args(), "scale": float(numbers[0] or 0), "zero_point": int(numbers[1] or 0)}
    cls = quantized_op(plain)
    if all(name in cls.SCHEMA.index for name in arguments):
        new = cls.make(arguments, [r.type for r in op.results], location=op.location)
        Rewriter.replace_op(op, new)


def _number(value: object, store: ConstantStore) -> float | None:
    import numpy as np

    if not isinstance(value, SSAValue) or not store.is_constant(value):
        return None
    numpy_name = dtype_of(tensor_of(value).element_type).numpy_name
    found = np.frombuffer(store.data(value), numpy_name) if numpy_name is not None else np.zeros(0)
    return found[0].item() if found.size == 1 else None


@dataclass(frozen=True)
class _Form:
    """How numbers are stored: ``shift`` is what is subtracted to have them as int8, ``low`` and ``high`` the range of
    those that a quantize operator makes.
    """

    scale: float
    zero_point: int
    shift: int
    low: int
    high: int

    @property
    def is_plain(self) -> bool:
        """Whether it is the form that backends compute on."""
        return not self.shift and (self.low, self.high) == (LOW, HIGH)


def _form(op: EdgeOp, stored: SSAValue) -> _Form | None:
    """The form of the integers ``stored`` of an operator; None where they are not the 8 bits of float32 numbers."""
    numbers = op.results[0] if stored is op.operands[0] else op.operands[0]
    shifts: dict[Attribute, int] = {i8: 0, ui8: 128}
    shift = shifts.get(tensor_of(stored).element_type)
    if shift is None or tensor_of(numbers).element_type != f32:
        return None
    scale, point, low, high = (op.arg(name) for name in ("scale", "zero_point", "quant_min", "quant_max"))
    form = _Form(scale, point - shift, shift, low - shift, high - shift)
    fits = LOW <= form.low <= form.high <= HIGH and LOW <= form.zero_point <= HIGH and form.scale > 0
    return form if fits else None


def _pair(before: Operation, x: SSAValue, form: _Form) -> tuple[EdgeOp, SSAValue]:
    """``x`` as int8 numbers in the form's range and back, made before ``before``: the first operator and the
    result.
    """
    b = Builder(PatternRewriter(before, before.location, InsertPoint.before(before)), "edge")
    type = tensor_of(x)
    bounds = [
        None if bound == limit else (bound - form.zero_point) * form.scale
        for bound, limit in ((form.low, LOW), (form.high, HIGH))
    ]
    if bounds != [None, None]:
        x = b(edge.aten.clamp.default, x, *bounds, types=[type])
    numbers = {"scale": form.scale, "zero_point": form.zero_point, "quant_min": LOW, "quant_max": HIGH, "dtype": i8}
    stored = tensor_type(i8, dims_of(type), order_of(type))
    quantize = quantized_op(QUANTIZE).make({"input": x, **numbers}, [stored])
    dequantize = quantized_op(DEQUANTIZE).make({"input": quantize.results[0], **numbers}, [type])
    b.insert(quantize)
    b.insert(dequantize)
    return quantize, dequantize.results[0]


def _quantize_to_int8(op: EdgeOp) -> None:
    """Numbers that are stored in another form are stored as int8; who reads the other form has it made from that."""
    form = _form(op, op.results[0])
    if form is None or form.is_plain:
        return
    _, pair = _pair(op, op.operands[0], form)
    for reader in [use.operation for use in op.results[0].uses]:
        if isinstance(reader, EdgeOp) and reader.op_name == DEQUANTIZE and _reads(reader, op):
            reader.results[0].replace_all_uses_with(pair)
            Rewriter.erase_op(reader)
    if op.results[0].first_use is None:
        Rewriter.erase_op(op)
    else:
        op.operands[0] = pair


def _weight_to_int8(op: EdgeOp, store: ConstantStore) -> None:
    """A constant of uint8 under a dequantize operator is one of int8."""
    import numpy as np

    value = op.operands[0]
    type = tensor_of(value)
    if type.element_type != ui8 or not store.is_constant(value) or tensor_of(op.results[0]).element_type != f32:
        return
    changed: dict[str, Any] = {"dtype": i8}
    changed |= {name: cast(int, op.arg(name)) - _SHIFT for name in ("quant_min", "quant_max")}
    made = [store.make((np.frombuffer(store.data(value), np.uint8) ^ _SHIFT).tobytes(), _as_int8(type), op, "weight")]
    if op.op_name == DEQUANTIZE:
        changed["zero_point"] = cast(int, op.arg("zero_point")) - _SHIFT
    else:
        points, count = op.arg("zero_points"), tensor_of(cast(SSAValue, op.arg("scales"))).get_shape()
        if isinstance(points, SSAValue) and not store.is_constant(points):
            return
        before = np.zeros(count, np.int64)
        if isinstance(points, SSAValue):
            numpy_name = dtype_of(tensor_of(points).element_type).numpy_name
            before = np.frombuffer(store.data(points), numpy_name).astype(np.int64)
        made.append(store.make((before - _SHIFT).tobytes(), tensor_type(i64, count), op, "zero_points"))
    for constant, name in zip(made, ("input", "zero_points"), strict=False):
        Rewriter.insert_op(constant, InsertPoint.before(op))
        changed[name] = constant.results[0]
    Rewriter.replace_op(op, op.with_args(**changed))


def _as_int8(type: TensorType[Attribute]) -> TensorType[Attribute]:
    return tensor_type(i8, dims_of(type), order_of(type))


def _layer_of_integers(op: EdgeOp, store: ConstantStore) -> bool:
    """``mm(x, cast(integers)) * scales``, as a weight of int8 is written out, is a layer with that weight. Returns
    whether it was one.
    """
    import numpy as np

    x, converted = op.operands
    source = converted.owner
    if not isinstance(source, EdgeOp) or source.op_name != CAST or not store.is_constant(source.operands[0]):
        return False
    type = tensor_of(source.operands[0])
    if type.element_type != i8 or not is_contiguous(type) or tensor_of(converted).element_type != f32:
        return False
    rows, columns = type.get_shape()
    product, scales = _scaled(op, columns, store)
    integers = np.frombuffer(store.data(source.operands[0]), np.int8).reshape(rows, columns).T
    constants = [
        store.make(np.ascontiguousarray(integers).tobytes(), tensor_type(i8, [columns, rows]), op, "weight"),
        store.make(scales.tobytes(), tensor_type(f32, [columns]), op, "scales"),
        store.make(np.zeros(columns, np.int64).tobytes(), tensor_type(i64, [columns]), op, "zeros"),
    ]
    names = ("input", "scales", "zero_points")
    arguments: dict[str, Any] = {n: c.results[0] for n, c in zip(names, constants, strict=True)}
    arguments |= {"axis": 0, "quant_min": LOW, "quant_max": HIGH, "dtype": i8}
    weight = quantized_op(DEQUANTIZE_PER_CHANNEL).make(arguments, [tensor_type(f32, [columns, rows])])
    layer = edge.aten.linear.default.make({"input": x, "weight": weight.results[0]}, [op.results[0].type])
    for made in (*constants, weight, layer):
        made.location = op.location
        Rewriter.insert_op(made, InsertPoint.before(op))
    product.results[0].replace_all_uses_with(layer.results[0])
    for old in (product, op) if product is not op else (op,):
        Rewriter.erase_op(old)
    if not converted.uses:
        Rewriter.erase_op(source)
    return True


def _scaled(op: EdgeOp, columns: int, store: ConstantStore) -> tuple[EdgeOp, np.ndarray]:
    """The product of ``op`` and a constant for each column, and the constant; ``op`` and ones where there is none."""
    import numpy as np

    user = op.results[0].get_user_of_unique_use()
    if isinstance(user, EdgeOp) and user.op_name == "aten.mul.Tensor" and user.results[0].type == op.results[0].type:
        other = next((v for v in user.operands if v is not op.results[0]), None)
        if other is not None and store.is_constant(other) and tensor_of(other).element_type == f32:
            shape = tensor_of(other).get_shape()
            if shape[-1:] == (columns,) and all(size == 1 for size in shape[:-1]):
                return user, np.frombuffer(store.data(other), np.float32)
    return op, np.ones(columns, np.float32)


def _reads(reader: EdgeOp, op: EdgeOp) -> bool:
    scales = [(o.arg("scale"), o.arg("zero_point")) for o in (reader, op)]
    return scales[0] == scales[1] and reader.results[0].type == op.operands[0].type


def _dequantize_from_int8(op: EdgeOp) -> None:
    """Integers of another type from elsewhere are int8 after the operator; of int8, the range is that of the type."""
    form = _form(op, op.operands[0])
    if form is None or form.is_plain or isinstance(op.operands[0].owner, GetWeightOp | ConstantOp):
        return
    if not form.shift:
        Rewriter.replace_op(op, op.with_args(quant_min=LOW, quant_max=HIGH))
        return
    after = op.next_op
    assert after is not None
    inner, pair = _pair(after, op.results[0], replace(form, low=LOW, high=HIGH))
    op.results[0].replace_uses_with_if(pair, lambda use: use.operation is not inner)
