"""The arguments of ``et-compile`` that quantize, and what they do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from etir.tools.common import check_output, usage_error, write_output

if TYPE_CHECKING:
    from etir.options import CompileOptions


OPTIONS = (
    "calibration",
    "encodings",
    "quantize_skip",
    "quantize_report",
    "encodings_in",
    "encodings_out",
    "smooth",
    "equalize",
    "correct_bias",
    "round_weights",
    "block",
    "reduce_range",
    "budget",
)
"""Destinations of the options that say something about ``--quantize``."""


def add_quantize_arguments(parser: argparse.ArgumentParser) -> None:
    """``--quantize`` and what goes with it."""
    parser.add_argument(
        "--quantize",
        metavar="RECIPE",
        help="store numbers as integers: static-int8 (needs --calibration), dynamic-int8, 8da4w (these for delegates "
        "that compute on int8), weight-int8, weight-int4",
    )
    parser.add_argument(
        "--calibration", metavar="FILE.npz", help="inputs to see, a sample in each index of the first dim of each array"
    )
    parser.add_argument(
        "--encodings",
        default=argparse.SUPPRESS,
        metavar="METHOD",
        help="how ranges are chosen: minmax, percentile, mse, entropy (default: minmax)",
    )
    parser.add_argument(
        "--quantize-skip",
        default=argparse.SUPPRESS,
        metavar="PATTERN,...",
        help="source modules and operators that stay in float32: head.*, aten.mul.Tensor",
    )
    parser.add_argument(
        "--encodings-in",
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="scales and zero points of activations to take, as AIMET's JSON; or an ONNX model on QuantizeLinear and "
        "DequantizeLinear (FILE.onnx), of which weights are taken as well; others follow from the calibration",
    )
    parser.add_argument(
        "--encodings-out",
        default=argparse.SUPPRESS,
        metavar="FILE.json",
        help="write all scales and zero points as AIMET's JSON, to be edited and given to --encodings-in",
    )
    parser.add_argument(
        "--smooth",
        type=float,
        default=argparse.SUPPRESS,
        metavar="ALPHA",
        help="move the sizes of channels from activations into weights: 0.5 half of them",
    )
    parser.add_argument(
        "--equalize",
        choices=("auto", "on", "off"),
        default=argparse.SUPPRESS,
        help="scale channels between layers, at no change of results: where it loses less (auto, the default), always "
        "where it can be, or never",
    )
    parser.add_argument(
        "--block",
        type=int,
        default=argparse.SUPPRESS,
        metavar="SIZE",
        help="weights of weight-int4 that share a scale, 0 for all of an output channel (default: 32)",
    )
    parser.add_argument(
        "--reduce-range",
        action="store_true",
        default=argparse.SUPPRESS,
        help="weights of 8 bits from -63 to 63: faster on x86 processors without VNNI, and less exact",
    )
    parser.add_argument(
        "--round-weights",
        default=argparse.SUPPRESS,
        metavar="METHOD",
        help="how integers of weights are chosen: nearest, mse, hqq, or with --calibration gptq, awq",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=argparse.SUPPRESS,
        metavar="DB",
        help="put layers back to float32 until outputs are this many dB from float32 (needs --calibration)",
    )
    parser.add_argument(
        "--correct-bias",
        action="store_true",
        default=argparse.SUPPRESS,
        help="take the mean error of rounded weights off the biases (needs --calibration)",
    )
    parser.add_argument(
        "--quantize-report", metavar="FILE", help="write what became of each layer, as JSON; --report prints it as text"
    )


def quantized_source(arguments: argparse.Namespace, source: Any, options: CompileOptions) -> Any:
    """What is compiled: ``source``, or its module on integers. Raises what ``etir.quantize`` does."""
    given = vars(arguments)
    if arguments.quantize is None:
        named = [name for name in OPTIONS if given.get(name) is not None]
        if named:
            raise usage_error(f"--{named[0].replace('_', '-')} goes with --quantize RECIPE")
        return source
    from etir.quantization.aimet import encodings_text
    from etir.quantized import quantize_program

    check_output(arguments.quantize_report)
    check_output(given.get("encodings_out"))
    found = quantize_program(
        source,
        arguments.quantize,
        calibration=arguments.calibration if arguments.calibration is not None else (),
        block=given.get("block", 32),
        reduce_range="reduce_range" in given,
        encodings=given.get("encodings", "minmax"),
        skip=tuple(given.get("quantize_skip", "").split(",")) if "quantize_skip" in given else (),
        ranges=given.get("encodings_in"),
        smooth=given.get("smooth"),
        equalize={"auto": None, "on": True, "off": False}[given.get("equalize", "auto")],
        rounding=given.get("round_weights"),
        correct_bias="correct_bias" in given,
        budget=given.get("budget"),
        options=options,
    )
    if "encodings_out" in given:
        write_output(given["encodings_out"], encodings_text(found.observed))
    if arguments.quantize_report is not None:
        write_output(arguments.quantize_report, found.report.to_json() + "\n")
    if arguments.report == "text":
        print(found.report, end="\n\n")
    return found.module
