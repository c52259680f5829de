"""Methods that return fixed values: constant methods, and what a training module asks about a joint graph.

A value is a number, a string, None, a tensor, a dtype (its number in the file format) or a container of those, which
the method returns flat. The names of the training methods are the contract of ExecuTorch's training module: where the
gradients start among a method's outputs, where the parameters start, and the names of both, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, NameLoc, StringAttr, UnknownLoc, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.program import GetWeightOp
from etir.lowering.errors import E0403
from etir.lowering.import_fx.structures import as_number
from etir.lowering.import_fx.trees import dump_tree
from etir.lowering.import_fx.types import ELEMENT_TYPES

GRADIENTS = "__et_training_gradients_index_"
PARAMETERS = "__et_training_parameters_index_"
NAMES = "__et_training_fqn_"

Constant = Callable[[torch.Tensor, str], GetWeightOp]
"""Reads a tensor that becomes a constant of the module under a name."""


@dataclass(frozen=True)
class Training:
    """The outputs of a joint graph: what the user's program returns, then gradients, then parameters.

    ``gradients`` and ``parameters`` are the indices of the first of each; ``states`` maps the fully qualified names of
    the parameters to their symbols, in the order of the gradients.
    """

    gradients: int
    parameters: int
    states: Mapping[str, str]

    @property
    def attribute(self) -> DictionaryAttr:
        """Attribute ``et.training`` of the method: ``{gradients = 2, parameters = 6, states = {fqn = "symbol"}}``."""
        return DictionaryAttr(
            {
                "gradients": IntegerAttr(self.gradients, i64),
                "parameters": IntegerAttr(self.parameters, i64),
                "states": DictionaryAttr({fqn: StringAttr(symbol) for fqn, symbol in self.states.items()}),
            }
        )

    def methods(self, name: str) -> dict[str, Any]:
        """The constant methods that tell a training module about method ``name``."""
        return {
            GRADIENTS + name: self.gradients,
            PARAMETERS + name: self.parameters,
            NAMES + name: list(self.states),
        }


def constant_method(name: str, value: object, constant: Constant) -> FuncOp:
    """A method without inputs that returns ``value``. Raises error E0403 for what no ``.pte`` can hold."""
    block = Block()
    leaves, spec = pytree.tree_flatten(value)
    results = [_result(name, leaf, index, block, constant) for index, leaf in enumerate(leaves)]
    for op in block.ops:
        op.location = NameLoc(StringAttr(name), UnknownLoc())
    last = FuncReturnOp(*results)
    last.location = NameLoc(StringAttr("return"), UnknownLoc())
    block.add_op(last)
    func = FuncOp(name, ([], [result.type for result in results]), Region(block))
    func.location = NameLoc(StringAttr(name), UnknownLoc())
    names: list[Attribute] = [StringAttr(f"output_{index}") for index in range(len(results))]
    func.attributes |= {
        "et.in_spec": StringAttr(""),
        "et.out_spec": StringAttr(dump_tree(spec)),
        "et.input_names": ArrayAttr[Attribute]([]),
        "et.output_names": ArrayAttr(names),
    }
    return func


def _result(name: str, value: object, index: int, block: Block, constant: Constant) -> SSAValue:
    if isinstance(value, torch.Tensor):
        op = constant(value, f"{name}_{index}")
        block.add_op(op)
        return op.result
    if isinstance(value, torch.dtype) and value in ELEMENT_TYPES:
        value = dtype_of(ELEMENT_TYPES[value]).number
    elif isinstance(value, torch.layout) and value is torch.strided:
        value = 0
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise E0403.error(f"constant method '{name}' returns {value}, which does not fit into 64 bits")
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise E0403.error(f"constant method '{name}' returns a {type(value).__name__}, which no .pte can hold")
    return as_number(value, block)
