"""`smooth-activations`: channels with large numbers, which take the scale from all others, move into the weights.

Before, of a norm whose third channel has numbers of 60 and whose others have numbers of 1::

    %y, %m, %r = edge.aten.native_layer_norm.default(%x, [64], %gamma, %beta, 1.0e-5) : ...
    %z = edge.aten.linear.default(%y, %w, %b) : ...

After ``smooth-activations{alpha=0.5 data=seen.npz}``, with the third numbers of the first two smaller and the third
column of the last one larger by the same factor::

    %y, %m, %r = edge.aten.native_layer_norm.default(%x, [64], %gamma_smoothed, %beta_smoothed, 1.0e-5) : ...
    %z = edge.aten.linear.default(%y, %w_smoothed, %b) : ...

The factor of a channel is a^alpha / w^(1 - alpha), with a and w the largest magnitudes of its numbers and of the
weights that read them (Xiao et al., *SmoothQuant: Accurate and Efficient Post-Training Quantization for Large Language
Models*, ICML 2023), as a power of two, so that results in floating point keep their bits. It is done wherever a layer
norm, the product of an RMS norm, or a layer writes channels that only layers read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.channels import LINEAR, channel_groups
from etir.quantization.errors import E1501, E1503
from etir.quantization.layers import COMPUTING, collect_inputs
from etir.quantization.parameters import Parameters
from etir.quantization.passes.equalize_channels import FARTHEST, scale_group
from etir.quantization.samples import samples_of


@register_pass
@dataclass(frozen=True)
class SmoothActivationsPass(Pass):
    """Move the sizes of channels from activations into weights.

    ``alpha`` is how much of them: 0 makes the columns of weights equal, 1 the channels. ``data`` is an ``.npz`` file of
    arrays with a sample in each index of their first dims.
    """

    name = "smooth-activations"
    alpha: float = 0.5
    data: str = ""

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1501 for an alpha that is not from 0 to 1, E1503 without data, E1504 for data that does not fit."""
        func = next(iter(methods(module)), None)
        samples = samples_of(self.data, func) if self.data else []
        if not samples or func is None:
            raise E1503.error("smooth-activations needs to see inputs: smooth-activations{data=FILE.npz}")
        smooth(module, self.alpha, samples, func.sym_name.data)


def smooth(module: ModuleOp, alpha: float, samples: Sequence[Sequence[Any]], method: str = "forward") -> int:
    """Smooth what layers read, and say how many groups of channels were changed. Raises E1501 for a wrong alpha."""
    if not 0 <= alpha <= 1:
        raise E1501.error(f"smoothing with alpha {alpha}, which is not from 0 to 1")
    sizes = _largest(module, samples, method)
    parameters = Parameters(module)
    changed = 0
    for func in methods(module):
        for group in channel_groups(func, parameters):
            seen = [sizes[end.op].reshape(-1, end.repeat).max(1) for end in group.readers if end.op in sizes]
            if len(seen) != len(group.readers):
                continue
            weights = [parameters.array(end.op.arg("weight")) for end in group.readers]  # type: ignore[arg-type]
            read = [end.ranges(weight, reads=True) for end, weight in zip(group.readers, weights, strict=True)]
            factors = _factors(np.max(seen, axis=0), np.max(read, axis=0), alpha)
            if (factors != 1).any():
                scale_group(group, 1 / factors, parameters, "smoothed")
                changed += 1
    return changed


def _factors(seen: np.ndarray, read: np.ndarray, alpha: float) -> np.ndarray:
    """By how much each channel becomes smaller: powers of two, 1 in the middle."""
    alive = (seen > 0) & (read > 0)
    exponents = np.zeros(len(seen))
    exponents[alive] = alpha * np.log2(seen[alive]) - (1 - alpha) * np.log2(read[alive])
    if alive.any():
        exponents[alive] -= np.median(exponents[alive])
    return 2.0 ** np.clip(np.rint(exponents), -FARTHEST, FARTHEST)


def _layers(module: ModuleOp) -> list[EdgeOp]:
    every = (op for method in methods(module) for op in method.walk() if isinstance(op, EdgeOp))
    return [op for op in every if op.op_name in COMPUTING]


def _largest(module: ModuleOp, samples: Sequence[Sequence[Any]], method: str) -> dict[EdgeOp, np.ndarray]:
    """The largest magnitude of each channel of the input of each layer."""
    layers = _layers(module)
    found: dict[EdgeOp, np.ndarray] = {}

    def look(index: int, value: np.ndarray) -> None:
        op = layers[index]
        channels = value.ndim - 1 if op.op_name == LINEAR else 1
        most = np.abs(value).max(axis=tuple(d for d in range(value.ndim) if d != channels))
        found[op] = np.maximum(found[op], most) if op in found else most

    collect_inputs(module, _layers, samples, look, method)
    return found
