"""Models whose weights are what the integers of a recipe stand for: eager on them is the oracle of a recipe."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from etir.quantization.weights import quantized_blocks, quantized_weight

ROUTERS = ("gate", "router")
"""What layers are called whose results choose experts: they stay as they are."""


def round_weights(model: torch.nn.Module, bits: int, experts: int | None = None) -> None:
    """Round the weights of linear layers to ``bits``, those of experts to ``experts`` (default: ``bits``), those
    of the head and of tables to 8.
    """
    from transformers.pytorch_utils import Conv1D

    if bits > 8:
        return
    head: Any = model.get_submodule("lm_head")
    done: set[int] = set()
    for name, layer in model.named_modules():
        if name.endswith("experts"):
            _round_experts(layer, experts or bits)
        known = isinstance(layer, torch.nn.Linear | torch.nn.Embedding | Conv1D)
        if not known or id(layer.weight) in done or name.rpartition(".")[2] in ROUTERS:
            continue
        done.add(id(layer.weight))
        weight = layer.weight.detach().numpy()
        is_table = layer is head or layer.weight is head.weight or isinstance(layer, torch.nn.Embedding)
        rounded = _rounded(weight.T if isinstance(layer, Conv1D) else weight, 8 if is_table else bits)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(rounded.T if isinstance(layer, Conv1D) else rounded))


def _round_experts(module: torch.nn.Module, bits: int) -> None:
    """Matrices ``[experts, outputs, inputs]``, or the last two exchanged."""
    for name, parameter in module.named_parameters(recurse=False):
        if not name.endswith("_proj"):
            continue
        turned = bool(getattr(module, "is_transposed", False))
        array = parameter.detach().numpy()
        rows = np.ascontiguousarray(array.swapaxes(1, 2) if turned else array)
        rounded = _rounded(rows.reshape(-1, rows.shape[2]), bits).reshape(rows.shape)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(rounded.swapaxes(1, 2) if turned else rounded))


def _rounded(rows: np.ndarray, bits: int) -> np.ndarray:
    if bits == 8:
        integers, scales = quantized_weight(rows, 0)
        return integers * scales[:, None]
    integers, scales = quantized_blocks(np.ascontiguousarray(rows), 32)
    return (integers.reshape(-1, 32) * scales.reshape(-1, 1)).reshape(rows.shape)
