"""What the tensors of a method are that no instruction writes before they are read: views and state.

Files have both as tensors like any other. A view of static dims has no instruction: it is a tensor at the place of its
base, over the same bytes in other dims or over a part of them; a view of dynamic dims is one that an ``et_view``
instruction gives the dims, and has the place of its base, too. Where kernels write the parts of a tensor (what a
concatenation would combine), the whole is the one that nothing writes. A mutable buffer without initial bytes is
a tensor that is read before anything writes it; one that has initial bytes was written before the first. A reader that
took them for buffers of their own would show a program that reads what nobody wrote, and whose tensors overlap while
both are live.

Instructions are taken in the order of the file, and what a tensor holds is looked for backward from where it is read:
what covers its bytes is its base, what covers a part of them is a view of it. Which arguments a kernel writes is not
asked: what it returns is what it wrote. A delegate writes what is read later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model


@dataclass(frozen=True)
class Unwritten:
    """By numbers of values: ``views`` has the base of each, ``late`` of those that an instruction points at it."""

    views: dict[int, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    states: dict[int, None] = field(default_factory=dict)


@dataclass
class _Times:
    """When a tensor is read and written, counted in instructions; inputs are written before the first."""

    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


def unwritten(plan: model.ExecutionPlan) -> Unwritten:
    """The views and states of a method among its planned tensors."""
    times = _times(plan)
    memory = _Memory(plan, times)
    found = Unwritten(late=_late_views(plan))
    bases = ChainMap(found.views, found.late)

    def view(index: int, base: int) -> None:
        # A file may name a view of the tensor as its base; then it is none.
        if index not in bases and not _leads_to(bases, base, index):
            found.views[index] = base

    for index, at in times.items():
        tensor = memory.tensors[index]
        if index in found.late or _has_contents(tensor) or not tensor.nbytes:  # no bytes need nothing that writes them
            continue
        if not at.reads or (at.writes and at.writes[0] <= at.reads[0]):
            continue
        base, parts = memory.origin(index, at.reads[0], reinterpreted=not at.writes)
        if base is not None and not at.writes:
            view(index, base)
        elif parts:
            for part in parts:
                view(part, index)
        elif base is None and at.writes:
            found.states[index] = None
    return found


class _Memory:
    """Where the tensors are, and in which order they are written."""

    def __init__(self, plan: model.ExecutionPlan, times: Mapping[int, _Times]):
        self.tensors = {i: tensor for i in times if isinstance(tensor := plan.values[i], model.Tensor)}
        self._place = {i: _bytes_of(tensor) for i, tensor in self.tensors.items()}
        writes = [(time, i) for i, at in times.items() for time in at.writes]
        writes += [(-1, i) for i, tensor in self.tensors.items() if _has_contents(tensor)]
        writes.sort()
        self._writer = [i for _, i in writes]
        self._when = [time for time, _ in writes]
        places = [self._place[i] for i in self._writer]
        self._pool, self._first, self._end = np.array(places, np.int64).reshape(-1, 3).T

    def origin(self, index: int, end: int, *, reinterpreted: bool = False) -> tuple[int | None, list[int]]:
        """What wrote the bytes of a tensor before an instruction: one that covers them, or else its parts.

        Parts that do not make up all of it say nothing, and are left out. With ``reinterpreted``, the last tensor of
        these bytes is taken, if none has this one's elements: ``view(dtype)`` of what was written.
        """
        base, parts = self._origin(index, end)
        if base is None and not parts and reinterpreted:
            place = self._place[index]
            for writer in self._backward(*place, bisect_left(self._when, end)):
                if writer != index:
                    return (writer if self._place[writer] == place and self._fit(writer, index) else None), []
        return base, parts

    def _origin(self, index: int, end: int) -> tuple[int | None, list[int]]:
        pool, first, stop = self._place[index]
        parts: list[int] = []
        missing = [(first, stop)]
        for writer in self._backward(pool, first, stop, bisect_left(self._when, end)):
            _, start, last = self._place[writer]
            if writer == index:
                continue
            if start <= first and stop <= last:
                same = (start, last) != (first, stop) or self._is_whole(writer, index)
                if same and self._fit(writer, index) and not parts:
                    return writer, []
                if not parts:
                    continue  # another form of these bytes: older ones may be the same
                return None, []
            if start < first or last > stop or not self._fit(index, writer):
                return None, []
            left = [piece for whole in missing for piece in _without(whole, (start, last))]
            if left != missing:
                parts.append(writer)
                missing = left
            if not missing:
                return None, parts
        return None, []

    def _backward(self, pool: int, first: int, stop: int, before: int) -> Iterator[int]:
        """The tensors that were written into some of these bytes, the latest first."""
        while before > 0:
            begin = max(before - _AT_ONCE, 0)
            window = slice(begin, before)
            touched = (self._pool[window] == pool) & (self._first[window] < stop) & (self._end[window] > first)
            for at in np.flatnonzero(touched)[::-1]:
                yield self._writer[begin + int(at)]
            before = begin

    def _is_whole(self, base: int, index: int) -> bool:
        """Whether a tensor has the elements of another one, in whatever dims; complex numbers are pairs of floats."""
        a, b = self.tensors[base], self.tensors[index]
        kinds = [_PARTS.get(t.scalar_type, t.scalar_type) for t in (a, b)]
        return kinds[0] == kinds[1] and a.shape_dynamism == b.shape_dynamism

    def _fit(self, base: int, part: int) -> bool:
        """Whether the bytes of one may be elements of the other: a bool is no other number."""
        kinds = [self.tensors[i].scalar_type for i in (base, part)]
        return kinds[0] == kinds[1] or ScalarType.BOOL not in kinds


_PARTS = {
    ScalarType.COMPLEXHALF: ScalarType.HALF,
    ScalarType.COMPLEXFLOAT: ScalarType.FLOAT,
    ScalarType.COMPLEXDOUBLE: ScalarType.DOUBLE,
}
_AT_ONCE = 4096
"""Writes that are looked at together."""


def _bytes_of(tensor: model.Tensor) -> tuple[int, int, int]:
    """The memory, and the first byte and the one after the last."""
    place = tensor.allocation_info
    assert place is not None
    return place.memory_id, place.memory_offset, place.memory_offset + tensor.nbytes


def _without(whole: tuple[int, int], part: tuple[int, int]) -> list[tuple[int, int]]:
    """What is left of a range."""
    pieces = [(whole[0], min(whole[1], part[0])), (max(whole[0], part[1]), whole[1])]
    return [(first, end) for first, end in pieces if first < end]


_ET_VIEW = "executorch_prim::et_view.default"


def _late_views(plan: model.ExecutionPlan) -> dict[int, int]:
    """The bases of tensors that one ``et_view`` instruction points at a tensor of the same place."""
    bases: dict[int, dict[int, None]] = {}
    for chain in plan.chains:
        for call in chain.instructions:
            if not isinstance(call, model.KernelCall) or len(call.args) < 2:
                continue
            if plan.operators[call.op_index].full_name == _ET_VIEW:
                bases.setdefault(call.args[-1], {})[call.args[0]] = None
    found: dict[int, int] = {}
    for target, sources in bases.items():
        (source, *others) = sources
        tensors = [plan.values[i] for i in (source, target)]
        places = [t.allocation_info for t in tensors if isinstance(t, model.Tensor)]
        if others or None in places or places[:1] != places[1:] or _leads_to(found, source, target):
            continue
        found[target] = source
    return found


def _leads_to(bases: Mapping[int, int], start: int, end: int) -> bool:
    while start != end and start in bases:
        start = bases[start]
    return start == end


def _has_contents(tensor: model.Tensor) -> bool:
    info = tensor.extra_tensor_info
    return bool(tensor.data_buffer_idx) or tensor.is_external or (info is not None and bool(info.fully_qualified_name))


def _times(plan: model.ExecutionPlan) -> dict[int, _Times]:
    """Of each planned tensor that is used, by its number."""
    found: dict[int, _Times] = {}
    instructions = [instruction for chain in plan.chains for instruction in chain.instructions]

    def note(index: int, time: int, *, write: bool) -> None:
        for tensor in _tensors(plan, index):
            at = found.setdefault(tensor, _Times())
            (at.writes if write else at.reads).append(time)

    for index in plan.inputs:
        note(index, -1, write=True)
    later: dict[int, None] = {}
    passed: list[list[int]] = []
    for index in plan.outputs:
        later.update(dict.fromkeys(_tensors(plan, index)))
    for instruction in reversed(instructions):
        tensors = [t for index in _arguments(instruction) for t in _tensors(plan, index)]
        passed.append([t for t in tensors if t in later])
        later.update(dict.fromkeys(tensors))
    for time, (instruction, read_later) in enumerate(zip(instructions, reversed(passed), strict=True)):
        match instruction:
            case model.KernelCall(_, args):
                results = {t: None for t in _tensors(plan, args[-1])} if args else {}
                for tensor in [t for index in args[:-1] for t in _tensors(plan, index)]:
                    if tensor not in results:
                        note(tensor, time, write=False)
                for tensor in results:
                    note(tensor, time, write=True)
            case model.DelegateCall(_, args):
                for tensor in [t for index in args for t in _tensors(plan, index)]:
                    note(tensor, time, write=tensor in read_later)
            case model.MoveCall(source, target):
                note(source, time, write=False)
                note(target, time, write=True)
            case _:
                pass
    for index in plan.outputs:
        note(index, len(instructions), write=False)
    return found


def _arguments(instruction: model.Instruction) -> Sequence[int]:
    match instruction:
        case model.KernelCall(_, args) | model.DelegateCall(_, args):
            return args
        case model.MoveCall(source, target):
            return (source, target)
        case _:
            return ()


def _tensors(plan: model.ExecutionPlan, index: int) -> Iterator[int]:
    """The planned tensors that a value is, or has in its list."""
    value = plan.values[index]
    if isinstance(value, model.Tensor):
        if value.allocation_info is not None:
            yield index
    elif isinstance(value, model.TensorList | model.OptionalTensorList):
        for item in value.items:
            if item >= 0:
                yield from _tensors(plan, item)
