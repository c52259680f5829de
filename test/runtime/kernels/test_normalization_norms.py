"""Layer, group, batch and RMS normalization, and gradients, against torch."""

from __future__ import annotations

import pytest
import torch

from etir.interpret.numpy_ops import lookup

from etir_testing.runtime.against_torch import LAYOUTS, laid_out, numbers, refuses
from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CLOSE = {
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float32: (1e-5, 1e-5),
    torch.float64: (1e-10, 1e-10),
}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("normalization")


def parameters(size: object, dtype: torch.dtype) -> list[tuple[torch.Tensor | None, torch.Tensor | None]]:
    shape = (size,) if isinstance(size, int) else tuple(size)  # type: ignore[arg-type]
    weight, bias = numbers(shape, dtype, 1), numbers(shape, dtype, 2)
    return [(weight, bias), (weight, None), (None, None)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "normalized"),
    [
        ((4, 600), 1), ((2, 3, 5, 7), 1), ((2, 3, 5, 7), 3), ((5,), 1), ((3, 1), 1), ((0, 4), 1), ((300, 40), 2),
        ((23, 67), 1), ((7, 700), 1), ((2, 3, 1500), 1), ((3, 101, 9), 1),
    ],
)  # fmt: skip
def test_layer_norm(kernels: Kernels, shape: tuple[int, ...], normalized: int, dtype: torch.dtype) -> None:
    x = numbers(shape, dtype) + 2
    sizes = list(shape[-normalized:])
    for weight, bias in parameters(sizes, dtype):
        expected = torch.native_layer_norm(x, sizes, weight, bias, 1e-5)
        for layout in LAYOUTS:
            y = laid_out(x, layout)
            likes = [laid_out(e, layout) for e in expected]
            got = kernels.call("aten::native_layer_norm.out", [y, sizes, weight, bias, 1e-5], likes)
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(a, b, rtol=CLOSE[dtype][0], atol=CLOSE[dtype][1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "normalized"), [((40, 300), 1), ((2, 3, 5, 7), 2), ((200, 3), 1), ((0, 4), 1)])
def test_layer_norm_gradients(kernels: Kernels, shape: tuple[int, ...], normalized: int, dtype: torch.dtype) -> None:
    x = numbers(shape, dtype)
    grad = numbers(shape, dtype, 3)
    sizes = list(shape[-normalized:])
    rtol, atol = CLOSE[dtype]
    for weight, bias in parameters(sizes, dtype)[:2] if shape[0] else []:
        _, mean, rstd = torch.native_layer_norm(x, sizes, weight, bias, 1e-5)
        args = [grad, x, sizes, mean, rstd, weight, bias]
        wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
        expected = torch.ops.aten.native_layer_norm_backward(*wide, [True, True, bias is not None])
        likes = [torch.empty(sizes, dtype=dtype) if e is None else e.to(dtype) for e in expected]
        mask = [True, True, bias is not None]
        got = kernels.call("aten::native_layer_norm_backward.out", [*args, mask], likes)
        for a, b in zip(got, expected, strict=True):
            if b is not None:
                torch.testing.assert_close(a.double(), b, rtol=rtol, atol=atol * 10)
    weight = numbers(sizes, dtype, 1)
    empty = numbers((shape[0] or 1, 1), dtype)[: shape[0]].clone()
    if shape[0] == 0:
        likes = [torch.empty(shape, dtype=dtype), weight, weight]
        args = [grad, x, sizes, empty, empty, weight, weight, [True, True, True]]
        got = kernels.call("aten::native_layer_norm_backward.out", args, likes)
        assert not got[1].any()
        assert not got[2].any()


def test_layer_norm_refusals(kernels: Kernels) -> None:
    x = numbers((3, 4), torch.float32)
    stat = torch.empty(3, 1)
    refuses(kernels, "KernelArgument", "native_layer_norm.out", [x, [3], None, None, 1e-5], x, stat, stat)
    refuses(kernels, "KernelArgument", "native_layer_norm.out", [x, [2, 3, 4], None, None, 1e-5], x, stat, stat)
    refuses(kernels, "KernelShape", "native_layer_norm.out", [x, [4], torch.ones(3), None, 1e-5], x, stat, stat)
    refuses(kernels, "KernelDtype", "native_layer_norm.out", [x.int(), [4], None, None, 1e-5], x.int(), stat, stat)
    weight = laid_out(x, "transposed")
    stat = torch.empty(1, 1)
    refuses(kernels, "KernelDimOrder", "native_layer_norm.out", [x, [3, 4], weight, None, 1e-5], x, stat, stat)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2, 6, 5, 7), 3), ((2, 6, 5, 7), 6), ((2, 6, 5, 7), 1), ((1, 1, 20, 20), 1), ((3, 4), 2), ((3, 4), 4),
        ((2, 140, 3, 3), 1), ((2, 140, 3, 3), 140), ((5, 3, 300), 3), ((3, 2, 1, 1), 2), ((2, 8, 2, 3, 2), 2),
    ],
)  # fmt: skip
def test_group_norm(kernels: Kernels, shape: tuple[int, ...], groups: int, dtype: torch.dtype) -> None:
    x = numbers(shape, dtype) + 1
    n, c = shape[:2]
    pixels = x[0, 0].numel()
    for weight, bias in parameters(c, dtype):
        wide = [None if p is None else p.double() for p in (weight, bias)]
        expected = torch.native_group_norm(x.double(), *wide, n, c, pixels, groups, 1e-5)
        for layout in LAYOUTS:
            y = laid_out(x, layout)
            likes = [laid_out(y, layout), *(e.to(dtype) for e in expected[1:])]
            args = [y, weight, bias, n, c, pixels, groups, 1e-5]
            got = kernels.call("aten::native_group_norm.out", args, likes)
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(a.double(), b, rtol=CLOSE[dtype][0] * 2, atol=CLOSE[dtype][1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 5, 7), 3), ((3, 4), 2), ((2, 4, 300), 4), ((2, 3, 4), 1)])
def test_group_norm_gradients(kernels: Kernels, shape: tuple[int, ...], groups: int, dtype: torch.dtype) -> None:
    x, grad = numbers(shape, dtype), numbers(shape, dtype, 3)
    n, c = shape[:2]
    pixels = x[0, 0].numel()
    weight = numbers((c,), dtype, 1)
    for w in (weight, None):
        # torch wants a weight where its gradient is asked for; none is as good as ones.
        wide = [grad.double(), x.double(), torch.ones(c).double() if w is None else w.double()]
        _, mean, rstd = torch.native_group_norm(wide[1], wide[2], None, n, c, pixels, groups, 1e-5)
        mean, rstd = mean.to(dtype), rstd.to(dtype)
        rest = [n, c, pixels, groups, [True, True, True]]
        expected = torch.ops.aten.native_group_norm_backward(*wide[:2], mean.double(), rstd.double(), wide[2], *rest)
        args = [grad, x, mean, rstd, w, *rest]
        got = kernels.call("aten::native_group_norm_backward.out", args, [x, weight, weight])
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=CLOSE[dtype][0] * 2, atol=CLOSE[dtype][1] * 10)


def test_group_norm_refusals(kernels: Kernels) -> None:
    x = numbers((2, 6, 5), torch.float32)
    stat = torch.empty(2, 3)
    for wrong in ([3, 6, 5, 3], [2, 5, 5, 3], [2, 6, 4, 3], [2, 6, 5, 4], [2, 6, 5, 0], [2, 6, 5, -3]):
        refuses(kernels, "KernelArgument", "native_group_norm.out", [x, None, None, *wrong, 1e-5], x, stat, stat)


BATCHES = ((4, 6, 5, 7), (4, 6), (3, 2, 400), (2, 140, 3, 3), (5, 1, 2, 2), (2, 3, 2, 3, 4))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", BATCHES)
def test_batch_norm_by_running_statistics(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    c = shape[1]
    mean, var = numbers((c,), dtype, 3), numbers((c,), dtype, 4).abs() + 0.5
    x = numbers(shape, dtype)
    for weight, bias in parameters(c, dtype):
        wide = [None if p is None else p.double() for p in (weight, bias, mean, var)]
        expected = torch.ops.aten._native_batch_norm_legit_no_training(x.double(), *wide, 0.1, 1e-5)
        for layout in LAYOUTS:
            likes = [laid_out(x, layout), torch.empty(0, dtype=dtype), torch.empty(0, dtype=dtype)]
            y = laid_out(x, layout)
            args = [y, weight, bias, mean, var, 0.1, 1e-5]
            got = kernels.call("aten::_native_batch_norm_legit_no_training.out", args, likes)
            torch.testing.assert_close(got[0].double(), expected[0], rtol=CLOSE[dtype][0] * 2, atol=CLOSE[dtype][1])
            for a, b in zip(got[1:], expected[1:], strict=True):
                assert a.shape == b.shape
            args = [y, weight, bias, mean, var, False, 0.1, 1e-5]
            for name in ("_native_batch_norm_legit.out", "native_batch_norm.out"):
                again = kernels.call(f"aten::{name}", args, likes)
                assert torch.equal(again[0], got[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", BATCHES)
def test_batch_norm_in_training(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    c = shape[1]
    x = numbers(shape, dtype) * 2 + 1
    rtol, atol = CLOSE[dtype]
    for weight, bias in parameters(c, dtype):
        for layout in LAYOUTS:
            y = laid_out(x, layout)
            mean, var = numbers((c,), dtype, 3), numbers((c,), dtype, 4).abs() + 0.5
            wide = [None if p is None else p.double() for p in (weight, bias, mean, var)]
            expected = torch.native_batch_norm(x.double(), *wide, True, 0.1, 1e-5)
            stat = torch.empty(c, dtype=dtype)
            likes = [laid_out(x, layout), stat, stat]
            got = kernels.call("aten::native_batch_norm.out", [y, weight, bias, mean, var, True, 0.1, 1e-5], likes)
            again = kernels.call(
                "aten::_native_batch_norm_legit.no_stats_out", [y, weight, bias, True, 0.1, 1e-5], likes
            )
            for a, b in zip((*got, *again), (*expected, *expected), strict=True):
                torch.testing.assert_close(a.double(), b, rtol=rtol * 2, atol=atol * 2)
            for a, b in zip((mean, var), wide[2:], strict=True):
                torch.testing.assert_close(a.double(), b, rtol=rtol, atol=atol)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", BATCHES)
def test_batch_norm_gradients(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype, training: bool) -> None:
    c = shape[1]
    x = numbers(shape, dtype)
    grad = numbers(shape, dtype, 7)
    mean, var = numbers((c,), dtype, 3), numbers((c,), dtype, 4).abs() + 0.5
    weight = numbers((c,), dtype, 1)
    _, save_mean, save_invstd = torch.native_batch_norm(x, weight, weight, mean, var, True, 0.1, 1e-5)
    mask = [True, True, True]
    for w in (weight, None):
        args = [grad, x, w, mean, var, save_mean, save_invstd, training, 1e-5, mask]
        wide = [a.double() if isinstance(a, torch.Tensor) else a for a in args]
        expected = torch.ops.aten.native_batch_norm_backward(*wide)
        for layout in LAYOUTS:
            args[:2] = [laid_out(grad, layout), laid_out(x, layout)]
            likes = [laid_out(x, layout), weight, weight]
            got = kernels.call("aten::native_batch_norm_backward.out", args, likes)
            for a, b in zip(got, expected, strict=True):
                torch.testing.assert_close(a.double(), b, rtol=CLOSE[dtype][0] * 2, atol=CLOSE[dtype][1] * 10)


def test_batch_norm_refusals(kernels: Kernels) -> None:
    x = numbers((2, 3, 4), torch.float32)
    name = "_native_batch_norm_legit_no_training.out"
    stat, none = torch.ones(3), torch.empty(0)
    refuses(kernels, "KernelShape", name, [x, None, None, torch.ones(2), stat, 0.1, 1e-5], x, none, none)
    refuses(kernels, "KernelShape", name, [x, torch.ones(4), None, stat, stat, 0.1, 1e-5], x, none, none)
    refuses(kernels, "KernelDtype", name, [x, stat.int(), None, stat, stat, 0.1, 1e-5], x, none, none)
    refuses(kernels, "KernelRank", name, [stat, None, None, stat, stat, 0.1, 1e-5], stat, none, none)
    refuses(
        kernels, "KernelArgument", "native_batch_norm.out", [x, None, None, None, None, False, 0.1, 1e-5], x, none, none
    )
    refuses(
        kernels, "KernelDimOrder", name, [x, None, None, stat, stat, 0.1, 1e-5], laid_out(x, "transposed"), none, none
    )


@pytest.mark.parametrize("shape", [(1, 1, 576), (7, 33), (2, 3, 5, 16), (300, 40), (3, 1), (0, 4), (4, 0), (5,)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_rms_norm(kernels: Kernels, shape: tuple[int, ...], scale: float) -> None:
    """Also over the input, and against the interpreter's."""
    x, eps = numbers(shape, torch.float32) * scale, 1e-5
    for weight in (None, numbers(shape[-1:], torch.float32, 1)):
        expected = torch.nn.functional.rms_norm(x.double(), shape[-1:], None, eps).float()
        expected = expected if weight is None else expected * weight
        for over in (None, 0) if x.numel() else (None,):
            (result,) = kernels.call("etir::rms_norm.out", [x.clone(), weight, eps], [x], over=over)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
        oracle = lookup("etir.rms_norm.default")(x.numpy(), None if weight is None else weight.numpy(), eps)
        torch.testing.assert_close(torch.from_numpy(oracle), expected, rtol=1e-5, atol=1e-5)


def test_rms_norm_refusals(kernels: Kernels) -> None:
    x = torch.ones(2, 4)
    for bad in ((x, torch.ones(3)), (x, torch.ones(2, 4)), (x, torch.ones(4, dtype=torch.float64)), (x.double(), None)):
        with pytest.raises(KernelFailure):
            kernels.call("etir::rms_norm.out", [*bad, 1e-5], [bad[0]])
