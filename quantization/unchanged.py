"""Whether a pass that must not change what a program computes has changed it: both programs run on one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.interpret.interpreter import Interpreter
from etir.quantization.calibration import run_observed
from etir.quantization.report import sqnr

CLOSE = 80.0
"""dB between results that are the same but for rounding: float32 has 150, and deep programs lose some of them."""


def same_results(before: ModuleOp, after: ModuleOp, sample: Sequence[Any], method: str = "forward") -> bool:
    """Whether the outputs of both modules for one sample are equal but for rounding. Raises E1504 for a sample that
    does not fit.
    """
    outputs: list[np.ndarray] = []
    for module in (before, after):
        interpreter = Interpreter(module)
        results = run_observed(interpreter, sample, method, lambda _op, _value: None)
        tensors = [v for v in results if interpreter.evaluator.is_tensor(v)]
        outputs.append(np.concatenate([np.asarray(v, np.float64).flatten() for v in tensors] or [np.zeros(0)]))
    finite = np.isfinite(outputs[0])
    if not np.array_equal(finite, np.isfinite(outputs[1])):
        return False
    return sqnr(outputs[0][finite], outputs[1][finite]) > CLOSE
