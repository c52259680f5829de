"""The pass itself: its options, what it preserves, how it reports, and tracing."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import symbol
from etir.dialects.text import parse_module
from etir.extensions import is_own
from etir.lowering.decompose_aten import traced
from etir.lowering.decompose_aten.driver import DecomposeAtenPass, hand_written
from etir.lowering.decompose_aten.size_facts import Fact
from etir.lowering.decompose_aten.static_sizes import needs_static_size
from etir.lowering.verify_core_aten import VerifyCoreAtenPass
from etir.passes.infra.rewriting import Observer, PatternError

from etir_testing.lowering.one_op import check, compare, decompose, evaluate, one_op_module

X = torch.randn(7, 4)
SILU = "aten.silu.default"


def run(op_name: str, *args: Any, **options: Any) -> list[str]:
    return decompose(one_op_module(op_name, args, {})[0], **options)


def test_names_of_patterns_are_unique_and_kebab_case() -> None:
    names = [p.name for p in hand_written()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and "_" not in name and "." not in name for name in names)


def test_every_root_is_in_the_schema_table() -> None:
    from etir.dialects.aten.table import load_table

    table = load_table()
    # Others may be registered by tests that ran before in the same process.
    roots = [root for p in hand_written() if is_own(p.__module__) for root in p.roots]
    others = [root for root in roots if root not in table]
    # Numbers are no operators; a module carries the schemas of operators that are not ATen's.
    numbers = sorted(root for root in others if root.startswith("sym."))
    assert numbers == ["sym.abs", "sym.floor", "sym.pow", "sym.sqrt"]
    assert [r for r in others if r.partition(".")[0] not in ("sym", "quantized_decomposed", "torchao")] == [
        "prims.fma.default",
        "transformers.grouped_mm_fallback.default",
    ]
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the operators

    for root in others:
        namespace, name, overload = root.split(".") if root.count(".") == 2 else ("", "", "")
        if namespace == "quantized_decomposed":
            assert overload in getattr(torch.ops.quantized_decomposed, name).overloads(), root


def test_keep() -> None:
    assert run(SILU, X, keep=(SILU,)) == [SILU]


@pytest.mark.parametrize("only", ["silu", SILU])
def test_only_names_a_pattern_or_an_operator(only: str) -> None:
    assert run(SILU, X, only=(only,)) == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert run("aten.mish.default", X, only=(only,)) == ["aten.mish.default"]


@pytest.mark.parametrize("option", ["keep", "only"])
def test_unknown_names(option: str) -> None:
    with pytest.raises(EtirError, match=r"did you mean .*aten\.silu\.default") as caught:
        run(SILU, X, **{option: ("aten.silou.default",)})
    assert caught.value.ids == ("E0503",)


def test_unknown_target() -> None:
    with pytest.raises(EtirError) as caught:
        run(SILU, X, target="nowhere")
    assert caught.value.ids == ("E0601",)


@pytest.mark.parametrize(
    ("name", "args", "whole"),
    [
        ("aten.linear.default", (X, torch.randn(3, 4), torch.randn(3)), True),
        ("aten.linear.default", (X.to(torch.complex64), torch.randn(3, 4).to(torch.complex64)), False),
        ("aten.masked_fill.Scalar", (X, X > 0, 1.0), True),
        ("aten.stack.default", ([X, X],), True),
        ("aten.avg_pool1d.default", (X, [2]), False),
        (SILU, (X,), False),
    ],
)
def test_target_decides_what_stays_whole(name: str, args: tuple[Any, ...], whole: bool) -> None:
    assert (name in run(name, *args, target="executorch")) == whole
    assert name not in run(name, *args, target=None)


def test_near_misses_are_told() -> None:
    class Reasons(Observer):
        def __init__(self) -> None:
            super().__init__()
            self.reasons: list[str] = []

        def on_match_failure(self, pattern: Any, op: Any, reason: str) -> None:
            self.reasons.append(f"{pattern.name}: {reason}")

    module, _ = one_op_module("aten.linear.default", [X, torch.randn(3, 4)], {})
    ctx = EtContext()
    reasons = Reasons()
    ctx.attachments.set(Observer, reasons)
    DecomposeAtenPass().run(ctx, module)
    assert "linear: the target has a kernel for it" in reasons.reasons


def test_what_a_decomposition_emitted_before_it_gave_up_is_taken_back() -> None:
    half = [X.half(), torch.tensor([1, 2, 3, 0, 1, 2, 3]), None, 1, -100, 0.1]
    module, _ = one_op_module("aten.cross_entropy_loss.default", half, {})
    assert decompose(module, only=("cross-entropy-loss",)) == ["aten.cross_entropy_loss.default"]


# --- tracing ----------------------------------------------------------------------------------------------------------

TRACED: list[tuple[str, tuple[Any, ...], dict[int, list[int]]]] = [
    ("aten.special_entr.default", (torch.rand(7, 4),), {0: [0, 1]}),
    ("aten.renorm.default", (X, 2, 0, 1.0), {0: [0]}),
    ("aten.quantile.scalar", (X, 0.3, 0), {}),
    ("aten.gradient.scalarint", (X,), {0: [0]}),
    ("aten.triplet_margin_loss.default", (X, X + 1, X * 2), {0: [0], 1: [0], 2: [0]}),
    ("aten.multi_margin_loss.default", (X, torch.tensor([0, 1, 2, 3, 0, 1, 2])), {}),
    ("aten.linalg_matrix_power.default", (torch.randn(3, 3), 5), {}),
    ("aten.vander.default", (torch.randn(3),), {}),
    ("aten.cosine_embedding_loss.default", (X, X + 1, torch.ones(7)), {}),
    ("aten.fft_fftshift.default", (X,), {}),
    ("aten._unsafe_masked_index.default", (X, torch.ones(4) > 0, [None, torch.arange(4)], 0.0), {}),
    ("aten.linalg_norm.default", (X, 1), {}),
]


@pytest.mark.parametrize(("name", "args", "dynamic"), TRACED, ids=lambda v: v if isinstance(v, str) else "")
def test_traced(name: str, args: tuple[Any, ...], dynamic: dict[int, list[int]]) -> None:
    names = check(name, *args, dynamic=dynamic)
    assert not any(n.split(".")[1].endswith("_") for n in names)


@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_losses_of_several_labels_have_the_shape_that_export_gives_them(shape: tuple[int, ...]) -> None:
    """Of a row that is no batch torch's kernel gives a scalar, its shape function a list of one."""
    x, labels = torch.randn(shape), torch.tensor([1, 3, -1, 0, 2]).expand(shape)
    args = (x, labels, 0)
    module, tensors = one_op_module("aten.multilabel_margin_loss.default", args, {})
    decompose(module)
    (got,) = evaluate(module, tensors)
    assert got.shape == (shape[:-1] or (1,))
    compare(got, torch.ops.aten.multilabel_margin_loss(*args).reshape(got.shape), 1e-6)


def test_graphs_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    run("aten.special_entr.default", torch.rand(3, 5))
    monkeypatch.setattr(traced, "_record", None)
    assert run("aten.special_entr.default", torch.rand(3, 5))
    with pytest.raises(PatternError):
        run("aten.special_entr.default", torch.rand(3, 6))


def traced_as(monkeypatch: pytest.MonkeyPatch, formula: Any, x: torch.Tensor) -> list[str]:
    """What an operator of one tensor becomes when ``formula`` is its decomposition."""
    name = "aten.special_entr.default"
    monkeypatch.setattr(traced, "formulas", lambda: {name: formula})
    monkeypatch.setattr(traced, "_cache", {})
    return run(name, x, only=(name,))


def test_a_decomposition_may_end_in_a_view_of_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    names = traced_as(monkeypatch, lambda x: torch.ops.aten.as_strided.default(x, [7, 4], [1, 7]), X)
    assert names == ["aten.as_strided_copy.default"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_decomposition_may_have_constants(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Those of bfloat16, which NumPy does not have, are float32 and cast."""
    names = traced_as(monkeypatch, lambda x: x + torch.tensor([0, 1, 2, 3], dtype=dtype), X.to(dtype))
    assert names[0] == "et.constant" and names[-1] == "aten.add.Tensor"
    assert ("aten._to_copy.default" in names) == (dtype is torch.bfloat16)


def test_a_graph_for_some_sizes_only_is_refused() -> None:
    """A decomposition may ask what holds for all sizes, or what the program asserts, and nothing else."""
    n, m = symbol("n"), symbol("m")
    fact = Fact("le", n, m)
    sizes = traced._SymbolicSizes({"n": (2, 9), "m": (2, 9)}, {"n": 5, "m": 6})
    op: Any = SimpleNamespace(name="aten.relu.default")
    graph: Any = SimpleNamespace(graph=SimpleNamespace(nodes=[]))
    first, second = sizes.size("n"), sizes.size("m")
    sizes.assume([fact])
    assert first <= second and first < first * second
    sizes.check(op, graph)
    assert first > 4
    with pytest.raises(EtirError, match="only valid for") as caught:
        sizes.check(op, graph)
    assert caught.value.ids == ("E0412",)


SIZES = """
sym.dim @n in [1, 9]
func.func @forward(%x: tensor<?x3xf32, #et.layout<dims = [n, 3]>>, %y: tensor<2x3xf32>, %k: i64) {
  %0, %1 = aten.topk.default(%x, k = %k) : (tensor<?x3xf32, #et.layout<dims = [n, 3]>>, i64) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  %2 = aten.stack.default([%y, %x]) : (tensor<2x3xf32>, tensor<?x3xf32, #et.layout<dims = [n, 3]>>) -> tensor<2x2x3xf32>
  func.return
}
"""  # noqa: E501


def test_dynamic_sizes_in_words() -> None:
    """Which argument has them, and which of a list."""
    ops = [op for op in parse_module(SIZES).walk() if isinstance(op, SchemaOp)]
    said = [needs_static_size(op, "mine", ValueError("it wants\n 3")) for op in ops]
    assert [d.message.partition("; it has ")[2] for d in said] == [
        "n as dim 0 of 'self', the number 'k'",
        "n as dim 0 of 'tensors[1]'",
    ]
    assert {d.notes for d in said} == {("pattern 'mine' stopped: it wants 3",)}


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = one_op_module("aten.special_entr.default", [X], {})
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    with pytest.raises(EtirError, match="aten.special_entr.default") as caught:
        decompose(module)
    assert caught.value.ids == ("E0411",)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b, x: b.sum(x, [0, 1]), r"gave tensor<f32> for tensor<7x4xf32>"),
        (lambda b, x: (x, x), "gave 2 results for 1"),
        (lambda b, x: (None,), "gave nothing for result 0, which is used"),
    ],
)
def test_a_wrong_decomposition(function: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = next(p for p in hand_written() if p.name == "silu")
    monkeypatch.setattr(pattern, "function", staticmethod(function))
    with pytest.raises(EtirError, match=message) as caught:
        run(SILU, X)
    assert caught.value.ids == ("E0420",) and "pattern 'silu' on 'aten.silu.default'" in str(caught.value)


# --- verify-core-aten -------------------------------------------------------------------------------------------------

ILLEGAL = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.silu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.add_.Tensor(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.silu.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.lgamma.default(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = aten.opaque "triton.f"(%3) {reason = "no schema"} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = aten.view.default(%4, size = [4]) : (tensor<4xf32>) -> tensor<4xf32>
  %6 = aten.relu.default(%5) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %6 : tensor<4xf32>
}
"""


def test_illegal_operators_are_one_table() -> None:
    with pytest.raises(EtirError) as caught:
        VerifyCoreAtenPass().run(EtContext(), parse_module(ILLEGAL))
    rows = [(d.message, d.location.line if d.location else 0, d.help) for d in caught.value.diagnostics]
    assert [(message, line) for message, line, _ in rows] == [
        ("'aten.silu.default' is not core ATen (2 uses, this is the first)", 3),
        ("'aten.add_.Tensor' is not core ATen", 4),
        ("'aten.lgamma.default' is not core ATen", 6),
        ("'triton.f' is not known: no schema", 7),
    ]
    assert "pattern 'silu'" in rows[0][2]
    assert "functionalize" in rows[1][2]
    assert "target 'etir' has a kernel" in rows[2][2]
    assert caught.value.ids == ("E0410",) * 4


def test_kept_operators_are_legal() -> None:
    text = ILLEGAL.replace("aten.add_", "aten.add")
    with pytest.raises(EtirError) as caught:
        VerifyCoreAtenPass(keep=(SILU, "aten.lgamma.default")).run(EtContext(), parse_module(text))
    assert [d.message for d in caught.value.diagnostics] == ["'triton.f' is not known: no schema"]


@pytest.mark.parametrize(("target", "links"), [("etir", True), ("executorch", False), (None, False)])
def test_what_has_no_pattern_stays_where_the_target_has_a_kernel(target: str | None, links: bool) -> None:
    module, _ = one_op_module("aten.erfinv.default", (torch.rand(3, 4),), {})
    assert decompose(module, target=target) == ["aten.erfinv.default"]
    verify = VerifyCoreAtenPass(target=target)
    if links:
        verify.run(EtContext(), module)
    else:
        with pytest.raises(EtirError, match="E0410"):
            verify.run(EtContext(), module)
