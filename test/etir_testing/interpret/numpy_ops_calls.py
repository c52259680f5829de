"""Calls of ATen overloads on small arguments, for :mod:`test_numpy_ops`: what no OpInfo sample reaches.

OpInfo samples call torch's Python functions, which never reach some overloads (``Scalar`` ones, ``*_copy`` forms,
``.vec``), decompose composite ones, and do not know Core ATen's gradients or the operators of other namespaces.
Each entry is a name, positional arguments and keyword arguments of one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

f32, f16, f64, i64, i32, i8, u8, c64 = (
    torch.float32,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.complex64,
)


def rand(*size: int, dtype: torch.dtype = f32) -> torch.Tensor:
    """Normally distributed numbers; integers between -5 and 5."""
    if dtype == torch.bool:
        return torch.rand(size) > 0.5
    return (torch.randn(size, dtype=torch.float64) * (1 if dtype.is_floating_point else 3)).to(dtype)


def call(name: str, *args: Any, **kwargs: Any) -> Call:
    """One entry."""
    return name if name.count(".") == 2 else f"aten.{name}", args, kwargs


def all_calls() -> Iterator[Call]:
    """Every call, with the same random numbers each time."""
    torch.manual_seed(0)
    for calls in (
        arithmetic,
        comparisons,
        conversions,
        views,
        arrangements,
        indexing,
        creation,
        products,
        convolutions,
        pools,
        normalizations,
        resizing,
        recurrent,
        attention,
        gradients,
        symbolic,
        quantized,
        quantized_fused,
        random,
    ):
        yield from calls()


def arithmetic() -> Iterator[Call]:
    x, y, n, m, b = rand(2, 3), rand(3), rand(4, dtype=i32), rand(4, dtype=i64) + 9, rand(4, dtype=torch.bool)
    for name in ("divide", "true_divide", "multiply", "subtract"):
        for a in (x, n, rand(2, dtype=f16)):
            yield call(f"{name}.Scalar", a, 3)
            yield call(f"{name}.Scalar", a, 2.5)
            yield call(f"{name}.Tensor", a, torch.tensor(7))
    for mode in (None, "trunc", "floor"):
        for a, other in ((x, 0.3), (n, 3), (n, -3), (n, 2.5), (rand(5, dtype=u8), 3)):
            yield call("div.Scalar_mode", a, other, rounding_mode=mode)
            yield call("divide.Scalar_mode", a, other, rounding_mode=mode)
        yield call("divide.Tensor_mode", n, m, rounding_mode=mode)
    for name in ("floor_divide.Scalar", "fmod.Scalar", "remainder.Scalar"):
        for a in (x, n):
            yield call(name, a, 3)
            yield call(name, a, -3)
            yield call(name, a, 1.5)
    yield call("remainder.Scalar_Tensor", 7, m)
    yield call("remainder.Scalar_Tensor", 7.5, x)
    for base, exponent in ((2, x), (2, m % 5), (2.5, m), (-2.0, rand(3, dtype=f16)), (0, m)):
        yield call("pow.Scalar", base, exponent)
    yield call("pow.Tensor_Tensor", torch.tensor([2, 1, -1, 0, -1]), torch.tensor([-1, -3, -3, 2, -2]))
    for name in ("and", "or", "xor"):
        for a, other in ((n, 6), (m, -3), (b, True), (b, 3), (rand(3, dtype=u8), 12)):
            yield call(f"bitwise_{name}.Scalar", a, other)
            yield call(f"bitwise_{name}.Scalar_Tensor", other, a)
        yield call(f"__{name}__.Scalar", n, 6)
        yield call(f"__{name}__.Tensor", n, m)
    for other in (0, 2, 31, 32, 40):
        for name in ("bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar"):
            yield call(name, n, other)
    for name in ("__lshift__", "__rshift__"):
        yield call(f"{name}.Scalar", n, 3)
        yield call(f"{name}.Tensor", n, m % 4)
    for base, exponent in ((x, 2), (n, torch.tensor(0.5)), (rand(2, dtype=c64), 2.5)):
        yield call(f"float_power.Tensor_{'Tensor' if isinstance(exponent, torch.Tensor) else 'Scalar'}", base, exponent)
    yield call("float_power.Scalar", 2, n)
    for alias in [
        "absolute",
        "arcsin",
        "arctan",
        "arcsinh",
        "fix",
        "special_erf",
        "special_erfc",
        "special_exp2",
        "special_expit",
    ]:
        yield call(f"{alias}.default", x)
    for alias in ["arccos", "arctanh", "special_expm1", "special_log1p", "special_logit"]:
        yield call(f"{alias}.default", torch.rand(4))
    yield call("arccosh.default", torch.rand(4) + 1)
    yield call("special_xlogy.default", x.abs(), y.abs())
    yield call("special_xlogy.other_scalar", x.abs(), 2.0)
    yield call("special_xlogy.self_scalar", 2.0, x.abs())
    yield call("special_xlog1py.other_scalar", x.abs(), 2.0)
    yield call("special_xlog1py.self_scalar", 2.0, x.abs())
    yield call("special_sinc.default", torch.tensor([0.0, 0.5, -1.25, 3.0]))
    for name in ("clip.default", "clamp.default"):
        yield call(name, x, -0.5, 0.5)
        yield call(name, n, 0)
        yield call(name, n, None, 1.5)
    yield call("clip.Tensor", x, y, None)
    yield call("clamp_max.default", x, 0.2)
    yield call("clamp_max.Tensor", n, m)
    yield call("arctan2.default", x, y)
    yield call("copysign.Scalar", x, -1.0)
    yield call("copysign.Scalar", n, -1)
    yield call("xlogy.Scalar_Other", x.abs(), 2.0)
    yield call("xlogy.Scalar_Self", 0.0, torch.tensor([1.0, 0.0, torch.nan]))
    yield call("negative.default", x)
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e30, -3.5, 0.5, 2.5])
    functions = "sign round trunc floor sigmoid silu gelu erf tanh log1p relu hardswish isnan isinf isfinite relu6 elu"
    for name in functions.split():
        yield call(f"{name}.default", special)
    for name in ("maximum", "minimum", "fmax", "fmin", "atan2"):
        yield call(f"{name}.default", special, special.flip(0))
    for name in ("remainder.Tensor", "fmod.Tensor", "pow.Tensor_Tensor", "floor_divide.default"):
        yield call(name, special, torch.full((9,), 2.0))
        yield call(name, special, special.flip(0))


def comparisons() -> Iterator[Call]:
    x, n = rand(2, 3), rand(4, dtype=i32)
    for name in ("greater", "greater_equal", "less", "less_equal", "not_equal", "gt", "ge", "lt", "le", "ne", "eq"):
        yield call(f"{name}.Scalar", x, 0.25)
        yield call(f"{name}.Scalar", n, 1.5)
        yield call(f"{name}.Scalar", rand(3, dtype=f16), 0.1)
        yield call(f"{name}.Tensor", x, torch.tensor(0))
        yield call(f"{name}.Tensor", torch.tensor([torch.nan, 1.0]), torch.tensor([torch.nan, 1.0], dtype=f64))
    condition = x > 0
    yield call("where.Scalar", condition, 1.5, 2)
    yield call("where.ScalarOther", condition, x, 2)
    yield call("where.ScalarSelf", condition, 1, n.sum())
    yield call("where.default", condition)


def conversions() -> Iterator[Call]:
    x = torch.tensor([-3.7, 0.0, 2.5, 300.2])
    yield call("to.dtype", x, i32)
    yield call("to.dtype", x, f64, False, True)
    yield call("to.dtype_layout", x, dtype=f16, layout=torch.strided, device="cpu")
    yield call("to.other", x, torch.zeros(1, dtype=i64))
    yield call("to.device", x, "cpu", torch.bool)
    yield call("type_as.default", x, torch.zeros(1, dtype=c64))
    yield call("_to_copy.default", x, dtype=torch.bool, memory_format=torch.contiguous_format)
    yield call("_to_copy.default", x[:3], dtype=u8)
    yield call("_to_copy.default", torch.tensor([1 + 2j, 0.5j]), dtype=torch.complex128)
    yield call("copy.default", torch.zeros(2, 3, dtype=i32), rand(3))
    yield call("resize.default", rand(2, 3), [3, 2])
    yield call("resize.default", rand(2, 3), [4])
    yield call("quantized_decomposed.convert_element_type.no_fuse", x, i32)
    for name in ("dim_order_ops._to_dim_order_copy.default", "dim_order_ops._clone_dim_order.default"):
        yield call(name, rand(1, 2, 3, 4), dim_order=[0, 2, 3, 1])
    yield call("dim_order_ops._to_dim_order_copy.default", x, dtype=i64, non_blocking=False, dim_order=[0])
    yield call("et_copy._d2h_copy.default", x)
    yield call("et_copy._h2d_copy.default", x)
    yield call("lift.default", x)
    yield call("contiguous.default", rand(2, 3).t())
    yield call("conj.default", rand(2, dtype=c64))
    yield call("lift_fresh_copy.default", x)


def views() -> Iterator[Call]:
    x = rand(2, 3, 4)
    yield call("_reshape_copy.default", x, [4, -1])
    yield call("as_strided.default", x, [2, 2], [3, 5], 4)
    yield call("as_strided_copy.default", x, [2, 2, 2], [0, 5, 1])
    yield call("adjoint.default", rand(2, 3, dtype=c64))
    yield call("detach_copy.default", x)
    yield call("numpy_T.default", rand(2, 3))
    yield call("moveaxis.int", x, 0, 2)
    yield call("movedim.int", x, -1, 0)
    yield call("moveaxis.intlist", x, [0, 1], [2, 0])
    yield call("select_copy.int", x, 1, -1)
    yield call("slice_copy.Tensor", x, 1, 0, 9223372036854775807, 2)
    yield call("slice_copy.Tensor", x, -1, -3, None)
    yield call("slice.Tensor", x, 2, 3, 1)
    yield call("split_copy.Tensor", x, 2, 1)
    yield call("split.sizes", x, [1, 2], 1)
    yield call("unsafe_split_with_sizes.default", x, [1, 3], 2)
    yield call("squeeze_copy.dims", rand(1, 2, 1), [0, 1])
    yield call("squeeze_copy.dims", rand(1, 2, 1), [])
    yield call("swapaxes.default", x, 0, -1)
    yield call("swapdims.default", x, 0, -1)
    for name in ("view.dtype", "view_copy.dtype"):
        yield call(name, x, i32)
        yield call(name, x, torch.int16)
        yield call(name, rand(2, 4, dtype=i8), f16)
        yield call(name, torch.tensor(1.0), i32)
    yield call("view_as_complex_copy.default", rand(3, 2))
    yield call("view_as_real_copy.default", rand(3, dtype=c64))
    yield call("broadcast_tensors.default", [rand(3, 1), rand(2)])
    yield call("unflatten.int", x, 2, [2, -1])
    yield call("ravel.default", x.transpose(0, 1))
    yield call("expand.default", rand(3, 1), [2, -1, 4])


def arrangements() -> Iterator[Call]:
    x = rand(2, 4, 3, 3)
    parts = [rand(2, 3), rand(1, 3, dtype=i64), torch.empty(0)]
    for name in ("cat", "concat", "concatenate"):
        yield call(f"{name}.default", parts)
    yield call("stack.default", [torch.tensor(1), torch.tensor(2.5)])
    yield call("meshgrid.default", [rand(3), rand(2)])
    yield call("native_channel_shuffle.default", x, 2)
    for rank, shape in ((1, (2, 5)), (2, (2, 5, 4)), (3, (1, 2, 4, 5, 3))):
        for name in ("reflection_pad", "replication_pad"):
            yield call(f"{name}{rank}d.default", rand(*shape), list(range(1, 3)) * rank)
    yield call("replication_pad2d.default", rand(2, 3, 3), [-1, 4, 2, -1])
    yield call("_pad_circular.default", x, [1, 2, 3, 0])
    yield call("_pad_circular.default", x, [-1, 2, 1, 0])
    for name in ("row_stack", "dstack", "column_stack"):
        yield call(f"{name}.default", [rand(3), rand(3, dtype=i64)])
        yield call(f"{name}.default", [rand(2, 3), rand(2, 3)])
    yield call("diff.default", rand(3, 5), 2, 0)
    yield call("diff.default", rand(4, dtype=i32), 1, -1, torch.tensor([3]), None)
    yield call("diff.default", rand(5, dtype=torch.bool))
    yield call("diag.default", rand(3, 4), 1)
    yield call("diag.default", rand(3), -1)
    yield call("constant_pad_nd.default", x, [1, -1, 0, 2], 1.5)
    yield call("constant_pad_nd.default", rand(3, dtype=i64), [2, 1], 7)


def indexing() -> Iterator[Call]:
    x, rows = rand(5, 4, 3), torch.tensor([[0, 4], [-1, 2]])
    for name in ("index.Tensor", "_unsafe_index.Tensor"):
        yield call(name, x, [rows, None, torch.tensor([0, 1])])
        yield call(name, x, [None, torch.tensor([1, 0])])
    yield call("index.Tensor", x, [x[..., 0] > 0])
    yield call("index.Tensor", x, [None, torch.tensor([True, False, True, True]), torch.tensor(1)])
    for name in ("index_put.default", "_unsafe_index_put.default"):
        yield call(name, x, [rows], rand(2, 2, 4, 3), True)
        yield call(name, x, [None, torch.tensor([1, 3])], torch.tensor(2.0))
    yield call("index_put.default", x, [x > 0], torch.tensor(0.0))
    index = torch.tensor([[0, 1, 2], [2, 0, 1]])
    yield call("scatter.value", rand(3, 3), 0, index, 7.5)
    yield call("scatter.value", rand(3, 3, dtype=i32), -1, index, 3)
    yield call("scatter.value_reduce", rand(3, 3), 0, index, 2.0, reduce="multiply")
    yield call("scatter.value_reduce", rand(3, 3), 1, index, 2.0, reduce="add")
    for dtype in (f32, i64):
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False):
                data = rand(3, 5, dtype=dtype)
                args = data, 0, torch.tensor([[0, 0, 2, 0], [0, 1, 2, 2]]), rand(2, 4, dtype=dtype), reduce
                yield call("scatter_reduce.two", *args, include_self=include)
    boundaries = torch.tensor([1.0, 2.0, 3.0])
    yield call("bucketize.Scalar", 2.0, boundaries, right=True)
    yield call("bucketize.Tensor", torch.tensor([0.5, 1.0, 3.5]), boundaries, out_int32=True)
    yield call("searchsorted.Scalar", boundaries, 2.0)
    yield call("nonzero_numpy.default", rows)
    weight, bags, offsets = rand(6, 3), torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3, 3])
    for mode in (0, 1, 2):
        for padding in (-1, 4):
            yield call("_embedding_bag.default", weight, bags, offsets, False, mode, False, None, False, padding)
    yield call("_embedding_bag.default", weight, bags, offsets, False, 0, False, rand(6))
    yield call("_embedding_bag.default", weight, bags, torch.tensor([0, 3, 3, 6]), False, 1, False, None, True)
    yield call("embedding_bag.default", weight, bags, offsets, False, 2)
    yield call("embedding_bag.padding_idx", weight, bags, offsets, False, 1, False, None, False, -2)
    yield call("embedding_bag.padding_idx", weight, bags, offsets, False, 0, False, None, False, None)


def creation() -> Iterator[Call]:
    yield call("arange.default", 5)
    yield call("arange.start", 1.5, 4)
    yield call("arange.start_step", 5, -2, -2)
    yield call("arange.start_step", 0, 1, 0.1)
    yield call("arange.start_step", 0, 5, 2, dtype=f16)
    yield call("arange.start", 0, 3.1, dtype=i32)
    yield call("arange.start", 0, 3.1, dtype=i64)
    yield call("linspace.default", 4.3, 0, 50, dtype=u8)
    yield call("linspace.default", -1, 1, 7)
    yield call("linspace.default", 2, 3, 1)
    yield call("scalar_tensor.default", 3)
    yield call("scalar_tensor.default", True, dtype=torch.bool)
    yield call("full.default", [2, 3], 1.5, dtype=i32, layout=torch.strided, device="cpu", pin_memory=False)
    yield call("full.default", [], True)
    yield call("full_like.default", rand(2, dtype=i8), 30)
    yield call("fill.Tensor", rand(2, 2), torch.tensor(3))
    yield call("dim_order_ops._empty_dim_order.default", [1, 2, 3, 4], dtype=f16, dim_order=[0, 2, 3, 1])
    for name in ("empty_strided.default", "empty_permuted.default"):
        yield call(name, [2, 3], [1, 0] if "permuted" in name else [1, 2], dtype=i64)


def products() -> Iterator[Call]:
    a, b = rand(3, 4), rand(4, 5)
    yield call("linalg_matmul.default", a, b)
    yield call("ger.default", rand(3), rand(4))
    yield call("einsum.default", "ij, jk -> ki", [a, b])
    yield call("einsum.default", "...i,...i", [a, a])
    yield call("einsum.default", "bhqd,bhkd->bhqk", [rand(2, 2, 3, 4), rand(2, 2, 5, 4)])
    yield call("einsum.default", "i,j->ij", [rand(3, dtype=i64), rand(2, dtype=i64)])
    for equation, x in (("i->", rand(3, dtype=u8)), ("ii->i", rand(3, 3, dtype=u8)), ("ij->j", rand(2, 3, dtype=i8))):
        yield call("einsum.default", equation, [x])
    for equation in ("i,i->", "i,j->", "i,j->j", "i,j,k->k"):
        yield call("einsum.default", equation, [rand(3, dtype=u8)] * (equation.count(",") + 1))
    yield call("einsum.default", "ii", [rand(3, 3, dtype=i32)])
    yield call("tensordot.default", a, b, [1], [0])
    yield call("tensordot.default", rand(1, 3, 1), rand(2, 3, 2), [0, 1, 2], [2, 1, 0])
    yield call("norm.Scalar", rand(2, 3), 1)
    yield call("norm.ScalarOpt_dim_dtype", rand(2, 3, dtype=f16), 2, [1], True, dtype=f32)
    yield call("linear.default", rand(2, 3, 4), rand(5, 4), rand(5))
    yield call("addmm.default", torch.full((2, 2), torch.nan), rand(2, 3), rand(3, 2), beta=0, alpha=0.5)
    for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
        yield call("_cdist_forward.default", rand(2, 4, 3), rand(2, 5, 3), p, None)
        yield call("_pdist_forward.default", rand(4, 3), p)
    yield call("cdist.default", rand(4, 3), rand(5, 3))
    yield call("pdist.default", rand(4, 3), 1.0)
    yield call("pairwise_distance.default", rand(4, 3), rand(3), 2.0, 1e-6, True)
    yield call("inner.default", rand(2, 3), rand(4, 3))
    yield call("inner.default", rand(2, 3), torch.tensor(2.0))
    yield call("linalg_vecdot.default", rand(2, 3, dtype=c64), rand(2, 3, dtype=c64), dim=0)
    yield call("linalg_norm.default", rand(2, 3))
    yield call("linalg_norm.default", rand(2, 3), 1, [1], True)
    yield call("frobenius_norm.dim", rand(2, 3), [0, 1])
    for name in ("var_mean", "std_mean"):
        yield call(f"{name}.default", rand(2, 3), False)
        yield call(f"{name}.dim", rand(2, 3), [1], True, True)
    yield call("nanmean.default", torch.tensor([[1.0, torch.nan], [2.0, 4.0]]), [1])
    yield call("special_logsumexp.default", rand(2, 3), [1], True)
    for name in ("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft"):
        yield call(f"{name}.default", rand(3, 6, dtype=f64), None, 0, "ortho")
        yield call(f"{name}.default", rand(3, 6), 4)
        yield call(f"{name}2.default", rand(3, 6), [4, 4], [-2, -1], "forward")
        yield call(f"{name}2.default", rand(3, 6))
    for p in (0, 1, 2, -2, 0.5, float("inf"), float("-inf")):
        yield call("linalg_vector_norm.default", rand(2, 3), p, [-1])


def convolutions() -> Iterator[Call]:
    flags = False, False, False, True
    yield call("_convolution.default", rand(1, 2, 5), rand(3, 2, 3), rand(3), [1], [1], [1], False, [0], 1, *flags)
    yield call("conv1d.default", rand(2, 4, 9), rand(6, 2, 3), rand(6), [2], [1], [2], 2)
    yield call("conv1d.default", rand(4, 9), rand(6, 4, 3))
    yield call("conv2d.default", rand(2, 4, 7, 6), rand(8, 1, 3, 3), None, [2, 1], [1], [1], 4)
    yield call("conv2d.default", rand(1, 2, 4, 4, dtype=i64), rand(3, 2, 2, 2, dtype=i64))
    yield call("conv2d.padding", rand(2, 3, 7, 6), rand(4, 3, 2, 3), rand(4), [1], "same", [2])
    yield call("conv2d.padding", rand(2, 3, 7, 6), rand(4, 3, 2, 3), None, [2], "valid")
    yield call("conv3d.default", rand(1, 2, 5, 4, 6), rand(4, 2, 2, 3, 2), rand(4), [1], [1, 0, 1])
    args = [2, 1], [1, 0], [1, 0], 2, [1, 2]
    yield call("conv_transpose2d.input", rand(2, 4, 5, 3), rand(4, 3, 3, 2), rand(6), *args)
    for overlap in ([1, 1], [2, 3]):
        columns = torch.ops.aten.im2col.default(rand(2, 3, 6, 7), [2, 3], [1, 2], [1, 2], overlap)
        yield call("col2im.default", columns, [6, 7], [2, 3], [1, 2], [1, 2], overlap)


def pools() -> Iterator[Call]:
    x1, x2, x3 = rand(2, 3, 9), rand(2, 3, 9, 8), rand(1, 2, 6, 7, 5)
    for ceil_mode in (False, True):
        for rank, x in ((1, x1), (2, x2), (3, x3)):
            window = [3] * rank, [2] * rank, [1] * rank
            for name in (f"max_pool{rank}d.default", f"max_pool{rank}d_with_indices.default"):
                yield call(name, x, *window, [1] * rank, ceil_mode)
            for include in (False, True):
                yield call(f"avg_pool{rank}d.default", x, *window, ceil_mode, include)
    yield call("max_pool2d.default", x2, [2, 3], [], [1, 0], [2, 1])
    yield call("max_pool2d.default", x2, [2])
    yield call("max_pool2d_with_indices.default", torch.full((1, 1, 4, 4), -torch.inf), [3, 3], [2, 2], [1, 1])
    nan = torch.tensor([[[[1.0, torch.nan], [2.0, 3.0]]]])
    yield call("max_pool2d_with_indices.default", nan, [2, 2])
    yield call("adaptive_max_pool1d.default", x1, [4])
    yield call("adaptive_max_pool3d.default", x3, [2, 3, 5])
    for name in ("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default"):
        for size in ([1, 1], [3, 5], [9, 8]):
            yield call(name, x2, size)
    yield call("_adaptive_avg_pool3d.default", x3, [2, 3, 2])


def normalizations() -> Iterator[Call]:
    x, w, b, mean, var = rand(2, 4, 3, 3), rand(4), rand(4), rand(4), rand(4).abs()
    yield call("batch_norm.default", x, w, b, mean, var, False, 0.1, 1e-5, True)
    yield call("batch_norm.default", x, None, None, None, None, True, 0.1, 1e-5, True)
    yield call("_native_batch_norm_legit_no_training.default", x, w, None, mean, var, 0.1, 1e-5)
    yield call("_native_batch_norm_legit.no_stats", x, None, b, True, 0.1, 1e-5)
    yield call("_native_batch_norm_legit.default", x, w, b, mean, var, False, 0.1, 1e-5)
    yield call("_native_batch_norm_legit_functional.default", x, w, b, mean, var, True, 0.1, 1e-5)
    yield call("_native_batch_norm_legit_functional.default", x, w, b, mean, var, False, 0.1, 1e-5)
    yield call("instance_norm.default", x, w, b, None, None, True, 0.1, 1e-5, True)
    yield call("instance_norm.default", x, w, b, mean, var, False, 0.1, 1e-5, True)
    yield call("_fused_rms_norm.default", x, [3, 3], rand(3, 3), 1e-6)
    yield call("_fused_rms_norm.default", x, [3], None, None)
    yield call("rms_norm.default", rand(2, 4, dtype=f16), [4], rand(4, dtype=f16))
    yield call("special_softmax.default", x, 1, f64)
    yield call("special_log_softmax.default", rand(2, 3, dtype=i64), 1, dtype=f32)
    yield call("softmax.int", x, -1)
    yield call("softmax.int", torch.tensor(2.0), 0)
    yield call("log_softmax.int", x, 1, f64)
    yield call("_safe_softmax.default", torch.tensor([[-torch.inf, -torch.inf], [0.0, 1.0]]), -1)
    yield call("dropout.default", x, 0.5, False)
    yield call("feature_dropout.default", x, 0.5, False)
    yield call("_weight_norm.default", rand(4, 3, 2), rand(1, 1, 2), 2)
    yield call("_weight_norm_interface.default", rand(4, 3, 2), rand(4, 1, 1), 0)
    yield call("native_dropout.default", x, 0.5, False)


def resizing() -> Iterator[Call]:
    x1, x2, x3 = rand(2, 3, 5), rand(2, 3, 5, 4), rand(1, 2, 3, 4, 5)
    for rank, x in ((1, x1), (2, x2), (3, x3)):
        for size, factors in (([7] * rank, None), (None, [1.7] * rank), (None, [0.6] * rank)):
            for name in ("upsample_nearest", "_upsample_nearest_exact"):
                yield call(f"{name}{rank}d.vec", x, size, factors)
            linear = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")[rank - 1]
            for corners in (False, True):
                yield call(f"{linear}.vec", x, size, corners, factors)
                if rank == 2:
                    yield call("upsample_bicubic2d.vec", x, size, corners, factors)
            if rank == 2:
                for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
                    yield call(f"{name}.vec", x, size, False, factors)
    yield call("_upsample_bicubic2d_aa.default", x2, [3, 9], False)
    yield call("_upsample_nearest_exact2d.default", x2, [3, 9])
    yield call("_upsample_nearest_exact3d.default", x3, [2, 5, 9])
    yield call("upsample_nearest3d.default", x3, [2, 5, 9], None, 1.3, None)
    grid = torch.rand(2, 3, 4, 2) * 2.6 - 1.3
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            for corners in (False, True):
                yield call("grid_sampler_2d.default", x2, grid, mode, padding, corners)
    yield call("grid_sampler.default", x2, grid, 0, 0, False)
    yield call("grid_sampler_2d.default", x2, torch.full((2, 1, 1, 2), torch.inf), 0, 0, False)
    for corners in (False, True):
        yield call("affine_grid_generator.default", rand(2, 2, 3), [2, 1, 4, 5], corners)
        yield call("affine_grid_generator.default", rand(1, 3, 4), [1, 1, 2, 3, 1], corners)


def recurrent() -> Iterator[Call]:
    x, h, directions = rand(5, 2, 3), 4, 2
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        for biases, layers, both, batch_first in (
            (True, 1, False, False),
            (True, 2, True, True),
            (False, 2, False, True),
        ):
            params: list[torch.Tensor] = []
            for layer in range(layers):
                for _ in range(directions if both else 1):
                    width = 3 if layer == 0 else h * (directions if both else 1)
                    params += [rand(gates * h, width), rand(gates * h, h)]
                    params += [rand(gates * h), rand(gates * h)] if biases else []
            batch = 5 if batch_first else 2
            state = rand(layers * (directions if both else 1), batch, h)
            hx: Any = [state, rand(*state.shape)] if name == "lstm" else state
            yield call(f"{name}.input", x, hx, params, biases, layers, 0.0, False, both, batch_first)
        cell = rand(gates * h, 3), rand(gates * h, h), rand(gates * h), rand(gates * h)
        yield call(f"{name}_cell.default", x[0], [rand(2, h), rand(2, h)] if name == "lstm" else rand(2, h), *cell)
    projected = [rand(16, 3), rand(16, 2), rand(16), rand(16), rand(2, 4)]
    yield call("lstm.input", x, [rand(1, 2, 2), rand(1, 2, 4)], projected, True, 1, 0.0, False, False, False)


def attention() -> Iterator[Call]:
    q, k, v = rand(2, 4, 5, 8), rand(2, 4, 6, 8), rand(2, 4, 6, 8)
    flash = "_scaled_dot_product_flash_attention_for_cpu.default"
    yield call(flash, q, k, v, attn_mask=rand(2, 1, 5, 6))
    yield call(flash, q, q, q, 0.0, True, scale=0.3)
    sdpa = "scaled_dot_product_attention.default"
    mask = rand(5, 6, dtype=torch.bool)
    mask[2] = False
    mask[0] = True
    yield call(sdpa, q, k, v, mask)
    yield call(sdpa, q, k, v, rand(5, 6))
    yield call(sdpa, q, k, v, None, 0.0, True)
    yield call(sdpa, q, k[:, :2], v[:, :2], scale=0.1, enable_gqa=True)
    yield call(sdpa, q.half(), k.half(), v.half())
    for additive in (mask, rand(5, 6)):
        args = q, k[:, :1], v[:, :1], additive
        yield call("_scaled_dot_product_attention_math.default", *args, enable_gqa=True)


def gradients() -> Iterator[Call]:
    x2 = rand(2, 4, 7, 6)
    yield call("_adaptive_avg_pool2d_backward.default", rand(2, 4, 3, 4), x2)
    for ceil_mode, include, divisor in ((False, True, None), (True, False, None), (True, True, 5)):
        window = [3, 2], [2, 2], [1, 0], ceil_mode, include, divisor
        grad = torch.ops.aten.avg_pool2d.default(x2, *window)
        yield call("avg_pool2d_backward.default", torch.randn_like(grad), x2, *window)
    for pool in (([3, 2], [2, 1], [1, 0], [1, 2], False), ([2, 2], [], [0, 0], [1, 1], True)):
        values, indices = torch.ops.aten.max_pool2d_with_indices.default(x2, *pool)
        yield call("max_pool2d_with_indices_backward.default", torch.randn_like(values), x2, *pool, indices)
    weight = rand(6, 2, 3, 2)
    geometry = [2, 1], [1, 0], [1, 2], False, [0, 0], 2
    out = torch.ops.aten.convolution.default(x2, weight, None, *geometry)
    for mask in ([True, True, True], [False, True, False]):
        yield call("convolution_backward.default", torch.randn_like(out), x2, weight, [6], *geometry, mask)
    transposed = [2, 1], [1, 0], [1, 2], True, [1, 0], 2
    weight = rand(4, 3, 3, 2)
    out = torch.ops.aten.convolution.default(x2, weight, None, *transposed)
    yield call("convolution_backward.default", torch.randn_like(out), x2, weight, [6], *transposed, [True] * 3)
    line = rand(2, 3, 8)
    out = torch.ops.aten.convolution.default(line, rand(4, 3, 3), None, [1], [1], [1], False, [0], 1)
    args = rand(4, 3, 3), [4], [1], [1], [1], False, [0], 1, [True] * 3
    yield call("convolution_backward.default", torch.randn_like(out), line, *args)
    normalized, mean, rstd = torch.ops.aten.native_layer_norm.default(x2, [7, 6], rand(7, 6), rand(7, 6), 1e-5)
    args = [7, 6], mean, rstd, rand(7, 6), rand(7, 6), [True] * 3
    yield call("native_layer_norm_backward.default", torch.randn_like(normalized), x2, *args)
    args = [7, 6], mean, rstd, None, None, [True, False, False]
    yield call("native_layer_norm_backward.default", torch.randn_like(normalized), x2, *args)
    normalized, mean, rstd = torch.ops.aten.native_group_norm.default(x2, rand(4), rand(4), 2, 4, 42, 2, 1e-5)
    for w, mask in ((rand(4), [True] * 3), (None, [True, False, False])):
        args = x2, mean, rstd, w, 2, 4, 42, 2, mask
        yield call("native_group_norm_backward.default", torch.randn_like(normalized), *args)
    indices = torch.tensor([[1, 3, 1], [0, 3, 3]])
    for padding, by_frequency in ((-1, False), (3, False), (0, True)):
        yield call("embedding_dense_backward.default", rand(2, 3, 4), indices, 5, padding, by_frequency)


def symbolic() -> Iterator[Call]:
    x = rand(2, 3, 4)
    yield call("_local_scalar_dense.default", torch.tensor(3))
    yield call("item.default", torch.tensor([2.5]))
    for name in ("sym_size.int", "sym_stride.int", "size.int", "stride.int"):
        yield call(name, x, 1)
        yield call(name, x.transpose(0, 2), -1)
    yield call("sym_numel.default", x)
    yield call("numel.default", x)
    yield call("sym_storage_offset.default", x)
    yield call("sym_is_contiguous.default", x)
    yield call("sym_is_contiguous.default", x.transpose(0, 1))
    yield call("sym_is_contiguous.default", rand(1, 2, 3, 4).permute(0, 3, 1, 2), torch.channels_last)
    yield call("_assert_scalar.default", True, "holds")
    yield call("_assert_async.msg", torch.tensor(True), "holds")
    yield call("_assert_tensor_metadata.default", x, [2, 3, 4], None, f32)
    yield call("sym_constrain_range.default", 3, min=1, max=5)
    yield call("sym_constrain_range_for_size.default", 3, min=2)


def quantized() -> Iterator[Call]:
    q = "quantized_decomposed."
    for x in (rand(4, 6) * 3, rand(4, 6, dtype=f16)):
        for dtype, low, high in ((i8, -128, 127), (u8, 0, 255), (torch.int16, -32768, 32767)):
            limits = low, high, dtype
            scale, zero = 0.047, 3
            yield call(f"{q}quantize_per_tensor.default", x, scale, zero, *limits)
            numbers = torch.tensor([scale], dtype=f64), torch.tensor([zero])
            yield call(f"{q}quantize_per_tensor.tensor", x, *numbers, *limits)
            bounds = torch.tensor(low), torch.tensor(high)
            yield call(f"{q}quantize_per_tensor.tensor2", x, *numbers, *bounds, dtype)
            levels = torch.randint(low, high + 1, (4, 6), dtype=dtype)
            for out in (f32, f16) if dtype != torch.int16 else (f32,):
                yield call(f"{q}dequantize_per_tensor.default", levels, scale, zero, *limits, out_dtype=out)
            yield call(f"{q}dequantize_per_tensor.tensor", levels, *numbers, *limits)
            yield call(f"{q}dequantize_per_tensor.tensor2", levels, *numbers, *bounds, dtype)
            for scales, zeros in (
                (torch.rand(6) + 0.01, torch.randint(0, 9, (6,))),
                (torch.rand(6, dtype=f64) + 0.01, torch.randint(0, 9, (6,), dtype=i32)),
            ):
                yield call(f"{q}quantize_per_channel.default", x, scales, zeros, 1, *limits)
                yield call(f"{q}dequantize_per_channel.default", levels, scales, zeros, 1, *limits)
                yield call(f"{q}dequantize_per_channel.default", levels, scales, None, 1, *limits, out_dtype=f16)
    x, i8s = rand(2, 4, 6), (-128, 127, i8)
    yield call(f"{q}choose_qparams.tensor", x, -128, 127, 1e-6, i8)
    yield call(f"{q}choose_qparams.tensor", x.abs() + 1, 0, 255, 1e-6, u8)
    yield call(f"{q}choose_qparams_symmetric.tensor", x, -127, 127, 1e-6, i8)
    yield call(f"{q}choose_qparams_per_token.default", x, i8)
    for name in ("choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl"):
        yield call(f"{q}{name}.default", x, i8)
        yield call(f"{q}{name}.default", x.abs() + 2, i8)
    scales, zeros = torch.rand(2, 4, 1, dtype=f64) + 0.01, torch.randint(-9, 9, (2, 4, 1))
    levels = torch.randint(-128, 128, (2, 4, 6), dtype=i8)
    yield call(f"{q}quantize_per_token.default", x, scales, zeros, *i8s)
    yield call(f"{q}quantize_per_token.default", x, scales.float(), zeros, *i8s)
    yield call(f"{q}dequantize_per_token.default", levels, scales, zeros, *i8s, f32)
    scales, zeros = torch.rand(4, 2) + 0.01, torch.randint(-4, 4, (4, 2), dtype=i32)
    yield call(f"{q}quantize_per_channel_group.default", x[0], scales, zeros, -8, 7, i8, 3)
    yield call(f"{q}dequantize_per_channel_group.default", levels[0], scales, zeros, *i8s, 3, f32)
    yield call(f"{q}dequantize_per_channel_group.default", levels[0], scales, None, *i8s, 3, f16)
    yield call(f"{q}fake_quant_per_channel.default", x, torch.rand(4) + 0.01, torch.randint(0, 9, (4,)), 1, -128, 127)


def quantized_fused() -> Iterator[Call]:
    q, indices = "quantized_decomposed.", torch.tensor([[0, 3], [2, 2]])
    for name, low, high in (("embedding_2bit", -2, 1), ("embedding_4bit", -8, 7), ("embedding_byte", -128, 127)):
        table = torch.randint(0, 256, (4, 8), dtype=u8)
        if name == "embedding_byte":
            table = table.view(i8)
        for scales, zeros in ((torch.rand(4), None), (torch.rand(4, 2), rand(4, 2)), (torch.rand(4, dtype=f16), None)):
            yield call(f"{q}{name}.default", table, scales, zeros, low, high, indices)
            yield call(f"{q}{name}.dtype", table, scales, zeros, low, high, indices, dtype=f32)


def random() -> Iterator[Call]:
    x = rand(3, 4)
    yield call("native_dropout.default", x, 0.5, True)
    yield call("bernoulli.p", x, 0.3)
    yield call("normal_functional.default", x, 1.0, 2.0)
    yield call("rand.default", [2, 3], dtype=f16)
    yield call("rand_like.default", x)
    yield call("randn.default", [2, 3])
    yield call("randint.low", -3, 4, [5])
    yield call("randperm.default", 5, dtype=i32)
