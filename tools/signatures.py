"""What the methods of a module take and give, at any level.

A method of a ``.pte`` file and an ``et.method`` have the names in the description of their containers, a ``func.func``
in its attributes; the names of leaves are made in one place (``etir.runtime.structure``): the same ``.npz`` file fits
the program at every level.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Operation

from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import InputsOp, ReturnOp
from etir.runtime.structure import arguments_of, leaf_names, parse_structure
from etir.tools.named_arrays import MethodSignature


def signatures_of(module: ModuleOp) -> list[MethodSignature]:
    """The methods of a module at any level."""
    found: list[MethodSignature] = []
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and not op.is_declaration:
            block = op.body.block
            last = block.last_op
            results: Sequence[Attribute] = [v.type for v in last.operands] if isinstance(last, FuncReturnOp) else []
            found.append(_signature(op, op.sym_name.data, [a.type for a in block.args], results))
        elif isinstance(op, MethodOp):
            inputs, outputs = _executable_types(op, InputsOp), _executable_types(op, ReturnOp)
            found.append(_signature(op, op.sym_name.data, inputs, outputs))
    return found


def _signature(op: Operation, name: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> MethodSignature:
    takes = zip(_names(op, "in", len(inputs)), map(str, inputs), strict=True)
    gives = zip(_names(op, "out", len(outputs)), map(str, outputs), strict=True)
    return MethodSignature(name, tuple(takes), tuple(gives))


def _executable_types(method: MethodOp, kind: type[InputsOp] | type[ReturnOp]) -> list[Attribute]:
    found = [op for op in method.instructions if isinstance(op, kind)]
    return [value.type for value in found[0].arguments] if found else []


def _names(op: Operation, which: str, count: int) -> list[str | None]:
    """The names of a method's inputs or outputs: of its containers where it says how they are packed."""
    spec = op.properties.get(f"{which}_spec", op.attributes.get(f"et.{which}_spec"))
    tree = parse_structure(spec.data) if isinstance(spec, StringAttr) else None
    if which == "in":
        tree = arguments_of(tree)
    names = leaf_names(tree, count, f"{which}put")
    given = op.attributes.get(f"et.{which}put_names")
    if isinstance(given, ArrayAttr) and len(given.data) == count and (which == "in" or tree is None):
        own = [name.data if isinstance(name, StringAttr) else None for name in given.data]
        return [name or other for name, other in zip(names, own, strict=True)]
    return names
