"""What a program should compute: eager torch where there is an exported program, the interpreter at its first level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from etir.devtools.checks import difference
from etir.devtools.trace.read import Trace
from etir.devtools.values.eager import eager_run
from etir.devtools.values.interpreted import Key, Observed, observe
from etir.dialects.aten.table import load_table

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from etir.devtools.values.arrays import Array

ASIDE = frozenset({"et.get_weight", "et.read_state", "et.constant", "input"})
"""Operations whose values nothing computes."""

VIEWS = frozenset(
    {
        *("alias", "as_strided", "chunk", "contiguous", "detach", "detach_", "expand", "expand_as", "flatten"),
        *("lift_fresh_copy", "movedim", "narrow", "permute", "reshape", "select", "slice", "split", "split_with_sizes"),
        *("squeeze", "t", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as"),
    }
)
"""Operators whose results are other values in another shape: they may be nowhere at the levels below."""


@dataclass
class Reference:
    """What one sample gives: by key an array for each time that a value is computed."""

    values: dict[Key, list[Array]]
    dtypes: dict[Key, str]
    largest: dict[Key, float]
    outputs: list[Any]
    states: dict[str, Array] = field(default_factory=dict[str, "Array"])
    """What the run leaves in mutable buffers, by their names."""
    scale: float = 0.0
    """The largest number of all that was computed."""
    random: frozenset[int] = field(default_factory=frozenset[int])
    """Origins whose values are other ones in every run."""


def reference_of(
    module: ModuleOp, inputs: Sequence[Any], method: str, trace: Trace | None, program: ExportedProgram | None
) -> Reference:
    """Run a sample: the module at its first level, and what eager torch gives where there is a program.

    Raises error E1413 for inputs that eager torch refuses, and what the interpreter does (E10xx).
    """
    seen = observe(module, inputs, method)
    random = _random(module, inputs, method, trace, seen)
    found = Reference(seen.values, seen.dtypes, seen.largest, seen.outputs, seen.states, seen.scale, random)
    if program is None:
        return found
    eager = eager_run(program, inputs)
    found.values, found.dtypes = dict(seen.values), dict(seen.dtypes)
    for origin in trace.origins if trace is not None else ():
        for result, nodes in enumerate(origin.nodes if origin.method in (method, None) else ()):
            for node in nodes:
                if node in eager.values and len(seen.values.get((origin.number, result), ())) == 1:
                    found.values[origin.number, result] = [eager.values[node]]
    if len(eager.outputs) == len(seen.outputs):
        found.outputs = eager.outputs
    found.states = {name: eager.states.get(name, value) for name, value in seen.states.items()}
    return found


def _random(
    module: ModuleOp, inputs: Sequence[Any], method: str, trace: Trace | None, seen: Observed
) -> frozenset[int]:
    """Origins of operators that are random, and gave something else in a second run; of those that define nothing."""
    table = load_table()
    origins = () if trace is None else trace.origins
    undefined = [o.number for o in origins if o.op.partition(".")[2].startswith(("empty", "new_empty"))]
    able = [o.number for o in origins if o.op in table and "r" in table.flags(o.op)]
    if able:
        again = observe(module, inputs, method)
        pairs = {key: (values, again.values.get(key, [])) for key, values in seen.values.items() if key[0] in able}
        undefined += [k[0] for k, (a, b) in pairs.items() if len(a) != len(b) or any(map(difference, a, b))]
    return frozenset(undefined)


def comparable(trace: Trace, seen: Observed | Reference) -> list[Key]:
    """The keys of values that something computes: no weights, no inputs, no views, nothing unread."""
    found: list[Key] = []
    for key in seen.values:
        origin = trace.origin(key[0])
        packet = "" if origin is None else origin.op.split(".")[1] if origin.op.count(".") else origin.op
        if origin is None or origin.op in ASIDE or packet.removesuffix("_copy") in VIEWS:
            continue
        read = not any(origin.nodes) or (key[1] < len(origin.nodes) and bool(origin.nodes[key[1]]))
        if read:
            found.append(key)
    return found
