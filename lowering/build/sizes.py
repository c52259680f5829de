"""Dynamic sizes, as arguments of new operations.

A :class:`Size` is a symbolic dim together with the runtime scalar that has its value. The scalar is created when an
operation needs it and not before: a size that a reshape can write as ``-1`` costs no instruction. Arithmetic on sizes
works on both halves; a result without symbols is an int again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.edge import ops as edge
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.signatures import number_input
from etir.dialects.sym.atoms import Kind
from etir.dialects.sym.expr import SymExpr, as_expr, sym_max, sym_min, symbol
from etir.dialects.sym.normal import operands_of
from etir.dialects.sym.ops import ArithmeticOp, ConstantOp, arithmetic

MAX_PRODUCERS = 32
"""How many operations :func:`dim_of` looks through."""


class SizePool:
    """Where the runtime scalars of one rewrite come from: each expression gets one value, created once.

    ``sources`` are the tensors whose dims are the sizes to start from, and numbers, of which ``numbers`` tells the size
    where their operations do not; ``insert`` puts operations into the program,
    and ``op_class`` gives the operator of the level that the program is at for the one of ATen.
    """

    def __init__(
        self,
        insert: Callable[[Operation], Operation],
        sources: Iterable[SSAValue],
        op_class: Callable[[type[SchemaOp]], type[SchemaOp]],
        numbers: Mapping[SSAValue, Dim] | None = None,
    ):
        self.insert = insert
        self.op_class = op_class
        sources = list(sources)
        self.sources = [s for s in sources if isinstance(s.type, TensorType)]
        scalars = (s for s in sources if not isinstance(s.type, TensorType))
        self.numbers = {s: dim_of(s) for s in scalars} if numbers is None else numbers
        self.values: dict[SymExpr, SSAValue] = {}

    def size_of(self, tensor: SSAValue, dim: int) -> SizeLike:
        """Dim ``dim`` (from 0) of ``tensor``."""
        expr = _tensor_dims(tensor)[dim]
        return expr if isinstance(expr, int) else Size(self, expr, lambda: self._read(tensor, dim))

    def given(self, value: SSAValue) -> SizeLike | None:
        """A runtime scalar of the program as a size, or None when nothing is known about it."""
        expr = dim_of(value)
        return expr if expr is None or isinstance(expr, int) else Size(self, expr, lambda: value)

    def value(self, size: Size) -> SSAValue:
        """The runtime scalar of ``size``."""
        value = self.values.get(size.expr)
        if value is None:
            value = self.values[size.expr] = self._find(size.expr) or size.make()
        return value

    def _find(self, expr: SymExpr) -> SSAValue | None:
        for source in self.sources:
            for i, dim in enumerate(_tensor_dims(source)):
                if dim == expr:
                    return self._read(source, i)
        return None

    def evaluate(self, wanted: Dim) -> SizeLike | None:
        """A dim computed from the sizes of the sources; None when a symbol is in none of them."""
        if isinstance(wanted, int):
            return wanted
        known = {name: self._symbol(name) for name in wanted.symbols}
        if any(size is None for size in known.values()):
            return None
        return evaluate_dim(wanted, lambda name: known[name], _SIZE_OPERATORS)

    def _symbol(self, name: str) -> SizeLike | None:
        """The size that a symbol stands for, from a dim ``a * symbol + b``."""
        for source in self.sources:
            for i, given in enumerate(_tensor_dims(source)):
                if isinstance(given, int) or given.symbols != (name,):
                    continue
                rest = given.substitute({name: 0})
                factor = given.substitute({name: 1}) - rest
                if factor * symbol(name) + rest == given and int(factor) > 0:
                    return (self.size_of(source, i) - int(rest)) // int(factor)
        number = next((value for value, size in self.numbers.items() if size == symbol(name)), None)
        return None if number is None else Size(self, symbol(name), lambda: number)

    def _read(self, tensor: SSAValue, dim: int) -> SSAValue:
        op = self.op_class(aten.sym_size.int).make({"self": tensor, "dim": dim}, [i64])
        return self.insert(op).results[0]

    def scalar(self, size: SizeLike) -> SSAValue:
        """The runtime scalar of any size; an int becomes a constant."""
        return size.value if isinstance(size, Size) else self.insert(ConstantOp(size)).results[0]

    def combine(self, name: str, expr: Dim, a: SizeLike, b: SizeLike) -> SizeLike:
        """The size ``expr``, computed at run time as ``sym.<name>`` of ``a`` and ``b``."""
        expr = as_expr(expr)
        if expr.is_const:
            return int(expr)
        return Size(self, expr, lambda: self.insert(arithmetic(name, self.scalar(a), self.scalar(b))).results[0])


class Size:
    """A size that is not a constant. ``value`` is the runtime scalar (i64), created on first use."""

    __slots__ = ("expr", "make", "pool")

    def __init__(self, pool: SizePool, expr: SymExpr, make: Callable[[], SSAValue]):
        self.pool = pool
        self.expr = expr
        self.make = make

    @property
    def value(self) -> SSAValue:
        """The runtime scalar."""
        return self.pool.value(self)

    def __add__(self, other: SizeLike) -> SizeLike:
        return self if other == 0 else self.pool.combine("add", self.expr + dim(other), self, other)

    def __sub__(self, other: SizeLike) -> SizeLike:
        return self if other == 0 else self.pool.combine("sub", self.expr - dim(other), self, other)

    def __rsub__(self, other: int) -> SizeLike:
        return self.pool.combine("sub", other - self.expr, other, self)

    def __mul__(self, other: SizeLike) -> SizeLike:
        return self if other == 1 else self.pool.combine("mul", self.expr * dim(other), self, other)

    def __floordiv__(self, other: SizeLike) -> SizeLike:
        return self if other == 1 else self.pool.combine("floordiv", self.expr // dim(other), self, other)

    def __rfloordiv__(self, other: int) -> SizeLike:
        return self.pool.combine("floordiv", other // self.expr, other, self)

    def __mod__(self, other: SizeLike) -> SizeLike:
        return self.pool.combine("mod", self.expr % dim(other), self, other)

    def __rmod__(self, other: int) -> SizeLike:
        return self.pool.combine("mod", other % self.expr, other, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"Size({self.expr})"


SizeLike: TypeAlias = int | Size


def dim(size: SizeLike) -> Dim:
    """The dim of a tensor type that ``size`` stands for."""
    return size.expr if isinstance(size, Size) else size


def minimum(a: SizeLike, b: SizeLike) -> SizeLike:
    """The smaller of two sizes."""
    return _extremum("min", a, b)


def maximum(a: SizeLike, b: SizeLike) -> SizeLike:
    """The larger of two sizes."""
    return _extremum("max", a, b)


def _extremum(name: str, a: SizeLike, b: SizeLike) -> SizeLike:
    pool = a.pool if isinstance(a, Size) else b.pool if isinstance(b, Size) else None
    if pool is None:
        assert isinstance(a, int) and isinstance(b, int)
        return min(a, b) if name == "min" else max(a, b)
    expr = (sym_min if name == "min" else sym_max)(dim(a), dim(b))
    return a if expr == dim(a) else b if expr == dim(b) else pool.combine(name, expr, a, b)


def product(sizes: Iterable[SizeLike]) -> SizeLike:
    """The product of sizes."""
    total: SizeLike = 1
    for size in sizes:
        total = total * size
    return total


def _tensor_dims(tensor: SSAValue) -> tuple[Dim, ...]:
    assert isinstance(tensor.type, TensorType)
    return dims_of(tensor.type)


def evaluate_dim(dim: Dim, symbol: Callable[[str], Any], operators: Mapping[Kind, Callable[[Any, Any], Any]]) -> Any:
    """``dim`` in other arithmetic: ``symbol`` gives what a symbol stands for, ``operators`` what ``+ - *`` is not."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, coefficient in dim.terms:
        product: Any = coefficient
        for atom in monomial:
            if atom.kind is Kind.SYMBOL:
                factor = symbol(atom.text)
            else:
                operands = (evaluate_dim(e, symbol, operators) for e in operands_of(atom))
                factor = functools.reduce(operators[atom.kind], operands)
            product = product * factor
        total = total + product
    return total


_SIZE_OPERATORS: dict[Kind, Callable[[Any, Any], Any]] = {
    Kind.FLOORDIV: operator.floordiv,
    Kind.MOD: operator.mod,
    Kind.MIN: minimum,
    Kind.MAX: maximum,
}


_EXPRESSIONS: dict[str, Callable[..., Dim]] = {
    "sym.add": lambda a, b: a + b,
    "sym.sub": lambda a, b: a - b,
    "sym.mul": lambda a, b: a * b,
    "sym.floordiv": lambda a, b: a // b,
    "sym.mod": lambda a, b: a % b,
    "sym.min": sym_min,
    "sym.max": sym_max,
    "sym.neg": lambda a: -a,
}


def dim_of(value: SSAValue, budget: int = MAX_PRODUCERS) -> Dim | None:
    """What is known about a runtime scalar from the operations that compute it: a dim, or None."""
    if isinstance(value, BlockArgument):
        func = value.block.parent_op()
        return number_input(func, value.index) if isinstance(func, FuncOp) and value.block is func.body.block else None
    if not isinstance(value, OpResult) or budget <= 0:
        return None
    op = value.op
    if isinstance(op, ConstantOp):
        constant = op.value
        number = getattr(getattr(constant, "value", None), "data", None)
        return number if isinstance(number, int) and value.type == i64 else None
    if isinstance(op, (aten.sym_size.int, edge.aten.sym_size.int)):
        return _tensor_dims(op.self_)[op.dim]
    if isinstance(op, ArithmeticOp) and op.name in _EXPRESSIONS:
        operands = [dim_of(argument, budget // 2) for argument in op.arguments]
        if any(operand is None for operand in operands):
            return None
        divides = op.name in ("sym.floordiv", "sym.mod")
        if divides and operands[1] == 0:
            return None
        expr = as_expr(_EXPRESSIONS[op.name](*[as_expr(o) for o in operands if o is not None]))
        return int(expr) if expr.is_const else expr
    return None
