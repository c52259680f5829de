"""Elements from elsewhere by numbers that are known at compile time: padding with what is there, flips, the nearest
pixels, constant indices; and what is near to them: repeated tensors, pixels that become channels, diagonals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.passes.verify_tile import problems  # noqa: E402
from etir.backends.native.take import TakeOp, runs_of  # noqa: E402
from etir.backends.native.tile import MapOp, memref  # noqa: E402
from etir.backends.native.users import place_of  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.functions import functions_of, parsed_function  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

ORDER = torch.tensor([3, 1, 0, 2, 6, 4, 4])
MANY = torch.randint(0, 6, (40,), generator=torch.Generator().manual_seed(0))


def shuffle(x: Any, groups: int) -> Any:
    """Channels of each group in turn, as ShuffleNet has them."""
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


Case = tuple[tuple[int, ...], Callable[[Any], Any]]
IMAGES: dict[str, Case] = {
    "reflection": ((2, 7, 6, 9), lambda x: F.pad(x, (1, 3, 2, 0), mode="reflect")),
    "reflection of a wide image": ((1, 16, 5, 40), lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect")),
    "replication": ((2, 7, 6, 9), lambda x: F.pad(x, (3, 1, 0, 2), mode="replicate")),
    "replication less": ((1, 4, 6, 9), lambda x: F.pad(x, (-2, 3, 1, -1), mode="replicate")),
    "flip of columns": ((2, 7, 6, 9), lambda x: x.flip(3)),
    "flip of channels": ((2, 7, 6, 9), lambda x: x.flip(1)),
    "flip of all": ((2, 7, 6, 9), lambda x: x.flip((0, -3, 2, 3))),
    "turned": ((1, 8, 5, 9), lambda x: torch.rot90(x, 1, (2, 3))),
    "turned around": ((1, 8, 5, 9), lambda x: torch.rot90(x, 2, (2, 3))),
    "channels": ((2, 7, 6, 9), lambda x: x[:, ORDER]),
    "channels from the end": ((2, 7, 6, 9), lambda x: x[:, ORDER - 7]),
    "rows": ((2, 5, 7, 9), lambda x: x.index_select(2, ORDER)),
    "rows by a weight": ((2, 5, 7, 9), lambda x: x[:, :, MANY]),
    "columns by a weight": ((2, 5, 6, 7), lambda x: x.index_select(3, MANY)),
    "columns and rows": ((2, 5, 7, 7), lambda x: x[:, :, :, ORDER].index_select(2, ORDER)),
    "images": ((3, 5, 4, 7), lambda x: x[torch.tensor([2, 0])]),
    "nearest": ((2, 5, 6, 7), lambda x: F.interpolate(x, scale_factor=1.5)),
    "nearest by factors": ((1, 17, 10, 13), lambda x: F.interpolate(x, scale_factor=(0.7, 2.3))),
    "nearest by sizes": ((1, 17, 10, 13), lambda x: F.interpolate(x, size=(23, 26))),
    "nearest exact": ((2, 5, 6, 7), lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest-exact")),
    "repeated": ((2, 3, 4, 5), lambda x: x.repeat(2, 3, 1, 2)),
    "shuffled": ((2, 12, 5, 3), lambda x: shuffle(x, 3)),
    "unshuffled": ((2, 3, 6, 4), lambda x: F.pixel_unshuffle(x, 2)),
}
"""Operators on images: a shape and what is made of it."""
TENSORS: dict[str, Case] = {
    "signal": ((2, 5, 70), lambda x: F.pad(x, (30, 7), mode="reflect")),
    "signal, replicated": ((2, 5, 19), lambda x: F.pad(x, (3, 20), mode="replicate")),
    "signal, nearest": ((2, 5, 19), lambda x: F.interpolate(x, scale_factor=1.4)),
    "signal, nearest of twice": ((2, 5, 19), lambda x: F.interpolate(x, scale_factor=2)),
    "volume": ((1, 2, 3, 4, 5), lambda x: F.pad(x, (1, 2, 0, 1, 2, 1), mode="reflect")),
    "vector": ((70,), lambda x: x.flip(0)),
    "indices of two dims": ((2, 7, 3), lambda x: x[:, ORDER[:6].view(2, 3)]),
    "indices of one": ((2, 7, 3), lambda x: x[:, ORDER[:1]]),
    "a table": ((7, 33), lambda x: x[ORDER]),
    "repeated with new dims": ((3, 5), lambda x: x.repeat(2, 1, 4)),
    "diagonal": ((2, 6, 9), lambda x: x.diagonal(2, 1, 2)),
    "diagonal below": ((6, 2, 9), lambda x: x.diagonal(-1, 2, 0)),
}


class On(nn.Module):
    """Each operator on what is given, and on what a pool has made, with channels side by side, before another one."""

    def __init__(self, cases: dict[str, Case], images: bool) -> None:
        super().__init__()
        self.cases, self.images = cases, images
        self.first = nn.Linear(4, 4)

    def forward(self, *given: Tensor) -> list[Tensor]:
        last, *tensors = given
        found: list[Tensor] = [self.first(last)]
        for x, (_, take) in zip(tensors, self.cases.values(), strict=True):
            found += [take(x), F.max_pool2d(take(F.max_pool2d(x, 1)), 1) if self.images else torch.relu(take(x * 2.0))]
        return found


@pytest.mark.parametrize("images", [True, False])
def test_results_are_eager_s(images: bool) -> None:
    """The same bits, by code of every processor on one thread and on two, and by the kernels in its place. Signs of
    zeros, infinities and NaN are moved as they are.
    """
    torch.manual_seed(0)
    cases = IMAGES if images else TENSORS
    given = [torch.randn(shape) for shape, _ in cases.values()]
    for x in given:
        x.view(-1)[:4] = torch.tensor([-0.0, torch.inf, -torch.inf, torch.nan])
        x.view(torch.int32).view(-1)[4] = 0x7FC12345
    module, inputs = On(cases, images).eval(), (torch.randn(3, 4), *given)
    with torch.no_grad():
        wanted = module(*inputs)
    program = torch.export.export(module, inputs)
    for name in here():
        made = etir.compile(program, target="etir", delegates=[f"native{{cpus={name} arena=free}}"])
        (backend,) = made.delegation.backends
        assert made.warnings == () and len(backend.partitions) == 1 and not backend.rejected, name
        loads = [etir.runtime.load(made, native="trusted", threads=n) for n in (1, 2)]
        for load in (*loads, etir.runtime.load(made, native="refuse")):
            names = [f"{case}, {which}" for case in cases for which in ("as given", "made")]
            for case, got, want in zip(names, load.forward(*inputs)[1:], wanted[1:], strict=True):
                assert got.shape == want.shape and torch.equal(got.isnan(), want.isnan()), case
                moved = torch.full_like(want, "as given" in case, dtype=torch.bool) | ~want.isnan()
                assert torch.equal(*(t.contiguous().view(torch.int32)[moved] for t in (got, want))), case


def test_runs() -> None:
    assert runs_of([1, 0, 1, 2, 3, 2, 2, 2, 5]) == [(1, 2, -1), (1, 3, 1), (2, 3, 0), (5, 1, 1)]
    assert runs_of([4, 4]) == [(4, 2, 0)] and runs_of([0, 2, 4]) == [(n, 1, 1) for n in (0, 2, 4)] and runs_of([]) == []


def operations(module: nn.Module, *inputs: Tensor) -> list[TakeOp | MapOp]:
    """What is taken and copied in the only function of a model."""
    (tiled,) = functions_of(torch.export.export(module.eval(), inputs))
    return [op for op in tiled.func.body.block.ops if isinstance(op, (TakeOp, MapOp))]


class Between(nn.Module):
    """An operator between two convolutions."""

    def __init__(self, take: Callable[[Any], Any], channels: int = 8) -> None:
        super().__init__()
        self.first, self.take = nn.Conv2d(channels, 8, 3, padding=1), take
        self.last = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.take(self.first(x)))


def test_tables_of_operators_in_a_row_are_one() -> None:
    """What only the next one reads is not made: rows and columns by indices, edges of what is turned around. What
    others read is.
    """

    def both(x: Any) -> Any:
        return F.pad(
            x.index_select(2, ORDER).index_select(3, ORDER.flip(0)).flip((2, 3)), (1, 1, 1, 1), mode="replicate"
        )

    def twice(x: Any) -> Any:
        turned = x.flip(3)
        return turned.flip(2) + turned.mean((2, 3), keepdim=True)

    x = torch.randn(2, 8, 7, 7)
    ops = operations(Between(both), x)
    (take,) = (op for op in ops if isinstance(op, TakeOp))
    rows, columns = ([n.tolist()[at] for at in (0, *range(7), -1)] for n in (ORDER.flip(0), ORDER))
    assert take.numbers() == [None, None, rows, columns]
    assert sum(isinstance(op, TakeOp) for op in operations(Between(twice), x)) == 2
    for model in (Between(both), Between(twice)):
        made = etir.compile(torch.export.export(model.eval(), (x,)), target="etir", delegates=["native"])
        (got,) = etir.runtime.load(made).forward(x)
        assert torch.allclose(got, model(x), atol=1e-5)


def test_channels_that_are_shuffled() -> None:
    """Groups of channels are dims that strides cannot make one of: it was a copy to planes, and another one back."""
    x = torch.randn(1, 8, 6, 5)
    ops, others = (operations(Between(f), x) for f in (lambda x: shuffle(x, 2), lambda x: x.flip(1)))
    (take,) = (op for op in ops if isinstance(op, TakeOp))
    assert take.numbers() == [None, [0, 4, 1, 5, 2, 6, 3, 7], None, None]
    assert len(ops) == len(others)  # copies of the input and to the output, and zeros around images


def test_a_result_that_is_given_back() -> None:
    """What is given back is written there, as its planes."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(16, 16, 1)

        def forward(self, x: Tensor) -> Any:
            return self.first(x).flip(3)

    ops = operations(Model(), torch.randn(1, 16, 6, 5))
    (take,) = (op for op in ops if isinstance(op, TakeOp))
    assert place_of(take.c).base.type == memref((1, 16, 6, 5))
    assert sum(isinstance(op, MapOp) for op in ops) == 1  # of the input


MEMORY: dict[str, Callable[[Any], Any]] = {
    name: IMAGES[name][1] for name in ("reflection", "replication", "flip of columns", "turned", "channels", "nearest")
} | {"repeated": lambda x: x[:, :4].repeat(1, 2, 1, 1), "unshuffled": lambda x: F.pixel_unshuffle(x[:, :2], 2)}


@pytest.mark.parametrize("name", MEMORY)
def test_one_delegate_that_takes_no_more_memory(name: str) -> None:
    """An operator between two convolutions made two delegates, with a kernel in between."""
    torch.manual_seed(0)
    take = MEMORY[name] if name != "channels" else (lambda x: x[:, torch.arange(8) * 3 % 8])
    model, inputs = Between(take, 3).eval(), (torch.randn(1, 3, 24, 24),)
    program = torch.export.export(model, inputs)
    plain = etir.compile(program, target="etir")
    made = etir.compile(torch.export.export(model, inputs), target="etir", delegates=["native"])
    assert len(made.delegation.backends[0].partitions) == 1
    assert bytes_of(made) <= bytes_of(plain)
    (got,) = etir.runtime.load(made).forward(*inputs)
    assert torch.allclose(got, model(*inputs), atol=1e-5)


class Distances(nn.Module):
    """Attention with a row of a table for each distance of two tokens, as Conformer has it."""

    def __init__(self, tokens: int, width: int = 8, farthest: int = 4) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.table = nn.Embedding(2 * farthest + 1, width)
        at = torch.arange(tokens)
        self.register_buffer("distances", (at[:, None] - at).clamp(-farthest, farthest) + farthest)

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.query(x), self.key(x)
        near = torch.einsum("bnd,nrd->bnr", query, self.table(self.distances))
        return (query @ key.transpose(1, 2) + near).softmax(-1) @ x


@pytest.mark.parametrize("tokens", [20, 130])
def test_rows_of_a_table_by_constant_indices(tokens: int) -> None:
    """Some are code: a kernel ended the delegate there. Many stay with the kernels."""
    torch.manual_seed(0)
    model, inputs = Distances(tokens).eval(), (torch.randn(1, tokens, 8),)
    plain = etir.compile(torch.export.export(model, inputs), target="etir")
    made = etir.compile(torch.export.export(model, inputs), target="etir", delegates=["native"])
    assert [row.op for row in made.delegation.backends[0].rejected] == ["aten.embedding.default"] * (tokens > 20)
    assert bytes_of(made) <= bytes_of(plain)
    for native in ("trusted", "refuse"):
        (got,) = etir.runtime.load(made, native=native).forward(*inputs)
        assert torch.allclose(got, model(*inputs), atol=1e-5)


@pytest.mark.parametrize("padding", [None, 0])
def test_rows_of_a_table_that_is_read_by_words(padding: int | None) -> None:
    """Indices that the caller gives, and those that are constants but outside of the table, stay with the kernels."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.last = nn.Embedding(9, 8, padding_idx=padding), nn.Linear(8, 8)
            self.register_buffer("places", torch.tensor([2, 0, 7]))

        def forward(self, words: Tensor) -> Tensor:
            return self.last(self.table(words) + self.table(self.places).relu())

    torch.manual_seed(0)
    model, inputs = Words().eval(), (torch.tensor([[8, 0, 1]]),)
    made = etir.compile(torch.export.export(model, inputs), target="etir", delegates=["native"])
    assert [row.count for row in made.delegation.backends[0].rejected] == [1]
    (got,) = etir.runtime.load(made).forward(*inputs)
    assert torch.allclose(got, model(*inputs), atol=1e-5)


TEXT = """
func.func private @forward_native_0(%x: memref<4x8xf32>, %y: memref<4x10xf32>) attributes {native.outputs = 1 : i64} {
  tile.take %x, %y from [array<i64>, array<i64: 1, 1, 1, 0, 8, 1, 6, 1, 1>] : memref<4x8xf32>, memref<4x10xf32>
  func.return
}
"""
RUNS = "array<i64: 1, 1, 1, 0, 8, 1, 6, 1, 1>"


def test_text() -> None:
    """It is read and printed as it is."""
    func = parsed_function(TEXT)
    (take, _) = func.body.block.ops
    assert isinstance(take, TakeOp) and problems(func) == []
    assert take.numbers() == [None, [1, *range(8), 6]] and str(take) in TEXT


@pytest.mark.parametrize(
    ("given", "changed", "said"),
    [
        (RUNS, "array<i64: 1, 1, 1, 0, 8, 1, 8, 1, 1>", "numbers 0 to 8 of dim 1, which has 8 elements"),
        (RUNS, "array<i64: 0, 2, -1, 0, 8, 1>", "numbers -1 to 7 of dim 1"),
        (RUNS, "array<i64: 0, 8, 1>", "dim 1 has 10 elements, and its table others"),
        (RUNS, "array<i64: 0, 8, 1, 6>", "three integers each"),
        (RUNS, "array<i32: 1, 1, 1, 0, 8, 1, 6, 1, 1>", "three integers each"),
        (RUNS, "array<i64: 0, 5, 2, 0, 5, 1>", "another step than 1, 0 or -1"),
        (RUNS, "array<i64: 0, 10, 1, 0, 0, 1>", "has no elements"),
        (RUNS, "array<i64>", "dim 1 is taken in order, and has 8 and 10 elements"),
        (", array<i64: 1, 1, 1, 0, 8, 1, 6, 1, 1>]", "]", "as many dims as there are tables"),
    ],
)
def test_text_that_is_refused(given: str, changed: str, said: str) -> None:
    """Runs that leave their dim, or make another one."""
    text = TEXT.replace(given, changed)
    assert text != TEXT
    (found,) = problems(parsed_function(text))
    assert found.id.id == "E1169" and said in found.message
