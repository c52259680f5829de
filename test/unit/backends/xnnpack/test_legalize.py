"""From edge text to nodes: layouts, ranges, constants, and the reasons for what stays."""

from __future__ import annotations

from collections import Counter

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from etir.backends.api.patterns import Table
from etir.backends.xnnpack.backend import BACKEND
from etir.backends.xnnpack.dialect import NodeOp
from etir.devtools.values.interpreted import marks_of
from etir.dialects.context import EtContext
from etir.dialects.et.origin import number_origins, origins_in
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.passes.infra.manager import run_pipeline

OUTLINE = "partition{backend=xnnpack},verify-partitions,outline-delegates,legalize-delegates"
CONV = (
    "stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) "
    ": (tensor<1x{i}x6x6xf32>, tensor<{o}x{i}x1x1xf32>) -> tensor<1x{o}x6x6xf32>"
)


def legalized(text: str) -> tuple[ModuleOp, list[NodeOp]]:
    """The module after legalization, verified, and the nodes of its delegates."""
    ctx = EtContext()
    module = parse_module(text, ctx)
    run_pipeline(ctx, module, OUTLINE)
    verify_module(module)
    return module, [op for op in module.walk() if isinstance(op, NodeOp)]


def kinds(nodes: list[NodeOp]) -> Counter[str]:
    return Counter(node.KIND.name for node in nodes)


def test_a_chain_stays_channels_last() -> None:
    """One transpose on the way in, one on the way out; the range goes into the convolution."""
    _, nodes = legalized(f"""
      et.weight @w : tensor<4x3x1x1xf32> = #et.synthetic<seed = 1>
      et.weight @v : tensor<5x4x1x1xf32> = #et.synthetic<seed = 2>
      func.func @forward(%x: tensor<1x3x6x6xf32>) -> tensor<1x5x6x6xf32> {{
        %w = et.get_weight @w : tensor<4x3x1x1xf32>
        %v = et.constant dense<1.0> : tensor<5x4x1x1xf32>
        %0 = edge.aten.convolution.default(%x, %w, none, {CONV.format(i=3, o=4)}
        %1 = edge.aten.hardtanh.default(%0, min_val = 0.0, max_val = 6.0) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
        %2 = edge.aten.tanh.default(%1) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
        %3 = edge.aten.convolution.default(%2, %v, none, {CONV.format(i=4, o=5)}
        func.return %3 : tensor<1x5x6x6xf32>
      }}
    """)
    assert kinds(nodes) == {"static_transpose": 2, "conv2d": 2, "tanh": 1}
    assert [n.clamp for n in nodes if n.KIND.name == "conv2d"] == [(0.0, 6.0), None]


def test_the_node_that_holds_a_result_has_its_mark() -> None:
    """Nodes on the way to it compute no value of the program; a range is the value of the one that it is put into."""
    ctx = EtContext()
    module = parse_module(
        """
      et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
      func.func @forward(%x: tensor<1x4x6x6xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) {
        %w = et.get_weight @w : tensor<4xf32>
        %v = et.constant dense<1.0> : tensor<4xf32>
        %0, %a, %b = edge.aten._native_batch_norm_legit_no_training.default(
          %x, %v, %w, %w, %v, momentum = 0.1, eps = 1.0e-05) :
          (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
          -> (tensor<1x4x6x6xf32>, tensor<0xf32>, tensor<0xf32>)
        %1 = edge.aten.relu.default(%0) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
        %2 = edge.aten.silu.default(%1) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
        func.return %1, %2 : tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>
      }
    """,
        ctx,
    )
    number_origins(module)
    wanted = {op.name: origins_in(op.location) for op in module.walk() if op.name.startswith("edge.")}
    norm, relu, silu = (found.numbers[0] for found in wanted.values() if found is not None)
    run_pipeline(ctx, module, OUTLINE)
    nodes = [op for op in module.walk() if isinstance(op, NodeOp)]
    assert [node.KIND.name for node in nodes] == ["multiply", "add", "sigmoid", "multiply"]
    assert [[mark.origin for mark in marks_of(node.results[0])] for node in nodes] == [[], [relu], [], [silu]]
    origins = [found.numbers for node in nodes if (found := origins_in(node.location)) is not None]
    assert origins == [(norm,), (norm, relu), (silu,), (silu,)]


def test_a_range_that_others_see_past_is_a_node() -> None:
    """A node with two users keeps its range."""
    _, nodes = legalized("""
      func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %0 = edge.aten.add.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %1 = edge.aten.relu.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
      }
    """)
    assert kinds(nodes) == {"add": 1, "clamp": 1}


def test_ranges_combine() -> None:
    """Two clamps in a row are one range; permutations between them do not matter."""
    _, nodes = legalized("""
      func.func @forward(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
        %0 = edge.aten.mul.Tensor(%x, %x) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
        %1 = edge.aten.clamp.default(%0, min = -1.0, max = 5.0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
        %2 = edge.aten.permute_copy.default(%1, dims = [1, 0]) : (tensor<2x4xf32>) -> tensor<4x2xf32>
        %3 = edge.aten.hardtanh.default(%2, min_val = 0.0, max_val = 9.0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
        func.return %3 : tensor<4x2xf32>
      }
    """)
    assert kinds(nodes) == {"multiply": 1, "static_transpose": 1}
    assert nodes[0].clamp == (0.0, 5.0)


def test_permutations_that_cancel() -> None:
    """Nothing is transposed where nothing has to be."""
    _, nodes = legalized("""
      func.func @forward(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
        %0 = edge.aten.permute_copy.default(%x, dims = [2, 0, 1]) : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
        %1 = edge.aten.exp.default(%0) : (tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
        %2 = edge.aten.permute_copy.default(%1, dims = [1, 2, 0]) : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
        func.return %2 : tensor<2x3x4xf32>
      }
    """)
    assert kinds(nodes) == {"exp": 1}


def test_an_output_that_is_an_input() -> None:
    """A copy stands between, since a value has one role at the boundary."""
    _, nodes = legalized("""
      func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %0 = edge.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = edge.aten.exp.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
      }
    """)
    assert kinds(nodes) in ({"copy": 1, "exp": 1}, {"exp": 1})


def test_views_alone_are_declined() -> None:
    """They need no instruction outside of a delegate."""
    module, nodes = legalized("""
      func.func @forward(%x: tensor<2x4xf32>) -> tensor<8xf32> {
        %0 = edge.aten.view_copy.default(%x, size = [8]) : (tensor<2x4xf32>) -> tensor<8xf32>
        func.return %0 : tensor<8xf32>
      }
    """)
    assert not nodes
    assert sum(isinstance(op, FuncOp) for op in module.body.block.ops) == 1


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("edge.aten.exp.default(%d) : (tensor<2x4xf64>) -> tensor<2x4xf64>", "dtype float64"),
        ("edge.aten.add.Tensor(%x, %x, alpha = 2) : (T, T) -> T", "alpha = 2"),
        ("edge.aten.add.Tensor(%x, %h) : (T, tensor<2x4xf16>) -> T", "mixed dtypes"),
        ("edge.aten._softmax.default(%x, dim = 0, half_to_float = false) : (T) -> T", "dim 0 of 2"),
        ("edge.aten.pow.Tensor_Scalar(%x, exponent = 3) : (T) -> T", "exponent = 3"),
        ("edge.aten.clamp.default(%x, min = 2.0, max = 1.0) : (T) -> T", "the range from 2.0 to 1.0"),
        ("edge.aten.linear.default(%x, %x) : (T, T) -> tensor<2x2xf32>", "'weight' is computed"),
        ("edge.aten.mean.dim(%x, dim = [0]) : (T) -> tensor<4xf32>", "the mean of 2 dims over [0]"),
        ("edge.aten.erf.default(%x) : (T) -> T", "no pattern"),
        (
            "edge.aten.slice_copy.Tensor(%x, dim = 1, start = 0, end = 4, step = 2) : (T) -> tensor<2x2xf32>",
            "step = 2",
        ),
        ("edge.aten.constant_pad_nd.default(%x, pad = [-1, 0]) : (T) -> tensor<2x3xf32>", "pad = [-1, 0]"),
        ("edge.aten.expand_copy.default(%x, size = [3, 2, 4]) : (T) -> tensor<3x2x4xf32>", "to ['3', '2', '4']"),
    ],
)
def test_reasons(operation: str, reason: str) -> None:
    """ "Why not" has an answer with the names and numbers of the case."""
    text = (
        f"""
      func.func @forward(%x: T, %d: tensor<2x4xf64>, %h: tensor<2x4xf16>) {{
        %0 = {operation}
        func.return
      }}
    """.replace("T,", "tensor<2x4xf32>,")
        .replace("(T)", "(tensor<2x4xf32>)")
        .replace("T)", "tensor<2x4xf32>)")
    )
    module = parse_module(text.replace("-> T", "-> tensor<2x4xf32>"), EtContext())
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    operation_of = function.body.block.first_op
    assert operation_of is not None
    found = Table(BACKEND.rows(BACKEND.Options())).why_not(operation_of)
    assert found is not None and reason in found


def test_constants_are_packed_once() -> None:
    """Two convolutions with one filter share its packed form."""
    module, nodes = legalized(f"""
      et.weight @w : tensor<3x3x1x1xf32> = #et.synthetic<seed = 1>
      func.func @forward(%x: tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32> {{
        %w = et.get_weight @w : tensor<3x3x1x1xf32>
        %0 = edge.aten.convolution.default(%x, %w, none, {CONV.format(i=3, o=3)}
        %1 = edge.aten.convolution.default(%0, %w, none, {CONV.format(i=3, o=3)}
        func.return %1 : tensor<1x3x6x6xf32>
      }}
    """)
    assert kinds(nodes)["conv2d"] == 2
    assert sum(op.name == "xnn.constant" for op in module.walk()) == 1
