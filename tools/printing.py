"""How a tool prints modules: generic form, locations, and without the weights.

``--elide-weights`` prints the payload of every weight and state as ``#et.synthetic<seed = n>``, with the same ``n`` for
equal bytes. Such text is valid at every level: it parses, verifies, runs and can be handed on without the weights file.
What is lost is the values, so it is for reading and for reporting bugs. ``--mlir-elide-elementsattrs-if-larger`` is for
reading only: as in MLIR, the values of large constants are gone, and the text does not say what the program computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.et.weights import BlobAttr, SyntheticAttr

ELIDED = "__elided__"
"""What MLIR calls the elements that it does not print."""


@dataclass(frozen=True)
class PrintOptions:
    """The form of printed modules."""

    generic: bool = False
    locations: bool = False
    elide_weights: bool = False
    largest_elements: int | None = None
    """Constants with more elements are printed without their values; None for no such limit."""

    def render(self, module: Operation) -> str:
        """The text of a module, with a final newline."""
        stream = StringIO()
        if self.elide_weights or self.largest_elements is not None:
            printer: Printer = ElidingPrinter(
                self.elide_weights,
                self.largest_elements,
                stream=stream,
                print_generic_format=self.generic,
                print_debuginfo=self.locations,
            )
        else:
            printer = Printer(stream=stream, print_generic_format=self.generic, print_debuginfo=self.locations)
        printer.print_op(module)
        return stream.getvalue() + "\n"


class ElidingPrinter(Printer):
    """Prints synthetic payloads for the bytes of weights and states; a delegate's bytes have no such stand-in.

    Constants that are larger than a limit are ``dense_resource<__elided__>``, as mlir-opt prints them.
    """

    def __init__(self, weights: bool, largest_elements: int | None, **settings: Any):
        super().__init__(**settings)
        self._weights = weights
        self._largest = largest_elements
        self._in_weight = False
        self._seeds: dict[str, int] = {}

    def print_op(self, op: Operation) -> None:
        """Print an operation, knowing whether blobs below are those of a weight."""
        self._in_weight = self._weights and isinstance(op, (WeightOp, StateOp))
        super().print_op(op)
        self._in_weight = False

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, or what stands for a weight's bytes or for many elements."""
        if isinstance(attribute, BlobAttr) and self._in_weight:
            attribute = SyntheticAttr(self._seeds.setdefault(attribute.data.digest, len(self._seeds) + 1))
        elif isinstance(attribute, DenseIntOrFPElementsAttr) and self._is_large(attribute):
            self.print_string(f"dense_resource<{ELIDED}> : ")
            attribute = attribute.get_type()
        super().print_attribute(attribute)

    def _is_large(self, elements: DenseIntOrFPElementsAttr) -> bool:
        """A splat is one element, however many it stands for."""
        return self._largest is not None and not elements.is_splat() and len(elements) > self._largest
