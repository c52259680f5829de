"""`equalize-channels`: channels that differ by much in their weights are brought to one size, at no change of results.

Before, with filters of 1000 and 0.001 for the two channels::

    %y = edge.aten.convolution.default(%x, %w1, %b1, ...) : ...
    %r = edge.aten.relu.default(%y) : ...
    %z = edge.aten.convolution.default(%r, %w2, %b2, ...) : ...

After, the filters of the first are multiplied by 2^-10 and 2^10, those that the second has for them by 2^10 and 2^-10::

    %y = edge.aten.convolution.default(%x, %w1_equalized, %b1_equalized, ...) : ...
    %r = edge.aten.relu.default(%y) : ...
    %z = edge.aten.convolution.default(%r, %w2_equalized, %b2, ...) : ...

int8 has one scale for all channels of a value, so that what is small in one of them would be lost. Factors are found
for all values together, round by round: the one for a channel is sqrt(r / w), with w and r the largest magnitudes of
the weights that write it and that read it (Nagel et al., *Data-Free Quantization through Weight Equalization and Bias
Correction*, ICCV 2019). They are rounded to powers of two, by which products and sums in floating point are exact:
every result has the same bits as before, unless a number is so small that it underflows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.channels import End, Group, channel_groups
from etir.quantization.parameters import Parameters

ROUNDS = 30
FARTHEST = 24
"""The largest exponent of a factor: what is farther away is as good as zero."""


@register_pass
@dataclass(frozen=True)
class EqualizeChannelsPass(Pass):
    """Scale the channels between layers by powers of two, so that one scale fits all of them."""

    name = "equalize-channels"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Equalize in every method."""
        equalize(module)


def equalize(module: ModuleOp) -> int:
    """Equalize, and say how many groups of channels were changed."""
    parameters = Parameters(module)
    return sum(_Equalizer(channel_groups(func, parameters), parameters).run() for func in methods(module))


class _Equalizer:
    def __init__(self, groups: list[Group], parameters: Parameters):
        self.parameters = parameters
        self.groups = [g for g in groups if all(end.is_layer for end in g.writers)]
        self.exponents = [np.zeros(group.size) for group in self.groups]
        ends = [end for group in self.groups for end in (*group.writers, *group.readers)]
        self.weights = {end.op: self._weight(end).astype(np.float64) for end in ends}

    def _weight(self, end: End) -> np.ndarray:
        value = end.op.arg("weight")
        assert isinstance(value, SSAValue)
        return self.parameters.array(value)

    def run(self) -> int:
        for _ in range(ROUNDS):
            if max((self._round(i) for i in range(len(self.groups))), default=0.0) < 0.01:
                break
        return sum(self._apply(i) for i in range(len(self.groups)))

    def _round(self, index: int) -> float:
        """Bring one group's weights to one size; the largest change of an exponent."""
        group = self.groups[index]
        written = np.max([end.ranges(self.weights[end.op], reads=False) for end in group.writers], axis=0)
        read = np.max([end.ranges(self.weights[end.op], reads=True) for end in group.readers], axis=0)
        alive = (written > 0) & (read > 0)
        if not alive.any():
            return 0.0
        step = np.zeros(group.size)
        step[alive] = np.log2(read[alive] / written[alive]) / 2
        step[alive] -= np.median(step[alive])
        self.exponents[index] += step
        for end in group.writers:
            self.weights[end.op] = end.scaled("weight", self.weights[end.op], 2.0**step, reads=False)
        for end in group.readers:
            self.weights[end.op] = end.scaled("weight", self.weights[end.op], 2.0**-step, reads=True)
        return float(np.abs(step).max())

    def _apply(self, index: int) -> bool:
        factors = 2.0 ** np.clip(np.rint(self.exponents[index]), -FARTHEST, FARTHEST)
        if (factors == 1).all():
            return False
        scale_group(self.groups[index], factors, self.parameters, "equalized")
        return True


def scale_group(group: Group, factors: np.ndarray, parameters: Parameters, suffix: str) -> None:
    """Make the values of a group ``factors`` times as large, a factor for each channel: its writers are, and its
    readers undo it.
    """
    for ends, by, reads in ((group.writers, factors, False), (group.readers, 1 / factors, True)):
        for end in ends:
            for name in end.parameters:
                value = end.op.arg(name)
                assert isinstance(value, SSAValue)
                array = parameters.array(value).astype(np.float64)
                parameters.replace(end.op, name, end.scaled(name, array, by, reads=reads), suffix)
