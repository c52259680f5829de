"""Discrete Fourier transforms, by ``numpy.fft``. ``normalization`` is 0 for none, 1 for 1/√n and 2 for 1/n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from etir.interpret.numpy_ops.arguments import axes_of, axis_of, ints
from etir.interpret.numpy_ops.dtype import Array, complex_dtype, float_dtype, is_complex, real_dtype, to
from etir.interpret.numpy_ops.registry import op

Norm = Literal["backward", "ortho", "forward"]

_FORWARD: tuple[Norm, ...] = ("backward", "ortho", "forward")
_INVERSE: tuple[Norm, ...] = ("forward", "ortho", "backward")
"""NumPy names a normalization by the direction that is scaled by 1/n."""


@op("aten._fft_r2c.default")
def fft_r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    axes = [axis_of(d, self.ndim) for d in dim]
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return to(transform(self, axes=axes, norm=_FORWARD[normalization]), complex_dtype(self.dtype))


@op("aten._fft_c2c.default")
def fft_c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    if not is_complex(self.dtype):
        raise ValueError(f"the tensor is {self.dtype}, not complex")
    axes = [axis_of(d, self.ndim) for d in dim]
    if forward:
        return to(np.fft.fftn(self, axes=axes, norm=_FORWARD[normalization]), self.dtype)
    return to(np.fft.ifftn(self, axes=axes, norm=_INVERSE[normalization]), self.dtype)


@op("aten._fft_c2r.default")
def fft_c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    if not is_complex(self.dtype):
        raise ValueError(f"the tensor is {self.dtype}, not complex")
    axes = [axis_of(d, self.ndim) for d in dim]
    sizes = [*(self.shape[a] for a in axes[:-1]), last_dim_size]
    result = np.fft.irfftn(self, sizes, axes, norm=_INVERSE[normalization])
    return to(result, real_dtype(self.dtype))


LINE_TRANSFORMS: dict[str, Callable[..., Array]] = {
    "fft_fft": np.fft.fft,
    "fft_ifft": np.fft.ifft,
    "fft_rfft": np.fft.rfft,
    "fft_irfft": np.fft.irfft,
}
"""What ``torch.fft`` calls by NumPy's own names, along one dimension."""

PLANE_TRANSFORMS: dict[str, Callable[..., Array]] = {
    "fft_fft2": np.fft.fftn,
    "fft_ifft2": np.fft.ifftn,
    "fft_rfft2": np.fft.rfftn,
    "fft_irfft2": np.fft.irfftn,
}
"""The same along two dimensions."""


def _register_named_transforms() -> None:
    for name, transform in LINE_TRANSFORMS.items():
        op(f"aten.{name}.default")(_line(transform))
    for name, transform in PLANE_TRANSFORMS.items():
        op(f"aten.{name}.default")(_plane(transform))


def _line(transform: Callable[..., Array]) -> Callable[..., Array]:
    def apply(self: Array, n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Array:
        return _in_precision_of(self, transform(self, n, axis_of(dim, self.ndim), norm))

    return apply


def _plane(transform: Callable[..., Array]) -> Callable[..., Array]:
    def apply(
        self: Array,
        s: int | Sequence[int] | None = None,
        dim: int | Sequence[int] = (-2, -1),
        norm: Norm | None = None,
    ) -> Array:
        axes = axes_of(dim, self.ndim)
        return _in_precision_of(self, transform(self, None if s is None else ints(s, len(axes)), axes, norm))

    return apply


def _in_precision_of(x: Array, result: Array) -> Array:
    """The transform's result in the precision of its input: single for integers."""
    dtype = float_dtype(x.dtype)
    return to(result, complex_dtype(dtype) if is_complex(result.dtype) else real_dtype(dtype))


_register_named_transforms()
