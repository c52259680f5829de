"""Files that follow every rule of their structure and mean something else: indices exchanged, results on operands.

A case starts from a program of ``test/corpus`` or from one that etir wrote, and exchanges what has the same kind: two
arguments, two outputs, two places, the order of dims, the bytes of two constants, two instructions. The writer refuses
it, or the runtime does, or it runs: no case may end the process, or make the reader raise what is no error of etir's.
"""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import etir
from etir.diagnostics import EtirError
from etir.emit.from_pte import read_program
from etir.emit.pte import model, read_pte, write_pte
from etir.emit.to_pte import emit_program
from etir.runtime import RuntimeFailure, TensorInfo

MOST_ELEMENTS = 1 << 20
"""Elements of the largest input that a case is given."""
SECONDS = 20.0
"""Longest time of one case in a child."""


@dataclass(frozen=True)
class HostileFile:
    """The bytes of a case and what was done to the program."""

    what: str
    data: bytes


def hostile_files(data: bytes, seed: int) -> Iterator[HostileFile]:
    """Endless changes of a ``.pte`` file that its writer lets pass, the same for the same seed."""
    chance = random.Random(seed)
    program = read_pte(data)
    while True:
        changed, what = program, []
        for _ in range(chance.randint(1, 3)):
            make = chance.choice(_KINDS)
            index = chance.randrange(len(changed.execution_plan))
            plan = make(changed, changed.execution_plan[index], chance)
            if plan is not None:
                plans = list(changed.execution_plan)
                plans[index] = plan
                changed = replace(changed, execution_plan=tuple(plans))
                what.append(make.__name__.strip("_"))
        if what:
            try:
                yield HostileFile(" and ".join(what), bytes(write_pte(changed)))
            except EtirError:
                continue


def _value(plan: model.ExecutionPlan, index: int, value: Any) -> model.ExecutionPlan:
    values = list(plan.values)
    values[index] = value
    return replace(plan, values=tuple(values))


def _tensors(plan: model.ExecutionPlan) -> list[int]:
    return [i for i, v in enumerate(plan.values) if isinstance(v, model.Tensor)]


def _instruction(plan: model.ExecutionPlan, chance: random.Random, kind: type) -> tuple[int, int, Any] | None:
    found = [
        (c, i, op)
        for c, chain in enumerate(plan.chains)
        for i, op in enumerate(chain.instructions)
        if isinstance(op, kind)
    ]
    return chance.choice(found) if found else None


def _with(plan: model.ExecutionPlan, chain: int, index: int, op: Any) -> model.ExecutionPlan:
    instructions = list(plan.chains[chain].instructions)
    instructions[index] = op
    chains = list(plan.chains)
    chains[chain] = replace(chains[chain], instructions=tuple(instructions))
    return replace(plan, chains=tuple(chains))


def _swap_arguments(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    found = _instruction(plan, chance, model.KernelCall)
    if found is None or len(found[2].args) < 2:
        return None
    args = list(found[2].args)
    a, b = chance.sample(range(len(args)), 2)
    args[a], args[b] = args[b], args[a]
    return _with(plan, found[0], found[1], replace(found[2], args=tuple(args)))


def _other_argument(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    found = _instruction(plan, chance, model.KernelCall)
    if found is None or not found[2].args:
        return None
    args = list(found[2].args)
    args[chance.randrange(len(args))] = chance.randrange(len(plan.values))
    return _with(plan, found[0], found[1], replace(found[2], args=tuple(args)))


def _argument_count(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    found = _instruction(plan, chance, model.KernelCall)
    if found is None or not found[2].args:
        return None
    args = found[2].args[:-1] if chance.random() < 0.5 else (*found[2].args, found[2].args[0])
    return _with(plan, found[0], found[1], replace(found[2], args=args))


def _other_operator(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    found = _instruction(plan, chance, model.KernelCall)
    if found is None:
        return None
    return _with(plan, found[0], found[1], replace(found[2], op_index=chance.randrange(len(plan.operators))))


def _swap_instructions(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    chain = chance.randrange(len(plan.chains))
    instructions = list(plan.chains[chain].instructions)
    if len(instructions) < 2:
        return None
    a, b = chance.sample(range(len(instructions)), 2)
    instructions[a], instructions[b] = instructions[b], instructions[a]
    chains = list(plan.chains)
    chains[chain] = replace(chains[chain], instructions=tuple(instructions), stacktrace=None)
    return replace(plan, chains=tuple(chains))


def _jump(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    found = _instruction(plan, chance, model.JumpFalseCall)
    if found is None:
        return None
    target = chance.randrange(len(plan.chains[found[0]].instructions) + 1)
    return _with(plan, found[0], found[1], replace(found[2], destination_instruction=target))


def _alias_outputs(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = _tensors(plan)
    if not plan.outputs or not tensors:
        return None
    outputs = list(plan.outputs)
    outputs[chance.randrange(len(outputs))] = chance.choice([*plan.outputs, *plan.inputs, *tensors])
    return replace(plan, outputs=tuple(outputs))


def _alias_inputs(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    if not plan.inputs:
        return None
    inputs = list(plan.inputs)
    inputs[chance.randrange(len(inputs))] = chance.choice([*plan.inputs, *_tensors(plan)])
    return replace(plan, inputs=tuple(inputs))


def _place(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    placed = [i for i in _tensors(plan) if plan.values[i].allocation_info is not None]  # type: ignore[union-attr]
    if len(placed) < 2:
        return None
    a, b = chance.sample(placed, 2)
    tensor: Any = plan.values[a]
    other: Any = plan.values[b]
    place = replace(
        other.allocation_info, memory_offset=other.allocation_info.memory_offset + chance.choice([0, 0, 1, 4, 16])
    )
    return _value(plan, a, replace(tensor, allocation_info=place))


def _dim_order(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = [i for i in _tensors(plan) if len(plan.values[i].sizes) > 1]  # type: ignore[union-attr]
    if not tensors:
        return None
    index = chance.choice(tensors)
    tensor: Any = plan.values[index]
    order = list(tensor.dim_order)
    chance.shuffle(order)
    return _value(plan, index, replace(tensor, dim_order=tuple(order)))


def _sizes(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = [i for i in _tensors(plan) if plan.values[i].sizes]  # type: ignore[union-attr]
    if not tensors:
        return None
    index = chance.choice(tensors)
    tensor: Any = plan.values[index]
    sizes = list(tensor.sizes)
    if chance.random() < 0.5:
        chance.shuffle(sizes)
    else:
        sizes[chance.randrange(len(sizes))] = chance.choice([0, 1, 2, 3, 7])
    return _value(plan, index, replace(tensor, sizes=tuple(sizes)))


def _dtype(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = _tensors(plan)
    if not tensors:
        return None
    index = chance.choice(tensors)
    kind = chance.choice([t for t in type(plan.values[index].scalar_type)])  # type: ignore[union-attr]
    return _value(plan, index, replace(plan.values[index], scalar_type=kind))  # type: ignore[type-var]


def _dynamism(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = _tensors(plan)
    if not tensors:
        return None
    index = chance.choice(tensors)
    dynamism = chance.choice(list(model.TensorShapeDynamism))
    return _value(plan, index, replace(plan.values[index], shape_dynamism=dynamism))  # type: ignore[type-var]


def _constant(program: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    tensors = [i for i in _tensors(plan) if plan.values[i].data_buffer_idx]  # type: ignore[union-attr]
    if not tensors:
        return None
    index = chance.choice(tensors)
    tensor: Any = plan.values[index]
    store = program.constants if tensor.allocation_info is None else program.mutable_data
    return _value(plan, index, replace(tensor, data_buffer_idx=chance.randrange(max(len(store), 1))))


def _number(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    numbers = [i for i, v in enumerate(plan.values) if isinstance(v, model.Int)]
    if not numbers:
        return None
    return _value(plan, chance.choice(numbers), model.Int(chance.choice([-(2**63), -1, 0, 1, 2, 3, 2**31, 2**63 - 1])))


def _list(_: model.Program, plan: model.ExecutionPlan, chance: random.Random) -> Any:
    lists = [i for i, v in enumerate(plan.values) if isinstance(v, model.IntList | model.TensorList) and v.items]
    if not lists:
        return None
    index = chance.choice(lists)
    value: Any = plan.values[index]
    items = list(value.items)
    match chance.randrange(3):
        case 0:
            chance.shuffle(items)
        case 1:
            items.append(items[0])
        case _:
            items.pop()
    return _value(plan, index, replace(value, items=tuple(items)))


_KINDS = (
    _swap_arguments,
    _other_argument,
    _argument_count,
    _other_operator,
    _swap_instructions,
    _jump,
    _alias_outputs,
    _alias_inputs,
    _place,
    _dim_order,
    _sizes,
    _dtype,
    _dynamism,
    _constant,
    _number,
    _list,
)


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdicts(cases: Sequence[HostileFile]) -> Iterator[tuple[HostileFile, str]]:
    """What is wrong with each case that ends the process or raises what is no error: nothing for all others."""
    done = 0
    while done < len(cases):
        reports, ended = _in_child(cases[done:])
        for offset, text in enumerate(reports):
            if text:
                yield cases[done + offset], text
        done += len(reports)
        if ended:
            yield cases[done], ended
            done += 1


def _in_child(cases: Sequence[HostileFile]) -> tuple[list[str], str]:
    """Reports of the cases that came to their end, and how the next one ended the child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        for case in cases:
            text = _check(case.data).replace("\n", " ")
            os.write(write_end, f"{text[:400]}\n".encode())
        os._exit(0)
    os.close(write_end)
    data, reason = b"", ""
    while select.select([read_end], [], [], SECONDS)[0]:
        chunk = os.read(read_end, 65536)
        if not chunk:
            break
        data += chunk
    else:
        os.kill(child, signal.SIGKILL)
        reason = f"runs for more than {SECONDS} seconds"
    os.close(read_end)
    status = os.waitpid(child, 0)[1]
    reports = data.decode().split("\n")[:-1]
    if len(reports) == len(cases):
        return reports, ""
    return reports, reason or f"ends the process with status {status}"


def _check(data: bytes) -> str:
    """Read, write and run one file in this process; what was raised besides errors."""
    try:
        emit_program(read_program(data)).pte()
    except EtirError:
        pass
    except Exception as error:  # whatever it is, it is the finding
        return f"reading raises {type(error).__name__}: {error}"
    try:
        program = etir.runtime.load(data)
        for name in program:
            method = program[name]
            for _ in range(2):
                method(*[_input(info) for info in method.signature.inputs])
    except (RuntimeFailure, EtirError):
        return ""
    except Exception as error:
        return f"running raises {type(error).__name__}: {error}"
    return ""


def _input(info: Any) -> Any:
    """Some value for an input."""
    if not isinstance(info, TensorInfo):
        return {"int": 1, "float": 1.0, "bool": True, "str": ""}.get(info.kind)
    if prod(info.shape) > MOST_ELEMENTS:
        raise EtirError([])
    try:
        return np.ones(info.shape, np.dtype(info.dtype))
    except TypeError:
        return np.ones(info.shape, np.float32)
