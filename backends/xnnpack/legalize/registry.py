"""The legalisers by operator."""

from __future__ import annotations

from etir.backends.xnnpack.legalize import convolution, elementwise, linear, pooling, quantized, shape
from etir.backends.xnnpack.legalize.legalizer import Legalizer

LEGALIZERS: dict[str, Legalizer] = {
    **elementwise.LEGALIZERS,
    **shape.LEGALIZERS,
    **linear.LEGALIZERS,
    **convolution.LEGALIZERS,
    **pooling.LEGALIZERS,
    **quantized.LEGALIZERS,
}
"""Every legaliser by the name of its operator."""
