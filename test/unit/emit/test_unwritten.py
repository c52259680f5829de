"""Tensors of files that no instruction writes: no file makes the reader run without end."""

from __future__ import annotations

from dataclasses import replace

from etir.dialects.et.values import BufferOp, ViewOp
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.from_pte import read_program
from etir.emit.pte import model, read_pte, write_pte
from etir.emit.unwritten import unwritten

from etir_testing import TESTS


def test_views_of_each_other() -> None:
    """An ``et_view`` of what would be a view of its result, all at one place."""
    data = (TESTS / "corpus" / "stock-dynamic").read_bytes()[4:]
    program = read_pte(data)
    (plan,) = program.execution_plan
    names = [operator.full_name for operator in plan.operators]
    tensors = [i for i, v in enumerate(plan.values) if isinstance(v, model.Tensor) and v.sizes in ((9, 6), (18, 3))]
    values = list(plan.values)
    for index in tensors:
        tensor = values[index]
        assert isinstance(tensor, model.Tensor)
        values[index] = replace(tensor, allocation_info=model.AllocationDetails(1, 0))

    def swapped(call: model.Instruction) -> model.Instruction:
        if isinstance(call, model.KernelCall) and names[call.op_index] == "executorch_prim::et_view.default":
            return replace(call, args=(call.args[2], call.args[1], call.args[0]))
        return call

    chains = tuple(replace(c, instructions=tuple(map(swapped, c.instructions))) for c in plan.chains)
    changed = replace(plan, values=tuple(values), chains=chains)
    module = read_program(write_pte(replace(program, execution_plan=(changed,))))
    assert sum(isinstance(op, ViewOp) for op in module.walk()) == 1


def test_a_view_that_an_instruction_points() -> None:
    """Dynamic dims at the place of its base, by an ``et_view``: the reader says that it is a view from there on."""
    module = read_program((TESTS / "corpus" / "stock-dynamic").read_bytes()[4:])
    (view,) = (op for op in module.walk() if isinstance(op, ViewOp))
    assert view.late is not None and view.dynamic is not None
    assert isinstance(view.base.owner, BufferOp) and view.base.owner.place is not None


def plan(*places: tuple[int, int], calls: list[tuple[int, int]]) -> model.ExecutionPlan:
    """Tensors at (byte, elements of float32), of which each call reads one and writes another; the first is given."""
    tensors = tuple(
        model.Tensor(ScalarType.FLOAT, (count,), (0,), allocation_info=model.AllocationDetails(1, first))
        for first, count in places
    )
    instructions = tuple(model.KernelCall(0, (read, written, written)) for read, written in calls)
    return model.ExecutionPlan(
        "forward",
        tensors,
        (0,),
        (len(places) - 1,),
        (model.Chain(instructions),),
        operators=(model.Operator("a::b", ""),),
    )


def test_a_part_is_a_view_of_what_was_written_last() -> None:
    """Numbers 1 and 2 are at one place, one after the other; 3 is a part of the second."""
    method = plan((64, 4), (0, 8), (0, 8), (16, 4), (96, 4), calls=[(0, 1), (1, 2), (3, 4)])
    assert unwritten(method).views == {3: 2}


def test_what_is_written_in_parts_is_their_base() -> None:
    """Number 1 was at the place of the parts before; 4 is the whole of 2 and 3."""
    method = plan((64, 4), (0, 4), (0, 4), (16, 4), (0, 8), (96, 8), calls=[(0, 1), (1, 2), (0, 3), (4, 5)])
    assert unwritten(method).views == {2: 4, 3: 4}


def test_half_of_a_tensor_says_nothing_of_the_whole() -> None:
    method = plan((64, 4), (0, 4), (0, 8), (96, 8), calls=[(0, 1), (2, 3)])
    found = unwritten(method)
    assert not found.views and not found.states


def test_what_is_written_over_a_state_is_no_part_of_it() -> None:
    """A plan that has a result in the bytes of a state is wrong, and has to stay so for whoever checks it."""
    method = plan((64, 4), (0, 8), (0, 4), (16, 4), (96, 4), calls=[(0, 2), (3, 4)])
    values = list(method.values)
    state = values[1]
    assert isinstance(state, model.Tensor)
    values[1] = replace(state, extra_tensor_info=model.ExtraTensorInfo(fully_qualified_name="s"))
    read = replace(
        method,
        values=tuple(values),
        chains=(
            replace(method.chains[0], instructions=(*method.chains[0].instructions, model.KernelCall(0, (1, 4, 4)))),
        ),
    )
    assert unwritten(read).views == {3: 1}
