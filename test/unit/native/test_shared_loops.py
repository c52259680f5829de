"""Loops that differ in numbers only are one function, and texts name each float once."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.func import FuncOp

import etir
import etir.runtime
from etir.backends.native import savings
from etir.backends.native.cpu import cpu
from etir.backends.native.lowering import winograd
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.print_c import print_c

from etir_testing.native.functions import functions_of, parsed_function
from etir_testing.native.images import here


def text_of(func: FuncOp, name: str) -> str:
    """The C of a function without what all texts begin with."""
    plan_function(func)
    choose_schedules(func, cpu(name))
    source = print_c(func, cpu(name))
    return source.text.removeprefix(source.prologue)


def maps(*shapes: str) -> FuncOp:
    """Doubled elements of tensors of these types."""
    count = len(shapes)
    types = [f"memref<{shape}xf32>" for shape in shapes]
    given = ", ".join(f"%{k}{i}: {t}" for k in "xy" for i, t in enumerate(types))
    steps = "\n".join(
        f"tile.map %y{i}(%x{i}) : {t}({t}) {{\n"
        "^bb0(%v: f32):\n  %w = arith.addf %v, %v : f32\n  tile.yield %w : f32\n}"
        for i, t in enumerate(types)
    )
    return parsed_function(
        f"func.func @f({given}) attributes {{native.outputs = {count} : i64}} {{\n{steps}\nfunc.return\n}}"
    )


def pools(*sides: int) -> FuncOp:
    """Means of images of 64 channels."""
    given = ", ".join(f"%x{i}: memref<1x1x{n}x{n}x64xf32>" for i, n in enumerate(sides))
    made = ", ".join(f"%y{i}: memref<1x1x64xf32>" for i in range(len(sides)))
    steps = "\n".join(
        f'tile.pool "mean" %x{i}, %y{i}() : memref<1x1x{n}x{n}x64xf32>, memref<1x1x64xf32>() {{\n'
        "^bb0(%v: f32):\n  tile.yield %v : f32\n}"
        for i, n in enumerate(sides)
    )
    return parsed_function(
        f"func.func @f({given}, {made}) attributes {{native.outputs = {len(sides)} : i64}} {{\n{steps}\nfunc.return\n}}"
    )


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64", "aarch64"])
def test_maps_of_long_rows(name: str) -> None:
    text = text_of(maps("64", "320", "10000"), name)
    assert re.findall(r"void (\w+_rows)\(", text) == ["map0_rows"]
    assert len(re.findall(r"map\d_part\(void", text)) == 3


def test_short_rows_keep_loops_of_their_own() -> None:
    """To count their vectors would take longer than they take."""
    text = str(maps("9x64")).replace("memref<9x64xf32>", "memref<9x64xf32, strided<[128, 1]>>")
    assert "_rows(" not in text_of(parsed_function(text), "x86-64-v4")


@pytest.mark.parametrize(("sides", "shared"), [((7, 14), ["pool0_window"]), ((2, 3), []), ((40, 56), ["pool0_window"])])
def test_long_windows(sides: tuple[int, ...], shared: list[str]) -> None:
    text = text_of(pools(*sides), "x86-64-v4")
    assert re.findall(r"NOINLINE void (\w+_window)\(", text) == shared


def test_blocks_of_winograd_tiles_share_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first and of the last rows have those of the rows between."""
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    monkeypatch.setattr(winograd, "GAIN", 1e9)
    monkeypatch.setattr(winograd, "CACHES", 0)
    layer = nn.Conv2d(16, 16, 3, padding=1).eval()
    exported = torch.export.export(layer, (torch.randn(1, 16, 12, 12),))
    (found,) = functions_of(exported, "x86-64-v4")
    text = text_of(found.func, "x86-64-v4")
    made = re.findall(r"NOINLINE void winograd_input\d+_(\d_\d+)_\d+\(", text)
    assert Counter(made) == {"0_1111": 3, "2_1111": 3}


def test_windows_load_each_float_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    layer = nn.Conv2d(32, 32, 3, padding=1, groups=32).eval()
    (found,) = functions_of(torch.export.export(layer, (torch.randn(1, 32, 8, 8),)), "x86-64-v4")
    (body,) = re.findall(r"(?s)void \w*depthwise\w*_part\(.*?\n\}", text_of(found.func, "x86-64-v4"))
    loads = re.findall(r"vload\((at \+ \d+)\)", body)
    assert loads and len(loads) == len({*loads})


def test_results() -> None:
    """Rows and windows of several sizes, with parts of vectors, in runs that threads share."""

    class Several(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.exp(x), torch.exp(y), x.mean((2, 3)), y.mean((2, 3))

    torch.manual_seed(0)
    given = torch.randn(1, 40, 20, 20), torch.randn(2, 37, 7, 9)
    exported = torch.export.export(Several(), given)
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    for threads in (1, 2):
        got = etir.runtime.load(program, native="trusted", threads=threads).forward(*given)
        for one, wanted in zip(got, Several()(*given), strict=True):
            np.testing.assert_allclose(np.asarray(one), wanted.numpy(), rtol=1e-5, atol=1e-6)
