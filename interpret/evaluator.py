"""Computing one operator on concrete values: what every evaluator offers.

An evaluator takes an operator's IR name and its arguments by schema name; tensors are the evaluator's own, element
types of the IR stand for dtypes. It hides what differs between libraries, so that everything above it is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import DType
from etir.dialects.schema import OpSchema
from etir.interpret.errors import E1004, E1006


class Evaluator(ABC):
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

    def laid_out(self, tensor: Any, order: Sequence[int], offset: int) -> Any:
        """``tensor`` in a storage of its own, after ``offset`` elements, with its dims in ``order``, outermost first.

        The tensor itself where it lies like that already, or where operators do not see how tensors lie in memory.
        """
        return tensor

    @abstractmethod
    def stack(self, tensors: list[Any], type: Attribute) -> Any:
        """Stack along a new first dim; ``type`` gives shape and dtype when there is nothing to stack."""

    @abstractmethod
    def item(self, tensor: Any) -> bool | int | float:
        """The Python scalar in a tensor with one element."""

    def is_tensor(self, value: Any) -> bool:
        """Whether ``value`` is one of the evaluator's tensors."""
        return hasattr(value, "shape")


def wrap_failure(schema: OpSchema, error: Exception) -> Exception:
    """An operator's own exception as an error of the interpreter."""
    words = str(error).strip().splitlines()
    id = E1006 if is_out_of_memory(error) else E1004
    return id.error(f"'{schema.op_name}': {words[0] if words else type(error).__name__}")


def is_out_of_memory(error: Exception) -> bool:
    """Whether a library had no memory for a result; torch has no exception of its own for that on processors."""
    text = str(error)
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in text or "size calculation overflowed" in text


def flat(value: Any) -> list[Any]:
    """The results of an operator as a flat list."""
    if isinstance(value, (tuple, list)):
        return [v for item in value for v in flat(item)]
    return [value]
