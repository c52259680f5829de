"""Symbolic dims as torch's symbols, types as FakeTensors.

A symbol of the text becomes a backed symbol of torch's shape environment with the same range. Its hint (the size that
torch thinks of while it evaluates guards) is a prime number inside the range where there is one, another one for each
symbol, so that no comparison between sizes holds by accident and turns a symbol into a number.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StrictMinMaxConstraint
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.et.layout import Dim, dims_of, order_of
from etir.lowering.import_fx.types import TORCH_DTYPES
from etir.lowering.torch_sizes import torch_size

_PRIMES = (13, 17, 11, 19, 7, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 5, 3, 2)

Range = tuple[int, "int | None"]


class Sizes:
    """The symbols of one exported program, and FakeTensors with them."""

    def __init__(self, ranges: Mapping[str, Range], from_data: Container[str] = ()):
        self.ranges = ranges
        self.from_data = from_data
        self.taking_inputs = True
        """Whether a symbol that is met now comes with an input, and so is known to the caller even when it is a size
        from data elsewhere."""
        self.shape_env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.shape_env)
        self.symbols: dict[str, Any] = {}
        self._hints: dict[int, None] = {}

    def symbol(self, name: str) -> Any:
        """The SymInt that a symbol of the text stands for, made at its first use."""
        known = self.symbols.get(name)
        if known is None:
            low, high = self.ranges.get(name, (0, None))
            known = self.symbols[name] = self._number(name, low, high)
        return known

    def _number(self, name: str, low: int, high: int | None) -> Any:
        if high is not None and low == high:
            return low
        if not self.taking_inputs and name in self.from_data:
            size = self.shape_env.create_unbacked_symint()
            self._narrow(name, size)
            return size
        hint = self._hint(low, high)
        bounds = ValueRanges(low, int_oo if high is None else high)
        source = ConstantSource(name)
        symbol = self.shape_env.create_symbol(
            hint,
            source,
            DimDynamic.DYNAMIC,
            StrictMinMaxConstraint(vr=bounds, warn_only=False),
            do_not_specialize_zero_one=True,
        )
        return self.shape_env.create_symintnode(symbol, hint=hint, source=source)

    def _hint(self, low: int, high: int | None) -> int:
        inside = [n for n in _PRIMES if low <= n and (high is None or n <= high)]
        free = [n for n in inside if n not in self._hints]
        hint = free[0] if free else inside[0] if inside else low + 1
        self._hints[hint] = None
        return hint

    def input_number(self, type: Attribute, name: str) -> Any:
        """A number that the caller gives: an int of any sign, a float or a bool."""
        source = ConstantSource(name)
        if type == i64:
            symbol = self.shape_env.create_symbol(
                self._hint(2, None), source, DimDynamic.DYNAMIC, None, positive=None, do_not_specialize_zero_one=True
            )
            assert isinstance(symbol, sympy.Symbol)
            self.shape_env.var_to_range[symbol] = ValueRanges(-int_oo, int_oo)
            return self.shape_env.create_symintnode(symbol, hint=self._hint(2, None), source=source)
        if type == f64:
            symbol = self.shape_env.create_symbol(
                1.5, source, DimDynamic.DYNAMIC, None, positive=None, do_not_specialize_zero_one=True
            )
            return self.shape_env.create_symfloatnode(symbol, hint=1.5, source=source)
        assert type == i1
        with self.shape_env.ignore_fresh_unbacked_symbols():  # Otherwise the next operator has to give it out.
            return self.shape_env.create_unbacked_symbool()

    def size(self, dim: Dim) -> Any:
        """A dim as an int or a SymInt."""
        return torch_size(dim, self.symbol)

    def tensor(self, type: TensorType[Attribute]) -> FakeTensor:
        """A FakeTensor of a type, laid out in the type's dim order."""
        sizes, order = [self.size(d) for d in dims_of(type)], order_of(type)
        with self.mode:
            dense = torch.empty([sizes[d] for d in order], dtype=TORCH_DTYPES[type.element_type])
            found = dense if list(order) == sorted(order) else dense.permute(inverse(order))
        assert isinstance(found, FakeTensor)
        return found

    def bind(self, type: TensorType[Attribute], tensor: torch.Tensor) -> None:
        """Let symbols of a result's type that no input has stand for the sizes that torch found (sizes from data)."""
        for dim, size in zip(dims_of(type), tensor.shape, strict=True):
            if isinstance(dim, int) or not isinstance(size, torch.SymInt):
                continue
            for name in dim.symbols:
                if name not in self.symbols and str(dim) == name:
                    self.symbols[name] = size
                    self._narrow(name, size)

    def _narrow(self, name: str, size: torch.SymInt) -> None:
        """Give a size from data the range that the text declares."""
        low, high = self.ranges.get(name, (0, None))
        symbol = size.node.expr
        if symbol in self.shape_env.var_to_range:
            known = self.shape_env.var_to_range[symbol]
            self.shape_env.var_to_range[symbol] = known & ValueRanges(low, int_oo if high is None else high)


def inverse(order: tuple[int, ...]) -> list[int]:
    """The permutation that undoes ``order``."""
    return [order.index(d) for d in range(len(order))]
