"""The nodes inside of delegates in the interpreter: where their backend knows what they mean, each is seen.

A runtime shows nothing of what lies inside of a delegate. A backend that interprets its blobs node by node
(:meth:`~etir.backends.api.interface.Backend.watched`) tells of each node, and takes another value in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Operation

from etir.backends.api.interface import Backend
from etir.backends.api.registry import backend_of_runtime_id
from etir.dialects.et.instructions import DelegateCallOp
from etir.interpret.evaluator import Evaluator
from etir.interpret.interpreter import BlobRunner

Told = Callable[[str, int, Any], Any]
"""Hears of the delegate's symbol, the node's number and a tensor of the evaluator; what it returns, unless that is
None, takes the place of the value."""


class NodeWatch:
    """Gives the interpreter backends whose nodes are seen.

    ``symbol`` is the delegate that is called: set by hand, or by :meth:`begin` before each instruction.
    """

    def __init__(self, told: Told, symbol: str = ""):
        self.told, self.symbol = told, symbol

    def begin(self, op: Operation) -> None:
        """An instruction is executed next."""
        if isinstance(op, DelegateCallOp):
            self.symbol = op.delegate.root_reference.data

    def runner(self, runtime_id: str) -> BlobRunner | None:
        """What runs the blobs of a backend, as the interpreter asks for it."""
        backend = backend_of_runtime_id(runtime_id)
        return None if backend is None else _Watched(self, backend)


class _Watched:
    def __init__(self, watch: NodeWatch, backend: Backend):
        self.watch, self.backend = watch, backend

    def lowered_function(self, func: Any, weight: Callable[[str], Any], evaluator: Evaluator) -> Any:
        return self.backend.lowered_function(func, weight, evaluator)

    def executable(
        self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview], evaluator: Evaluator
    ) -> Callable[[Sequence[Any]], list[Any]] | None:
        found = self.backend.watched(blob, named_data, evaluator, self._told)
        return self.backend.executable(blob, named_data, evaluator) if found is None else found

    def _told(self, number: int, held: Any) -> Any:
        return self.watch.told(self.watch.symbol, number, held)
