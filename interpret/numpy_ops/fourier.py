"""Discrete Fourier transforms, by ``numpy.fft``. ``normalization`` is 0 for none, 1 for 1/√n and 2 for 1/n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from etir.interpret.numpy_ops.arguments import axis_of
from etir.interpret.numpy_ops.dtype import Array, complex_dtype, is_complex, real_dtype, to
from etir.interpret.numpy_ops.registry import op

Norm = Literal["backward", "ortho", "forward"]

_FORWARD: tuple[Norm, ...] = ("backward", "ortho", "forward")
_INVERSE: tuple[Norm, ...] = ("forward", "ortho", "backward")
"""NumPy names a normalisation by the direction that is scaled by 1/n."""


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
