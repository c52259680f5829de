"""Kernels that move elements inside of an operand's memory, and the plans that let them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.dialects.context import EtContext
from etir.dialects.et.values import BufferOp
from etir.dialects.text import parse_module
from etir.passes.analysis.moves import MOST_PIECES, ROW_BYTES
from etir.passes.infra.manager import run_pipeline

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

DTYPES = {
    torch.float32: "f32", torch.float16: "f16", torch.int8: "i8", torch.float64: "f64",
    torch.complex128: "complex<f64>",
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("copy")


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor in which no two neighbors are alike."""
    count = torch.Size(shape).numel()
    flat = torch.arange(count, dtype=torch.int64) * 7919 % 10007
    return (
        (flat % 127 if dtype is torch.int8 else flat % 2039 if dtype is torch.float16 else flat).to(dtype).view(shape)
    )


def planned_in_place(call: str, operand: torch.Tensor, result: torch.Tensor) -> bool:
    """Whether the plan for etir's runtime puts the result of a call, of %a, into the bytes of %a."""
    types = [f"tensor<{'x'.join(map(str, t.shape))}x{DTYPES[t.dtype]}>" for t in (operand, result)]
    method = f"""
        et.method @forward {{
          %x = et.buffer : {types[0]}
          %a = et.buffer : {types[0]}
          %y = et.buffer : {types[1]}
          et.inputs %x
          et.call "aten::clone.out"(%x, none, %a) -> %a
          et.call {call} -> %y
          et.return %y, %x
        }}
    """
    module = parse_module(method)
    run_pipeline(EtContext(), module, "plan-memory{target=etir},verify-plan{target=etir}")
    places = {op.result.name_hint: op.place for op in module.walk() if isinstance(op, BufferOp)}
    return places["a"] == places["y"]


def moved(kernels: Kernels, name: str, x: torch.Tensor, argument: Any) -> torch.Tensor:
    (got,) = kernels.call(name, [x.clone(), argument], [x], over=0)
    return got


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_permutations(kernels: Kernels, data: st.DataObject) -> None:
    """Where the plan says in place, the kernel can; where the kernel can, its result is that of a copy."""
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 9, 32]), min_size=1, max_size=5)))
    dims = data.draw(st.permutations(range(len(shape))))
    dtype = data.draw(st.sampled_from(list(DTYPES)))
    x = numbers(shape, dtype)
    expected = x.permute(dims).contiguous()
    call = f'"aten::permute_copy.out"(%a, ints{list(dims)}, %y)'
    planned = planned_in_place(call, x, expected)
    try:
        got = moved(kernels, "aten::permute_copy.out", x, list(dims))
    except KernelFailure:
        assert not planned
        return
    assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("shape", "dims", "fits"),
    [
        ((1, 100, 6, 64), [0, 2, 1, 3], True),  # heads before positions
        ((3, 16, 3, 32, 32), [0, 2, 1, 3, 4], True),  # channels before frames
        ((2, 2, 4, 2, 4, 32), [0, 1, 3, 2, 4, 5], True),  # windows
        ((4, 128, 129, 32), [0, -2, 1, 3], False),  # more pieces than bits
        ((4, 64, 256, 32), [0, 2, 1, 3], True),  # as many
        ((2, 8, 9, 31), [0, 2, 1, 3], False),  # short ones
        ((6, 100, 64), [0, 2, 1], False),  # single elements are for the copy
    ],
)
def test_plans_of_permutations(kernels: Kernels, shape: tuple[int, ...], dims: list[int], fits: bool) -> None:
    x = numbers(shape, torch.float32)
    expected = x.permute(dims).contiguous()
    assert planned_in_place(f'"aten::permute_copy.out"(%a, ints{dims}, %y)', x, expected) == fits
    if fits:
        assert torch.equal(moved(kernels, "aten::permute_copy.out", x, dims), expected)


def test_too_many_pieces_are_refused(kernels: Kernels) -> None:
    """Rather than half of them moved."""
    x = numbers((MOST_PIECES // 2 + 1, 2), torch.float32)
    kept = x.clone()
    with pytest.raises(KernelFailure) as failure:
        kernels.call("aten::permute_copy.out", [x, [1, 0]], [x], over=0)
    assert failure.value.check == "KernelOverlap" and torch.equal(x, kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "factor"),
    [((1, 8, 3, 5), 2), ((2, 18, 4, 1), 3), ((18, 7, 6), 3), ((2, 3, 16, 2, 9), 4), ((3, 5, 7), 1), ((1, 4, 1, 64), 2)],
)
def test_pixel_shuffle(kernels: Kernels, shape: tuple[int, ...], factor: int, dtype: torch.dtype) -> None:
    x = numbers(shape, dtype)
    expected = torch.ops.aten.pixel_shuffle(x, factor).contiguous()
    assert planned_in_place(f'"aten::pixel_shuffle.out"(%a, {factor}, %y)', x, expected)
    assert torch.equal(moved(kernels, "aten::pixel_shuffle.out", x, factor), expected)


def test_pixels_of_long_rows_are_copied(kernels: Kernels) -> None:
    x = numbers((1, 4, 2, ROW_BYTES // 8 + 1), torch.float32)
    expected = torch.pixel_shuffle(x, 2)
    assert not planned_in_place('"aten::pixel_shuffle.out"(%a, 2, %y)', x, expected)
    with pytest.raises(KernelFailure) as failure:
        moved(kernels, "aten::pixel_shuffle.out", x, 2)
    assert failure.value.check == "KernelOverlap"


class Upscaler(torch.nn.Module):
    """Heads before positions, then pixels from channels, in images of any size up to a bound."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pixel_shuffle(self.first(x), 2)
        return torch.relu(self.last(y)).transpose(0, 1).contiguous() + 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_models(dynamic: bool) -> None:
    """In the planned memory of etir's runtime, at several sizes."""
    import etir

    rows, columns = (torch.export.Dim(name, min=2, max=24) for name in ("rows", "columns"))
    model, x = Upscaler().eval(), torch.randn(2, 3, 24, 20)
    shapes = ({2: rows, 3: columns},) if dynamic else None
    compiled = etir.compile(torch.export.export(model, (x,), dynamic_shapes=shapes), target="etir")
    runtime = etir.runtime.load(compiled)
    for image in (x, x[..., :7, :5].contiguous(), x[..., :2, :2].contiguous()) if dynamic else (x,):
        (got,) = runtime.forward(image)
        torch.testing.assert_close(got, model(image), rtol=1e-5, atol=1e-5)
