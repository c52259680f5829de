"""Partitioning and outlining of what the reference delegate alone does not show: dim orders at the boundary, copies of
shared operations, functions that the interpreter runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from etir.backends.api import registry
from etir.backends.api.interface import Artifact, Backend, NamedBlob, Outlined
from etir.backends.api.named_data import add_named_data
from etir.backends.api.patterns import Row, op, rows
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.layout import is_contiguous
from etir.dialects.et.payloads import NamedDataOp
from etir.dialects.text import parse_module, print_module
from etir.interpret.interpreter import Interpreter
from etir.passes.delegation.report import DelegationReport
from etir.passes.infra.manager import run_pipeline


def _report(ctx: EtContext) -> DelegationReport:
    """What `partition` reported."""
    report = ctx.attachments.get(DelegationReport)
    assert report is not None
    return report


class _Pairs(Backend):
    """Takes an exponential only together with what follows it, and everything in the default dim order."""

    name = "pairs"
    runtime_id = "PairsBackend"
    version = "1"
    contiguous_boundary = True

    def rows(self, options: Any) -> Sequence[Row]:
        exp = op("aten.exp.default", duplicable=True)
        return [
            *(Row(op(name, self=exp), label=f"exp + {name}") for name in ("aten.neg.default", "aten.abs.default")),
            *rows(["aten.relu.default"]),
        ]

    def preprocess(self, outlined: Outlined, options: Any) -> Artifact:
        return Artifact(print_module(outlined.func).encode())


PAIRS = _Pairs()
CACHES = (registry.installed, registry.find_backend, registry.parse_delegate)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "pairs_backend", sys.modules[__name__])
    monkeypatch.setitem(registry.BUILT_IN, "pairs", "pairs_backend:PAIRS")
    monkeypatch.setitem(registry.BUILT_IN, "broken", "pairs_backend:CACHES")
    monkeypatch.setitem(registry.BUILT_IN, "gone", "no_such_module:BACKEND")
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


def run(text: str, pipeline: str, *inputs: np.ndarray) -> str:
    """The module after a pipeline, which computes the same as before."""
    ctx = EtContext()
    module = parse_module(text, ctx)
    before = Interpreter(module, "numpy").run(inputs)
    run_pipeline(ctx, module, pipeline)
    for a, b in zip(before, Interpreter(module, "numpy").run(inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    return print_module(module)


SHARED = """
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = edge.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.neg.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.cos.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.abs.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = edge.aten.add.Tensor(%3, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = edge.aten.relu.default(%2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""


def test_duplicable_operations_are_copied_once_for_each_partition() -> None:
    """%0 is in two pairs, and the method returns it as well: one copy for the partition, one for the method."""
    text = run(SHARED, "partition{backend=pairs},outline-delegates", np.linspace(-1, 1, 4, dtype=np.float32))
    inside, _, outside = text.partition("func.func @forward(")
    assert inside.count("edge.aten.exp.default") == 1
    assert outside.count("edge.aten.exp.default") == 1


def test_why_inner_operators_are_left() -> None:
    ctx = EtContext()
    text = SHARED.replace("aten.neg.default(%0)", "aten.sin.default(%0)").replace("abs.default(%0)", "sin.default(%0)")
    run_pipeline(ctx, parse_module(text, ctx), "partition{backend=pairs}")
    reasons = {left.op: left.reason for left in _report(ctx).backends[0].rejected}
    assert reasons["aten.exp.default"] == "only claimed as part of exp + aten.neg.default or exp + aten.abs.default"
    assert reasons["aten.sin.default"] == "pairs has no pattern for this operator"


NHWC = """
func.func @forward(%x: tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>)
    -> tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>> {
  %0 = edge.aten.relu.default(%x) : (tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>)
    -> tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1 = edge.aten.cos.default(%0) : (tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>)
    -> tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>
  func.return %1 : tensor<1x2x2x3xf32, #et.layout<order = [0, 2, 3, 1]>>
}
"""


def test_contiguous_boundary() -> None:
    """Copies around the call, and their inverses inside."""
    x = np.ascontiguousarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 2, 3, 2)).transpose(0, 3, 1, 2)
    text = run(NHWC, "partition{backend=pairs},outline-delegates", x)
    inside, _, outside = text.partition("func.func @forward(")
    assert inside.count("_to_dim_order_copy") == outside.count("_to_dim_order_copy") == 2
    module = parse_module(text, EtContext())
    call = next(o for o in module.walk() if o.name == "backend.call_delegate")
    assert all(is_contiguous(v.type) for v in (*call.operands, *call.results))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "reason"), [("broken", "is a tuple, not a Backend"), ("gone", "cannot be imported")])
def test_backends_that_cannot_be_used(name: str, reason: str) -> None:
    with pytest.raises(EtirError, match=reason) as caught:
        registry.find_backend(name)
    assert caught.value.ids == ("E1110",)
    # They do not keep others from being found.
    assert registry.backend_of_runtime_id("PairsBackend") is PAIRS


def test_blobs_are_made_of_what_is_called() -> None:
    ctx = EtContext()
    module = parse_module(SHARED, ctx)
    run_pipeline(ctx, module, "partition{backend=pairs},outline-delegates,legalize-delegates,lower-delegates")
    text = print_module(module)
    assert text.count("et.delegate @") == 2
    with pytest.raises(EtirError, match="only runs on 'PairsBackend'") as caught:
        Interpreter(module, "numpy").run([np.zeros(4, np.float32)])
    assert caught.value.ids == ("E1001",)


def test_data_of_one_name_are_the_same_bytes() -> None:
    named: dict[str, NamedDataOp] = {}
    assert add_named_data(named, "packed", NamedBlob(bytes(8), alignment=4), "first") is named["packed"]
    assert add_named_data(named, "packed", NamedBlob(bytes(8), alignment=16), "second") is None
    alignment = named["packed"].alignment
    assert alignment is not None and alignment.value.data == 16
    with pytest.raises(EtirError, match="@third gives 4 bytes as 'packed', which other delegates gave other") as caught:
        add_named_data(named, "packed", NamedBlob(bytes(4)), "third")
    assert caught.value.ids == ("E1111",)
