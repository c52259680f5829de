"""Parts of a method above the executable level as methods of their own, and methods with simpler operations.

Any set of operations of a block is a program: what they take from outside becomes inputs, filled with what the values
were when the whole method ran, and what they give to the outside becomes outputs. Inside of branches and loops that
have to stay, operations are replaced: by what they read, by a constant, or by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from etir.devtools.reduction.candidate import CONSTANTS, Candidate, around, counts, function_of
from etir.devtools.reduction.runs import Values, values_of
from etir.devtools.values.interpreted import copied
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import is_static
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.dialects.et.weights import SyntheticAttr


def extracted(candidate: Candidate, method: str, kept: Sequence[Operation], values: Values) -> Candidate | None:
    """The operations as a method of their own; None where an input would be no tensor and no number."""
    inside = dict.fromkeys(o for op in kept for o in op.walk())
    own = dict.fromkeys(kept)
    inputs: dict[SSAValue, None] = {}
    constants: dict[SSAValue, Operation] = {}
    for op in inside:
        for value in op.operands:
            owner = value.owner
            if owner in inside or (isinstance(owner, Block) and owner.parent_op() in inside):
                continue
            if isinstance(owner, CONSTANTS):
                constants[value] = owner
            else:
                inputs[value] = None
    outputs = [result for op in own for result in op.results if any(use.operation not in inside for use in result.uses)]
    if candidate.samples and any(value not in seen for seen in values for value in inputs):
        return None
    if candidate.samples and not values:
        return None
    block = Block(arg_types=[value.type for value in inputs])
    mapped: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for value, owner in constants.items():
        copy = owner.clone()
        block.add_op(copy)
        mapped[value] = copy.results[owner.results.index(value)]  # type: ignore[arg-type]
    for op in own:
        block.add_op(op.clone(mapped))
    block.add_op(ReturnOp(*[mapped[value] for value in outputs]))
    types = FunctionType.from_lists([value.type for value in inputs], [value.type for value in outputs])
    func = FuncOp(method, types, Region([block]))
    old = function_of(candidate.module, method)
    assert old is not None
    func.location = old.location
    samples = [[copied(seen[value]) for value in inputs] for seen in values]
    return Candidate(around(candidate.module, func), samples)


def inner_parts(candidate: Candidate, method: str) -> Iterator[Candidate]:
    """Each branch, and each body of a loop, by itself."""
    func = function_of(candidate.module, method)
    values = values_of(candidate, method) if func is not None else []
    for op in func.body.block.ops if func is not None else ():
        for region in op.regions:
            for block in region.blocks:
                made = extracted(candidate, method, [o for o in block.ops if counts(o)], values)
                if made is not None:
                    yield made


def replaceable(module: ModuleOp, method: str) -> list[int]:
    """The places, in the order of a walk, of the operations of a method that something else could stand for."""
    func = function_of(module, method)
    return [] if func is None else [at for at, op in enumerate(func.walk()) if op is not func and counts(op)]


def replaced(candidate: Candidate, method: str, places: Sequence[int], by_constants: bool) -> Candidate | None:
    """The method without the operations of some places: their results are what they read, or else constants.

    Constants are weights that are made from a seed. None where nothing can stand for a result.
    """
    module = candidate.module.clone()
    func = function_of(module, method)
    assert func is not None
    every = list(func.walk())
    gone = dict.fromkeys(every[place] for place in places)
    for op in reversed(gone):
        if _is_inside(op, gone):
            continue
        for result in op.results:
            stands = None if by_constants else next((v for v in op.operands if v.type == result.type), None)
            if stands is None and by_constants:
                stands = _constant(module, op, result.type)
            if stands is None and any(True for _ in result.uses):
                return None
            if stands is not None:
                result.replace_all_uses_with(stands)
        op.detach()
        op.erase()
    func.detach()
    return Candidate(around(module, func), candidate.samples)


def _is_inside(op: Operation, others: dict[Operation, None]) -> bool:
    parent = op.parent_op()
    return parent is not None and (parent in others or _is_inside(parent, others))


def _constant(module: ModuleOp, before: Operation, type: Any) -> SSAValue | None:
    """A weight of the type, read before an operation; the same one for all of a type."""
    if not isinstance(type, TensorType) or not is_static(type) or dtype_of(type.element_type).numpy_name is None:
        return None
    weights = [op for op in module.body.block.ops if isinstance(op, WeightOp)]
    known = next((op for op in weights if op.type == type and isinstance(op.value, SyntheticAttr)), None)
    if known is None:
        taken = {op.sym_name.data for op in weights}
        name = next(f"constant_{i}" for i in range(len(taken) + 1) if f"constant_{i}" not in taken)
        known = WeightOp(name, type, SyntheticAttr(len(weights) + 1))
        first = module.body.block.first_op
        assert first is not None
        module.body.block.insert_op_before(known, first)
    read = GetWeightOp(known.sym_name.data, type)
    assert before.parent is not None
    before.parent.insert_op_before(read, before)
    return read.results[0]
