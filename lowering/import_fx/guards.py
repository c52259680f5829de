"""Torch's guards on the sizes of inputs as ``sym.assert``: what was found to hold while the program was traced.

``torch.export`` keeps them as Python, ``L['x'].size()[0] % 4 == 0``, and checks them before it runs the program. What
the types and ranges say already (that two dims are equal, a range) is left out, and so is what is no comparison of
integer expressions of sizes: those guards are about Python objects that no program has.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import NameLoc, StringAttr, TensorType, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from etir.diagnostics import EtirError
from etir.dialects.et.layout import dims_of
from etir.dialects.sym.expr import SymExpr, as_expr, bounds, from_sympy, sym_max, sym_min
from etir.dialects.sym.ops import AssertOp, arithmetic
from etir.dialects.sym.requirements import SMALLEST, UNSPECIALIZED
from etir.lowering.build.sizes import SizePool

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}

_OPERATORS: dict[type[ast.operator], Callable[[SymExpr, SymExpr], SymExpr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: dict[str, Callable[..., SymExpr]] = {
    "max": sym_max,
    "Max": sym_max,
    "min": sym_min,
    "Min": sym_min,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
}

Ranges = Mapping[str, tuple[int, int | None]]
Sizes = Mapping[str, SymExpr]

MAX_POWER = 8
"""The largest exponent of a size that becomes a product."""


def add_guards(
    program: ExportedProgram,
    names: Sequence[str],
    inputs: Mapping[str, SSAValue],
    labels: Sequence[str],
    numbers: Mapping[SSAValue, SymExpr],
    ranges: Ranges,
    block: Block,
) -> None:
    """Append the assertions to ``block``.

    ``names`` are those of the arguments of ``forward``, ``inputs`` the values of the program's inputs by the names of
    its placeholders, ``labels`` what messages call them, ``numbers`` the sizes of those that are numbers,
    ``ranges`` those of torch's symbols.
    """
    found = _input_paths(program, names, inputs)
    guards = [*getattr(program, "_guards_code", ()), *_of_derived_dims(program, found)]
    sizes = _sizes(found, numbers)
    enforced = _enforced(ranges, numbers.values())
    labeled = dict(zip(inputs.values(), labels, strict=True))
    words = {path: labeled[value] for path, value in found.items()}
    pool = SizePool(lambda op: _added(block, op), inputs.values(), lambda cls: cls, numbers)
    for text in dict.fromkeys(guards):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            continue
        parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
        for part in parts:
            _add(part, sizes, words, enforced, pool, block)


def _of_derived_dims(program: ExportedProgram, inputs: Mapping[str, SSAValue]) -> list[str]:
    """The least sizes of dims like ``2 * k - 1``, which have ranges of their own."""
    least: dict[SymExpr, int] = {}
    for size, span in program.range_constraints.items():
        if not size.is_Symbol and span.lower.is_Integer and span.lower > UNSPECIALIZED:
            least[from_sympy(size)] = int(span.lower)
    found: list[str] = []
    for path, value in inputs.items() if least else ():
        for i, dim in enumerate(dims_of(value.type) if isinstance(value.type, TensorType) else ()):
            low = least.pop(dim, None) if isinstance(dim, SymExpr) else None
            if low is not None:
                found.append(f"{path}.size()[{i}] >= {low}")
    return found


def _enforced(ranges: Ranges, numbers: Iterable[SymExpr]) -> dict[str, tuple[int, int | None]]:
    """The ranges that are checked already: small least sizes are not, and numbers may be negative."""
    lowest = {name: SMALLEST for size in numbers for name in size.symbols}
    return {name: (low if low > UNSPECIALIZED else lowest.get(name, 0), high) for name, (low, high) in ranges.items()}


def _add(part: ast.expr, sizes: Sizes, words: Mapping[str, str], ranges: Ranges, pool: SizePool, block: Block) -> None:
    """One comparison, or a chain of them."""
    if not isinstance(part, ast.Compare):
        return
    terms = [part.left, *part.comparators]
    for left, comparison, right in zip(terms, part.ops, terms[1:], strict=False):
        name = _COMPARISONS.get(type(comparison))
        try:
            a, b = _expression(left, sizes), _expression(right, sizes)
        except EtirError:  # A division by zero.
            continue
        if name is None or a is None or b is None or _holds(name, a, b, ranges):
            continue
        sides = [int(e) if e.is_const else pool.evaluate(e) for e in (a, b)]
        if any(side is None for side in sides):
            continue
        numbers = [pool.scalar(side) for side in sides if side is not None]
        condition = _added(block, arithmetic(name, *numbers))
        text = _in_words(ast.Compare(left, [comparison], [right]), words)
        _added(block, AssertOp(condition.results[0], text))


def _in_words(comparison: ast.Compare, words: Mapping[str, str]) -> str:
    """``x.size(0) % 4 == 0``"""
    text = ast.unparse(comparison)
    for path, word in words.items():
        text = text.replace(path, word)
    return re.sub(r"\.size\(\)\[(\d+)\]", r".size(\1)", text)


def _added(block: Block, op: Operation) -> Operation:
    op.location = NameLoc(StringAttr("guard"), UnknownLoc())
    block.add_op(op)
    return op


def _holds(name: str, a: SymExpr, b: SymExpr, ranges: Ranges) -> bool:
    """Whether the declared ranges imply a comparison."""
    low, high = bounds(a - b, ranges)
    match name:
        case "eq":
            return low == high == 0
        case "ne":
            return (low is not None and low > 0) or (high is not None and high < 0)
        case "ge":
            return low is not None and low >= 0
        case "gt":
            return low is not None and low > 0
        case "le":
            return high is not None and high <= 0
        case _:
            return high is not None and high < 0


def _expression(node: ast.expr, sizes: Sizes) -> SymExpr | None:
    """The expression over the symbols of the inputs' types; None for what is no integer of sizes."""
    match node:
        case ast.Constant(value=int(value)):
            return as_expr(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _expression(operand, sizes)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(exponent))) if 0 < exponent <= MAX_POWER:
            base = _expression(left, sizes)
            return None if base is None else as_expr(math.prod([base] * (exponent - 1), start=base))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _applied(_OPERATORS[type(op)], (left, right), sizes)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _applied(_FUNCTIONS[name], args, sizes)
        case _:
            return sizes.get(ast.unparse(node))


def _applied(function: Callable[..., SymExpr], nodes: Sequence[ast.expr], sizes: Sizes) -> SymExpr | None:
    operands = [_expression(node, sizes) for node in nodes]
    return None if any(o is None for o in operands) else as_expr(function(*operands))


def _sizes(inputs: Mapping[str, SSAValue], numbers: Mapping[SSAValue, SymExpr]) -> dict[str, SymExpr]:
    """Sizes by the expressions that guards have for them, ``L['x'].size()[0]``, and numbers, ``L['n']``."""
    found: dict[str, SymExpr] = {}
    for path, value in inputs.items():
        if isinstance(value.type, TensorType):
            found |= {f"{path}.size()[{i}]": as_expr(d) for i, d in enumerate(dims_of(value.type))}
        elif value in numbers:
            found[path] = numbers[value]
    return found


def _input_paths(program: ExportedProgram, names: Sequence[str], inputs: Mapping[str, SSAValue]) -> dict[str, SSAValue]:
    """Inputs by the expressions that guards have for them: ``L['x']``, ``L['pair'][0]``, ``L['rest'][1]`` of ``*rest``,
    and ``L['flat_args'][3]``, the number of the input, where torch has traced the bytecode."""
    spec: Any = program.call_spec.in_spec
    if spec is None:
        return {}
    arguments = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    values = list(inputs.values())
    found: dict[str, SSAValue] = {}
    others: dict[str, SSAValue] = {}
    for path, leaf in pytree.tree_flatten_with_path(arguments, is_leaf=lambda value: value is None)[0]:
        if leaf is None or leaf >= len(values):
            continue
        place: Any = path[0]
        first: Any = path[1]
        rest = pytree.keystr(path[2:])
        others[_spelled("flat_args", leaf)] = values[leaf]
        if getattr(place, "idx", 0) != 0:
            found[f"L['{first.key}']{rest}"] = values[leaf]
            others[f"L['kwargs']['{first.key}']{rest}"] = values[leaf]
            continue
        others[_spelled("args", first.idx) + rest] = values[leaf]
        if first.idx >= len(names):
            continue
        name: str = names[int(first.idx)]
        found[f"L['{name}']{rest}"] = values[leaf]
        several = re.fullmatch(r"(.+)_(\d+)", name)
        if several is not None:
            others[_spelled(several[1], int(several[2])) + rest] = values[leaf]
    return {**others, **found}


def _spelled(name: str, index: int) -> str:
    return f"L['{name}'][{index}]"
