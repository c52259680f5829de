"""Tensors whose elements lie otherwise than a method takes them: copied, and what is written comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.runtime import RuntimeFailure, is_available, load

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

BASE = np.arange(48, dtype=np.float32).reshape(4, 6, 2)

VIEWS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "every other": lambda a: a[:, ::2, 1],
    "transposed": lambda a: a[:3, :4, 0].T,
    "reversed": lambda a: a[::-1, 2::-1, 0],
    "one axis reversed": lambda a: a[:, :3, 0][:, ::-1],
    "Fortran order": lambda a: np.asfortranarray(a[:, :3, 0]),
    "repeated": lambda a: np.broadcast_to(a[0, :3, 0], (4, 3)),
    "a single number": lambda a: np.broadcast_to(a[1, 1, 1], (4, 3)),
    "moved axes": lambda a: np.moveaxis(a[:3, :4, :1], 0, 1)[:, :, 0],
    "a field": lambda a: np.rec.fromarrays([np.zeros((4, 3), np.int8), a[:, :3, 0]], names="b,x")["x"],
    "read only": lambda a: np.lib.stride_tricks.as_strided(a[:, :3, 0], writeable=False),
}


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class InPlace(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


def method(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> Any:
    return load(etir.compile(torch.export.export(module, inputs), target="etir", **options)).forward


@pytest.fixture(scope="module", params=[True, False], ids=["planned", "in place"])
def twice(request: pytest.FixtureRequest) -> Any:
    return method(Twice(), torch.zeros(4, 3), plan_inputs=request.param)


@pytest.mark.parametrize("view", list(VIEWS))
def test_views_of_numpy_arrays(twice: Any, view: str) -> None:
    x = VIEWS[view](BASE[:4].copy())
    if x.shape != (4, 3):
        x = x[:4, :3]
    expected = x * 2
    (y,) = twice(x)
    np.testing.assert_array_equal(y, expected)
    assert y.flags.c_contiguous


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.int16, np.float16, np.int32, np.float64, np.complex64, np.complex128]
)
def test_every_width_of_elements(dtype: Any) -> None:
    x = np.arange(24).astype(dtype).reshape(4, 6)
    identity = method(torch.nn.Identity(), torch.from_numpy(x[:, ::2].copy()), plan_inputs=False)
    np.testing.assert_array_equal(identity(x[:, ::2])[0], x[:, ::2])
    np.testing.assert_array_equal(identity(x[::-1, 1::2])[0], x[::-1, 1::2])


def test_views_of_torch_tensors(twice: Any) -> None:
    base = torch.arange(48.0).reshape(4, 6, 2)
    for x in (base[:, :3, 0], base[:3, :4, 1].t(), base[0, :3, 0].expand(4, 3), base[:, 1, 0:1].expand(4, 3)):
        torch.testing.assert_close(twice(x), [x * 2])


def test_bfloat16_conjugated_and_negated_views() -> None:
    x = torch.arange(8.0).to(torch.bfloat16).reshape(2, 4)
    torch.testing.assert_close(method(Twice(), x[:, ::2].clone())(x[:, ::2]), [x[:, ::2] * 2])
    z = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(3, 2)
    torch.testing.assert_close(method(Twice(), z.t().contiguous())(z.t().conj()), [z.t().conj() * 2])
    negated = z.conj().imag
    assert negated.is_neg()
    torch.testing.assert_close(method(Twice(), torch.zeros(3, 2))(negated), [negated * 2])


def test_either_order_of_dims_where_the_method_wants_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5)
    last = x.to(memory_format=torch.channels_last)
    forward = method(Twice(), last)
    assert forward.inputs[0].dim_order == (0, 2, 3, 1)
    for given in (x, last, x.transpose(2, 3).contiguous().transpose(2, 3), x.repeat(1, 1, 1, 2)[..., ::2]):
        given = given if given.shape == x.shape else given[..., :5]
        (y,) = forward(given)
        torch.testing.assert_close(y, given * 2)
        assert y.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(forward(x.numpy())[0], x.numpy() * 2)


def test_channels_last_where_the_method_wants_row_major() -> None:
    x = torch.randn(2, 3, 4, 5)
    (y,) = method(Twice(), x)(x.to(memory_format=torch.channels_last))
    assert torch.equal(y, x * 2) and y.is_contiguous()


def test_dynamic_sizes() -> None:
    rows = torch.export.Dim("rows", max=8)
    ep = torch.export.export(Twice(), (torch.zeros(4, 3),), dynamic_shapes={"x": {0: rows}})
    forward = load(etir.compile(ep, target="etir")).forward
    base = np.arange(60, dtype=np.float32).reshape(20, 3)
    for count in (2, 5, 8):
        np.testing.assert_array_equal(forward(base[: 2 * count : 2])[0], base[: 2 * count : 2] * 2)
    with pytest.raises(RuntimeFailure) as caught:
        forward(base[:18:2])
    assert caught.value.check in ("InputTooLarge", "InputSize")


def test_what_the_program_writes_comes_back_to_a_view() -> None:
    forward = method(InPlace(), torch.zeros(4, 3), plan_inputs=False)
    base = np.zeros((4, 6), np.float32)
    assert forward(base[:, ::2])[-1].tolist() == [[2.0] * 3] * 4
    np.testing.assert_array_equal(base, np.tile([1.0, 0.0], (4, 3)))
    tensor = torch.zeros(3, 4)
    forward(tensor.t())
    assert torch.equal(tensor, torch.ones(3, 4))
    packed = np.zeros(49, np.uint8)[1:].view(np.float32).reshape(4, 3)
    forward(packed)
    assert packed.tolist() == [[1.0] * 3] * 4, "not aligned"
    base.flags.writeable = False
    forward(base[:, ::2])
    np.testing.assert_array_equal(base, np.tile([1.0, 0.0], (4, 3)))


def test_a_method_that_only_reads_does_not_touch_its_input() -> None:
    forward = method(Twice(), torch.zeros(4, 3), plan_inputs=False)
    base = np.full((4, 6), np.nan, np.float32)
    before = base.tobytes()
    forward(base[:, ::2])
    assert base.tobytes() == before


@pytest.mark.parametrize(
    ("x", "check"),
    [
        (np.broadcast_to(np.float32(1), (1 << 30, 1 << 30)), "InputSize"),
        (np.broadcast_to(np.float64(1), (4, 3)), "InputDtype"),
        (np.zeros((4, 6, 2), np.float32)[..., 0][:, ::2][None], "InputRank"),
        (np.zeros((4, 6), np.float32)[:, ::3], "InputSize"),
    ],
)
def test_views_that_do_not_fit_are_not_copied(twice: Any, x: Any, check: str) -> None:
    with pytest.raises(RuntimeFailure, match=r"error\[E1208\]") as caught:
        twice(x)
    assert caught.value.check == check
