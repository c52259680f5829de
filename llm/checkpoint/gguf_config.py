"""The fields of a GGUF file as transformers' configuration.

A field is a number that somebody wrote: one that no model can have is an error with its name, before anything is made
of it. And what the row of an architecture (:mod:`~etir.llm.checkpoint.architectures`) does not ask for is looked at,
too: a file that says that it scales or cuts something, of an architecture that is read without, is another model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from etir.diagnostics import did_you_mean
from etir.llm.checkpoint.architectures import ARCHITECTURES, LONG, SHORT, Architecture, head_of
from etir.llm.checkpoint.gguf_header import GgufFile
from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1602, E1603, E1605

if TYPE_CHECKING:
    from transformers import PretrainedConfig

HEAD, TABLE = "output.weight", "token_embd.weight"

_COUNTS = (
    "block_count",
    "embedding_length",
    "context_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "rope.scaling.original_context_length",
    "expert_used_count",
)
_NUMBERS = (
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "attention.scale",
)
"""Fields that are integers above 0, and such that are numbers: finite, and above 0 but for :data:`_MAY_BE_ZERO`."""
_MAY_BE_ZERO = ("rope.scaling.factor", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale")
"""0 is what llama.cpp takes for a number that is not there."""
_EACH_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")
"""Fields that may have a number for each layer."""


def _same_length(value: Any, fields: Mapping[str, Any]) -> bool:
    return value == head_of(fields)


def _is(*values: Any) -> Callable[[Any, Mapping[str, Any]], bool]:
    return lambda value, _: value in values


_NEUTRAL: dict[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "attention.sliding_window": lambda value, fields: value == 0 or value >= fields.get("context_length", math.inf),
    "attention.value_length": _same_length,
    "rope.dimension_count": _same_length,
    "rope.dimension_sections": lambda value, _: not any(value),
    "attn_logit_softcapping": _is(0),
    "final_logit_softcapping": _is(0),
    "logit_scale": _is(0, 1),
    "residual_scale": _is(0, 1),
    "embedding_scale": _is(0, 1),
    "attention.scale": lambda value, fields: value == 0 or math.isclose(value, head_of(fields) ** -0.5, rel_tol=1e-5),
    "attention.clamp_kqv": _is(0),
    "attention.temperature_scale": _is(0),
    "attention.causal": _is(True),
    "expert_weights_scale": _is(0, 1),
    "expert_group_count": _is(0, 1),
    "rope.scaling.yarn_log_multiplier": _is(0),
}
"""Fields that change what is computed, and whether a value of theirs changes nothing."""


class _Asked(Mapping[str, Any]):
    """Fields that remember which of them were asked for."""

    def __init__(self, fields: Mapping[str, Any]):
        self._fields = fields
        self.asked: dict[str, None] = {}

    def __getitem__(self, key: str) -> Any:
        self.asked[key] = None
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, key: object) -> bool:
        return key in self._fields


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """The name and the row of the file's architecture. Raises E1603 for one that is not in the table."""
    name = str(file.fields.get("general.architecture", ""))
    if name not in ARCHITECTURES:
        near = did_you_mean(name, ARCHITECTURES)
        raise E1603.error(f"'{file.path}' is of architecture '{name}'{near}; there are {', '.join(ARCHITECTURES)}")
    row = ARCHITECTURES[name]
    return name, next((row.variants[key] for key in row.variants if file.fields.get(f"{name}.{key}")), row)


def config_of(file: GgufFile) -> PretrainedConfig:
    """transformers' configuration of the model. Raises E1602 for a field that is missing or is no such number, E1603
    for a model that transformers has no form of, E1605 where the tensors are fewer than the fields say.
    """
    name, architecture = architecture_of(file)
    fields = {key.removeprefix(f"{name}."): v for key, v in file.fields.items() if key.startswith(f"{name}.")}
    missing = [key for key in architecture.fields if key not in fields and key not in architecture.optional]
    if missing:
        raise E1602.error(f"'{file.path}' has no fields {', '.join(f'{name}.{key}' for key in missing)}")
    fields = _checked(file, name, fields)
    fields |= _frequencies(file, name, architecture, fields)
    if TABLE not in file.tensors:
        raise E1605.error(f"'{file.path}' has no tensor '{TABLE}'")
    _check_layers(file, fields["block_count"])
    tokens = file.fields.get("tokenizer.ggml.tokens")
    rows = file.tensors[TABLE].shape[0]
    if isinstance(tokens, list) and len(tokens) > rows:
        raise E1602.error(f"'{file.path}' has {len(tokens)} tokens and a table of {rows} rows for them")
    # Nothing is padded, and the default of some models is a token that this one may not have.
    keywords: dict[str, Any] = {"pad_token_id": None, "vocab_size": rows}
    keywords["tie_word_embeddings"] = HEAD not in file.tensors
    for keyword, end in architecture.present.items():
        keywords[keyword] = any(tensor.endswith(f".{end}") for tensor in file.tensors)
    for token in ("bos", "eos"):
        found = file.fields.get(f"tokenizer.ggml.{token}_token_id")
        keywords[f"{token}_token_id"] = found if isinstance(found, int) else None
    asked = _Asked(fields)
    config = getattr(import_transformers(), architecture.config)
    try:
        own = {keyword: asked[key] for key, keyword in architecture.fields.items() if key in fields}
        made = config(**{**keywords, **own, **architecture.more(asked), **architecture.constants})
    except KeyError as error:
        raise E1602.error(f"'{file.path}' has no field {name}.{error.args[0]}") from None
    except Exception as error:  # transformers' checks of what fields are, and of which go together.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise E1602.error(f"the fields of '{file.path}' make no model: {lines[-1]}") from error
    unread = [key for key in _NEUTRAL if key in fields and key not in asked.asked]
    for key in unread:
        if not _NEUTRAL[key](fields[key], fields):
            raise E1603.error(
                f"'{file.path}' is a model of architecture '{name}' of another form than transformers' "
                f"{architecture.config.removesuffix('Config')}, which has nothing for {name}.{key} = {fields[key]}"
            )
    return made


def _checked(file: GgufFile, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, one number where each layer has the same. Raises E1602 for one that no model has, E1603 for numbers
    that differ from layer to layer.
    """
    found = dict(fields)
    for key in _EACH_LAYER:
        value = found.get(key)
        if isinstance(value, list) and value:
            if any(each != value[0] for each in value):
                raise E1603.error(f"'{file.path}' has {name}.{key} = {value}: layers that differ are not read")
            found[key] = value[0]
    for key in (*_COUNTS, *_NUMBERS):
        value = found.get(key)
        if value is None:
            continue
        integer = key in _COUNTS
        kinds = (int,) if integer else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
        if not fits or value < 0 or (value == 0 and key not in _MAY_BE_ZERO):
            what = "an integer above 0" if integer else "a number above 0"
            raise E1602.error(f"'{file.path}' has {name}.{key} = {value!r}, which is not {what}")
    window = found.get("attention.sliding_window", 0)
    if not isinstance(window, int) or isinstance(window, bool) or window < 0:
        raise E1602.error(f"'{file.path}' has {name}.attention.sliding_window = {window!r}, which is no integer")
    return found


def _frequencies(
    file: GgufFile, name: str, architecture: Architecture, fields: Mapping[str, Any]
) -> dict[str, list[float]]:
    """The tensors that scale positions, which are fields of a configuration. Raises E1603."""
    kind = fields.get("rope.scaling.type", "none")
    factors = [tensor for tensor in (LONG, SHORT) if tensor in file.tensors]
    if kind not in (("none", "linear", "yarn") if len(factors) < 2 else ("none", "longrope")) or (
        factors and not (architecture.long_texts and len(factors) == 2)
    ):
        what = factors[0] if factors else f"{name}.rope.scaling.type = {kind}"
        raise E1603.error(f"'{file.path}' scales its positions in a way that is not read from GGUF: {what}")
    return {tensor: np.frombuffer(file.raw(file.tensors[tensor]), "<f4").tolist() for tensor in factors}


def _check_layers(file: GgufFile, count: int) -> None:
    """Raises E1605 where the file has no tensors of the last layer: a model of as many as the field says is not built
    to find out.
    """
    if not any(tensor.startswith(f"blk.{count - 1}.") for tensor in file.tensors):
        raise E1605.error(
            f"'{file.path}' lacks layers: it says that it has {count:,}, and there is no 'blk.{count - 1}'"
        )
