"""Ids of what can go wrong while a program is quantized."""

from __future__ import annotations

from etir.diagnostics import define

E1501 = define(
    "E1501",
    "there is no such recipe",
    "recipes are static-int8, dynamic-int8, 8da4w, weight-int8 and weight-int4; `docs/guide/quantization.md` says what "
    "each of them does",
)
E1502 = define(
    "E1502",
    "the target cannot do what the recipe says",
    "name a backend that computes on int8 (delegates=['xnnpack']), or quantize the weights only (weight-int8)",
)
E1503 = define(
    "E1503",
    "there is no calibration data",
    "give some inputs as the program is going to see them: calibration=[inputs, ...], --calibration FILE.npz",
)
E1504 = define(
    "E1504",
    "the calibration data does not fit the program",
    "every array has a sample in each index of its first dim; samples have the shape and the dtype of the inputs",
)
E1505 = define(
    "E1505",
    "a value has no range",
    "take the sample out, or leave out what computes it (skip=...)",
)
E1506 = define(
    "E1506",
    "nothing of the program can be quantized",
    "`reasons` above say why; what is quantized already stays as it is",
)
E1507 = define(
    "E1507",
    "the search for precisions cannot be made",
    "a budget is the SQNR of the outputs in dB, or, with a metric, what it may lose; the metric takes the outputs of "
    "every sample",
)
E1508 = define(
    "E1508",
    "the file of encodings does not fit the program",
    "write the file of the same program, recipe and delegates with --encodings-out, and edit that one",
)
