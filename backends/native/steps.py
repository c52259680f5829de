"""Steps of native code: what the events of its runtime half name.

Every operation of the ``tile`` level is one call of the code, which the runtime times when somebody watches; the
number of an event is the operation's place. Operations of ``tile`` keep the location of what they came from, by which
they are found in the function again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from etir.backends.native.compile import processors, tile_function
from etir.backends.native.loop import PartsOp
from etir.backends.native.sizes import Undecided
from etir.backends.native.tile import TemplateOp
from etir.diagnostics import EtirError


def nodes_of_steps(func: FuncOp, cpus: Sequence[str]) -> list[list[Operation]]:
    """The operations of ``func`` that each step computes, in order; empty where no code can be made for the processors
    (empty: all of the host's family).
    """
    try:
        made = tile_function(func, processors(cpus)[0])
    except (EtirError, Undecided):
        return []
    by_location: dict[Attribute, Operation] = {}
    for node in func.body.block.ops:
        for op in node.walk():
            by_location.setdefault(op.location, node)
    found: list[list[Operation]] = []
    for step in made.body.block.ops:
        if isinstance(step, TemplateOp):
            locations = [op.location for op in (step.walk() if isinstance(step, PartsOp) else (step,))]
            found.append(list(dict.fromkeys(by_location[at] for at in locations if at in by_location)))
    # Memory that is cleared belongs to what comes after it.
    after: list[Operation] = next((nodes for nodes in reversed(found) if nodes), [])
    for number in reversed(range(len(found))):
        after = found[number] = found[number] or after
    return found if after else []
