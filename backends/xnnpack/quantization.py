"""What XNNPACK computes on int8, for those who decide what is quantized."""

from __future__ import annotations

from etir.backends.api.conditions import constant, dtypes, literal, not_empty, rank
from etir.backends.api.patterns import Match, condition
from etir.backends.api.quantization import DYNAMIC, WEIGHT, QuantizedRow, in_blocks, never
from etir.backends.xnnpack.legalize.quantized import BLOCK_MULTIPLE
from etir.backends.xnnpack.support import alpha_is_one, bounded, convolves, few_dims, mean_dims, plain_elu, whole_image


@condition("an ordinary convolution")
def not_transposed(match: Match) -> str | None:
    return "transposed" if match.arg("transposed") else None


@condition("a transposed convolution of one group")
def transposed(match: Match) -> str | None:
    if not match.arg("transposed"):
        return "not transposed"
    return None if match.arg("groups") == 1 else f"a transposed convolution of {match.arg('groups')} groups"


@condition("a filter of one element, which is a layer")
def pointwise(match: Match) -> str | None:
    weight = match.type("weight")
    shape = () if weight is None else weight.get_shape()
    numbers = (*match.arg("padding"), *(step - 1 for step in match.arg("stride")), *(size - 1 for size in shape[2:]))
    is_layer = len(shape) == 4 and not any(numbers) and match.arg("groups") == 1 and not match.arg("transposed")
    return None if is_layer else _FILTER


_COMMON = (not_empty(), few_dims, bounded)
_LAYER = (dtypes("float32"), *_COMMON, constant("weight", "bias"))
_ELEMENTS = (dtypes("float32"), *_COMMON)
_FUNCTION = dict.fromkeys(("gelu", "hardswish", "sigmoid", "tanh"), _ELEMENTS)
_FUNCTION |= {"elu": (*_ELEMENTS, plain_elu), "leaky_relu": (*_ELEMENTS, literal("negative_slope"))}
"""Functions of one number that layers end with."""
_NO_NODE = "XNNPACK has no such node on int8"
_FLOATS = (
    "aten._softmax.default",
    "aten.native_layer_norm.default",
    "aten.avg_pool2d.default",
    "aten.div.Tensor",
    "aten.hardsigmoid.default",
    "aten.prelu.default",
    "aten.silu.default",
)
"""Operators that take much of the time of a net, and that are delegated in floating point."""
_TWO = "a product of two computed matrices: XNNPACK multiplies such on int8 only where the second has a zero point of 0"
_FILTER = (
    "XNNPACK has no convolution of float32 with a filter of integers, which would be float32 in the file all the same: "
    "use static-int8"
)
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
    *(QuantizedRow(f"aten.{name}.default", ("self",), conditions=held) for name, held in _FUNCTION.items()),
    *(QuantizedRow(name, (), conditions=(never(_NO_NODE),)) for name in _FLOATS),
    *(QuantizedRow(f"aten.{name}.default", (), conditions=(never(_TWO),)) for name in ("bmm", "mm")),
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
    QuantizedRow("aten.convolution.default", (), "weight", 0, (pointwise,), WEIGHT),
)
