"""The memory that etir's own runtime takes for each method, to the byte, known before anything runs.

Three kinds (``runtime/executor/method.h``): *method memory* holds what the file cannot, the values and the tensors that
are not in flash; *planned* memory is the plan's, one buffer for each memory id; *temp* memory is the most that one
instruction's kernel asks for. The first follows from the formula in ``method.h``, which counts pointers, so there are
two figures. Temp memory follows from the kernels: a row of the manifest that needs some says how much as an
expression over the operator's arguments, taken at their greatest sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.payloads import DelegateOp
from etir.emit.pte import model
from etir.targets.manifest import load

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_TENSOR_BYTES = {8: 32, 4: 20}
_OPERATOR_BYTES = {8: 16, 4: 8}
_DELEGATE_BYTES = {8: 24, 4: 12}


@dataclass(frozen=True)
class RuntimeMemory:
    """Bytes that one method needs. ``method`` is for 64-bit machines, ``method_32`` for 32-bit ones.

    ``planned`` has one size for each buffer, memory id 1 first. ``temp`` is the same on both.
    """

    method: int
    method_32: int
    planned: tuple[int, ...]
    temp: int


TempRules = Mapping[str, tuple[Sequence[str], str]]
"""Operator name to the names of its arguments and the expression for its temp memory."""


@dataclass(frozen=True)
class DelegateMemory:
    """The most bytes that one delegate takes: of method memory by the size of a pointer, and of temporary memory."""

    method: int
    method_32: int
    temp: int


def kernel_temp_rules() -> TempRules:
    """The rules of etir's own kernels."""
    return {
        name: (tuple(a.name for a in kernel.schema.arguments), kernel.temp)
        for name, kernel in load("etir").kernels.items()
        if kernel.temp
    }


def delegate_memory(module: ModuleOp) -> dict[str, list[DelegateMemory]]:
    """What the delegates of each method of a module at the executable level take, where their backends said so."""
    known: dict[str, DelegateMemory] = {}
    for op in module.body.block.ops:
        sizes = op.attributes.get("memory") if isinstance(op, DelegateOp) else None
        if isinstance(op, DelegateOp) and isinstance(sizes, ArrayAttr):
            numbers = [item.value.data for item in sizes.data if isinstance(item, IntegerAttr)]
            known[op.sym_name.data] = DelegateMemory(*numbers)
    found: dict[str, list[DelegateMemory]] = {}
    for method in module.body.block.ops:
        if isinstance(method, MethodOp):
            calls = [op.delegate.root_reference.data for op in method.walk() if isinstance(op, DelegateCallOp)]
            found[method.sym_name.data] = [known[name] for name in calls if name in known]
    return found


def runtime_memory(
    plan: model.ExecutionPlan, temp_rules: TempRules, delegates: Sequence[DelegateMemory] = ()
) -> RuntimeMemory:
    """What a plan takes on etir's runtime with kernels that follow ``temp_rules`` and with ``delegates``."""
    return RuntimeMemory(
        _method_bytes(plan, 8) + sum(d.method for d in delegates),
        _method_bytes(plan, 4) + sum(d.method_32 for d in delegates),
        tuple(plan.non_const_buffer_sizes[1:]),
        max([_temp_bytes(plan, temp_rules), *(d.temp for d in delegates)]),
    )


def _method_bytes(plan: model.ExecutionPlan, pointer: int) -> int:
    tensors = [value for value in plan.values if isinstance(value, model.Tensor)]
    moving = [t for t in tensors if t.shape_dynamism != model.TensorShapeDynamism.STATIC]
    return (
        9 * len(plan.values)
        + _TENSOR_BYTES[pointer] * len(tensors)
        + _OPERATOR_BYTES[pointer] * len(plan.operators)
        + _DELEGATE_BYTES[pointer] * len(plan.delegates)
        + 4 * sum(len(t.sizes) for t in moving)
        + len(plan.inputs)
    )


class _TensorArgument:
    """A tensor as the expressions of the manifest see it."""

    def __init__(self, tensor: model.Tensor):
        self.sizes = tensor.sizes
        self.rank = len(tensor.sizes)
        self.numel = math.prod(tensor.sizes)
        self.nbytes = tensor.nbytes
        self.itemsize = 0 if not self.numel else tensor.nbytes // self.numel
        self.dtype = int(tensor.scalar_type)
        self.row_major = tensor.dim_order == tuple(range(self.rank))

    def size(self, dim: int) -> int:
        """One size; dims count from the end when negative, and a scalar has one of size 1."""
        return self.sizes[dim] if self.rank else 1


def _temp_bytes(plan: model.ExecutionPlan, rules: TempRules) -> int:
    most = 0
    for chain in plan.chains:
        for instruction in chain.instructions:
            if not isinstance(instruction, model.KernelCall):
                continue
            rule = rules.get(plan.operators[instruction.op_index].full_name)
            if rule is not None:
                names, expression = rule
                values = [_argument(plan, index) for index in instruction.args[: len(names)]]
                most = max(most, evaluate(expression, dict(zip(names, values, strict=True))))
    return most


def _argument(plan: model.ExecutionPlan, index: int) -> Any:
    match plan.values[index]:
        case model.Tensor() as tensor:
            return _TensorArgument(tensor)
        case model.Int(value) | model.Bool(value) | model.Double(value) | model.String(value):
            return value
        case model.IntList(items) | model.TensorList(items) | model.OptionalTensorList(items):
            return [None if i < 0 else _argument(plan, i) for i in items]
        case model.DoubleList(items) | model.BoolList(items):
            return list(items)
        case _:
            return None


_FUNCTIONS = {"min": min, "max": max, "abs": abs, "len": len, "prod": math.prod, "ceil_div": lambda a, b: -(-a // b)}


def evaluate(expression: str, values: dict[str, Any]) -> int:
    """What an expression of a kernel's row in the manifest says for its arguments, by name."""
    # The expressions are part of the manifest that comes with the package, not input.
    return int(eval(expression, {"__builtins__": {}, **_FUNCTIONS, **values}))


def memory_header(methods: Mapping[str, RuntimeMemory]) -> str:
    """The figures as a C header: macros with the method's name in capitals, for static arrays."""
    lines = [
        "/* Memory that each method of the program takes, in bytes. Written by et-compile. */",
        "#pragma once",
        "",
        "#include <stdint.h>",
    ]
    for name, memory in methods.items():
        prefix = "ETIR_" + "".join(c.upper() if c.isalnum() and c.isascii() else "_" for c in name)
        sizes = "".join(f"{size}, " for size in memory.planned)
        lines += [
            "",
            f"#define {prefix}_METHOD_BYTES (UINTPTR_MAX > 0xffffffffu ? {memory.method} : {memory.method_32})",
            f"#define {prefix}_PLANNED_COUNT {len(memory.planned)}",
            f"#define {prefix}_PLANNED_SIZES {sizes}",
            f"#define {prefix}_PLANNED_BYTES {sum(memory.planned)}",
            f"#define {prefix}_TEMP_BYTES {memory.temp}",
        ]
    return "\n".join(lines) + "\n"
