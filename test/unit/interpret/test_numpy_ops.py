"""The NumPy operators against torch on the calls of ``numpy_ops_calls``: what no OpInfo sample reaches."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import math
import operator
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.passes import _quant_patterns_and_replacements, dim_order_ops_registry

from etir.diagnostics import EtirError
from etir.dialects.experts import EXPERT_LINEAR, expert_op
from etir.dialects.schema import parse_schema
from etir.interpret.numpy_ops import OPS, lookup, supported
from etir.interpret.numpy_ops import dtype as dtypes
from etir.interpret.numpy_ops.creation import seed
from etir.interpret.numpy_ops.registry import IGNORED
from etir.interpret.numpy_ops.special import erf, erfc

from etir_testing.interpret import numpy_ops_calls, numpy_samples
from etir_testing.interpret.numpy_ops_oracle import Tally, check_call, difference, to_numpy
from etir_testing.runtime.kernels import manifest

REGISTERED = (_quant_patterns_and_replacements, dim_order_ops_registry)
"""Importing these defines the quantized_decomposed, dim_order_ops and et_copy operators."""

MISSING_CORE = {"aten.atan2.out", "aten.resize_.default"}
"""Core ATen overloads that are not functional: ``atan2.default`` and ``resize.default`` stand for them."""


def overload_of(name: str) -> Any:
    """The torch operator called ``name``."""
    namespace, operator_name, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), operator_name), overload)


def test_results_are_torchs() -> None:
    """The calls by hand; torch's samples are compared in the walk over them (``test/opinfo_walk.py``)."""
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, args, kwargs in numpy_ops_calls.all_calls():
            check_call(tally, overload_of(name), args, kwargs)
    print(f"\n{len(tally.passed)} overloads x calls = {tally.passed.total()} comparisons")
    assert not tally.failed, "\n".join(f"{name}: {found}" for name, found in tally.failed.items())
    assert tally.passed.total() > 500


def test_core_aten_is_covered() -> None:
    core: list[str] = []
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        operator_name, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, operator_name, None) if namespace == "aten" else None
        function = getattr(packet, overload or "default", None)
        if function is not None and torch.Tag.core in function.tags:
            core.append(str(function))
    missing = [name for name in core if lookup(name) is None]
    print(f"\n{len(core) - len(missing)} of {len(core)} core overloads")
    assert len(core) > 190
    assert sorted(missing) == sorted(MISSING_CORE)


def test_parameters_are_the_schemas() -> None:
    differences: list[str] = []
    for name in supported():
        parameters = inspect.signature(OPS[name]).parameters
        if name.startswith(numpy_samples.OF_KERNELS):
            # What passes make, and lower again, has no kernel.
            kernel = f"{name.removesuffix('.default').replace('.', '::')}.out"
            schema = expert_op().SCHEMA if name == EXPERT_LINEAR else parse_schema(manifest()[kernel]["schema"])
            named = [a.name for a in schema.arguments if not (a.is_write and a.kwarg_only)]
            if named != list(parameters):
                differences.append(f"{name}: {named} but {list(parameters)}")
            continue
        arguments = [
            argument
            for argument in overload_of(name)._schema.arguments
            if argument.name in parameters or argument.name not in IGNORED or not argument.kwarg_only
        ]
        if [a.name for a in arguments] != list(parameters):
            differences.append(f"{name}: {[a.name for a in arguments]} but {list(parameters)}")
            continue
        for argument in arguments:
            default = parameters[argument.name].default
            if argument.has_default_value() and default is inspect.Parameter.empty:
                differences.append(f"{name}: {argument.name} has no default")
            if isinstance(argument.default_value, (bool, float, str)) and argument.default_value != default:
                differences.append(f"{name}: {argument.name} is {default}, not {argument.default_value}")
    assert not differences, "\n".join(differences)


NATIVE = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
NATIVE += [torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.mark.parametrize("a", NATIVE, ids=str)
def test_promotion(a: torch.dtype) -> None:
    scalars = [True, 2, 2.5]
    for b in NATIVE:
        assert dtypes.promote_types(to_numpy(a), to_numpy(b)) == to_numpy(torch.promote_types(a, b)) or (
            {a, b} & {torch.float16} and a.is_complex | b.is_complex
        )
        for shape_a, shape_b in itertools.product([(2,), ()], repeat=2):
            x, y = torch.ones(shape_a, dtype=a), torch.ones(shape_b, dtype=b)
            expected = torch.result_type(x, y)
            if expected != torch.complex32:
                assert dtypes.result_type(to_numpy(x), to_numpy(y)) == to_numpy(expected), (x, y)
    for scalar, shape in itertools.product(scalars, [(2,), ()]):
        x = torch.ones(shape, dtype=a)
        assert dtypes.result_type(to_numpy(x), scalar) == to_numpy(torch.result_type(x, scalar)), (a, scalar)
    assert dtypes.result_type(2, 2.5) == np.float32
    assert dtypes.result_type(np.ones(1, np.float32), 2j) == np.complex64


@pytest.mark.parametrize("source", NATIVE, ids=str)
def test_conversion(source: torch.dtype) -> None:
    values = torch.tensor([0, 1, 3, 100]).to(source)
    if source.is_floating_point or source.is_complex:
        values = torch.cat([values, torch.tensor([-1.0, -2.75, 2.75, 0.25]).to(source)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in NATIVE:
            assert difference("to", values.to(target), dtypes.to(to_numpy(values), to_numpy(target)), 0, 0) is None


def test_conversion_of_nan_to_bool_and_of_wide_integers() -> None:
    assert dtypes.to(np.array([np.nan, 0.0]), dtypes.BOOL).tolist() == [True, False]
    assert dtypes.to(300, np.dtype(np.uint8)) == torch.tensor(300).to(torch.uint8).item()
    assert dtypes.to(-1, np.dtype(np.uint8)) == 255


def test_erf_in_double_precision() -> None:
    x = np.concatenate([np.linspace(-6, 6, 4001), [0.0, 1e-300, 1.0, -1.0, np.inf, -np.inf]])
    expected = np.array([math.erf(v) for v in x])
    assert np.max(np.abs(erf(x) - expected)) < 1e-15
    assert np.max(np.abs(erf(x.astype(np.float32)) - np.array([math.erf(np.float32(v)) for v in x]))) < 1e-7
    positive = np.linspace(-3, 20, 4001)
    exact = np.array([math.erfc(v) for v in positive])
    assert np.max(np.abs(erfc(positive) - exact) / exact) < 2e-13
    assert np.isnan(erf(np.array([np.nan]))).all()


def test_quantized_additions() -> None:
    torch.manual_seed(0)
    a, b = (torch.randint(-128, 128, (4, 5), dtype=torch.int8) for _ in range(2))
    parameters = [(0.05, 3, -128, 127), (0.02, -7, -128, 127), (0.06, 1, -128, 127)]
    q = torch.ops.quantized_decomposed
    x, y = (q.dequantize_per_tensor(t, *p, torch.int8) for t, p in zip((a, b), parameters, strict=False))
    operands = [to_numpy(a), *parameters[0], to_numpy(b), *parameters[1], *parameters[2]]
    for name, total in (("add", x + y), ("add_relu", torch.relu(x + y))):
        expected = q.quantize_per_tensor(total, *parameters[2], torch.int8)
        actual = OPS[f"quantized_decomposed.{name}.default"](*operands)
        assert difference(name, expected, actual, 0, 0) is None
    expected = q.quantize_per_tensor(x + 1.25, *parameters[2], torch.int8)
    scalar = OPS["quantized_decomposed.add.scalar"]
    actual = scalar(to_numpy(a), *parameters[0], np.int8, 1.25, *parameters[2], np.int8)
    assert difference("add.scalar", expected, actual, 0, 0) is None


def test_quantized_products() -> None:
    torch.manual_seed(0)
    x, zeros = torch.randn(3, 6), torch.randn(4, 2)
    q, group = torch.ops.quantized_decomposed, (-128, 127, torch.int8, 3, torch.float32)
    weight, scales = torch.randint(-128, 128, (4, 6), dtype=torch.int8), torch.rand(4, 2)
    for zero_points in (None, zeros):
        matrix = q.dequantize_per_channel_group(weight, scales, zero_points, *group)
        arguments = [to_numpy(t) for t in (x, weight, scales, zero_points)]
        actual = OPS["quantized_decomposed.mixed_linear.default"](*arguments)
        assert difference("mixed_linear", x @ matrix.T, actual, 1e-5, 1e-4) is None
    columns, row_scales = torch.randint(-128, 128, (6, 4), dtype=torch.int8), torch.rand(6)
    arguments = [to_numpy(t) for t in (x, columns, row_scales)]
    actual = OPS["quantized_decomposed.mixed_mm.default"](*arguments, None)
    assert difference("mixed_mm", x @ (columns * row_scales[:, None]), actual, 1e-5, 1e-4) is None


def test_half_is_rounded_once() -> None:
    many = np.full(4096, 1.0009765625, np.float16)
    assert OPS["aten.sum.default"](many) == np.float16(4096 * 1.0009765625)
    assert OPS["aten.mul.Tensor"](np.array([0.1], np.float16), 0.1).dtype == np.float16


def test_copies_own_their_memory() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(OPS["aten.view.default"](x, [3, 2]), x)
    copies = {
        "view_copy.default": ([3, 2],),
        "slice_copy.Tensor": (0, 0, 2),
        "expand_copy.default": ([2, 3],),
        "alias_copy.default": (),
        "clone.default": (),
        "unbind_copy.int": (),
    }
    for name, args in copies.items():
        result = OPS[f"aten.{name}"](x, *args)
        assert not any(np.shares_memory(r, x) for r in (result if isinstance(result, list) else [result])), name


def test_random_numbers_repeat_after_a_seed() -> None:
    seed(7)
    first = OPS["aten.randn.default"]([3, 4])
    seed(7)
    assert np.array_equal(first, OPS["aten.randn.default"]([3, 4]))
    assert not np.array_equal(first, OPS["aten.randn.default"]([3, 4]))


def test_distributions() -> None:
    seed(0)
    uniform = OPS["aten.rand.default"]([10000], dtype=np.float16)
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(float(uniform.astype(np.float64).mean()) - 0.5) < 0.02
    assert sorted(OPS["aten.randperm.default"](50).tolist()) == list(range(50))
    result, kept = OPS["aten.native_dropout.default"](np.ones(10000, np.float32), 0.25, True)
    assert abs(kept.mean() - 0.75) < 0.02
    assert np.allclose(result, kept / 0.75)
    assert set(OPS["aten.randint.low"](-2, 1, [1000]).tolist()) == {-2, -1, 0}


BAD_CALLS = [
    ("aten.mean.default", (np.arange(3),), "a mean is not defined for int64"),
    ("aten.mm.default", (np.ones((2, 3)), np.ones((2, 3))), "mismatch"),
    ("aten.mm.default", (np.ones((2, 3)), np.ones((3, 2), np.float32)), "differ in dtype"),
    ("aten.add.Tensor", (np.ones(3), np.ones(2)), "float64[3], float64[2]"),
    ("aten.index.Tensor", (np.ones(3), [np.array([3])]), "out of bounds"),
    ("aten.select.int", (np.ones((2, 2)), 2, 0), "dimension 2 is out of range"),
    ("aten.view.default", (np.ones(4), [3]), "cannot reshape"),
    ("aten.remainder.Tensor", (np.arange(2), np.zeros(2, np.int64)), "integer division by zero"),
    ("aten.pow.Tensor_Scalar", (np.arange(3), -1), "negative power"),
    ("aten.sub.Tensor", (np.array([True]), np.array([True])), "bool"),
    ("aten.convolution.default", (np.ones((1, 2, 4)), np.ones((3, 3, 3)), None, [1], [0], [1], False, [0], 1), "3"),
    ("aten.max_pool2d.default", (np.ones((1, 1, 2, 2)), [5, 5]), "does not fit"),
]


@pytest.mark.parametrize(("name", "args", "message"), BAD_CALLS)
def test_bad_arguments_name_the_operator(name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EtirError) as raised:
        OPS[name](*args)
    assert raised.value.ids == ("E1052",)
    assert name in str(raised.value)
    assert message in str(raised.value)


def test_bfloat16_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(EtirError, match="ml_dtypes") as raised:
        dtypes.dtype_named("bfloat16")
    assert raised.value.ids == ("E1051",)


def test_bfloat16_promotes_and_computes_in_float32() -> None:
    if importlib.util.find_spec("ml_dtypes") is None:
        # Then there are no bfloat16 arrays at all: the test above has what happens instead.
        return
    bfloat16 = dtypes.dtype_named("bfloat16")
    x = np.array([1.0, 2.0, 3.0], np.float32).astype(bfloat16)
    assert dtypes.result_type(x, 2.5) == bfloat16
    assert dtypes.result_type(x, np.ones(1, np.float16)) == np.float32
    assert OPS["aten.sigmoid.default"](x).dtype == bfloat16
    assert OPS["aten.add.Tensor"](x, 1).astype(np.float32).tolist() == [2.0, 3.0, 4.0]
    assert OPS["aten.sum.default"](x).dtype == bfloat16


def test_torch_is_not_imported() -> None:
    code = "import sys, etir.interpret.numpy_ops as n; n.supported(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_families_are_imported_when_needed() -> None:
    code = (
        "import sys; from etir.interpret.numpy_ops import lookup; p = 'etir.interpret.numpy_ops.';"
        "assert p + 'elementwise' not in sys.modules; assert lookup('aten.add.Tensor');"
        "assert p + 'elementwise' in sys.modules and p + 'recurrent' not in sys.modules;"
        "assert lookup('aten.lstm.input') and lookup('aten.nothing.default') is None"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Mobile(torch.nn.Module):
    """Convolutions of every kind that MobileNet has, and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, 2, 1, bias=False),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False),
            torch.nn.BatchNorm2d(8),
            torch.nn.Hardswish(),
            torch.nn.Conv2d(8, 16, 1),
            torch.nn.SiLU(),
            torch.nn.MaxPool2d(2),
        )
        self.head = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.features(x).mean([2, 3])), -1)


class Transformer(torch.nn.Module):
    """An encoder layer with an embedding and a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8)
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + torch.nn.functional.gelu(self.out(y.transpose(1, 2).flatten(2)))


class Recurrent(torch.nn.Module):
    """A bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (h, _) = self.lstm(x)
        return y, h


def run_exported(program: torch.export.ExportedProgram, *inputs: torch.Tensor) -> list[Any]:
    """Run an exported program node by node with the NumPy operators alone."""
    values: dict[Any, Any] = {}
    signature = program.graph_signature
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = signature.inputs_to_lifted_tensor_constants
    user_inputs = iter(inputs)
    for node in program.graph.nodes:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: values[n])
        if node.op == "placeholder":
            name = constants.get(node.name, state.get(node.name))
            # Buffers that are not saved with the model are kept with the constants.
            kept = program.state_dict if name in program.state_dict else program.constants
            values[node] = to_numpy(next(user_inputs) if name is None else kept[name])
        elif node.op == "output":
            return list(args[0])
        elif node.target is operator.getitem:
            values[node] = args[0][args[1]]
        else:
            values[node] = OPS[str(node.target)](*to_numpy(list(args)), **{k: to_numpy(v) for k, v in kwargs.items()})
    raise AssertionError("the graph has no output")


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Mobile, (torch.linspace(-2, 2, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16),)),
        (Transformer, (torch.tensor([[1, 5, 3, 2], [0, 10, 9, 4]]),)),
        (Recurrent, (torch.linspace(-1, 1, 2 * 5 * 4).reshape(2, 5, 4),)),
    ],
)
def test_exported_programs(model: type[torch.nn.Module], inputs: tuple[torch.Tensor, ...], decomposed: bool) -> None:
    torch.manual_seed(0)
    module = model().eval()
    program = torch.export.export(module, inputs)
    if decomposed:
        program = program.run_decompositions()
    expected = module(*inputs)
    actual = run_exported(program, *inputs)
    for e, a in zip(expected if isinstance(expected, tuple) else (expected,), actual, strict=True):
        assert difference("output", e, a, 1e-5, 1e-5) is None
