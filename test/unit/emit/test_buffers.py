"""Buffers of a file, each once."""

from __future__ import annotations

from etir.emit.formats.buffers import ReservedPool


def test_distinct_buffers_follow_a_reserved_one() -> None:
    pool = ReservedPool()
    long, other = bytes(1000), bytes(300) + b"1" + bytes(699)
    found = [pool.add(data) for data in (b"ab", b"", memoryview(b"ab"), long, other, b"", bytearray(long), b"c")]
    assert found == [1, 2, 1, 3, 4, 5, 3, 6]
    assert [bytes(item) for item in pool.items] == [b"", b"ab", b"", long, other, b"", b"c"]
