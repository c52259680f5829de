"""Torch's guards on the sizes of inputs as ``sym.assert``: what was found to hold while the program was traced.

``torch.export`` keeps them as Python, ``L['x'].size()[0] % 4 == 0``, and checks them before it runs the program. What
the types and ranges say already (that two dims are equal, a range) is left out, and so is what is no comparison of
integer expressions of sizes: those guards are about Python objects that no program has.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import NameLoc, StringAttr, TensorType, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from etir.diagnostics import EtirError
from etir.dialects.et.layout import dims_of
from etir.dialects.sym.expr import SymExpr, as_expr, bounds, sym_max, sym_min
from etir.dialects.sym.ops import AssertOp, arithmetic
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


def add_guards(
    program: ExportedProgram, names: Sequence[str], inputs: Mapping[str, SSAValue], ranges: Ranges, block: Block
) -> None:
    """Append the assertions to ``block``.

    ``names`` are those of the arguments of ``forward``, ``inputs`` the values of the program's inputs by the names of
    its placeholders, ``ranges`` those of torch's symbols.
    """
    guards: Sequence[str] = getattr(program, "_guards_code", ())
    if not guards:
        return
    found = _input_paths(program, names, inputs)
    pool = SizePool(lambda op: _added(block, op), inputs.values(), lambda cls: cls)
    for text in dict.fromkeys(guards):
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            continue
        parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
        for part in parts:
            _add(part, found, ranges, pool, block)


def _add(part: ast.expr, inputs: Mapping[str, SSAValue], ranges: Ranges, pool: SizePool, block: Block) -> None:
    """One comparison, or a chain of them."""
    if not isinstance(part, ast.Compare):
        return
    terms = [part.left, *part.comparators]
    for left, comparison, right in zip(terms, part.ops, terms[1:], strict=False):
        name = _COMPARISONS.get(type(comparison))
        try:
            a, b = _expression(left, inputs), _expression(right, inputs)
        except EtirError:  # A division by zero.
            continue
        if name is None or a is None or b is None or _holds(name, a, b, ranges):
            continue
        if name == "ne" and any(e.is_const and int(e) in (0, 1) for e in (a, b)):
            continue  # Torch takes 0 and 1 for special sizes; the operators of a program do not.
        sizes = [int(e) if e.is_const else pool.evaluate(e) for e in (a, b)]
        if any(size is None for size in sizes):
            continue
        numbers = [pool.scalar(size) for size in sizes if size is not None]
        condition = _added(block, arithmetic(name, *numbers))
        text = _in_words(ast.Compare(left, [comparison], [right]), inputs)
        _added(block, AssertOp(condition.results[0], text))


def _in_words(comparison: ast.Compare, inputs: Mapping[str, SSAValue]) -> str:
    """``x.size(0) % 4 == 0``"""
    text = ast.unparse(comparison)
    for path, value in inputs.items():
        text = text.replace(f"{path}.size()", f"{value.name_hint or path}.size()")
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


def _expression(node: ast.expr, inputs: Mapping[str, SSAValue]) -> SymExpr | None:
    """The expression over the symbols of the inputs' types; None for what is no integer of sizes."""
    match node:
        case ast.Constant(value=int(value)):
            return as_expr(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _expression(operand, inputs)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _applied(_OPERATORS[type(op)], (left, right), inputs)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _applied(_FUNCTIONS[name], args, inputs)
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[]), slice=ast.Constant(value=int(dim))
        ):
            value = inputs.get(ast.unparse(source))
            if value is None or not isinstance(value.type, TensorType) or dim >= value.type.get_num_dims():
                return None
            return as_expr(dims_of(value.type)[dim])
        case _:
            return None


def _applied(
    function: Callable[..., SymExpr], nodes: Sequence[ast.expr], inputs: Mapping[str, SSAValue]
) -> SymExpr | None:
    operands = [_expression(node, inputs) for node in nodes]
    return None if any(o is None for o in operands) else as_expr(function(*operands))


def _input_paths(program: ExportedProgram, names: Sequence[str], inputs: Mapping[str, SSAValue]) -> dict[str, SSAValue]:
    """Inputs by the expression that guards have for them: ``L['x']``, ``L['pair'][0]``, ``L['args'][1]``."""
    spec: Any = program.call_spec.in_spec
    if spec is None:
        return {}
    arguments = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    values = list(inputs.values())
    found: dict[str, SSAValue] = {}
    for path, leaf in pytree.tree_flatten_with_path(arguments)[0]:
        place: Any = path[0]
        first: Any = path[1]
        rest = pytree.keystr(path[2:])
        is_positional = getattr(place, "idx", 0) == 0
        if not is_positional:
            roots = [f"['{first.key}']"]
        else:
            roots = [f"['args'][{first.idx}]"]
            if first.idx < len(names):
                roots.append(f"['{names[first.idx]}']")
        if leaf < len(values):
            found.update({ast.unparse(ast.parse(f"L{root}{rest}", mode="eval")): values[leaf] for root in roots})
    return found
