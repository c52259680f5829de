"""Computing one operator on concrete values: :class:`TorchOracle` asks torch, :class:`NumpyOracle` our own operators.

Both take an operator's IR name and its arguments by schema name; tensors are the oracle's own, element types of the IR
stand for dtypes. The oracle hides what differs, so that everything above it is written once.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import BY_TORCH_NAME, BY_TYPE, DType, dtype_of
from etir.dialects.et.layout import order_of
from etir.dialects.schema import Kind, OpSchema
from etir.interpret.errors import E1001, E1004


class Oracle(ABC):
    """Tensors and operators of one library."""

    name: str

    @abstractmethod
    def from_bytes(self, data: memoryview | bytes, type: TensorType[Attribute]) -> Any:
        """A tensor over ``data`` (not to be written) with the shape and dtype of a static type."""

    @abstractmethod
    def from_user(self, value: Any) -> Any:
        """A tensor from what a user passes: array, torch tensor, or anything NumPy converts."""

    @abstractmethod
    def to_bytes(self, tensor: Any) -> bytes:
        """The bytes of a tensor, row-major; one byte for a bool."""

    @abstractmethod
    def dtype(self, tensor: Any) -> DType:
        """The element type of a tensor."""

    @abstractmethod
    def call(self, schema: OpSchema, arguments: Mapping[str, Any]) -> Any:
        """Compute an operator. Raises error E1001 when the library does not have it, E1004 when it fails."""

    @abstractmethod
    def clone(self, tensor: Any) -> Any:
        """A copy that shares no memory."""

    @abstractmethod
    def assign(self, target: Any, value: Any) -> None:
        """Overwrite a tensor in place."""

    @abstractmethod
    def stack(self, tensors: list[Any], type: Attribute) -> Any:
        """Stack along a new first dim; ``type`` gives shape and dtype when there is nothing to stack."""

    @abstractmethod
    def item(self, tensor: Any) -> bool | int | float:
        """The Python number in a tensor with one element."""

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is one of the oracle's tensors."""
        return hasattr(value, "shape")


def get_oracle(name: str = "auto") -> Oracle:
    """``"torch"``, ``"numpy"``, or ``"auto"``: torch if it is installed. Raises error E1001 when torch is missing."""
    if name == "auto":
        name = "torch" if importlib.util.find_spec("torch") is not None else "numpy"
    if name == "numpy":
        return NumpyOracle()
    try:
        from etir.interpret.torch_oracle import TorchOracle
    except ImportError:
        raise E1001.error("the torch oracle needs torch, which is not installed") from None
    return TorchOracle()


class NumpyOracle(Oracle):
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
        from etir.interpret.numpy_ops import lookup

        function = lookup(schema.op_name)
        if function is None:
            raise E1001.error(f"NumPy has no '{schema.op_name}'")
        converted = {k: _numpy_argument(schema, k, v) for k, v in arguments.items()}
        return function(**converted)

    def clone(self, tensor: Any) -> Any:
        return np.array(tensor, copy=True)

    def assign(self, target: Any, value: Any) -> None:
        target[...] = value

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
    from etir.interpret.numpy_ops.dtype import bfloat16

    if row.torch_name == "bfloat16":
        return bfloat16()
    raise E1001.error(f"NumPy has no element type for {row.torch_name}")


def _numpy_argument(schema: OpSchema, name: str, value: Any) -> Any:
    index = schema.index.get(name)
    if index is not None and schema.arguments[index].kind is Kind.DTYPE and isinstance(value, Attribute):
        return _numpy_dtype(BY_TYPE[value])
    return list(value) if isinstance(value, tuple) else value


def wrap_failure(schema: OpSchema, error: Exception) -> Exception:
    """An operator's own exception as an error of the interpreter."""
    words = str(error).strip().splitlines()
    return E1004.error(f"'{schema.op_name}': {words[0] if words else type(error).__name__}")
