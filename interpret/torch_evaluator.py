"""The torch evaluator. Importing this module imports torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import BY_TORCH_NAME, DType, dtype_of
from etir.dialects.et.layout import order_of
from etir.dialects.schema import Kind, OpSchema
from etir.interpret.errors import E1001
from etir.interpret.evaluator import Evaluator, wrap_failure
from etir.interpret.meanings import added, added_or_installed
from etir.interpret.numpy_evaluator import NumpyEvaluator

_DTYPES = {row.type: getattr(torch, name) for name, row in BY_TORCH_NAME.items() if hasattr(torch, name)}
_FORMATS = {
    "contiguous": torch.contiguous_format,
    "preserve": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}


def _dim_order_copy(self: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return torch.ops.aten._to_copy.default(self, dtype=self.dtype if dtype is None else dtype).contiguous()


def _dim_order_empty(size: list[int], dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype)


def _view(self: torch.Tensor, size: list[int]) -> torch.Tensor:
    return self.reshape(size)


def _view_dtype(self: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    try:
        return self.view(dtype)
    except RuntimeError:
        return self.clone(memory_format=torch.contiguous_format).view(dtype)


def _as_strided_copy(
    self: torch.Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> torch.Tensor:
    return torch.ops.aten.as_strided_copy.default(_row_major(self), size, stride, storage_offset or 0)


def _as_strided_scatter(
    self: torch.Tensor, src: torch.Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> torch.Tensor:
    result = _row_major(self)
    result.as_strided(size, stride, storage_offset or 0).copy_(src)
    return result


def _row_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


def _quantized(name: str) -> Callable[..., torch.Tensor]:
    """An operator of ``quantized_decomposed`` that makes ``quant_min`` of NaN, for which torch has no definition."""

    def call(input: torch.Tensor, **others: Any) -> torch.Tensor:
        register_namespace("quantized_decomposed")
        packet = getattr(torch.ops.quantized_decomposed, name)
        return packet.default(torch.where(input.isnan(), -torch.inf, input), **others)

    return call


def _dequantize_per_channel(
    input: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, axis: int, **others: Any
) -> torch.Tensor:
    """torch's definition subtracts zero points of 64 bits, which takes ten times as long on the weights of a net.

    To subtract zeros changes nothing, and integers of 8 bits are the same numbers as floats.
    """
    has_zeros = zero_points is None or (not zero_points.is_floating_point() and not zero_points.any())
    is_usual = input.dtype == others["dtype"] == torch.int8 and scales.dtype == torch.float32 and scales.dim() == 1
    if has_zeros and is_usual and 0 <= axis < input.dim() and len(scales) == input.shape[axis]:
        along = scales.view([-1 if d == axis else 1 for d in range(input.dim())])
        return input.to(torch.float32).mul_(along).to(others.get("out_dtype") or torch.float32)
    register_namespace("quantized_decomposed")
    function = torch.ops.quantized_decomposed.dequantize_per_channel.default
    return function(input, scales, zero_points, axis, **others)


_OWN_OPS = {
    "aten.as_strided_copy.default": _as_strided_copy,
    "aten.as_strided_scatter.default": _as_strided_scatter,
    "aten.view.default": _view,
    "aten.view.dtype": _view_dtype,
    "aten.view_copy.dtype": _view_dtype,
    "dim_order_ops._to_dim_order_copy.default": _dim_order_copy,
    "dim_order_ops._clone_dim_order.default": _dim_order_copy,
    "dim_order_ops._empty_dim_order.default": _dim_order_empty,
    "quantized_decomposed.dequantize_per_channel.default": _dequantize_per_channel,
    **{
        f"quantized_decomposed.{name}.default": _quantized(name)
        for name in ("quantize_per_tensor", "quantize_per_channel", "quantize_per_token")
    },
}
"""What the evaluator computes in its own way.

The edge level's operators: values do not depend on the dim order, so everything is kept contiguous. And views: in a
functional program there are no strides and no start in memory that could forbid one. ``as_strided_copy`` and
``as_strided_scatter`` take the elements of their operand in row-major order; ``as_strided`` reads storage, as in torch.
Quantize operators: NaN is one integer on every level and on the runtime. Dequantized weights: faster, the same bits.
"""


def _of_one_dtype(arguments: dict[str, Any]) -> dict[str, Any]:
    """Keys and values of the query's dtype, which ExecuTorch's operator wants; etir's may read narrower ones."""
    dtype = arguments["query"].dtype
    return arguments | {name: arguments[name].to(dtype) for name in ("key", "value")}


_OWN_ARGUMENTS = {"llama.custom_sdpa.default": _of_one_dtype}
"""What is given to torch's operator in place of the arguments."""

_OWN_NAMESPACES = ("etir", "cortex_m")
"""Namespaces of operators that torch does not have unless somebody registers them."""


class TorchEvaluator(Evaluator):
    """torch tensors and torch's own operators, custom libraries' included."""

    name = "torch"

    def from_bytes(self, data: memoryview | bytes, type: TensorType[Attribute]) -> Any:
        shape, order = type.get_shape(), order_of(type)
        dtype = _DTYPES[type.element_type]
        if not len(data):
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            # The tensor is never written; torch warns about any read-only buffer.
            warnings.simplefilter("ignore")
            flat = torch.frombuffer(data, dtype=torch.uint8).view(dtype)
        if list(order) == list(range(len(order))):
            return flat.reshape(shape)
        return flat.reshape([shape[d] for d in order]).permute([order.index(d) for d in range(len(order))])

    def from_user(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach()
        if getattr(getattr(value, "dtype", None), "name", "") == "bfloat16":
            # NumPy's bfloat16 is another package's: torch takes its bits.
            return self.from_user(value.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(np.ascontiguousarray(value).copy()).reshape(np.shape(value))

    def to_bytes(self, tensor: Any) -> bytes:
        if not tensor.numel():
            return b""
        return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    def dtype(self, tensor: Any) -> DType:
        return BY_TORCH_NAME[str(tensor.dtype).removeprefix("torch.")]

    def call(self, schema: OpSchema, arguments: Mapping[str, Any]) -> Any:
        function = added("torch", schema.op_name) or _OWN_OPS.get(schema.op_name) or _torch_function(schema)
        if function is None:
            return self._call_numpy(schema, arguments)
        converted = {k: _argument(schema, k, v) for k, v in arguments.items()}
        if schema.op_name in _OWN_ARGUMENTS:
            converted = _OWN_ARGUMENTS[schema.op_name](converted)
        with torch.no_grad():
            try:
                return function(**converted)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, MemoryError) as error:
                raise wrap_failure(schema, error) from error

    def _call_numpy(self, schema: OpSchema, arguments: Mapping[str, Any]) -> Any:
        """Compute with the meaning of an operator that torch does not have. Raises error E1001 when there is none."""
        if added_or_installed("torch", schema.op_name) is not None:
            return self.call(schema, arguments)
        if added("numpy", schema.op_name) is None and schema.namespace not in _OWN_NAMESPACES:
            raise E1001.error(f"torch has no operator '{schema.op_name}'")
        numpy = NumpyEvaluator()
        given = {k: _map(v, lambda t: numpy.from_user(t)) for k, v in arguments.items()}
        return _map(numpy.call(schema, given), self.from_user)

    def clone(self, tensor: Any) -> Any:
        return tensor.clone()

    def assign(self, target: Any, value: Any) -> None:
        target.copy_(value)

    def laid_out(self, tensor: Any, order: Sequence[int], offset: int) -> Any:
        strides, step = [1] * tensor.dim(), 1
        for dim in reversed(order):
            strides[dim] = step
            step *= tensor.shape[dim]
        placed = all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), strides, strict=True))
        own = tensor.untyped_storage().nbytes() == (offset + tensor.numel()) * tensor.element_size()
        if (placed and own and tensor.storage_offset() == offset) or not tensor.numel():
            return tensor
        storage = torch.zeros(offset + tensor.numel(), dtype=tensor.dtype)
        return storage.as_strided(tensor.shape, strides, offset).copy_(tensor)

    def stack(self, tensors: list[Any], type: Attribute) -> Any:
        if tensors:
            return torch.stack([torch.as_tensor(t) for t in tensors])
        assert isinstance(type, TensorType)
        return torch.zeros([max(d, 0) for d in type.get_shape()], dtype=_DTYPES[type.element_type])

    def item(self, tensor: Any) -> bool | int | float:
        return tensor.item()


def _map(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Tensors converted, also those in lists and tuples; all else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(_map(item, convert) for item in value)
    return convert(value) if isinstance(value, (torch.Tensor, np.ndarray)) else value


_REGISTERED_BY = {"quantized_decomposed": "torch.ao.quantization.fx._decomposed"}
"""Modules of torch that register the operators of a namespace when they are imported."""


def register_namespace(namespace: str) -> None:
    """See to it that torch has the operators of a namespace that one of its own modules registers."""
    if namespace in _REGISTERED_BY:
        import_module(_REGISTERED_BY[namespace])


def _torch_function(schema: OpSchema) -> Callable[..., Any] | None:
    """torch's operator, None when it has none of that name."""
    register_namespace(schema.namespace)
    try:
        packet = getattr(getattr(torch.ops, schema.namespace), schema.name)
        return getattr(packet, schema.overload or "default")
    except AttributeError:
        return None


def torch_dtype(type: Attribute) -> torch.dtype:
    """The torch dtype of an element type."""
    return _DTYPES[dtype_of(type).type]


def _argument(schema: OpSchema, name: str, value: Any) -> Any:
    index = schema.index.get(name)
    if index is None:
        return value
    argument = schema.arguments[index]
    kind = argument.kind
    if kind is Kind.DEVICE and not argument.optional:
        return torch.device("cpu")
    if value is None:
        return value
    if kind is Kind.DTYPE and isinstance(value, Attribute):
        return _DTYPES[value]
    if kind is Kind.MEMORY_FORMAT and isinstance(value, str):
        return _FORMATS[value]
    if kind in (Kind.DEVICE, Kind.LAYOUT):
        return None
    return list(value) if isinstance(value, tuple) else value
