"""What the search for savings has made already of a function, for whoever makes code of it.

``legalize-delegates`` chooses what saves memory by lowering, rewriting and planning; ``lower-delegates`` would do the
last of that, and the program for the kernels, once more. It is the same only where the function and its processor are:
text that was edited in between, or read from a file, is lowered anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp

from etir.backends.api.interface import Outlined
from etir.backends.native.cpu import Cpu
from etir.backends.reference.lowered import LoweredFunction
from etir.dialects.copying import described
from etir.passes.delegation.attributes import LEGAL


@dataclass(frozen=True)
class Made:
    """What an outlined function has in it, the processor's name, its function of ``tile`` (None: not at hand) and its
    program for the kernels.
    """

    inside: list[object]
    cpu: str
    func: FuncOp | None
    kernels: LoweredFunction


@dataclass
class MadeFunctions:
    """An attachment of a compilation's context: what has been made, by the names of outlined functions."""

    functions: dict[str, Made] = field(default_factory=dict[str, Made])


def keep_made(outlined: Outlined, target: Cpu, func: FuncOp | None, kernels: LoweredFunction) -> None:
    """Remember what was made of a function, until it is taken."""
    attachments = outlined.ctx.attachments
    kept = attachments.get(MadeFunctions)
    if kept is None:
        kept = MadeFunctions()
        attachments.set(MadeFunctions, kept)
    kept.functions[outlined.name] = Made(_inside(outlined.func), target.name, func, kernels)


def take_made(outlined: Outlined, target: Cpu) -> Made | None:
    """What was made of exactly this function, for once: planning changes it. None where there is nothing."""
    kept = outlined.ctx.attachments.get(MadeFunctions)
    made = None if kept is None else kept.functions.pop(outlined.name, None)
    if made is None or made.cpu != target.name or made.inside != _inside(outlined.func):
        return None
    return made


def _inside(func: FuncOp) -> list[object]:
    """What a function has in it but for what says that it has been legalized, which is said after that."""
    legal = func.attributes.pop(LEGAL, None)
    inside = described(func)
    if legal is not None:
        func.attributes[LEGAL] = legal
    return inside
