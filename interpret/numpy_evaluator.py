"""The evaluator for where torch is not installed: NumPy arrays, and the operators of ``numpy_ops``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import BY_TORCH_NAME, BY_TYPE, DType, dtype_of
from etir.dialects.et.layout import order_of
from etir.dialects.schema import Kind, OpSchema
from etir.interpret.errors import E1001
from etir.interpret.evaluator import Evaluator
from etir.interpret.meanings import added, added_or_installed
from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.dtype import bfloat16


class NumpyEvaluator(Evaluator):
    """NumPy arrays, and the operators of ``numpy_ops``."""

    name = "numpy"

    def from_bytes(self, data: memoryview | bytes, type: TensorType[Attribute]) -> Any:
        shape, order = type.get_shape(), order_of(type)
        flat = np.frombuffer(data, _numpy_dtype(dtype_of(type.element_type)))
        if list(order) == list(range(len(order))):
            return flat.reshape(shape)
        stored = flat.reshape([shape[d] for d in order])
        return stored.transpose([order.index(d) for d in range(len(order))])

    def from_user(self, value: Any) -> Any:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        tensor = value.detach()
        if str(tensor.dtype) == "torch.bfloat16":
            # torch hands NumPy no bfloat16: the same bits as integers, seen as bfloat16.
            return (
                tensor.view(importlib.import_module("torch").int16)
                .numpy()
                .view(_numpy_dtype(BY_TORCH_NAME["bfloat16"]))
            )
        return tensor.numpy()

    def to_bytes(self, tensor: Any) -> bytes:
        return np.ascontiguousarray(tensor).tobytes()

    def dtype(self, tensor: Any) -> DType:
        return BY_TORCH_NAME[_TORCH_NAMES[np.asarray(tensor).dtype.name]]

    def call(self, schema: OpSchema, arguments: Mapping[str, Any]) -> Any:
        name = schema.op_name
        function = added("numpy", name) or lookup(name) or added_or_installed("numpy", name)
        if function is None:
            raise E1001.error(f"NumPy has no '{name}'")
        converted = {k: _numpy_argument(schema, k, v) for k, v in arguments.items()}
        return function(**converted)

    def clone(self, tensor: Any) -> Any:
        return np.array(tensor, copy=True)

    def assign(self, target: Any, value: Any) -> None:
        target[...] = value

    def laid_out(self, tensor: Any, order: Sequence[int], offset: int) -> Any:
        """Few operators see how arrays lie in memory, and none the offset."""
        inverse = [list(order).index(dim) for dim in range(tensor.ndim)]
        return np.ascontiguousarray(tensor.transpose(order)).transpose(inverse)

    def stack(self, tensors: list[Any], type: Attribute) -> Any:
        if tensors:
            return np.stack([np.asarray(t) for t in tensors])
        assert isinstance(type, TensorType)
        return np.zeros([max(d, 0) for d in type.get_shape()], _numpy_dtype(dtype_of(type.element_type)))

    def item(self, tensor: Any) -> bool | int | float:
        return np.asarray(tensor).item()


_TORCH_NAMES = {row.numpy_name: row.torch_name for row in BY_TORCH_NAME.values() if row.numpy_name is not None}
_TORCH_NAMES["bfloat16"] = "bfloat16"


def _numpy_dtype(row: DType) -> Any:
    if row.numpy_name is not None:
        return np.dtype(row.numpy_name)
    if row.torch_name == "bfloat16":
        return bfloat16()
    raise E1001.error(f"NumPy has no element type for {row.torch_name}")


def _numpy_argument(schema: OpSchema, name: str, value: Any) -> Any:
    index = schema.index.get(name)
    if index is not None and schema.arguments[index].kind is Kind.DTYPE and isinstance(value, Attribute):
        return _numpy_dtype(BY_TYPE[value])
    return list(value) if isinstance(value, tuple) else value
