"""Runs kernels of the stock runtime with the result over an operand, in children that may crash.

A call is a program with one instruction and planned inputs. Both forms of it are run, with memory of its own for the
result and with the operand's, and their bytes compared.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import torch

from etir.dialects.schema import Kind
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model, write_pte
from etir.targets.manifest import KernelEntry
from etir.tools.probe.call import TORCH_DTYPES

from etir_testing.runtime.in_place_calls import InPlaceCall, in_place_calls, same_bits, statistic
from etir_testing.runtime.kernels import dim_order

_SCALAR_TYPES = {dtype: number for number, dtype in TORCH_DTYPES.items()}


class Outcome(IntEnum):
    """How a pair of runs ended."""

    DIFFERENT = 0
    SAME = 1
    REFUSED = 2


def program(entry: KernelEntry, call: InPlaceCall, *, together: bool) -> tuple[bytes, list[torch.Tensor]]:
    """The file that makes a call, and its inputs."""
    values: list[model.EValue] = []
    inputs: dict[int, int] = {}
    given: list[torch.Tensor] = []
    size = 0

    def add(value: model.EValue) -> int:
        values.append(value)
        return len(values) - 1

    def tensor(like: torch.Tensor, place: int | None = None) -> int:
        nonlocal size
        if place is None:
            place, size = size, size + (like.nbytes + 63) // 64 * 64
        details = model.AllocationDetails(1, place)
        order = dim_order(like)
        return add(model.Tensor(_SCALAR_TYPES[like.dtype], tuple(like.shape), order, allocation_info=details))

    args: list[int] = []
    arguments = entry.schema.arguments
    for argument, value in zip(arguments, call.arguments, strict=False):
        if isinstance(value, torch.Tensor):
            if id(value) not in inputs:
                inputs[id(value)] = tensor(value)
                given.append(value)
            args.append(inputs[id(value)])
        elif isinstance(value, list) and argument.kind is Kind.TENSOR:
            args.append(add(model.TensorList(())))
        elif isinstance(value, (list, tuple)):
            args.append(add(model.IntList(tuple(add(model.Int(v)) for v in value))))
        else:
            args.append(add(_literal(value)))
    over = values[inputs[id(call.operand)]]
    assert isinstance(over, model.Tensor) and over.allocation_info is not None
    results: list[int] = []
    for _ in arguments[len(call.arguments) :]:
        place = over.allocation_info.memory_offset if together and not results else None
        like = call.operand if not results else statistic(entry.schema.name, call)
        results.append(tensor(like, place))
        args.append(results[-1])
    args.append(results[0] if len(results) == 1 else add(model.TensorList(tuple(results))))
    name, _, overload = entry.name.partition(".")
    plan = model.ExecutionPlan(
        name="forward",
        values=tuple(values),
        inputs=tuple(inputs.values()),
        outputs=(results[0],),
        chains=(model.Chain((model.KernelCall(0, tuple(args)),)),),
        operators=(model.Operator(name, overload),),
        non_const_buffer_sizes=(0, size),
    )
    return write_pte(model.Program((plan,), (b"",), ())), given


def _literal(value: Any) -> model.EValue:
    match value:
        case None:
            return model.Null()
        case bool():
            return model.Bool(value)
        case int():
            return model.Int(value)
        case float():
            return model.Double(value)
        case _:
            return model.String(value)


def accepted(entry: KernelEntry, operands: Sequence[str]) -> list[InPlaceCall]:
    """The calls that the manifest takes."""
    found: list[InPlaceCall] = []
    for call in in_place_calls(entry.schema, operands):
        types: dict[str, ScalarType] = {}
        orders: dict[str, tuple[int, ...]] = {}
        for argument, value in zip(entry.schema.arguments, call.arguments, strict=False):
            if isinstance(value, torch.Tensor):
                types[argument.name], orders[argument.name] = _SCALAR_TYPES[value.dtype], dim_order(value)
        for argument in entry.schema.arguments[len(call.arguments) :]:
            types[argument.name] = _SCALAR_TYPES[call.operand.dtype]
            orders[argument.name] = dim_order(call.operand)
        others = {
            a.name: v for a, v in zip(entry.schema.arguments, call.arguments, strict=False) if a.kind is not Kind.TENSOR
        }
        if entry.check(types, orders, others=others) is None:
            found.append(call)
    return found


def run_in_place(runtime: Any, entry: KernelEntry, calls: Sequence[InPlaceCall]) -> list[Outcome]:
    """The outcome of every call, in order; one that ends the process is ``REFUSED``."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(calls):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            for call in calls[len(outcomes) :]:
                os.write(write_end, bytes([_outcome(runtime, entry, call)]))
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        outcomes += [Outcome(byte) for byte in said]
        if len(outcomes) < len(calls):
            outcomes.append(Outcome.REFUSED)
    return outcomes


def _outcome(runtime: Any, entry: KernelEntry, call: InPlaceCall) -> Outcome:
    results: list[torch.Tensor] = []
    for together in (False, True):
        data, inputs = program(entry, call, together=together)
        try:
            module = runtime._load_for_executorch_from_buffer(data)
            results.append(module.run_method("forward", inputs)[0].clone())
        except RuntimeError:
            return Outcome.REFUSED
    return Outcome.SAME if same_bits(*results) else Outcome.DIFFERENT
