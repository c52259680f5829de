"""Where inputs and outputs of delegates may lie in the workspaces that the calls are given.

A delegate has planned its workspace together with its inputs and outputs (:mod:`etir.dialects.et.workspace`). So at the
call, an input that nobody needs afterwards and an output that nobody needed before may have bytes in common with the
workspace, and with one another, if they are where the delegate expects them. An argument that has its memory twice in
the call is nowhere: the delegate has planned two tensors. What lives while the delegate runs may be in a part of the
workspace that it leaves alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import DelegateCallOp
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.et.workspace import APART, WITHIN, Workspace, workspace_of
from etir.passes.analysis.planning.problem import Buffer, Share


def workspaces_of(method: MethodOp) -> dict[DelegateCallOp, tuple[Workspace, BufferOp]]:
    """The workspaces of the calls of a method, and the buffers that they are given for them."""
    module = method.parent_op()
    found: dict[DelegateCallOp, tuple[Workspace, BufferOp]] = {}
    for op in method.instructions:
        if module is None or not isinstance(op, DelegateCallOp):
            continue
        delegate = SymbolTable.lookup_symbol(module, op.delegate)
        workspace = workspace_of(delegate.compile_specs) if isinstance(delegate, DelegateOp) else None
        if workspace is None or len(op.arguments) != len(workspace.inputs) + len(workspace.outputs) + 1:
            continue
        given = op.arguments[-1].owner
        if isinstance(given, BufferOp):
            found[op] = workspace, given
    return found


def callers_of(method: MethodOp) -> dict[Operation, int | None]:
    """The buffers in the caller's memory, with the places in the method's where they may be (``et.within``); without
    those that are apart from it.
    """
    found: dict[Operation, int | None] = {}
    for op in method.body.blocks[0].ops:
        if isinstance(op, BufferOp) and op.caller is not None:
            place = op.attributes.get(WITHIN)
            found[op] = place.value.data if isinstance(place, IntegerAttr) else None
    return {op: place for op, place in found.items() if place != APART}


def workspace_shares(
    method: MethodOp, instructions: Sequence[Operation], keys: Mapping[Operation, int], buffers: Mapping[int, Buffer]
) -> Iterator[Share]:
    """What may have bytes in common with a workspace at its call, if it was not needed any more or not before."""
    workspaces = workspaces_of(method)
    for index, op in enumerate(instructions):
        if not isinstance(op, DelegateCallOp) or op not in workspaces:
            continue
        workspace, given = workspaces[op]
        bases = [_base_of(value) for value in op.arguments]
        around = keys[given]
        placed: dict[int, int] = {}
        for number, place in workspace.places.items():
            base = bases[number]
            if base is None or bases.count(base) > 1 or not _is_whole(op.arguments[number], base):
                continue
            if base in keys and keys[base] in buffers and place + buffers[keys[base]].size <= workspace.size:
                placed[number] = keys[base]
        for number, key in placed.items():
            place = workspace.places[number]
            if number < len(workspace.inputs):
                yield Share(index, key, around, -place)
            else:
                yield Share(index, around, key, place)
        yield from _kept(index, workspace, around, placed.values(), buffers)
        for one, other in combinations(placed, 2):
            if one < len(workspace.inputs) <= other:
                apart = workspace.places[other] - workspace.places[one]
                if -buffers[placed[other]].size < apart < buffers[placed[one]].size:
                    yield Share(index, placed[one], placed[other], apart)


def _kept(
    index: int, workspace: Workspace, around: int, placed: Iterable[int], buffers: Mapping[int, Buffer]
) -> Iterator[Share]:
    """What lives while the delegate runs, in the parts of the workspace that it leaves alone."""
    moving = {around: None} | dict.fromkeys(placed)
    for key, buffer in buffers.items() if workspace.kept else ():
        if key in moving or not any(first < index < last for first, last in buffer.live):
            continue
        for place, size in workspace.kept:
            if buffer.size == size and place + size <= workspace.size:
                yield Share(index, key, around, -place, kept=True)


def _base_of(value: SSAValue) -> BufferOp | None:
    owner = value.owner
    while isinstance(owner, ViewOp):
        owner = owner.base.owner
    return owner if isinstance(owner, BufferOp) else None


def _is_whole(value: SSAValue, base: BufferOp) -> bool:
    """Whether a value is all of its buffer, in whatever shape."""
    owner = value.owner
    while isinstance(owner, ViewOp):
        if owner.late is not None or owner.offset.value.data or _bytes(value) != _bytes(base.result):
            return False
        owner = owner.base.owner
    return True


def _bytes(value: SSAValue) -> int:
    """Bytes, not elements: complex numbers may be read as pairs of floats."""
    assert isinstance(value.type, TensorType)
    return math.prod(value.type.get_shape()) * dtype_of(value.type.element_type).itemsize
