"""Modules with a single operator, made from the arguments of a torch call, and the comparison around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from etir.dialects.aten.base import aten_op
from etir.dialects.context import EtContext
from etir.dialects.et.layout import dims_of
from etir.dialects.schema import Kind
from etir.dialects.sym.expr import SymExpr
from etir.dialects.sym.ops import DimOp
from etir.dialects.verify import verify_module
from etir.lowering.decompose_aten.driver import DecomposeAtenPass
from etir.lowering.import_fx.types import ELEMENT_TYPES, MEMORY_FORMATS, type_of_value
from etir.passes.infra.base import methods

from etir_testing.lowering.evaluate import evaluate

LARGEST_SIZE = 4096
"""The upper bound of every symbolic dim."""

Dynamic = Mapping[int, Sequence[int]]
"""For each tensor argument (counted in order) the dims that are symbolic."""


def call(op_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What torch gives for the call, flat."""
    namespace, packet, overload = op_name.split(".")
    result = getattr(getattr(getattr(torch.ops, namespace), packet), overload)(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def one_op_module(
    op_name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Dynamic | None = None,
    results: int | None = None,
) -> tuple[ModuleOp, list[torch.Tensor]]:
    """A module whose method takes the tensors among the arguments and returns the first ``results`` (default: all)."""
    tensors = [t for t in pytree.tree_leaves((list(args), dict(kwargs))) if isinstance(t, torch.Tensor)]
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fakes = [_fake(mode, t, (dynamic or {}).get(i, ())) for i, t in enumerate(tensors)]
    fake_of = {id(t): f for t, f in zip(tensors, fakes, strict=True)}
    fake_args, fake_kwargs = pytree.tree_map(lambda v: fake_of.get(id(v), v), (list(args), dict(kwargs)))
    with mode:
        outputs = call(op_name, fake_args, fake_kwargs)
    types = [type_of_value(o) for o in outputs]
    method = FuncOp.from_region("forward", [type_of_value(f) for f in fakes], types[:results])
    value_of = {id(f): a for f, a in zip(fakes, method.body.block.args, strict=True)}
    cls = aten_op(op_name)
    given: dict[str, Any] = dict(zip(cls.SCHEMA.index, fake_args, strict=False)) | dict(fake_kwargs)
    arguments = {
        n: _argument(v, value_of)
        for n, v in given.items()
        if cls.SCHEMA.arguments[cls.SCHEMA.index[n]].kind is not Kind.LAYOUT
    }
    op = cls.make(arguments, types)
    method.body.block.add_ops([op, ReturnOp(*op.results[:results])])
    types_in = [a.type for a in method.body.block.args]
    symbols = [s for t in types_in for d in dims_of(t) if isinstance(d, SymExpr) for s in d.symbols]  # type: ignore[arg-type]
    return ModuleOp([*(DimOp(name, 0, LARGEST_SIZE) for name in dict.fromkeys(symbols)), method]), tensors


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, dynamic: Sequence[int]) -> torch.Tensor:
    if not dynamic:
        return mode.from_tensor(tensor, static_shapes=True)
    sizes = [DimDynamic.DYNAMIC if i in dynamic else DimDynamic.STATIC for i in range(tensor.dim())]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))


def _argument(value: Any, value_of: Mapping[int, SSAValue]) -> Any:
    if isinstance(value, torch.Tensor):
        return value_of[id(value)]
    if isinstance(value, (list, tuple)):
        return [_argument(v, value_of) for v in value]
    if isinstance(value, torch.dtype):
        return ELEMENT_TYPES[value]
    return MEMORY_FORMATS[value] if isinstance(value, torch.memory_format) else value


def decompose(module: ModuleOp, **options: Any) -> list[str]:
    """Run the pass, verify, and give the names of the operations that are left."""
    ctx = EtContext()
    DecomposeAtenPass(**{"target": None, **options}).run(ctx, module)
    verify_module(module)
    return [op.name for op in methods(module)[0].body.block.ops if op.name != "func.return"]


def check(
    op_name: str,
    *args: Any,
    dynamic: Dynamic | None = None,
    tolerance: float = 1e-5,
    options: Mapping[str, Any] | None = None,
    results: int | None = None,
    **kwargs: Any,
) -> list[str]:
    """Decompose the call, run what is left, compare with torch; gives the names of the operations that are left.

    The operator itself must be gone. The first ``results`` (default: all) results have the same dtype, shape, NaNs
    and infinities, and differ by at most ``tolerance`` of the largest magnitude.
    """
    module, tensors = one_op_module(op_name, args, kwargs, dynamic, results)
    names = decompose(module, **(options or {}))
    assert op_name not in names, f"{op_name} is still there: {names}"
    expected = call(op_name, args, kwargs)[:results]
    for got, wanted in zip(evaluate(module, tensors), expected, strict=True):
        compare(got, wanted, tolerance)
    return names


def compare(got: Any, wanted: Any, tolerance: float) -> None:
    """Assert that two results are the same."""
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
        return
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if not wanted.dtype.is_floating_point:
        assert torch.equal(got, wanted), f"{got} is not {wanted}"
        return
    got, wanted = got.double(), wanted.double()
    finite = wanted.isfinite()
    assert torch.equal(got.isnan(), wanted.isnan())
    assert torch.equal(got[~finite & ~wanted.isnan()], wanted[~finite & ~wanted.isnan()])
    if finite.any():
        error = (got[finite] - wanted[finite]).abs().max().item()
        scale = max(wanted[finite].abs().max().item(), 1e-6)
        assert error <= tolerance * scale, f"differs by {error} of {scale}"
