"""Evaluators by name. torch is imported when its evaluator is asked for, NumPy's operators when theirs is."""

from __future__ import annotations

import importlib.util

from etir.interpret.errors import E1001
from etir.interpret.evaluator import Evaluator


def get_evaluator(name: str = "auto") -> Evaluator:
    """``"torch"``, ``"numpy"``, or ``"auto"``: torch if it is installed. Raises error E1001 when torch is missing."""
    if name == "auto":
        name = "torch" if importlib.util.find_spec("torch") is not None else "numpy"
    if name == "numpy":
        from etir.interpret.numpy_evaluator import NumpyEvaluator

        return NumpyEvaluator()
    try:
        from etir.interpret.torch_evaluator import TorchEvaluator
    except ImportError:
        raise E1001.error("the torch evaluator needs torch, which is not installed") from None
    return TorchEvaluator()
