"""OpInfo samples on the NumPy operators: which are compared with eager's calls, and what cannot be."""

from __future__ import annotations

import functools

import torch

from etir.interpret.numpy_ops import lookup

from etir_testing.interpret.numpy_ops_oracle import Tally, compare, enter, representable
from etir_testing.runtime.opinfo_calls import Call

SAMPLES = {
    torch.float32: 6,
    torch.int64: 4,
    torch.bool: 4,
    torch.float16: 2,
    torch.uint8: 2,
    torch.complex64: 2,
}
"""How many OpInfo samples of each operator are compared, by dtype."""

NO_EAGER = {
    "quantized_decomposed.add.default",
    "quantized_decomposed.add.scalar",
    "quantized_decomposed.add_relu.default",
    "quantized_decomposed.mixed_linear.default",
    "quantized_decomposed.mixed_mm.default",
}
"""Overloads that torch cannot run: it knows their schema only. ``test_quantized_*`` compare them with compositions."""

OF_KERNELS = ("etir.", "cortex_m.")
"""Namespaces of operators that torch does not have: the tests of their kernels, one of which has to name each, compare
the two.
"""

NOT_COMPARED = {
    "aten.as_strided.default": "reads the storage under a view, which an array does not show; called on whole tensors",
    "aten.as_strided_copy.default": "as as_strided",
}
"""Overloads whose OpInfo samples are left out, and why."""

INTEGER_IMAGES = (
    "aten.upsample_bilinear2d.vec",
    "aten.upsample_bicubic2d.vec",
    "aten.upsample_bilinear2d.default",
    "aten.upsample_bicubic2d.default",
    "aten._upsample_bilinear2d_aa.default",
    "aten._upsample_bilinear2d_aa.vec",
    "aten._upsample_bicubic2d_aa.default",
    "aten._upsample_bicubic2d_aa.vec",
)

NOT_COMPARED_BY_DTYPE: dict[torch.dtype, dict[str, str]] = {
    torch.uint8: dict.fromkeys(INTEGER_IMAGES, "torch resizes uint8 with 15-bit integer weights: other roundings"),
    torch.complex64: {
        "aten.logaddexp.default": "real numbers only",
        "aten.logcumsumexp.default": "real numbers only",
        "aten.rand_like.default": "real numbers only",
    },
    torch.float16: {
        "aten.complex.default": "NumPy has no complex32",
        "aten.view_as_complex.default": "NumPy has no complex32",
    },
}
"""Further ones for one dtype, and why."""

HALF_ACCUMULATED = dict.fromkeys(
    (
        "aten.addbmm.default",
        "aten.addr.default",
        "aten.conv_transpose1d.default",
        "aten.conv_transpose2d.input",
        "aten.conv_transpose3d.input",
        "aten.convolution.default",
        "aten.grid_sampler.default",
        "aten.grid_sampler_2d.default",
        "aten.grid_sampler_3d.default",
        "aten.native_batch_norm.default",
        "aten.upsample_trilinear3d.default",
    ),
    (1e-2, 0.5),
)
"""Where eager torch rounds intermediate sums to float16 (NumPy does not): relative and absolute tolerance, for
sums of products of numbers up to 9."""


@functools.cache
def is_compared(name: str, dtype: torch.dtype) -> bool:
    """Whether calls of an overload (``aten.add.Tensor``) in samples of a dtype are compared."""
    left_out = name in NOT_COMPARED or name in NOT_COMPARED_BY_DTYPE.get(dtype, {})
    return not left_out and lookup(name) is not None


def check_recorded(tally: Tally, call: Call, dtype: torch.dtype) -> None:
    """Enter the comparison of a recorded call in a sample of a dtype; nothing where NumPy lacks a dtype of it."""
    name = str(call.func)
    if not is_compared(name, dtype):
        return
    if _drops_out(call):
        return
    if not (representable(call.args) and representable(call.kwargs) and representable(call.result)):
        return
    rtol, atol = HALF_ACCUMULATED.get(name, (None, None)) if dtype == torch.float16 else (None, None)
    found = compare(name, call.result, call.args, call.kwargs, rtol=rtol, atol=atol)
    enter(tally, name, found, call.args, call.kwargs)


def _drops_out(call: Call) -> bool:
    """Whether a composite operator draws random numbers: dropout, and attention with it."""
    given = dict(zip((a.name for a in call.func._schema.arguments), call.args, strict=False)) | call.kwargs
    return given.get("dropout_p", 0.0) > 0 or (given.get("p", 0.0) > 0 and given.get("train") is True)
