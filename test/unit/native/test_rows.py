"""Images row by row: networks against eager, on as many threads as there are, in less memory; what is not fused."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from xdsl.dialects.builtin import ModuleOp  # noqa: E402
from xdsl.dialects.func import FuncOp  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native import compile as native  # noqa: E402
from etir.backends.native import savings  # noqa: E402
from etir.backends.native.cpu import Cpu, cpu  # noqa: E402
from etir.backends.native.functions import saved  # noqa: E402
from etir.backends.native.loop import LoopOp  # noqa: E402
from etir.backends.native.passes.tile_rows import fuse_rows  # noqa: E402
from etir.backends.native.passes.tile_schedule import choose_schedules  # noqa: E402
from etir.backends.native.passes.verify_tile import problems, verify_function  # noqa: E402
from etir.backends.native.row_loop import RowsOp  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.dialects.text import print_module  # noqa: E402

from etir_testing.native.functions import Tiled, functions_of, parsed_function  # noqa: E402
from etir_testing.native.guarded import Finding, paged, sanitized  # noqa: E402
from etir_testing.native.images import Code, emulated, here, meaning  # noqa: E402
from etir_testing.native.mutations import of_text  # noqa: E402

MANY = int(os.environ.get("ETIR_NATIVE_MUTATIONS", "40"))
"""How many changed numbers; few are accepted."""

pytestmark = pytest.mark.filterwarnings("ignore")


class Inverted(nn.Module):
    """A product of pixels, a window for each channel, a product; the input is added where it can be."""

    def __init__(self, channels: tuple[int, int, int], act: Callable[[], nn.Module], **window: int):
        super().__init__()
        inner, hidden, outer = channels
        self.layers = nn.Sequential(
            nn.Conv2d(3, inner, 3, padding=1), nn.Conv2d(inner, hidden, 1), act(),
            nn.Conv2d(hidden, hidden, groups=hidden, **window), act(), nn.Conv2d(hidden, outer, 1),
        )  # fmt: skip
        self.after = nn.Conv2d(outer, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers[0](x)
        z = self.layers[1:](y)
        return self.after(z + y if z.shape == y.shape else z)


class Pools(nn.Module):
    """Windows of other kinds: the first layers of a network, pools, a window on a window."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU6(),
            nn.Conv2d(16, 24, 1), nn.Conv2d(24, 40, 1), nn.Hardswish(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(40, 8, 1),
            nn.AvgPool2d(2, 2), nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.Conv2d(8, 8, 3, 2, 1, groups=8),
            nn.Conv2d(8, 12, 1), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "residual": (lambda: Inverted((24, 70, 24), nn.ReLU6, kernel_size=3, padding=1), (1, 3, 17, 23), 1),
    "stride": (lambda: Inverted((8, 40, 13), nn.SiLU, kernel_size=5, stride=2, padding=2), (3, 3, 20, 21), 1),
    "wide": (lambda: Inverted((5, 33, 5), nn.Hardswish, kernel_size=7, padding=3), (2, 3, 13, 8), 1),
    "even": (lambda: Inverted((8, 40, 13), nn.ReLU, kernel_size=2, stride=2), (2, 3, 11, 12), 1),
    "dilated": (lambda: Inverted((8, 40, 8), nn.GELU, kernel_size=3, padding=2, dilation=2), (1, 3, 12, 13), 0),
    "pools": (Pools, (2, 3, 96, 63), 4),
}
"""A network, the sizes of its input, and how many images in between are rings."""


@contextmanager
def always() -> Iterator[None]:
    """While it lasts, rows are worth it for images of any size."""

    def fuse(func: FuncOp, target: Cpu) -> None:
        fuse_rows(func, dataclasses.replace(target, row_image=1e-9, row_weights=1e9))

    real = native.fuse_rows
    native.fuse_rows = fuse
    try:
        yield
    finally:
        native.fuse_rows = real


def network(name: str) -> tuple[nn.Module, torch.Tensor, torch.export.ExportedProgram]:
    torch.manual_seed(0)
    make, shape, _ = CASES[name]
    module, x = make().eval(), torch.randn(shape)
    return module, x, torch.export.export(module, (x,))


def by_rows(name: str) -> Tiled:
    """Whatever memory it takes: less may be needed without rows, where images have no borders."""
    with always(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(savings, "choose_savings", lambda *_: None)
        (function,) = functions_of(network(name)[2])
    return function


@pytest.mark.parametrize("name", CASES)
def test_networks_by_rows(name: str) -> None:
    module, x, exported = network(name)
    function = by_rows(name)
    ops = [*function.func.body.block.ops]
    assert sum(isinstance(op, RowsOp) for op in ops) == CASES[name][2]
    assert any(isinstance(op, (RowsOp, LoopOp)) for op in ops)
    verify_function(function.func, None, function.shapes, function.arena_bytes)
    with torch.no_grad():
        wanted = module(x).numpy()
    given = [x.numpy()]
    results = [meaning(function.func, given, function.weights)[0]]
    results += [Code(function.func.clone(), cpu_name, function.weights)(given)[0] for cpu_name in here()[-1:]]
    for got in results:
        assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["residual", "stride", "pools"])
def test_threads_compute_the_same_bits_in_less_memory(name: str) -> None:
    module, x, exported = network(name)
    with always():
        program = etir.compile(exported, target="etir", delegates=["native"])
    results = [etir.runtime.load(program, threads=n).forward(x)[0] for n in (1, 2, 3, 4)]
    assert all(torch.equal(results[0], other) for other in results[1:])
    with torch.no_grad():
        wanted = module(x)
    assert (results[0] - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    (plain,) = functions_of(exported)
    assert by_rows(name).arena_bytes <= plain.arena_bytes


@pytest.mark.parametrize("processor", [pytest.param("aarch64", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", CASES)
def test_networks_on_other_processors(name: str, processor: str) -> None:
    if processor not in emulated():
        pytest.skip(f"no {processor} here")
    module, x, exported = network(name)
    function = by_rows(name)
    with torch.no_grad():
        wanted = module(x).numpy()
    (got,) = Code(function.func, processor, function.weights)([x.numpy()])
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_what_is_worth_it_is_data_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images stay as they are, as do all where weights would not stay in the cache, or there is no cache; unless
    that saves memory."""
    (function,) = functions_of(network("residual")[2])
    assert saved(function.func) == ("rows",)
    assert any(isinstance(op, (RowsOp, LoopOp)) for op in function.func.body.block.ops)
    monkeypatch.setattr("etir.backends.native.savings.choose_savings", lambda outlined, cpus: None)
    (function,) = functions_of(network("residual")[2])
    assert not any(isinstance(op, (RowsOp, LoopOp)) for op in function.func.body.block.ops)
    for change in ({"row_weights": 1e-6}, {"row_image": 10.0}, {"row_weights": 0.0}):
        func = function.func.clone()
        fuse_rows(func, dataclasses.replace(cpu("x86-64-v4"), **{"row_image": 1e-9, "row_weights": 1e9, **change}))
        assert not any(isinstance(op, (RowsOp, LoopOp)) for op in func.body.block.ops), change


def test_a_window_of_all_rows_keeps_the_image() -> None:
    """A global pool needs every row at once: the image is no larger than the rows, and may lie over what it is made of,
    as that of a norm and an activation."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 24, 1), nn.GroupNorm(1, 24), nn.ReLU(), nn.AvgPool2d(8), nn.Conv2d(24, 3, 1))
    exported = torch.export.export(module.eval(), (torch.randn(1, 3, 8, 8),))
    with always():
        (function,) = functions_of(exported)
    assert not any(isinstance(op, RowsOp) for op in function.func.body.block.ops)
    (plain,) = functions_of(exported)
    assert function.arena_bytes <= plain.arena_bytes


def test_a_changed_number_is_refused_or_harmless() -> None:
    """Of the operation, its casts and its rings: what is accepted computes what it says, in its own memory."""
    tiled, name = by_rows("residual"), here()[-1]
    func = tiled.func.clone()
    choose_schedules(func, cpu(name))
    lines = print_module(ModuleOp([func])).splitlines()
    first = next(i for i, line in enumerate(lines) if "tile.rows" in line) - 12
    given = [np.random.default_rng(0).standard_normal(CASES["residual"][1]).astype(np.float32)]
    refused = run = 0
    text = "\n".join(lines[first:])
    for what, changed in itertools.islice(of_text(text, 0), MANY):
        try:
            other = parsed_function("\n".join([*lines[:first], changed]))
        except EtirError:
            refused += 1
            continue
        if problems(other, cpu(name), tiled.shapes, tiled.arena_bytes):
            refused += 1
        else:
            run += 1
            wanted = meaning(other, given, tiled.weights)
            for way in (sanitized, paged):
                try:
                    got = way(other.clone(), name, given, tiled.weights, tiled.arena_bytes)
                except Finding as error:
                    raise AssertionError(f"{what}: {error}") from error
                for a, b in zip(got, wanted, strict=True):
                    np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * max(1.0, float(np.abs(b).max())), err_msg=what)
    assert refused >= MANY // 2 and run, (refused, run)
