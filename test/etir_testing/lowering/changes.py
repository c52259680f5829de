"""Changes of tensors as programs: of an input, a buffer, an intermediate and a row, against eager.

Several operators make one program, as exporting is what takes time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.program import StateOp
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.interpret.interpreter import Interpreter
from etir.lowering.functionalize import FunctionalizePass
from etir.lowering.import_fx import import_program

BATCH = 16
"""Operators of one program."""


@dataclass
class Case:
    """A change of the tensor that ``change`` is given; ``start`` are its values."""

    name: str
    start: Tensor
    change: Callable[[Tensor], Any]


class Changes(nn.Module):
    """Each case on an input, a buffer, an intermediate, and with ``rows`` on a row of a larger tensor."""

    def __init__(self, cases: Sequence[Case], rows: bool):
        super().__init__()
        self.cases = cases
        self.rows = rows
        for index, case in enumerate(cases):
            self.register_buffer(f"b{index}", case.start.clone())

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        results: list[Tensor] = []
        for index, (case, x) in enumerate(zip(self.cases, inputs, strict=True)):
            between = x.clone()
            pair = torch.stack([x, x]) if self.rows else x.clone()
            case.change(x)
            case.change(self.get_buffer(f"b{index}"))
            case.change(between)
            if self.rows:
                case.change(pair[1])
            results += [between, pair]
        return results


def run(cases: Sequence[Case], rows: bool) -> dict[str, str]:
    """What is wrong, by case."""
    model, inputs = Changes(cases, rows), [case.start.clone() for case in cases]
    with torch.no_grad():
        try:
            program = torch.export.export(copy.deepcopy(model), tuple(copy.deepcopy(inputs)))
        except Exception as error:
            if len(cases) == 1:
                return {cases[0].name: f"export: {error}"}
            half = len(cases) // 2
            return run(cases[:half], rows) | run(cases[half:], rows)
    module = import_program(program)
    try:
        FunctionalizePass().apply(EtContext(), module)
    except EtirError as error:
        if len(cases) == 1:
            return {cases[0].name: str(error)}
        return {name: why for case in cases for name, why in run([case], rows).items()}
    left = [o.name for o in module.walk() if isinstance(o, SchemaOp) and o.SCHEMA.kind is not SchemaKind.FUNCTIONAL]
    assert not left, left
    interpreter, wrong = Interpreter(module, "torch"), dict[str, str]()
    states = {s.attributes["fqn"].data for s in module.body.block.ops if isinstance(s, StateOp)}  # type: ignore[attr-defined]
    for _ in range(2):
        ours, theirs = copy.deepcopy(inputs), copy.deepcopy(inputs)
        with torch.no_grad():
            expected = model(*theirs)
        try:
            got = interpreter.run(ours)
        except EtirError as error:
            if len(cases) == 1:
                return {cases[0].name: str(error)}
            return {name: why for case in cases for name, why in run([case], rows).items()}
        for index, case in enumerate(cases):
            buffer = model.get_buffer(f"b{index}")
            state = interpreter.state(f"b{index}") if f"b{index}" in states else case.start
            pairs = [
                (ours[index], theirs[index]),
                (state, buffer),
                *zip(got[2 * index : 2 * index + 2], expected[2 * index : 2 * index + 2], strict=True),
            ]
            for what, (a, b) in zip(("input", "buffer", "intermediate", "row"), pairs, strict=True):
                same = a.dtype == b.dtype and a.shape == b.shape
                if not same or not torch.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True):
                    wrong[case.name] = f"{what}: {a} for {b}"
    return wrong


def run_all(cases: Sequence[Case], rows: bool) -> dict[str, str]:
    """The same of any number of cases."""
    wrong: dict[str, str] = {}
    for start in range(0, len(cases), BATCH):
        wrong |= run(cases[start : start + BATCH], rows)
    return wrong
