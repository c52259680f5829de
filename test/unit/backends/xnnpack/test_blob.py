"""Blobs: written and read back, and every mistake in one is an error with an id."""

from __future__ import annotations

import random
import struct

import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.api.registry import backend_dialects
from etir.backends.xnnpack import schema
from etir.backends.xnnpack.blob_reader import read_blob
from etir.backends.xnnpack.blob_writer import write_blob
from etir.backends.xnnpack.datatypes import BY_NAME
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.backends.xnnpack.text import disassemble, from_function
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.weights import Blob
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module

FP32 = BY_NAME["fp32"]


def _node(name: str, operands: tuple[int | None, ...], output: int, clamp: tuple[float, float] | None = None) -> Node:
    kind = schema.NODE_BY_NAME[name]
    attributes: dict[str, int | float | tuple[int, ...]] = {
        a: 0.0 if a in kind.floats else 0 for a in kind.attributes if a not in kind.lists
    }
    return Node(kind, operands, (output,), attributes, clamp, 7)


def sample() -> Graph:
    """Every kind of quantization, a named and an inline constant, a range, an absent bias."""
    weight = Constant(64, "weight", Blob.of(bytes(range(64))))
    inline = Constant(12, None, Blob.of(b"twelve bytes"))
    scales = Constant(16, "scales", Blob.of(struct.pack("<4f", 1, 2, 3, 4)))
    halves = Constant(8, "halves", Blob.of(bytes(8)))
    values = (
        Value(FP32, (2, 16)),
        Value(BY_NAME["qcint8"], (4, 16), weight, PerChannel(0, scales, 4)),
        Value(BY_NAME["qdint8"], (2, 16), None, PerToken(1)),
        Value(FP32, (2, 4)),
        Value(FP32, (3,), inline),
        Value(
            BY_NAME["qbint4"], (4, 32), Constant(64, "weight", Blob.of(bytes(range(64)))), PerBlock(0, 32, halves, 4)
        ),
        Value(BY_NAME["qint8"], (2, 4), None, PerTensor(0.5, -3)),
        Value(FP32, (2, 4)),
    )
    nodes = (
        _node("convert", (0,), 2),
        _node("fully_connected", (2, 1, None), 3, (0.0, float("inf"))),
        _node("convert", (3,), 6),
        _node("convert", (6,), 7),
    )
    return Graph(values, nodes, (0,), (7,))


def test_round_trip() -> None:
    """The graph comes back; the same graph gives the same bytes; named data is what has a key."""
    data, named = write_blob(sample())
    assert list(named) == ["weight", "scales", "halves"]
    assert read_blob(data, {key: blob.data for key, blob in named.items()}) == sample()
    assert write_blob(sample())[0] == data


def test_layout() -> None:
    """Header, FlatBuffer at byte 32, inline constants after it, each aligned."""
    data, _ = write_blob(sample())
    _, magic, length, start, size, constants, constants_size = schema.HEADER.unpack_from(data)
    assert (magic, length, start) == (b"XH00", 30, 32)
    assert data[36:40] == b"XN01"
    assert constants % 16 == 0 and constants >= start + size
    assert data[constants:] == b"twelve bytes" + bytes(4) and constants_size == 16


def test_text_round_trip() -> None:
    """The text reads back to the same graph; values that nothing uses are not in it."""
    data, named = write_blob(sample())
    text = disassemble(data, {key: blob.data for key, blob in named.items()})
    assert "clamp = [0.0, inf]" in text and "handle = 7" in text
    module = parse_module(text, EtContext(dialects=backend_dialects()))
    verify_module(module)
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    assert from_function(function).canonical() == sample().canonical()


def test_an_input_that_is_an_output() -> None:
    """The runtime has one role for each value."""
    with pytest.raises(EtirError, match="E1150"):
        write_blob(Graph(sample().values, (), (0,), (0,)))


def test_a_key_with_two_contents() -> None:
    """Equal keys mean equal bytes."""
    values = tuple(Value(FP32, (1,), Constant(4, "k", Blob.of(bytes([i] * 4)))) for i in (1, 2))
    with pytest.raises(EtirError, match="E1150"):
        write_blob(Graph(values, (), (), ()))


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda d: b"", "E1108"),
        (lambda d: d[:20], "E1108"),
        (lambda d: d[:4] + b"XH01" + d[8:], "E1108"),
        (lambda d: d[:36] + b"XN99" + d[40:], "E1103"),
        (lambda d: d[:200], "E1108"),
        (lambda d: d[:-16], "E1108"),
    ],
)
def test_damaged_header(damage, error: str) -> None:
    """What is wrong with the frame has an id of its own."""
    with pytest.raises(EtirError, match=error):
        read_blob(damage(write_blob(sample())[0]))


def test_damaged_bytes() -> None:
    """No byte can make the reader fail in any other way than with an error, or text that does not parse."""
    data, _ = write_blob(sample())
    generator = random.Random(1)
    refused = 0
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.choice((0, 1, 4, 127, 128, 255))
        try:
            disassemble(bytes(changed))
        except EtirError:
            refused += 1
    assert refused > 100
