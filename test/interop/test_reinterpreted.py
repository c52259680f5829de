"""Bytes seen under another element type: `view(dtype)` of every width, complex numbers as pairs, on every executor."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from etir.diagnostics import EtirError  # noqa: E402
from etir.driver import compile_program  # noqa: E402

from etir_testing.interop.program_runs import Function, check_program  # noqa: E402

X = (torch.arange(24, dtype=torch.float32) - 11.5).reshape(2, 3, 4)


def absolute(x: Any) -> Any:
    """The sign bit taken off."""
    return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32) * 2


def input_itself(x: Any) -> Any:
    return x.view(torch.int32)


def narrower(x: Any) -> Any:
    return (x + 1).view(torch.uint8).sum(-1), (x * 2).view(torch.int16)


def wider(x: Any) -> Any:
    return (x * 3).view(torch.int64), (x.view(torch.uint8) + 0).view(torch.float64)


def amid_an_element(x: Any) -> Any:
    """Starts 12 bytes into a tensor, which is no multiple of 8."""
    return (x * 3).reshape(-1)[3:7].clone().view(torch.int64), (x * 3).view(torch.int64).reshape(-1)[2:5]


def permuted(x: Any) -> Any:
    return x.permute(2, 0, 1).view(torch.int32) + 1


def point(x: Any) -> Any:
    return (x.sum().view(torch.int32) + 1).view(torch.float32)


def written(x: Any) -> Any:
    y = x * 2
    y.view(torch.int32)[0].zero_()
    return y


def carried(x: Any) -> Any:
    """What a loop carries is overwritten while its bytes are looked at."""

    def more(i: Any, y: Any) -> Any:
        return i < 3

    def body(i: Any, y: Any) -> Any:
        return i + 1, (y.view(torch.int32) + 1).view(torch.float32)

    return torch.ops.higher_order.while_loop(more, body, (torch.tensor(0), x), ())[1]


def pairs(x: Any) -> Any:
    """Complex numbers, as pairs and as one dtype or the other."""
    c = torch.view_as_complex((x + 1).reshape(2, 3, 2, 2))
    return torch.view_as_real(c), c.view(torch.float32), (x * 2).view(torch.complex64).view(torch.int64)


PROGRAMS = [absolute, input_itself, narrower, wider, amid_an_element, permuted, point, written, carried, pairs]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_bytes_under_another_dtype(function: Any) -> None:
    check_program(Function(function), [(X,), (-X,)], tolerance=0)


class Rotary(torch.nn.Module):
    """Rotary embeddings in complex numbers: of these the stock runtime has a product, and the pairs are views."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(3.0), 1 / 10000 ** (torch.arange(0, 4, 2) / 4))
        self.register_buffer("rotation", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q: Any, k: Any) -> Any:
        def rotate(x: Any) -> Any:
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * self.rotation).flatten(2).type_as(x)

        return rotate(q), rotate(k)


def test_rotary_embeddings() -> None:
    program = check_program(Rotary(), [(X, -X)], tolerance=1e-6)
    assert program.operators == ["aten::mul.out"]


class Mask(torch.nn.Module):
    """A weight and a buffer, the weight's bytes as integers and the buffer changed through them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(X.clone())
        self.register_buffer("seen", torch.zeros(2, 3, 4))

    def forward(self, x: Any) -> Any:
        self.seen.view(torch.int32).add_(x.view(torch.int32) >> 3)
        return x.view(torch.int32) & self.weight.view(torch.int32), self.seen.view(torch.int16) + 1


def test_weights_and_state() -> None:
    check_program(Mask(), [(X,), (-X,)], tolerance=0)


@pytest.mark.parametrize("planned", [True, False])
def test_memory_of_the_caller(planned: bool) -> None:
    options = {"plan_inputs": planned, "plan_outputs": planned}
    check_program(Function(wider), [(X,)], tolerance=0, options=options)
    check_program(Function(input_itself), [(X,)], tolerance=0, options=options)


def test_sizes_of_run_time_need_a_kernel() -> None:
    """etir's runtime has one that copies; the stock runtime has none, and the error says which is missing and where."""
    batch = torch.export.Dim("batch", max=8)
    program = torch.export.export(Function(absolute), (X,), dynamic_shapes={"args": ({0: batch},)})
    compile_program(program, target="etir")
    with pytest.raises(EtirError) as caught:
        compile_program(program, target="executorch")
    text = str(caught.value)
    assert "E0603" in text and "aten::view_copy.dtype_out" in text and ".py:" in text


def test_integers_of_one_width_and_sizes_of_run_time() -> None:
    """They are converted, also where the number does not fit: 200 is -56."""
    n = torch.export.Dim("n", max=8)
    function = Function(lambda x, y: (x.view(torch.int8), y.view(torch.uint8) + 1, x.t().view(torch.int8)))
    given = tuple(torch.tensor([[0, 1, 127], [128, 200, 255]], dtype=t) for t in (torch.uint8, torch.int32))
    given = (given[0], given[1].to(torch.int8))
    check_program(function, [given], dynamic_shapes={"args": ({0: n}, {0: n})}, tolerance=0)


def arithmetic(a: Any, b: Any) -> Any:
    c, d = torch.polar(a.abs(), b), torch.complex(a, b)
    e = (c * d + 1.5 - d.conj()) / (d + 2)
    return e.abs(), e.real, e.imag, torch.view_as_real(e), e.angle(), torch.view_as_real(e.exp() * a)


def test_complex_arithmetic() -> None:
    """What the stock runtime has no kernel for is computed in parts."""
    check_program(Function(arithmetic), [(X / 8, X.flip(0) / 9)], tolerance=1e-4)
