"""A GGUF file as transformers' own model.

The file's fields give a configuration (:mod:`~etir.llm.checkpoint.architectures`), the model of that configuration says
which parameters there are, and the package ``gguf`` how each of them is called in the file. Rows that llama.cpp has put
into another order are put back, of blocks as well as of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from etir.diagnostics import did_you_mean
from etir.llm.checkpoint.architectures import ARCHITECTURES, Architecture
from etir.llm.checkpoint.blocks import FLOATS, KEPT, Blocks, blocks_of
from etir.llm.checkpoint.gguf_header import GgufFile, TensorInfo
from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1602, E1603, E1604, E1605

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

HEAD, TABLE = "output.weight", "token_embd.weight"
FREQUENCIES = "rope_freqs.weight"
"""What the frequencies of rotary positions are divided by, in files of Llama 3."""


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """The name and the row of the file's architecture. Raises E1603 for one that is not in the table."""
    name = str(file.fields.get("general.architecture", ""))
    if name not in ARCHITECTURES:
        near = did_you_mean(name, ARCHITECTURES)
        raise E1603.error(f"'{file.path}' is of architecture '{name}'{near}; there are {', '.join(ARCHITECTURES)}")
    return name, ARCHITECTURES[name]


def config_of(file: GgufFile) -> PretrainedConfig:
    """transformers' configuration of the model. Raises E1602 for a field that is missing, E1603 for a model that
    transformers has no form of.
    """
    name, architecture = architecture_of(file)
    fields = {key.removeprefix(f"{name}."): v for key, v in file.fields.items() if key.startswith(f"{name}.")}
    missing = [key for key in architecture.fields if key not in fields and key not in architecture.optional]
    if missing:
        raise E1602.error(f"'{file.path}' has no fields {', '.join(f'{name}.{key}' for key in missing)}")
    unknown = [tensor for tensor in file.tensors if tensor.startswith("rope_factors_")]
    kind = fields.get("rope.scaling.type", "none")
    if unknown or kind not in ("none", "linear", "yarn"):
        what = unknown[0] if unknown else f"{name}.rope.scaling.type = {kind}"
        raise E1603.error(f"'{file.path}' scales its positions in a way that is not read from GGUF: {what}")
    if TABLE not in file.tensors:
        raise E1605.error(f"'{file.path}' has no tensor '{TABLE}'")
    keywords: dict[str, Any] = {config: fields[key] for key, config in architecture.fields.items() if key in fields}
    keywords |= {**architecture.more(fields), **architecture.constants}
    tokens = file.fields.get("tokenizer.ggml.tokens")
    rows = file.tensors[TABLE].shape[0]
    if isinstance(tokens, list) and len(tokens) > rows:
        raise E1602.error(f"'{file.path}' has {len(tokens)} tokens and a table of {rows} rows for them")
    # Nothing is padded, and the default of some models is a token that this one may not have.
    keywords |= {"pad_token_id": None, "vocab_size": rows, "tie_word_embeddings": HEAD not in file.tensors}
    biased = any(tensor.endswith("attn_q.bias") for tensor in file.tensors)
    if name in ("llama", "smollm3"):
        keywords["attention_bias"] = biased
    for token in ("bos", "eos"):
        keywords[f"{token}_token_id"] = file.fields.get(f"tokenizer.ggml.{token}_token_id")
    return getattr(import_transformers(), architecture.config)(**keywords)


@dataclass(frozen=True)
class _Weight:
    """A parameter of the model and the rows of the file's tensor that it is; ``order`` puts them back."""

    name: str
    tensor: TensorInfo
    first: int
    rows: int
    order: np.ndarray | None
    transposed: bool
    is_norm: bool


def load_gguf_model(file: GgufFile) -> tuple[PreTrainedModel, dict[str, Blocks], tuple[str, ...]]:
    """The model in float32, the weights that the file holds as integers that are kept, and remarks for the user.

    Raises E1602 to E1605 as the file is wrong.
    """
    import torch
    from gguf import GGMLQuantizationType, dequantize

    transformers = import_transformers()
    name, architecture = architecture_of(file)
    config = config_of(file)
    cls = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with torch.device("meta"):
        empty = cls(config)
    shapes = {key: tuple(value.shape) for key, value in empty.state_dict().items()}
    if config.tie_word_embeddings:
        head = next(n for n, module in empty.named_modules() if module is empty.get_output_embeddings())
        shapes.pop(f"{head}.weight")
    del empty
    state: dict[str, torch.Tensor] = {}
    blocks: dict[str, Blocks] = {}
    requantized: Counter[str] = Counter()
    for weight in _weights(file, name, architecture, config, shapes):
        raw = file.raw(weight.tensor)
        if weight.tensor.shape[:-1]:
            raw = raw.reshape(-1, raw.shape[-1])[weight.first : weight.first + weight.rows]
        if weight.order is not None:
            raw = raw[weight.order] if len(weight.tensor.shape) > 1 else raw.reshape(weight.rows, -1)[weight.order]
        kind = weight.tensor.type
        if kind in KEPT:
            found = blocks_of(kind, raw)
            blocks[weight.name] = found
            numbers = found.multiplied_out()
        else:
            try:
                numbers = dequantize(np.ascontiguousarray(raw), GGMLQuantizationType[kind])
            except NotImplementedError:
                raise E1604.error(
                    f"'{file.path}': tensor '{weight.tensor.name}' is of type {kind}, which is not read"
                ) from None
            requantized[kind] += kind not in FLOATS
        numbers = numbers.reshape(-1) if len(shapes[weight.name]) == 1 else numbers
        if weight.is_norm and architecture.one_based_norms:
            numbers = numbers - np.float32(1)
        numbers = numbers.T if weight.transposed else numbers
        state[weight.name] = torch.from_numpy(np.array(numbers, np.float32, order="C"))
    model = cls.from_pretrained(None, config=config, state_dict=state, dtype=torch.float32).eval()
    if FREQUENCIES in file.tensors:
        factors = np.frombuffer(file.raw(file.tensors[FREQUENCIES]), "<f4")
        model.get_decoder().rotary_emb.inv_freq /= torch.from_numpy(factors.copy())
    lost = {kind: count for kind, count in sorted(requantized.items()) if count}
    told = ", ".join(f"{count} of {kind}" for kind, count in lost.items())
    remarks = (f"{sum(lost.values())} tensors are not kept as they are in the file ({told})",) if lost else ()
    return model, blocks, remarks


def _weights(
    file: GgufFile, name: str, architecture: Architecture, config: Any, shapes: dict[str, tuple[int, ...]]
) -> Iterator[_Weight]:
    """Where each parameter of the model is in the file. Raises E1605 with all that are missing or of other shapes."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    arch = next(key for key, value in MODEL_ARCH_NAMES.items() if value == name)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    wrong: list[str] = []
    for parameter, shape in shapes.items():
        base, _, suffix = parameter.rpartition(".")
        known = names.get_name(base)
        if known is None and base.startswith("transformer."):
            known = names.get_name(base.removeprefix("transformer."))
        found, first = _tensor(file, architecture, f"{known}.{suffix}", shape[0])
        if found is None:
            wrong.append(f"'{known}.{suffix}' ({parameter})" if known else parameter)
            continue
        transposed = suffix == "weight" and str(known).rpartition(".")[2] in architecture.transposed
        wanted = shape[::-1] if transposed else shape
        if found.shape[1:] != wanted[1:] or (
            first == 0 and found.name == f"{known}.{suffix}" and found.shape != wanted
        ):
            wrong.append(f"'{found.name}', of shape {list(found.shape)} and not {list(wanted)}")
            continue
        order = _order(architecture, config, str(known), wanted[0])
        yield _Weight(parameter, found, first, wanted[0], order, transposed, "norm" in str(known))
    if wrong:
        most = ", ".join(wrong[:5]) + (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise E1605.error(f"'{file.path}' lacks {most}")


def _tensor(file: GgufFile, architecture: Architecture, name: str, rows: int) -> tuple[TensorInfo | None, int]:
    """The tensor that has a parameter, and its first row there."""
    if name in file.tensors:
        return file.tensors[name], 0
    for whole, parts in architecture.split.items():
        layer, _, rest = name.rpartition(".")
        front, _, part = layer.rpartition(".")
        joined = file.tensors.get(f"{front}.{whole}.{rest}")
        if part in parts and joined is not None:
            # Query, key and value of one width: files with fewer heads of keys have them apart.
            return joined, parts.index(part) * rows
    return None, 0


def _order(architecture: Architecture, config: Any, name: str, rows: int) -> np.ndarray | None:
    """The rows of the file in transformers' order; None for as they are.

    The inverse of ``LlamaModel.permute`` of llama.cpp's ``convert_hf_to_gguf.py``.
    """
    part = name.rpartition(".")[2]
    if not architecture.interleaved or part not in ("attn_q", "attn_k"):
        return None
    heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(-1)
