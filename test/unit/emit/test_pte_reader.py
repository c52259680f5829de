"""The reader against files of another FlatBuffers writer, good and malformed, and against random damage."""

from __future__ import annotations

import math
import random
import re
import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import read_pte, write_pte
from etir.emit.pte.model import (
    BackendDelegate,
    BoolList,
    CompileSpec,
    Double,
    DoubleList,
    FreeCall,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Null,
    Operator,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorList,
)

from etir_testing.emit.pte_strategies import everything
from etir_testing.emit.raw_flatbuffer import Raw, with_header


def rejected(data: bytes) -> EtirError:
    with pytest.raises(EtirError) as caught:
        read_pte(data, "bad.pte")
    return caught.value


def assert_rejected(data: bytes, expected: str, message: str) -> None:
    """The file is refused with one error of id ``expected`` that matches ``message`` and says where and what next."""
    error = rejected(data)
    assert error.ids == (expected,), error
    (diagnostic,) = error.diagnostics
    assert re.search(message, diagnostic.message), diagnostic.message
    assert diagnostic.help
    assert diagnostic.location is not None
    assert diagnostic.location.file == "bad.pte"


# Good files


def test_reads_what_the_reference_library_writes() -> None:
    raw = Raw()
    values = [
        raw.value(1),
        raw.value(2, ("q", -3)),
        raw.value(2),  # absent: the default, 0
        raw.value(3, ("B", 1)),
        raw.value(4, ("d", 2.5)),
        raw.tensor((2, 3), (1, 0)),
        raw.value(6, ("o", raw.string("é"))),
        raw.value(7, ("o", raw.scalars("q", (1, 2)))),
        raw.value(8, ("o", raw.scalars("d", (0.5, math.inf)))),
        raw.value(9, ("o", raw.scalars("B", (1, 0)))),
        raw.value(10, ("o", raw.scalars("i", (5,)))),
        raw.value(11, ("o", raw.scalars("i", (-1, 5)))),
    ]
    instructions = [
        raw.instruction(1, ("i", 0), ("o", raw.scalars("i", (5, 5, 1, 5)))),
        raw.instruction(3, ("i", 1), ("i", 2)),
        raw.instruction(4, ("i", 3), ("i", 4)),
        raw.instruction(5, ("i", 5)),
    ]
    no_overload = raw.table(("o", raw.string("aten::f")), None)
    plan = raw.plan(values, instructions, [raw.operator(), no_overload])
    (method,) = read_pte(raw.program(plan)).execution_plan
    assert method.values == (
        Null(), Int(-3), Int(0), method.values[3], Double(2.5), Tensor(ScalarType.FLOAT, (2, 3), (1, 0)), String("é"),
        IntList((1, 2)), DoubleList((0.5, math.inf)), BoolList((True, False)), TensorList((5,)),
        OptionalTensorList((-1, 5)),
    )  # fmt: skip
    code = (KernelCall(0, (5, 5, 1, 5)), MoveCall(1, 2), JumpFalseCall(3, 4), FreeCall(5))
    assert method.chains[0].instructions == code
    assert method.operators == (Operator("aten::add", "out"), Operator("aten::f"))
    assert [operator.full_name for operator in method.operators] == ["aten::add.out", "aten::f"]


def inline_constants(raw: Raw) -> dict[str, tuple[str, int]]:
    buffers = [raw.table(None), raw.table(("o", raw.scalars("B", range(8)))), raw.table(("o", raw.scalars("B", b"z")))]
    return {"constant_buffer": ("o", raw.tables(buffers))}


def test_reads_constants_inside_the_flatbuffer() -> None:
    raw = Raw()
    plan = raw.plan([raw.tensor((2,), data_buffer_idx=("I", 1))])
    program = read_pte(raw.program(plan, **inline_constants(raw)))
    assert program.constants == (b"", bytes(range(8)), b"z")
    modern = read_pte(write_pte(program))
    assert modern == program


@pytest.mark.parametrize("length", [24, 32])
def test_reads_both_lengths_of_the_header(length: int) -> None:
    raw = Raw()
    plan = raw.plan([raw.tensor((2,), data_buffer_idx=("I", 1))])
    segment = raw.table(None, ("Q", 8))
    offsets = raw.table(None, ("o", raw.scalars("Q", (0, 0))))
    tables = raw.program(plan, segments=("o", raw.tables([segment])), constant_segment=("o", offsets))
    assert read_pte(with_header(tables, b"12345678", length)).constants == (b"", b"12345678")


def test_reads_inline_delegates() -> None:
    raw = Raw()
    data = raw.table(("o", raw.scalars("B", b"blob")))
    spec = raw.table(("o", raw.string("k")), ("o", raw.scalars("B", b"v")))
    delegate = raw.table(("o", raw.string("Some")), ("o", raw.table(("b", 0), None)), ("o", raw.tables([spec])))
    call = raw.instruction(2, None, ("o", raw.scalars("i", ())))
    plan = raw.plan(instructions=[call], delegates=[delegate])
    (method,) = read_pte(raw.program(plan, backend_delegate_data=("o", raw.tables([data])))).execution_plan
    assert method.delegates == (BackendDelegate("Some", b"blob", (CompileSpec("k", b"v"),), inline=True),)


# Malformed containers


GOOD = write_pte(everything())


@pytest.mark.parametrize("size", [0, 1, 7])
def test_too_short(size: int) -> None:
    assert_rejected(GOOD[:size], "E0801", f"at least 8 bytes, this file has {size}")


def test_too_short_for_its_header() -> None:
    assert_rejected(GOOD[:30], "E0801", "ends at byte 40, this file has 30")


def test_wrong_identifier() -> None:
    assert_rejected(b"\0\0\0\0BP08" + GOOD[8:], "E0802", r"at byte 4 .*expected the identifier b'ET12'.*b'BP08'")


@pytest.mark.parametrize(
    ("at", "code", "value", "message"),
    [
        (12, "I", 23, "at byte 12: the extended header has 23 bytes"),
        (16, "Q", 1 << 40, "at byte 16: the program has"),
        (16, "Q", 39, "at byte 16: the program has 39 bytes"),
        (24, "Q", 64, "at byte 24: the segments start at byte 64"),
        (24, "Q", 1 << 63, "at byte 24: the segments start"),
        (32, "Q", 1 << 63, "at byte 32: 9223372036854775808 bytes of segments"),
        (24, "Q", 0, "at byte 32: .* from byte 0"),
    ],
)
def test_inconsistent_headers(at: int, code: str, value: int, message: str) -> None:
    data = bytearray(GOOD)
    struct.pack_into(f"<{code}", data, at, value)
    assert_rejected(bytes(data), "E0803", message)


def test_every_truncation_is_rejected() -> None:
    for size in range(len(GOOD)):
        rejected(GOOD[:size])


# Malformed tables


def test_root_outside() -> None:
    data = Raw().finish(Raw().table())  # an empty buffer: its root points at nothing
    assert_rejected(struct.pack("<I", 1 << 20) + data[4:], "E0804", "expected a Program table between")


def test_root_misaligned() -> None:
    assert_rejected(struct.pack("<I", struct.unpack_from("<I", GOOD)[0] + 1) + GOOD[4:], "E0811", "multiple of 4")


def vtable_of(data: bytes) -> int:
    (root,) = struct.unpack_from("<I", data)
    return root - struct.unpack_from("<i", data, root)[0]


@pytest.mark.parametrize(
    ("offset", "value", "expected", "message"),
    [
        (0, 3, "E0805", "vtable of Program cannot have 3 bytes"),
        (0, 0xFFFE, "E0805", "vtable of Program cannot have 65534 bytes"),
        (2, 3, "E0805", "at least 4 bytes, this vtable says 3"),
        (2, 0xFFFF, "E0804", "65535 bytes ends after"),
        (6, 0x7FFF, "E0805", "Program.execution_plan at byte 32767 of the table overlaps"),
        (6, 2, "E0805", "Program.execution_plan at byte 2 of the table overlaps"),
    ],
)
def test_malformed_vtables(offset: int, value: int, expected: str, message: str) -> None:
    data = bytearray(GOOD)
    struct.pack_into("<H", data, vtable_of(GOOD) + offset, value)
    assert_rejected(bytes(data), expected, message)


@pytest.mark.parametrize(("shift", "expected"), [(1, "E0811"), (1 << 30, "E0804"), (-(1 << 30), "E0804")])
def test_vtables_elsewhere(shift: int, expected: str) -> None:
    data = bytearray(GOOD)
    (root,) = struct.unpack_from("<I", data)
    (reference,) = struct.unpack_from("<i", data, root)
    struct.pack_into("<i", data, root, reference + shift)
    assert_rejected(bytes(data), expected, "the vtable of this Program is at byte")


def test_slot_pointing_to_itself() -> None:
    data = bytearray(GOOD)
    (root,) = struct.unpack_from("<I", data)
    (field,) = struct.unpack_from("<H", data, vtable_of(GOOD) + 6)
    struct.pack_into("<I", data, root + field, 0)
    assert_rejected(bytes(data), "E0804", "Program.execution_plan points to itself")


def test_misaligned_slot() -> None:
    raw = Raw()
    data = bytearray(raw.program(raw.plan([raw.value(2, ("q", 0x1122334455667788))])))
    at = data.index(struct.pack("<q", 0x1122334455667788))
    # Move the table, not its number, by telling the vtable that the number is 4 bytes earlier.
    table = at - 4
    vtable = table - struct.unpack_from("<i", data, table)[0]
    assert struct.unpack_from("<HHH", data, vtable)[2] == 4
    struct.pack_into("<HHH", data, vtable, 6, 16, 8)
    assert_rejected(bytes(data), "E0811", "Int.int_val at byte 8 of the table has to be 8-byte aligned")


def patched_vector(data: bytes, content: bytes, count: int) -> bytes:
    """``data`` with the length before ``content`` changed to ``count``."""
    at = data.index(content)
    return data[: at - 4] + struct.pack("<I", count) + data[at:]


def test_vector_lengths() -> None:
    raw = Raw()
    numbers = (7777, 8888, 9999)
    plan = raw.plan(slots={"inputs": ("o", raw.scalars("i", numbers))})
    data = raw.program(plan)
    for count in (1 << 30, (1 << 32) - 1, len(data) // 4):
        message = f"'inputs' has {count} 32-bit ints, there is room for"
        assert_rejected(patched_vector(data, struct.pack("<3i", *numbers), count), "E0806", message)


def test_vector_elsewhere() -> None:
    raw = Raw()
    plan = raw.plan(slots={"inputs": ("I", 1 << 20)})
    assert_rejected(raw.program(plan), "E0804", "expected the vector 'inputs' between")


def test_vector_misaligned() -> None:
    raw = Raw()
    plan = raw.plan(slots={"inputs": ("I", 13)})
    assert_rejected(raw.program(plan), "E0811", "the vector 'inputs' has to start at a multiple of 4")


@pytest.mark.parametrize("elements", ["q", "d"])
def test_elements_misaligned(elements: str) -> None:
    # Vectors of 4-byte numbers whose elements start at 4 modulo 8, read as vectors of 8-byte numbers.
    for padding in range(2):
        raw = Raw()
        vector = raw.scalars("i", [0] * (20 + padding))
        data = raw.program(raw.plan([raw.value({"q": 7, "d": 8}[elements], ("o", vector))]))
        at = data.index(struct.pack("<I", 20 + padding) + bytes(4 * (20 + padding)))
        data = data[:at] + struct.pack("<I", 2) + data[at + 4 :]
        if at % 8 == 0:
            assert_rejected(data, "E0811", "elements of '(Int|Double)List' have to be 8-byte aligned")
            return
    pytest.fail("neither vector is misaligned")


@pytest.mark.parametrize(
    ("text", "patch", "message"),
    [
        (b"caf\xe9", b"caf\xe9\0", "is not UTF-8"),
        (b"abcd", b"abcdX", "has to end with a zero byte"),
    ],
)
def test_malformed_strings(text: bytes, patch: bytes, message: str) -> None:
    raw = Raw()
    data = raw.program(raw.plan(slots={"name": ("o", raw.string(text))}))
    at = data.index(text)
    data = data[:at] + patch + data[at + len(patch) :]
    assert_rejected(data, "E0807", f"at byte {at + len(text) - 1 + text.isascii()} .*'name' {message}")


@pytest.mark.parametrize("tag", [0, 12, 255])
def test_unknown_value_kinds(tag: int) -> None:
    raw = Raw()
    assert_rejected(raw.program(raw.plan([raw.value(tag)])), "E0808", f"value kind {tag} is not between 1 and 11")


@pytest.mark.parametrize("tag", [0, 6, 255])
def test_unknown_instructions(tag: int) -> None:
    raw = Raw()
    data = raw.program(raw.plan(instructions=[raw.instruction(tag)]))
    assert_rejected(data, "E0808", f"instruction kind {tag} is not between 1 and 5")


def extra(raw: Raw, *slots: tuple[str, int] | None) -> dict[str, tuple[str, int]]:
    return {"extra_tensor_info": ("o", raw.table(*slots))}


ENUMS: dict[str, Callable[[Raw], bytes]] = {
    "scalar_type is 18": lambda r: r.program(r.plan([r.tensor(scalar_type=("b", 18))])),
    "scalar_type is -1": lambda r: r.program(r.plan([r.tensor(scalar_type=("b", -1))])),
    "shape_dynamism is 3": lambda r: r.program(r.plan([r.tensor(shape_dynamism=("b", 3))])),
    "requires_grad is 2": lambda r: r.program(r.plan([r.tensor(requires_grad=("B", 2))])),
    "location is 2": lambda r: r.program(r.plan([r.tensor(**extra(r, None, None, ("b", 2)))])),
    "device_type is 2": lambda r: r.program(r.plan([r.tensor(**extra(r, None, None, None, ("b", 2)))])),
    "Bool.bool_val is 7": lambda r: r.program(r.plan([r.value(3, ("B", 7))])),
    "BoolList element is 9": lambda r: r.program(r.plan([r.value(9, ("o", r.scalars("B", (1, 9))))])),
    "data location is 5": lambda r: r.program(
        r.plan(delegates=[r.table(("o", r.string("d")), ("o", r.table(("b", 5), None)), None)])
    ),
}


@pytest.mark.parametrize("message", ENUMS)
def test_unknown_enumeration_values(message: str) -> None:
    assert_rejected(ENUMS[message](Raw()), "E0809", message)


REQUIRED_OF_PLAN = ("name", "values", "inputs", "outputs", "chains", "delegates", "non_const_buffer_sizes")
REQUIRED: dict[str, Callable[[Raw], bytes]] = {
    **{f"ExecutionPlan has no '{n}'": lambda r, n=n: r.program(r.plan(slots={n: None})) for n in REQUIRED_OF_PLAN},
    "Program has no 'execution_plan'": lambda r: r.program(r.plan(), execution_plan=None),
    "EValue of kind Int has no value": lambda r: r.program(r.plan([r.table(("B", 2), None)])),
    "instruction has no arguments": lambda r: r.program(r.plan(instructions=[r.table(("B", 3), None)])),
    "String has no 'string_val'": lambda r: r.program(r.plan([r.value(6)])),
    "IntList has no 'items'": lambda r: r.program(r.plan([r.value(7)])),
    "BoolList has no 'items'": lambda r: r.program(r.plan([r.value(9)])),
    "Tensor has no 'sizes'": lambda r: r.program(r.plan([r.value(5, ("b", 6))])),
    "Tensor has no 'dim_order'": lambda r: r.program(r.plan([r.tensor(dim_order=None)])),
    "KernelCall has no 'args'": lambda r: r.program(r.plan(instructions=[r.instruction(1)])),
    "DelegateCall has no 'args'": lambda r: r.program(r.plan(instructions=[r.instruction(2)])),
    "Operator has no 'name'": lambda r: r.program(r.plan(operators=[r.table(None, None)])),
    "BackendDelegate has no 'id'": lambda r: r.program(r.plan(delegates=[r.table()])),
    "BackendDelegate has no 'processed'": lambda r: r.program(r.plan(delegates=[r.table(("o", r.string("d")))])),
    "Chain has no 'instructions'": lambda r: r.program(r.plan(slots={"chains": ("o", r.tables([r.table()]))})),
}


@pytest.mark.parametrize("message", REQUIRED)
def test_missing_fields(message: str) -> None:
    assert_rejected(REQUIRED[message](Raw()), "E0810", message)


# Malformed data stores


def with_segments(raw: Raw, segments: list[tuple[int, int]], **slots: int) -> bytes:
    """A file with 8 bytes of segments; ``slots`` are more slots of the program."""
    table = raw.tables([raw.table(("Q", offset), ("Q", size)) for offset, size in segments])
    tables = raw.program(raw.plan(), segments=("o", table), **{name: ("o", h) for name, h in slots.items()})
    return with_header(tables, b"12345678")


@pytest.mark.parametrize("segment", [(0, 9), (9, 0), (1 << 63, 1 << 63), ((1 << 64) - 1, 2)])
def test_segment_outside(segment: tuple[int, int]) -> None:
    assert_rejected(with_segments(Raw(), [segment]), "E0812", "segment 0 ends at .* of 8 bytes of segments")


def test_segments_without_header() -> None:
    raw = Raw()
    table = raw.tables([raw.table(None, ("Q", 1))])
    assert_rejected(raw.program(raw.plan(), segments=("o", table)), "E0812", "ends at 1 of 0 bytes of segments")


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        (lambda r: {"constant_segment": r.table(("I", 1), ("o", r.scalars("Q", (0,))))}, "offsets is in segment 1"),
        (
            lambda r: {"constant_segment": r.table(None, ("o", r.scalars("Q", (0, 9))))},
            "entry 1 starts at 9 of segment 0",
        ),
        (
            lambda r: {"mutable_data_segments": r.tables([r.table(None, ("o", r.scalars("Q", (0, 1 << 63))))])},
            "entry 1 starts at 9223372036854775808",
        ),
        (
            lambda r: {"named_data": r.tables([r.table(("o", r.string("k")), ("I", 7))])},
            "named data 'k' is in segment 7, but there are 1",
        ),
    ],
)
def test_data_outside(slots: Callable[[Raw], dict[str, int]], message: str) -> None:
    raw = Raw()
    more = slots(raw)
    assert_rejected(with_segments(raw, [(0, 8)], **more), "E0812", message)


@pytest.mark.parametrize(
    ("location", "message"), [(0, "inline entry 3, but there are 0"), (1, "in segment 3, but there")]
)
def test_delegate_data_outside(location: int, message: str) -> None:
    raw = Raw()
    delegate = raw.table(("o", raw.string("d")), ("o", raw.table(("b", location), ("I", 3))), None)
    assert_rejected(raw.program(raw.plan(delegates=[delegate])), "E0812", message)


def test_constants_in_two_places() -> None:
    raw = Raw()
    segment = raw.table(None, ("o", raw.scalars("Q", (0, 4))))
    more = {name: handle for name, (_, handle) in inline_constants(raw).items()}
    data = with_segments(raw, [(0, 8)], constant_segment=segment, **more)
    assert_rejected(data, "E0815", "3 inline constants and 2 in a segment")


def test_two_mutable_segments() -> None:
    raw = Raw()
    one = raw.table(None, ("o", raw.scalars("Q", (0, 4))))
    data = with_segments(raw, [(0, 8)], mutable_data_segments=raw.tables([one, one]))
    assert_rejected(data, "E0815", "2 mutable data segments")


def test_named_data_keys() -> None:
    raw = Raw()
    one = raw.table(("o", raw.string("k")), None)
    assert_rejected(with_segments(raw, [(0, 8)], named_data=raw.tables([one, one])), "E0831", "'k' of named data")
    raw = Raw()
    data = with_segments(raw, [(0, 8)], named_data=raw.tables([raw.table(None, ("I", 0))]))
    assert_rejected(data, "E0828", "named data has no key")


def test_newer_schema_version() -> None:
    raw = Raw()
    assert_rejected(raw.program(raw.plan(), version=("I", 1)), "E0814", "schema version 1 is not 0")


# Meaning: the validator has its own tests; here, that it runs and knows where things are


def test_rule_violations_name_the_byte() -> None:
    raw = Raw()
    call = raw.instruction(1, ("i", 4), ("o", raw.scalars("i", (0, 9))))
    plan = raw.plan([raw.value(1)], [raw.instruction(3, ("i", 0), ("i", 0)), call], [raw.operator()])
    data = raw.program(plan)
    error = rejected(data)
    assert error.ids == ("E0821", "E0820")
    for diagnostic in error.diagnostics:
        match = re.search(r"method 'forward', instruction 1: .* \(at byte (\d+), 0x", diagnostic.message)
        assert match is not None
        at = int(match[1])
        vtable = at - struct.unpack_from("<i", data, at)[0]
        (tag,) = struct.unpack_from("<H", data, vtable + 4)
        assert data[at + tag] == 1  # the table of a kernel call


@pytest.mark.parametrize(("slot", "part"), [("inputs", "input"), ("outputs", "output")])
def test_interface_violations_name_the_byte(slot: str, part: str) -> None:
    raw = Raw()
    data = raw.program(raw.plan([raw.value(1)], slots={slot: ("o", raw.scalars("i", (0, 0x5A5A)))}))
    at = data.index(struct.pack("<i", 0x5A5A))
    assert_rejected(data, "E0820", rf"{part} 1: the {part} is value 23130.*\(at byte {at}, {at:#x}\)")


def test_data_smaller_than_its_tensor() -> None:
    raw = Raw()
    value = raw.tensor((3,), data_buffer_idx=("I", 1))
    segment = raw.tables([raw.table(None, ("Q", 8))])
    offsets = raw.table(None, ("o", raw.scalars("Q", (0, 0))))
    tables = raw.program(raw.plan([value]), segments=("o", segment), constant_segment=("o", offsets))
    message = r"value 0: the tensor has 12 bytes, entry 1 of the constants has 8 \(at byte"
    assert_rejected(with_header(tables, b"12345678"), "E0827", message)


# Hostile files


def measured(data: bytes) -> tuple[EtirError, float, int]:
    """How a file is refused, in how many seconds and with how many bytes of memory at most."""
    tracemalloc.start()
    started = time.perf_counter()
    error = rejected(data)
    elapsed = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return error, elapsed, peak


def test_overlapping_vectors_do_not_exhaust_memory() -> None:
    # 2000 lists, each of which starts 4 bytes later in the same 200 KB of numbers: 400 MB if decoded one by one.
    raw = Raw()
    count = 2000
    numbers = raw.scalars("i", [35_000] * 50_000)
    lists = [raw.value(10, ("o", numbers - 4 - 4 * i)) for i in range(count)]
    error, elapsed, peak = measured(raw.program(raw.plan(lists)))
    assert error.ids == ("E0813",)
    assert peak < 60_000_000
    assert elapsed < 20


def test_sharing_is_not_overlapping() -> None:
    # Many values with the elements of one long list: 12 billion looks at an element, were it not for the sharing.
    raw = Raw()
    numbers = raw.scalars("q", [0] * 50_000)
    shared = raw.value(7, ("o", numbers))
    lists = [raw.value(7, ("o", numbers)) for _ in range(5000)]
    plan = raw.plan([raw.value(2), *[shared] * 240_000, *lists])
    data = raw.program(plan)
    started = time.perf_counter()
    (method,) = read_pte(data).execution_plan
    assert time.perf_counter() - started < 20
    assert len(method.values) == 245_001


def test_many_errors_are_cut_off() -> None:
    raw = Raw()
    call = raw.instruction(3, ("i", 5), ("i", 6))
    error = rejected(raw.program(raw.plan(instructions=[call] * 10_000)))
    assert len(error.diagnostics) == 64


def test_long_names_are_cut_in_messages() -> None:
    raw = Raw()
    name = "n" * 100_000
    moves = [raw.instruction(3, ("i", 5), ("i", 6))] * 100
    plan = raw.plan(instructions=moves, slots={"name": ("o", raw.string(name))})
    assert len(str(rejected(raw.program(plan)))) < 64 * 1000


# Random damage


def damaged(data: bytes, random_: random.Random) -> bytes:
    """``data`` with a few bytes or words changed in its tables."""
    result = bytearray(data)
    tables = struct.unpack_from("<Q", data, 16)[0] if data[8:12] == b"eh00" else len(data)
    for _ in range(random_.randint(1, 4)):
        if random_.random() < 0.5:
            result[random_.randrange(tables)] = random_.choice((random_.randrange(256), 0, 1, 127, 128, 255))
        else:
            word = random_.choice((random_.randrange(-8, 64), random_.getrandbits(32), -1, (1 << 31) - 1)) & 0xFFFFFFFF
            struct.pack_into("<I", result, random_.randrange(0, tables - 4), word)
    return bytes(result)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_read_or_rejected(seed: int) -> None:
    """Anything but a program that follows the rules or an ``EtirError`` fails the test."""
    random_ = random.Random(seed)
    ids: dict[str, int] = {}
    for _ in range(1000):
        data = damaged(GOOD, random_)
        try:
            program = read_pte(data)
        except EtirError as error:
            for id_ in error.ids:
                ids[id_] = ids.get(id_, 0) + 1
            assert all(d.message and d.help for d in error.diagnostics)
        else:
            assert isinstance(program, Program)
            write_pte(program)
    assert len(ids) >= 15, ids
