"""`state-methods`: methods by which a program's state is read and written from outside.

Before::

    et.state @cache : tensor<4x8xf32> {fqn = "cache"}
    func.func @forward(...) { ... et.write_state @cache, %1 ... }

After, besides::

    func.func @__et_state_names() -> !et.string { ... "cache" ... }
    func.func @__et_read_state() -> tensor<4x8xf32> { %0 = et.read_state @cache ... func.return %0 }
    func.func @__et_write_state(%0: tensor<4x8xf32>) { et.write_state @cache, %0 ... }

A host saves and restores what a program has learned or remembers, clears a cache, or runs an optimizer of its own. The
methods have to share their state (`plan-memory{share-state}`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.et.program import ReadStateOp, StateOp, StringOp, WriteStateOp
from etir.passes.errors import E0522
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

NAMES = "__et_state_names"
READ = "__et_read_state"
WRITE = "__et_write_state"


@register_pass
@dataclass(frozen=True)
class StateMethodsPass(Pass):
    """Add methods that read and write the state.

    ``match`` are shell patterns of fully qualified names (``layers.*.weight``), all when empty.
    """

    name = "state-methods"
    match: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises error E0522 when the program has no such state."""
        states = [op for op in module.body.block.ops if isinstance(op, StateOp)]
        unused = [m for m in self.match if not any(fnmatchcase(name_of(op), m) for op in states)]
        chosen = [op for op in states if not self.match or any(fnmatchcase(name_of(op), m) for m in self.match)]
        if not states:
            raise E0522.error("no method of the program changes a buffer")
        if unused:
            names = ", ".join(map(name_of, states))
            raise E0522.error(f"no state is called {' or '.join(unused)}; the program has {names}")
        for method in (_names(chosen), _read(chosen), _write(chosen)):
            module.body.block.add_op(method)


def name_of(state: StateOp) -> str:
    """The name of a state in the user's module, or its symbol."""
    fqn = state.attributes.get("fqn")
    return fqn.data if isinstance(fqn, StringAttr) else state.sym_name.data


def _method(name: str, block: Block, results: Sequence[SSAValue], states: Sequence[StateOp]) -> FuncOp:
    last = FuncReturnOp(*results)
    last.location = NameLoc(StringAttr("return"), UnknownLoc())
    block.add_op(last)
    inputs = [argument.type for argument in block.args]
    func = FuncOp(name, FunctionType.from_lists(inputs, [value.type for value in results]), Region(block))
    func.location = NameLoc(StringAttr(name), UnknownLoc())
    names: list[Attribute] = [StringAttr(name_of(state)) for state in states]
    func.attributes |= {
        "et.in_spec": StringAttr(""),
        "et.out_spec": StringAttr(""),
        "et.input_names": ArrayAttr(names if inputs else []),
        "et.output_names": ArrayAttr(names if results else []),
    }
    return func


def _add(block: Block, op: Operation, state: StateOp) -> None:
    op.location = state.location
    block.add_op(op)


def _names(states: Sequence[StateOp]) -> FuncOp:
    block = Block()
    results: list[SSAValue] = []
    for state in states:
        op = StringOp(name_of(state))
        _add(block, op, state)
        results.append(op.result)
    return _method(NAMES, block, results, states)


def _read(states: Sequence[StateOp]) -> FuncOp:
    block = Block()
    results: list[SSAValue] = []
    for state in states:
        op = ReadStateOp(state.sym_name.data, state.type)
        _add(block, op, state)
        results.append(op.result)
    return _method(READ, block, results, states)


def _write(states: Sequence[StateOp]) -> FuncOp:
    block = Block(arg_types=[state.type for state in states])
    for argument, state in zip(block.args, states, strict=True):
        argument.location = state.location
        _add(block, WriteStateOp(state.sym_name.data, argument), state)
    return _method(WRITE, block, [], states)
