"""Diagnostics carry the operator that they are about, and a survey says one thing of each."""

from __future__ import annotations

import pytest

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.passes.infra.manager import PipelineOptions, run_pipeline

_FREXP = "aten.frexp.Tensor(%x) : (tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xi32>)\n"
_ONE = "(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>\n"
PROGRAMS = {
    "functionalize": (
        "aten.relu_.default",
        "%0 = aten.expand.default(%x, size = [3, 4]) : (tensor<1x4xf32>) -> tensor<3x4xf32>\n"
        "%1 = aten.relu_.default(%0) : (tensor<3x4xf32>) -> tensor<3x4xf32>\n",
    ),
    "verify-core-aten": ("aten.frexp.Tensor", f"%0, %1 = {_FREXP}"),
    "aten-to-edge": ("mylib::f", f'%0 = aten.opaque "mylib::f"{_ONE}'.replace(" :", ' {reason = "why"} :')),
    "verify-edge": ("aten.relu.default", f"%0 = aten.relu.default{_ONE}"),
    "verify-link": ("aten.frexp.Tensor", f"%0, %1 = edge.{_FREXP}"),
    "to-out-variant": ("aten.frexp.Tensor", f"%0, %1 = {_FREXP}"),
}
"""Pass to an operator that it refuses, and a program with that operator."""


def refused(body: str, spec: str) -> EtirError:
    ctx = EtContext()
    module = parse_module("func.func @forward(%x: tensor<1x4xf32>) {\n" + body + "func.return\n}\n", ctx)
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, spec)
    return caught.value


@pytest.mark.parametrize("name", PROGRAMS)
def test_operator_of_a_refusal(name: str) -> None:
    operator, body = PROGRAMS[name]
    assert [d.operator for d in refused(body, name).diagnostics] == [operator]


def test_survey_says_one_thing_of_an_operator() -> None:
    """Whatever words messages use: what core ATen does not have, the target does not have either."""
    ctx = EtContext()
    body = PROGRAMS["verify-core-aten"][1] + "%2 = aten.rand.default(size = [2]) : () -> tensor<2xf32>\n"
    module = parse_module("func.func @forward(%x: tensor<1x4xf32>) {\n" + body + "func.return\n}\n", ctx)
    passes = "verify-core-aten,aten-to-edge,verify-link"
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module.clone(), passes)
    assert {d.operator for d in caught.value.diagnostics} == {"aten.frexp.Tensor"}
    with pytest.raises(EtirError) as caught:
        run_pipeline(ctx, module, passes, PipelineOptions(collect_errors=True))
    assert [d.operator for d in caught.value.diagnostics].count("aten.frexp.Tensor") == 1
