"""Where the time of a profile went: every row of an instruction as parts that have a place in the program.

An instruction is one part, or, if it is the call of a delegate that reported what it did inside, a part for each
operation and one for the rest, the boundary: so the parts of a run always add up to its instructions. Times inside of a
delegate come from another clock; where they add up to more than the call took they are scaled down to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from etir.devtools.errors import E1404
from etir.devtools.profile.profile import Kind, Profile, Row
from etir.devtools.trace.read import Origin, Table, Trace, checked
from etir.diagnostics import SourceLocation
from etir.emit.debug_file import MethodDebug


@dataclass(frozen=True)
class Part:
    """Time with a place: an instruction, a ``node`` of a delegate, or its ``boundary``.

    ``origins`` are the operations of the imported program that it comes from; ``file``, ``line`` and ``path`` where it
    has none that are known. ``exact`` is False where an operation inside of a delegate was found by its kind only.
    """

    row: Row
    ticks: float
    operator: str
    backend: str = ""
    node: int | None = None
    boundary: bool = False
    origins: tuple[int, ...] = ()
    file: str = ""
    line: int = 0
    path: str = ""
    exact: bool = True


@dataclass
class Program:
    """What is known of the program that a profile is of: a trace, or source lines by instruction, or nothing.

    ``read`` makes a trace of a file that has none, whose one level is ``et``: only for groups that are its operations,
    since that takes the time of writing the level as text. Of such a file, ``calls`` are the kernels of its methods by
    instruction, empty for what is no call; its digest says nothing, since a program is another file with its source
    lines in it.
    """

    trace: Trace | None = None
    debug: dict[str, MethodDebug] = field(default_factory=dict[str, MethodDebug])
    read: Callable[[], Trace] | None = None
    calls: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def origin(self, number: int) -> Origin | None:
        """The origin of a number."""
        return None if self.trace is None else self.trace.origin(number)

    def method_of(self, profile: Profile) -> str:
        """The method that ran: the one that the profile names, or else the first one with such instructions.

        ``forward`` comes before the others, and is the answer when there is none.
        """
        known = list(self.trace.instructions) if self.trace is not None else list(self.debug)
        if profile.method is not None and (not known or profile.method in known):
            return profile.method
        if "forward" in known or not known:
            known = ["forward", *(name for name in known if name != "forward")]
        if len(known) == 1:
            return known[0]
        fits = (name for name in known if self._calls_of(name) is not None and self._misfit(profile, name) is None)
        return next(fits, known[0])

    def _calls_of(self, method: str) -> Sequence[str] | None:
        """What the instructions of a method call, if that is known."""
        if self.trace is None:
            return self.calls.get(method)
        table = self.trace.instructions.get(method)
        return None if table is None else table["operator"]

    def _misfit(self, profile: Profile, method: str) -> str | None:
        calls = self._calls_of(method)
        where = "in the file" if self.trace is None else "in the trace"
        return None if calls is None else _misfit(profile, calls, where)

    def check(self, profile: Profile) -> None:
        """Raises error E1404 when the profile is of another program: its digest differs, or its instructions do."""
        place = SourceLocation(profile.name)
        wanted = None if self.trace is None else self.trace.sha256
        if profile.program is not None and wanted is not None and profile.program != wanted:
            raise E1404.error(f"it was recorded with {profile.program[:12]}, the trace is of {wanted[:12]}", place)
        problem = self._misfit(profile, self.method_of(profile))
        if problem is not None:
            raise E1404.error(problem, place)


def _misfit(profile: Profile, calls: Sequence[str], where: str) -> str | None:
    """The first instruction of a profile that a method does not have."""
    for row in profile.instructions():
        if row.kind is Kind.OTHER:
            continue
        known = calls[row.instruction] if 0 <= row.instruction < len(calls) else None
        if known is None or (row.kind is Kind.OPERATOR and not _same_operator(row.name, known)):
            said = "there is no such instruction" if known is None else f"it is {known or 'no call of a kernel'}"
            return f"instruction {row.instruction} is {row.name or row.kind.value}, {where} {said}"
    return None


def _same_operator(profiled: str, known: str) -> bool:
    return not profiled or profiled == known or profiled == known.partition("::")[2]


def parts_of(profile: Profile, program: Program) -> Iterator[Part]:
    """The parts of all runs, in the order of the profile. Raises what :meth:`Program.check` does, and error E1403 for a
    damaged trace.
    """
    if program.trace is None:
        program.check(profile)
        yield from _parts(profile, program)
        return
    found: list[Part] = []
    with checked(program.trace.name, "instructions.json or delegates.json"):
        program.check(profile)
        found = list(_parts(profile, program))
    yield from found


def _parts(profile: Profile, program: Program) -> Iterator[Part]:
    method = program.method_of(profile)
    table = None if program.trace is None else program.trace.instructions.get(method)
    debug = program.debug.get(method)
    waiting: list[Row] = []
    for row in profile.rows:
        if row.kind is Kind.NODE:
            waiting.append(row)
        elif row.kind.is_instruction:
            inside = [n for n in waiting if (n.run, n.instruction) == (row.run, row.instruction)]
            waiting = []
            part = _instruction(row, table, debug)
            if row.kind is Kind.DELEGATE:
                yield from _delegate(part, inside, program, table)
            else:
                yield part


def _instruction(row: Row, table: Table | None, debug: MethodDebug | None) -> Part:
    name = row.name or row.kind.value
    if table is not None and 0 <= row.instruction < len(table):
        file, line = table["source"][row.instruction] or ("", 0)
        operator = table["operator"][row.instruction] or name
        origins = tuple(table.several("origins", row.instruction))
        path = table["path"][row.instruction]
        return Part(row, row.ticks, operator, origins=origins, file=file, line=line, path=path)
    if debug is not None and 0 <= row.instruction < len(debug.instructions):
        source = debug.instructions[row.instruction]
        if source is not None:
            return Part(row, row.ticks, name, file=source.file, line=source.line, path=source.path)
    return Part(row, row.ticks, name)


def _delegate(call: Part, inside: Sequence[Row], program: Program, table: Table | None) -> Iterator[Part]:
    symbol = None if table is None else table["delegate"][call.row.instruction]
    nodes = None if program.trace is None or symbol is None else program.trace.delegates.get(symbol)
    backend = nodes.columns["backend"] if nodes is not None else "delegate"
    if not inside:
        file, line, path = call.file, call.line, call.path
        if nodes is not None and len(nodes) > 0:
            # Which of its operations took the time is not known; a line or a module is named where all are of it.
            lines = [nodes["source"][index] or ("", 0) for index in range(len(nodes))]
            file, line = lines[0] if all(each == lines[0] for each in lines) else ("", 0)
            paths = [nodes["path"][index].split(".") for index in range(len(nodes))]
            path = ".".join(os.path.commonprefix(paths))
        yield Part(call.row, call.ticks, backend, backend, None, False, call.origins, file, line, path, nodes is None)
        return
    total = sum(row.ticks for row in inside)
    scale = call.ticks / total if total > call.ticks else 1.0
    for row, (index, exact) in zip(inside, _nodes_of(inside, nodes), strict=True):
        name = str(row.id) if row.id is not None else "node"
        if nodes is None or index is None:
            yield Part(call.row, row.ticks * scale, name, backend, None, False, (), "", 0, "", False)
            continue
        file, line = nodes["source"][index] or ("", 0)
        origins, path = tuple(nodes.several("origins", index)), nodes["path"][index]
        shown = f"{nodes['name'][index]} ({name})" if isinstance(row.id, str) else nodes["name"][index]
        yield Part(call.row, row.ticks * scale, shown, backend, index, False, origins, file, line, path, exact)
    yield Part(call.row, call.ticks - total * scale, f"(boundary of {backend})", backend, boundary=True)


def _nodes_of(rows: Sequence[Row], nodes: Table | None) -> list[tuple[int | None, bool]]:
    """Which operation of the function each event is, and whether that is certain.

    Numbers name an operation; texts do not, and stand for the operations one by one when there are as many. Otherwise
    an event is the next operation of its kind.
    """
    if nodes is None:
        return [(None, False)] * len(rows)
    count = len(nodes)
    if all(isinstance(row.id, int) for row in rows):
        return [(row.id, True) if isinstance(row.id, int) and 0 <= row.id < count else (None, False) for row in rows]
    if count == len(rows):
        return [(index, True) for index in range(count)]
    found: list[tuple[int | None, bool]] = []
    start = 0
    for row in rows:
        at = next((i for i in range(start, count) if _is_kind(nodes["name"][i], str(row.id))), None)
        found.append((at, False))
        start = start if at is None else at + 1
    return found


_KINDS = {"conv2d": "convolution", "depthwise_conv2d": "convolution", "conv_transpose2d": "deconvolution"}
"""Operations of XNNPACK's graphs that its runtime calls something else."""


def _is_kind(node: str, event: str) -> bool:
    kind = node.rpartition(".")[2]
    words = _KINDS.get(kind, kind).replace("_", "").lower()
    return event.partition(" #")[0].replace(" ", "").replace("_", "").lower().startswith(words[:6])
