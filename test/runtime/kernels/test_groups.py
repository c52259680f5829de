"""Weights in groups: products and lookups against NumPy, to the bit where sums are integers, and against float64."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from etir.emit.runtime_memory import evaluate, kernel_temp_rules
from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.groups import packed_groups

from etir_testing import ROOT
from etir_testing.runtime.integer_variants import VARIANTS, integer_kernels
from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kernels(variant: str) -> Kernels:
    return integer_kernels(variant)


def tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(np.ascontiguousarray(value))


class Layer:
    """A weight at random, packed, and what it stands for in float64."""

    def __init__(self, bits: int, rows: int, depth: int, groups: int, *, low: bool, dtype: Any, hostile: bool = False):
        self.random = np.random.default_rng(bits + rows + depth + groups)
        most = (1 << bits) - 1
        numbers = self.random.integers(0, most + 1, (rows, depth)).astype(np.uint8)
        if hostile:
            numbers = self.random.choice(np.array([0, most], np.uint8), (rows, depth))
        scales = (self.random.random((rows, groups)) * 0.01 + 0.001).astype(dtype)
        lows = (self.random.standard_normal((rows, groups)) * 0.05).astype(dtype) if low else None
        packed = packed_groups(numbers, scales, lows, bits)
        self.arguments = [packed.weight, packed.scales, packed.minimums]
        self.bits, self.group = bits, depth // groups
        self.largest_scale = np.abs(scales.astype(np.float64)).max(1, initial=0)
        wide = np.repeat(scales.astype(np.float64), depth // groups, 1)
        zero = 0 if low else 1 << (bits - 1)
        self.matrix = (numbers.astype(np.float64) - zero) * wide
        if lows is not None:
            self.matrix += np.repeat(lows.astype(np.float64), depth // groups, 1)
        self.sums = self.matrix.sum(1).astype(np.float32)

    def rows(self, count: int, depth: int) -> np.ndarray:
        """Rows of float32 with zero points of their own."""
        x = self.random.standard_normal((count, depth)) + self.random.standard_normal((count, 1))
        return x.astype(np.float32)


def is_fixed(variant: str, layer: Layer, rows: int, form: str) -> bool:
    """Whether weights become fixed-point numbers (group_fixed_amx.h)."""
    return variant == "amx" and layer.bits == 4 and form == "rows" and rows >= 64 and layer.group <= 64


def assert_products(
    variant: str, layer: Layer, x: np.ndarray, form: str, found: np.ndarray, wanted: np.ndarray
) -> None:
    """The oracle's bits; with fixed-point weights, what their units leave, and a hundredth of what 8 bits do."""
    if not is_fixed(variant, layer, len(x), form):
        np.testing.assert_array_equal(found, wanted)
        return
    unit = np.maximum(np.abs(layer.matrix).max(1), 8 * layer.largest_scale) / 32760
    sizes = (np.abs(x.astype(np.float64)) + np.ptp(x, axis=1, keepdims=True) / 255).sum(1)
    largest = np.abs(wanted).max(initial=0)
    assert np.all(np.abs(found - wanted) <= 1.5 * np.outer(sizes, unit) + 1e-6 * largest)
    assert np.sqrt(np.mean((found - wanted) ** 2)) <= 4e-5 * np.sqrt(np.mean(wanted**2))


def call(kernels: Kernels, name: str, arguments: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's result and the oracle's."""
    wanted = lookup(f"etir.{name}.default")(*arguments)
    (found,) = kernels.call(f"etir::{name}.out", [tensor(v) for v in arguments], [tensor(np.zeros_like(wanted))])
    # A client gives the temporary memory that the manifest says, whatever instructions the processor has.
    assert kernels.temp_used <= declared_temp(f"etir::{name}.out", arguments)
    return found.numpy(), wanted


@cache
def temp_rules() -> dict[str, Any]:
    return dict(kernel_temp_rules())


def declared_temp(name: str, arguments: list[Any]) -> int:
    """The bytes of temporary memory that a kernel's row in the manifest asks for."""
    if name not in temp_rules():
        return 0
    names, expression = temp_rules()[name]
    values = {
        n: SimpleNamespace(numel=a.size, size=lambda dim, shape=a.shape: shape[dim]) if isinstance(a, np.ndarray) else a
        for n, a in zip(names, arguments, strict=False)
    }
    return evaluate(expression, values)


SHAPES = [
    (1, 64, 16, 2), (1, 576, 40, 18), (1, 192, 100, 3), (1, 40, 37, 1), (1, 640, 150, 5), (1, 96, 129, 3),
    (3, 96, 33, 3), (8, 64, 5, 1), (15, 40, 17, 1), (17, 2112, 19, 33),
    (70, 128, 50, 1), (131, 160, 16, 5), (2, 5, 1, 1), (0, 32, 4, 1), (4, 32, 0, 1), (9, 256, 3, 2),
    (64, 64, 16, 1), (65, 576, 40, 18), (97, 1344, 17, 21), (79, 1312, 33, 41), (80, 640, 100, 10), (300, 96, 7, 3),
    (24, 2304, 20, 1), (30, 2080, 17, 1), (150, 4096, 33, 2), (16, 1056, 16, 33), (37, 1536, 18, 8),
]  # fmt: skip
"""Rows, depth, columns, groups."""


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["rows", "groups"])
def test_dynamic(variant: str, kernels: Kernels, bits: int, shape: tuple[int, int, int, int], form: str) -> None:
    rows, depth, columns, groups = shape
    for low, dtype in ((False, np.float16), (True, np.float32), (True, np.float16)):
        layer = Layer(bits, columns, depth, groups, low=low, dtype=dtype, hostile=rows % 2 == 0)
        x = layer.rows(rows, depth)
        sums = layer.sums if form == "rows" else None
        bias = layer.random.standard_normal(columns).astype(np.float32) if low else None
        found, wanted = call(kernels, f"int{bits}_group_dynamic_linear", [x, *layer.arguments, sums, bias, columns])
        assert_products(variant, layer, x, form, found, wanted)
        if x.size and columns:
            # The loss is that of the input's 8 bits: less than one step for each number of the depth.
            real = x.astype(np.float64) @ layer.matrix.T + (0 if bias is None else bias)
            step = np.ptp(np.append(x, 0)) / 255
            bound = step * np.sqrt(depth) * 4 * np.abs(layer.matrix).max() + 1e-4
            np.testing.assert_allclose(found, real, rtol=1e-3, atol=bound)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e30, 1e-30])
@pytest.mark.parametrize("panel", [0, 1, 3])
def test_many_rows_of_weights_that_have_no_fixed_point(kernels: Kernels, value: float, panel: int) -> None:
    """Of a panel whose weights are not finite, too large or too small the oracle's bits; no other panel is changed."""
    layer = Layer(4, 50, 96, 3, low=True, dtype=np.float32)
    x = layer.rows(70, 96)
    weight, scales, minimums = layer.arguments
    own = slice(16 * panel, 16 * panel + 16)
    name, more = "int4_group_dynamic_linear", [layer.sums, None, 50]
    expected, _ = call(kernels, name, [x, weight, scales, minimums, *more])
    gates = [[tensor(a), tensor(a)] for a in (weight, scales, minimums, layer.sums)]
    gated_name, like = "etir::int4_group_dynamic_linear_gated.out", [torch.zeros(70, 50)]
    (gated,) = kernels.call(gated_name, [tensor(x), *gates, 50, "silu"], like)
    for chosen in ((0, 1),) if value == 1e-30 else ((0,), (1,)):
        factors = [scales.copy(), minimums.copy()]
        for i in chosen:
            factors[i].reshape(-1, 3, 16)[panel] = value
        found, wanted = call(kernels, name, [x, weight, *factors, *more])
        np.testing.assert_array_equal(found[:, own], wanted[:, own])
        np.testing.assert_array_equal(np.delete(found, own, 1), np.delete(expected, own, 1))
        for spoiled in (0, 1):
            for i in (0, 1):
                gates[1 + i][spoiled] = tensor(factors[i])
            (other,) = kernels.call(gated_name, [tensor(x), *gates, 50, "silu"], like)
            for i in (0, 1):
                gates[1 + i][spoiled] = tensor((scales, minimums)[i])
            np.testing.assert_array_equal(np.delete(other.numpy(), own, 1), np.delete(gated.numpy(), own, 1))


@pytest.mark.parametrize("low", [False, True])
def test_many_rows_of_weights_of_all_sizes(variant: str, kernels: Kernels, low: bool) -> None:
    """Scales of both signs, columns of zeros, groups that are a millionth of their column's others."""
    layer = Layer(4, 48, 128, 4, low=low, dtype=np.float32)
    x = layer.rows(70, 128)
    weight, scales, minimums = layer.arguments
    scales[:, 0] *= -1
    scales[0, :, 3] = 0
    scales[1, 1:] *= np.float32(1e-6)
    if minimums is not None:
        minimums[0, :, 3] = 0
        minimums[1] *= np.float32(1e-3)
    rows = np.arange(48)
    layer.matrix = lookup("etir.int4_group_embedding.default")(weight, scales, minimums, rows, 48, 128).astype(float)
    sums = layer.matrix.sum(1).astype(np.float32)
    found, wanted = call(kernels, "int4_group_dynamic_linear", [x, weight, scales, minimums, sums, None, 48])
    assert_products(variant, layer, x, "rows", found, wanted)
    assert np.all(found[:, 0] != 0)


@pytest.mark.parametrize("rows", [1, 17, 30])
def test_the_largest_sums_of_a_group(kernels: Kernels, rows: int) -> None:
    """A row of one group, as long as there are, whose products all have one sign: no sum of 32 bits wraps."""
    depth = 65536
    for number, value in ((15, 1.0), (15, -1.0), (0, 1.0)):
        packed = packed_groups(
            np.full((20, depth), number, np.uint8), np.ones((20, 1), np.float32), np.zeros((20, 1), np.float32), 4
        )
        arguments = [packed.weight, packed.scales, packed.minimums, np.zeros(20, np.float32), None, 20]
        x = np.full((rows, depth), value, np.float32)
        found, wanted = call(kernels, "int4_group_dynamic_linear", [x, *arguments])
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 5])
def test_scales_of_bfloat16(kernels: Kernels, bits: int, rows: int) -> None:
    """They give what the same scales give as float32."""
    layer = Layer(bits, 40, 96, 3, low=True, dtype=np.float32)
    x = layer.rows(rows, 96)
    weight, *factors = map(tensor, layer.arguments)
    short = [f.to(torch.bfloat16) for f in factors]
    for name, more in (("dynamic_linear", [tensor(layer.sums), None, 40]), ("linear", [None, 40])):
        found = [
            kernels.call(
                f"etir::int{bits}_group_{name}.out", [tensor(x), weight, *given, *more], [torch.zeros(rows, 40)]
            )
            for given in (short, [f.float() for f in short])
        ]
        np.testing.assert_array_equal(found[0][0].numpy(), found[1][0].numpy())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("low", [False, True])
def test_float(kernels: Kernels, bits: int, shape: tuple[int, int, int, int], low: bool) -> None:
    rows, depth, columns, groups = shape
    layer = Layer(bits, columns, depth, groups, low=low, dtype=np.float16)
    x = layer.rows(rows, depth)
    bias = layer.random.standard_normal(columns).astype(np.float32) if rows % 2 else None
    found, _ = call(kernels, f"int{bits}_group_linear", [x, *layer.arguments, bias, columns])
    real = x.astype(np.float64) @ layer.matrix.T + (0 if bias is None else bias)
    np.testing.assert_allclose(found, real, rtol=1e-5, atol=1e-5 * (1 + np.abs(real).max(initial=0)))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("depth", "groups"), [(96, 3), (40, 1), (4160, 65), (2304, 9), (640, 2)])
@pytest.mark.parametrize("low", [False, True])
def test_one_row_of_float(kernels: Kernels, bits: int, depth: int, groups: int, low: bool) -> None:
    """Whatever its size: with AVX2 one row becomes integers, and where its numbers cannot, it does not."""
    layer = Layer(bits, 50, depth, groups, low=low, dtype=np.float32)
    for size in (1.0, 1e-20, 1e-31, 1e-36, 1e25, 1e26):
        x = layer.rows(1, depth) * np.float32(size)
        # One number that may dwarf the others.
        for largest in (1, 1e4, 1e9):
            x[0, depth // 2] = size * largest
            real = x.astype(np.float64) @ layer.matrix.T
            found, _ = call(kernels, f"int{bits}_group_linear", [x, *layer.arguments, None, 50])
            # Each number of a group is as exact as its largest.
            most = np.abs(x.astype(np.float64)).reshape(groups, -1).max(1).repeat(depth // groups)
            assert np.all(np.abs(found - real) <= 1e-7 * np.sqrt(depth) * (most @ np.abs(layer.matrix).T))
    zero = np.zeros((1, depth), np.float32)
    bias = np.arange(50, dtype=np.float32)
    found, _ = call(kernels, f"int{bits}_group_linear", [zero, *layer.arguments, bias, 50])
    np.testing.assert_array_equal(found[0], bias)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_row_of_float_that_is_not_finite(kernels: Kernels, bits: int, value: float) -> None:
    layer = Layer(bits, 20, 96, 3, low=False, dtype=np.float16)
    x = layer.rows(1, 96)
    x[0, 40] = value
    (found,) = kernels.call(
        f"etir::int{bits}_group_linear.out",
        [tensor(v) for v in (x, *layer.arguments, None, 20)],
        [torch.zeros(1, 20)],
    )
    assert not np.isfinite(found.numpy()).any()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "depth", "groups"), [(50, 64, 2), (17, 40, 1), (3, 6, 1)])
@pytest.mark.parametrize("low", [False, True])
def test_embedding(kernels: Kernels, bits: int, rows: int, depth: int, groups: int, low: bool) -> None:
    """A row of the table is the dequantized row, to the bit."""
    layer = Layer(bits, rows, depth, groups, low=low, dtype=np.float16)
    for dtype in (np.int64, np.int32):
        indices = layer.random.integers(0, rows, (2, 3)).astype(dtype)
        found, wanted = call(kernels, f"int{bits}_group_embedding", [*layer.arguments, indices, rows, depth])
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(found, layer.matrix[indices], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", ["rows", "groups"])
def test_rows_that_are_not_finite(kernels: Kernels, value: float, form: str) -> None:
    """Their results are NaN; those of other rows are what they are without them."""
    layer = Layer(4, 20, 96, 3, low=False, dtype=np.float16)
    x = layer.rows(11, 96)
    sums = layer.sums if form == "rows" else None
    arguments = [*layer.arguments, sums, None, 20]
    _, wanted = call(kernels, "int4_group_dynamic_linear", [x, *arguments])
    x[::2, 50] = value
    wanted = wanted.copy()
    wanted[::2] = np.nan
    (found,) = kernels.call(
        "etir::int4_group_dynamic_linear.out", [tensor(v) for v in (x, *arguments)], [torch.zeros(11, 20)]
    )
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_the_ends(kernels: Kernels) -> None:
    """Numbers of the input at -128 and 127, weights at 0 and 15: the largest sums of 16 bits."""
    for ends in ([-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]):
        x = np.tile(np.array(ends, np.float32), (5, 160))
        for low in (False, True):
            layer = Layer(4, 16, 320, 5, low=low, dtype=np.float32, hostile=True)
            for sums in (layer.sums, None):
                found, wanted = call(kernels, "int4_group_dynamic_linear", [x, *layer.arguments, sums, None, 16])
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("depth", "columns", "groups"), [(576, 150, 18), (40, 50, 1), (4160, 70, 65), (640, 33, 5)])
@pytest.mark.parametrize("low", [False, True])
def test_one_row_of_float_in_both_variants(bits: int, depth: int, columns: int, groups: int, low: bool) -> None:
    """With AVX2 and with VNNI it is the same integers, and gives the same bits."""
    variants = [integer_kernels(name) for name in ("avx2", "vnni")]
    for dtype in (np.float16, np.float32):
        layer = Layer(bits, columns, depth, groups, low=low, dtype=dtype, hostile=True)
        x = layer.rows(1, depth)
        # Numbers of a group whose upper and lower parts are the largest.
        x[0, : depth // 2] = np.where(x[0, : depth // 2] > 0, 1, -1) * np.float32(1 - 2**-20)
        found = [call(k, f"int{bits}_group_linear", [x, *layer.arguments, None, columns])[0] for k in variants]
        np.testing.assert_array_equal(*found)


def test_refused(kernels: Kernels) -> None:
    layer = Layer(4, 20, 64, 2, low=False, dtype=np.float16)
    weight, scales, _ = map(tensor, layer.arguments)
    x, sums, out = torch.zeros(3, 64), torch.zeros(20), torch.zeros(3, 20)
    for arguments, check in (
        ([x, weight.to(torch.int8), scales, None, sums, None, 20], "KernelDtype"),
        ([x, weight, scales.double(), None, sums, None, 20], "KernelDtype"),
        ([x.half(), weight, scales, None, sums, None, 20], "KernelDtype"),
        ([x, weight[0], scales, None, sums, None, 20], "KernelRank"),
        ([x, weight, scales[0], None, sums, None, 20], "KernelRank"),
        ([torch.tensor(1.0), weight, scales, None, sums, None, 20], "KernelRank"),
        ([x, weight, scales, None, sums, None, 33], "KernelShape"),
        ([x[:, :60].contiguous(), weight, scales, None, sums, None, 20], "KernelShape"),
        ([x, weight, scales[:, :0], None, sums, None, 20], "KernelShape"),
        ([x, weight, scales, scales[:, :1].contiguous(), sums, None, 20], "KernelShape"),
        ([x, weight, scales, None, sums[:3], None, 20], "KernelShape"),
        ([x, weight, scales, None, sums, None, -1], "KernelArgument"),
    ):
        with pytest.raises(KernelFailure) as failure:
            kernels.call("etir::int4_group_dynamic_linear.out", arguments, [out])
        assert failure.value.check == check, arguments
    for index in (-1, 20):
        with pytest.raises(KernelFailure) as failure:
            kernels.call(
                "etir::int4_group_embedding.out", [weight, scales, None, torch.tensor([index]), 20, 64], [out[:1]]
            )
        assert failure.value.check == "KernelIndex"


@pytest.mark.parametrize(("processor", "variant"), [("max", "3"), ("cortex-a53", "4")])
def test_arm(tmp_path: Path, processor: str, variant: str) -> None:
    """The dot product of newer Arm processors and NEON of older ones give the portable code's bits."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("no compiler or no emulator for aarch64")
    runtime, program = ROOT / "runtime", tmp_path / "check"
    sources = [Path(__file__).with_name("group_tile_check.cc"), runtime / "kernels" / "kernel.cc"]
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-static", f"-I{runtime}"]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", str(program)], check=True)
    done = subprocess.run([emulator, "-cpu", processor, str(program)], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [variant, "0"]


@pytest.mark.parametrize("shape", [(1, 64, 2), (1, 576, 18), (5, 96, 3), (70, 128, 4), (0, 32, 1), (2, 40, 1)])
@pytest.mark.parametrize("form", ["rows", "groups"])
@pytest.mark.parametrize("low", [False, True])
def test_layers_of_one_input(variant: str, kernels: Kernels, shape: tuple[int, int, int], form: str, low: bool) -> None:
    """Two and three at once have the bits of each alone, however their panels are shared out."""
    rows, depth, groups = shape
    columns = (40, 16, 150)
    layers = [Layer(4, n, depth, groups, low=low, dtype=np.float16) for n in columns]
    x = layers[0].rows(rows, depth)
    for count, name in ((2, "pair"), (3, "triple")):
        chosen = layers[:count]
        weights, scales, minimums = (
            [tensor(layer.arguments[i]) for layer in chosen if layer.arguments[i] is not None] for i in range(3)
        )
        sums = [tensor(layer.sums) for layer in chosen] if form == "rows" else []
        like = [torch.zeros(rows, n) for n in columns[:count]]
        arguments = [tensor(x), weights, scales, minimums, sums, list(columns[:count])]
        found = kernels.call(f"etir::int4_group_dynamic_linear_{name}.out", arguments, like)
        oracle = lookup(f"etir.int4_group_dynamic_linear_{name}.default")
        wanted = oracle(x, *([one.numpy() for one in many] for many in arguments[1:5]), arguments[5])
        for layer, n, result, other in zip(chosen, columns, found, wanted, strict=False):
            of_rows = layer.sums if form == "rows" else None
            alone, _ = call(kernels, "int4_group_dynamic_linear", [x, *layer.arguments, of_rows, None, n])
            np.testing.assert_array_equal(result.numpy(), alone)
            assert_products(variant, layer, x, form, result.numpy(), other)


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize(
    "shape", [(1, 64, 2, 40), (5, 96, 3, 37), (70, 128, 4, 40), (300, 96, 3, 19), (20, 128, 1, 16), (0, 32, 1, 5)]
)
@pytest.mark.parametrize(("form", "low"), [("rows", False), ("rows", True), ("groups", True)])
def test_a_layer_that_gates_another(
    variant: str, kernels: Kernels, activation: str, shape: tuple[int, int, int, int], form: str, low: bool
) -> None:
    """The bits of both layers, of the activation and of the product."""
    rows, depth, groups, columns = shape
    layers = [Layer(4, columns, depth, groups, low=low, dtype=np.float16) for _ in range(2)]
    layers[1].arguments[0] = layers[1].arguments[0][:, ::-1].copy()
    x = layers[0].rows(rows, depth)
    lists = [[layer.arguments[i] for layer in layers if layer.arguments[i] is not None] for i in range(3)]
    sums = [layer.sums for layer in layers] if form == "rows" else []
    arguments = [x, *lists, sums]
    like = torch.zeros(rows, columns)
    given = [tensor(x), *([tensor(one) for one in many] for many in arguments[1:])]
    pair = kernels.call("etir::int4_group_dynamic_linear_pair.out", [*given, [columns] * 2], [like, like])
    function, more = ("silu", []) if activation == "silu" else ("gelu", ["tanh" if "tanh" in activation else "none"])
    others = build_kernels("elementwise") if variant == "portable" else kernels
    (active,) = others.call(f"aten::{function}.out", [pair[0], *more], [like])
    name = "etir::int4_group_dynamic_linear_gated.out"
    (found,) = kernels.call(name, [*given, columns, activation], [like])
    assert kernels.temp_used <= declared_temp(name, [*arguments, columns, activation])
    np.testing.assert_array_equal(found.numpy(), (active * pair[1]).numpy())
    wanted = lookup("etir.int4_group_dynamic_linear_gated.default")(*arguments, columns, activation)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max(initial=0))


def test_a_gate_refuses(kernels: Kernels) -> None:
    layer = Layer(4, 16, 64, 2, low=False, dtype=np.float16)
    weights, scales = ([tensor(layer.arguments[i])] * 2 for i in range(2))
    sums = [tensor(layer.sums)] * 2
    x, like = torch.zeros(3, 64), [torch.zeros(3, 16)]
    for bad in (
        [x, weights, scales, [], sums, 16, "relu"],
        [x, weights, scales, [], sums, 17, "silu"],
        [x, weights[:1], scales, [], sums, 16, "silu"],
        [x, weights, scales, scales[:1], sums, 16, "silu"],
        [x, [*weights, weights[0]], [*scales, scales[0]], [], [], 16, "silu"],
    ):
        with pytest.raises(KernelFailure):
            kernels.call("etir::int4_group_dynamic_linear_gated.out", bad, like)


def test_layers_of_one_input_refuse(kernels: Kernels) -> None:
    """Lists of other lengths, and layers of other groups."""
    a, b = Layer(4, 16, 64, 2, low=False, dtype=np.float16), Layer(4, 16, 64, 1, low=False, dtype=np.float16)
    x, like = torch.zeros(1, 64), [torch.zeros(1, 16)] * 2
    weights, scales = ([tensor(layer.arguments[i]) for layer in (a, a)] for i in range(2))
    sums = [tensor(a.sums)] * 2
    name = "etir::int4_group_dynamic_linear_pair.out"
    for bad in (
        [x, weights[:1], scales, [], sums, [16, 16]],
        [x, weights, scales, [], sums[:1], [16, 16]],
        [x, weights, scales, [], sums, [16]],
        [x, weights, scales, [], sums, [16, 17]],
        [x, weights, [scales[0], tensor(b.arguments[1])], [], sums, [16, 16]],
        [x[:, :32], weights, scales, [], sums, [16, 16]],
    ):
        with pytest.raises(KernelFailure):
            kernels.call(name, bad, like)
