"""A GGUF file as transformers' own model.

The file's fields give a configuration (:mod:`~etir.llm.checkpoint.architectures`), the model of that configuration says
which parameters there are, and :mod:`~etir.llm.checkpoint.gguf_tensors` where each of them is in the file. Rows that
llama.cpp has put into another order are put back, of blocks as well as of numbers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from etir.diagnostics import did_you_mean
from etir.llm.checkpoint.architectures import ARCHITECTURES, LONG, SHORT, Architecture
from etir.llm.checkpoint.blocks import FLOATS, KEPT, Blocks, blocks_of
from etir.llm.checkpoint.gguf_header import GgufFile, TensorInfo
from etir.llm.checkpoint.gguf_tensors import FREQUENCIES, Assembled, place
from etir.llm.checkpoint.libraries import import_transformers
from etir.llm.errors import E1602, E1603, E1604, E1605

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

HEAD, TABLE = "output.weight", "token_embd.weight"


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """The name and the row of the file's architecture. Raises E1603 for one that is not in the table."""
    name = str(file.fields.get("general.architecture", ""))
    if name not in ARCHITECTURES:
        near = did_you_mean(name, ARCHITECTURES)
        raise E1603.error(f"'{file.path}' is of architecture '{name}'{near}; there are {', '.join(ARCHITECTURES)}")
    row = ARCHITECTURES[name]
    return name, next((row.variants[key] for key in row.variants if file.fields.get(f"{name}.{key}")), row)


def config_of(file: GgufFile) -> PretrainedConfig:
    """transformers' configuration of the model. Raises E1602 for a field that is missing, E1603 for a model that
    transformers has no form of.
    """
    name, architecture = architecture_of(file)
    fields = {key.removeprefix(f"{name}."): v for key, v in file.fields.items() if key.startswith(f"{name}.")}
    missing = [key for key in architecture.fields if key not in fields and key not in architecture.optional]
    if missing:
        raise E1602.error(f"'{file.path}' has no fields {', '.join(f'{name}.{key}' for key in missing)}")
    kind = fields.get("rope.scaling.type", "none")
    factors = [tensor for tensor in (LONG, SHORT) if tensor in file.tensors]
    if kind not in (("none", "linear", "yarn") if len(factors) < 2 else ("none", "longrope")) or (
        factors and not (architecture.long_texts and len(factors) == 2)
    ):
        what = factors[0] if factors else f"{name}.rope.scaling.type = {kind}"
        raise E1603.error(f"'{file.path}' scales its positions in a way that is not read from GGUF: {what}")
    for tensor in factors:
        fields[tensor] = np.frombuffer(file.raw(file.tensors[tensor]), "<f4").tolist()
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
    for keyword, end in architecture.present.items():
        keywords[keyword] = any(tensor.endswith(f".{end}") for tensor in file.tensors)
    for token in ("bos", "eos"):
        keywords[f"{token}_token_id"] = file.fields.get(f"tokenizer.ggml.{token}_token_id")
    return getattr(import_transformers(), architecture.config)(**keywords)


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

    def numbers_of(tensor: TensorInfo, raw: np.ndarray) -> np.ndarray:
        """float32 of rows of a tensor, which are counted where they were blocks."""
        try:
            found = dequantize(np.ascontiguousarray(raw), GGMLQuantizationType[tensor.type])
        except NotImplementedError:
            raise E1604.error(
                f"'{file.path}': tensor '{tensor.name}' is of type {tensor.type}, which is not read"
            ) from None
        requantized[tensor.type] += tensor.type not in FLOATS
        return np.asarray(found, np.float32)

    for weight in place(file, name, architecture, config, shapes):
        if isinstance(weight, Assembled):
            kept = _kept(file, weight)
            if kept is not None:
                blocks[weight.name] = _joined(weight, kept)
                parts = [b.multiplied_out().reshape(t.shape) for b, t in zip(kept, weight.tensors, strict=True)]
            else:
                parts = [numbers_of(tensor, file.raw(tensor)).reshape(tensor.shape) for tensor in weight.tensors]
            state[weight.name] = torch.from_numpy(np.array(weight.make(parts), np.float32, order="C"))
            continue
        raw = file.raw(weight.tensor)
        if weight.tensor.shape[:-1]:
            raw = raw.reshape(-1, raw.shape[-1])[weight.first : weight.first + weight.rows]
        if weight.order is not None:
            raw = raw[weight.order] if len(weight.tensor.shape) > 1 else raw.reshape(weight.rows, -1)[weight.order]
        if weight.tensor.type in KEPT:
            found = blocks_of(weight.tensor.type, raw)
            blocks[weight.name] = found
            numbers = found.multiplied_out()
        else:
            numbers = numbers_of(weight.tensor, raw)
        numbers = numbers.reshape(shapes[weight.name]) if not weight.transposed else numbers
        if weight.is_norm and architecture.one_based_norms:
            numbers = numbers - np.float32(1)
        numbers = numbers.T if weight.transposed else numbers
        state[weight.name] = torch.from_numpy(np.array(numbers, np.float32, order="C"))
    model = cls.from_pretrained(None, config=config, state_dict=state, dtype=torch.float32).eval()
    if FREQUENCIES in file.tensors:
        factors = np.frombuffer(file.raw(file.tensors[FREQUENCIES]), "<f4")
        frequencies = getattr(getattr(model.get_decoder(), "rotary_emb", None), "inv_freq", None)
        if not isinstance(frequencies, torch.Tensor) or frequencies.shape != factors.shape:
            raise E1603.error(f"'{file.path}' scales its positions in a way that is not read from GGUF: {FREQUENCIES}")
        frequencies /= torch.from_numpy(factors.copy())
    lost = {kind: count for kind, count in sorted(requantized.items()) if count}
    told = ", ".join(f"{count} of {kind}" for kind, count in lost.items())
    remarks = (f"{sum(lost.values())} tensors are not kept as they are in the file ({told})",) if lost else ()
    return model, blocks, remarks


def _kept(file: GgufFile, weight: Assembled) -> list[Blocks] | None:
    """The blocks of the tensors of a weight, where all are of one type that is kept."""
    kinds = dict.fromkeys(tensor.type for tensor in weight.tensors)
    if weight.rows is None or len(kinds) != 1 or next(iter(kinds)) not in KEPT:
        return None
    raws = [file.raw(tensor) for tensor in weight.tensors]
    return [blocks_of(t.type, raw.reshape(-1, raw.shape[-1])) for t, raw in zip(weight.tensors, raws, strict=True)]


def _joined(weight: Assembled, parts: list[Blocks]) -> Blocks:
    """The blocks of all experts, the rows of each below those of the one before."""
    experts = weight.tensors[0].shape[0]

    def rows(arrays: list[np.ndarray]) -> np.ndarray:
        assert weight.rows is not None
        whole = weight.rows([array.reshape(experts, -1, array.shape[-1]) for array in arrays])
        return np.ascontiguousarray(whole.reshape(-1, whole.shape[-1]))

    zeros = [part.zeros for part in parts if part.zeros is not None]
    integers, scales = rows([part.integers for part in parts]), rows([part.scales for part in parts])
    return Blocks(parts[0].bits, integers, scales, rows(zeros) if zeros else None)
