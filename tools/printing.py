"""How a tool prints modules: generic form, locations, and without the weights.

``--elide-weights`` prints the payload of every weight and state as ``#et.synthetic<seed = n>``, with the same ``n`` for
equal bytes. Such text is valid at every level: it parses, verifies, runs and can be handed on without the weights file.
What is lost is the values, so it is for reading and for reporting bugs.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.et.weights import BlobAttr, SyntheticAttr


@dataclass(frozen=True)
class PrintOptions:
    """The form of printed modules."""

    generic: bool = False
    locations: bool = False
    elide_weights: bool = False

    def render(self, module: Operation) -> str:
        """The text of a module, with a final newline."""
        stream = StringIO()
        printer = ElidingPrinter if self.elide_weights else Printer
        printer(stream=stream, print_generic_format=self.generic, print_debuginfo=self.locations).print_op(module)
        return stream.getvalue() + "\n"


class ElidingPrinter(Printer):
    """Prints synthetic payloads for the bytes of weights and states; a delegate's bytes have no such stand-in."""

    def print_op(self, op: Operation) -> None:
        """Print an operation, knowing whether blobs below are those of a weight."""
        self._in_weight = isinstance(op, (WeightOp, StateOp))
        super().print_op(op)
        self._in_weight = False

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, or what stands for a weight's bytes."""
        if isinstance(attribute, BlobAttr) and self._in_weight:
            attribute = SyntheticAttr(self._seeds.setdefault(attribute.data.digest, len(self._seeds) + 1))
        super().print_attribute(attribute)

    def __init__(self, **settings: object):
        super().__init__(**settings)  # type: ignore[arg-type]
        self._in_weight = False
        self._seeds: dict[str, int] = {}
