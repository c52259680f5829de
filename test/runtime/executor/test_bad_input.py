"""What a caller or a file can get wrong: each is an error of its own that says which numbers, and the method goes on.

One method is loaded first and is used again after every mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.writer import write_ptd
from etir.emit.pte.reader import read_pte
from etir.tools.decode_error import Origin, decode
from etir.tools.error_record import Record, checks

from etir_testing.runtime.executor import ExecutorError, External, Memory, Method, Program, build_executor
from etir_testing.runtime.executor_programs import external, floats
from etir_testing.runtime.programs import BOUND, Builder

X = torch.arange(6.0).reshape(2, 3)


def program(operator: str = "aten::clone.out", **options: Any) -> bytes:
    """A copy of a tensor of two rows and three columns."""
    b = Builder()
    x, y = b.input(b.tensor(2, 3, **options)), b.tensor(2, 3, **options)
    b.call(operator, x, b.none(), y, y)
    b.outputs.append(y)
    return b.pte(check=False)


class Bench:
    """What the mistakes are made with."""

    def __init__(self) -> None:
        self.library = build_executor("prim", "copy")
        self.program = Program(self.library, program())
        self.method = Method(self.program)

    def load(self, data: bytes, **options: Any) -> Method:
        return Method(Program(self.library, data), **options)


def entries(key: str, rows: int) -> bytes:
    layout = TensorLayout(ScalarType.FLOAT, (rows,), (0,))
    return write_ptd(FlatTensor({key: NamedTensor(floats(*range(rows)), layout)}, segment_alignment=16))


def corrupt(bench: Bench) -> None:
    data = bytearray(program())
    data[:4] = b"\xff\xff\xff\xff"
    bench.load(bytes(data))


def short(bench: Bench, **less: int) -> None:
    needed = bench.program.method_memory()
    planned = [(Memory(size - less.get("planned", 0)), False) for size in bench.program.planned()]
    bench.load(program(), memory=Memory(needed - less.get("method", 0)), planned=planned)


def too_many(bench: Bench) -> None:
    bench.method.set_input(1, X)


def left_out(bench: Bench) -> None:
    Method(bench.program).execute()


def cast(bench: Bench) -> None:
    bench.method.set_input(0, X.double())


def beyond_the_bound(bench: Bench) -> None:
    bench.load(program(dynamism=BOUND)).set_input(0, torch.ones(4, 3))


MISTAKES: dict[str, tuple[Callable[[Bench], Any], str, tuple[Any, ...]]] = {
    "a truncated file": (lambda b: b.load(program()[:6]), "FileTooSmall", (6, 8)),
    "a file of another kind": (lambda b: b.load(b"PK\3\4" + bytes(60)), "FileIdentifier", ()),
    "a corrupt file": (corrupt, "FlatOffset", (0, 0xFFFFFFFF)),
    "a missing operator": (lambda b: b.load(program("my::own.out")), "OperatorMissing", ("my::own.out",)),
    "no such method": (lambda b: Method(b.program, 1, memory=Memory(64), planned=[]), "MethodIndex", (1, 1)),
    "a wrong dtype": (cast, "InputDtype", (0, "float64")),
    "a wrong rank": (lambda b: b.method.set_input(0, X[0]), "InputRank", (0, 1)),
    "a wrong shape": (lambda b: b.method.set_input(0, torch.ones(2, 4)), "InputSize", (0, 4)),
    "more than the bound": (beyond_the_bound, "InputTooLarge", (0, 12)),
    "a wrong dim order": (lambda b: b.method.set_input(0, torch.ones(3, 2).t()), "InputDimOrder", (0, 0)),
    "no tensor": (lambda b: b.method.set_input(0, 3), "InputKind", (0, "int")),
    "too many inputs": (too_many, "InputNumber", (1, 1)),
    "an input that is not set": (left_out, "InputNotSet", (0,)),
    "too little method memory": (lambda b: short(b, method=1), "MethodMemory", ()),
    "too little planned memory": (lambda b: short(b, planned=1), "PlannedSize", (0, 64)),
    "no planned memory": (lambda b: b.load(program(), planned=[]), "PlannedCount", (1, 0)),
    "no external data": (lambda b: b.load(external(False).pte()), "ExternalMissing", ()),
    "external data of another shape": (
        lambda b: b.load(external(False).pte(), external=External(b.library, entries("w", 3))), "ExternalMismatch", ()
    ),
    "external data without the entry": (
        lambda b: b.load(external(False).pte(), external=External(b.library, entries("v", 2))), "ExternalMissing", ()
    ),
    "a corrupt .ptd file": (lambda b: External(b.library, entries("w", 2)[:-1]), "ExternalHeader", (40,)),
    "a .ptd file of another kind": (lambda b: External(b.library, program()), "ExternalIdentifier", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("mistake", list(MISTAKES))
def test_a_mistake_is_named_and_does_no_harm(bench: Bench, mistake: str) -> None:
    make, check, numbers = MISTAKES[mistake]
    for _ in range(2):
        with pytest.raises(ExecutorError) as caught:
            make(bench)
        failure = caught.value
        assert failure.check == check, failure
        row = next(row for row in checks().values() if row.name == check)
        # What the error says, with the numbers and names.
        origin = Origin(read_pte(program("my::own.out"))) if check == "OperatorMissing" else None
        record = Record(row, failure.method, failure.instruction, failure.op, failure.a, failure.b)
        sentence = decode(record, origin).message
        assert all(str(number) in sentence for number in numbers), sentence
        assert "-1" not in sentence, sentence
        assert torch.equal(bench.method(X)[0], X)


def test_mistakes_are_told_apart() -> None:
    found = [check for name, (_, check, _) in MISTAKES.items() if name != "external data without the entry"]
    assert len(set(found)) == len(found)
