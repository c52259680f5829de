"""The files that people make with the stock pipeline: a model of the zoo in each form in which one publishes it.

A form is what the model's weights and activations are, and which partitioners lower it: ExecuTorch's portable kernels,
or its XNNPACK backend with float32, with the integers of XNNPACKQuantizer, or with the weights of torchao.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackPartitioner,
)
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge, to_edge_transform_and_lower
from torch import nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import Granularity, PerAxis, PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from etir_testing.models.zoo_entry import Built

GROUP = 32
"""Weights of one scale in the form that has a scale for each group."""


def _program(module: nn.Module, built: Built) -> torch.export.ExportedProgram:
    return torch.export.export(module, built.inputs, dynamic_shapes=built.dynamic_shapes)


def _portable(built: Built) -> Any:
    return to_edge(_program(built.module, built))


def _lowered(program: torch.export.ExportedProgram, *partitioners: Any) -> Any:
    return to_edge_transform_and_lower(program, partitioner=[*partitioners, XnnpackPartitioner()])


def _float(built: Built) -> Any:
    return _lowered(_program(built.module, built))


def _integers(built: Built, *, is_dynamic: bool) -> Any:
    """Weights of int8 by channel, activations by tensor: measured on the model's calls, or in each run."""
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic))
    prepared = prepare_pt2e(_program(built.module, built).module(), quantizer)
    for call in (built.inputs, *built.more):
        prepared(*copy.deepcopy(call))
    program = _program(convert_pt2e(prepared), built)
    return _lowered(program, *([XnnpackDynamicallyQuantizedPartitioner()] if is_dynamic else []))


def _four_bits(built: Built, granularity: Granularity) -> Any:
    """Weights of linear layers of four bits, activations of int8 measured in each run."""

    def fits(module: nn.Module, _: str) -> bool:
        return isinstance(module, nn.Linear) and module.in_features % GROUP == 0

    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=granularity)
    if not any(fits(module, "") for module in built.module.modules()):
        raise NothingToQuantizeError("it has no linear layer of a width that groups divide")
    quantize_(built.module, config, fits)
    return _lowered(_program(built.module, built), XnnpackDynamicallyQuantizedPartitioner())


class NothingToQuantizeError(Exception):
    """A form that a model does not have."""


FORMS: dict[str, Callable[[Built], Any]] = {
    "portable": _portable,
    "fp32": _float,
    "int8": lambda built: _integers(built, is_dynamic=False),
    "dynamic-int8": lambda built: _integers(built, is_dynamic=True),
    "int4-groups": lambda built: _four_bits(built, PerGroup(GROUP)),
    "int4-channels": lambda built: _four_bits(built, PerAxis(0)),
}
"""From a model, which it may change, to the stock pipeline's edge program, by the name of the form."""


def stock_form(form: str, built: Built) -> bytes:
    """The ``.pte`` of one form. Raises what the stock pipeline raises where it cannot make one."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return FORMS[form](built).to_executorch().buffer
