"""What happens to a function on its way to machine code, as passes on a module that the interpreter runs.

``compile.py`` calls the rewrites; each of them is a registered pass, too. Here they are named in the same order, for
``et-bisect``, which looks for the one that makes a function wrong. Where buffers are placed is not among them: the
interpreter gives every buffer memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from etir.backends.api.interface import InsideLowering, Outlined
from etir.backends.native.compile import for_kernels, processors
from etir.backends.native.cpu import Cpu, cpu
from etir.backends.reference.lowered import ORDER_WITHIN, PASSES, PLAN, program_of
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.walking import ops_of

CALLED = "inside"
"""What the function is called in a module that calls it."""


def inside(outlined: Outlined, cpus: Sequence[str]) -> list[InsideLowering]:
    """The way to ``tile``, which nothing but machine code shows, and that of the program for the kernels.

    Raises E1160 for a processor that is not known.
    """
    chosen = [cpu(name) for name in cpus] or processors(())
    kernels = InsideLowering(program_of(for_kernels(outlined)), f"{PASSES},{ORDER_WITHIN},{PLAN}")
    return [InsideLowering(called(outlined), stages(chosen[0]), shown=False), kernels]


def stages(target: Cpu) -> str:
    """The passes between a legalized function and the text of its C."""
    return (
        f"native-to-tile{{family={target.family}}},tile-forward,tile-scale,tile-few-rows,tile-fuse,tile-attention,"
        f"tile-columns,tile-rows{{cpu={target.name}}},tile-sink,tile-inside,tile-pieces,tile-order,"
        f"tile-schedule{{cpu={target.name}}},tile-share{{cpu={target.name}}}"
    )


def called(outlined: Outlined) -> ModuleOp:
    """A module of the function, what it refers to, and a method ``forward`` that calls it."""
    func = outlined.func.clone()
    func.location = outlined.func.location
    func.properties["sym_name"] = type(func.sym_name)(CALLED)
    used: dict[str, None] = {}
    for op in func.walk():
        symbol = op.properties.get("symbol")
        if isinstance(symbol, SymbolRefAttr):
            used[symbol.root_reference.data] = None
    kept = [op for op in ops_of(outlined.module.body.block) if isinstance(op, DimOp)]
    kept += [outlined.symbols[name] for name in used]
    block = Block(arg_types=func.function_type.inputs.data)
    call = CallDelegateOp(CALLED, "native", block.args, func.function_type.outputs.data)
    block.add_ops([call, ReturnOp(*call.results)])
    method = FuncOp("forward", func.function_type, Region(block))
    for op in (call, method):
        op.location = func.location
    clones = []
    for op in kept:
        clones.append(op.clone())
        clones[-1].location = op.location
    return ModuleOp([*clones, func, method])
