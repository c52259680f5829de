"""Runs a module of ATen operators with torch: the oracle that decompositions are compared with.

Every value is checked against its declared type, with the symbols of the types bound by the inputs, so that a wrong
inferred type anywhere is a failure and not only a wrong result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from etir.dialects.control.ops import ScanOp, YieldOp
from etir.dialects.et.layout import dims_of
from etir.dialects.et.program import ConstantOp as TensorConstant
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import BY_NAME, ArithmeticOp, AssertOp, ConstantOp
from etir.lowering.import_fx.types import MEMORY_FORMATS, TORCH_DTYPES
from etir.passes.infra.base import methods

_FORMATS = {word: memory_format for memory_format, word in MEMORY_FORMATS.items()}


def evaluate(module: ModuleOp, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of the only method for ``inputs`` (tensors and numbers)."""
    (method,) = methods(module)
    values: dict[SSAValue, Any] = dict(zip(method.body.block.args, inputs, strict=True))
    symbols: dict[str, int] = {}
    for argument, value in zip(method.body.block.args, inputs, strict=True):
        if isinstance(argument.type, TensorType):
            for dim, size in zip(dims_of(argument.type), value.shape, strict=True):
                if not isinstance(dim, int) and str(dim) in dim.symbols:
                    symbols[str(dim)] = size
    return _block(module, method.body.block, values, symbols)


def _block(module: ModuleOp, block: Block, values: dict[SSAValue, Any], symbols: dict[str, int]) -> list[Any]:
    for op in block.ops:
        if isinstance(op, (ReturnOp, YieldOp)):
            return [values[v] for v in op.arguments]
        if isinstance(op, GetWeightOp):
            outcome = [_weight(module, op)]
        elif isinstance(op, ScanOp):
            outcome = _scan(module, op, values, symbols)
        else:
            outcome = _run(op, values)
        for result, value in zip(op.results, outcome, strict=True):
            _check(op, result.type, value, symbols)
            values[result] = value
    raise AssertionError("the block does not return")


def _scan(module: ModuleOp, op: ScanOp, values: dict[SSAValue, Any], symbols: dict[str, int]) -> list[Any]:
    carried, inputs = [values[v] for v in op.inits], [values[v] for v in op.inputs]
    stacked: list[list[Any]] = []
    for number in range(len(inputs[0])):
        slices = [x[number] for x in inputs]
        inner = values | dict(zip(op.body.block.args, [*carried, *slices], strict=True))
        given = _block(module, op.body.block, inner, symbols)
        carried = given[: len(carried)]
        stacked.append(given[len(carried) :])
    return [*carried, *(torch.stack(column) for column in zip(*stacked, strict=True))]


def _weight(module: ModuleOp, op: GetWeightOp) -> torch.Tensor:
    weights = [o for o in module.body.block.ops if isinstance(o, WeightOp)]
    weight = next(w for w in weights if w.sym_name.data == op.symbol.root_reference.data)
    data = torch.frombuffer(bytearray(weight.value.data.data), dtype=TORCH_DTYPES[weight.type.element_type])  # type: ignore[attr-defined]
    return data.reshape(weight.type.get_shape())  # type: ignore[attr-defined]


def _run(op: Operation, values: dict[SSAValue, Any]) -> list[Any]:
    if isinstance(op, ConstantOp):
        return [op.value.value.data]  # type: ignore[attr-defined]
    if isinstance(op, ArithmeticOp):
        return [BY_NAME[op.name].function(*[values[a] for a in op.arguments])]
    if isinstance(op, TensorConstant):
        type = op.value.type
        return [torch.tensor(op.value.get_values(), dtype=TORCH_DTYPES[type.element_type]).reshape(type.get_shape())]
    if isinstance(op, AssertOp):
        assert values[op.operands[0]], op
        return []
    assert isinstance(op, SchemaOp), op.name
    given = op.given_args()
    given.update({a.name: None for a in op.SCHEMA.arguments if not a.has_default and a.name not in given})
    arguments = {name: _plain(name, value, values) for name, value in given.items()}
    if op.name == "aten.view.default":  # a functional program has no strides that could forbid it
        return [arguments["self"].reshape(arguments["size"])]
    namespace, packet, overload = op.name.split(".")
    result = getattr(getattr(getattr(torch.ops, namespace), packet), overload)(**arguments)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _plain(name: str, value: Any, values: dict[SSAValue, Any]) -> Any:
    if isinstance(value, SSAValue):
        return values[value]
    if isinstance(value, tuple):
        return [_plain(name, item, values) for item in value]
    if isinstance(value, Attribute):
        return TORCH_DTYPES[value]
    return _FORMATS[value] if name == "memory_format" else value


def _check(op: Operation, type: Attribute, value: Any, symbols: dict[str, int]) -> None:
    if not isinstance(type, TensorType) or value is None:  # a gradient that was masked out
        return
    for dim, size in zip(dims_of(type), value.shape, strict=True):
        if not isinstance(dim, int) and str(dim) in dim.symbols:
            symbols.setdefault(str(dim), size)  # a size from data, seen for the first time
    expected = tuple(d if isinstance(d, int) else d.evaluate(symbols) for d in dims_of(type))
    assert TORCH_DTYPES[type.element_type] == value.dtype, f"{op} gives {value.dtype}"
    assert expected == tuple(value.shape), f"{op} gives {tuple(value.shape)}, not {expected}"
