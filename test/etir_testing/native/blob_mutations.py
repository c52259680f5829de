"""Blobs of native code with changed tables, for the reader in Python: the mutations of the fuzzer's mutator in C++."""

from __future__ import annotations

import random
import struct

VALUES = (
    0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 255, 256, 65535, 65536, 1 << 20, (1 << 20) + 1, 0x7FFFFFFF, 0x80000000,
    0xFFFFFFC0, 0xFFFFFFFE, 0xFFFFFFFF,
)  # fmt: skip
HEADER, TENSOR, WEIGHT, CONSTANT, VARIANT = 64, 36, 16, 40, 56


def tables_end(blob: bytes) -> int:
    """Where the tables of a blob end."""
    inputs, outputs, weights, variants, constants = struct.unpack_from("<5I", blob, 8)
    return HEADER + TENSOR * (inputs + outputs) + WEIGHT * weights + CONSTANT * constants + VARIANT * variants


def mutated(blob: bytes, chance: random.Random) -> bytes:
    """A copy with some numbers of its tables replaced, some bytes changed, or cut."""
    data = bytearray(blob)
    end = tables_end(blob)
    for _ in range(chance.randint(1, 3)):
        kind = chance.random()
        if kind < 0.75:
            at = 4 * chance.randrange(end // 4)
            (old,) = struct.unpack_from("<I", data, at)
            near = (old + chance.randint(-9, 9)) % (1 << 32)
            new = chance.choice(
                [chance.choice(VALUES), near, chance.randrange(1 << 32), old ^ 1 << chance.randrange(32)]
            )
            struct.pack_into("<I", data, at, new)
        elif kind < 0.95:
            data[chance.randrange(len(data))] = chance.randrange(256)
        else:
            del data[chance.randrange(len(data)) :]
            break
    return bytes(data)
