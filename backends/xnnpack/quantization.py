"""What XNNPACK computes on int8, for those who decide what is quantized."""

from __future__ import annotations

from etir.backends.api.conditions import constant, dtypes, not_empty, rank
from etir.backends.api.patterns import Match, condition
from etir.backends.api.quantization import QuantizedRow
from etir.backends.xnnpack.support import alpha_is_one, bounded, convolves, few_dims, mean_dims, whole_image


@condition("an ordinary convolution")
def not_transposed(match: Match) -> str | None:
    return "transposed" if match.arg("transposed") else None


@condition("a transposed convolution of one group")
def transposed(match: Match) -> str | None:
    return None if match.arg("transposed") and match.arg("groups") == 1 else "not transposed, or of several groups"


_COMMON = (not_empty(), few_dims, bounded)
_LAYER = (dtypes("float32"), *_COMMON, constant("weight", "bias"))
_ELEMENTS = (dtypes("float32"), *_COMMON)

ROWS = (
    QuantizedRow("aten.linear.default", ("input",), "weight", conditions=_LAYER),
    QuantizedRow("aten.convolution.default", ("input",), "weight", 0, (*_LAYER, convolves, not_transposed)),
    QuantizedRow("aten.convolution.default", ("input",), "weight", 1, (*_LAYER, convolves, transposed)),
    QuantizedRow("aten.add.Tensor", ("self", "other"), conditions=(*_ELEMENTS, alpha_is_one)),
    QuantizedRow("aten.sub.Tensor", ("self", "other"), conditions=(*_ELEMENTS, alpha_is_one)),
    QuantizedRow("aten.mul.Tensor", ("self", "other"), conditions=_ELEMENTS),
    QuantizedRow("aten.mean.dim", ("self",), conditions=(*_ELEMENTS, rank("self", 4), mean_dims)),
    QuantizedRow("aten.adaptive_avg_pool2d.default", ("self",), conditions=(*_ELEMENTS, whole_image)),
)
