"""Bundled programs: round trips, the layout of the file, every way to be malformed, random damage."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.emit.bundled import is_bundled, read_bundled, schema, write_bundled
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor, Value
from etir.emit.formats.scalar_type import ITEM_BYTES, ScalarType

from etir_testing.emit.raw_flatbuffer import Raw

PTE = b"\x10\0\0\0ET12" + bytes(range(56))


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    scalar_type = draw(st.sampled_from(ScalarType))
    sizes = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    size = ITEM_BYTES[scalar_type]
    for extent in sizes:
        size *= extent
    data = draw(st.binary(min_size=size, max_size=size)) if size < 64 else bytes(size)
    return Tensor(scalar_type, sizes, tuple(draw(st.permutations(range(len(sizes))))), data)


I64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.lists(st.one_of(tensors(), st.booleans(), I64, st.floats(allow_nan=False)), max_size=3).map(tuple)
CASES = st.lists(st.builds(Case, VALUES, VALUES), max_size=3).map(tuple)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
FILES = st.dictionaries(NAMES, CASES, max_size=3).map(
    lambda suites: BundledProgram(PTE, tuple(Suite(name, suites[name]) for name in sorted(suites)))
)
FLOATS = Tensor(ScalarType.FLOAT, (2, 2), (1, 0), bytes(range(100, 116)))
SAMPLE = BundledProgram(
    PTE, (Suite("encode", ()), Suite("forward", (Case((FLOATS, True, -3, -0.0), (FLOATS,)), Case((), ()))))
)
GOOD = write_bundled(SAMPLE)


@settings(max_examples=100, deadline=None)
@given(FILES)
def test_random_files_round_trip(bundled: BundledProgram) -> None:
    data = write_bundled(bundled)
    again = read_bundled(data)
    assert again == bundled
    kinds = [[list(map(type, case.inputs)) for case in suite.cases] for suite in again.suites]
    assert kinds == [[list(map(type, case.inputs)) for case in suite.cases] for suite in bundled.suites]
    assert write_bundled(again) == data


def test_file_layout() -> None:
    """The program starts at a multiple of 32, data of tensors at multiples of 16; nothing is copied."""
    assert is_bundled(GOOD)
    assert not is_bundled(PTE)
    assert not is_bundled(b"")
    assert len(GOOD) % 32 == 0
    assert GOOD.index(PTE) % 32 == 0
    assert all(match.start() % 16 == 0 for match in re.finditer(re.escape(bytes(range(100, 116))), GOOD))
    again = read_bundled(GOOD)
    assert isinstance(again.program, memoryview)
    assert again.program.obj is GOOD
    assert again == SAMPLE


def test_suites_are_sorted() -> None:
    backwards = BundledProgram(PTE, SAMPLE.suites[::-1])
    assert write_bundled(backwards) == GOOD


@pytest.mark.parametrize(
    ("expected", "message", "bundled"),
    [
        ("E0844", "no ExecuTorch program", BundledProgram(b"x" * 64)),
        ("E0844", "no ExecuTorch program", BundledProgram(b"")),
        ("E0831", "two suites of the method 'f'", BundledProgram(PTE, (Suite("f", ()), Suite("f", ())))),
        ("E0828", "is empty", BundledProgram(PTE, (Suite("", ()),))),
        ("E0835", "surrogate", BundledProgram(PTE, (Suite("\ud800", ()),))),
        ("E0830", "input 0 of case 0", BundledProgram(PTE, (Suite("f", (Case((1 << 63,)),)),))),
        (
            "E0844",
            "expected output 0 of case 0 of 'f': FLOAT of sizes [2] has 8 bytes, the data 7",
            BundledProgram(PTE, (Suite("f", (Case((), (Tensor(ScalarType.FLOAT, (2,), (0,), bytes(7)),)),)),)),
        ),
        (
            "E0825",
            "not a permutation",
            BundledProgram(PTE, (Suite("f", (Case((Tensor(ScalarType.FLOAT, (2,), (1,), bytes(8)),)),)),)),
        ),
    ],
)
def test_rules(expected: str, message: str, bundled: BundledProgram) -> None:
    with pytest.raises(EtirError, match=re.escape(message)) as caught:
        write_bundled(bundled)
    assert caught.value.ids == (expected,)


def assert_rejected(data: bytes, expected: str, message: str) -> None:
    with pytest.raises(EtirError) as caught:
        read_bundled(data, "bad.bpte")
    assert caught.value.ids == (expected,), caught.value
    (diagnostic,) = caught.value.diagnostics
    assert re.search(message, diagnostic.message), diagnostic.message
    assert diagnostic.location is not None
    assert diagnostic.location.file == "bad.bpte"


def value_file(raw: Raw, *slots: tuple[str, int] | None) -> bytes:
    """A file with one case with one input, whose slots these are."""
    case = raw.table(("o", raw.tables([raw.table(*slots)])), None)
    suite = raw.table(("o", raw.string("forward")), ("o", raw.tables([case])))
    table = raw.table(("I", 2), ("o", raw.tables([suite])), ("o", raw.scalars("B", PTE)))
    return raw.finish(table, schema.IDENTIFIER)


def test_malformed_files() -> None:
    assert_rejected(b"", "E0801", "at least 8 bytes")
    assert_rejected(PTE, "E0802", "identifier b'BP08'")
    raw = Raw()
    assert_rejected(raw.finish(raw.table(("I", 2), None, None), b"BP08"), "E0810", "no 'program'")
    raw = Raw()
    assert_rejected(value_file(raw, ("B", 5), ("o", raw.table(("q", 1)))), "E0808", "val is of type 5")
    assert_rejected(value_file(Raw(), ("B", 1)), "E0810", "no 'val'")
    raw = Raw()
    assert_rejected(value_file(raw, ("B", 3), ("o", raw.table(("B", 2)))), "E0844", "a bool is 2")
    raw = Raw()
    assert_rejected(value_file(raw, ("B", 1), ("o", raw.table(("b", 99)))), "E0809", "scalar_type is 99")
    raw = Raw()
    assert_rejected(value_file(raw, ("B", 1), ("o", raw.table(("b", 6)))), "E0844", "has 4 bytes, the data 0")


def test_every_truncation_is_rejected() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(EtirError):
            read_bundled(GOOD[:size])


def test_damaged_files_are_read_or_rejected() -> None:
    """Anything but a file that can be written again or an ``EtirError`` fails the test."""
    random_ = random.Random(0)
    rejected = 0
    for _ in range(3000):
        data = bytearray(GOOD)
        for _ in range(random_.randint(1, 4)):
            data[random_.randrange(len(data))] = random_.choice((random_.randrange(256), 0, 1, 127, 128, 255))
        try:
            bundled = read_bundled(data)
        except EtirError as error:
            rejected += 1
            assert all(d.message and d.help for d in error.diagnostics)
        else:
            write_bundled(bundled)
    assert rejected > 500


def test_values_keep_their_kind() -> None:
    values: tuple[Value, ...] = (True, 1, 1.0)
    case = read_bundled(write_bundled(BundledProgram(PTE, (Suite("f", (Case(values),)),)))).suites[0].cases[0]
    assert list(map(type, case.inputs)) == [bool, int, float]
