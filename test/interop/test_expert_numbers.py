"""Layers of experts whose numbers come from outside: numbers that no expert has are errors, also those of which 32 bits
would be a number that one has.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.api.registry import backend_dialects  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.dialects.context import EtContext  # noqa: E402
from etir.dialects.text import parse_module  # noqa: E402
from etir.emit.pte.model import KernelCall  # noqa: E402
from etir.emit.pte.reader import read_pte  # noqa: E402
from etir.passes.infra.manager import PipelineOptions, run_pipeline  # noqa: E402
from etir.quantization.passes.lower_expert_layers import LowerExpertLayersPass  # noqa: E402

LAYER = """
et.schema "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

func.func @forward(%x: tensor<2x64xf32>, %n: tensor<2xi64>) -> tensor<2x16xf32> {
  %i = et.constant dense<3> : tensor<48x64xi8>
  %s = et.constant dense<0.25> : tensor<48x2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<48x64xi8>, tensor<48x2xf32>) -> tensor<48x64xf32>
  %y = edge.etir.expert_linear.default(%x, %w, CHOSEN, columns = 16) : (tensor<2x64xf32>, tensor<48x64xf32>, tensor<2xi64>) -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}
"""  # noqa: E501
CLAMP = "  %c = edge.aten.clamp.default(%n, min = LOW, max = 2) : (tensor<2xi64>) -> tensor<2xi64>\n  %y ="
OUTSIDE = [3, -1, 2**31, 2**32, 2**32 + 2, -(2**32), -(2**31) - 1, 2**63 - 1, -(2**63)]


def _buffer(target: str, text: str) -> bytes:
    module = parse_module(text)
    ctx = EtContext(dialects=backend_dialects())
    run_pipeline(ctx, module, [LowerExpertLayersPass(target)], PipelineOptions())
    return bytes(etir.compile(module, target=target).buffer)


@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_numbers_that_no_expert_has(target: str) -> None:
    """The call of a kernel, and the loop where there is none."""
    buffer = _buffer(target, LAYER.replace("CHOSEN", "%n"))
    (plan,) = read_pte(buffer).execution_plan
    assert any("expert" in op.full_name for op in plan.operators) == (target == "etir")
    program = etir.runtime.load(buffer)
    rows = torch.ones(2, 64)
    found = program["forward"](rows, torch.tensor([2, 0]))[0]
    np.testing.assert_allclose(np.asarray(found), np.full((2, 16), 48.0))
    for number in OUTSIDE:
        with pytest.raises(EtirError, match="out of range|index"):
            program["forward"](rows, torch.tensor([0, number]))


def test_numbers_that_are_limited_already() -> None:
    """They need no limits again, if 32 bits hold theirs."""
    for low, clamps in ((0, 1), (-(2**40), 2)):
        text = LAYER.replace("CHOSEN", "%c").replace("  %y =", CLAMP.replace("LOW", str(low)))
        (plan,) = read_pte(_buffer("etir", text)).execution_plan
        called = [
            plan.operators[i.op_index].full_name for i in plan.chains[0].instructions if isinstance(i, KernelCall)
        ]
        assert called.count("aten::clamp.out") == clamps
