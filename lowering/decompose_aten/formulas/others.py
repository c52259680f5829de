"""Lists of tensors, tables of indices, windows of signals, checksums, products with scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from etir.lowering.decompose_aten.formulas import formula

Tensors = Sequence[Tensor]


# --- lists ------------------------------------------------------------------------------------------------------------


@formula("_foreach_add.Tensor")
def foreach_add(tensors: Tensors, other: Tensor, alpha: float = 1) -> list[Tensor]:
    """One tensor without dims is added to each."""
    return [torch.add(t, other, alpha=alpha) for t in tensors]


@formula("_foreach_mul.Tensor")
def foreach_mul(tensors: Tensors, other: Tensor) -> list[Tensor]:
    """Each times one tensor without dims."""
    return [t * other for t in tensors]


@formula("_foreach_div.Tensor")
def foreach_div(tensors: Tensors, other: Tensor) -> list[Tensor]:
    """Each divided by one tensor without dims."""
    return [t / other for t in tensors]


def _numbers(tensors: Tensors, given: Any) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given] * len(tensors)


@formula("_foreach_maximum.Scalar", "_foreach_maximum.ScalarList")
def foreach_maximum(tensors: Tensors, numbers: Any) -> list[Tensor]:
    """The larger one of each element and a number."""
    return [torch.clamp(t, min=n) for t, n in zip(tensors, _numbers(tensors, numbers), strict=True)]


@formula("_foreach_minimum.Scalar", "_foreach_minimum.ScalarList")
def foreach_minimum(tensors: Tensors, numbers: Any) -> list[Tensor]:
    """The smaller one of each element and a number."""
    return [torch.clamp(t, max=n) for t, n in zip(tensors, _numbers(tensors, numbers), strict=True)]


@formula("_foreach_addcmul.Tensor")
def foreach_addcmul(tensors: Tensors, first: Tensors, second: Tensors, factors: Tensor) -> list[Tensor]:
    """``t + factor * a * b`` of each."""
    return [
        t + (factors[i].to(t.dtype) * a * b).to(t.dtype)
        for i, (t, a, b) in enumerate(zip(tensors, first, second, strict=True))
    ]


@formula("_foreach_addcdiv.Tensor")
def foreach_addcdiv(tensors: Tensors, first: Tensors, second: Tensors, factors: Tensor) -> list[Tensor]:
    """``t + factor * a / b`` of each."""
    return [
        t + (factors[i].to(t.dtype) * a / b).to(t.dtype)
        for i, (t, a, b) in enumerate(zip(tensors, first, second, strict=True))
    ]


@formula("_foreach_norm.Scalar")
def foreach_norm(tensors: Tensors, order: float = 2, dtype: torch.dtype | None = None) -> list[Tensor]:
    """The norm of each."""
    return [torch.linalg.vector_norm(t, order, dtype=dtype) for t in tensors]


@formula("_foreach_powsum.Scalar")
def foreach_powsum(tensors: Tensors, order: float = 2, dtype: torch.dtype | None = None) -> list[Tensor]:
    """``sum |t| ** order`` of each."""
    return [powsum(t, order, dtype=dtype) for t in tensors]


@formula("linalg__powsum.default")
def powsum(
    x: Tensor,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``sum |x| ** order``: a norm before its root."""
    x = x.abs() if dtype is None else x.abs().to(dtype)
    powers = x if order == 1 else x * x if order == 2 else (x != 0).to(x.dtype) if order == 0 else x**order
    return powers.sum(list(range(x.dim())) if dim is None else list(dim), keepdim=keepdim)


# --- elements ---------------------------------------------------------------------------------------------------------


@formula("_add_relu.Scalar")
def add_relu(x: Tensor, other: float, alpha: float = 1) -> Tensor:
    """``relu(x + alpha * other)``."""
    return torch.relu(torch.add(x, other, alpha=alpha))


@formula("_logcumsumexp.default")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """``logcumsumexp``."""
    return torch.logcumsumexp(x, dim)


@formula("dequantize.self")
def dequantize(x: Tensor) -> Tensor:
    """The elements of a tensor that is not quantized, in single precision."""
    return x.to(torch.float32)


@formula("_efficientzerotensor.default")
def efficient_zeros(size: Sequence[int], dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
    """Zeros."""
    return torch.zeros(size, dtype=dtype)


@formula("_new_zeros_with_same_feature_meta.default")
def zeros_of_tangent(x: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    """Zeros for a tangent: the first dims of one tensor, and those of another."""
    return x.new_zeros([*x.shape[:self_num_batch_dims], *other.shape])


@formula("_make_dep_token.default")
def dependency_token(**_options: Any) -> Tensor:
    """What keeps checks in order; nothing reads it."""
    return torch.zeros([])


@formula("_functional_assert_async.msg")
def asserted(x: Tensor, message: str, token: Tensor) -> Tensor:
    """A check, which programs leave out, and the token after it."""
    return token.clone()


@formula("_functional_assert_scalar.default")
def asserted_number(x: Any, message: str, token: Tensor) -> Tensor:
    """A check, which programs leave out, and the token after it."""
    return token.clone()


@formula("_functional_sym_constrain_range.default", "_functional_sym_constrain_range_for_size.default")
def constrained(size: Any, low: int | None, high: int | None, token: Tensor) -> Tensor:
    """A range that export knows already, and the token after it."""
    return token.clone()


@formula("hash_tensor.default")
def hash_tensor(x: Tensor, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of the bits of all elements as 64-bit numbers, by halves."""
    if mode:
        raise NotImplementedError("another mode than 0")
    if x.dim() == 0:
        return hash_tensor(x.reshape(1), [0], keepdim=False).reshape([])
    bits = x.double().view(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    dims = sorted(d % x.dim() for d in dim) if dim else list(range(x.dim()))
    kept = [d for d in range(x.dim()) if d not in dims]
    count = math.prod(x.shape[d] for d in dims)
    shape = [1 if d in dims else x.shape[d] for d in range(x.dim())] if keepdim else [x.shape[d] for d in kept]
    bits = bits.permute([*kept, *dims]).reshape([*(x.shape[d] for d in kept), count])
    if count == 0:
        return torch.zeros(shape, dtype=torch.int64).view(torch.uint64)
    while count > 1:
        half = count // 2
        folded = bits[..., :half] ^ bits[..., half : 2 * half]
        bits = torch.cat([folded, bits[..., 2 * half :]], -1) if count % 2 else folded
        count -= half
    return bits.reshape(shape).view(torch.uint64)


# --- indices ----------------------------------------------------------------------------------------------------------


@formula("_convert_indices_from_coo_to_csr.default")
def coordinates_to_rows(rows: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each row starts among sorted row numbers."""
    every = torch.arange(size + 1, dtype=rows.dtype)
    return torch.searchsorted(rows, every, out_int32=out_int32)


@formula("_convert_indices_from_csr_to_coo.default")
def rows_to_coordinates(starts: Tensor, columns: Tensor, *, out_int32: bool = False, transpose: bool = False) -> Tensor:
    """The row of each element, and its column."""
    if starts.dim() != 1:
        raise NotImplementedError("batches of matrices")
    dtype = torch.int32 if out_int32 else torch.int64
    every = torch.arange(columns.shape[0], dtype=starts.dtype)
    rows = (torch.searchsorted(starts, every, right=True) - 1).to(dtype)
    return torch.stack([columns.to(dtype), rows] if transpose else [rows, columns.to(dtype)])


# --- windows of signals -----------------------------------------------------------------------------------------------


def _window(length: int, periodic: bool) -> tuple[Tensor, int]:
    """The places of a window, and the last one's."""
    return torch.arange(length, dtype=torch.float64), max(length if periodic else length - 1, 1)


def _typed(window: Tensor, length: int, dtype: torch.dtype | None) -> Tensor:
    return (torch.ones(length, dtype=torch.float64) if length == 1 else window).to(dtype or torch.float32)


@formula("bartlett_window.default", "bartlett_window.periodic")
def bartlett_window(length: int, periodic: bool = True, *, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
    """A triangle."""
    place, last = _window(length, periodic)
    return _typed(1 - (2 * place / last - 1).abs(), length, dtype)


@formula("blackman_window.default", "blackman_window.periodic")
def blackman_window(length: int, periodic: bool = True, *, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
    """``0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)``."""
    place, last = _window(length, periodic)
    angle = 2 * math.pi * place / last
    return _typed(0.42 - 0.5 * torch.cos(angle) + 0.08 * torch.cos(2 * angle), length, dtype)


@formula("hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta")
def hamming_window(
    length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: torch.dtype | None = None,
    **_options: Any,
) -> Tensor:
    """``alpha - beta cos(2 pi n / N)``."""
    place, last = _window(length, periodic)
    return _typed(alpha - beta * torch.cos(2 * math.pi * place / last), length, dtype)


@formula("kaiser_window.default", "kaiser_window.periodic", "kaiser_window.beta")
def kaiser_window(
    length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: torch.dtype | None = None,
    **_options: Any,
) -> Tensor:
    """``I0(beta * sqrt(1 - (2 n / N - 1) ** 2)) / I0(beta)``, by scaled functions, which do not overflow."""
    place, last = _window(length, periodic)
    inner = beta * (1 - (2 * place / last - 1).square()).clamp(min=0).sqrt()
    top = torch.special.i0e(inner) * torch.exp(inner - abs(beta))
    return _typed(top / torch.special.i0e(torch.tensor(float(beta), dtype=torch.float64)), length, dtype)


@formula("fft_fftfreq.default")
def fft_frequencies(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
    """``[0, 1, ..., -n/2, ..., -1] / (d n)``."""
    places = torch.arange(n)
    wrapped = torch.where(places < (n + 1) // 2, places, places - n)
    return wrapped.to(dtype or torch.float32) * (1.0 / (n * d))


@formula("fft_rfftfreq.default")
def real_fft_frequencies(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **_options: Any) -> Tensor:
    """``[0, 1, ..., n/2] / (d n)``."""
    return torch.arange(n // 2 + 1, dtype=dtype or torch.float32) * (1.0 / (n * d))


# --- products ---------------------------------------------------------------------------------------------------------


@formula("_compute_linear_combination.default")
def linear_combination(x: Tensor, coefficients: Tensor) -> Tensor:
    """Sums of slices along the first dim."""
    flat = torch.matmul(coefficients, x.reshape(x.shape[0], -1))
    return flat.reshape(coefficients.shape[0], *x.shape[1:])


@formula("_cholesky_solve_helper.default")
def cholesky_solve(right: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """Two triangular systems."""
    return torch.cholesky_solve(right, factor, upper)


@formula("_weight_int8pack_mm.default")
def int8_matmul(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """``x @ weight.T`` with a scale for each column."""
    return torch.matmul(x, weight.to(x.dtype).t()) * scales


@formula("_scaled_mm.default")
def scaled_mm(
    x: Tensor,
    y: Tensor,
    x_scale: Tensor,
    y_scale: Tensor,
    bias: Tensor | None = None,
    result_scale: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """``(x * x_scale) @ (y * y_scale) + bias`` in single precision."""
    product = torch.matmul(x.to(torch.float32) * x_scale, y.to(torch.float32) * y_scale)
    if bias is not None:
        product = product + bias.to(torch.float32)
    out_dtype = x.dtype if out_dtype is None else out_dtype
    if result_scale is not None and out_dtype.itemsize == 1:
        product = product * result_scale
    return product.to(out_dtype)


@formula("_scaled_mm_v2.default")
def scaled_mm_by_recipe(
    x: Tensor,
    y: Tensor,
    x_scales: Tensors,
    x_recipe: Sequence[int],
    x_swizzle: Sequence[int],
    y_scales: Tensors,
    y_recipe: Sequence[int],
    y_swizzle: Sequence[int],
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
    contraction: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """``_scaled_mm`` with scales for tensors or rows; those for blocks are of other devices."""
    if any(r > 1 for r in (*x_recipe, *y_recipe)) or len(x_scales) != 1 or len(y_scales) != 1:
        raise NotImplementedError("scales for blocks")
    return scaled_mm(x, y, x_scales[0], y_scales[0], bias, None, out_dtype)


@formula("renorm.default")
def renorm(x: Tensor, order: float, position: int, most: float) -> Tensor:
    """Slices that are longer than ``most`` get that length; norms of 16-bit types are in single precision."""
    others = [d for d in range(x.dim()) if d != position % x.dim()]
    dtype = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else None
    norms = torch.linalg.vector_norm(x, order, others, keepdim=True, dtype=dtype)
    return x * torch.where(norms > most, most / (norms + 1e-7), 1.0).to(x.dtype)


@formula("embedding_renorm.default")
def embedding_renorm(weight: Tensor, indices: Tensor, most: float, order: float) -> Tensor:
    """Rows that are looked up and longer than ``most`` get that length."""
    norms = torch.linalg.vector_norm(weight, order, [1], keepdim=True)
    used = torch.zeros([weight.shape[0]], dtype=torch.bool)
    used = used.scatter(0, indices.reshape(-1), True).unsqueeze(1)
    return torch.where(used & (norms > most), weight * (most / (norms + 1e-7)), weight)


# --- random numbers ---------------------------------------------------------------------------------------------------


@formula("random.default")
def random(x: Tensor, generator: None = None) -> Tensor:
    """Integers that the type has: of floating-point types those that it has exactly."""
    bits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
    high = 2 ** bits[x.dtype] + 1 if x.is_floating_point() else 2 if x.dtype == torch.bool else torch.iinfo(x.dtype).max
    return torch.randint(0, high, x.shape).to(x.dtype)


@formula("randint_like.Tensor")
def random_below(x: Tensor, high: Tensor, **_options: Any) -> Tensor:
    """Integers from 0 to below ``high``."""
    return (torch.rand(x.shape, dtype=torch.float64) * high).floor().to(_options.get("dtype") or x.dtype)


# --- memory -----------------------------------------------------------------------------------------------------------


@formula("resize.default")
def resize(x: Tensor, size: Sequence[int], **_options: Any) -> Tensor:
    """The first elements in another shape; what comes after the last one is 0."""
    count, wanted = x.numel(), math.prod(size)
    flat = x.reshape(-1)
    flat = flat[:wanted] if wanted <= count else torch.cat([flat, x.new_zeros([wanted - count])])
    return flat.reshape(size)


@formula("set.source_Tensor")
def set_to(x: Tensor, source: Tensor) -> Tensor:
    """Another tensor."""
    return source.clone()


@formula("set.default")
def set_to_nothing(x: Tensor) -> Tensor:
    """A tensor without elements."""
    return x.new_empty([0])
