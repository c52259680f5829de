"""What is written reads back the same, takes no more room and memory than it has to, and is the same every time."""

from __future__ import annotations

import hashlib
import math
import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings

from etir.diagnostics import EtirError
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import pte_parts, read_pte, write_pte
from etir.emit.pte.model import (
    BackendDelegate,
    Chain,
    Double,
    ExecutionPlan,
    FileLayout,
    Int,
    IntList,
    KernelCall,
    NamedData,
    Operator,
    Program,
    String,
    Tensor,
)

from etir_testing import TESTS
from etir_testing.emit.pte_strategies import everything, programs


def one_method(*values, constants=(b"",), **fields):
    plan = ExecutionPlan("forward", values, (), (), (Chain(()),), **fields)
    return Program((plan,), constants)


def constant(index: int, size: int) -> Tensor:
    return Tensor(ScalarType.BYTE, (size,), (0,), data_buffer_idx=index)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_random_programs_round_trip(program: Program) -> None:
    data = write_pte(program)
    again = read_pte(data)
    assert again == program
    assert write_pte(again) == data


def test_everything_round_trips() -> None:
    program = everything()
    again = read_pte(write_pte(program))
    assert again == program
    doubles = [value.double_val for value in again.execution_plan[0].values if isinstance(value, Double)]
    assert [math.copysign(1, value) for value in doubles] == [-1, 1, 1]
    assert again.named_data["a"].alignment == 256
    assert list(again.named_data) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "layout", [FileLayout(16, 16, 16), FileLayout(4096, 64, 32), FileLayout(1, 1, 16), FileLayout(256, 4096, 4)]
)
def test_alignments_are_recovered_from_the_file(layout: FileLayout) -> None:
    program = replace(everything(), layout=layout)
    data = write_pte(program)
    again = read_pte(data)
    assert again == program
    assert write_pte(again) == data


def test_nan_keeps_its_bits() -> None:
    (nan,) = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))
    data = write_pte(one_method(Double(nan)))
    (value,) = read_pte(data).execution_plan[0].values
    assert isinstance(value, Double)
    assert struct.pack("<d", value.double_val) == struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF)


def test_header_only_with_segments() -> None:
    bare = write_pte(one_method(Int(1)))
    assert bare[4:8] == b"ET12"
    assert bare[8:12] != b"eh00"
    full = write_pte(one_method(constant(1, 5), constants=(b"", b"12345")))
    magic, length, program_size, base, size = struct.unpack_from("<4sIQQQ", full, 8)
    assert (magic, length) == (b"eh00", 32)
    assert base == -(-program_size // 128) * 128
    assert size == 5
    assert full[base:] == b"12345"  # nothing after the last segment
    assert not any(full[program_size:base])


def test_segments_come_in_order_and_aligned() -> None:
    program = everything()
    data = write_pte(program)
    (base,) = struct.unpack_from("<Q", data, 24)
    segments = data[base:]
    assert segments[:24] == bytes(range(24))
    assert segments[128 : 128 + 24] == bytes(24)
    assert segments[256 : 256 + 40] == b"blob" * 10
    assert segments[512:516] == b"1234"  # 256-aligned; 'a' and 'b' share it
    assert segments[640:] == b"5"


def test_constants_are_padded_between_but_not_at_the_end() -> None:
    constants = (b"", b"a" * 5, b"", b"b" * 20, b"c")
    tensors = [constant(i, len(data)) for i, data in enumerate(constants) if i]
    data = write_pte(one_method(*tensors, constants=constants))
    (base,) = struct.unpack_from("<Q", data, 24)
    assert data[base:] == b"a" * 5 + bytes(11) + b"b" * 20 + bytes(12) + b"c"
    assert read_pte(data).constants == constants


def test_a_constant_ends_with_its_largest_tensor() -> None:
    program = one_method(constant(1, 3), constant(1, 4), constants=(b"", b"12345678", b"x"))
    again = read_pte(write_pte(program))
    assert again.constants[1] == b"1234"
    assert again.constants[2] == b"x"  # used by nobody: until the end of the segment


def test_the_same_constant_twice_is_stored_once() -> None:
    weights = b"w" * 1000
    program = one_method(constant(1, 1000), constant(2, 1000), constants=(b"", weights, weights))
    data = write_pte(program)
    assert len(data) < 2000
    again = read_pte(data)
    assert again.constants[1] is again.constants[2]
    assert write_pte(again) == data


def test_equal_delegate_blobs_share_a_segment_and_different_ones_do_not() -> None:
    blobs = [b"x" * 5000, b"x" * 5000 + b"y", bytes(bytearray(b"x" * 5000)), b"x" * 2400 + b"z" + b"x" * 2599]
    for inline in (False, True):
        delegates = tuple(BackendDelegate("b", blob, inline=inline) for blob in blobs)
        data = write_pte(one_method(delegates=delegates))
        assert 15_000 < len(data) < 17_000
        assert read_pte(data).execution_plan[0].delegates == delegates


def test_an_empty_blob_is_inline_and_reads_as_not_inline() -> None:
    delegates = (BackendDelegate("b", b""), BackendDelegate("b", b"", inline=True))
    data = write_pte(one_method(delegates=delegates))
    assert data[8:12] != b"eh00"
    assert [d.inline for d in read_pte(data).execution_plan[0].delegates] == [False, False]


def test_data_may_be_any_buffer() -> None:
    wide = memoryview(bytearray(range(24))).cast("I")
    program = replace(
        one_method(constant(1, 24), constants=(b"", wide)), named_data={"k": NamedData(bytearray(b"v"), 1)}
    )
    again = read_pte(bytearray(write_pte(program)))
    assert again.constants[1] == bytes(range(24))
    assert isinstance(again.constants[1], memoryview)
    assert again.constants[1].readonly
    strided = memoryview(bytes(range(48)))[::2]
    assert read_pte(write_pte(one_method(constant(1, 24), constants=(b"", strided)))).constants[1] == bytes(
        range(0, 48, 2)
    )


def test_reading_copies_no_data() -> None:
    weights = os.urandom(1 << 22)
    data = write_pte(one_method(constant(1, len(weights)), constants=(b"", weights)))
    tracemalloc.start()
    program = read_pte(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert program.constants[1] == weights
    assert peak < 200_000


def test_writing_copies_the_weights_once() -> None:
    weights = bytes(1 << 24)
    program = one_method(
        constant(1, len(weights)),
        constants=(b"", weights),
        delegates=(BackendDelegate("b", memoryview(weights)), BackendDelegate("b", weights[1:], inline=True)),
    )
    parts = pte_parts(program)
    assert any(part is weights for part in parts)
    tracemalloc.start()
    data = write_pte(program)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data) > 3 * len(weights) - 10
    assert peak < len(data) + 300_000


def test_equal_parts_are_written_once() -> None:
    def program(count: int) -> Program:
        literals = tuple(value for _ in range(count) for value in (Int(7), String("same"), IntList((0, 0))))
        calls = tuple(KernelCall(0, (0, 1, 2)) for _ in range(count))
        plan = ExecutionPlan("forward", literals, (), (), (Chain(calls),), (Operator("aten::add", "out"),))
        return Program((plan,))

    small, large = (len(write_pte(program(count))) for count in (10, 1010))
    assert large - small == 1000 * 4 * 4  # one offset for each value and instruction


def test_the_same_bytes_under_any_hash_seed() -> None:
    code = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1]); "
        "from etir_testing.emit.pte_strategies import everything; "
        "from etir.emit.pte import write_pte; print(hashlib.sha256(write_pte(everything())).hexdigest())"
    )
    expected = hashlib.sha256(write_pte(everything())).hexdigest()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(TESTS)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.stdout.strip() == expected, result.stderr


def test_the_smallest_file_has_the_64_bytes_that_the_runtime_reads_first() -> None:
    data = write_pte(Program(()))
    assert len(data) >= 64
    assert read_pte(data) == Program(())


@pytest.mark.parametrize("option", ["segment_alignment", "constant_alignment", "delegate_alignment"])
@pytest.mark.parametrize("value", [0, -16, 48, 1 << 30])
def test_unusable_alignments_are_rejected(option: str, value: int) -> None:
    with pytest.raises(EtirError) as caught:
        write_pte(one_method(Int(1)), **{option: value})
    assert caught.value.ids == ("E0836",)
