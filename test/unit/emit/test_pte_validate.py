"""Every rule that a program has to follow, broken one at a time; the writer and the reader enforce the same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import validate_program, write_pte
from etir.emit.pte.model import (
    AllocationDetails,
    BackendDelegate,
    Bool,
    Chain,
    CompileSpec,
    ContainerMetadata,
    DelegateCall,
    Double,
    DoubleList,
    EValue,
    ExecutionPlan,
    ExtraTensorInfo,
    Frame,
    FrameList,
    FreeCall,
    Instruction,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    NamedData,
    NonConstBufferDevice,
    Null,
    Operator,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorDataLocation,
    TensorList,
    TensorShapeDynamism,
)

from etir_testing.emit.pte_strategies import everything

FLOAT = Tensor(ScalarType.FLOAT, (2, 3), (0, 1))
CONSTANT = replace(FLOAT, data_buffer_idx=1)
PLANNED = replace(FLOAT, allocation_info=AllocationDetails(1, 16))
MASK = Tensor(ScalarType.BOOL, (2,), (0,))
EXTERNAL = ExtraTensorInfo(fully_qualified_name="w", location=TensorDataLocation.EXTERNAL)

UNNAMED = replace(EXTERNAL, fully_qualified_name=None)


def method(*values: EValue, **fields: Any) -> ExecutionPlan:
    defaults: dict[str, Any] = {
        "inputs": (), "outputs": (), "chains": (Chain(()),), "operators": (Operator("aten::add", "out"),),
        "delegates": (BackendDelegate("d", b"x"),), "non_const_buffer_sizes": (0, 40),
    }  # fmt: skip
    return ExecutionPlan("forward", values, **{**defaults, **fields})


def program(*plans: ExecutionPlan, **fields: Any) -> Program:
    return Program(plans, **{"constants": (b"", bytes(24)), "mutable_data": (b"", bytes(24)), **fields})


def ids(checked: Program) -> list[str]:
    return [diagnostic.id.id for diagnostic in validate_program(checked)]


def test_everything_is_valid() -> None:
    assert validate_program(everything()) == []


VALUES: list[tuple[str, str, tuple[EValue, ...]]] = [
    ("E0830", "is not a 64-bit int", (Int(1 << 63),)),
    ("E0835", "lone surrogate U+D800 at character 1", (String("a\ud800"),)),
    ("E0820", "element 1 of the list is value 2, but the method has 2 values", (Int(0), IntList((0, 2)))),
    ("E0820", "element 0 of the list is value -1", (Int(0), IntList((-1,)))),
    ("E0824", "element 0 of the list is value 0 of kind Double, expected Int", (Double(0.0), IntList((0,)))),
    ("E0820", "element 0 of the list is value 7", (FLOAT, TensorList((7,)))),
    ("E0820", "element 0 of the list is value -1", (FLOAT, TensorList((-1,)))),
    ("E0824", "value 0 of kind Int, expected Tensor", (Int(0), TensorList((0,)))),
    ("E0824", "value 1, which does not come before the list", (TensorList((1,)), FLOAT)),
    ("E0820", "element 1 of the list is value -2", (FLOAT, OptionalTensorList((-1, -2)))),
    ("E0824", "value 1, which does not come before the list", (OptionalTensorList((1,)), FLOAT)),
    ("E0825", "rank 17 is more than 16", (replace(FLOAT, sizes=(1,) * 17, dim_order=tuple(range(17))),)),
    ("E0825", "the dim order has 1 entries for 2 dims", (replace(FLOAT, dim_order=(0,)),)),
    ("E0825", "dim order [0, 0] is not a permutation", (replace(FLOAT, dim_order=(0, 0)),)),
    ("E0825", "dim order [1, 2] is not a permutation", (replace(FLOAT, dim_order=(1, 2)),)),
    ("E0825", "size -1 of dim 0", (replace(FLOAT, sizes=(-1, 3)),)),
    ("E0825", "size 2147483648 of dim 1", (replace(FLOAT, sizes=(1, 1 << 31)),)),
    ("E0825", "more than 2^63 bytes", (replace(FLOAT, sizes=(1 << 30,) * 3, dim_order=(0, 1, 2)),)),
    ("E0825", "more than 2^63 bytes", (replace(FLOAT, sizes=(1 << 30,) * 3 + (0,), dim_order=(0, 1, 2, 3)),)),
    ("E0832", "storage offset 4 is not 0", (replace(FLOAT, storage_offset=4),)),
    ("E0832", "DYNAMIC_UNBOUND", (replace(PLANNED, shape_dynamism=TensorShapeDynamism.DYNAMIC_UNBOUND),)),
    ("E0830", "layout 128", (replace(FLOAT, layout=128),)),
    ("E0827", "data_buffer_idx is 2, but the constants have 2 entries", (replace(FLOAT, data_buffer_idx=2),)),
    ("E0827", "data_buffer_idx is -1", (replace(FLOAT, data_buffer_idx=-1),)),
    ("E0827", "28 bytes, entry 1 of the constants has 24", (replace(CONSTANT, sizes=(7, 1)),)),
    ("E0827", "2, but the mutable data have 2 entries", (replace(PLANNED, data_buffer_idx=2),)),
    ("E0826", "memory id 2 is not in 1 to 1", (replace(FLOAT, allocation_info=AllocationDetails(2, 0)),)),
    ("E0826", "memory id 0 is not in 1 to 1", (replace(FLOAT, allocation_info=AllocationDetails(0, 0)),)),
    ("E0826", "24 bytes at offset 17 end outside", (replace(FLOAT, allocation_info=AllocationDetails(1, 17)),)),
    ("E0826", "24 bytes at offset -1 end outside", (replace(FLOAT, allocation_info=AllocationDetails(1, -1)),)),
    ("E0833", "has no fully_qualified_name", (replace(FLOAT, extra_tensor_info=UNNAMED),)),
    ("E0828", "has a NUL", (replace(FLOAT, extra_tensor_info=ExtraTensorInfo(fully_qualified_name="a\0b")),)),
    ("E0835", "surrogate", (replace(FLOAT, extra_tensor_info=ExtraTensorInfo(fully_qualified_name="\udfff")),)),
    ("E0830", "mutable_data_segments_idx -1", (replace(FLOAT, extra_tensor_info=ExtraTensorInfo(-1)),)),
    ("E0830", "device index 200", (replace(FLOAT, extra_tensor_info=ExtraTensorInfo(device_index=200)),)),
    ("E0830", "is not a u32", (replace(FLOAT, data_buffer_idx=1 << 32, extra_tensor_info=EXTERNAL),)),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "message", "values"), VALUES, ids=[f"{v[0]}-{v[1]}" for v in VALUES])
def test_value_rules(expected: str, message: str, values: tuple[EValue, ...]) -> None:
    (diagnostic,) = validate_program(program(method(*values)))
    assert diagnostic.id.id == expected
    assert message in diagnostic.message
    assert "method 'forward', value " in diagnostic.message
    with pytest.raises(EtirError) as caught:
        write_pte(program(method(*values)))
    assert caught.value.ids == (expected,)


@pytest.mark.parametrize(
    "values",
    [
        (Int(-(1 << 63)), IntList((0, 0)), IntList(())),
        (IntList((1,)), Int(0)),  # ints may come after their list: it is read when it is used
        (FLOAT, OptionalTensorList((-1, 0)), TensorList((0,))),
        (CONSTANT, PLANNED, replace(PLANNED, data_buffer_idx=1)),
        (replace(FLOAT, data_buffer_idx=999, extra_tensor_info=EXTERNAL),),  # the index of external data is ignored
        (replace(FLOAT, sizes=(0, (1 << 31) - 1)), replace(FLOAT, sizes=(), dim_order=())),
        (replace(FLOAT, sizes=(1,) * 16, dim_order=tuple(range(15, -1, -1))),),
        (replace(FLOAT, shape_dynamism=TensorShapeDynamism.DYNAMIC_BOUND, layout=-128),),
    ],
)
def test_values_within_the_rules(values: tuple[EValue, ...]) -> None:
    assert validate_program(program(method(*values))) == []


def in_chain(*instructions: Instruction) -> Program:
    values = (CONSTANT, Int(1), Bool(True), MASK)
    return program(method(*values, chains=(Chain(instructions),)))


INSTRUCTIONS: list[tuple[str, str, Instruction]] = [
    ("E0821", "operator 1, but the method has 1", KernelCall(1, ())),
    ("E0821", "operator -1", KernelCall(-1, ())),
    ("E0820", "argument 1 is value 4, but the method has 4 values", KernelCall(0, (0, 4))),
    ("E0820", "argument 0 is value -1", DelegateCall(0, (-1,))),
    ("E0822", "delegate 1, but the method has 1", DelegateCall(1, ())),
    ("E0822", "delegate -1", DelegateCall(-1, ())),
    ("E0820", "the source is value 4", MoveCall(4, 0)),
    ("E0820", "the target is value -1", MoveCall(0, -1)),
    ("E0823", "jumps to instruction 2 of a chain of 1", JumpFalseCall(2, 2)),
    ("E0823", "jumps to instruction -1", JumpFalseCall(2, -1)),
    ("E0820", "the condition is value 9", JumpFalseCall(9, 0)),
    ("E0829", "the condition is value 1, a Int", JumpFalseCall(1, 0)),
    ("E0829", "the condition is value 0, a FLOAT tensor", JumpFalseCall(0, 0)),
    ("E0820", "the freed value is value 4", FreeCall(4)),
    ("E0829", "the freed value is value 1, a Int", FreeCall(1)),
]


@pytest.mark.parametrize(("expected", "message", "wrong"), INSTRUCTIONS, ids=[i[1] for i in INSTRUCTIONS])
def test_instruction_rules(expected: str, message: str, wrong: Instruction) -> None:
    (diagnostic,) = validate_program(in_chain(wrong))
    assert diagnostic.id.id == expected
    assert f"method 'forward', instruction 0: {message}" in diagnostic.message.replace("calls ", "")


def test_instructions_within_the_rules() -> None:
    checked = in_chain(
        KernelCall(0, (0, 3)),
        DelegateCall(0, ()),
        MoveCall(1, 1),
        JumpFalseCall(2, 6),
        JumpFalseCall(3, 0),
        FreeCall(0),
    )
    assert validate_program(checked) == []


def test_the_chain_is_named_when_there_are_several() -> None:
    plan = method(chains=(Chain(()), Chain((MoveCall(0, 0),))))
    messages = [diagnostic.message for diagnostic in validate_program(program(plan))]
    assert [m.split(":")[0] for m in messages] == ["method 'forward', chain 1, instruction 0"] * 2


def trace(*frames: Frame) -> tuple[FrameList, ...]:
    return (FrameList(frames),)


PLANS: list[tuple[str, str, ExecutionPlan]] = [
    ("E0828", "name is empty", replace(method(), name="")),
    ("E0828", "name 'a\\x00' has a NUL", replace(method(), name="a\0")),
    ("E0835", "name '\\ud800' has the lone", replace(method(), name="\ud800")),
    ("E0835", "input description", method(container_meta_type=ContainerMetadata("\ud800", ""))),
    ("E0835", "output description", method(container_meta_type=ContainerMetadata("", "\ud800"))),
    ("E0834", "non_const_buffer_sizes is empty", method(non_const_buffer_sizes=())),
    ("E0830", "memory 1 has -1 bytes", method(non_const_buffer_sizes=(0, -1))),
    ("E0830", "memory 1 has 9223372036854775808", method(non_const_buffer_sizes=(0, 1 << 63))),
    ("E0826", "a device is given for memory 2", method(non_const_buffer_device=(NonConstBufferDevice(2),))),
    ("E0826", "a device is given for memory 0", method(non_const_buffer_device=(NonConstBufferDevice(0),))),
    ("E0830", "device index 128", method(non_const_buffer_device=(NonConstBufferDevice(1, device_index=128),))),
    ("E0820", "input 0: the input is value 1", method(Int(0), inputs=(1,))),
    ("E0820", "output 1: the output is value -1", method(Int(0), outputs=(0, -1))),
    ("E0837", "the input is value 0, a DoubleList", method(DoubleList(()), inputs=(0,))),
    ("E0828", "operator 0: name is empty", method(operators=(Operator(""),))),
    ("E0828", "has 100 bytes, more than 99", method(operators=(Operator("a" * 95, "b" * 4),))),
    ("E0828", "has 100 bytes, more than 99", method(operators=(Operator("é" * 50),))),
    ("E0828", "has a NUL", method(operators=(Operator("a", "o\0"),))),
    ("E0835", "operator 0: name", method(operators=(Operator("a\ud800"),))),
    ("E0828", "delegate 0: id is empty", method(delegates=(BackendDelegate("", b""),))),
    ("E0835", "compile spec key", method(delegates=(BackendDelegate("d", b"", (CompileSpec("\ud800", b""),)),))),
    ("E0834", "there is no chain", method(chains=())),
    ("E0820", "an input of chain 0 is value 0", method(chains=(Chain((), inputs=(0,)),))),
    ("E0820", "an output of chain 0 is value 0", method(chains=(Chain((), outputs=(0,)),))),
    ("E0839", "chain 0 has 0 instructions and 1 stack traces", method(chains=(Chain((), stacktrace=trace()),))),
    (
        "E0830",
        "line number 2147483648",
        method(chains=(Chain((DelegateCall(0, ()),), stacktrace=trace(Frame("", 1 << 31, "", ""))),)),
    ),
    (
        "E0835",
        "frame '\\ud800'",
        method(chains=(Chain((DelegateCall(0, ()),), stacktrace=trace(Frame("", 0, "", "\ud800"))),)),
    ),
]


@pytest.mark.parametrize(("expected", "message", "plan"), PLANS, ids=[p[1] for p in PLANS])
def test_method_rules(expected: str, message: str, plan: ExecutionPlan) -> None:
    (diagnostic,) = validate_program(program(plan))
    assert diagnostic.id.id == expected
    assert message in diagnostic.message


def test_method_within_the_rules() -> None:
    values = (Null(), Int(0), Bool(False), Double(0.0), String(""), FLOAT, TensorList(()))
    plan = method(
        *values,
        inputs=(0, 1, 2, 3, 4, 5),
        outputs=tuple(range(7)),
        operators=(Operator("a" * 95, "bcd"), Operator("é" * 49)),
        delegates=(BackendDelegate("d", b"", (CompileSpec("", b""),)),),
    )
    assert validate_program(program(plan)) == []


PROGRAMS: list[tuple[str, Callable[[], Program]]] = [
    ("E0814", lambda: program(method(), version=1)),
    ("E0827", lambda: program(method(), constants=())),
    ("E0827", lambda: program(method(), constants=(b"x",))),
    ("E0827", lambda: program(method(), mutable_data=(b"x",))),
    ("E0831", lambda: program(method(), method())),
    ("E0828", lambda: program(method(), named_data={"": NamedData(b"")})),
    ("E0828", lambda: program(method(), named_data={"a\0": NamedData(b"")})),
    ("E0835", lambda: program(method(), named_data={"\ud800": NamedData(b"")})),
    ("E0836", lambda: program(method(), named_data={"a": NamedData(b"", 3)})),
]


@pytest.mark.parametrize(("expected", "make"), PROGRAMS)
def test_program_rules(expected: str, make: Callable[[], Program]) -> None:
    assert ids(make()) == [expected]


def test_mistakes_are_collected() -> None:
    plan = method(Int(1 << 70), FLOAT, inputs=(9,), chains=(Chain((KernelCall(5, (8,)),)),))
    once = ["E0830", "E0820", "E0821", "E0820"]
    assert ids(program(plan, plan)) == [*once, "E0831", *once]


def test_a_list_is_checked_at_every_place_where_it_could_be_wrong() -> None:
    """Equal lists share their elements; the second is fine, the first is not."""
    items = (1,)
    (diagnostic,) = validate_program(program(method(TensorList(items), FLOAT, TensorList(items))))
    assert "value 0: element 0 of the list is value 1, which does not come before" in diagnostic.message
    both = validate_program(program(method(FLOAT, OptionalTensorList((-1,)), TensorList((-1,)))))
    assert [d.id.id for d in both] == ["E0820"]
