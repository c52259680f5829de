"""Programs of the stock pipeline that are kept as seeds of the fuzzer, to run them: their bytes, and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte

from etir_testing.runtime.fuzz_corpus import CORPUS

DTYPES = {ScalarType.LONG: np.int64, ScalarType.INT: np.int32, ScalarType.FLOAT: np.float32, ScalarType.BOOL: np.bool_}


def stock_program(name: str) -> bytes:
    """The bytes of ``stock-NAME``, one without external data; seeds have four bytes before it."""
    return (CORPUS / f"stock-{name}").read_bytes()[4:]


def method_of(program: bytes, method: str = "forward") -> pte.ExecutionPlan:
    """A method of a program."""
    return next(plan for plan in read_pte(program).execution_plan if plan.name == method)


def random_inputs(plan: pte.ExecutionPlan, seed: int = 0) -> list[Any]:
    """Inputs that fit: floats from -1 to 1, ints of 0, true; numbers as the program has them."""
    random = np.random.default_rng(seed)
    inputs: list[Any] = []
    for value in (plan.values[i] for i in plan.inputs):
        match value:
            case pte.Tensor():
                dtype = DTYPES[value.scalar_type]
                numbers = random.uniform(-1, 1, value.sizes) if dtype is np.float32 else np.zeros(value.sizes)
                ordered = np.array(numbers.astype(dtype).transpose(value.dim_order), order="C")
                inputs.append(ordered.transpose(np.argsort(value.dim_order) if value.dim_order else ()))
            case pte.Int():
                inputs.append(value.int_val)
            case pte.Double():
                inputs.append(value.double_val)
            case pte.Bool():
                inputs.append(value.bool_val)
            case pte.String():
                inputs.append(value.string_val)
            case _:
                inputs.append(None)
    return inputs
