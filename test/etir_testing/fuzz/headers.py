"""Headers of files that a program comes with: safetensors, ``.npz``, ``.ptd``.

A case is a file as it should be with one thing of its header changed: a number, a type, a nesting, a name, a length.
Whoever reads it raises an error of etir's or takes it; anything else that is raised is a finding.
"""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from etir.diagnostics import EtirError
from etir.dialects.et.weights import WeightFile
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.reader import read_ptd
from etir.emit.ptd.writer import write_ptd
from etir.tools.named_arrays import read_arrays

_HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 1e400, -0.5, float("nan"), "", "../../x", "a\0b", "\ud800", [], {},
    [0], [[0, 1]], [0, 1, 2], [2, 0], ["0", "8"], [0.0, 8.0], {"dtype": "F32"}, "F32", "Q4", [True, False],
)  # fmt: skip


def safetensors(seed: int) -> bytes:
    """A safetensors file with a hostile header."""
    chance = random.Random(seed)
    header: dict[str, Any] = {
        "__metadata__": {"etir.digests": json.dumps({"a": "sha256:0"})},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]},
    }
    kind = chance.randrange(6)
    value = chance.choice(_HOSTILE)
    if kind == 0:
        header[chance.choice(list(header))] = value
    elif kind == 1:
        header[chance.choice("ab")][chance.choice(["dtype", "shape", "data_offsets"])] = value
    elif kind == 2:
        header["__metadata__"] = {"etir.digests": chance.choice([json.dumps(value), "[", "{}", '{"a": [1]}', ""])}
    elif kind == 3:
        del header["a"][chance.choice(["dtype", "shape", "data_offsets"])]
    text = json.dumps(header).encode()
    if kind == 4:
        depth = chance.choice([10, 1000, 100_000])
        text = b'{"a":' * depth + b"1" + b"}" * depth
    length = len(text) if kind != 5 else chance.choice([0, 1, len(text) + 9, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", length) + text + bytes(16)


def npz(seed: int) -> bytes:
    """An archive of arrays with hostile headers."""
    chance = random.Random(seed)
    buffer = BytesIO()
    shape = chance.choice(
        ["(2,)", "(2**70,)", "(-1,)", "(1e9,)", "()", "(" * 300, "(10**12,)", "None", "[2]", "((2,),)"]
    )
    descr = chance.choice(["'<f4'", "'|O'", "'<f99'", "None", "[('a','<f4')]", "'<U9'", "'x'"])
    header = f"{{'descr': {descr}, 'fortran_order': {chance.choice(['False', 'True', '3'])}, 'shape': {shape}, }}"
    array = b"\x93NUMPY" + bytes([chance.choice([1, 2, 3, 9]), 0]) + struct.pack("<H", len(header)) + header.encode()
    name = chance.choice(["x.npy", "../x.npy", "/", "x", "a/b.npy", "\ud7ff.npy"])
    with zipfile.ZipFile(buffer, "w", chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        archive.writestr(name, array + bytes(8))
    data = bytearray(buffer.getvalue())
    for _ in range(chance.randrange(4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data if chance.random() < 0.8 else data[: chance.randrange(len(data))])


def ptd(seed: int) -> bytes:
    """A file of external data with changed words."""
    chance = random.Random(seed)
    layout = TensorLayout(ScalarType.FLOAT, (2,), (0,))
    tensors = {"w": NamedTensor(bytes(8), layout), "../v": NamedTensor(b"abc")}
    data = bytearray(write_ptd(FlatTensor(tensors, segment_alignment=16)))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(0, len(data) - 8, 4)
        word = chance.choice([0, 1, 4, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, len(data), chance.randrange(64)])
        data[at : at + 4] = struct.pack("<I", word)
    return bytes(data)


def _read_weights(path: Path) -> None:
    file = WeightFile(path)
    for name in file.names:
        _, shape, data = file.tensor(name)
        assert len(data) <= path.stat().st_size and all(n >= 0 for n in shape), f"'{name}' has {shape}"


def _read_arrays(path: Path) -> None:
    assert all(isinstance(a, np.ndarray) for a in read_arrays(str(path)).values())


def _read_data(path: Path) -> None:
    read_ptd(path.read_bytes())


KINDS: tuple[tuple[str, Callable[[int], bytes], Callable[[Path], None]], ...] = (
    ("safetensors", safetensors, _read_weights),
    ("npz", npz, _read_arrays),
    ("ptd", ptd, _read_data),
)


def findings(seeds: range, folder: Path) -> Iterator[str]:
    """What is raised besides errors, for every seed and kind of file."""
    for seed in seeds:
        for suffix, make, read in KINDS:
            path = folder / f"x.{suffix}"
            path.write_bytes(make(seed))
            try:
                read(path)
            except EtirError:
                continue
            except Exception as error:  # whatever it is, it is the finding
                yield f"{suffix} {seed}: {type(error).__name__}: {error}"
