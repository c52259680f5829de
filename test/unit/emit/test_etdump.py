"""Profiles: round trips, what the reference library says of the bytes, every way to be malformed, random damage."""

from __future__ import annotations

import random
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.emit.etdump import read_etdump, schema, value_bytes, write_etdump
from etir.emit.etdump.model import (
    AllocationEvent,
    Block,
    DebugEvent,
    ETDump,
    ProfileEvent,
    TensorValue,
    Value,
    ValueKind,
)
from etir.emit.formats.scalar_type import ScalarType

from etir_testing.emit.raw_flatbuffer import Raw

I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
U64 = st.integers(0, (1 << 64) - 1)
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
IDS = st.none() | TEXT | I32.filter(lambda n: n != -1)


@st.composite
def tensor_values(draw: st.DrawFn) -> TensorValue:
    sizes = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    strides = tuple(draw(st.lists(I64, min_size=len(sizes), max_size=len(sizes))))
    return TensorValue(draw(st.sampled_from(ScalarType)), sizes, strides, draw(st.integers(-1, 1 << 40)))


CONTENTS = {
    ValueKind.NULL: st.none(),
    ValueKind.STRING: st.none(),
    ValueKind.INT: I64,
    ValueKind.BOOL: st.booleans(),
    ValueKind.FLOAT: st.floats(width=32, allow_nan=False),
    ValueKind.DOUBLE: st.floats(allow_nan=False),
    ValueKind.TENSOR: tensor_values(),
    ValueKind.TENSOR_LIST: st.lists(tensor_values(), max_size=3).map(tuple),
}
VALUES = st.sampled_from(ValueKind).flatmap(
    lambda kind: st.builds(Value, st.just(kind), CONTENTS[kind], st.none() | st.booleans())
)
EVENTS = st.one_of(
    st.builds(ProfileEvent, TEXT, I32, I32, U64, U64, IDS, st.none() | st.binary(max_size=8)),
    st.builds(DebugEvent, I64, I32, st.none() | VALUES, IDS, TEXT),
    st.builds(AllocationEvent, I32, U64),
)
BLOCKS = st.builds(Block, TEXT, st.lists(EVENTS, max_size=6).map(tuple), I32, st.lists(TEXT, max_size=2).map(tuple))
FILES = st.builds(ETDump, st.lists(BLOCKS, max_size=3).map(tuple))

TENSOR = TensorValue(ScalarType.FLOAT, (2, 3), (3, 1), 64)
SAMPLE = ETDump(
    (
        Block("Default", (ProfileEvent("Method::init", -1, 0, 5, 9),), allocators=("method", None)),
        Block(
            "Execute",
            (
                ProfileEvent(None, 0, 0, 10, 20, "Add (ND) #1", b""),
                ProfileEvent(None, 0, 0, 20, 30, 0),
                DebugEvent(0, 0, Value(ValueKind.TENSOR, TENSOR)),
                DebugEvent(0, 1, Value(ValueKind.TENSOR_LIST, (TENSOR, TENSOR))),
                DebugEvent(0, 1, Value(ValueKind.DOUBLE, -0.0)),
                AllocationEvent(0, 1 << 40),
                ProfileEvent("Method::execute", -1, 0, 4, (1 << 64) - 1),
                DebugEvent(-1, 0, Value(ValueKind.BOOL, False, True)),
            ),
            bundled_input_index=0,
        ),
    )
)
GOOD = write_etdump(SAMPLE)


@settings(max_examples=100, deadline=None)
@given(FILES)
def test_random_profiles_round_trip(etdump: ETDump) -> None:
    data = write_etdump(etdump)
    assert read_etdump(data) == etdump
    assert write_etdump(read_etdump(data)) == data


def test_file_layout() -> None:
    """The size prefix counts for the alignment, as in files of the stock runtime."""
    assert struct.unpack_from("<I", GOOD)[0] == len(GOOD) - 4
    assert GOOD[8:12] == b"ED00"
    assert len(GOOD) % 8 == 0
    (start,) = (
        match.start() for match in re.finditer(struct.pack("<Q", (1 << 64) - 1), GOOD) if match.start() % 8 == 0
    )
    assert struct.unpack_from("<Q", GOOD, start)[0] == (1 << 64) - 1


def test_sample_round_trips() -> None:
    again = read_etdump(GOOD)
    assert again == SAMPLE
    value = again.blocks[1].events[4]
    assert isinstance(value, DebugEvent)
    assert value.value is not None
    assert str(value.value.content) == "-0.0"
    assert read_etdump(write_etdump(ETDump())) == ETDump()


def test_a_file_without_its_size() -> None:
    """As ``flatc`` makes it of JSON: the alignment counts from the root offset."""
    raw = Raw()
    event = raw.table(("o", raw.string("Method::execute")), ("i", -1), ("i", 0), None, None, None, ("Q", 7), ("Q", 9))
    block = raw.table(("o", raw.string("Execute")), None, None, ("o", raw.tables([raw.table(("o", event))])))
    data = raw.finish(raw.table(None, ("o", raw.tables([block]))), b"ED00")
    assert read_etdump(data) == ETDump((Block("Execute", (ProfileEvent("Method::execute", -1, 0, 7, 9),)),))


# Malformed files


def assert_rejected(data: bytes, expected: str, message: str) -> None:
    with pytest.raises(EtirError) as caught:
        read_etdump(data, "bad.etdp")
    assert caught.value.ids == (expected,), caught.value
    (diagnostic,) = caught.value.diagnostics
    assert re.search(message, diagnostic.message), diagnostic.message
    assert diagnostic.help
    assert diagnostic.location is not None
    assert diagnostic.location.file == "bad.etdp"


def file_of(raw: Raw, *events: int) -> bytes:
    block = raw.table(None, None, None, ("o", raw.tables(events)))
    return raw.finish(raw.table(None, ("o", raw.tables([block]))), schema.IDENTIFIER)


def debug_file(raw: Raw, *slots: tuple[str, int | float] | None) -> bytes:
    """A file with one logged value, whose slots these are."""
    return file_of(raw, raw.table(None, None, ("o", raw.table(None, None, ("o", raw.table(*slots))))))


def test_malformed_tables() -> None:
    assert_rejected(b"", "E0801", "at least 12 bytes, this file has 0")
    assert_rejected(b"\0" * 64, "E0802", "at byte 8 .* identifier b'ED00'")
    assert_rejected(GOOD[:-1], "E0801", f"the size prefix says {len(GOOD) - 4} bytes, {len(GOOD) - 5} follow")
    raw = Raw()
    newer = raw.finish(raw.table(("I", 1), None), schema.IDENTIFIER)
    assert_rejected(newer, "E0841", "version 1 of the format, etir reads version 0")
    raw = Raw()
    assert_rejected(file_of(raw, raw.table(None, None, None)), "E0840", "an event is one of")
    raw = Raw()
    allocation = raw.table(("i", 1), ("Q", 1))
    both = raw.table(("o", raw.table(None)), ("o", allocation))
    assert_rejected(file_of(raw, both), "E0840", "an event is one of")
    raw = Raw()
    named = raw.table(None, None, None, ("i", 1), ("o", raw.string("a")))
    assert_rejected(file_of(raw, raw.table(("o", named))), "E0840", "delegate_debug_id_str are both there")
    assert_rejected(debug_file(Raw(), ("b", 8)), "E0808", "val is 8, expected 0 to 7")
    assert_rejected(debug_file(Raw(), ("b", 1)), "E0810", "no 'int_value'")


@pytest.mark.parametrize(
    ("scalar_type", "sizes", "strides", "offset", "expected", "message"),
    [
        (99, (2,), (1,), 0, "E0809", "scalar_type is 99"),
        (6, (2,), (), 0, "E0825", "0 strides for 1 sizes"),
        (6, (-2,), (1,), 0, "E0825", "size -2 of dim 0"),
        (6, (2,) * 17, (1,) * 17, 0, "E0825", "rank 17"),
        (6, (2,), (1,), -2, "E0840", "at byte -2 of the values"),
    ],
)
def test_malformed_tensors(
    scalar_type: int, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int, expected: str, message: str
) -> None:
    raw = Raw()
    lists = (("o", raw.scalars("q", sizes)), ("o", raw.scalars("q", strides)))
    tensor = raw.table(("b", scalar_type), *lists, ("q", offset))
    assert_rejected(debug_file(raw, ("b", 5), ("o", tensor)), expected, message)


def test_what_the_stock_runtime_leaves_of_values_it_cannot_log() -> None:
    (event,) = read_etdump(debug_file(Raw(), ("b", 5))).blocks[0].events
    assert event == DebugEvent(0, -1, None)
    (event,) = read_etdump(debug_file(Raw(), ("b", 6))).blocks[0].events
    assert event == DebugEvent(0, -1, None)


def test_many_events_in_one_place_are_refused() -> None:
    raw = Raw()
    event = raw.table(("o", raw.table(("o", raw.string("a")))))
    assert_rejected(file_of(raw, *[event] * 100_000), "E0813", "overlap")


def test_every_truncation_is_rejected() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(EtirError):
            read_etdump(GOOD[:size])


def test_damaged_files_are_read_or_rejected() -> None:
    """Anything but a profile that can be written again or an ``EtirError`` fails the test."""
    random_ = random.Random(0)
    rejected = 0
    for _ in range(4000):
        data = bytearray(GOOD)
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.choice((random_.randrange(256), 0, 1, 127, 128, 255))
        try:
            etdump = read_etdump(data)
        except EtirError as error:
            rejected += 1
            assert all(d.message and d.help for d in error.diagnostics)
        else:
            write_etdump(etdump)
    assert rejected > 1000


@pytest.mark.parametrize(
    ("expected", "message", "event"),
    [
        ("E0830", "instruction_id is 2147483648", ProfileEvent(None, 0, 1 << 31, 0, 0)),
        ("E0830", "start_time is -1", ProfileEvent(None, 0, 0, -1, 0)),
        ("E0830", "int_val is 9223372036854775808", DebugEvent(0, 0, Value(ValueKind.INT, 1 << 63))),
        ("E0840", "surrogate", ProfileEvent("\ud800", 0, 0, 0, 0)),
        ("E0840", "kind TENSOR cannot be '3'", DebugEvent(0, 0, Value(ValueKind.TENSOR, 3))),
        ("E0840", "kind NULL cannot be 'True'", DebugEvent(0, 0, Value(ValueKind.NULL, True))),
    ],
)
def test_what_cannot_be_written(expected: str, message: str, event: ProfileEvent | DebugEvent) -> None:
    with pytest.raises(EtirError, match=re.escape(message)) as caught:
        write_etdump(ETDump((Block(None, (event,)),)))
    assert caught.value.ids == (expected,)


# Values


def test_bytes_of_values() -> None:
    buffer = bytes(range(40))
    assert bytes(value_bytes(TensorValue(ScalarType.SHORT, (2, 3), (3, 1), 4), buffer)) == buffer[4:16]
    transposed = TensorValue(ScalarType.CHAR, (3, 2), (1, 5), 1)
    assert bytes(value_bytes(transposed, buffer)) == buffer[1:9]
    assert bytes(value_bytes(TensorValue(ScalarType.FLOAT, (0, 3), (3, 1), -1), b"")) == b""
    assert bytes(value_bytes(TensorValue(ScalarType.FLOAT, (), (), 36), buffer)) == buffer[36:]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (TensorValue(ScalarType.FLOAT, (), (), 37), "does not fit into 40 bytes"),
        (TensorValue(ScalarType.FLOAT, (1 << 30, 1 << 30), (1 << 60, 1 << 60), 0), "does not fit into 40 bytes"),
        (TensorValue(ScalarType.FLOAT, (2,), (-1,), 8), "does not fit"),
        (TensorValue(ScalarType.FLOAT, (2,), (1,), -1), "no place in the values"),
    ],
)
def test_values_that_are_not_in_the_buffer(tensor: TensorValue, message: str) -> None:
    with pytest.raises(EtirError, match=message) as caught:
        value_bytes(tensor, bytes(40), "run.bin")
    assert caught.value.ids == ("E0842",)
