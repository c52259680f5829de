"""What became of every layer: how it is stored, the range, the share that is clipped, the loss, bytes, and why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isinf, log10
from typing import Any

import numpy as np


def sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    """Signal to quantization noise in dB, ``10 log10(sum(a^2) / sum((a - b)^2))``; infinite where both are equal."""
    a = wanted.astype(np.float64)
    signal = _energy(a)
    np.subtract(a, found, out=a)
    noise = _energy(a)
    if noise == 0.0:
        return inf
    return 10 * log10(signal / noise) if signal else -inf


def _energy(numbers: np.ndarray) -> float:
    """The sum of squares, in one pass and the same for any number of threads, which a BLAS does not promise."""
    flat = numbers.ravel(order="K")
    return float(np.einsum("i,i->", flat, flat))


@dataclass(frozen=True)
class Layer:
    """One operator. ``stored`` is one of :data:`KINDS`, ``reason`` why not integers. ``low`` and ``high`` are what
    calibration saw of the result, ``clipped`` the share of it that is not in the range of the integers. ``weight_sqnr``
    is the loss of the weight alone, ``alone_sqnr`` that of the result by this operator, ``result_sqnr`` by everything
    up to it, on the first sample, in dB. ``weight_bytes`` are those in the file.
    """

    name: str
    operator: str
    stored: str
    low: float | None = None
    high: float | None = None
    clipped: float | None = None
    weight_sqnr: float | None = None
    result_sqnr: float | None = None
    weight_bytes: int = 0
    reason: str = ""
    alone_sqnr: float | None = None


@dataclass(frozen=True)
class QuantizationReport:
    """All layers in order. ``output_sqnr`` is the loss of the outputs over all calibration data, None without data.
    ``notes`` say what else was done.
    """

    recipe: str
    layers: tuple[Layer, ...]
    samples: int = 0
    output_sqnr: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> list[Layer]:
        """The layers on integers, the one whose result has lost most first."""
        measured = [layer for layer in self.layers if layer.result_sqnr is not None]
        return sorted(measured, key=lambda layer: layer.result_sqnr or 0.0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: infinite losses are None."""
        found = asdict(self)
        for layer in found["layers"]:
            layer.update({k: None for k, v in layer.items() if isinstance(v, float) and isinf(v)})
        found["output_sqnr"] = None if self.output_sqnr is None or isinf(self.output_sqnr) else self.output_sqnr
        return found

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        counts = {kind: sum(layer.stored == kind for layer in self.layers) for kind in KINDS}
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        lines = [f"quantization: {self.recipe}; layers: {told or 'none'}"]
        if self.output_sqnr is not None:
            lines.append(f"outputs: {_number(self.output_sqnr)} dB from float32 over {self.samples} samples")
        lines += self.notes
        rows = [_HEAD, *(_row(layer) for layer in self.layers)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        for row in rows:
            cells = [
                cell.ljust(w) if i in _LEFT else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


KINDS = (
    "int8",
    "int8, int7 weights",
    "int8 at run time",
    "int8 at run time, int7 weights",
    "int8 at run time, int4 weights",
    "int8 weights",
    "int7 weights",
    "int4 weights",
    "float32",
)
"""How a layer is stored: it computes on int8 with scales that calibration or each run has found, or it computes in
float32 from integers, or from float32.
"""
_HEAD = (
    "layer",
    "operator",
    "stored",
    "least",
    "greatest",
    "clipped",
    "weight dB",
    "alone dB",
    "result dB",
    "bytes",
    "why",
)
_LEFT = (0, 1, 2, 10)


def _number(value: float | None) -> str:
    return "" if value is None else "exact" if value == inf else f"{value:.1f}"


def _row(layer: Layer) -> Sequence[str]:
    bounds = ["" if bound is None else f"{bound:.4g}" for bound in (layer.low, layer.high)]
    clipped = "" if layer.clipped is None else f"{layer.clipped:.2%}"
    size = str(layer.weight_bytes) if layer.weight_bytes else ""
    losses = [_number(loss) for loss in (layer.weight_sqnr, layer.alone_sqnr, layer.result_sqnr)]
    return (layer.name, layer.operator, layer.stored, *bounds, clipped, *losses, size, layer.reason)
