"""Check a written file against the module it was written from: what the runtime will read is what was proved.

`verify-plan` proves the memory plan on the IR. This check reads the finished bytes with the bounds-checked reader and
compares, value by value, every tensor's place, type and data with the definition it stands for, and the sizes of the
planned memories, so that the proof carries over to the file. It runs on every file that is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.dtypes import BY_NUMBER
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.layout import tensor_type
from etir.dialects.et.program import GetWeightOp, StateOp, WeightOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.et.weights import payload_of
from etir.emit.errors import E0865
from etir.emit.formats.buffers import Buffer
from etir.emit.pte import model
from etir.emit.pte.reader import read_pte


def verify_bytes(data: Buffer, module: ModuleOp) -> None:
    """Raises error E0865 with every difference between the file and the module."""
    program = read_pte(data)
    plans = {plan.name: plan for plan in program.execution_plan}
    problems: list[Diagnostic] = []
    symbols = {
        name.data: op for op in module.body.block.ops if isinstance(name := op.properties.get("sym_name"), StringAttr)
    }
    for op in module.body.block.ops:
        if isinstance(op, MethodOp):
            plan = plans.get(op.sym_name.data)
            if plan is None:
                problems.append(E0865.diagnostic(f"the file has no method '{op.sym_name.data}'"))
            else:
                problems += _method(op, plan) + _data(op, plan, program, symbols)
    raise_if_errors(problems)


def _data(
    method: MethodOp, plan: model.ExecutionPlan, program: model.Program, symbols: Mapping[str, Operation]
) -> list[Diagnostic]:
    """Weights and initial bytes of state that are not what the module says."""
    found: list[Diagnostic] = []
    for index, op in enumerate(op for op in method.body.blocks[0].ops if op.results):
        value = plan.values[index] if index < len(plan.values) else None
        if isinstance(op, GetWeightOp):
            symbol, table = op.symbol.root_reference.data, program.constants
        elif isinstance(op, BufferOp) and op.state is not None:
            symbol, table = op.state.root_reference.data, program.mutable_data
        else:
            continue
        source = symbols.get(symbol)
        if not isinstance(value, model.Tensor) or value.is_external or not isinstance(source, (WeightOp, StateOp)):
            continue
        if source.value is None or (isinstance(op, BufferOp) and value.nbytes == 0):
            continue
        assert isinstance(source.type, TensorType)
        expected = payload_of(source.value, source.type).data
        entry = value.data_buffer_idx
        written = memoryview(table[entry]).cast("B")[: value.nbytes] if entry < len(table) else None
        if written is None or written != memoryview(expected).cast("B"):
            found.append(
                E0865.diagnostic(
                    f"method '{method.sym_name.data}': value {index} is not the {value.nbytes} bytes of @{symbol}"
                )
            )
    return found


def _method(method: MethodOp, plan: model.ExecutionPlan) -> list[Diagnostic]:
    name = method.sym_name.data
    found: list[Diagnostic] = []
    if plan.non_const_buffer_sizes != method.pool_sizes:
        found.append(
            E0865.diagnostic(
                f"method '{name}': the file plans memories of {list(plan.non_const_buffer_sizes)} bytes, the module of "
                f"{list(method.pool_sizes or ())}"
            )
        )
    definitions = [op for op in method.body.blocks[0].ops if op.results]
    for index, op in enumerate(definitions):
        if not isinstance(op, (BufferOp, ViewOp)):
            continue
        value = plan.values[index] if index < len(plan.values) else None
        if not isinstance(value, model.Tensor):
            found.append(E0865.diagnostic(f"method '{name}': value {index} is not the tensor %{op.result.name_hint}"))
            continue
        got = None if value.allocation_info is None else value.allocation_info
        expected = _place(op)
        place = None if got is None else (got.memory_id, got.memory_offset)
        type = tensor_type(BY_NUMBER[int(value.scalar_type)].type, value.sizes, value.dim_order)
        if place != expected or type != op.result.type:
            found.append(
                E0865.diagnostic(
                    f"method '{name}': value {index} is {type} at {place}, %{op.result.name_hint} is "
                    f"{op.result.type} at {expected}"
                )
            )
    return found


def _place(op: BufferOp | ViewOp) -> tuple[int, int] | None:
    offset = 0
    while isinstance(op, ViewOp):
        if op.late is not None:
            return None
        offset += op.offset.value.data
        owner = op.base.owner
        assert isinstance(owner, (BufferOp, ViewOp))
        op = owner
    return None if op.place is None else (op.place[0], op.place[1] + offset)
