"""From float32 to integers: which operators, with which scales, and what it costs in accuracy.

``annotate-quantization`` marks what a backend computes on int8 (rows of
:mod:`~etir.backends.api.quantization`), :mod:`~etir.quantization.calibration` runs the program and sees ranges,
:mod:`~etir.quantization.encodings` makes scales of them, ``materialize-quantization`` writes integers, and
:mod:`~etir.quantization.report` says of every layer what became of it. :func:`~etir.quantized.quantize_program`
is all of it. A program that is not quantized never loads anything of this package.
"""
