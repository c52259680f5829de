"""Spectra of windows that move along a signal."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.et.layout import tensor_type
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import window_count
from etir.lowering.decompose_aten.decomposition import decomposition

UNSCALED, BY_ROOT = 0, 1
"""torch's numbers of the normalizations."""


@decomposition(aten.stft.default)
def stft(
    b: Builder,
    x: SSAValue,
    size: int,
    hop: int | None,
    length: int | None,
    window: SSAValue | None,
    normalized: bool,
    onesided: bool | None,
    as_complex: bool | None,
    aligned: bool | None,
) -> SSAValue | None:
    """``_fft_r2c`` of overlapping slices, each times the window"""
    return _spectra(b, x, size, hop, length, window, normalized, onesided, as_complex, aligned)


@decomposition(aten.stft.center)
def stft_centered(
    b: Builder,
    x: SSAValue,
    size: int,
    hop: int | None,
    length: int | None,
    window: SSAValue | None,
    centered: bool,
    pad_mode: str,
    *rest: Any,
) -> SSAValue | None:
    """The same of the signal with half a window more on both sides"""
    if centered:
        pad = [size // 2, size // 2]
        match pad_mode:
            case "reflect":
                x = b(aten.reflection_pad1d.default, x, pad) if rank(x) == 2 else _as_row(b, x, pad)
            case "constant":
                x = b(aten.constant_pad_nd.default, x, pad, 0)
            case _:
                return b.notify_match_failure(f"it pads with '{pad_mode}'")
    return _spectra(b, x, size, hop, length, window, *rest)


def _as_row(b: Builder, x: SSAValue, pad: list[int]) -> SSAValue:
    return b.squeeze(b(aten.reflection_pad1d.default, b.unsqueeze(x, 0), pad), 0)


def _spectra(
    b: Builder,
    x: SSAValue,
    size: int,
    hop: int | None,
    length: int | None,
    window: SSAValue | None,
    normalized: bool,
    onesided: bool | None,
    as_complex: bool | None,
    aligned: bool | None,
) -> SSAValue | None:
    taken = [x] if window is None else [x, window]
    if aligned or any(isinstance(element(t), ComplexType) for t in taken):
        return b.notify_match_failure("it is complex, or aligned to the window")
    type, step, width = element(x), hop or size // 4, length or size
    rows = x if rank(x) == 2 else b.unsqueeze(x, 0)
    batch, total = dims(rows)
    count = window_count(total, size, step, 0)
    frames = b(aten.unfold.default, rows, 1, size, step, types=[tensor_type(type, [batch, count, size])])
    if window is None and width != size:
        window = b.full([width], 1.0, type)
    if window is not None:
        before = (size - width) // 2
        padded = window
        if width != size:
            padded = b(aten.constant_pad_nd.default, window, [before, size - width - before], 0)
        frames = b.mul(frames, padded)
    half = onesided is None or onesided
    kind = tensor_type(ComplexType(type), [batch, count, size // 2 + 1 if half else size])  # type: ignore[type-var]
    scale = BY_ROOT if normalized else UNSCALED
    spectra = b(aten._fft_r2c.default, frames, [2], scale, half, types=[kind])
    result = b.transpose(spectra, 1, 2)
    result = result if rank(x) == 2 else b.squeeze(result, 0)
    return result if as_complex else b(aten.view_as_real.default, result, types=[b.declared])
