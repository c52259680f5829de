"""A GGUF file as transformers' own model.

The file's fields give a configuration (:mod:`~etir.llm.checkpoint.gguf_config`), the model of that configuration says
which parameters there are, and :mod:`~etir.llm.checkpoint.gguf_tensors` where each of them is in the file. Rows that
llama.cpp has put into another order are put back, of blocks as well as of numbers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from etir.llm.checkpoint.blocks import FLOATS, KEPT, Blocks, blocks_of
from etir.llm.checkpoint.gguf_config import architecture_of, config_of
from etir.llm.checkpoint.gguf_header import GgufFile, TensorInfo
from etir.llm.checkpoint.gguf_tensors import FREQUENCIES, Assembled, place
from etir.llm.checkpoint.libraries import first_line, import_transformers
from etir.llm.errors import E1602, E1603, E1604

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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
    try:
        with torch.device("meta"):
            empty = cls(config)
    except Exception as error:  # A configuration may say what no layer of the model can be.
        raise E1602.error(
            f"the fields of '{file.path}' make no model: {type(error).__name__}: {first_line(error)}"
        ) from error
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
