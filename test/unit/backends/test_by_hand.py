"""Partitions that stand in the text, and constants that several delegates read, in regions too."""

from __future__ import annotations

import numpy as np
import pytest

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.passes.delegation.partition import summary_of
from etir.passes.infra.manager import run_pipeline

CHAIN = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = edge.aten.mul.Tensor(%x, %x) {{backend.partition = "{0}"}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erf.default(%0) {1} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%1, %0) {2} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}}
"""


def marked(place: str) -> str:
    return f'{{backend.partition = "{place}"}}'


def after(text: str, pipeline: str) -> str:
    module = parse_module(text)
    run_pipeline(EtContext(), module, pipeline)
    return print_module(module)


def test_what_is_marked_stays_and_the_rest_is_partitioned() -> None:
    text = after(CHAIN.format("reference:3", marked("reference:3"), ""), "partition{backend=xnnpack}")
    assert text.count('"reference:3"') == 2
    assert text.count('"xnnpack:4"') == 1


def test_programs_with_marks_and_delegates_compile() -> None:
    text = CHAIN.format("reference:0", marked("reference:0"), "")
    program = etir.compile(parse_module(text), target="etir", delegates=["xnnpack"], link_backends=["XnnpackBackend"])
    delegates = read_pte(program.buffer).execution_plan[0].delegates
    assert [delegate.id for delegate in delegates] == ["EtirReferenceBackend", "XnnpackBackend"]


def test_a_cycle_is_refused_before_anything_is_partitioned() -> None:
    module = parse_module(CHAIN.format("xnnpack:0", "", marked("xnnpack:0")))
    with pytest.raises(EtirError, match=r"would need its own result: 'aten.mul.Tensor'.*feeds 'aten.erf.default'") as e:
        etir.compile(module, delegates=["xnnpack"])
    assert e.value.ids == ("E1105",)
    with pytest.raises(EtirError) as e:
        etir.compile(module)
    assert e.value.ids == ("E1105",)


BRANCHES = """
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 3> {fqn = "w"}
et.weight @v : tensor<4xf32> = #et.synthetic<seed = 4> {fqn = "v"}
func.func @forward(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  %v = et.get_weight @v : tensor<4xf32>
  %y = edge.aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = edge.aten.erf.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %r = control.cond %p : tensor<i1> -> (tensor<4xf32>) {
    %a = edge.aten.add.Tensor(%e, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = edge.aten.mul.Tensor(%a, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    control.yield %b : tensor<4xf32>
  } else {
    %d = edge.aten.sub.Tensor(%e, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    control.yield %d : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""


@pytest.mark.parametrize("way", ["own", "pass"])
def test_constants_of_partitions_inside_and_around_a_branch(way: str) -> None:
    """One that both read is an input of both, or is in both; one that a single delegate reads is always its own."""
    module = parse_module(BRANCHES)
    inputs = [np.array(True), np.linspace(-1, 1, 4, dtype=np.float32)]
    (wanted,) = Interpreter(module, "numpy").run(inputs)
    pipeline = f"partition{{backend=xnnpack}},outline-delegates{{shared-constants={way}}},dce"
    run_pipeline(EtContext(), module, pipeline)
    functions = {
        op.sym_name.data: print_module(op)
        for op in module.body.block.ops
        if op.name == "func.func" and "backend.delegate" in op.attributes
    }
    assert len(functions) == 3
    readers = [name for name, text in functions.items() if "get_weight @w" in text]
    assert readers == (["forward_xnnpack_0", "forward_xnnpack_1"] if way == "own" else [])
    assert [name for name, text in functions.items() if "get_weight @v" in text] == ["forward_xnnpack_1"]
    (found,) = Interpreter(module, "numpy").run(inputs)
    np.testing.assert_array_equal(found, wanted)
    program = etir.compile(
        parse_module(BRANCHES), delegates=["xnnpack"], partition={"shared_constants": way}, link_backends=[]
    )
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) == 3


def test_what_a_cost_model_sees_of_a_partition() -> None:
    """Bytes that go in and out, each tensor once, and those of constants apart from them."""
    module = parse_module("""
et.weight @w : tensor<3xf32> = #et.synthetic<seed = 3> {fqn = "w"}
func.func @forward(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf64>) {
  %w = et.get_weight @w : tensor<3xf32>
  %0 = edge.aten.mul.Tensor(%x, %w) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %1 = edge.aten.add.Tensor(%0, %x) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = edge.dim_order_ops._to_dim_order_copy.default(%1, dtype = f64, dim_order = [0, 1])
    : (tensor<4x3xf32>) -> tensor<4x3xf64>
  func.return %1, %2 : tensor<4x3xf32>, tensor<4x3xf64>
}
""")
    ops = [op for op in module.walk() if op.name.startswith("edge.")]
    whole = summary_of(ops, {})
    assert (whole.input_bytes, whole.output_bytes, whole.constant_bytes) == (48, 48 + 96, 12)
    last = summary_of(ops[1:2], {})
    assert (last.ops, last.input_bytes, last.output_bytes, last.constant_bytes) == ((ops[1],), 96, 48, 0)
