"""Arithmetic on runtime scalars that the runtime has no primitive operator for; complex numbers; lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from etir.dialects.sym.ops import ARITHMETIC
from etir.dialects.text import parse_module
from etir.lowering.decompose_aten.preserved import PreservedOps
from etir.lowering.to_out_variant.calls import PRIMITIVES
from etir.passes.infra.base import methods

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import call, decompose, one_op_module

_RULES = {rule.name: rule for rule in ARITHMETIC}
_EXPANDED = ("sym.ne", "sym.and", "sym.or")
"""What the executable level has in terms of others."""


def _module(name: str, exponent: str, source: str) -> str:
    operand = "%x, %k" if _RULES[name].arity == 2 else "%x"
    types = f"{source}, {exponent.split()[-1]}" if _RULES[name].arity == 2 else source
    result = "i64" if name == "sym.floor" or (name != "sym.sqrt" and "f64" not in types) else "f64"
    return f"""
func.func @forward(%x: {source}) -> {result} {{
  %k = sym.constant {exponent}
  %0 = {name} {operand} : ({types}) -> {result}
  func.return %0 : {result}
}}
"""


CASES: list[tuple[str, str, Any, Callable[[Any], Any]]] = [
    ("sym.sqrt", "1 : i64", 12, math.sqrt),
    ("sym.pow", "3 : i64", -7, lambda x: x**3),
    ("sym.pow", "1 : i64", 7, lambda x: x),
    ("sym.pow", "20 : i64", 5, lambda x: x**20),
    ("sym.pow", "2.5 : f64", 5, lambda x: x**2.5),
    ("sym.pow", "-1.0 : f64", 8, lambda x: 1 / x),
    ("sym.abs", "1 : i64", -7, abs),
    ("sym.abs", "1 : i64", 2.5, abs),
    ("sym.floor", "1 : i64", -2.5, math.floor),
    ("sym.floor", "1 : i64", 3, math.floor),
]


@pytest.mark.parametrize(
    ("name", "exponent", "x", "function"), CASES, ids=lambda v: "" if callable(v) or v is None else str(v)
)
def test_only_primitives_and_operators_are_left(name: str, exponent: str, x: Any, function: Any) -> None:
    module = parse_module(_module(name, exponent, "f64" if isinstance(x, float) else "i64"))
    names = decompose(module)
    assert all(n in PRIMITIVES or n == "sym.constant" for n in names if n.startswith("sym.")), names
    (got,) = evaluate(module, [x])
    assert got == pytest.approx(function(x), rel=1e-14)


def test_every_operation_has_a_form_at_run_time() -> None:
    from etir.lowering.decompose_aten.symint_ops import SymIntPattern

    assert all(name in PRIMITIVES or name in _EXPANDED or name in SymIntPattern.roots for name in _RULES)


REAL = torch.linspace(-1, 1, 6).reshape(2, 3)


@pytest.mark.parametrize("name", ["aten.mul.Tensor", "aten.mul.Scalar", "aten.add.Tensor", "aten.div.Tensor"])
@pytest.mark.parametrize("x", [REAL, torch.complex(REAL, REAL + 1), REAL.double()])
def test_complex_numbers_are_tensors(name: str, x: torch.Tensor) -> None:
    module, inputs = one_op_module(name, (x, 1 - 2j), {})
    assert "aten.view_as_complex.default" in decompose(module)
    (got,) = evaluate(module, inputs)
    (wanted,) = call(name, (x, 1 - 2j), {})
    assert got.dtype == wanted.dtype
    assert torch.allclose(got, wanted)


OTHER = torch.complex(REAL[:, :1] * 2 + 0.1, REAL[:, :1] - 0.3)
COMPLEX = torch.complex(REAL, REAL.flip(1) + 0.5)
PARTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((f"aten.{p}.Tensor", (COMPLEX, OTHER), {}) for p in ("add", "sub", "mul", "div")),
    *((f"aten.{p}.Tensor", (REAL, OTHER), {}) for p in ("add", "sub", "mul", "div")),
    *((f"aten.{p}.Tensor", (OTHER, REAL + 0.1), {}) for p in ("add", "sub", "mul", "div")),
    *((f"aten.{p}.Tensor", (COMPLEX, OTHER.to(torch.complex128)), {}) for p in ("add", "mul", "div")),
    *((f"aten.{p}.Tensor", (torch.tensor([[3], [-2]]), COMPLEX), {}) for p in ("add", "mul", "div")),
    *((f"aten.{p}.Scalar", (COMPLEX, 2.5), {}) for p in ("add", "sub", "mul", "div")),
    ("aten.add.Tensor", (COMPLEX, OTHER), {"alpha": -3}),
    ("aten.sub.Tensor", (REAL, OTHER), {"alpha": 2}),
    ("aten.sub.Scalar", (COMPLEX, 2), {"alpha": 3}),
    # The squares of these parts are no float32.
    ("aten.div.Tensor", (COMPLEX * 1e25, OTHER * 1e25), {}),
    *((f"aten.{p}.default", (COMPLEX,), {}) for p in ("neg", "_conj_physical", "abs", "angle", "exp")),
    ("aten.polar.default", (REAL + 1, REAL * 3), {}),
    ("aten.complex.default", (REAL.double(), REAL.double() * 3), {}),
    ("aten.mul.Tensor", (torch.tensor(1 + 2j), torch.tensor(3 - 1j)), {}),
]


@pytest.mark.parametrize("case", range(len(PARTS)), ids=lambda i: f"{PARTS[i][0]}-{i}")
def test_complex_arithmetic_in_parts(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a target that has no kernel for complex numbers at all."""
    name, args, kwargs = PARTS[case]
    monkeypatch.setattr(PreservedOps, "has_kernel", lambda preserved, op: False)
    module, inputs = one_op_module(name, args, kwargs)
    decompose(module, target="executorch", only=("complex-parts",))
    moves = ("aten.view_as_real.default", "aten.view_as_complex.default")
    for op in methods(module)[0].body.block.ops:
        assert op.name in moves or not any("complex" in str(v.type) for v in op.operands) or op.name == "func.return"
    (got,) = evaluate(module, inputs)
    (wanted,) = call(name, args, kwargs)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_complex_arithmetic_stays_where_there_are_kernels() -> None:
    """The stock runtime multiplies complex numbers, etir's adds them, too."""
    for name, target, stays in (
        ("aten.mul.Tensor", "executorch", True),
        ("aten.add.Scalar", "executorch", False),
        ("aten.add.Scalar", "etir", True),
    ):
        module, _ = one_op_module(name, (COMPLEX, 2.0 if name.endswith("Scalar") else OTHER), {})
        assert (decompose(module, target=target) == [name]) is stays, (name, target)


LISTS: list[tuple[str, tuple[Any, ...]]] = [
    ("aten._foreach_add.Scalar", ([REAL, REAL * 2], 1.5)),
    ("aten._foreach_mul.List", ([REAL, REAL * 2], [REAL, REAL])),
    ("aten._foreach_sub.ScalarList", ([REAL, REAL * 2], [1.0, 2.0])),
    ("aten._foreach_addcmul.Scalar", ([REAL], [REAL], [REAL + 1], 0.5)),
    ("aten._foreach_exp.default", ([REAL, REAL[0]],)),
]


@pytest.mark.parametrize(("name", "args"), LISTS, ids=lambda v: v if isinstance(v, str) else "")
def test_each_tensor_of_a_list(name: str, args: tuple[Any, ...]) -> None:
    module, inputs = one_op_module(name, args, {})
    assert not any("foreach" in n for n in decompose(module))
    for got, wanted in zip(evaluate(module, inputs), call(name, args, {}), strict=True):
        assert torch.allclose(got, wanted)
