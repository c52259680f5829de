"""Calls of a kernel whose result can have the bytes of an operand, made from its schema alone.

All tensors have the result's shape and values that are hard to keep apart from what is written over them: random ones,
infinities and NaN. What is no tensor is a default, or from a small table by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from etir.dialects.schema import Argument, Kind, OpSchema

SHAPES = ((7,), (3, 5), (2, 3, 4), (2, 3, 5, 7), (3, 2503))
"""Less than a vector, a few, the ranks that products and convolutions have, and rows longer than any block."""

DTYPES = (
    torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16, torch.float64, torch.bfloat16,
    torch.complex64, torch.int8,
)  # fmt: skip

_BY_NAME: dict[str, Any] = {
    "dim": -1, "half_to_float": False, "unbiased": True, "approximate": "none", "rounding_mode": "floor",
    "training": False, "train": False, "momentum": 0.1, "eps": 1e-5, "is_result": False, "diagonal": 0, "decimals": 1,
    "min": -0.5, "max": 0.75, "lambd": 0.5, "negative_slope": 0.01, "threshold": 0.25, "beta": 1.0, "reduction": 0,
    "stride": [1], "padding": [1], "dilation": [1], "groups": 1,
}  # fmt: skip


@dataclass(frozen=True)
class InPlaceCall:
    """Arguments in the order of the schema, without results; ``over`` is the position of the operand."""

    arguments: tuple[Any, ...]
    over: int
    text: str

    @property
    def operand(self) -> torch.Tensor:
        """What the result is written over."""
        return self.arguments[self.over]


def in_place_calls(schema: OpSchema, operands: Sequence[str]) -> Iterator[InPlaceCall]:
    """Calls with the result over each of ``operands``; many will be refused, for what no schema says."""
    inputs = [a for a in schema.arguments if not (a.is_write and a.kwarg_only)]
    tensors = [index for index, a in enumerate(inputs) if a.kind is Kind.TENSOR and not a.is_list]
    for name in operands:
        over = [a.name for a in inputs].index(name)
        for shape in SHAPES:
            for dtype in DTYPES:
                for changed in (None, *(i for i in tensors if i != over)):
                    types = {i: torch.bool if i == changed else dtype for i in tensors}
                    if dtype is torch.bool and changed is not None:
                        continue
                    for order in (None, torch.channels_last) if len(shape) == 4 else (None,):
                        arguments = [_argument(schema, a, i, shape, types.get(i), order) for i, a in enumerate(inputs)]
                        text = f"{name} of {schema.qualified_name}, {list(shape)}, {list(types.values())}, {order}"
                        yield InPlaceCall(tuple(arguments), over, text)
                        if changed is None and sum(a.name in operands for a in inputs) > 1 and order is None:
                            # The same tensor as every operand.
                            pairs = zip(inputs, arguments, strict=True)
                            same = [arguments[over] if a.name in operands else v for a, v in pairs]
                            yield InPlaceCall(tuple(same), over, f"{text}, each the same tensor")


def _argument(
    schema: OpSchema,
    argument: Argument,
    index: int,
    shape: tuple[int, ...],
    dtype: torch.dtype | None,
    order: torch.memory_format | None,
) -> Any:
    if "norm" in schema.name:
        special = _of_norm(schema, argument, shape, dtype)
        if special is not NotImplemented:
            return special
    shape = _of_product(schema, argument, shape)
    if argument.kind is Kind.TENSOR:
        if argument.is_list or dtype is None:
            return []
        if argument.name == "table":  # a result for each of 256 numbers
            return values((256,), dtype, 17 * index, None)
        return values(shape, dtype, 17 * index + len(shape), order)
    if argument.name in _BY_NAME:
        return _BY_NAME[argument.name]
    if argument.has_default and argument.default is not None:
        return argument.default
    if argument.optional:
        return None
    return {Kind.SCALAR: 2, Kind.FLOAT: 0.5, Kind.INT: 1, Kind.SYMINT: 1, Kind.BOOL: False, Kind.STR: "none"}.get(
        argument.kind
    )


def _of_norm(schema: OpSchema, argument: Argument, shape: tuple[int, ...], dtype: torch.dtype | None) -> Any:
    """The arguments of normalizations: parameters of the channels, and sizes."""
    channels = shape[1] if len(shape) > 1 else 1
    pixels = 1
    for size in shape[2:]:
        pixels *= size
    sizes = {"normalized_shape": [shape[-1]], "N": shape[0], "C": channels, "HxW": pixels, "group": 1}
    if argument.name in sizes:
        return sizes[argument.name]
    if argument.name in ("weight", "bias") and argument.optional:
        return None
    if argument.name == "training":
        return all(a.name != "running_mean" for a in schema.arguments)
    if argument.name in ("running_mean", "running_var") and dtype is not None:
        return torch.ones(channels, dtype=dtype)
    return NotImplemented


def _of_product(schema: OpSchema, argument: Argument, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a factor of a product whose result has ``shape``; of six channels, terms or positions."""
    match schema.name, argument.name:
        case ("addmm" | "baddbmm", "mat1" | "batch1") | ("linear_add" | "matmul_add", "input"):
            return (*shape[:-1], 6)
        case ("addmm" | "baddbmm", "mat2" | "batch2") | ("matmul_add", "other"):
            return (*shape[:-2], 6, shape[-1])
        case ("linear_add", "weight"):
            return (shape[-1], 6)
        case ("linear_add", "bias"):
            return (shape[-1],)
        case ("convolution_add", "input") if len(shape) > 1:
            return (shape[0], 6, *shape[2:])
        case ("convolution_add", "weight") if len(shape) > 1:
            return (shape[1], 6, *(3 for _ in shape[2:]))
        case ("convolution_add", "bias") if len(shape) > 1:
            return (shape[1],)
        case _:
            return shape


def statistic(name: str, call: InPlaceCall) -> torch.Tensor:
    """Like a result after the first: a mean or a deviation of a normalization, whose shape kernels ask for."""
    shape = call.operand.shape
    channels = shape[1] if len(shape) > 1 else 1
    of = {
        "native_layer_norm": (*shape[:-1], 1),
        "native_group_norm": (shape[0], 1),
        "_native_batch_norm_legit": (channels,),
        "native_batch_norm": (channels,),
        "_native_batch_norm_legit_no_training": (0,),
    }
    return torch.empty(of.get(name, shape), dtype=call.operand.dtype)


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int, order: torch.memory_format | None) -> torch.Tensor:
    """A tensor of numbers of either sign, with infinities and NaN where there are any."""
    made = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        tensor = torch.rand(shape, generator=made) < 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        tensor = (torch.randn(shape, generator=made, dtype=torch.float64) * 2).to(dtype)
        flat = tensor.view(-1)
        for place, value in zip((2, 4, 5), (float("inf"), float("nan"), float("-inf")), strict=True):
            if place < flat.numel():
                flat[place] = value
    else:
        tensor = torch.randint(1 if dtype is torch.uint8 else -9, 9, shape, generator=made).to(dtype)
        tensor[tensor == 0] = 3
    return tensor if order is None or tensor.ndim != 4 else tensor.contiguous(memory_format=order)


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are equal byte for byte, where NaN of another sign or payload is another number."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    one, other = first.contiguous().view(-1), second.contiguous().view(-1)
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))
