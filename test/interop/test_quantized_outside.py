"""Operators of ``quantized_decomposed`` that no delegate claims: arithmetic on the stock runtime, kernels on etir's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed

import etir
import etir.runtime
from etir.emit.pte.reader import read_pte

from etir_testing.interop.program_runs import Function
from etir_testing.interop.quantized_classifier import Classifier, quantized
from etir_testing.interop.xnnpack_runs import difference, facts_of, run_stock

q = torch.ops.quantized_decomposed


torch.manual_seed(0)
X = torch.randn(4, 16)
INTEGERS = torch.randint(-100, 100, (4, 16), dtype=torch.int8)
SCALES, POINTS = torch.rand(4) * 0.05 + 0.01, torch.arange(-2, 2)
COLUMN_SCALES = torch.rand(16) + 0.1
ROWS = torch.rand(4, 1) + 0.1, torch.arange(-2, 2).reshape(4, 1)
GROUPS = torch.rand(4, 2) + 0.1, torch.zeros(4, 2)
ONE = torch.tensor(0.05), torch.tensor(3)
BYTE, WHOLE = (-128, 127, torch.int8), (0, 255, torch.uint8)


def chosen(x: torch.Tensor) -> torch.Tensor:
    scale, point = q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    return q.dequantize_per_tensor.tensor(q.quantize_per_tensor.tensor(x, scale, point, *BYTE), scale, point, *BYTE)


CASES: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "quantize_per_tensor": (lambda x: q.quantize_per_tensor(x, 0.05, 3, *BYTE), [X]),
    "quantize_per_tensor of halves": (lambda x: q.quantize_per_tensor(x, 0.05, 3, *WHOLE), [X.half()]),
    "quantize_per_tensor.tensor": (lambda x, s, z: q.quantize_per_tensor.tensor(x, s, z, *BYTE), [X, *ONE]),
    "quantize_per_tensor.tensor2": (
        lambda x, s, z, a, b: q.quantize_per_tensor.tensor2(x, s, z, a, b, torch.int8),
        [X, *ONE, torch.tensor(-100), torch.tensor(90)],
    ),
    "dequantize_per_tensor": (lambda x: q.dequantize_per_tensor(x, 0.05, 3, *BYTE), [INTEGERS]),
    "dequantize_per_tensor to halves": (
        lambda x: q.dequantize_per_tensor(x, 0.05, 3, *BYTE, out_dtype=torch.float16),
        [INTEGERS],
    ),
    "dequantize_per_tensor.tensor": (lambda x, s, z: q.dequantize_per_tensor.tensor(x, s, z, *BYTE), [INTEGERS, *ONE]),
    "choose_qparams": (lambda x: q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8), [X]),
    "choose_qparams_symmetric": (lambda x: q.choose_qparams_symmetric.tensor(x, *WHOLE[:2], 1e-5, torch.uint8), [X]),
    "chosen at run time": (chosen, [X]),
    "quantize_per_channel": (lambda x: q.quantize_per_channel(x, SCALES, POINTS, 0, *BYTE), [X]),
    "dequantize_per_channel": (lambda x: q.dequantize_per_channel(x, SCALES, POINTS, 0, *BYTE), [INTEGERS]),
    "dequantize_per_channel, axis -1": (
        lambda x: q.dequantize_per_channel(x, COLUMN_SCALES, None, 1, *BYTE),
        [INTEGERS],
    ),
    "fake_quant_per_channel": (lambda x: q.fake_quant_per_channel(x, SCALES, POINTS.float(), 0, -128, 127), [X]),
    "choose_qparams_per_token": (lambda x: q.choose_qparams_per_token(x, torch.int8), [X]),
    "choose_qparams_per_token_asymmetric": (lambda x: q.choose_qparams_per_token_asymmetric(x, torch.int8), [X]),
    "quantize_per_token": (lambda x, s, z: q.quantize_per_token(x, s, z, *BYTE), [X, *ROWS]),
    "dequantize_per_token": (
        lambda x, s, z: q.dequantize_per_token(x, s, z, *BYTE, torch.float32),
        [INTEGERS, ROWS[0].double(), ROWS[1]],
    ),
    "quantize_per_channel_group": (
        lambda x, s, z: q.quantize_per_channel_group(x, s, z, -8, 7, torch.int8, 8),
        [X, *GROUPS],
    ),
    "dequantize_per_channel_group": (
        lambda x, s, z: q.dequantize_per_channel_group(x, s, z, -8, 7, torch.int8, 8, torch.float32),
        [INTEGERS, *GROUPS],
    ),
    "convert_element_type": (lambda x: q.convert_element_type.no_fuse(x, torch.float16), [X]),
}
WITHOUT_KERNEL = ("tensor2", "symmetric", "fake", "per_token", "group", "convert_element_type")
"""Parts of the names of cases for which etir's runtime has no kernel of that name and types."""


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    """Equal to torch, without a kernel of the library that the stock runtime has to be given."""
    function, inputs = CASES[name]
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(function(*inputs))
        exported = torch.export.export(Function(function), tuple(inputs))
    stock = etir.compile(exported).buffer
    own = etir.compile(exported, target="etir").buffer
    assert not any("quantized" in kernel for kernel in facts_of(stock).kernels)
    kernels = [operator.full_name for operator in read_pte(own).execution_plan[0].operators]
    if not any(part in name for part in WITHOUT_KERNEL):
        assert any(kernel.startswith("quantized_decomposed::") for kernel in kernels), kernels
    for outputs in (run_stock(stock, inputs), etir.runtime.load(own).forward(*inputs)):
        for output, wanted in zip(outputs, expected, strict=True):
            torch.testing.assert_close(output.double(), wanted.double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{"exclude": ("aten.linear.default", "aten.add.Tensor")}, {"min_ops": 1000}])
def test_partly_delegated(options: dict[str, Any]) -> None:
    """A quantized network of which XNNPACK is kept from some operators, or from all."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    module = quantized(Classifier(), inputs)
    with torch.no_grad():
        expected = module(*inputs)
        exported = torch.export.export(module, inputs)
    step = (expected.max() - expected.min()).item() / 64
    for target in ("executorch", "etir"):
        if target == "etir" and "exclude" in options:
            continue
        program = etir.compile(exported, target=target, delegates=["xnnpack"], partition=options)
        runs = (
            run_stock(program.buffer, inputs)
            if target == "executorch"
            else [etir.runtime.load(program.buffer).forward(*inputs)[0]]
        )
        assert (runs[0] - expected).abs().max().item() <= step
        assert bool(facts_of(program.buffer).delegate_calls) == ("exclude" in options)


def test_reference_delegate_takes_what_has_a_kernel() -> None:
    function, inputs = CASES["chosen at run time"]
    exported = torch.export.export(Function(function), tuple(inputs))
    program = etir.compile(exported, target="etir", delegates=["reference"])
    assert program.delegation is not None
    assert program.delegation.backends[0].operators == 3
    assert difference(etir.runtime.load(program.buffer).forward(*inputs), [function(*inputs)]) == 0


def test_linked_library() -> None:
    """Its kernels are called where the program says that they will be there, with and without delegates."""
    function, inputs = CASES["dequantize_per_channel"]
    exported = torch.export.export(Function(function), tuple(inputs))
    for options in ({}, {"delegates": ["xnnpack"], "partition": {"min_ops": 1000}}):
        program = etir.compile(exported, link_libraries=["quantized"], **options)
        assert list(facts_of(program.buffer).kernels) == ["quantized_decomposed::dequantize_per_channel.out"]
