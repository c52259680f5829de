"""torchao's operators of affine quantization that no delegate claims: arithmetic on both runtimes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

import etir
import etir.runtime
from etir.diagnostics import EtirError

from etir_testing.interop.program_runs import Function
from etir_testing.interop.torchao_models import CONFIGS, X, quantized
from etir_testing.interop.xnnpack_runs import facts_of, run_stock

a = torch.ops.torchao


torch.manual_seed(0)
ROWS = torch.randn(4, 16)
IMAGE = torch.randn(2, 4, 6, 6)
INTEGERS = torch.randint(-100, 100, (4, 16), dtype=torch.int8)
SCALES, POINTS = torch.rand(4, 2) + 0.1, torch.randint(-3, 3, (4, 2))
HALF_BLOCKS, BYTE = [1, 8], (torch.int8, -128, 127)


def per_token(x: torch.Tensor) -> torch.Tensor:
    """Each row quantized with what is found at run time, and back."""
    blocks = [1, x.shape[-1]]
    scale, point = a.choose_qparams_affine(x, "ASYMMETRIC", blocks, *BYTE, 1e-5, torch.float32, torch.int8)
    stored = a.quantize_affine(x, blocks, scale, point, *BYTE)
    return a.dequantize_affine(stored, blocks, scale, point, *BYTE)


def choose(mapping: str, blocks: list[int], **options: Any) -> Callable[[torch.Tensor], Any]:
    return lambda x: a.choose_qparams_affine(x, mapping, blocks, torch.int8, -8, 7, **options)


CASES: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "quantize": (lambda x, s, z: a.quantize_affine(x, HALF_BLOCKS, s, z, torch.int8, -8, 7), [ROWS, SCALES, POINTS]),
    "quantize halves": (
        lambda x, s, z: a.quantize_affine(x, HALF_BLOCKS, s, z, torch.int8, -8, 7),
        [ROWS.half(), SCALES.half(), POINTS],
    ),
    "quantize, one block": (
        lambda x, s, z: a.quantize_affine(x, [4, 16], s, z, torch.uint8),
        [ROWS, SCALES[0, 0], POINTS[0, 0]],
    ),
    "quantize, blocks in several dims": (
        lambda x, s, z: a.quantize_affine(x, [1, 2, 3, 6], s, z, torch.int16),
        [IMAGE, torch.rand(2, 2, 2, 1) + 0.1, torch.arange(8).reshape(2, 2, 2, 1)],
    ),
    "dequantize": (
        lambda x, s, z: a.dequantize_affine(x, HALF_BLOCKS, s, z, torch.int8, -8, 7),
        [INTEGERS, SCALES, POINTS.to(torch.int8)],
    ),
    "dequantize without zero point": (
        lambda x, s: a.dequantize_affine(x, HALF_BLOCKS, s, None, torch.int8),
        [INTEGERS, SCALES],
    ),
    "dequantize to halves": (
        lambda x, s, z: a.dequantize_affine(x, HALF_BLOCKS, s, z, torch.int8, output_dtype=torch.float16),
        [INTEGERS, SCALES, POINTS],
    ),
    "choose": (choose("SYMMETRIC", HALF_BLOCKS), [ROWS]),
    "choose without clipping": (choose("SYMMETRIC_NO_CLIPPING_ERR", HALF_BLOCKS, keepdim=True), [ROWS]),
    "choose from halves": (choose("ASYMMETRIC", [1, 16]), [ROWS.half()]),
    "choose, wide": (choose("ASYMMETRIC", [4, 8], scale_dtype=torch.float64, zero_point_dtype=torch.int64), [ROWS]),
    "choose, blocks in several dims": (choose("SYMMETRIC", [1, 2, 3, 6], keepdim=True), [IMAGE]),
    "choose for zeros": (choose("ASYMMETRIC", [1, 16]), [torch.zeros(4, 16)]),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    """As torchao computes it: bit for bit on etir's runtime, to the last digits on the stock one."""
    function, inputs = CASES[name]
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(function(*inputs))
        exported = torch.export.export(Function(function), tuple(inputs))
    assert any("torchao" in str(node.target) for node in exported.graph.nodes)
    own = etir.runtime.load(etir.compile(exported, target="etir").buffer).forward(*inputs)
    stock = run_stock(etir.compile(exported).buffer, inputs)
    for output, found, wanted in zip(own, stock, expected, strict=True):
        assert torch.as_tensor(output).dtype == found.dtype == wanted.dtype
        assert torch.equal(torch.as_tensor(output), wanted)
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
def test_sizes_at_run_time(dim: int) -> None:
    """The number of rows, and the size of a block."""
    size = Dim("size", min=2, max=32)
    exported = torch.export.export(Function(per_token), (ROWS,), dynamic_shapes={"args": ({dim: size},)})
    files = [etir.compile(exported, target=target).buffer for target in ("executorch", "etir")]
    for x in (ROWS, ROWS[:, :5].contiguous() if dim else ROWS[:3]):
        wanted = per_token(x)
        torch.testing.assert_close(run_stock(files[0], [x])[0], wanted, rtol=1e-6, atol=1e-6)
        assert torch.equal(torch.as_tensor(etir.runtime.load(files[1]).forward(x)[0]), wanted)


@pytest.mark.parametrize("name", ["8da4w", "4w by group", "8w by channel"])
def test_models(name: str) -> None:
    """Models that torchao has quantized, without a delegate and with one that takes nothing or a part."""
    model = quantized(name)
    exported = torch.export.export(model, (X,))
    wanted = model(X).detach()
    (own,) = etir.runtime.load(etir.compile(exported, target="etir").buffer).forward(X)
    torch.testing.assert_close(torch.as_tensor(own), wanted, rtol=1e-5, atol=1e-5)
    for options in ({}, {"min_ops": 1000}, {"exclude": ("aten.linear.default",)}):
        delegates = ["xnnpack"] if options else []
        program = etir.compile(exported, delegates=delegates, partition=options)
        assert facts_of(program.buffer).delegate_calls == (1 if "exclude" in options else 0)
        torch.testing.assert_close(run_stock(program.buffer, [X])[0], wanted, rtol=0, atol=max(CONFIGS[name][1], 1e-3))


@pytest.mark.parametrize("rows", [(3,), (2, 3)])
def test_products_of_integers(rows: tuple[int, ...]) -> None:
    """torchao's form with a product of integers (``_int_mm``) is in no delegate's table: what quantizes its operand is
    decomposed for each target, with and without delegates. (torch's own product is wrong where sums of pairs saturate,
    as with AVX2: the judge is the model in float32.)
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.SiLU(), nn.Linear(96, 32)).eval()
    x = torch.randn(*rows, 64)
    wanted = model(x).detach()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    exported = torch.export.export(model, (x,))
    assert "_int_mm" in str(exported.graph)
    own = etir.compile(exported, target="etir").report().methods[0].operators
    assert own == {"etir::int8_group_dynamic_linear.out": 2, "aten::silu.out": 1}
    found: list[torch.Tensor] = []
    linked: dict[str, Any] = {"target": "etir", "delegates": ["xnnpack"], "link_backends": ["XnnpackBackend"]}
    for options in ({"target": "etir"}, linked):
        found += map(torch.as_tensor, etir.runtime.load(etir.compile(exported, **options).buffer).forward(x))
    for output in found:
        torch.testing.assert_close(output, wanted, rtol=0, atol=0.02)
        torch.testing.assert_close(output, found[0], rtol=0, atol=0.005)


@pytest.mark.parametrize("name", ["8w by channel", "4w by group", "8w, written out"])
def test_weights_stay_small(name: str) -> None:
    """Integers of 8 bits are one byte each in the file, without a delegate too, however small the layer is."""
    exported = torch.export.export(quantized(name), (X,))
    floats = 4 * (64 * 96 + 96 * 32)
    for target in ("executorch", "etir"):
        assert len(etir.compile(exported, target=target).buffer) < 0.6 * floats


def test_a_type_without_a_number() -> None:
    """torch has types of fewer bits, which no file can hold."""
    exported = torch.export.export(
        Function(lambda x, s, z: a.quantize_affine(x, HALF_BLOCKS, s, z, torch.uint4)), (ROWS, SCALES, POINTS)
    )
    with pytest.raises(EtirError, match=r"'torchao.quantize_affine.default' .* no .pte has elements of torch.uint4"):
        etir.compile(exported)
