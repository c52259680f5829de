"""Sizes that are known at run time only: numbers, text, proofs, programs against eager at every kind of size."""

from __future__ import annotations

import copy
import math
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from xdsl.dialects.builtin import ModuleOp  # noqa: E402
from xdsl.dialects.func import FuncOp  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.blob import IS_BOUND, read_blob, write_blob  # noqa: E402
from etir.backends.native.cpu import cpu  # noqa: E402
from etir.backends.native.memory import memref  # noqa: E402
from etir.backends.native.passes.tile_schedule import choose_schedules  # noqa: E402
from etir.backends.native.passes.verify_sizes import outside  # noqa: E402
from etir.backends.native.passes.verify_tile import problems  # noqa: E402
from etir.backends.native.sizes import Size, at_least, most, read_sizes, size  # noqa: E402
from etir.backends.native.sizes_attr import SizesAttr  # noqa: E402
from etir.backends.native.tile import BufferOp  # noqa: E402
from etir.backends.native.touched import Base  # noqa: E402
from etir.backends.native.view import ViewOp  # noqa: E402
from etir.dialects.sym.expr import symbol  # noqa: E402
from etir.dialects.text import print_module  # noqa: E402

from etir_testing.native.blobs import blobs_of  # noqa: E402
from etir_testing.native.functions import Tiled, functions_of, parsed_function  # noqa: E402
from etir_testing.native.guarded import paged, sanitized  # noqa: E402
from etir_testing.native.images import Code, emulated, here, meaning  # noqa: E402
from etir_testing.native.sized import cases  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
FEW = ("encoder", "picture", "related", "chance 1")


@cache
def tiled(name: str) -> tuple[Tiled, ...]:
    return tuple(functions_of(cases()[name].exported()))


def number(text: str, low: int = 0, high: int = 31) -> int:
    return size(symbol(text), {text: (low, high)})


def test_numbers() -> None:
    n = number("n")
    assert (n - n, n * 0, 4 * n // n, math.prod((2, 3))) == (0, 0, 4, 6)
    assert isinstance(n + 1, Size) and n + 1 == 1 + n != n and hash(n + 1) == hash(1 + n)
    assert n != 31 and most(n) == 31 and most(-(-n // 8)) == 4
    assert at_least(4 * n, n) and at_least(n, 1) and not at_least(n, 2) and at_least(number("n", 4), 4)
    assert not at_least(n, number("m"))
    assert f"{n * 4}" == "<|4 * n|>"
    for undecided in (lambda: n < 3, lambda: max(n, 3), lambda: n >= n):
        with pytest.raises(TypeError, match="'n' is known at run time only"):
            undecided()


@pytest.mark.parametrize("text", ["[n], n = 3", "[n, 4], [4, 1]", "[n", "[n], n = 4 to 3", "[n n], n = 0 to 3"])
def test_text_that_says_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="bounds|bracket|unexpected"):
        read_sizes(text)


def text_of(func: FuncOp) -> str:
    return print_module(ModuleOp([func.clone()]))


@pytest.mark.parametrize("name", FEW)
def test_text_is_the_function(name: str) -> None:
    """Text of a scheduled function gives the same function, which the verifier takes."""
    for one in tiled(name):
        func = one.func.clone()
        choose_schedules(func, cpu(here()[-1]))
        again = parsed_function(text_of(func))
        assert text_of(again) == text_of(func)
        assert problems(again, cpu(here()[-1]), one.shapes, one.arena_bytes) == []


def ids(func: FuncOp) -> set[str]:
    return {problem.id.id for problem in problems(func)}


@pytest.mark.parametrize(
    ("strides", "offset", "is_refused"),
    [((20, -5, 1), 15, False), ((20, -5, 1), 14, True), ((20, -5, 1), 16, True), ((20, 5, -1), 4, False)],
)
def test_views_that_go_backwards(strides: tuple[int, ...], offset: int, is_refused: bool) -> None:
    """From their first float, to which the last index of such a dim leads, to their last one all are in the memory."""
    n = number("t", 0, 9)
    base = Base(BufferOp(memref((n, 4, 5))).result, "%x", "buffer")
    assert (outside((n, 4, 5), strides, offset, base) is not None) == is_refused


def test_an_access_that_is_outside_for_some_sizes_is_refused() -> None:
    """One float further, and one row more of a view of everything."""
    n = number("t", 0, 130)
    moved = tiled("encoder")[0].func.clone()
    view = next(op for op in moved.walk() if isinstance(op, ViewOp) and op.source in moved.args)
    view.properties["start"] = SizesAttr.of([n])
    assert ids(moved) == {"E1166"}
    text = text_of(tiled("encoder")[0].func)
    assert "t = 0 to 130" in text
    higher = text.replace("t = 0 to 130", "t = 0 to 131", 1)
    assert "E1166" in ids(parsed_function(higher))
    assert ids(parsed_function(text.replace("t = 0 to 130", "t = 0 to 99"))) == set()


def test_a_size_that_no_input_tells_is_refused() -> None:
    """A product of two sizes tells neither of them."""
    vector = "memref<?xf32, #tile.sizes<[{0}], [1], {1}>>"
    told, wanted = vector.format("n * m", "m = 0 to 4, n = 0 to 4"), vector.format("n", "n = 0 to 4")
    text = f"""func.func @f(%x: {told}, %y: {wanted}) attributes {{native.outputs = 1 : i64}} {{
      tile.map %y() : {wanted}() {{
        %0 = arith.constant 0.0 : f32
        tile.yield %0 : f32
      }}
      func.return
    }}"""
    assert ids(parsed_function(text)) == {"E1174"}
    assert ids(parsed_function(text.replace("[n * m]", "[2 * n + 1]").replace("m = 0 to 4, ", ""))) == set()


def test_linked_code_has_bounds_in_its_contract() -> None:
    program = cases()["related"].compiled("native{cpus=cortex-m55 linked=true}")
    (blob,) = map(read_blob, blobs_of(program.buffer))
    assert blob.shapes[0] == (2, IS_BOUND | 20, 16)
    assert b"call->outputs == 0" in program.build_files["forward_native_0.c"]


def check(name: str, loaded: etir.runtime.Program, points: list[dict[str, int]]) -> None:
    sized = cases()[name]
    exact = copy.deepcopy(sized.module).double()
    torch.manual_seed(1)
    for values in points:
        given = sized.given(values)
        with torch.no_grad():
            wanted, real = (
                _listed(module(*x)) for module, x in ((sized.module, given), (exact, [x.double() for x in given]))
            )
        for got, want, true in zip(loaded.forward(*given), wanted, real, strict=True):
            assert got.shape == want.shape
            # Norms of rows that hardly differ make errors larger, those of eager as well.
            own = float((want - true).abs().max())
            assert (got - want).abs().max() <= max(1e-5 * float(want.abs().max()), 4 * own), (name, values)


def _listed(found: object) -> list[torch.Tensor]:
    return [*found] if isinstance(found, tuple) else [found]  # type: ignore[list-item]


@pytest.mark.parametrize(
    "name",
    [*FEW, *(pytest.param(name, marks=pytest.mark.nightly) for name in cases() if name not in FEW)],
)
def test_eager_at_every_size(name: str) -> None:
    """By code that is there for every operator of the delegate; and by the kernels, where code is refused."""
    program = cases()[name].compiled()
    assert program.delegation is not None
    assert all(read_blob(blob).variants for blob in blobs_of(program.buffer))
    points = cases()[name].points(random.Random(name))
    check(name, etir.runtime.load(program), points)
    check(name, etir.runtime.load(program, native="refuse"), points[:3])


def test_threads_give_the_same_bits() -> None:
    program = cases()["encoder"].compiled()
    loads = [etir.runtime.load(program, threads=threads) for threads in (1, 2, 3)]
    for values in ({"n": 4, "t": 130}, {"n": 1, "t": 97}, {"n": 3, "t": 2}):
        given = cases()["encoder"].given(values)
        first, *others = [loaded.forward(*given)[0] for loaded in loads]
        assert all(torch.equal(first, other) for other in others)


def test_sizes_outside_of_the_bounds_are_the_error_of_the_kernels() -> None:
    sized = cases()["related"]
    loads = [etir.runtime.load(sized.compiled()), etir.runtime.load(sized.compiled("reference"))]
    for shapes in ([(2, 21, 16), (2, 43, 16)], [(2, 3, 16), (2, 7, 16)], [(2, 5, 16), (2, 12, 16)]):
        said = []
        for loaded in loads:
            with pytest.raises(etir.runtime.RuntimeFailure) as failure:
                loaded.forward(*map(torch.randn, shapes))
            said.append(str(failure.value))
        assert said[0] == said[1] and "E1208" in said[0]


def test_code_refuses_sizes_that_are_not_related() -> None:
    """Nothing is computed where a dim is not what its expression says."""
    (one,) = tiled("related")
    code = Code(one.func.clone(), here()[-1], one.weights)
    numbers = np.random.default_rng(0)

    def given(*lengths: int) -> list[np.ndarray]:
        return [numbers.standard_normal((2, length, 16)).astype(np.float32) for length in lengths]

    assert len(code(given(5, 11))) == 2
    for lengths in ((5, 12), (21, 43), (3, 7)):
        with pytest.raises(AssertionError, match="does not take the sizes"):
            code(given(*lengths))


def test_blobs_say_bounds() -> None:
    blob = read_blob(*blobs_of(cases()["related"].compiled().buffer))
    assert blob.shapes[:2] == ((2, IS_BOUND | 20, 16), (2, IS_BOUND | 41, 16))
    data = write_blob(blob)
    assert data[4:8] == b"\3\0\0\0" and read_blob(data) == blob
    apart = replace(blob, workspace=0)
    assert write_blob(apart)[4:8] == b"\2\0\0\0" and read_blob(write_blob(apart)) == apart


@pytest.mark.parametrize(
    "name", ["related", *(pytest.param(n, marks=pytest.mark.nightly) for n in ("encoder", "picture"))]
)
def test_code_stays_in_its_memory(name: str) -> None:
    """With memory of exactly the sizes of a call, under sanitizers and between guard pages."""
    sized = cases()[name]
    (one,) = tiled(name)
    for values in ({key: high for key, (_, high) in sized.ranges.items()}, {"n": 1, "t": 17, "h": 5, "w": 9}):
        given = [x.numpy() for x in sized.given(values)]
        wanted = meaning(one.func, given, one.weights)
        for run in (sanitized, paged):
            for a, b in zip(run(one.func.clone(), here()[-1], given, one.weights), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in ("aarch64", "rv64gcv", "cortex-m55") if name in emulated()])
def test_other_processors(name: str) -> None:
    sized = cases()["related"]
    (one,) = functions_of(sized.exported(), name)
    given = [x.numpy() for x in sized.given({"t": 7})]
    for a, b in zip(Code(one.func, name, one.weights)(given), meaning(one.func, given, one.weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


class Reasons(torch.nn.Module):
    """The largest of a dim, and a product."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.amax(1), torch.relu(x @ y)


def test_reasons() -> None:
    length = torch.export.Dim("t", max=9)
    given = (torch.randn(4, 5), torch.randn(5, 3))
    exported = torch.export.export(Reasons(), given, dynamic_shapes=({1: length}, {0: length}))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert "the largest or smallest number of dims that may be empty" in str(program.report())


class _Kept(torch.nn.Module):
    """Gives out tensors from which sizes of later operators are read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 24), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = self.first(x.transpose(0, 1))
        parts = first.view(first.shape[0], first.shape[1] * 3, 8)
        return first, parts, self.last(torch.relu(parts)).reshape(first.shape[1], -1)


def test_sizes_of_what_is_given_out() -> None:
    """A size that a delegate reads of a tensor that is one of its results is read inside of it."""
    torch.manual_seed(0)
    model, x = _Kept().eval(), torch.randn(5, 7, 16)
    dims = {0: torch.export.Dim("rows", max=9), 1: torch.export.Dim("tokens", max=12)}
    program = etir.compile(
        torch.export.export(model, (x,), dynamic_shapes=(dims,)), target="etir", delegates=["native"]
    )
    assert len(blobs_of(program.buffer)) == 1
    loaded = etir.runtime.load(program)
    for given in (x, torch.randn(9, 12, 16), torch.randn(2, 3, 16)):
        with torch.no_grad():
            wanted = model(given)
        for got, want in zip(loaded.forward(given), wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want)
