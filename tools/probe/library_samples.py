"""Sample calls of the operators that are not ATen's: runtime primitives, quantized kernels and kernels for LLMs.

PyTorch has no independent implementation of these, so every sample gives the shapes of its results.
"""

from __future__ import annotations

from etir.emit.formats.scalar_type import ScalarType
from etir.tools.probe.sample import Argument, Sample, T

_CHAR, _BYTE, _SHORT, _INT = ScalarType.CHAR, ScalarType.BYTE, ScalarType.SHORT, ScalarType.INT
_LONG, _FLOAT, _DOUBLE, _HALF = ScalarType.LONG, ScalarType.FLOAT, ScalarType.DOUBLE, ScalarType.HALF


def _s(*args: Argument, outs: tuple[T | tuple[T, ...], ...] = (), shape_only: bool = False) -> Sample:
    return Sample(args, outs, shape_only=shape_only)


_NUMBERS = (2, 2.5, True)
_PAIRS = tuple((a, b) for a in _NUMBERS for b in _NUMBERS)
_BINARY = ["add", "sub", "mul", "eq", "gt", "lt", "ge", "le", "floordiv", "truediv", "mod", "sym_max", "sym_min"]
_UNARY = ["neg", "ceil", "round", "trunc", "sym_float", "sym_int", "sym_not"]

PRIM_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "aten::sym_size.int": (_s(T((2, 3)), 1), _s(T((2, 3, 2, 3)), 0, shape_only=True)),
    "aten::sym_numel": (_s(T((2, 3))),),
    "aten::_local_scalar_dense": (_s(T(())), _s(T((1,)), shape_only=True)),
    **{f"executorch_prim::{name}.Scalar": tuple(_s(a, b) for a, b in _PAIRS) for name in _BINARY},
    **{f"executorch_prim::{name}.int": tuple(_s(a, b) for a, b in _PAIRS) for name in ("floordiv", "mod")},
    **{f"executorch_prim::{name}.Scalar": tuple(_s(a) for a in _NUMBERS) for name in _UNARY},
    "executorch_prim::sym_ite.Scalar": tuple(_s(c, a, b) for c in (True, 1) for a, b in _PAIRS),
    "executorch_prim::et_copy_index.tensor": (_s(T((2, 3)), T((3,)), 1),),
    "executorch_prim::et_view.default": (
        _s(T((2, 3)), (3, 2), outs=(T((3, 2)),)),
        _s(T((2, 3, 2, 3)), (2, 3, -1, 3), outs=(T((2, 3, 2, 3)),), shape_only=True),
    ),
}

_X = T((2, 3))
_ROW_SCALES, _ROW_ZEROS = T((2, 1), dtype=_DOUBLE), T((2, 1), "zero", _LONG)
_COLUMN_SCALES, _COLUMN_ZEROS = T((3,), dtype=_DOUBLE), T((3,), "zero", _LONG)
_SCALE, _ZERO = T((1,), dtype=_DOUBLE), T((1,), "zero", _LONG)
_RANGES = {
    _CHAR: (-128, 127),
    _BYTE: (0, 255),
    _SHORT: (-32768, 32767),
    _INT: (-(2**31), 2**31 - 1),
    ScalarType.UINT16: (0, 65535),
    ScalarType.BITS16: (0, 65535),
}
_TABLE_SCALES = T((3,))
_INDICES = T((2, 3), "index3")
_Q = "quantized_decomposed::"


def _quantize(*parameters: Argument) -> tuple[Sample, ...]:
    return tuple(_s(_X, *parameters, *limits, t, outs=(T((2, 3), dtype=t),)) for t, limits in _RANGES.items())


def _dequantize(*parameters: Argument, tail: tuple[Argument, ...] = (None,)) -> tuple[Sample, ...]:
    return tuple(
        _s(T((2, 3), "small", t), *parameters, *limits, t, *tail, outs=(T((2, 3)),)) for t, limits in _RANGES.items()
    )


def _embedding(columns: int, least: int, greatest: int, weight: ScalarType, *tail: Argument) -> tuple[Sample, ...]:
    table = T((3, columns), dtype=weight)
    out = (T((2, 3, 8)),)
    return tuple(
        _s(table, _TABLE_SCALES, zeros, least, greatest, _INDICES, *tail, outs=out) for zeros in (None, T((3,), "zero"))
    )


QUANTIZED_SAMPLES: dict[str, tuple[Sample, ...]] = {
    f"{_Q}add.out": (
        _s(
            *(T((2, 3), dtype=_BYTE), 0.5, 0, 0, 255),
            *(T((2, 3), dtype=_BYTE), 0.5, 0, 0, 255),
            *(0.5, 0, 0, 255),
            outs=(T((2, 3), dtype=_BYTE),),
        ),
    ),
    f"{_Q}choose_qparams.Tensor_out": (
        _s(_X, -128, 127, 1e-5, _CHAR, outs=(T((1,), dtype=_DOUBLE), T((1,), dtype=_LONG))),
    ),
    f"{_Q}choose_qparams_per_token_asymmetric.out": (
        _s(_X, _CHAR, outs=(T((2, 1), dtype=_DOUBLE), T((2, 1), dtype=_LONG))),
    ),
    f"{_Q}quantize_per_tensor.out": _quantize(0.5, 0),
    f"{_Q}quantize_per_tensor.Tensor_out": _quantize(_SCALE, _ZERO),
    f"{_Q}quantize_per_channel.out": _quantize(_COLUMN_SCALES, _COLUMN_ZEROS, 1),
    f"{_Q}quantize_per_token.out": _quantize(_ROW_SCALES, _ROW_ZEROS),
    f"{_Q}dequantize_per_tensor.out": (*_dequantize(0.5, 0), *_dequantize(0.5, 0, tail=(_HALF,))[:1]),
    f"{_Q}dequantize_per_tensor.Tensor_out": _dequantize(_SCALE, _ZERO),
    f"{_Q}dequantize_per_channel.out": (
        *_dequantize(_COLUMN_SCALES, _COLUMN_ZEROS, 1),
        *_dequantize(_COLUMN_SCALES, None, 1)[:1],
    ),
    f"{_Q}dequantize_per_token.out": _dequantize(_ROW_SCALES, _ROW_ZEROS, tail=(_FLOAT,)),
    f"{_Q}embedding_byte.out": _embedding(8, -128, 127, _CHAR),
    f"{_Q}embedding_byte.dtype_out": (
        *_embedding(8, -128, 127, _CHAR, None),
        *_embedding(8, -128, 127, _CHAR, _FLOAT),
    ),
    f"{_Q}embedding_4bit.out": _embedding(4, -8, 7, _BYTE),
    f"{_Q}embedding_4bit.dtype_out": (*_embedding(4, -8, 7, _BYTE, None), *_embedding(4, -8, 7, _BYTE, _FLOAT)),
    f"{_Q}embedding_2bit.out": _embedding(2, -2, 1, _BYTE),
    f"{_Q}embedding_2bit.dtype_out": (*_embedding(2, -2, 1, _BYTE, None), *_embedding(2, -2, 1, _BYTE, _FLOAT)),
    f"{_Q}mixed_mm.out": (
        _s(_X, T((3, 4), dtype=_CHAR), T((3,)), None, outs=(T((2, 4)),)),
        _s(_X, T((3, 4), dtype=_CHAR), T((3,)), T((3,), "zero"), outs=(T((2, 4)),)),
    ),
    f"{_Q}mixed_linear.out": tuple(
        _s(_X, T((4, 3), dtype=_CHAR), T((4,)), zeros, dtype, outs=(T((2, 4)),))
        for zeros in (None, T((4,), "zero"))
        for dtype in (None, _FLOAT)
    ),
}

_HEADS = T((1, 2, 2, 4))
_STEP = T((1, 1, 2, 4))
_CACHE = T((1, 4, 2, 4))

CUSTOM_SAMPLES: dict[str, tuple[Sample, ...]] = {
    "llama::custom_sdpa.out": (
        _s(_HEADS, _HEADS, _HEADS, 0, None, 0.0, False, None, outs=(_HEADS,)),
        _s(_HEADS, _HEADS, _HEADS, 0, T((2, 2), "zero"), 0.0, False, None, outs=(_HEADS,)),
    ),
    "llama::sdpa_with_kv_cache.out": (
        _s(_STEP, _STEP, _STEP, _CACHE, _CACHE, 0, 1, None, 0.0, False, None, outs=(_STEP,)),
    ),
    "llama::update_cache.out": (_s(_STEP, _CACHE, 0, outs=(T((1,)),)),),
    "llama::update_cache_with_indices.out": (_s(_STEP, _CACHE, 0, T((1, 1), "index2"), outs=(T((1,)),)),),
    "llama::fast_hadamard_transform.out": (_s(T((2, 4)), outs=(T((2, 4)),)),),
    # Weights of zeros: 4 experts of sizes 16 and 16, with 4 bits and one group.
    # Weights of zeros: 4 experts of sizes 16 and 16, with 4 bits and one group.
    "llama::quantized_moe_ffn.out": (
        _s(
            *(T((2, 16)), T((4, 16)), T((4,)), T((4, 576), "zero", _BYTE), T((4, 320), "zero", _BYTE)),
            *(2, 4, 16, 16, 16, 4, "sigmoid", 1.0),
            outs=(T((2, 16)),),
        ),
    ),
    "llama::fallback.out": (_s(T((2, 3)), outs=(T((2, 3)),)),),
    "preprocess::tile_crop.out": (_s(T((3, 4, 4)), 2, outs=(T((4, 3, 2, 2)),)),),
}
