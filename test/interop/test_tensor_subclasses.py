"""Weights that are tensor subclasses: models that torchao has quantized, imported as they are exported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import etir
from etir.diagnostics import EtirError
from etir.dialects.text import print_module
from etir.interpret.interpreter import Interpreter

from etir_testing.interop.torchao_models import CONFIGS, X, _Net, quantized
from etir_testing.interop.xnnpack_runs import run_stock


@pytest.mark.parametrize("name", CONFIGS)
def test_import_and_xnnpack(name: str) -> None:
    """The parts of a weight are weights of their own; the module computes as eager, and so does XNNPACK."""
    model = quantized(name)
    program = torch.export.export(model, (X,))
    wanted = model(X).detach()
    module = etir.import_program(program)
    assert '{fqn = "up.weight.qdata", kind = "constant"}' in print_module(module)
    torch.testing.assert_close(Interpreter(module).run([X])[0], wanted, rtol=1e-5, atol=1e-5)
    compiled = etir.compile(module, delegates=["xnnpack"])
    assert compiled.delegation is not None and not compiled.delegation.fallback
    (found,) = run_stock(compiled.buffer, [X])
    torch.testing.assert_close(found, wanted, rtol=0, atol=CONFIGS[name][1])


class _Pair(torch.Tensor):
    """Two tensors in one, which operators take whole."""

    @staticmethod
    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> _Pair:
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)  # type: ignore

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["first", "second"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(func))


def test_a_weight_that_is_taken_whole() -> None:
    """It has no bytes to import, and the error says what to do."""
    program = torch.export.export(_Net().eval(), (X,))
    weight = program.state_dict["up.weight"].detach()
    program.state_dict["up.weight"] = _Pair(weight, weight)
    with pytest.raises(EtirError, match=r"'up.weight' is a _Pair(.|\n)*run_decompositions") as caught:
        etir.import_program(program)
    assert caught.value.ids == ("E0404",)
