"""Operators for language models that passes make: attention over a part of a cache, in functional form.

The schemas of ``llama`` are those of ``executorch.extension.llm.custom_ops``, so that the stock runtime has the kernels
(library ``custom_ops``); that of ``etir`` is etir's own. They stand here so that neither torch nor the library has to
be there. A module that has such an operator declares it (:func:`declare`), as the importer does for what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.aten.base import AtenOp, custom_op
from etir.dialects.declarations import declare_schemas
from etir.dialects.schema import OpSchema, parse_schema

CUSTOM_SDPA = "llama.custom_sdpa.default"
"""Attention of ``[1, n, heads, width]`` over the first positions of caches ``[1, capacity, key heads, width]``."""
CUSTOM_QUANTIZED_SDPA = "llama.custom_quantized_sdpa.default"
"""The same over int8 with a scale and a zero point for each vector, ``[1, capacity, key heads, 1]``."""
CACHED_ATTENTION = "etir.cached_attention.default"
"""What both do, and besides it a soft cap of the scores, sinks ``[heads]``, and values of another width than keys.

Scores become ``softcap * tanh(score / softcap)`` where that is not 0; a sink is one more score of each softmax of a
head, without a value. Results are ``[1, n, heads, width of values]``.
"""

_QUERY = "Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, float drpout_p=0."
_CAUSAL = "bool is_causal=False, float? scale=None"
_ZEROS_AND_SCALES = ", ".join(f"Tensor? {who}_{what}=None" for who in "qkv" for what in ("zero_points", "scales"))
_ARGUMENTS: dict[str, str] = {
    CUSTOM_SDPA: f"{_QUERY}, {_CAUSAL}",
    CACHED_ATTENTION: (
        "Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, "
        f"{_CAUSAL}, float softcap=0., Tensor? sinks=None, {_ZEROS_AND_SCALES}"
    ),
    CUSTOM_QUANTIZED_SDPA: f"{_QUERY}, {_CAUSAL}, {_ZEROS_AND_SCALES}, bool is_seq_at_dim_2=False",
}


@cache
def schema_of(name: str) -> OpSchema:
    """The schema of ``llama.custom_sdpa.default``; raises ``KeyError`` for an operator not in the table."""
    return parse_schema(f"{_packet(name)}({_ARGUMENTS[name]}) -> Tensor")


def out_name(name: str) -> str:
    """The kernel of an operator, as manifests name it: ``llama::custom_sdpa.out``."""
    return f"{_packet(name)}.out"


def llama_op(name: str) -> type[AtenOp]:
    """The class of an operator at the first level. Raises ``KeyError`` for one not in the table."""
    return custom_op(schema_of(name))


def declare(module: ModuleOp, names: Iterable[str]) -> None:
    """Declare the schemas of operators that ``module`` has now and those of their out variants, each once, before
    everything else.
    """
    declare_schemas(
        module, [text for name in dict.fromkeys(names) for text in (schema_of(name).text, _out_schema(name))]
    )


def _out_schema(name: str) -> str:
    return f"{out_name(name)}({_ARGUMENTS[name]}, *, Tensor(a!) out) -> Tensor(a!)"


def _packet(name: str) -> str:
    namespace, packet, _ = name.split(".")
    return f"{namespace}::{packet}"
