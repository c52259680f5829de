"""What it means that a program still computes the same: the question that searches ask again and again.

An answer is "good", "bad", or "unresolved" for a program that cannot be judged: it does not verify, or there is an
operation in it that the interpreter has no meaning for (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", 2002, call that so, and delta debugging steps around it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import OpResult, SSAValue

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.values.arrays import dtype_name, largest_of, roundoff
from etir.devtools.values.interpreted import as_array, copied
from etir.diagnostics import EtirError
from etir.interpret.interpreter import Interpreter


class Answer(Enum):
    """Whether a program does what it should."""

    GOOD = "good"
    BAD = "bad"
    UNRESOLVED = "unresolved"


def difference(wanted: Any, got: Any, roundoff: float = 0.0) -> float:
    """The largest difference of two outputs, relative to the largest finite number that is wanted (at least 1e-6).

    ``roundoff`` is how much numbers may differ for nothing: a sum that cancels is as inexact as its terms are large.
    Infinite where the shapes differ, or one is NaN or infinite and the other is not the same.
    """
    a, b = np.asarray(wanted), np.asarray(got)
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    if not (np.issubdtype(a.dtype, np.number) or a.dtype == np.bool_):
        return 0.0 if bool((a == b).all()) else float("inf")
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(a)
    same = np.where(np.isnan(a), np.isnan(b), a == b)
    if not bool((finite & np.isfinite(b) | same).all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    scale = max(float(np.abs(a[finite]).max()), 1e-6)
    return max(float(np.abs(a[finite] - b[finite]).max()) - roundoff, 0.0) / scale


def run(module: ModuleOp, inputs: Sequence[Any], method: str, evaluator: str = "auto") -> list[Any]:
    """Outputs of a method, and what it leaves in the inputs that it writes, as arrays and Python values.

    Raises what the interpreter does (E10xx).
    """
    given = [copied(value) for value in inputs]
    interpreter = Interpreter(module, evaluator, backend_of_runtime_id)
    outputs = interpreter.run(given, method)
    return [as_array(v) if hasattr(v, "shape") else v for v in (*outputs, *given)]


def reference_run(module: ModuleOp, inputs: Sequence[Any], method: str) -> tuple[list[Any], list[float]]:
    """What :func:`run` gives, and by how much each of that may be off by rounding alone.

    An output is as inexact as the numbers that the operation before it was given are large.
    """
    largest: dict[SSAValue, float] = {}
    dtypes: dict[SSAValue, str] = {}
    interpreter = Interpreter(module, "auto", backend_of_runtime_id)

    def watch(value: SSAValue, held: Any) -> None:
        if interpreter.evaluator.is_tensor(held):
            largest[value], dtypes[value] = largest_of(held), dtype_name(held)

    interpreter.watch = watch
    given = [copied(value) for value in inputs]
    outputs = interpreter.run(given, method)
    func = interpreter.symbols.get(method)
    end = func.body.block.last_op if isinstance(func, FuncOp) else None
    returned = list(end.operands) if isinstance(end, ReturnOp) else []
    spare = [0.0] * (len(outputs) + len(given))
    for index, value in enumerate(returned):
        if isinstance(value, OpResult) and value in dtypes:
            read = max((largest.get(operand, 0.0) for operand in value.owner.operands), default=0.0)
            spare[index] = roundoff(dtypes[value], read)
    return [as_array(v) if hasattr(v, "shape") else v for v in (*outputs, *given)], spare


@dataclass
class SameNumbers:
    """The check that a program gives what a reference gives, on every sample, within a tolerance.

    ``spare`` is by how much each output of each sample may be off besides.
    """

    samples: Sequence[Sequence[Any]]
    reference: Sequence[Sequence[Any]]
    method: str = "forward"
    tolerance: float = 1e-4
    spare: Sequence[Sequence[float]] = ()
    count: int = field(default=0, init=False)
    """How often it was asked."""
    worst: float = field(default=0.0, init=False)
    """The largest difference of the last program that was judged."""

    @staticmethod
    def of(module: ModuleOp, samples: Sequence[Sequence[Any]], method: str, tolerance: float) -> SameNumbers:
        """The check against what ``module`` gives now. Raises what the interpreter does."""
        found = [reference_run(module, sample, method) for sample in samples]
        return SameNumbers(samples, [out for out, _ in found], method, tolerance, [spare for _, spare in found])

    def __call__(self, module: ModuleOp) -> Answer:
        """Judge a program."""
        self.count += 1
        self.worst = 0.0
        spares = self.spare or [[0.0] * len(wanted) for wanted in self.reference]
        for sample, wanted, spare in zip(self.samples, self.reference, spares, strict=True):
            try:
                got = run(module, sample, self.method)
            except EtirError:
                return Answer.UNRESOLVED
            if len(got) != len(wanted):
                self.worst = float("inf")
            else:
                self.worst = max([self.worst, *map(difference, wanted, got, spare)])
        return Answer.BAD if self.worst > self.tolerance else Answer.GOOD
