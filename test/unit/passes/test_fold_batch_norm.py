"""Folded batch norms against the unfolded program: the numbers agree to rounding, on both oracles."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.manager import run_pipeline

CHANNELS_IN, CHANNELS_OUT = 4, 6


def program(rank: int, *, transposed: bool, groups: int, bias: bool, affine: bool) -> str:
    """A convolution over ``rank`` spatial dims followed by a batch norm."""
    spatial, kernel = "x5" * rank, "x2" * rank
    if transposed:
        weight, out = f"{CHANNELS_IN}x{CHANNELS_OUT // groups}{kernel}", "x6" * rank
    else:
        weight, out = f"{CHANNELS_OUT}x{CHANNELS_IN // groups}{kernel}", "x4" * rank
    ones, zeros = f"[{', '.join('1' * rank)}]", f"[{', '.join('0' * rank)}]"
    x, y, c = (
        f"tensor<2x{CHANNELS_IN}{spatial}xf32>",
        f"tensor<2x{CHANNELS_OUT}{out}xf32>",
        f"tensor<{CHANNELS_OUT}xf32>",
    )
    optional = "%b, " if bias else ""
    scale = "%gamma, %beta" if affine else "none, none"
    values = ", ".join(str(0.25 * i + 0.5) for i in range(CHANNELS_OUT))
    return f"""
et.weight @w : tensor<{weight}xf32> = #et.synthetic<seed = 1>
et.weight @b : {c} = #et.synthetic<seed = 2>
et.weight @gamma : {c} = #et.synthetic<seed = 3>
et.weight @beta : {c} = #et.synthetic<seed = 4>
et.weight @mean : {c} = #et.synthetic<seed = 5>
func.func @forward(%x: {x}) -> {y} {{
  %w = et.get_weight @w : tensor<{weight}xf32>
  %b = et.get_weight @b : {c}
  %gamma = et.get_weight @gamma : {c}
  %beta = et.get_weight @beta : {c}
  %mean = et.get_weight @mean : {c}
  %var = et.constant dense<[{values}]> : {c}
  %c = edge.aten.convolution.default(%x, %w, {optional}stride = {ones}, padding = {zeros}, dilation = {ones},
    transposed = {str(transposed).lower()}, output_padding = {zeros}, groups = {groups})
    : ({x}, tensor<{weight}xf32>{f", {c}" if bias else ""}) -> {y}
  %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%c, {scale}, %mean, %var, momentum = 0.1,
    eps = 0.001)
    : ({", ".join([y, *[c] * (4 if affine else 2)])}) -> ({y}, tensor<0xf32>, tensor<0xf32>)
  func.return %y : {y}
}}"""


@pytest.mark.parametrize(
    ("rank", "transposed", "groups"), [(1, False, 1), (2, False, 1), (2, False, 2), (1, True, 1), (2, True, 1)]
)
@pytest.mark.parametrize(("bias", "affine"), list(product([True, False], repeat=2)))
@pytest.mark.parametrize("oracle", ["torch", "numpy"])
def test_same_numbers(rank: int, transposed: bool, groups: int, bias: bool, affine: bool, oracle: str) -> None:
    """One convolution is left, and gives what the two operators gave."""
    if oracle == "torch":
        pytest.importorskip("torch")
    module = parse_module(program(rank, transposed=transposed, groups=groups, bias=bias, affine=affine))
    x = np.random.default_rng(0).standard_normal((2, CHANNELS_IN, *[5] * rank)).astype(np.float32)
    before = np.asarray(Interpreter(module.clone(), oracle).run([x])[0])
    run_pipeline(EtContext(), module, "fold-batch-norm,dce")
    assert not [op for op in module.walk() if "batch_norm" in op.name]
    after = np.asarray(Interpreter(module, oracle).run([x])[0])
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-6)


def test_transposed_with_groups_is_left_alone() -> None:
    """Its filter has the output channels of one group only."""
    module = parse_module(program(2, transposed=True, groups=2, bias=True, affine=True))
    run_pipeline(EtContext(), module, "fold-batch-norm")
    assert [op for op in module.walk() if "batch_norm" in op.name]
