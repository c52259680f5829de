"""Where each parameter of a model is in a GGUF file.

The package ``gguf`` knows what llama.cpp calls a layer of transformers. Most parameters are rows of one tensor, in
their order or in another one: blocks of integers stay blocks then (:class:`Rows`). Experts, whose gate and up
transformers keeps in one weight of three dims, and a few small vectors are assembled from several tensors
(:class:`Assembled`), of which those of experts can stay blocks.

Both ways round nothing may be left over: a parameter without a tensor is E1605, a tensor without a parameter E1603, as
the file is then of a variant that the row of its architecture does not describe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from etir.llm.checkpoint.architectures import LONG, SHORT, Architecture
from etir.llm.checkpoint.gguf_header import GgufFile, TensorInfo
from etir.llm.errors import E1603, E1605

FREQUENCIES = "rope_freqs.weight"
"""What the frequencies of rotary positions are divided by, in files of Llama 3."""
_NO_PARAMETERS = (FREQUENCIES, LONG, SHORT)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """A parameter that is rows of one tensor of the file, from ``first`` on; ``order`` puts them back."""

    name: str
    tensor: TensorInfo
    first: int
    rows: int
    order: np.ndarray | None
    transposed: bool
    is_norm: bool


@dataclass(frozen=True)
class Assembled:
    """A parameter that ``make`` gives of the numbers of tensors, each float32 of its shape. ``rows`` orders rows alone,
    of blocks as well: the parameter's own, or its columns' where ``make`` exchanges both.
    """

    name: str
    tensors: tuple[TensorInfo, ...]
    make: Callable[[Sequence[np.ndarray]], np.ndarray]
    rows: Callable[[Sequence[np.ndarray]], np.ndarray] | None = None


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of gate, then of up, for each expert."""
    return np.concatenate(parts, axis=1)


def _only(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0]


def _in_turns(parts: Sequence[np.ndarray]) -> np.ndarray:
    """A row of gate and one of up in turns; biases ``[experts, rows]`` and weights ``[experts, rows, inputs]``."""
    pairs = np.stack(parts, axis=2)
    return pairs.reshape(pairs.shape[0], -1, *pairs.shape[3:])


def _turned(make: Callable[[Sequence[np.ndarray]], np.ndarray]) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """The same with rows and columns of each expert exchanged."""
    return lambda parts: make(parts).swapaxes(1, 2)


_EXPERTS = {
    "gate_up_proj": (("ffn_gate_exps.weight", "ffn_up_exps.weight"), _joined, _in_turns),
    "gate_up_proj_bias": (("ffn_gate_exps.bias", "ffn_up_exps.bias"), _joined, _in_turns),
    "down_proj": (("ffn_down_exps.weight",), _only, _only),
    "down_proj_bias": (("ffn_down_exps.bias",), _only, _only),
}
"""Parameters of all experts: the tensors that they are, and how their rows are ordered; the last where gate and up are
in turns, and matrices transposed.
"""
_NAMES = {"block_sparse_moe.router": "ffn_gate_inp", "self_attn.sinks": "attn_sinks"}
"""Layers by the end of their names in transformers that the package does not know."""


def place(
    file: GgufFile, name: str, architecture: Architecture, config: Any, shapes: dict[str, Shape]
) -> Iterator[Rows | Assembled]:
    """Where each parameter of the model is in the file. ``shapes`` are those of all parameters.

    Raises E1605 with all that are missing or of other shapes, E1603 with the tensors that are left over.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    arch = next(key for key, value in MODEL_ARCH_NAMES.items() if value == name)
    names = get_tensor_name_map(arch, config.num_hidden_layers)
    wrong: list[str] = []
    used: dict[str, None] = dict.fromkeys(_NO_PARAMETERS)
    for parameter, shape in shapes.items():
        assembled, missing = _assembled(file, architecture, parameter, shape)
        if assembled is not None:
            used |= dict.fromkeys(tensor.name for tensor in assembled.tensors)
            yield assembled
            continue
        if missing:
            wrong.append(f"{missing} ({parameter})")
            continue
        base, _, suffix = parameter.rpartition(".")
        known = names.get_name(base)
        if known is None and base.startswith("transformer."):
            known = names.get_name(base.removeprefix("transformer."))
        found, first = _tensor(file, architecture, f"{known}.{suffix}", shape[0])
        if found is None:
            wrong.append(f"'{known}.{suffix}' ({parameter})" if known else parameter)
            continue
        used[found.name] = None
        if shape == (1, *found.shape):
            yield Assembled(parameter, (found,), lambda parts: parts[0][None])
            continue
        transposed = suffix == "weight" and str(known).rpartition(".")[2] in architecture.transposed
        wanted = shape[::-1] if transposed else shape
        if found.shape[1:] != wanted[1:] or (
            first == 0 and found.name == f"{known}.{suffix}" and found.shape != wanted
        ):
            wrong.append(f"'{found.name}', of shape {list(found.shape)} and not {list(wanted)}")
            continue
        is_norm = "norm" in str(known) and suffix == "weight"
        yield Rows(
            parameter, found, first, wanted[0], _order(architecture, config, str(known), wanted[0]), transposed, is_norm
        )
    if wrong:
        raise E1605.error(f"'{file.path}' lacks {_some(wrong)}")
    if over := [f"'{tensor}'" for tensor in file.tensors if tensor not in used]:
        raise E1603.error(
            f"'{file.path}' is a model of architecture '{name}' of another form than transformers' "
            f"{type(config).__name__.removesuffix('Config')}, which has nothing for {_some(over)}"
        )


def _some(what: Sequence[str]) -> str:
    return ", ".join(what[:5]) + (f" and {len(what) - 5} more" if len(what) > 5 else "")


def _assembled(
    file: GgufFile, architecture: Architecture, parameter: str, shape: Shape
) -> tuple[Assembled | None, str]:
    """A parameter of numbers of several tensors, or, second, which tensors it lacks; neither for an ordinary one."""
    layer = re.search(r"\.(\d+)\.", parameter)
    if layer is None:
        return None, ""
    block = f"blk.{layer[1]}"
    suffix = parameter.rpartition(".")[2]
    ends: tuple[str, ...]
    rows: Callable[[Sequence[np.ndarray]], np.ndarray] | None = None
    if ".experts." in parameter and suffix in _EXPERTS:
        ends, together, turns = _EXPERTS[suffix]
        order = turns if architecture.gates_in_turns else together
        make = _turned(order) if architecture.gates_in_turns and not suffix.endswith("_bias") else order
        rows = order
    elif (norm := re.search(r"([qk])_layernorm\.norms\.(\d+)\.weight$", parameter)) is not None:
        ends, head = (f"attn_{norm[1]}_norm.weight",), int(norm[2])
        make = lambda parts: parts[0][head] if head < len(parts[0]) else parts[0][:0]  # noqa: E731
    elif other := next((own for end, own in _NAMES.items() if parameter.endswith((end, f"{end}.weight"))), None):
        ends, make = (f"{other}.weight",), _only
    else:
        return None, ""
    tensors = [file.tensors.get(f"{block}.{end}") for end in ends]
    lacking = [f"'{block}.{end}'" for end, tensor in zip(ends, tensors, strict=True) if tensor is None]
    found = tuple(tensor for tensor in tensors if tensor is not None)
    if not lacking and not _gives(make, found, shape):
        lacking = [f"'{tensor.name}', of shape {list(tensor.shape)}," for tensor in found]
    return (None, " and ".join(lacking)) if lacking else (Assembled(parameter, found, make, rows), "")


def _gives(make: Callable[[Sequence[np.ndarray]], np.ndarray], tensors: Sequence[TensorInfo], shape: Shape) -> bool:
    try:
        return make([np.broadcast_to(np.int8(0), tensor.shape) for tensor in tensors]).shape == shape
    except ValueError:  # NumPy's of shapes that do not fit together.
        return False


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

    The inverse of ``LlamaModel.permute`` of llama.cpp's ``convert_hf_to_gguf.py``, and of what it does to joined rows
    of Bloom, GPT-NeoX and Falcon.
    """
    part = name.rpartition(".")[2]
    heads = config.num_attention_heads
    each = np.arange(rows)
    if architecture.order == "pairs" and part in ("attn_q", "attn_k"):
        count = heads if part == "attn_q" else config.num_key_value_heads
        return each.reshape(count, rows // count // 2, 2).swapaxes(1, 2).reshape(-1)
    if architecture.order == "heads" and part == "attn_qkv":
        return each.reshape(3, heads, -1).swapaxes(0, 1).reshape(-1)
    if architecture.order == "groups" and part == "attn_qkv":
        groups = config.num_kv_heads
        size = rows // (heads + 2 * groups)
        queries, keys, values = np.split(each, (heads * size, (heads + groups) * size))
        parts = (queries.reshape(groups, -1), keys.reshape(groups, -1), values.reshape(groups, -1))
        return np.concatenate(parts, axis=1).reshape(-1)
    return None
