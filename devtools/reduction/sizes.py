"""Smaller dims: wherever a method has a dim of one size, half of it, in types, numbers, weights, and samples alike.

Dims that belong together have the same size, and all dims of that size are halved together. Two guesses are made of
what else goes along: numbers of operations that are the size, and sizes that are products of dims with it (what was
flattened). Whether a guess is a program is seen by running it: every value has to have the shape that its type says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.reduction.candidate import Candidate
from etir.devtools.values.interpreted import copied
from etir.diagnostics import EtirError
from etir.dialects.dtypes import dtype_of, i64
from etir.dialects.et.arguments import ArgsAttr, Item, ListArg
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import InputsOp
from etir.dialects.et.layout import is_static, order_of, tensor_type
from etir.dialects.et.program import StateOp, WeightOp
from etir.dialects.et.values import SIZES, BufferOp
from etir.dialects.et.weights import Blob, BlobAttr, SyntheticAttr
from etir.dialects.literals import dense_values, int_attr, ints_attr
from etir.interpret.interpreter import Interpreter

Change = Callable[[int], int]
"""From a size to what it becomes."""


def sizes_of(candidate: Candidate) -> list[int]:
    """The sizes of dims that can become smaller, the largest first."""
    found: dict[int, None] = {}
    for op in candidate.module.walk():
        for type in _types_of(op):
            if isinstance(type, TensorType) and is_static(type):
                found |= dict.fromkeys(size for size in type.get_shape() if size > 1)
    return sorted(found, reverse=True)


def with_half(candidate: Candidate, size: int) -> Iterator[Candidate]:
    """The program with half of a size, by each guess that gives a program that runs."""
    half = size // 2

    def same(number: int) -> int:
        return half if number == size else number

    flattened = _products(candidate, same)

    def products(number: int) -> int:
        return flattened.get(number, same(number))

    def keep(number: int) -> int:
        return number

    for dims, numbers in ((same, keep), (same, same), (products, keep), (products, products)):
        made = _changed(candidate, dims, numbers)
        if made is not None and _is_as_declared(made):
            yield made


def _products(candidate: Candidate, dims: Change) -> dict[int, int]:
    """What dims beside each other are together, and what they will be."""
    found: dict[int, int] = {}
    for op in candidate.module.walk():
        for type in _types_of(op):
            shape = type.get_shape() if isinstance(type, TensorType) and is_static(type) else ()
            for start in range(len(shape)):
                for end in range(start + 2, len(shape) + 1):
                    run = shape[start:end]
                    found.setdefault(math.prod(run), math.prod(map(dims, run)))
    return {old: new for old, new in found.items() if old > 1 and old != new}


def _types_of(op: Operation) -> list[Attribute]:
    own = [result.type for result in op.results]
    arguments = [argument.type for region in op.regions for block in region.blocks for argument in block.args]
    declared = [op.type] if isinstance(op, (WeightOp, StateOp)) else []
    return [*own, *arguments, *declared]


def _changed(candidate: Candidate, dims: Change, numbers: Change) -> Candidate | None:
    """The program with other sizes; None where a payload or a sample has none to take away."""
    module = candidate.module.clone()
    for op in list(module.walk()):
        if isinstance(op, (WeightOp, StateOp)):
            if not _resize(op, dims):
                return None
            continue
        for result in op.results:
            _retype(result, dims)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    _retype(argument, dims)
        if isinstance(op, FuncOp):
            types = [
                [_type(t, dims) for t in side.data] for side in (op.function_type.inputs, op.function_type.outputs)
            ]
            op.properties["function_type"] = FunctionType.from_lists(types[0], types[1])
        elif isinstance(op, BufferOp):
            op.attributes.pop(SIZES, None)
        for name, attribute in op.properties.items():
            if name not in _PLACES:
                op.properties[name] = _numbers(attribute, numbers)
    samples: list[list[Any]] = []
    for sample in candidate.samples:
        samples.append(
            [_cut(value, tuple(map(dims, value.shape))) if hasattr(value, "shape") else value for value in sample]
        )
    return Candidate(module, samples)


_PLACES = ("pools", "devices", "memory_id", "offset", "function_type", "operandSegmentSizes", "resultSegmentSizes")
"""Properties whose numbers are no sizes."""


def _type(type: Attribute, dims: Change) -> Attribute:
    if not isinstance(type, TensorType) or not is_static(type):
        return type
    return tensor_type(type.element_type, tuple(map(dims, type.get_shape())), order_of(type))


def _retype(value: SSAValue, dims: Change) -> None:
    type = _type(value.type, dims)
    if type != value.type:
        made = Rewriter.replace_value_with_new_type(value, type)
        if isinstance(value, BlockArgument) and isinstance(made, BlockArgument):
            made.location = value.location


def _numbers(attribute: Attribute, numbers: Change) -> Attribute:
    """An attribute with other numbers in it."""
    if isinstance(attribute, IntegerAttr) and attribute.type == i64:
        return int_attr(numbers(cast("IntegerAttr[Any]", attribute).value.data))
    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == i64:
        return ints_attr(tuple(numbers(int(value)) for value in dense_values(attribute)))
    if isinstance(attribute, ArgsAttr):
        return ArgsAttr(
            tuple(
                ListArg(item.kind, tuple(_item(one, numbers) for one in item.items))
                if isinstance(item, ListArg)
                else _item(item, numbers)
                for item in attribute.data
            )
        )
    return attribute


def _item(item: Item, numbers: Change) -> Item:
    return numbers(item) if isinstance(item, int) and not isinstance(item, bool) else item


def _resize(op: WeightOp | StateOp, dims: Change) -> bool:
    """The first part of a weight in every dim; False where its bytes cannot be cut."""
    old, made = op.type, _type(op.type, dims)
    if made == old:
        return True
    assert isinstance(old, TensorType) and isinstance(made, TensorType)
    if isinstance(op.value, BlobAttr):
        name = dtype_of(old.element_type).numpy_name
        if name is None or not op.value.data.has_data:
            return False
        array = np.frombuffer(op.value.data.data, np.dtype(name)).reshape(old.get_shape())
        part = np.ascontiguousarray(_cut(array, made.get_shape()))
        op.properties["value"] = BlobAttr(Blob.of(memoryview(part.tobytes())))
    elif op.value is not None and not isinstance(op.value, SyntheticAttr):
        return False
    op.properties["type"] = made
    return True


def _cut(value: Any, shape: tuple[int, ...]) -> Any:
    return copied(value[tuple(slice(size) for size in shape)])


def _is_as_declared(candidate: Candidate) -> bool:
    """Whether the program runs, and every value has the shape that its type says."""
    for sample in candidate.samples or [_ones(candidate.module)]:
        interpreter = Interpreter(candidate.module, "auto", backend_of_runtime_id)
        wrong: list[SSAValue] = []

        def watch(value: SSAValue, held: Any, wrong: list[SSAValue] = wrong) -> None:
            type = value.type
            if isinstance(type, TensorType) and is_static(type) and tuple(held.shape) != type.get_shape():
                wrong.append(value)

        interpreter.watch = watch
        try:
            interpreter.run([copied(value) for value in sample], interpreter.methods[0])
        except EtirError:
            return False
        if wrong:
            return False
    return True


def _ones(module: ModuleOp) -> list[Any]:
    """Inputs of a method of which no samples are known; none of a dtype that NumPy does not have."""
    method = next(op for op in module.body.block.ops if isinstance(op, (FuncOp, MethodOp)))
    if isinstance(method, FuncOp):
        types = list(method.function_type.inputs.data)
    else:
        types = [v.type for op in method.instructions if isinstance(op, InputsOp) for v in op.arguments]
    made: list[Any] = []
    for type in types:
        if not isinstance(type, TensorType):
            made.append(1)
            continue
        name = dtype_of(type.element_type).numpy_name
        if name is not None and is_static(type):
            made.append(np.ones(type.get_shape(), np.dtype(name)))
    return made
