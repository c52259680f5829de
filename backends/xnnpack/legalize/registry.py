"""The legalizers of all families: importing a family enters its own."""

from __future__ import annotations

from etir.backends.xnnpack.legalize import convolution, elementwise, linear, pooling, quantized, shape  # noqa: F401
from etir.backends.xnnpack.legalize.legalizer import LEGALIZERS as LEGALIZERS
