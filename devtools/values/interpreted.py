"""Values from the interpreter, at any level: every one that an operation's location marks as one of the program's.

The key of a value is the origin and the number of the result, so that values of two levels are the same one when their
keys are equal. Where a value is computed several times (in a loop, in a buffer that is written again) the last one
counts; what is read as an input counts as it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, OpResult, SSAValue

from etir.backends.api.registry import backend_of_runtime_id
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import InputsOp
from etir.dialects.et.origin import Mark, origins_in
from etir.interpret.interpreter import Interpreter

Key: TypeAlias = tuple[int, int]
"""Origin, and number of the result."""


def marks_of(value: SSAValue) -> tuple[Mark, ...]:
    """The marks of one value of the IR."""
    if isinstance(value, OpResult):
        found = origins_in(value.owner.location)
        return () if found is None else tuple(mark for mark in found.marks if mark.at == value.index)
    found = origins_in(value.location) if isinstance(value, BlockArgument) else None
    return () if found is None else found.marks


def interpreted_values(
    module: ModuleOp, inputs: Sequence[Any], method: str = "forward", evaluator: str = "auto"
) -> dict[Key, np.ndarray[Any, Any]]:
    """What every marked tensor of a method is when it runs once with ``inputs``, which are not changed.

    Raises what the interpreter does (E10xx).
    """
    found: dict[Key, np.ndarray[Any, Any]] = {}
    given = _inputs_of(module, method)
    interpreter = Interpreter(module, evaluator, backend_of_runtime_id)

    def watch(value: SSAValue, held: Any) -> None:
        if not interpreter.evaluator.is_tensor(held):
            return
        for mark in marks_of(value):
            key = (mark.origin, mark.result)
            if key not in found or value not in given:
                found[key] = np.array(as_array(held))

    interpreter.watch = watch
    interpreter.run([copied(value) for value in inputs], method)
    return found


def _inputs_of(module: ModuleOp, method: str) -> dict[SSAValue, None]:
    for op in module.walk():
        if isinstance(op, InputsOp):
            parent = op.parent_op()
            if isinstance(parent, MethodOp) and parent.sym_name.data == method:
                return dict.fromkeys(op.arguments)
    return {}


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor of torch or NumPy as an array; what NumPy has no dtype for as float32."""
    if isinstance(value, np.ndarray):
        return value
    tensor = value.detach()
    if str(tensor.dtype) in ("torch.bfloat16",) or str(tensor.dtype).startswith("torch.float8"):
        tensor = tensor.float()
    return np.asarray(tensor.resolve_conj().resolve_neg().cpu())


def copied(value: Any) -> Any:
    """An input that a method may write into without the caller's being changed."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.clone() if hasattr(value, "clone") else value
