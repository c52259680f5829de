"""Concatenations whose operands are where the result has them, and splits whose results stay, on both runtimes.

The places are written by hand: inputs are copied right into the result, or results are parts of the input.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.extension.pybindings import portable_lib

import etir
from etir.dialects.text import parse_module
from etir.targets.manifest import load
from etir.tools.probe.runner import load_runtime

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "i1": torch.bool,
}  # fmt: skip

CAT = """
et.method @forward pools [0, {pool}] {{
  %a = et.buffer at <1, {a}> : tensor<1x3x{row}x{dtype}>
  %b = et.buffer at <1, {b}> : tensor<1x5x{row}x{dtype}>
  %y = et.buffer at <1, 0> : tensor<1x8x{row}x{dtype}>
  et.inputs %a, %b
  et.call "aten::cat.out"(tensors[%a, %b], 1, %y) -> %y
  et.return %y
}}
"""

STACK = """
et.method @forward pools [0, {pool}] {{
  %a = et.buffer at <1, {a}> : tensor<1x{row}x{dtype}>
  %b = et.buffer at <1, {b}> : tensor<1x{row}x{dtype}>
  %y = et.buffer at <1, 0> : tensor<1x2x{row}x{dtype}>
  et.inputs %a, %b
  et.call "aten::stack.out"(tensors[%a, %b], 1, %y) -> %y
  et.return %y
}}
"""

SPLIT = """
et.method @forward pools [0, {pool}] {{
  %x = et.buffer at <1, 0> : tensor<1x8x{row}x{dtype}>
  %a = et.buffer at <1, {a}> : tensor<1x3x{row}x{dtype}>
  %b = et.buffer at <1, {b}> : tensor<1x5x{row}x{dtype}>
  et.inputs %x
  et.call "aten::split_with_sizes_copy.out"(%x, ints[3, 5], 1, tensors[%a, %b]) -> tensors[%a, %b]
  et.return %a, %b
}}
"""

UNBIND = """
et.method @forward pools [0, {pool}] {{
  %x = et.buffer at <1, 0> : tensor<2x{row}x{dtype}>
  %a = et.buffer at <1, {a}> : tensor<{row}x{dtype}>
  %b = et.buffer at <1, {b}> : tensor<{row}x{dtype}>
  et.inputs %x
  et.call "aten::unbind_copy.int_out"(%x, 0, tensors[%a, %b]) -> tensors[%a, %b]
  et.return %a, %b
}}
"""

ROW = 64
"""Elements of a row: a multiple of 16 bytes in every dtype."""


def run(text: str, target: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the second of two runs, the first with other values."""
    buffer = etir.compile(parse_module(text), target=target).buffer
    other = [torch.zeros_like(tensor) for tensor in inputs]
    if target == "etir":
        from etir import runtime

        method = runtime.load(buffer).forward
        method(*other)
        found: Any = method(*inputs)
        return [torch.as_tensor(out) for out in (found if isinstance(found, (list, tuple)) else [found])]
    manifest = load("executorch")
    load_runtime([library for library, always in manifest.libraries.items() if not always])
    module = portable_lib._load_for_executorch_from_buffer(buffer)
    module.run_method("forward", other)
    return [out.clone() for out in module.run_method("forward", inputs)]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 113 % (2 if dtype is torch.bool else 113)).reshape(shape).to(dtype)


def places(row: int, first: int, second: int, which: str) -> dict[str, int]:
    """Where the parts are: ``both`` in the whole, or one of them after it."""
    whole = (first + second) * row
    a, b = 0, first * row
    if which == "first":
        b = whole
    elif which == "second":
        a = whole
    return {"a": a, "b": b, "pool": 2 * whole}


@pytest.mark.parametrize("which", ["both", "first", "second"])
@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_concatenation(target: str, which: str) -> None:
    """Of every dtype; operands that are there are left there, others are copied."""
    for name, dtype in DTYPES.items():
        row = ROW * dtype.itemsize
        a, b = values((1, 3, ROW), dtype), values((1, 5, ROW), dtype).flip(-1)
        text = CAT.format(row=ROW, dtype=name, **places(row, 3, 5, which))
        assert torch.equal(run(text, target, [a, b])[0], torch.cat([a, b], 1)), name
        text = STACK.format(row=ROW, dtype=name, **places(row, 1, 1, which))
        assert torch.equal(run(text, target, [a[:, 0], b[:, 0]])[0], torch.stack([a[:, 0], b[:, 0]], 1)), name


@pytest.mark.parametrize("which", ["both", "first", "second"])
@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_split(target: str, which: str) -> None:
    """Of every dtype that the target's kernels split."""
    for name, dtype in DTYPES.items():
        row = ROW * dtype.itemsize
        x = values((1, 8, ROW), dtype)
        for text, size, given, wanted in (
            (SPLIT, (3, 5), x, x.split([3, 5], 1)),
            (UNBIND, (1, 1), x[0, :2], x[0, :2].unbind(0)),
        ):
            found = run(text.format(row=ROW, dtype=name, **places(row, *size, which)), target, [given])
            assert all(map(torch.equal, found, wanted)), name


def test_another_place_is_refused() -> None:
    """Operands that the result has elsewhere overlap it."""
    text = CAT.format(row=ROW, dtype="f32", a=ROW * 4, b=9 * ROW * 4, pool=64 * ROW)
    with pytest.raises(etir.EtirError) as refused:
        etir.compile(parse_module(text), target="etir")
    assert refused.value.ids[0] == "E0714"
