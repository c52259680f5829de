"""Data files: round trips, the layout of the file, every way in which one can be malformed, random damage."""

from __future__ import annotations

import random
import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd import read_ptd, write_ptd
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout

from etir_testing.emit.raw_flatbuffer import Raw


@st.composite
def tensors(draw: st.DrawFn) -> NamedTensor:
    alignment = draw(st.sampled_from([1, 16, 1024]))
    if draw(st.booleans()):
        return NamedTensor(draw(st.binary(max_size=50)), None, alignment)
    scalar_type = draw(st.sampled_from(ScalarType))
    sizes = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    order = tuple(draw(st.permutations(range(len(sizes)))))
    layout = TensorLayout(scalar_type, sizes, order)
    return NamedTensor(bytes([draw(st.integers(0, 2))]) * layout.nbytes, layout, alignment)


KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10)
FILES = st.builds(FlatTensor, st.dictionaries(KEYS, tensors(), max_size=5), st.just(0), st.sampled_from([1, 128, 4096]))

FLOATS = TensorLayout(ScalarType.FLOAT, (2, 2), (1, 0))
SAMPLE = FlatTensor(
    {
        "weight": NamedTensor(bytes(range(16)), FLOATS),
        "blob": NamedTensor(b"opaque", None, 512),
        "again": NamedTensor(bytes(range(16)), TensorLayout(ScalarType.INT, (4,), (0,))),
        "empty": NamedTensor(b"", TensorLayout(ScalarType.FLOAT, (0, 3), (0, 1))),
    }
)
GOOD = write_ptd(SAMPLE)


@settings(max_examples=100, deadline=None)
@given(FILES)
def test_random_files_round_trip(flat_tensor: FlatTensor) -> None:
    data = write_ptd(flat_tensor)
    again = read_ptd(data)
    assert again == flat_tensor
    assert list(again.named_data) == list(flat_tensor.named_data)
    assert write_ptd(again) == data


def test_file_layout() -> None:
    assert GOOD[4:8] == b"FT01"
    magic, length, offset, size, base, data_size = struct.unpack_from("<4sIQQQQ", GOOD, 8)
    assert (magic, length, offset) == (b"FH01", 40, 48)
    assert base == -(-(offset + size) // 128) * 128
    assert not any(GOOD[offset + size : base])
    assert GOOD[base : base + 16] == bytes(range(16))  # 'weight' and 'again' share it
    assert GOOD[base + 512 : base + 518] == b"opaque"
    assert data_size == 640  # where the empty tensor would start
    assert len(GOOD) == base + data_size


def test_sample_round_trips_without_copying() -> None:
    again = read_ptd(GOOD)
    assert again == SAMPLE
    data = again.named_data["weight"].data
    assert isinstance(data, memoryview)
    assert data.obj is GOOD
    assert again.named_data["blob"].alignment == 512


def test_an_empty_file() -> None:
    assert read_ptd(write_ptd(FlatTensor({}))) == FlatTensor({})


@pytest.mark.parametrize("segment_alignment", [16, 64, 4096])
def test_other_alignments(segment_alignment: int) -> None:
    data = write_ptd(SAMPLE, segment_alignment=segment_alignment)
    again = read_ptd(data)
    assert again == SAMPLE
    assert write_ptd(again) == data


# Rules


@pytest.mark.parametrize(
    ("expected", "message", "flat_tensor"),
    [
        ("E0850", "FLOAT of sizes [2, 2] has 16 bytes, the data 15", FlatTensor({"k": NamedTensor(bytes(15), FLOATS)})),
        ("E0850", "the data 17", FlatTensor({"k": NamedTensor(bytes(17), FLOATS)})),
        ("E0825", "is not a permutation", FlatTensor({"k": NamedTensor(bytes(16), replace(FLOATS, dim_order=(1, 1)))})),
        ("E0825", "size -2 of dim 0", FlatTensor({"k": NamedTensor(b"", replace(FLOATS, sizes=(-2, -2)))})),
        ("E0828", "is empty", FlatTensor({"": NamedTensor(b"")})),
        ("E0828", "has a NUL", FlatTensor({"a\0": NamedTensor(b"")})),
        ("E0835", "surrogate", FlatTensor({"\ud800": NamedTensor(b"")})),
        ("E0836", "alignment 24 is not", FlatTensor({"k": NamedTensor(b"", alignment=24)})),
        ("E0836", "segment_alignment 0", FlatTensor({}, segment_alignment=0)),
        ("E0814", "schema version 1", FlatTensor({}, version=1)),
    ],
)
def test_rules(expected: str, message: str, flat_tensor: FlatTensor) -> None:
    with pytest.raises(EtirError) as caught:
        write_ptd(flat_tensor)
    assert caught.value.ids == (expected,)
    assert message in str(caught.value)


# Malformed files


def assert_rejected(data: bytes, expected: str, message: str) -> None:
    with pytest.raises(EtirError) as caught:
        read_ptd(data, "bad.ptd")
    assert caught.value.ids == (expected,), caught.value
    (diagnostic,) = caught.value.diagnostics
    assert re.search(message, diagnostic.message), diagnostic.message
    assert diagnostic.help
    assert diagnostic.location is not None
    assert diagnostic.location.file == "bad.ptd"


@pytest.mark.parametrize(
    ("at", "code", "value", "expected", "message"),
    [
        (4, "I", 0, "E0802", "expected the identifier b'FT01'"),
        (8, "I", 0, "E0803", "header magic b'FH01'"),
        (12, "I", 39, "E0803", "has 39 bytes"),
        (16, "Q", 39, "E0803", "after a header of 39"),
        (24, "Q", 1 << 63, "E0803", "9223372036854775808 bytes of tables"),
        (32, "Q", 8, "E0803", "from byte 8 on"),
        (32, "Q", 1 << 63, "E0803", "do not fit"),
        (40, "Q", 1 << 40, "E0803", "1099511627776 bytes of segments"),
    ],
)
def test_malformed_headers(at: int, code: str, value: int, expected: str, message: str) -> None:
    data = bytearray(GOOD)
    struct.pack_into(f"<{code}", data, at, value)
    assert_rejected(bytes(data), expected, message)


def test_every_truncation_is_rejected() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(EtirError):
            read_ptd(GOOD[:size])


def raw_file(raw: Raw, *named: tuple[tuple[str, int] | None, ...], segments: tuple[tuple[int, int], ...]) -> bytes:
    """A file with 16 bytes of segments, made with the reference library."""
    entries = raw.tables([raw.table(("Q", offset), ("Q", size)) for offset, size in segments])
    table = raw.table(None, ("o", entries), ("o", raw.tables([raw.table(*slots) for slots in named])))
    tables = raw.finish(table, b"FT01")
    (root,) = struct.unpack_from("<I", tables)
    size = len(tables)
    base = -(-(size + 48) // 128) * 128
    header = struct.pack("<4sIQQQQ8x", b"FH01", 40, 48, size, base, 16)
    return (struct.pack("<I", root + 48) + tables[4:8] + header + tables[8:]).ljust(base, b"\0") + bytes(range(16))


def layout(raw: Raw, scalar_type: int = 6) -> int:
    return raw.table(("b", scalar_type), ("o", raw.scalars("i", (2, 2))), ("o", raw.scalars("B", (1, 0))))


def test_reads_what_the_reference_library_writes() -> None:
    raw = Raw()
    named = (("o", raw.string("w")), None, ("o", layout(raw)))
    blob = (("o", raw.string("b")), ("I", 1), None)
    expected = {"w": NamedTensor(bytes(range(16)), FLOATS), "b": NamedTensor(b"\4\5")}
    assert read_ptd(raw_file(raw, named, blob, segments=((0, 16), (4, 2)))) == FlatTensor(expected)


def test_malformed_tables() -> None:
    raw = Raw()
    assert_rejected(raw_file(raw, (None, None, None), segments=((0, 16),)), "E0810", "NamedData has no 'key'")
    raw = Raw()
    named = (("o", raw.string("w")), ("I", 1), None)
    assert_rejected(raw_file(raw, named, segments=((0, 16),)), "E0812", "'w' is in segment 1, but there are 1")
    raw = Raw()
    assert_rejected(raw_file(raw, segments=((1, 16),)), "E0812", "segment 0 ends at 17 of 16 bytes")
    raw = Raw()
    named = (("o", raw.string("w")), None, None)
    assert_rejected(raw_file(raw, named, named, segments=((0, 16),)), "E0831", "the key 'w' is used before")
    raw = Raw()
    named = (("o", raw.string("w")), None, ("o", layout(raw, 99)))
    assert_rejected(raw_file(raw, named, segments=((0, 16),)), "E0809", "scalar_type is 99")
    raw = Raw()
    named = (("o", raw.string("w")), None, ("o", layout(raw, 7)))
    assert_rejected(
        raw_file(raw, named, segments=((0, 16),)), "E0850", r"DOUBLE .* has 32 bytes, the data 16 \(at byte"
    )


def test_damaged_files_are_read_or_rejected() -> None:
    """Anything but a file that follows the rules or an ``EtirError`` fails the test."""
    random_ = random.Random(0)
    tables = struct.unpack_from("<Q", GOOD, 24)[0] + 48
    rejected = 0
    for _ in range(5000):
        data = bytearray(GOOD)
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(tables)] = random_.choice((random_.randrange(256), 0, 1, 127, 128, 255))
        try:
            flat_tensor = read_ptd(data)
        except EtirError as error:
            rejected += 1
            assert all(d.message and d.help for d in error.diagnostics)
        else:
            write_ptd(flat_tensor)
    assert rejected > 2500
