"""Convolutions of 3x3 windows by Winograd's F(2x2, 3x3): what they compute, where they are taken, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

import etir
import etir.runtime
from etir.backends.native import savings
from etir.backends.native.blob import Constant, read_blob
from etir.backends.native.cpu import Cpu, cpu
from etir.backends.native.kernels import template_of
from etir.backends.native.lowering import function, winograd
from etir.backends.native.lowering.winograd import REASON, cycles
from etir.backends.native.packing import packed, unpacked
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.verify_tile import problems
from etir.backends.native.tile import BrgemmOp, TemplateOp, WeightOp, memref
from etir.backends.native.winograd import POINTS, WinogradInputOp, WinogradOp, WinogradOutputOp, tiles_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.functions import Tiled, functions_of
from etir_testing.native.images import here, meaning

pytestmark = pytest.mark.filterwarnings("ignore")


class Block(nn.Module):
    """A convolution with what may follow it."""

    def __init__(
        self, c: int, k: int, padding: int | tuple[int, int], bias: bool, residual: bool, act: Callable
    ) -> None:  # type: ignore[type-arg]
        super().__init__()
        self.conv = nn.Conv2d(c, k, 3, padding=padding, bias=bias)
        self.one = nn.Conv2d(c, k, 1, padding=0) if residual else None
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.act(y if self.one is None else y + self.one(x))


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever memory it takes."""
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As three operations on each block of rows, however small the weights are."""
    monkeypatch.setattr(winograd, "WEIGHTS", 0)


@pytest.fixture(params=["blocks", "tiles"])
def taken(monkeypatch: pytest.MonkeyPatch, free: None, request: pytest.FixtureRequest) -> str:
    """However few the tiles are, with blocks of a row of them; or as one operation, a few tiles at a time."""
    monkeypatch.setattr(winograd, "GAIN", 1e9)
    monkeypatch.setattr(winograd, "CACHES", 0)
    monkeypatch.setattr(winograd, "WEIGHTS", 0 if request.param == "blocks" else 1e9)
    monkeypatch.setattr(winograd, "AT_ONCE", 2)
    monkeypatch.setattr(winograd, "LEAST_AT_ONCE", 1)
    return request.param


def ops_of(exported: torch.export.ExportedProgram) -> list[TemplateOp]:
    (found,) = functions_of(exported, here()[-1])
    return [op for op in found.func.body.block.ops if isinstance(op, TemplateOp)]


def export(module: nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval(), inputs)


def compiled(exported: torch.export.ExportedProgram) -> etir.Program:
    return etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"], fallback="refuse")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 20))])
def test_convolutions(seed: int, taken: str) -> None:
    """What float64 gives; the interpreter and any number of threads the same; the program in the place of the code."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    # 0 is two images with no padding, odd rows and parts of a vector of channels.
    n, padding = (2, 0) if seed == 0 else (chance.randint(1, 2), chance.choice([0, 1, 1, (1, 0), 2]))
    h, w, c, k = (7, 8, 21, 35) if seed == 0 else (chance.randint(3 if taken == "blocks" else 7, 12) for _ in range(4))
    residual = padding != 0 and chance.random() < 0.6 and padding == 1
    act = chance.choice([torch.relu, F.silu, F.gelu, lambda y: y])
    block = Block(c, k, padding, chance.random() < 0.7, residual, act).eval()
    x = torch.randn(n, c, h, w)
    exported = export(block, x)
    (tiled,) = functions_of(exported, here()[-1])
    form = WinogradOutputOp if taken == "blocks" else WinogradOp
    assert any(isinstance(op, form) for op in tiled.func.walk())
    program = compiled(exported)
    got, two, without = (
        torch.as_tensor(etir.runtime.load(program, native=native, threads=threads).forward(x)[0])
        for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
    )
    with torch.no_grad():
        wanted = block.double()(x.double())
    assert torch.equal(got, two)
    for found in (got, without, torch.as_tensor(meaning(tiled.func, [x.numpy()], tiled.weights)[0])):
        assert (found.double() - wanted).abs().max() <= 2e-6 * wanted.abs().max()


@pytest.mark.usefixtures("taken")
def test_large_means() -> None:
    """Numbers with a mean of a hundred times their deviation, whose differences the transform is made of."""
    torch.manual_seed(0)
    conv = nn.Conv2d(64, 32, 3, padding=1)
    x = torch.randn(1, 64, 9, 9) + 100
    (got,) = etir.runtime.load(compiled(export(conv, x))).forward(x)
    with torch.no_grad():
        wanted = conv.double()(x.double())
    assert (torch.as_tensor(got).double() - wanted).abs().max() <= 3e-6 * wanted.abs().max()


@pytest.mark.usefixtures("taken")
def test_what_is_not_finite_stays_with_its_tiles() -> None:
    """Not finite where eager has no finite number, NaN at most one element farther, and the same bits elsewhere."""
    torch.manual_seed(0)
    conv = nn.Conv2d(16, 16, 3, padding=1)
    x = torch.randn(1, 16, 12, 12)
    loaded = etir.runtime.load(compiled(export(conv, x)))
    clean = torch.as_tensor(loaded.forward(x)[0]).clone()
    assert clean.isfinite().all()
    for number in (float("nan"), float("inf"), 3e38):
        with torch.no_grad():
            given = x.clone()
            given[0, 3, 5, 6] = number
            got = torch.as_tensor(loaded.forward(given)[0])
            eager = conv(given)
        assert not got[~eager.isfinite()].isfinite().any()
        near = torch.zeros(12, 12, dtype=torch.bool)
        near[4:8, 4:8] = True  # the tiles that read row 5 and column 6
        assert torch.equal(got[..., ~near], clean[..., ~near])


# --- where it is taken ------------------------------------------------------------------------------------------------

SHAPES = [
    # side, channels, taken: the measured ones, then images of few channels or positions
    (56, 64, True), (28, 128, True), (14, 256, True), (7, 512, False), (32, 16, False), (4, 64, False), (224, 3, False),
]  # fmt: skip


@pytest.mark.parametrize(("side", "channels", "taken"), SHAPES)
def test_it_is_taken_where_it_is_quicker(side: int, channels: int, taken: bool) -> None:
    tiles = (-(-side // 2)) ** 2
    direct, tiled = cycles(side * side, tiles, channels, channels, cpu("x86-64-v3"))
    assert (tiled <= winograd.GAIN * direct) == taken


@pytest.mark.usefixtures("free")
def test_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that stay say why; other windows are none of its matter; linked code has none."""

    def reasons(exported: torch.export.ExportedProgram) -> list[str | None]:
        products = [op for op in ops_of(exported) if isinstance(op, BrgemmOp)]
        found = [op.attributes.get(REASON) for op in products]
        return [reason.data if isinstance(reason, StringAttr) else None for reason in found]

    small = export(nn.Conv2d(32, 32, 3, padding=1), torch.randn(1, 32, 4, 4))
    (reason,) = reasons(small)
    assert reason is not None and "of the cycles" in reason
    assert reasons(export(nn.Conv2d(32, 32, 3, 2, 1), torch.randn(1, 32, 32, 32))) == [None]
    large = export(nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 32, 32))
    assert any(isinstance(op, WinogradOp) for op in ops_of(large))
    monkeypatch.setattr(function, "panel_of", lambda target: 32)
    real = function.Lowering.__init__

    def init(self: function.Lowering, func: object, target: Cpu) -> None:
        real(self, func, replace(target, linked=True))  # type: ignore[arg-type]

    monkeypatch.setattr(function.Lowering, "__init__", init)
    assert not any(isinstance(op, WinogradInputOp | WinogradOp) for op in ops_of(large))


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("channels", "side", "at_once"),
    [
        ((64, 64), 56, 28),  # seven rounds for each of four slots
        ((64, 64), 32, 22),  # 256 tiles in three rounds
        ((64, 64), 20, 0),  # fewer than one round
        ((128, 128), 56, 0),  # weights of the whole second cache
    ],
)
def test_small_weights_are_read_for_every_few_tiles(channels: tuple[int, int], side: int, at_once: int) -> None:
    """Slots have as many rounds, of hardly fewer tiles each."""
    c, k = channels
    (tiled,) = functions_of(export(nn.Conv2d(c, k, 3, padding=1), torch.randn(1, c, side, side)), "x86-64-v4")
    found = [op for op in tiled.func.walk() if isinstance(op, WinogradOp)]
    assert [op.at_once for op in found] == ([at_once] if at_once else [])
    assert all(op.tiles == tiles_of(side) ** 2 for op in found)


class Residual(nn.Module):
    """What a convolution adds to is the image that it reads, or one that nothing else reads."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.first, self.conv = nn.Conv2d(3, 64, 1), nn.Conv2d(64, 64, 3, padding=1)
        self.own = own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(x))
        return self.conv(y) + y if self.own else self.conv(F.gelu(y)) + y


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("own", [True, False])
def test_what_is_added_is_written_over_where_no_tile_reads_it(own: bool) -> None:
    """An image is read by tiles beside those that were written."""
    torch.manual_seed(0)
    module, x = Residual(own).eval(), torch.randn(1, 3, 32, 32)
    exported = export(module, x)
    (tiled,) = functions_of(exported, here()[-1])
    (op,) = (op for op in tiled.func.walk() if isinstance(op, WinogradOp))
    assert len(template_of(op).in_place(op)) == len(op.extra) - own
    got = torch.as_tensor(etir.runtime.load(compiled(exported), threads=2).forward(x)[0])
    with torch.no_grad():
        wanted = module.double()(x.double())
    assert (got.double() - wanted).abs().max() <= 2e-6 * wanted.abs().max()


class Twice(nn.Module):
    """One weight on two images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.conv(x), self.conv(y)


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(("side", "taken"), [(32, True), (3, False)])
def test_a_weight_is_in_the_file_once(side: int, taken: bool) -> None:
    """What several convolutions read is in one order, that of tiles only where all of them take it."""
    exported = export(Twice(), torch.randn(1, 64, 32, 32), torch.randn(1, 64, side, side))
    (tiled,) = functions_of(exported, here()[-1])
    weights = [op for op in tiled.func.walk() if isinstance(op, WeightOp) and op.panel is not None]
    assert [op.winograd is not None for op in weights] == [taken]


def test_the_order_of_weights_has_an_inverse() -> None:
    numbers = np.random.default_rng(0).normal(size=(35, 21, 3, 3)).astype(np.float32)
    op = WeightOp("w", memref((POINTS, 2, 21, 32)), 32, True, 2)
    found = unpacked(Constant("w", 0, 32, 21, 35, True, winograd=2), packed(op, numbers).tobytes())
    back = np.frombuffer(found, np.float32).reshape(numbers.shape)
    np.testing.assert_array_equal(back[..., ::2, ::2], numbers[..., ::2, ::2])
    assert np.abs(back - numbers).max() < 3e-7 * np.abs(numbers).max()


@pytest.mark.usefixtures("taken")
def test_the_blob_says_the_order() -> None:
    program = compiled(export(nn.Conv2d(16, 16, 3, padding=1), torch.randn(1, 16, 8, 8)))
    (blob,) = (read_blob(data) for data in blobs_of(program.buffer))
    (constant,) = (c for c in blob.constants if c.panel)
    assert (constant.winograd, constant.k, constant.n) == (2, 16, 16)


# --- edited by hand ---------------------------------------------------------------------------------------------------


def edits() -> Iterator[tuple[str, Callable[[TemplateOp | WeightOp], None], str, str]]:
    """What is edited, how, and the id and a part of the text of the error."""

    def of(name: str, value: object) -> Callable[[TemplateOp | WeightOp], None]:
        return lambda op: op.properties.update({name: value})  # type: ignore[dict-item]

    def border(*numbers: int) -> ArrayAttr[IntegerAttr]:
        return ArrayAttr([IntegerAttr(n, i64) for n in numbers])

    yield "tile.winograd_input", of("border", border(1, 1, 1)), "E1169", "a border is four numbers from 0 to 2"
    yield "tile.winograd_input", of("border", border(3, 1, 1, 1)), "E1169", "a border is four numbers from 0 to 2"
    yield "tile.winograd_input", of("border", border(1, 1, 1, 2)), "E1169", "tiles, not"
    yield (
        "tile.winograd_output",
        of("schedule", DictionaryAttr({"tile": IntegerAttr(2, i64)})),
        "E1164",
        "no entry 'tile'",
    )
    yield "tile.weight", of("winograd", IntegerAttr(4, i64)), "E1166", "no filters [n, c, 3, 3] for tiles of 2x2"


@pytest.mark.parametrize("number", range(5))
def test_text_that_was_changed_is_refused(number: int, plain: Tiled) -> None:
    name, edit, id, said = [*edits()][number]
    func = plain.func.clone()
    edit(next(op for op in func.walk() if op.name == name and (name != "tile.weight" or op.winograd)))  # type: ignore[union-attr]
    found = problems(func, cpu("x86-64-v3"), plain.shapes)
    assert [problem.id.id for problem in found][:1] == [id]
    assert said in found[0].message
    # What an operation's own verifier refuses is at the function; in a file, at the place that was edited.
    assert id == "E1169" or found[0].location is not None


def tiled_convolution() -> Tiled:
    (found,) = functions_of(export(nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 32, 32)), "x86-64-v3")
    choose_schedules(found.func, cpu("x86-64-v3"))
    assert problems(found.func, cpu("x86-64-v3"), found.shapes) == []
    return found


@pytest.fixture
def plain(free: None, blocks: None) -> Tiled:
    return tiled_convolution()


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("name", "value", "id", "said"),
    [
        ("border", ArrayAttr([IntegerAttr(1, i64)] * 3), "E1169", "a border is four numbers from 0 to 2"),
        ("border", ArrayAttr([IntegerAttr(n, i64) for n in (1, 1, 1, 2)]), "E1169", "[1, 32, 33, 64]"),
        ("schedule", DictionaryAttr({"lanes": IntegerAttr(2, i64)}), "E1164", "no entry 'lanes'"),
        ("schedule", DictionaryAttr({"tile": ArrayAttr([IntegerAttr(9, i64)] * 2)}), "E1164", "depth and panels"),
    ],
)
def test_text_of_all_of_it_that_was_changed_is_refused(name: str, value: Attribute, id: str, said: str) -> None:
    func = tiled_convolution().func.clone()
    (op,) = (op for op in func.walk() if isinstance(op, WinogradOp))
    op.properties[name] = value
    found = problems(func, cpu("x86-64-v3"), tiled_convolution().shapes)
    assert [problem.id.id for problem in found][:1] == [id]
    assert said in found[0].message
