"""The xnn dialect: text, both forms, and what the verifier refuses."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from xdsl.printer import Printer

import etir
from etir.backends.api.registry import backend_dialects, backend_of_runtime_id
from etir.backends.xnnpack.dialect import NODE_OPS
from etir.backends.xnnpack.schema import NODES
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.emit.from_pte import read_program
from etir.interpret import run_module
from etir.passes.infra.manager import run_pipeline
from etir.passes.infra.pipeline import parse_pipeline

GOOD = """
func.func @graph(%x: tensor<1x3x8x8xf32>, %q: !xnn.tensor<2x64xqint8, scale = 0.0125, zero_point = -3>) \
-> tensor<1x4x4x8xf32> {
  %0 = xnn.input(%x) : (tensor<1x3x8x8xf32>) -> !xnn.tensor<1x3x8x8xfp32>
  %w = xnn.constant "key" : !xnn.tensor<8x3x3x3xfp32>
  %c = xnn.constant "w8" scales "s" : !xnn.tensor<4x64xqcint8, channel = 0>
  %n = xnn.constant "w8" scales [1.0, 2.0, 3.0, 0.5] : !xnn.tensor<4x64xqcint8, channel = 0>
  %g = xnn.constant "w4" scales "s4" : !xnn.tensor<4x64xqbint4, channel = 0, block = 32>
  %1 = xnn.static_transpose(%0, perm = [0, 2, 3, 1]) : (!xnn.tensor<1x3x8x8xfp32>) -> !xnn.tensor<1x8x8x3xfp32>
  %2 = xnn.conv2d(%1, %w, none, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, \
kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, \
dilation_width = 1, group_input_channels = 3, group_output_channels = 8, groups = 1, clamp = [0.0, inf], handle = 4) \
: (!xnn.tensor<1x8x8x3xfp32>, !xnn.tensor<8x3x3x3xfp32>) -> !xnn.tensor<1x4x4x8xfp32>
  %3 = xnn.leaky_relu(%2, negative_slope = 0.01) : (!xnn.tensor<1x4x4x8xfp32>) -> !xnn.tensor<1x4x4x8xfp32>
  %4 = xnn.output(%3) : (!xnn.tensor<1x4x4x8xfp32>) -> tensor<1x4x4x8xf32>
  func.return %4 : tensor<1x4x4x8xf32>
}
"""


def test_custom_form() -> None:
    """Printed and parsed again it is the same text, and it verifies."""
    module = parse_module(GOOD, EtContext(dialects=backend_dialects()))
    verify_module(module)
    text = print_module(module)
    assert print_module(parse_module(text, EtContext(dialects=backend_dialects()))) == text
    for part in ("clamp = [0.0, inf], handle = 4)", "scales [1.0, 2.0, 3.0, 0.5]", "block = 32>", ", none, padding"):
        assert part in text


def test_generic_form() -> None:
    """The generic form parses to the same operations."""
    module = parse_module(GOOD, EtContext(dialects=backend_dialects()))
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    assert print_module(parse_module(stream.getvalue(), EtContext(dialects=backend_dialects()))) == print_module(module)


def test_every_node_has_an_operation() -> None:
    """One class for each row of the table."""
    assert [op.KIND for op in NODE_OPS.values()] == list(NODES)


A, B = "!xnn.tensor<2x3xfp32>", "!xnn.tensor<3x2xfp32>"


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (f"xnn.add(%a) : ({A}) -> {A}", "takes input1_id, input2_id"),
        (f"xnn.add(%a, %b) : ({A}, {B}) -> {A}", "do not fit"),
        (f"xnn.static_transpose(%a) : ({A}) -> {B}", "'perm' is missing"),
        (f"xnn.static_transpose(%a, perm = [0, 0]) : ({A}) -> {B}", "no permutation"),
        (f"xnn.static_transpose(%a, perm = [1, 0]) : ({A}) -> {A}", "gives dims [3, 2]"),
        (f"xnn.static_reshape(%a, new_shape = [4, 2]) : ({A}) -> !xnn.tensor<4x2xfp32>", "cannot become"),
        (f"xnn.static_reshape(%a, new_shape = [0, 0]) : ({A}) -> {A}", "more than one dim"),
        (f"xnn.clamp(%a, clamp = [2.0, 1.0]) : ({A}) -> {A}", "is empty"),
        (f"xnn.abs(%a) : ({A}) -> !xnn.tensor<2x3xfp16>", "keeps the datatype"),
        (f"xnn.fully_connected(%a, %b, none) : ({A}, {B}) -> {A}", "is not the filter's 2"),
        (f"xnn.fully_connected(%a, %a, none, flags = 1) : ({A}, {A}) -> {A}", "is not the filter's 2"),
        (f"xnn.batch_matrix_multiply(%a, %a) : ({A}, {A}) -> {A}", "inner dims differ"),
        (f"xnn.batch_matrix_multiply(%a, %b, flags = 1) : ({A}, {B}) -> {A}", "inner dims differ"),
        (f"xnn.concatenate2(%a, %a, axis = 2) : ({A}, {A}) -> {A}", "axis 2 is not a dim"),
        (f"xnn.static_slice(%a, offsets = [1, 0], sizes = [2, 3]) : ({A}) -> {A}", "is not inside"),
        (f"xnn.max_pooling2d(%a) : ({A}) -> {A}", "an image of 4 dims"),
        (f'xnn.constant "k" = #et.blob<"sha256:0", 4> : {A}', "takes 24 bytes"),
        (f'xnn.constant "k" scales "s" : {A}', "comes with 0 scales"),
        (f"xnn.constant inline : {A}", "comes with its bytes"),
    ],
)
def test_verifier(operation: str, message: str) -> None:
    """Each mistake is named."""
    text = f"func.func @g(%a: {A}, %b: {B}) {{\n  %r = {operation}\n  func.return\n}}"
    with pytest.raises(EtirError) as caught:
        verify_module(parse_module(text, EtContext(dialects=backend_dialects())))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "operation",
    [
        f"xnn.fully_connected(%a, %b, none, flags = 1) : ({A}, {B}) -> !xnn.tensor<2x2xfp32>",
        f"xnn.batch_matrix_multiply(%a, %a, flags = 1) : ({A}, {A}) -> !xnn.tensor<2x2xfp32>",
    ],
)
def test_a_matrix_may_be_transposed(operation: str) -> None:
    """A flag says so."""
    text = f"func.func @g(%a: {A}, %b: {B}) {{\n  %r = {operation}\n  func.return\n}}"
    verify_module(parse_module(text, EtContext(dialects=backend_dialects())))


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("2x3xfp99", "unknown datatype"),
        ("1x1x1x1x1x1x1xfp32", "at most 6"),
        ("2x3xqint8", "takes the parameters"),
        ("2x3xfp32, scale = 1.0", "takes the parameters"),
        ("2x3xqint8, scale = 0.0, zero_point = 0", "not positive"),
        ("2x3xqcint8, channel = 2", "not a dim"),
        ("2x48xqbint4, channel = 0, block = 32", "do not divide"),
        ("2x3xqdint8, nonbatch = 3", "cannot share"),
        ("fp32, ", "expected dims"),
    ],
)
def test_types(type: str, message: str) -> None:
    """Types that cannot be are refused where they stand."""
    with pytest.raises(EtirError) as caught:
        parse_module(f"func.func private @g(!xnn.tensor<{type}>)", EtContext(dialects=backend_dialects()))
    assert message in str(caught.value)


SMALL = """
func.func private @part(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {backend.delegate = "xnnpack", \
backend.legal} {
  %0 = xnn.input(%x) : (tensor<2x3xf32>) -> !xnn.tensor<2x3xfp32>
  %1 = xnn.add(%0, %0, clamp = [0.0, inf]) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %2 = xnn.output(%1) : (!xnn.tensor<2x3xfp32>) -> tensor<2x3xf32>
  func.return %2 : tensor<2x3xf32>
}
func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = backend.call_delegate @part(%x) on "XnnpackBackend" : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
"""


def test_a_function_of_the_dialect_runs_in_the_interpreter() -> None:
    """As a dump after pass ``legalize-delegates`` has it, and as the text of a file."""
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    outlined = parse_module(SMALL, EtContext(dialects=backend_dialects()))
    found = run_module(outlined, [x], evaluator="numpy", runner_of=backend_of_runtime_id)
    np.testing.assert_array_equal(found[0], np.maximum(2 * x, 0))
    edge = """func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = edge.aten.add.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}"""
    made = etir.compile(parse_module(edge, EtContext()), delegates="xnnpack")
    program = read_program(made.buffer)
    run_pipeline(EtContext(dialects=backend_dialects()), program, parse_pipeline("disassemble-delegates"))
    assert any(op.name == "xnn.add" for op in program.walk())
    found = run_module(program, [x], evaluator="numpy", runner_of=backend_of_runtime_id)
    np.testing.assert_array_equal(found[0], np.maximum(2 * x, 0))
