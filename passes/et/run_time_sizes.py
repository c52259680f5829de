"""What is known about the sizes of a method's tensors at run time, from its instructions alone.

Text that the pipeline made says the dims of dynamic buffers (``et.sizes``). What was read from a file does not, since a
file has upper bounds only; yet whether an instruction may write its result over an operand can depend on two sizes
being equal. Here they are found out again: every dim of an input is a symbol, an instruction gives its results the
sizes that follow from those of its operands (the rules of ``lowering/build/inference``), and what the method checks
before it computes (``etir::check_size``, or a comparison that leads to a block without return) is known of the symbols.

Only what holds for every run is said. Rules take for granted what ``torch.export`` has checked, so that two different
symbols never broadcast here and a slice must be proved to lie inside. What a rule does not tell is a symbol of the
instruction that makes it, or nothing at all where the instruction can run twice; a tensor that several instructions
write has the dims that all of them give it. Since a loop can contradict what was thought at its first pass, passes are
made until nothing changes: dims are only ever given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import i64
from etir.dialects.et.arguments import ListArg
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp, InputsOp, JumpFalseOp, MoveOp
from etir.dialects.et.layout import Dim, dims_of, order_of, tensor_type
from etir.dialects.et.values import BufferOp, ScalarOp, ViewOp
from etir.dialects.literals import scalar_of
from etir.dialects.schema import OpSchema
from etir.dialects.sym.expr import SymExpr, as_expr, ceildiv, prove_le, sym_max, sym_min, symbol
from etir.lowering.build.dims import exact_quotient, product
from etir.lowering.build.inference import has_rule, infer, is_pointwise
from etir.lowering.build.sizes import Size
from etir.passes.analysis.block_ways import certain_blocks, repeated_blocks, returns
from etir.passes.analysis.call_arguments import BoundCall, bind
from etir.passes.analysis.in_place import InPlaceKernels, known_in_place_kernels
from etir.passes.analysis.memory_effects import schema_of_kernel
from etir.passes.et.call_rules import functional_of, given_for_rule

Dims: TypeAlias = "tuple[Dim | None, ...]"
"""The dims of a tensor: an int, an expression over what one run has, or None where nothing is known."""

_NUMBERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "executorch_prim::add.Scalar": lambda a, b: a + b,
    "executorch_prim::sub.Scalar": lambda a, b: a - b,
    "executorch_prim::mul.Scalar": lambda a, b: a * b,
    "executorch_prim::floordiv.Scalar": lambda a, b: a // b,
    "executorch_prim::mod.Scalar": lambda a, b: a % b,
    "executorch_prim::sym_min.Scalar": sym_min,
    "executorch_prim::sym_max.Scalar": sym_max,
}
_PRIMITIVES = ("aten::sym_size.int", "aten::sym_numel", "aten::_local_scalar_dense")
_END = 1 << 62
"""From here on, the end of a slice is that of the tensor."""


def run_time_sizes(ctx: EtContext, method: MethodOp) -> dict[SSAValue, Dims]:
    """The dims of the tensors of a method, by value; those of which nothing is known are missing or None.

    Two tensors with equal dims, none of them None, have the same sizes in every run that ends without an error.
    """
    return _Method(ctx, method).run()


class _Method:
    """The facts of a method so far; ``certain`` are blocks that every run passes once, ``again`` those in loops."""

    def __init__(self, ctx: EtContext, method: MethodOp):
        self.ctx = ctx
        self.method = method
        self.instructions = method.instructions
        self.in_place: InPlaceKernels = known_in_place_kernels()
        self.again = repeated_blocks(method)
        self.certain = certain_blocks(method, self.again)
        self.sizes: dict[SSAValue, Dims] = {}
        self.numbers: dict[SSAValue, Dim | None] = {}
        self.known: dict[str, SymExpr] = {}
        self.ranges: dict[str, tuple[int | None, int | None]] = {}
        self.equal: dict[SSAValue, tuple[Dim, Dim]] = {}
        """For bools, the two numbers that they compare."""
        self.missing: dict[SSAValue, None] = {}
        """What was read before anything gave it a size or a number."""
        self.changed = False
        self.at = 0
        self.stand_ins = 0

    def run(self) -> dict[SSAValue, Dims]:
        """Go over the instructions until nothing changes."""
        self._begin()
        self.changed = True
        while self.changed:
            self.changed = False
            self.equal = {}
            self.missing = {}
            for index, op in enumerate(self.instructions):
                self.at = index
                self._instruction(op)
            if not self.changed:
                for value in self.missing:  # what nothing before has written
                    if isinstance(value.type, TensorType):
                        self._set(value, [None] * len(_shape(value)))
                    else:
                        self._set_number(value, None)
        return self.sizes

    # --- facts ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        first: dict[SSAValue, bool] = {}
        for op in self.instructions:
            if op.parent in self.certain:
                results = dict.fromkeys(_numbers_written(op))
                for value in op.operands:
                    first.setdefault(value, value in results)
        for op in self.method.body.blocks[0].ops:
            if isinstance(op, ScalarOp) and not first.get(op.result, False):
                number = scalar_of(op.value)
                self.numbers[op.result] = number if isinstance(number, int) and op.result.type == i64 else None
            elif op.results and isinstance(op.results[0].type, TensorType):
                value = op.results[0]
                if not _is_dynamic(value):
                    self.sizes[value] = _shape(value)
                elif isinstance(op, BufferOp) and op.state is not None:
                    self.sizes[value] = (None,) * len(_shape(value))

    def _symbol(self, name: str, bound: int | None) -> Dim:
        """A symbol, or what is known of it."""
        self.ranges.setdefault(name, (0, bound))
        return self._told(symbol(name))

    def _fresh(self, value: SSAValue, dim: int) -> Dim | None:
        """What an instruction that no rule covers makes a dim of a result; nothing where that can change in a run."""
        if self._block() in self.again:
            return None
        position = list(self.instructions[self.at].operands).index(value)
        return self._symbol(f"u{self.at}_{position}_{dim}", _shape(value)[dim] if _is_bounded(value) else None)

    def _fresh_number(self) -> Dim | None:
        """The same of a number, which may be negative."""
        if self._block() in self.again:
            return None
        self.ranges.setdefault(f"u{self.at}", (None, None))
        return self._told(symbol(f"u{self.at}"))

    def _told(self, dim: Dim) -> Dim:
        dim = as_expr(dim).substitute(self.known)
        return int(dim) if dim.is_const else dim

    def _block(self) -> Block:
        block = self.instructions[self.at].parent
        assert block is not None
        return block

    def _learn(self, a: Dim | None, b: Dim | None) -> None:
        """Two numbers are equal in every run that goes on."""
        if a is None or b is None or self._block() not in self.certain:
            return
        a, b = as_expr(self._told(a)), as_expr(self._told(b))
        for one, other in ((a, b), (b, a)):
            if len(one.symbols) == 1 and one == symbol(one.symbols[0]) and one.symbols[0] not in other.symbols:
                self.known = {name: value.substitute({one.symbols[0]: other}) for name, value in self.known.items()}
                self.known[one.symbols[0]] = other
                self.sizes = {v: _each(dims, self._told) for v, dims in self.sizes.items()}
                self.numbers = {v: n if n is None else self._told(n) for v, n in self.numbers.items()}
                return

    def _set(self, value: SSAValue, dims: Sequence[Dim | None]) -> None:
        """A tensor is given sizes; what it had from another instruction is forgotten where it was different."""
        if not _is_dynamic(value):
            return
        if len(dims) != len(_shape(value)):
            dims = [None] * len(_shape(value))
        before = self.sizes.get(value)
        merged = dims if before is None else [a if a == b else None for a, b in zip(before, dims, strict=True)]
        if before is None or tuple(merged) != before:
            self.sizes[value] = tuple(merged)
            self.changed = True

    def _set_number(self, value: SSAValue, number: Dim | None) -> None:
        if value not in self.numbers:
            self.numbers[value] = number
            self.changed = True
        elif self.numbers[value] != number and self.numbers[value] is not None:
            self.numbers[value] = None
            self.changed = True

    # --- instructions -----------------------------------------------------------------------------------------------

    def _instruction(self, op: Operation) -> None:
        match op:
            case InputsOp():
                for index, value in enumerate(op.arguments):
                    if isinstance(value.type, TensorType):
                        self._set(value, [self._symbol(f"i{index}_{d}", n) for d, n in enumerate(_shape(value))])
                    elif value.type == i64:
                        self.ranges.setdefault(f"i{index}", (None, None))
                        self._set_number(value, self._told(symbol(f"i{index}")))
                    elif value in self.numbers or isinstance(value.owner, ScalarOp):
                        self._set_number(value, None)
            case MoveOp():
                self.equal.pop(op.target, None)
                if self._is_missing([op.source]):
                    pass
                elif isinstance(op.target.type, TensorType):
                    self._set(op.target, self.sizes[op.source])
                elif op.source in self.numbers:
                    self._set_number(op.target, self.numbers[op.source])
            case DelegateCallOp():
                self._delegate(op)
            case CallOp():
                self._call(op)
            case JumpFalseOp() if self._block() in self.certain and op.successors[1] in self.certain:
                # The way to the other block ends with an error.
                self._learn(*self.equal.get(op.operands[0], (None, None)))
            case _:
                pass

    def _delegate(self, op: DelegateCallOp) -> None:
        """The file does not say which arguments are results: those that nothing before has written are.

        With several ways through the method there is no telling what was written before.
        """
        straight = all(block in self.certain or not returns(block) for block in self.method.body.blocks)
        for value in op.operands:
            if isinstance(value.type, TensorType) and (value not in self.sizes or not straight):
                self._give_up(value)

    def _is_missing(self, values: Sequence[Any]) -> bool:
        """Whether there are tensors or whole numbers of which nothing is known yet: in a loop, a later instruction
        gives them the first ones.
        """
        before = len(self.missing)
        for value in values:
            if isinstance(value, SSAValue):
                known = self.sizes if isinstance(value.type, TensorType) else self.numbers
                if value not in known and (known is self.sizes or value.type == i64):
                    self.missing[value] = None
        return len(self.missing) > before or any(v in self.missing for v in values if isinstance(v, SSAValue))

    def _give_up(self, value: SSAValue) -> None:
        self._set(value, [self._fresh(value, dim) for dim in range(len(_shape(value)))])

    def _call(self, op: CallOp) -> None:
        kernel = op.kernel.data
        if kernel in ("etir::check_size", "etir::check"):
            self._check(op)
            return
        if kernel.startswith("executorch_prim::") or kernel in _PRIMITIVES:
            self._primitive(op)
            return
        schema = schema_of_kernel(self.ctx, kernel)
        bound = None if schema is None else bind(op, schema, is_primitive=False)
        if schema is None or bound is None or isinstance(bound, str):
            for value in op.operands:
                if isinstance(value.type, TensorType):
                    self._give_up(value)
            return
        if self._is_missing([v for a in bound.arguments if not a.argument.is_write for v in a.values]):
            return
        results = [t for a in bound.arguments if a.argument.is_write and a.argument.kwarg_only for t in a.tensors]
        found = self._results(schema, bound) if any(_is_dynamic(value) for value in results) else []
        for index, value in enumerate(results):
            dims = found[index] if index < len(found) and len(found[index]) == len(_shape(value)) else None
            given = [None] * len(_shape(value)) if dims is None else dims
            self._set(value, [self._fresh(value, i) if d is None else self._told(d) for i, d in enumerate(given)])

    def _items(self, op: CallOp) -> list[Any]:
        """The arguments of a call on numbers, lists as tuples."""
        operands = iter(op.arguments)

        def one(item: Any) -> Any:
            if isinstance(item, ListArg):
                return tuple(one(i) for i in item.items)
            if item is None or isinstance(item, (bool, int, float, str)):
                return item
            return next(operands)

        return [one(item) for item in op.template.data]

    def _number(self, item: Any) -> Dim | None:
        if isinstance(item, SSAValue):
            return self.numbers.get(item)
        return item if isinstance(item, int) and not isinstance(item, bool) else None

    def _check(self, op: CallOp) -> None:
        if op.kernel.data == "etir::check":
            self._learn(*self.equal.get(op.arguments[0], (None, None)))
            return
        tensor, dim, low, high, *_ = self._items(op)
        dims = self.sizes.get(tensor, ())
        if isinstance(dim, int) and 0 <= dim < len(dims) and low == high:
            self._learn(dims[dim], self._number(low))

    def _primitive(self, op: CallOp) -> None:
        kernel, items = op.kernel.data, self._items(op)
        *given, target = items
        if kernel == "executorch_prim::et_copy_index.tensor":
            if isinstance(items[0], SSAValue):  # it has a part more at every turn
                self._set(items[0], [None] * len(_shape(items[0])))
            return
        if not isinstance(target, SSAValue):
            return
        self.equal.pop(target, None)
        flat = [v for item in given for v in (item if isinstance(item, tuple) else (item,))]
        if self._is_missing(flat):
            return
        if kernel == "executorch_prim::et_view.default":
            self._view(given[0], given[1], target)
        elif target.type == i64:
            number = self._computed(kernel, given)
            self._set_number(target, self._fresh_number() if number is None else number)
        elif kernel == "executorch_prim::eq.Scalar" and self._block() in self.certain:
            a, b = map(self._number, given)
            if a is not None and b is not None:
                self.equal[target] = (a, b)

    def _computed(self, kernel: str, given: Sequence[Any]) -> Dim | None:
        """The number that a primitive operator gives, or None where that is its own."""
        dims = self.sizes.get(given[0]) if isinstance(given[0], SSAValue) else None
        if kernel == "aten::sym_size.int" and dims is not None and isinstance(at := given[1], int):
            return dims[at] if -len(dims) <= at < len(dims) else None
        if kernel == "aten::sym_numel" and dims is not None:
            known = [d for d in dims if d is not None]
            return self._told(product(known)) if len(known) == len(dims) else None
        function = _NUMBERS.get(kernel)
        numbers = [n for n in map(self._number, given) if n is not None]
        if function is None or len(numbers) != 2 or len(given) != 2 or numbers[1] == 0:
            return None
        return self._told(function(as_expr(numbers[0]), as_expr(numbers[1])))

    def _view(self, source: SSAValue, sizes: Sequence[Any], target: SSAValue) -> None:
        dims = self.sizes[source]
        given = [self._number(size) for size in sizes]
        if -1 in given:
            known = [d for d in given if d is not None and d != -1]
            rest: Dim | None = None
            if None not in dims and len(known) == len(given) - 1:
                rest = exact_quotient(product([d for d in dims if d is not None]), product(known))
            given[given.index(-1)] = rest
        self._set(target, [self._fresh(target, i) if d is None else self._told(d) for i, d in enumerate(given)])

    # --- rules ------------------------------------------------------------------------------------------------------

    def _results(self, schema: OpSchema, bound: BoundCall) -> list[Dims]:
        """The dims of what a call writes, as far as they follow from those of what it reads."""
        functional = functional_of(schema)
        if functional is None or not has_rule(functional.op_name):
            return self._of_elements(schema, bound)
        name = functional.op_name
        given: dict[str, Any] = {}
        for argument in bound.arguments:
            if argument.argument.name in functional.index:
                value = given_for_rule(argument)
                given[argument.argument.name] = (
                    tuple(map(self._given, value)) if isinstance(value, tuple) else (self._given(value))
                )
        if name in ("aten.slice.Tensor", "aten.slice_copy.Tensor"):
            return self._slice(bound, given)
        if name in _ASSUMING or not self._broadcasts(name, bound):
            return []
        try:
            types = infer(functional, {key: value for key, value in given.items() if value is not None})
        except (LookupError, TypeError, ValueError, ArithmeticError):
            return []
        return [_each(dims_of(type), self._sure) for type in types if isinstance(type, TensorType)]

    def _given(self, value: Any) -> Any:
        """An argument with what is known about it in the place of what is to be found out."""
        if not isinstance(value, SSAValue):
            return value
        if isinstance(value.type, TensorType):
            return self._tensor(value)
        number = self.numbers.get(value) if value.type == i64 else None
        if number is None:
            return value if value.type != i64 else _size(self._unknown())
        return number if isinstance(number, int) else _size(number)

    def _tensor(self, value: SSAValue) -> SSAValue:
        """A value whose type has the dims of a tensor."""
        assert isinstance(value.type, TensorType)
        dims = [self._unknown() if d is None else d for d in self.sizes[value]]
        type = tensor_type(value.type.element_type, dims, order_of(value.type))
        return Block(arg_types=[type]).args[0]

    def _unknown(self) -> SymExpr:
        self.stand_ins += 1
        return symbol(f"{_UNKNOWN}{self.stand_ins}")

    def _sure(self, dim: Dim | None) -> Dim | None:
        """A dim that is computed from known ones."""
        if isinstance(dim, SymExpr) and any(name.startswith(_UNKNOWN) for name in dim.symbols):
            return None
        return dim

    def _broadcasts(self, name: str, bound: BoundCall) -> bool:
        """Whether the dims that an operator broadcasts are known to: the rules take the first of two symbols."""
        if is_pointwise(name):
            shapes = [self.sizes[t] for a in bound.arguments if not a.argument.is_write for t in a.tensors]
        elif name == "aten.index.Tensor":
            shapes = [self.sizes[t] for a in bound.arguments if a.argument.name == "indices" for t in a.tensors]
        else:
            return True
        for depth in range(1, max(map(len, shapes), default=0) + 1):
            dims = [shape[-depth] for shape in shapes if len(shape) >= depth and shape[-depth] != 1]
            if not any(isinstance(d, int) for d in dims) and any(d is None or d != dims[0] for d in dims[1:]):
                return False
        return True

    def _of_elements(self, schema: OpSchema, bound: BoundCall) -> list[Dims]:
        """Of a kernel without a rule that may write over its only tensor: its result has the sizes of that."""
        names = self.in_place.get(_kernel_of(schema), ())
        read = [(a, t) for a in bound.arguments if not a.argument.is_write for t in a.tensors]
        written = bound.written
        if len(read) != 1 or len(written) != 1 or read[0][0].argument.name not in names:
            return []
        return [self.sizes[read[0][1]]] if read[0][1].type == written[0].type else []

    def _slice(self, bound: BoundCall, given: Mapping[str, Any]) -> list[Dims]:
        tensor = bound.arguments[0].tensors[0]
        dims = list(self.sizes[tensor])
        at, step = given.get("dim", 0), given.get("step", 1)
        if not isinstance(at, int) or not isinstance(step, int) or step < 1 or not -len(dims) <= at < len(dims):
            return []
        size = dims[at]
        first, last = (_position(given.get(name), 0 if name == "start" else _END) for name in ("start", "end"))
        length: Dim | None = None
        if size is not None and first is not None and last is not None:
            last = size if isinstance(last, int) and last >= _END else last
            first, last = self._inside(first, size), self._inside(last, size)
            if first is not None and last is not None and prove_le(first, last, self.ranges):
                length = ceildiv(last - first, step)
        dims[at] = self._sure(length)
        return [tuple(dims)]

    def _inside(self, position: Dim, size: Dim) -> Dim | None:
        """A place in a dim counted from its start, or None where it might be outside."""
        if isinstance(position, int) and position < 0:
            return size + position if prove_le(-position, size, self.ranges) else None
        if prove_le(position, size, self.ranges) and prove_le(0, position, self.ranges):
            return position
        return min(position, size) if isinstance(position, int) and isinstance(size, int) else None


_ASSUMING = frozenset({"aten.diagonal.default", "aten.diagonal_copy.default"})
"""Operators whose rules take more for granted about a symbol than the kernels check."""
_UNKNOWN = "unknown"


def _kernel_of(schema: OpSchema) -> str:
    """The kernel's name, ``aten::add.out``, of its schema."""
    return f"{schema.namespace}::{schema.name}" + (f".{schema.overload}" if schema.overload else "")


def _position(value: Any, default: int) -> Dim | None:
    if value is None:
        return default
    if isinstance(value, Size):
        return None if any(name.startswith(_UNKNOWN) for name in value.expr.symbols) else value.expr
    return value if isinstance(value, int) else None


def _size(expr: SymExpr) -> Size:
    """An expression as an argument of a rule, which asks for nothing else."""
    return Size(None, expr, None)  # type: ignore[arg-type]


def _each(dims: Sequence[Dim | None], function: Callable[[Dim], Dim | None]) -> Dims:
    return tuple(None if d is None else function(d) for d in dims)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def _is_dynamic(value: SSAValue) -> bool:
    return isinstance(value.owner, (BufferOp, ViewOp)) and value.owner.dynamic is not None


def _is_bounded(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, (BufferOp, ViewOp)) and owner.dynamic is not None and owner.dynamic.data == "bound"


def _numbers_written(op: Operation) -> Sequence[SSAValue]:
    """What an instruction gives a number."""
    match op:
        case InputsOp():
            return op.arguments
        case MoveOp():
            return (op.target,)
        case CallOp() if op.kernel.data.startswith("executorch_prim::") or op.kernel.data in _PRIMITIVES:
            return op.operands[-1:]
        case _:
            return ()
