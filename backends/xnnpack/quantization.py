"""What XNNPACK computes on int8, for those who decide what is quantized."""

from __future__ import annotations

from etir.backends.api.conditions import constant, dtypes, not_empty, rank
from etir.backends.api.patterns import Match, condition
from etir.backends.api.quantization import DYNAMIC, QuantizedRow, in_blocks, never
from etir.backends.xnnpack.legalize.quantized import BLOCK_MULTIPLE
from etir.backends.xnnpack.support import alpha_is_one, bounded, convolves, few_dims, mean_dims, whole_image


@condition("an ordinary convolution")
def not_transposed(match: Match) -> str | None:
    return "transposed" if match.arg("transposed") else None


@condition("a transposed convolution of one group")
def transposed(match: Match) -> str | None:
    if not match.arg("transposed"):
        return "not transposed"
    return None if match.arg("groups") == 1 else f"a transposed convolution of {match.arg('groups')} groups"


_COMMON = (not_empty(), few_dims, bounded)
_LAYER = (dtypes("float32"), *_COMMON, constant("weight", "bias"))
_ELEMENTS = (dtypes("float32"), *_COMMON)
_SLOW = (
    "a convolution whose input gets scales at run time is far slower than in float32: use static-int8 or weight-int8"
)

ROWS = (
    QuantizedRow("aten.linear.default", ("input",), "weight", conditions=_LAYER),
    QuantizedRow("aten.convolution.default", ("input",), "weight", 0, (*_LAYER, not_transposed, convolves)),
    QuantizedRow("aten.convolution.default", ("input",), "weight", 1, (*_LAYER, transposed, convolves)),
    QuantizedRow("aten.add.Tensor", ("self", "other"), conditions=(*_ELEMENTS, alpha_is_one)),
    QuantizedRow("aten.sub.Tensor", ("self", "other"), conditions=(*_ELEMENTS, alpha_is_one)),
    QuantizedRow("aten.mul.Tensor", ("self", "other"), conditions=_ELEMENTS),
    QuantizedRow("aten.mean.dim", ("self",), conditions=(*_ELEMENTS, rank("self", 4), mean_dims)),
    QuantizedRow("aten.adaptive_avg_pool2d.default", ("self",), conditions=(*_ELEMENTS, whole_image)),
    QuantizedRow(
        "aten.linear.default",
        ("input",),
        "weight",
        0,
        (*_LAYER, rank("weight", 2), in_blocks(BLOCK_MULTIPLE)),
        DYNAMIC,
        bits=4,
        block=BLOCK_MULTIPLE,
    ),
    QuantizedRow("aten.linear.default", ("input",), "weight", 0, _LAYER, DYNAMIC),
    QuantizedRow("aten.convolution.default", ("input",), "weight", 0, (never(_SLOW),), DYNAMIC),
)
