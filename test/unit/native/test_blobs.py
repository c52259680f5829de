"""Blobs that are changed: the reader says what is wrong, and code is entered only with the tables it was made for."""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.blob import bound, contract, read_blob, write_blob  # noqa: E402
from etir.backends.native.image import Image  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.runtime import RuntimeFailure  # noqa: E402

from etir_testing.native.blob_mutations import mutated, tables_end  # noqa: E402
from etir_testing.native.blobs import IMAGE, blobs_of, programs  # noqa: E402
from etir_testing.native.small import Small  # noqa: E402

MANY = int(os.environ.get("ETIR_BLOB_MUTATIONS", "4000"))


@cache
def seeds() -> tuple[bytes, ...]:
    return tuple(blob for data in programs().values() for blob in blobs_of(data))


def test_the_reader_refuses_or_reads_changed_blobs() -> None:
    chance = random.Random(0)
    counts: Counter[str] = Counter()
    for number in range(MANY):
        data = mutated(seeds()[number % len(seeds())], chance)
        try:
            found = read_blob(data)
        except EtirError as error:
            counts.update(diagnostic.id.id for diagnostic in error.diagnostics)
            continue
        counts["read"] += 1
        assert sum(map(len, (v.image.code for v in found.variants))) <= len(data) * max(1, len(found.variants))
    assert counts["E1108"] > MANY // 10 and counts["E1103"] and counts["read"] > MANY // 10, counts


def test_images_end_with_their_contract() -> None:
    """Everything in the tables that code relies on is in it."""
    for blob in seeds():
        found = read_blob(blob)
        assert write_blob(found) == blob
        sizes = [size for _, size in found.weights]
        for variant in found.variants:
            entry = variant.image.entry
            if variant.linked:
                assert variant.digest == contract(entry, found.inputs, found.shapes, found.arena_bytes, sizes)
                continue
            assert variant.image == bound(Image(IMAGE, entry), found.inputs, found.shapes, found.arena_bytes, sizes)


def _small() -> tuple[tuple[Any, ...], etir.Program]:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 9, 7),)
    exported = torch.export.export(Small().eval(), inputs)
    return inputs, etir.compile(exported, target="etir", delegates=["native"])


@pytest.mark.parametrize("policy", ["listed", "trusted"])
def test_code_is_not_entered_with_other_tables(policy: str) -> None:
    """The image is the listed one; the arena, a weight, an argument or the entry are not what it was made for."""
    inputs, program = _small()
    (blob,) = blobs_of(program.buffer)
    found = read_blob(blob)
    native: Any = [v.digest.hex() for v in found.variants] if policy == "listed" else policy
    by_code, by_kernels = (
        list(etir.runtime.load(program.buffer, native=way).forward(*inputs)) for way in (native, "refuse")
    )
    assert any(not torch.equal(a, b) for a, b in zip(by_code, by_kernels, strict=True))
    start = program.buffer.index(blob[:64])
    weights = 64 + 36 * len(found.shapes)
    variants = tables_end(blob) - 56 * len(found.variants)
    places = {"arena": [28], "entry": [variants + 56 * i + 16 for i in range(len(found.variants))]}
    for what, changed in places.items():
        data = bytearray(program.buffer)
        for at in changed:
            old = int.from_bytes(data[start + at : start + at + 4], "little")
            data[start + at : start + at + 4] = (old // 64 * 32).to_bytes(4, "little") if old >= 64 else b"\4\0\0\0"
        results = etir.runtime.load(bytes(data), native=native).forward(*inputs)
        assert all(torch.equal(a, b) for a, b in zip(results, by_kernels, strict=True)), what
    # Weights of the same size in each other's place are other numbers and no other memory; of other sizes they are.
    rows = [blob[weights + 16 * i : weights + 16 * i + 16] for i in range(len(found.weights))]
    data = bytearray(program.buffer)
    other = next(i for i, row in enumerate(rows) if row[8:12] != rows[0][8:12])
    for at, row in ((0, rows[other]), (other, rows[0])):
        data[start + weights + 16 * at : start + weights + 16 * at + 16] = row
    with pytest.raises(RuntimeFailure):
        etir.runtime.load(bytes(data), native=native).forward(*inputs)
