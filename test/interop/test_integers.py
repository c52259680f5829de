"""Programs on integers on etir's own runtime: kernels on int8 in place of float ones, and the numbers they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.quantized import DEQUANTIZE, QUANTIZE
from etir.emit.pte.model import KernelCall
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.driver import FuseQuantizedPass
from etir.passes.backend.fuse_quantized.stored import array_of
from etir.quantization.report import sqnr
from etir.runtime import load

OWN = {"target": "etir"}


class _Net(nn.Module):
    """Convolutions of all kinds with clamps and batch norms, residual sums, a table, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.depthwise, self.pointwise = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 24, 1)
        self.grouped, self.head = nn.Conv2d(24, 24, 3, padding=2, dilation=2, groups=4), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu6(self.norm(self.first(x))), 3, 2, 1)
        x = self.pointwise(F.relu(x + F.relu6(self.depthwise(x))))
        x = F.gelu(self.grouped(x)) * x
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def _quantized(module: nn.Module, samples: list[tuple[torch.Tensor, ...]], **options: Any) -> Any:
    exported = torch.export.export(module.eval(), samples[0], dynamic_shapes=options.pop("dynamic_shapes", None))
    return etir.quantize(exported, calibration=samples, **OWN)


def _operators(module: Any) -> list[str]:
    return [op.op_name for op in module.walk() if isinstance(op, EdgeOp)]


def _kernels(program: Any) -> list[str]:
    return [op.full_name for op in read_pte(program.buffer).execution_plan[0].operators]


def _fused(quantized: Any) -> Any:
    module = quantized.module.clone()
    FuseQuantizedPass("etir").apply(EtContext(), module)
    return module


def test_net_without_a_delegate() -> None:
    """Everything after the first quantize operator is a kernel on integers, the last of which gives float32; the
    runtime's numbers are the interpreter's to the bit, and the report's loss is what it costs.
    """
    torch.manual_seed(0)
    samples = [(torch.randn(2, 3, 16, 16),) for _ in range(4)]
    module = _Net()
    found = _quantized(module, samples)
    fused = _fused(found)
    operators = _operators(fused)
    floats = [n for n in operators if not n.startswith("etir.int8") and "_copy" not in n and "quantize_per" not in n]
    assert not floats
    assert sum(name.startswith("etir.int8") for name in operators) == 10
    assert operators.count("etir.int8_float_linear.default") == 1
    assert DEQUANTIZE not in operators
    program = load(found.compile())
    results = [program.forward(*sample)[0].numpy() for sample in samples]
    for sample, result in zip(samples, results, strict=True):
        (same,) = Interpreter(fused, "numpy").run([v.numpy() for v in sample])
        np.testing.assert_array_equal(np.asarray(same), result)
    with torch.no_grad():
        wanted = [module(*sample).numpy() for sample in samples]
    assert abs(sqnr(np.concatenate(wanted), np.concatenate(results)) - found.report.output_sqnr) < 3
    assert found.report.output_sqnr > 25


class _Lines(nn.Module):
    """Convolutions of lines with all between them that works on pairs, on one number, and on windows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, 16, 3, padding=1), nn.Conv1d(16, 16, 3, padding=1)
        self.depthwise, self.last = nn.Conv1d(16, 16, 5, padding=2, groups=16), nn.Conv1d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x))
        x = x + self.second(x) * x
        return F.silu(self.last(F.max_pool1d(self.depthwise(x).relu(), 2)))


def test_lines_stay_images() -> None:
    """Between convolutions of lines nothing is moved: their integers lie with channels innermost throughout."""
    torch.manual_seed(0)
    samples = [(torch.randn(2, 8, 32),) for _ in range(4)]
    module = _Lines()
    found = _quantized(module, samples)
    program = found.compile()
    plan = read_pte(program.buffer).execution_plan[0]
    calls = [plan.operators[i.op_index].name for i in plan.chains[0].instructions if isinstance(i, KernelCall)]
    assert calls.count("dim_order_ops::_to_dim_order_copy") == 2  # What comes in, and what goes out.
    assert sum(call.startswith("etir::int8") for call in calls) == 9
    assert sqnr(module(*samples[0]).detach().numpy(), np.asarray(load(program).forward(*samples[0])[0])) > 35


def _image(*shape: int) -> tuple[torch.Tensor]:
    return (torch.randn(*shape),)


class _After(nn.Module):
    """A function of what layers give: operators on elements alone are not quantized."""

    def __init__(self, function: Any, *sizes: int) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(nn.Linear(size, size) for size in sizes)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*(layer(x) for layer, x in zip(self.layers, inputs, strict=True)))


class _Gated(_After):
    """A factor for each channel (squeeze and excitation)."""

    def __init__(self, lines: bool = False) -> None:
        super().__init__(None)
        kind = nn.Conv1d if lines else nn.Conv2d
        self.first, self.gate, self.last = kind(6, 8, 3, padding=1), kind(8, 8, 1), kind(8, 4, 1)
        self.lines = lines

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(x))
        one = y[:, :, :1] if self.lines else F.adaptive_avg_pool2d(y, 1)
        return self.last(torch.sigmoid(self.gate(one)) * y)


torch.manual_seed(0)  # torch begins with another number in every process, and weights may be such that a step is more
CASES: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "linear": (nn.Linear(7, 5), _image(3, 7)),
    "linear, no bias, three dims": (nn.Sequential(nn.Linear(8, 17, bias=False), nn.ReLU()), _image(2, 3, 8)),
    "convolution": (nn.Conv2d(3, 8, (3, 2), stride=(2, 1), padding=(1, 0)), _image(2, 3, 7, 6)),
    "clamped": (nn.Sequential(nn.Conv2d(4, 8, 1), nn.Hardtanh(-0.5, 0.25)), _image(1, 4, 5, 5)),
    "groups": (nn.Conv2d(6, 9, 3, groups=3, dilation=2, padding=1), _image(1, 6, 8, 8)),
    "depthwise": (nn.Conv2d(20, 20, 3, groups=20, stride=2), _image(1, 20, 7, 7)),
    "multiplied channels": (nn.Conv2d(4, 8, 3, groups=4), _image(1, 4, 5, 5)),
    "sum": (_After(lambda a, b: F.relu(a + b), 9, 9), (torch.randn(2, 9), 3 * torch.randn(2, 9))),
    "difference": (_After(lambda a, b: a - b, 4, 4), (torch.randn(2, 3, 4, 4), 9 * torch.randn(2, 3, 4, 4))),
    "product": (_After(lambda a, b: a * b, 33, 33), (torch.randn(33), torch.randn(33))),
    "product that expands": (_Gated(), _image(2, 6, 5, 7)),
    "line that expands": (_Gated(lines=True), _image(2, 6, 9)),
    "sum of rows": (_After(lambda a, b: F.relu(a + b), 9, 9), (torch.randn(4, 1, 9), torch.randn(4, 5, 9))),
    "square": (_After(lambda a: a * a, 33), (torch.randn(33),)),
    "mean": (_After(lambda a: a.mean([2, 3]), 4), _image(2, 5, 3, 4)),
    "pool to one": (_After(nn.AdaptiveAvgPool2d(1), 4), _image(1, 5, 3, 4)),
    "line": (nn.Conv1d(5, 12, 3, stride=2, padding=1), _image(2, 5, 17)),
    "lines in a row": (
        nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Conv1d(8, 8, 5, groups=8, dilation=2), nn.Conv1d(8, 6, 1)),
        _image(1, 4, 30),
    ),
    "transposed": (nn.ConvTranspose2d(6, 10, 3, 2, 1, output_padding=1), _image(2, 6, 5, 4)),
    "transposed, groups, clamped": (
        nn.Sequential(nn.ConvTranspose2d(6, 8, (2, 4), (3, 2), dilation=(2, 1), groups=2), nn.ReLU6()),
        _image(1, 6, 3, 5),
    ),
    "transposed line": (nn.ConvTranspose1d(6, 9, 4, 2, 1), _image(2, 6, 7)),
    "matrices": (_After(lambda a, b: a @ b, 9, 8), (torch.randn(2, 3, 4, 9), torch.randn(2, 3, 9, 8))),
    "padded by zeros": (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(8, 4, 3)),
        _image(1, 3, 7, 7),
    ),
    "padded by a number": (_After(lambda a: torch.tanh(F.pad(a, (1, 2), value=0.3)), 9), _image(3, 9)),
    "one matrix": (_After(lambda a, b: a @ b.T, 9, 9), (torch.randn(4, 9), torch.randn(7, 9))),
    "softmax": (_After(lambda a: torch.softmax(a, -1), 20), (torch.randn(3, 20),)),
    "numbers beside": (_After(lambda a: F.silu(a * 0.3 + 1) / 7, 20), (torch.randn(3, 20),)),
    "attention": (
        _After(F.scaled_dot_product_attention, 16, 16, 16),
        (torch.randn(1, 2, 9, 16), torch.randn(1, 2, 7, 16), torch.randn(1, 2, 7, 16)),
    ),
    "attention of one head": (
        _After(lambda q, k, v: torch.softmax(q @ k.transpose(1, 2), -1) @ v, 16, 16, 16),
        (torch.randn(1, 9, 16), torch.randn(1, 7, 16), torch.randn(1, 7, 16)),
    ),
    **{
        name: (_After(function, 50), (3 * torch.randn(2, 50),))
        for name, function in {
            "gelu": F.gelu,
            "tanh": torch.tanh,
            "sigmoid": torch.sigmoid,
            "silu": F.silu,
            "leaky": F.leaky_relu,
            "elu": F.elu,
        }.items()
    },
}


def _step(fused: Any, result: np.ndarray) -> float:
    """The step of the integers that a result is made of: its own, or where a layer gives float32 at once that of its
    bias, or of an int8 result if there are layers before it.
    """
    ops = [op for op in fused.walk() if isinstance(op, EdgeOp)]
    lasts = [op for op in ops if op.op_name == DEQUANTIZE]
    if lasts:
        (last,) = lasts
        return float(last.arg("scale"))
    first, *more = [op for op in ops if op.op_name.startswith("etir.int8")]
    if more:
        return float(np.ptp(result)) / 255
    factors = array_of(first.arg("factors"), ConstantStore(fused))
    assert factors is not None
    return 0.5 * float(factors.max()) + 1e-6 * float(np.abs(result).max())


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str) -> None:
    """A kernel on integers is within one step of the separate operators; a step of a layer is some after it."""
    torch.manual_seed(1)
    module, inputs = CASES[name]
    quantized = _quantized(module, [inputs])
    fused = _fused(quantized)
    assert any(n.startswith("etir.int8") for n in _operators(fused))
    arrays = [v.numpy() for v in inputs]
    separate = np.asarray(Interpreter(quantized.module, "numpy").run(arrays)[0])
    found = load(quantized.compile()).forward(*inputs)[0].numpy()
    steps = 4.01 if isinstance(module, _After) else 1.01
    assert np.abs(found - separate).max() <= steps * _step(fused, separate)
    np.testing.assert_array_equal(found, np.asarray(Interpreter(fused, "numpy").run(arrays)[0]))


def test_no_matrix_is_left_in_float() -> None:
    """A batch of one is a product of two matrices in the graph, on integers as those of several are."""
    torch.manual_seed(8)
    module, inputs = CASES["attention of one head"]
    operators = _operators(_fused(_quantized(module, [inputs])))
    assert [operators.count(f"etir.int8_{name}.default") for name in ("linear", "bmm", "softmax")] == [3, 2, 1]
    assert not {"aten.mm.default", "aten._softmax.default"} & set(operators)


@pytest.mark.parametrize("name", ["product that expands", "line that expands", "sum of rows"])
def test_operands_that_expand(name: str) -> None:
    """Integers are repeated, and nothing is computed in float32."""
    torch.manual_seed(10)
    module, inputs = CASES[name]
    names = _operators(_fused(_quantized(module, [inputs])))
    assert names.count("aten.expand_copy.default") == 1
    assert not [n for n in names if not n.startswith("etir.int8") and "_copy" not in n and "quantize_per" not in n]


@pytest.mark.parametrize("name", ["padded by zeros", "padded by a number"])
def test_padding_keeps_integers(name: str) -> None:
    """Integers are padded with an integer; images stay images."""
    torch.manual_seed(9)
    module, inputs = CASES[name]
    fused = _fused(_quantized(module, [inputs]))
    (pad,) = [op for op in fused.walk() if isinstance(op, EdgeOp) and op.op_name == "aten.constant_pad_nd.default"]
    assert tensor_of(pad.operands[0]).element_type == i8
    names = _operators(fused)
    assert names.count("dim_order_ops._to_dim_order_copy.default") <= 2  # What comes in, and what goes out.
    assert sum(name == QUANTIZE for name in names) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_not_finite(value: float) -> None:
    """NaN is the least integer of the range, on the runtime and with both evaluators."""
    torch.manual_seed(6)
    x = torch.randn(3, 8)
    quantized = _quantized(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), [(x,)])
    x[0, 1] = x[2, 7] = value
    found = load(quantized.compile()).forward(x)[0].numpy()
    for evaluator in ("numpy", "torch"):
        np.testing.assert_array_equal(found, np.asarray(Interpreter(_fused(quantized), evaluator).run([x])[0]))


@pytest.mark.parametrize("layer", [nn.Conv2d(8, 6, 3, padding=1, groups=2), nn.Conv1d(8, 6, 3), nn.Linear(8, 6)])
def test_results_are_not_rounded(layer: nn.Module) -> None:
    """What no operator reads as integers is float32: outputs, also moved and joined, and what is computed on floats.
    What one reads as integers, or a pool, is int8, and so is what a file of encodings has one for.
    """
    torch.manual_seed(7)
    lines = {nn.Conv2d: (2, 8, 6, 6), nn.Conv1d: (2, 8, 9), nn.Linear: (2, 4, 8)}
    x = torch.randn(*lines[type(layer)])
    kind = "float_linear" if isinstance(layer, nn.Linear) else "float_conv2d"
    functions: dict[str, Any] = {
        "moved": lambda y: y.flatten(1),
        "joined": lambda y: torch.cat([y, y * 0.25], 1)[:, :, 1:],
        "floats": lambda y: torch.cumsum(y.relu(), 1),
    }
    if not isinstance(layer, nn.Linear):
        functions["pooled"] = lambda y: F.max_pool2d(y, 2) if y.ndim == 4 else F.max_pool1d(y, 2)
    for name, function in functions.items():
        module = _After(function, 8).eval()
        module.layers = nn.ModuleList([layer])
        found = _quantized(module, [(x,), (-x,)])
        operators = _operators(_fused(found))
        is_float = name in ("moved", "floats")
        assert (f"etir.int8_{kind}.default" in operators) == is_float, name
        program = load(found.compile())
        with torch.no_grad():
            assert sqnr(module(x).numpy(), np.asarray(program.forward(x)[0])) > (38 if is_float else 33)


def test_dynamic_batch() -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    samples = [(torch.randn(4, 3, 6, 6),), (torch.randn(4, 3, 6, 6),)]
    shapes = ({0: torch.export.Dim("batch", min=1, max=8)},)
    quantized = _quantized(module, samples, dynamic_shapes=shapes)
    assert sum(n.startswith("etir.int8") for n in _operators(_fused(quantized))) == 3
    program = load(quantized.compile())
    for batch in (1, 3, 8):
        x = torch.randn(batch, 3, 6, 6)
        with torch.no_grad():
            assert sqnr(module(x).numpy(), program.forward(x)[0].numpy()) > 25


class _Chosen(nn.Module):
    """A linear layer whose input is quantized with parameters chosen from it: for each row, or for all."""

    def __init__(self, per_row: bool) -> None:
        super().__init__()
        import torch.ao.quantization.fx._decomposed

        self.per_row, self.ops = per_row, torch.ops.quantized_decomposed
        weight = torch.randn(40, 64)
        scales = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(40, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops, range_ = self.ops, (-128, 127, torch.int8)
        if self.per_row:
            scale, point = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
            q = ops.quantize_per_token(x, scale, point, *range_)
            y = ops.dequantize_per_token(q, scale, point, *range_, torch.float32)
        else:
            scale, point = ops.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
            q = ops.quantize_per_tensor.tensor(x, scale, point, *range_)
            y = ops.dequantize_per_tensor.tensor(q, scale, point, *range_)
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return F.linear(y, weight, self.bias)


@pytest.mark.parametrize("per_row", [True, False])
def test_chosen_parameters(per_row: bool) -> None:
    torch.manual_seed(3)
    module, x = _Chosen(per_row).eval(), torch.randn(5, 64)
    compiled = etir.compile(torch.export.export(module, (x,)), **OWN)
    assert _kernels(compiled) == ["etir::int8_dynamic_linear.out"]
    with torch.no_grad():
        assert sqnr(module(x).numpy(), load(compiled).forward(x)[0].numpy()) > (60 if per_row else 40)


def test_weights_stay_small() -> None:
    """Numbers of four bits are two in a byte of the file, and nothing multiplies a weight out."""
    torch.manual_seed(4)
    module, x = _Chosen(True).eval(), torch.randn(5, 64)
    module.weight.clamp_(-8, 7)

    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = module.ops.dequantize_per_channel(module.weight, module.scales, module.zeros, 0, -8, 7, torch.int8)
            return F.linear(x, weight, module.bias)

    plain = Plain()
    plain.inner = module
    compiled = etir.compile(torch.export.export(plain, (x,)), **OWN)
    assert _kernels(compiled) == ["etir::int4_weight_linear.out"]
    with torch.no_grad():
        assert sqnr(plain(x).numpy(), load(compiled).forward(x)[0].numpy()) > 100


@pytest.mark.parametrize("symmetric", [True, False])
def test_groups_of_four_bits(symmetric: bool) -> None:
    """torchao's int4 weights with a scale for each group are half a byte each; with zero points they are float32."""
    torchao = pytest.importorskip("torchao.quantization")
    torch.manual_seed(5)
    module, x = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 40)).eval(), torch.randn(7, 64)
    mapping = torchao.MappingType.SYMMETRIC if symmetric else torchao.MappingType.ASYMMETRIC
    config = torchao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=torchao.PerGroup(16), mapping_type=mapping
    )
    torchao.quantize_(module, config)
    compiled = etir.compile(torch.export.export(module, (x,)), **OWN)
    found = _kernels(compiled)
    assert (
        sorted(found) == ["aten::relu.out", "etir::int4_weight_linear.out"]
        if symmetric
        else "aten::linear.out" in found
    )
    with torch.no_grad():
        assert sqnr(module(x).numpy(), load(compiled).forward(x)[0].numpy()) > 100
    if symmetric:
        weights = (64 * 48 + 48 * 40) // 2
        assert len(compiled.buffer) < weights + (64 * 48 + 48 * 40) // 16 * 4 + 3000


@pytest.mark.parametrize(
    ("recipe", "kernel"), [("dynamic-int8", "int8_dynamic_linear"), ("static-int8", "int8_linear")]
)
def test_recipes_without_a_delegate(recipe: str, kernel: str) -> None:
    """The target's own kernels are rows of every recipe that computes on integers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 96), nn.GELU(), nn.Linear(96, 24), nn.LayerNorm(24)).eval()
    samples = [(torch.randn(7, 40),) for _ in range(4)]
    program = torch.export.export(model, samples[0])
    quantized = etir.quantize(program, recipe, calibration=samples, target="etir")
    compiled = quantized.compile()
    assert _kernels(compiled).count(f"etir::{kernel}.out") >= 1
    with torch.no_grad():
        wanted = model(*samples[0])
    got = torch.as_tensor(load(compiled).forward(*samples[0])[0])
    assert 10 * torch.log10(wanted.square().sum() / (wanted - got).square().sum()) > 35
