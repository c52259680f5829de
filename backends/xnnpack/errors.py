"""Error ids of the XNNPACK delegate, beside those of :mod:`etir.backends.errors`."""

from etir.diagnostics import define

E1150 = define(
    "E1150",
    "the XNNPACK graph cannot be written",
    "correct the graph's text: the message names the operation and what the format can say",
)
