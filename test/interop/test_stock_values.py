"""Values that kernels of the stock runtime get wrong, in programs that do not call them then, on both runtimes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import assert_same, eager, stock, trace  # noqa: E402


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return (self.function(*args),)


def agree(function: Callable[..., Any], *args: Any) -> None:
    model = Applied(function)
    program = torch.export.export(model, args)
    expected = eager(model, [args])
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    assert_same(trace(lambda flat: loaded.forward(*flat), [args]), expected, "etir", 0)
    assert_same(stock(etir.compile(program, target="executorch").buffer, [args]), expected, "stock", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_sign_of_nan(dtype: torch.dtype) -> None:
    """0, as in eager; the kernel gives NaN."""
    agree(torch.sign, torch.tensor([float("nan"), -0.0, float("-inf"), 3.0], dtype=dtype))


def test_sign_of_integers() -> None:
    agree(torch.sign, torch.tensor([-128, 0, 127], dtype=torch.int8))


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize(
    "other",
    [torch.tensor([1.0, 0.0, 2.0**24]), torch.tensor([1, 0, 2**24 + 1]), torch.tensor(1.0)],
    ids=["float", "long", "rank0"],
)
def test_comparisons_of_doubles_with_others(compare: Callable[..., Any], other: Any) -> None:
    """In float64: the kernels compare as float."""
    doubles = torch.tensor([1 + 1e-12, 2.5e-308, 2.0**24 + 1], dtype=torch.float64)
    agree(compare, doubles, other)
    agree(compare, other, doubles)


@pytest.mark.parametrize(
    ("name", "shape", "dims"),
    [
        ("sum", (200_000,), None),
        ("mean", (200_000,), None),
        ("sum", (2, 100_003, 1), (1,)),  # a prime number
        ("mean", (70, 80, 90), (-1, 0)),
        ("sum", (70, 80, 90), (-1, 0, 1)),
    ],
)
def test_many_floats_are_added_in_parts(name: str, shape: tuple[int, ...], dims: tuple[int, ...] | None) -> None:
    """3e-3 of the result for 200,000 equal ones where the kernel adds one after the other."""
    x = torch.full(shape, 1 / 3)
    reduce = getattr(torch, name)
    whole = Applied(lambda x: reduce(x) if dims is None else (reduce(x, dims), reduce(x, dims, keepdim=True)))
    program = torch.export.export(whole, (x,))
    expected = trace(lambda flat: [v.float() for v in torch.utils._pytree.tree_leaves(whole(flat[0].double()))], [(x,)])
    assert_same(stock(etir.compile(program, target="executorch").buffer, [(x,)]), expected, "stock", 2e-6)


F64 = torch.float64
WIDE = torch.tensor([[2**53 + 1, -(2**53) - 3, 2**24 + 1], [5, -7, -(2**62)]])


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(0,), (-1,), (0, 1)])
def test_sums_of_wide_types(dims: tuple[int, ...], keepdim: bool) -> None:
    """Exact, where the kernel adds in float32."""
    agree(lambda x: x.sum(dims, keepdim), torch.tensor([[1 + 2.0**-40, 1e30, 3], [2.0**40, 1, 3]], dtype=F64))
    agree(lambda x: x.sum(dims, keepdim), WIDE)
    agree(lambda x: x.sum(dims, keepdim), WIDE.int())


def test_sums_of_nothing_and_of_single_numbers() -> None:
    agree(lambda x: x.sum(1), torch.zeros(3, 0, dtype=torch.int64))
    agree(lambda x: x.sum(1), torch.zeros(0, 3, dtype=torch.int64))
    agree(torch.sum, torch.tensor(2**53 + 1))
    agree(torch.sum, torch.tensor(1 + 2.0**-40, dtype=F64))


def test_sum_of_dynamic_sizes() -> None:
    rows, columns = torch.export.Dim("rows", max=9), torch.export.Dim("columns", max=9)
    model = Applied(lambda x: x.sum((0, 2)))
    example = torch.full((3, 2, 4), 2**24 + 1)
    program = torch.export.export(model, (example,), dynamic_shapes=(({0: rows, 2: columns},),))
    calls = [(torch.full((n, 2, m), 2**24 + 1),) for n, m in ((3, 4), (9, 9), (2, 3))]
    assert_same(stock(etir.compile(program, target="executorch").buffer, calls), eager(model, calls), "stock", 0)


def test_running_sums_of_16_bits() -> None:
    """In float32: the kernel rounds every sum, and stays at 256."""
    agree(lambda x: x.cumsum(0)[-1], torch.ones(700, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_division_of_integers(dtype: torch.dtype) -> None:
    """Remainders have torch's signs, and no quotient is computed in floating point."""
    large = torch.iinfo(dtype).max
    x = torch.tensor([-7, 7, -large, large, 3, -large - 1], dtype=dtype)
    y = torch.tensor([2, -2, 3, -3, 5, 7], dtype=dtype)
    for function in (torch.remainder, torch.fmod, torch.floor_divide):
        agree(function, x, y)
        agree(lambda t, f=function: f(t, -5), x)
    for mode in ("trunc", "floor"):
        agree(lambda t, u, m=mode: torch.div(t, u, rounding_mode=m), x, y)
        agree(lambda t, m=mode: torch.div(t, 3, rounding_mode=m), x)


def test_rounding_of_integers() -> None:
    agree(lambda x: x.ceil() + x.floor() * 2, torch.tensor([2**53 + 1, -(2**24) - 1]))


BINARY = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "lt": torch.lt,
    "ge": torch.ge,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "clamp": lambda x, y: torch.clamp(x, y, y),
}


@pytest.mark.parametrize("function", BINARY.values(), ids=BINARY)
def test_tensors_of_rank_0_and_a_wider_type(function: Callable[..., Any]) -> None:
    """They are computed in the type of the other operand, to which torch converts them."""
    agree(function, torch.tensor([1, -3, 100], dtype=torch.int8), torch.tensor(300))
    agree(function, torch.tensor([1.0, 3.0, 1e30]), torch.tensor(1.0 + 2.0**-40, dtype=F64))


def test_integers_beyond_16_bits() -> None:
    """They become infinite before they are multiplied."""
    half = torch.tensor([0.0, 1.0, -1000.0], dtype=torch.float16)
    agree(torch.mul, half, torch.tensor([70000, 70000, 3]))
    agree(torch.lt, torch.tensor([2048.0, 3.0], dtype=torch.float16), torch.tensor([2049, 3]))


def test_extrema_of_empty_tensors() -> None:
    """Results without elements; the kernel ends the process."""
    agree(lambda x: x.amax(1), torch.zeros(0, 3))
    agree(lambda x: x.amin(1, keepdim=True), torch.zeros(0, 3))


@pytest.mark.parametrize("dim", [0, -1])
def test_sums_of_rank_0_along_a_dim(dim: int) -> None:
    """The number itself; the kernel ends the process."""
    agree(lambda x: x.sum(dim), torch.tensor(2.5))
    agree(lambda x: x.sum(dim), torch.tensor(2.5, dtype=torch.float16))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5])
def test_powers_of_integers(exponent: int) -> None:
    """They wrap around, and have all their bits."""
    agree(lambda x: x**exponent, torch.tensor([100000, -3, 2**31 - 1], dtype=torch.int32))
    agree(lambda x: x**exponent, torch.tensor([100, -3], dtype=torch.int8))


def test_mean_of_one_element() -> None:
    agree(lambda x: torch.var_mean(x, correction=0)[1], torch.tensor([3.0]))
    agree(lambda x: torch.var_mean(x)[1], torch.tensor(3.0))


@pytest.mark.parametrize(("float_type", "integers"), [(torch.float32, torch.int32), (F64, torch.int64)])
def test_concatenations_of_types_of_one_size(float_type: torch.dtype, integers: torch.dtype) -> None:
    """The kernel copies their bytes as they are."""
    agree(lambda x, y: torch.cat([x, y]), torch.ones(2, dtype=float_type), torch.tensor([3, -4], dtype=integers))


BYTES, INTS = torch.tensor([[3, 250, 0], [7, 1, 255]], dtype=torch.uint8), torch.tensor([5, -7, 0, 2**31 - 1]).int()
WRAPPED: dict[str, tuple[Callable[..., Any], Any]] = {
    "clamp": (lambda x: x.clamp(-3, 5), BYTES),
    "clamp from below": (lambda x: x.clamp(min=-3), BYTES),
    "clamp from above": (lambda x: x.clamp_max(-250), BYTES),
    "sub with a factor": (lambda x: torch.sub(x, 2, alpha=-3), BYTES),
    "add": (lambda x: (x + -3) * -5 - 1, BYTES),
    "fmod": (lambda x: torch.fmod(x, -3), BYTES),
    "remainder": (lambda x: torch.remainder(x, -3), BYTES),
    "floor_divide": (lambda x: x // -3, BYTES),
    "bits": (lambda x: (x & -2) ^ -128, BYTES),
    **{
        f"{compare.__name__} {number}": (lambda x, compare=compare, number=number: compare(x, number), INTS)
        for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
        for number in (2**31, 2**32 + 5, -(2**40) - 7)
    },
    "product": (lambda x: x * (2**33 + 3), INTS),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_numbers_wrap_around_beside_integers(name: str) -> None:
    function, x = WRAPPED[name]
    agree(function, x)


def test_state_without_elements() -> None:
    """Nothing is copied, also of types that the kernel does not take."""

    class Empty(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("none", torch.zeros(0, dtype=torch.complex64))

        def forward(self, x: Any) -> Any:
            self.none.add_(1)
            return x + 1, self.none

    inputs = (torch.ones(2),)
    program = torch.export.export(Empty(), inputs)
    expected = eager(Empty(), [inputs] * 2)
    for target in ("etir", "executorch"):
        data = etir.compile(program, target=target).buffer
        forward = etir.runtime.load(data).forward
        found = trace(lambda flat, forward=forward: forward(*flat), [inputs] * 2)
        assert_same(found, expected, target, 0)
    assert_same(stock(data, [inputs] * 2), expected, "stock", 0)


INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_count(dtype: torch.dtype) -> None:
    """By tensors and numbers: torch gives 0, or the sign in every bit, beyond the width and below 0."""
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.max, 1, 3, 0], dtype=dtype).unsqueeze(1)
    counts = torch.tensor([0, 1, info.bits - 2, info.bits - 1, info.bits, info.bits + 9, 100], dtype=dtype)
    if dtype != torch.uint8:
        counts = torch.cat([counts, torch.tensor([-1, -info.bits, -100], dtype=dtype)])
    agree(lambda x, n: (x << n) ^ (x >> n), x, counts)
    agree(lambda x: torch.cat([f(x, n) for n in (-1, 0, info.bits - 1, info.bits) for f in SHIFTS]), x)


SHIFTS = (torch.bitwise_left_shift, torch.bitwise_right_shift)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_by_integers(dtype: torch.dtype) -> None:
    """They wrap around; negative exponents are what the quotient rounds to."""
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.max, -1 if info.min else 9, 0, 1, 2, 3, 7], dtype=dtype).unsqueeze(1)
    exponents = torch.tensor([0, 1, 2, 3, 5, 31, 40, 127, info.max], dtype=dtype)
    if info.min:
        exponents = torch.cat([exponents, torch.tensor([-1, -2, info.min], dtype=dtype)])
    agree(torch.pow, x, exponents)
    agree(lambda n: torch.pow(3, n), exponents)
    agree(lambda x: torch.pow(x, torch.tensor([2, 5], dtype=x.dtype)), x)


NORMS: dict[str, Callable[[Any], Any]] = {
    "layer": lambda x: torch.nn.functional.layer_norm(x, (6,)),
    "layer, two dims": lambda x: torch.native_layer_norm(x, (4, 6), None, None, 1e-5)[0],
    "group": lambda x: torch.nn.functional.group_norm(x, 2, torch.arange(4.0).to(x.dtype)),
    "instance": lambda x: torch.nn.functional.instance_norm(x),
    "batch": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_a_large_mean(name: str) -> None:
    """The kernels' variance is a difference of squares: NaN, or three times too large. Eager is 2e-3 from float64."""
    x = 1e4 + torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    x[0] -= 2e4
    batch, channels = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("channels", min=2, max=9)
    dims = {0: batch} if name in ("group", "layer, two dims") else {0: batch, 1: channels}
    exact = NORMS[name](x.double())
    for shapes in (None, ((dims,),)):
        program = torch.export.export(Applied(NORMS[name]), (x,), dynamic_shapes=shapes)
        (results,) = stock(etir.compile(program, target="executorch").buffer, [(x,)]).outputs
        torch.testing.assert_close(results[0].double(), exact, rtol=1e-4, atol=2e-5)


def test_long_rows_are_left_to_the_kernel() -> None:
    """It sums rows of 256 elements and more in pieces, with their own means."""
    x = 1e4 + torch.randn(3, 256, generator=torch.Generator().manual_seed(0))
    for length, kernels in ((255, {"mean", "add", "native_layer_norm"}), (256, {"native_layer_norm"})):
        program = torch.export.export(
            Applied(lambda x: torch.nn.functional.layer_norm(x, x.shape[1:])), (x[:, :length],)
        )
        file = etir.compile(program, target="executorch")
        assert {name.split("::")[1].split(".")[0] for name in file.report().methods[0].operators} == kernels
        (results,) = stock(file.buffer, [(x[:, :length],)]).outputs
        exact = torch.nn.functional.layer_norm(x[:, :length].double(), (length,))
        torch.testing.assert_close(results[0].double(), exact, rtol=0, atol=5e-3)


def test_statistics_of_norms_of_a_large_mean() -> None:
    """The mean that the operators give is that of the input itself."""
    x = 1e4 + torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    for function in (
        lambda x: torch.native_layer_norm(x, (6,), None, None, 1e-5)[1],
        lambda x: torch.native_group_norm(x, None, None, 3, 4, 6, 2, 1e-5)[1],
        lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[1],
    ):
        program = torch.export.export(Applied(function), (x,))
        (results,) = stock(etir.compile(program, target="executorch").buffer, [(x,)]).outputs
        torch.testing.assert_close(results[0], function(x), rtol=1e-6, atol=0)


@pytest.mark.parametrize("slope", [float("inf"), -float("inf"), 0.5])
def test_leaky_relu_of_any_slope(slope: float) -> None:
    agree(lambda x: torch.nn.functional.leaky_relu(x, slope), torch.tensor([-2.0, -0.0, 0.0, 3.0, float("nan")]))
