"""The operators of ``quantized_decomposed`` that passes make: torch's schemas, so that neither torch nor the library
has to be there.

A module that has such an operator declares its schema (:func:`declare`), as the importer does for what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.declarations import declare_schemas
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.schema import OpSchema, parse_schema

NAMESPACE = "quantized_decomposed"

_RANGE = "int quant_min, int quant_max, ScalarType dtype"
_TABLE = "Tensor weight, Tensor weight_scales, Tensor? weight_zero_points, int weight_quant_min, int weight_quant_max"
SCHEMAS: dict[str, str] = {
    "quantize_per_tensor.default": (
        f"quantize_per_tensor(Tensor input, float scale, int zero_point, {_RANGE}) -> Tensor"
    ),
    "dequantize_per_tensor.default": (
        f"dequantize_per_tensor(Tensor input, float scale, int zero_point, {_RANGE}, *, ScalarType? out_dtype=None)"
        " -> Tensor"
    ),
    "quantize_per_channel.default": (
        f"quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, {_RANGE}) -> Tensor"
    ),
    "dequantize_per_channel.default": (
        f"dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, {_RANGE}, *,"
        " ScalarType? out_dtype=None) -> Tensor"
    ),
    "dequantize_per_channel_group.default": (
        "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max,"
        " ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
    ),
    "choose_qparams_per_token_asymmetric.default": (
        "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
    ),
    "quantize_per_token.default": (
        f"quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, {_RANGE}) -> Tensor"
    ),
    "dequantize_per_token.default": (
        f"dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, {_RANGE}, ScalarType output_dtype)"
        " -> Tensor"
    ),
    "embedding_byte.default": f"embedding_byte({_TABLE}, Tensor indices) -> Tensor",
    "embedding_4bit.default": f"embedding_4bit({_TABLE}, Tensor indices) -> Tensor",
}
"""Schemas by overload, without the namespace."""

QUANTIZE = f"{NAMESPACE}.quantize_per_tensor.default"
DEQUANTIZE = f"{NAMESPACE}.dequantize_per_tensor.default"
QUANTIZE_PER_CHANNEL = f"{NAMESPACE}.quantize_per_channel.default"
DEQUANTIZE_PER_CHANNEL = f"{NAMESPACE}.dequantize_per_channel.default"
DEQUANTIZE_PER_GROUP = f"{NAMESPACE}.dequantize_per_channel_group.default"
CHOOSE_PER_TOKEN = f"{NAMESPACE}.choose_qparams_per_token_asymmetric.default"
QUANTIZE_PER_TOKEN = f"{NAMESPACE}.quantize_per_token.default"
DEQUANTIZE_PER_TOKEN = f"{NAMESPACE}.dequantize_per_token.default"
EMBEDDING_BYTE = f"{NAMESPACE}.embedding_byte.default"
EMBEDDING_4BIT = f"{NAMESPACE}.embedding_4bit.default"


@cache
def schema_of(name: str) -> OpSchema:
    """The schema of ``quantized_decomposed.quantize_per_tensor.default``; raises ``KeyError`` for an unknown one."""
    return parse_schema(f"{NAMESPACE}::{SCHEMAS[name.removeprefix(f'{NAMESPACE}.')]}")


def _out_schema(name: str) -> str:
    """The schema of the out variant of an operator of the table, as ExecuTorch's library names it."""
    packet, _, rest = SCHEMAS[name.removeprefix(f"{NAMESPACE}.")].partition("(")
    if name == CHOOSE_PER_TOKEN:
        arguments = rest.removesuffix(") -> (Tensor, Tensor)")
        outs = "Tensor(a!) scale_out, Tensor(b!) zero_point_out"
        return f"{NAMESPACE}::{packet}.out({arguments}, *, {outs}) -> (Tensor(a!), Tensor(b!))"
    arguments = rest.removesuffix(") -> Tensor")
    keyword = "" if "*, " in arguments else "*, "
    return f"{NAMESPACE}::{packet}.out({arguments}, {keyword}Tensor(a!) out) -> Tensor(a!)"


def quantized_op(name: str) -> type[EdgeOp]:
    """The class of an operator at the edge level. Raises ``KeyError`` for one not in the table."""
    return edge_class(schema_of(name))


def declare(module: ModuleOp, names: Iterable[str]) -> None:
    """Declare the schemas of operators that ``module`` has now and those of their out variants, each once, before
    everything else.
    """
    declare_schemas(
        module, [text for name in dict.fromkeys(names) for text in (schema_of(name).text, _out_schema(name))]
    )
