"""Random programs that follow every rule of the runtime's, and one fixed program that has everything once."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from etir.emit.formats.scalar_type import ITEM_BYTES, ScalarType
from etir.emit.pte.model import (
    AllocationDetails,
    BackendDelegate,
    Bool,
    BoolList,
    Chain,
    CompileSpec,
    ContainerMetadata,
    DelegateCall,
    DeviceType,
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

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
BLOBS = st.binary(max_size=40)
DOUBLES = st.floats(allow_nan=False)  # nan is not equal to itself; it has a test of its own
DYNAMISM = st.sampled_from([TensorShapeDynamism.STATIC, TensorShapeDynamism.DYNAMIC_BOUND])


@st.composite
def tensors(draw: st.DrawFn, constants: list[bytes], mutable: list[bytes], memories: list[int]) -> Tensor:
    """A tensor; grows the planned memory that it is put into, and replaces its data by one that is large enough."""
    scalar_type = draw(st.sampled_from(ScalarType))
    sizes = tuple(draw(st.lists(st.integers(0, 4), max_size=5)))
    dim_order = tuple(draw(st.permutations(range(len(sizes)))))
    nbytes = math.prod(sizes) * ITEM_BYTES[scalar_type]
    place, index, extra = None, 0, None
    if draw(st.booleans()):
        place = AllocationDetails(draw(st.integers(1, len(memories) - 1)), draw(st.integers(0, 1 << 40)))
        memories[place.memory_id] = max(memories[place.memory_id], place.memory_offset + nbytes)
    store = constants if place is None else mutable
    if len(store) > 1 and draw(st.booleans()):
        index = draw(st.integers(1, len(store) - 1))
        store[index] = store[index].ljust(nbytes, b"\x5a")
    if draw(st.booleans()):
        external = draw(st.booleans())
        extra = ExtraTensorInfo(
            draw(st.integers(0, (1 << 64) - 1)),
            draw(NAMES if external else st.one_of(st.none(), NAMES)),
            TensorDataLocation(external),
            draw(st.sampled_from(DeviceType)),
            draw(st.integers(-128, 127)),
        )
    return Tensor(
        scalar_type, sizes, dim_order, place, index, draw(DYNAMISM), draw(st.booleans()), 0,
        draw(st.integers(-128, 127)), extra,
    )  # fmt: skip


_LITERALS: dict[type[EValue], st.SearchStrategy[Any]] = {
    Null: st.just(Null()),
    Int: st.builds(Int, I64),
    Bool: st.builds(Bool, st.booleans()),
    Double: st.builds(Double, DOUBLES),
    String: st.builds(String, TEXT),
    DoubleList: st.builds(DoubleList, st.lists(DOUBLES, max_size=4).map(tuple)),
    BoolList: st.builds(BoolList, st.lists(st.booleans(), max_size=4).map(tuple)),
}
_KINDS = st.sampled_from([*_LITERALS, IntList, TensorList, OptionalTensorList, Tensor, Tensor])


@st.composite
def values(draw: st.DrawFn, constants: list[bytes], mutable: list[bytes], memories: list[int]) -> tuple[EValue, ...]:
    """A value table: one of a random kind after the other, lists with elements that are there already."""
    found: list[EValue] = [Bool(draw(st.booleans())), Null()]
    for kind in draw(st.lists(_KINDS, max_size=12)):
        if kind in _LITERALS:
            found.append(draw(_LITERALS[kind]))
        elif kind is Tensor:
            found.append(draw(tensors(constants, mutable, memories)))
        else:
            member = Int if kind is IntList else Tensor
            elements = [i for i, value in enumerate(found) if isinstance(value, member)]
            elements += [-1] * (kind is OptionalTensorList)
            items = draw(st.lists(st.sampled_from(elements), max_size=4)) if elements else []
            found.append(kind(tuple(items)))
    return tuple(found)


def instructions(table: tuple[EValue, ...], operators: int, delegates: int, length: int) -> st.SearchStrategy[Any]:
    """An instruction of a chain of ``length``."""
    value = st.integers(0, len(table) - 1)
    args = st.lists(value, max_size=8).map(tuple)
    conditions = [
        i
        for i, v in enumerate(table)
        if isinstance(v, Bool) or (isinstance(v, Tensor) and v.scalar_type == ScalarType.BOOL)
    ]
    freed = [i for i, v in enumerate(table) if isinstance(v, Tensor)]
    choices: list[st.SearchStrategy[Instruction]] = [
        st.builds(MoveCall, value, value),
        st.builds(JumpFalseCall, st.sampled_from(conditions), st.integers(0, length)),
    ]
    if operators:
        choices.append(st.builds(KernelCall, st.integers(0, operators - 1), args))
    if delegates:
        choices.append(st.builds(DelegateCall, st.integers(0, delegates - 1), args))
    if freed:
        choices.append(st.builds(FreeCall, st.sampled_from(freed)))
    return st.one_of(choices)


FRAMES = st.builds(Frame, TEXT, st.integers(-(1 << 31), (1 << 31) - 1), TEXT, TEXT)


@st.composite
def plans(draw: st.DrawFn, name: str, constants: list[bytes], mutable: list[bytes]) -> ExecutionPlan:
    """A method named ``name``."""
    memories = [0] * draw(st.integers(2, 4))
    table = draw(values(constants, mutable, memories))
    operators = tuple(draw(st.lists(st.builds(Operator, NAMES, TEXT.map(lambda t: t.replace("\0", ""))), max_size=4)))
    specs = st.lists(st.builds(CompileSpec, TEXT, BLOBS), max_size=2).map(tuple)
    delegates = draw(
        st.lists(st.builds(BackendDelegate, NAMES, BLOBS.filter(bool), specs, st.booleans()), max_size=3).map(tuple)
    )
    chains: list[Chain] = []
    for _ in range(draw(st.integers(1, 2))):
        length = draw(st.integers(0, 6))
        one = instructions(table, len(operators), len(delegates), length)
        code = tuple(draw(st.lists(one, min_size=length, max_size=length)))
        frames = st.lists(FRAMES, max_size=2).map(lambda items: FrameList(tuple(items)))
        trace = draw(st.none() | st.lists(frames, min_size=length, max_size=length).map(tuple))
        chains.append(Chain(code, stacktrace=trace))
    listed = (TensorList, OptionalTensorList, IntList, DoubleList, BoolList)
    inputs = [i for i, value in enumerate(table) if not isinstance(value, listed)]
    device = st.builds(
        NonConstBufferDevice, st.integers(1, len(memories) - 1), st.sampled_from(DeviceType), st.integers(-128, 127)
    )
    return ExecutionPlan(
        name,
        table,
        tuple(draw(st.lists(st.sampled_from(inputs), max_size=4))),
        tuple(draw(st.lists(st.integers(0, len(table) - 1), max_size=4))),
        tuple(chains),
        operators,
        delegates,
        tuple(memories),
        tuple(draw(st.lists(device, max_size=2))),
        draw(st.none() | st.builds(ContainerMetadata, TEXT, TEXT)),
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program with up to three methods."""
    constants = [b"", *draw(st.lists(BLOBS, max_size=3))]
    mutable = [b"", *draw(st.lists(BLOBS, min_size=1, max_size=2))] if draw(st.booleans()) else []
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    methods = tuple([draw(plans(name, constants, mutable)) for name in names])
    named = draw(st.dictionaries(NAMES, st.builds(NamedData, BLOBS, st.sampled_from([1, 16, 512])), max_size=3))
    # A constant ends where the tensors that use it end; one that is longer than its users comes back shorter.
    used = {
        (v.allocation_info is not None, v.data_buffer_idx): 0
        for plan in methods
        for v in plan.values
        if isinstance(v, Tensor) and not v.is_external
    }
    for plan in methods:
        for value in plan.values:
            key = (value.allocation_info is not None, value.data_buffer_idx) if isinstance(value, Tensor) else None
            if isinstance(value, Tensor) and not value.is_external and key in used:
                used[key] = max(used[key], value.nbytes)
    # One that nothing uses lasts until the next one: give it the length that this makes.
    for is_mutable, store in ((False, constants), (True, mutable)):
        alignment = 1 if is_mutable else 16
        for index in range(1, len(store)):
            data = store[index]
            if (is_mutable, index) in used:
                store[index] = data[: used[is_mutable, index]]
            else:
                last = index + 1 == len(store)
                padded = data.ljust(-(-len(data) // alignment) * alignment, b"\0")
                store[index] = (data if last else padded) or bytes(alignment)
    return Program(methods, tuple(constants), tuple(mutable), named)


def everything() -> Program:
    """A program with every kind of value, instruction and data."""
    tensor = Tensor(ScalarType.FLOAT, (2, 3), (1, 0), data_buffer_idx=1)
    planned = Tensor(
        ScalarType.FLOAT, (2, 3), (0, 1), AllocationDetails(1, 64), 1, TensorShapeDynamism.DYNAMIC_BOUND, True,
        extra_tensor_info=ExtraTensorInfo(fully_qualified_name="state"),
    )  # fmt: skip
    mask = Tensor(ScalarType.BOOL, (), (), AllocationDetails(2, 1 << 33))
    external = Tensor(
        ScalarType.HALF, (4,), (0,), extra_tensor_info=ExtraTensorInfo(7, "w", TensorDataLocation.EXTERNAL)
    )
    table: tuple[EValue, ...] = (
        tensor, planned, mask, external, Null(), Int(-5), Int(1 << 40), Bool(True), Double(-0.0), Double(math.inf),
        String("grüße"), IntList((5, 6, 5)), DoubleList((1.5, -math.inf)), BoolList((True, False, True)),
        TensorList((0, 1)), OptionalTensorList((-1, 2)), Int(-5), Double(0.0),
    )  # fmt: skip
    code = (
        KernelCall(0, (0, 1, 5, 1)), DelegateCall(0, (0, 1)), DelegateCall(1, (0, 1)), JumpFalseCall(2, 5),
        MoveCall(0, 1), FreeCall(1), JumpFalseCall(7, 0), KernelCall(1, ()),
    )  # fmt: skip
    trace = tuple(FrameList((Frame("m.py", line, "forward", "x + y"),)) for line in range(len(code)))
    delegates = (
        BackendDelegate("XnnpackBackend", b"blob" * 10, (CompileSpec("key", b"value"), CompileSpec("", b""))),
        BackendDelegate("XnnpackBackend", b"inline" * 5, inline=True),
    )
    plan = ExecutionPlan(
        "forward", table, (1, 5, 4), (0, 14), (Chain(code, stacktrace=trace),),
        (Operator("aten::add", "out"), Operator("aten::relu_")), delegates, (0, 128, (1 << 33) + 1),
        (NonConstBufferDevice(2, DeviceType.CUDA, 1),), ContainerMetadata("in", "out"),
    )  # fmt: skip
    constant = ExecutionPlan("get_size", (Int(9),), (), (0,), (Chain(()),))
    named = {"a": NamedData(b"1234", 256), "b": NamedData(b"1234"), "c": NamedData(b"5")}
    return Program((plan, constant), (b"", bytes(range(24))), (b"", bytes(24)), named)
