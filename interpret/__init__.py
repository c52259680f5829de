"""The interpreter: what every level of the IR means, executable, with torch where it is installed and NumPy elsewhere.

``evaluator.py`` computes single operators, ``functional.py`` runs methods above the executable level, ``executable.py``
runs ``et.method`` with its planned memory for real, so that a wrong plan gives wrong numbers. Tests compare levels with
it, ``et-run module.mlir`` is its command line, and constant folding computes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from etir.interpret.interpreter import BlobRunner


def run_module(
    module: ModuleOp,
    inputs: Sequence[Any],
    method: str = "forward",
    evaluator: str = "auto",
    runner_of: Callable[[str], BlobRunner | None] | None = None,
) -> list[Any]:
    """Run a method of a module at any level once.

    ``inputs`` are NumPy arrays, torch tensors or Python values, in the order of the method's inputs. ``evaluator`` is
    ``"torch"``, ``"numpy"`` or ``"auto"`` (torch if installed). Returns the flat outputs as the evaluator's tensors and
    Python values. ``runner_of`` is as
    for :class:`Interpreter`, whose errors it raises.
    """
    from etir.interpret.interpreter import Interpreter

    return Interpreter(module, evaluator, runner_of).run(inputs, method)
