"""What is done to a program in floating point so that integers hold it better, and whether it was any good.

Passes of this kind change no result (:mod:`~etir.quantization.unchanged` looks), only how numbers are spread. Where a
user does not say whether they are to run, the program is quantized with and without them for some samples, and the
better one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from etir.quantization.passes.equalize_channels import equalize
from etir.quantization.passes.smooth_activations import smooth
from etir.quantization.unchanged import same_results

FEW = 8
"""Samples that decide between two forms of a program."""


def prepared(
    module: ModuleOp,
    samples: Sequence[Sequence[Any]],
    wanted: bool | None,
    loss: Callable[[ModuleOp], float | None],
    alpha: float | None = None,
) -> tuple[ModuleOp, list[str]]:
    """``module`` with its channels equalized, or as it is, and what to tell the user of it.

    ``wanted`` is None for whatever loses less: ``loss`` gives the SQNR in dB of a module that it may change. With
    ``alpha``, what layers read is smoothed before. Raises E1501 for an alpha that is not from 0 to 1.
    """
    module, notes = _smoothed(module, samples, alpha)
    if wanted is not False:
        module, said = _equalized(module, samples, wanted, loss)
        notes += said
    return module, notes


def _smoothed(module: ModuleOp, samples: Sequence[Sequence[Any]], alpha: float | None) -> tuple[ModuleOp, list[str]]:
    if alpha is None:
        return module, []
    other = module.clone()
    count = smooth(other, alpha, samples)
    if not count:
        return module, ["no channels to smooth: nothing that layers alone read is written by a norm or a layer"]
    if not same_results(module, other, samples[0]):
        return module, ["channels are not smoothed: numbers would underflow"]
    return other, [f"channels of {count} value{'' if count == 1 else 's'} smoothed"]


def _equalized(
    module: ModuleOp,
    samples: Sequence[Sequence[Any]],
    wanted: bool | None,
    loss: Callable[[ModuleOp], float | None],
) -> tuple[ModuleOp, list[str]]:
    other = module.clone()
    count = equalize(other)
    if not count:
        return module, []
    told = f"channels of {count} value{'s' if count > 1 else ''} equalized"
    if samples and not same_results(module, other, samples[0]):
        return module, ["channels are not equalized: numbers would underflow"]
    if wanted:
        return other, [told]
    losses = [loss(candidate.clone()) for candidate in (module, other)]
    before, after = (float("-inf") if value is None else value for value in losses)
    if after > before:
        return other, [f"{told}: {after:.1f} dB, {before:.1f} dB without"]
    return module, [f"channels are not equalized: {after:.1f} dB, {before:.1f} dB without"]
