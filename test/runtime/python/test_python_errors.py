"""What is wrong with a program or with inputs is one exception that says so, and the method works afterwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.runtime import RuntimeFailure, is_available, load

from etir_testing.runtime.programs import UNBOUND, Builder

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")


class Add(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y * x


X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(3)


@pytest.fixture(scope="module")
def data() -> bytes:
    return etir.compile(torch.export.export(Add(), (X, Y))).buffer


def test_the_exception_is_both_kinds() -> None:
    with pytest.raises(RuntimeError) as caught:
        load(b"")
    assert isinstance(caught.value, etir.EtirError)


@pytest.mark.parametrize(
    ("inputs", "check", "text"),
    [
        ((X,), "InputNotSet", "input 1 has not been set"),
        ((X, Y, Y), "InputNumber", "there is no input 2; the method takes 2"),
        ((X.double(), Y), "InputDtype", "input 0 was given a tensor of dtype float64"),
        ((X[0], Y), "InputRank", "input 0 was given a tensor of rank 1"),
        ((X, torch.ones(4)), "InputSize", "input 1 was given a size of 4"),
        ((1, Y), "InputKind", "kind int"),
        (("text", Y), "InputKind", "is a str"),
        ((None, Y), "InputKind", "kind none"),
        ((np.array(["a"]), Y), "InputKind", "not an array"),
    ],
)
def test_inputs_that_do_not_fit(data: bytes, inputs: tuple[Any, ...], check: str, text: str) -> None:
    rt = load(data)
    with pytest.raises(RuntimeFailure, match=r"error\[E1208\]") as caught:
        rt.forward(*inputs)
    assert caught.value.check == check
    assert caught.value.method == "forward"
    assert text in str(caught.value)
    assert "the method takes x: float32[2, 3], y: float32[3]" in str(caught.value), (
        "the next step says what the method takes"
    )
    assert torch.equal(rt.forward(X, Y)[0], X + Y * X)


def test_numbers_other_than_the_compiled_ones() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x + n

    rt = load(etir.compile(torch.export.export(Scale(), (X, 3))).buffer)
    with pytest.raises(RuntimeFailure, match="input 1") as caught:
        rt.forward(X, 4)
    assert caught.value.check == "InputValue"
    with pytest.raises(RuntimeFailure, match="is a list, the method takes int|a list where"):
        rt.forward(X, [1])
    assert torch.equal(rt.forward(X, np.int64(3))[0], X + 3)


def test_texts_other_than_the_compiled_one() -> None:
    class Mode(torch.nn.Module):
        def forward(self, x: torch.Tensor, mode: str) -> torch.Tensor:
            return x + 1 if mode == "up" else x - 1

    rt = load(etir.compile(torch.export.export(Mode(), (X, "up")), target="etir").buffer)
    assert torch.equal(rt.forward(X, "up")[0], X + 1)
    for other in ("down", "u", ""):
        with pytest.raises(RuntimeFailure, match="input 1") as caught:
            rt.forward(X, other)
        assert caught.value.check == "InputValue"
    with pytest.raises(RuntimeFailure, match="input 1 was given a value of kind int"):
        rt.forward(X, 1)


@pytest.mark.parametrize(
    ("source", "id"),
    [(b"", "E1202"), (b"\0" * 1000, "E1202"), ("no_such_file.pte", "E1203"), ("/", "E1203"), (3, "E1213")],
)
def test_what_is_no_program(source: Any, id: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        load(source)
    assert caught.value.ids == (id,)


def test_cut_off_programs(data: bytes) -> None:
    for size in range(0, len(data), 7):
        with pytest.raises(RuntimeFailure):
            load(data[:size])


def test_damaged_programs_load_or_are_refused(data: bytes) -> None:
    generator = random.Random(0)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 4))):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            load(damaged).forward(X, Y)
        except (RuntimeFailure, AttributeError):
            refused += 1
    assert refused > 100


def test_unknown_method(data: bytes) -> None:
    rt = load(data)
    with pytest.raises(RuntimeFailure, match="no method 'decode'; it has forward") as caught:
        _ = rt["decode"]
    assert caught.value.ids == ("E1207",)
    with pytest.raises(AttributeError, match="forward"):
        _ = rt.decode


def test_missing_external_data(tmp_path: Path) -> None:
    class Scale(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    etir.compile(torch.export.export(Scale(), (X,)), external_weights="w").save(tmp_path / "m.pte")
    rt = load(tmp_path / "m.pte")
    with pytest.raises(RuntimeFailure) as caught:
        _ = rt.forward
    assert caught.value.ids == ("E1206",) and caught.value.check == "ExternalMissing"
    with pytest.raises(RuntimeFailure) as caught:
        load(tmp_path / "m.pte", data=b"FT01" * 10)
    assert caught.value.ids == ("E1206",)


def test_missing_operator(data: bytes) -> None:
    renamed = data.replace(b"aten::mul", b"aten::mu!")
    assert renamed != data
    rt = load(renamed)
    with pytest.raises(RuntimeFailure, match="aten::mu!.out") as caught:
        _ = rt.forward
    assert caught.value.ids == ("E1204",) and caught.value.operator == "aten::mu!.out"


def test_failing_kernel_names_the_instruction() -> None:
    class Take(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return torch.index_select(x + 0.5, 0, i)

    good = torch.tensor([1, 0])
    rt = load(etir.compile(torch.export.export(Take(), (X, good))).buffer)
    with pytest.raises(RuntimeFailure) as caught:
        rt.forward(X, torch.tensor([1, 5]))
    error = caught.value
    assert error.ids == ("E1209",) and error.check == "KernelIndex" and error.values == (5, 2)
    assert error.operator == "aten::index_select.out" and error.instruction is not None
    assert f"instruction {error.instruction}" in str(error)
    assert torch.equal(rt.forward(X, good)[0], torch.index_select(X + 0.5, 0, good))


def test_too_little_scratch_memory_is_an_error() -> None:
    x = torch.randn(64, 64)
    rt = load(etir.compile(torch.export.export(torch.nn.Softmax(1), (x,))).buffer, temp_bytes=1)
    try:
        (y,) = rt.forward(x)
    except RuntimeFailure as error:
        assert error.ids == ("E1205",)
    else:
        torch.testing.assert_close(y, torch.softmax(x, 1))


def test_a_delegate_that_this_runtime_does_not_have() -> None:
    data = etir.compile(torch.export.export(Add(), (X, Y)), target="executorch", delegates=["xnnpack"]).buffer
    with pytest.raises(RuntimeFailure, match="UnknownBackend") as caught:
        _ = load(bytes(data).replace(b"XnnpackBackend", b"UnknownBackend")).forward
    assert caught.value.ids == ("E1211",)


def test_an_output_that_nothing_gave_memory() -> None:
    """Its size is known to no one before the run, and no instruction makes it."""
    b = Builder()
    b.input(b.tensor(2, 3))
    b.outputs.append(b.tensor(2, 3, planned=False, dynamism=UNBOUND))
    with pytest.raises(RuntimeFailure, match="output 0 has no data") as caught:
        load(b.pte(check=False)).forward(X)
    assert caught.value.ids == ("E1212",)


@pytest.mark.parametrize(("options", "id"), [({"threads": 0}, "E1213"), ({"isa": "vax"}, "E1210")])
def test_wrong_options(data: bytes, options: dict[str, Any], id: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        load(data, **options)
    assert caught.value.ids == (id,)
