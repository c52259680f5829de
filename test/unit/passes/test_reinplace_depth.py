"""Programs of thousands of updates of one state."""

from __future__ import annotations

from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.passes.infra.manager import run_pipeline


def test_thousands_of_updates() -> None:
    """No recursion from one update to the next: 1,500 are more than Python's limit."""
    count = 1_500
    lines = ["et.state @c : tensor<8x3xf32>", "func.func @forward(%x: tensor<1x3xf32>) {"]
    lines.append("  %v0 = et.read_state @c : tensor<8x3xf32>")
    types = "(tensor<8x3xf32>, tensor<1x3xf32>) -> tensor<8x3xf32>"
    for i in range(count):
        call = f"edge.aten.slice_scatter.default(%v{i}, %x, dim = 0, start = {i % 8}, end = {i % 8 + 1})"
        lines.append(f"  %v{i + 1} = {call} : {types}")
    lines += [f"  et.write_state @c, %v{count} : tensor<8x3xf32>", "  func.return", "}"]
    module = parse_module("\n".join(lines))
    run_pipeline(EtContext(), module, "reinplace-scatter")
    assert print_module(module).count("edge.aten.index_put.default") == count
