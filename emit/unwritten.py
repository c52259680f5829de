"""What the tensors of a method are that no instruction writes before they are read: views and state.

ExecuTorch's pipeline writes both as tensors like any other. A view of static dims has no instruction: it is a tensor at
the place of its base, over the same bytes in other dims; a view of dynamic dims is one that an ``et_view`` instruction
gives the dims, and has the place of its base, too. A mutable buffer without initial bytes is a tensor that is
read before anything writes it. A reader that took them for buffers of their own would show a program that reads what
nobody wrote, and whose tensors overlap while both are live.

Instructions are taken in the order of the file. Which arguments a kernel writes is not asked: what it returns is what
it wrote. A delegate writes what is read later.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    by_elements: dict[object, list[int]] = {}
    for index in times:
        by_elements.setdefault(_elements(plan.values[index]), []).append(index)
    found = Unwritten(late=_late_views(plan))
    bases = ChainMap(found.views, found.late)
    for index, at in times.items():
        tensor = plan.values[index]
        assert isinstance(tensor, model.Tensor)
        if index in found.late or not at.reads or (at.writes and at.writes[0] <= at.reads[0]):
            continue
        if _has_contents(tensor) or not tensor.nbytes:  # one without bytes needs nothing that writes it
            continue
        others = [i for i in by_elements[_elements(tensor)] if i != index]
        written = [(_last_before(times[i].writes, at.reads[0]), i) for i in others]
        latest = max(((when, i) for when, i in written if when is not None), default=None)
        if latest is not None and not at.writes:
            # A file may name a view of the tensor as its base; then it is none.
            if not _leads_to(bases, latest[1], index):
                found.views[index] = latest[1]
        elif latest is None and at.writes:
            found.states[index] = None
    return found


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


def _elements(value: model.EValue) -> object:
    """What a tensor and a view of it have in common."""
    assert isinstance(value, model.Tensor) and value.allocation_info is not None
    place = value.allocation_info
    return place.memory_id, place.memory_offset, value.scalar_type, value.nbytes, value.shape_dynamism


def _last_before(times: Sequence[int], end: int) -> int | None:
    return max((time for time in times if time < end), default=None)


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
