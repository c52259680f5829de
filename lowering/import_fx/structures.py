"""What the nodes of a graph hold, as values and types of the IR: literals, structures of results, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import NoneOp, StringOp
from etir.dialects.literals import ArgValue
from etir.dialects.sym.ops import ConstantOp
from etir.lowering.import_fx.types import ELEMENT_TYPES, MEMORY_FORMATS, type_of_tensor, type_of_value

Value = Any
"""What a node stands for: an SSA value, a Python literal, or a tuple of them."""


def as_number(value: Value, block: Block) -> SSAValue:
    """``value`` as an SSA value: literals become constants at the end of ``block``."""
    if isinstance(value, SSAValue):
        return value
    if value is None:
        op: Operation = NoneOp()
    elif isinstance(value, str):
        op = StringOp(value)
    elif isinstance(value, (bool, int, float)):
        op = ConstantOp(value)
    else:
        raise TypeError(f"{value!r} is not a value of the IR")
    block.add_op(op)
    return op.results[0]


def literal(value: Value, block: Block) -> ArgValue:
    """An argument as the IR holds it: dtypes as element types, memory formats as words."""
    if isinstance(value, torch.dtype):
        return ELEMENT_TYPES[value]
    if isinstance(value, torch.memory_format):
        return MEMORY_FORMATS[value]
    if isinstance(value, (torch.device, torch.layout)):
        return None
    if isinstance(value, (list, tuple)):
        return [literal(item, block) for item in value]  # type: ignore[misc]
    if isinstance(value, torch.SymInt):
        return int(value)
    return value


def target_name(target: Any) -> str:
    """A called function by its module and name: its text has an address that differs from run to run."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = getattr(target, "__qualname__", None)
    return str(target) if name is None or isinstance(target, str) else f"{target.__module__}.{name}"


def flat_outputs(value: Any) -> list[Any]:
    """What a node gives, without the structure of tuples."""
    if isinstance(value, (tuple, list)):
        return [v for item in value for v in flat_outputs(item)]
    return [value]


def no_tensor(arguments: Mapping[str, ArgValue]) -> Attribute | None:
    """The type of a result that was masked out (a gradient that nobody asks for): a tensor without elements."""
    tensors = (v.type for v in flatten(list(arguments.values())) if isinstance(v, SSAValue))
    return next((tensor_type(t.element_type, [0]) for t in tensors if isinstance(t, TensorType)), None)


def output_type(value: Any, keep_order: bool) -> Attribute:
    """The type of a result; ``keep_order`` records a channels-last dim order. Raises ``TypeError`` without one."""
    if isinstance(value, torch.Tensor):
        return type_of_tensor(value, keep_order=keep_order)
    return type_of_value(value)


def restore(structure: Any, results: Any) -> Value:
    """The results in the shape of ``structure``: nested tuples of SSA values."""
    if isinstance(structure, (tuple, list)):
        return tuple(restore(item, results) for item in structure)
    return next(results)


def map_structure(value: Any, function: Callable[[fx.Node], Any]) -> Any:
    """``value`` with ``function`` of each node in its lists, tuples and dicts."""
    if isinstance(value, fx.Node):
        return function(value)
    if isinstance(value, (list, tuple)):
        return [map_structure(item, function) for item in value]
    if isinstance(value, dict):
        return {key: map_structure(item, function) for key, item in value.items()}
    return value


def flatten(value: Any) -> list[Any]:
    """The items of nested lists and tuples, in order."""
    if isinstance(value, (list, tuple)):
        return [v for item in value for v in flatten(item)]
    return [value]
