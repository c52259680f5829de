"""The interpreter knows the kernels that come with a runtime from a file alone, which has their names only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import etir
from etir.diagnostics import EtirError
from etir.emit.from_pte import read_program
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.interpret.kernel_schemas import KernelSchemas


class Pooled(torch.nn.Module):
    """A max pool without its indices, ``etir::max_pool2d.out``, between a convolution and a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8 * 16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        return self.last(x.flatten(1))


class Residual(torch.nn.Module):
    """A convolution, a linear layer and products of matrices that add to what they were computed from."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1)
        self.narrow, self.wide = torch.nn.Linear(8, 3), torch.nn.Linear(3, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        y = torch.relu(y + self.second(torch.relu(self.first(y))))
        y = self.wide(torch.relu(self.narrow(y))) + y
        y = y.flatten(0, 1)
        return y + torch.bmm(torch.tanh(y), torch.tanh(y))


def test_sums_over_what_is_added_are_interpreted_as_they_run() -> None:
    """In the memory that is planned for them, on the runtime and in the interpreter, from the file alone."""
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    model = Residual().eval()
    data = bytes(etir.compile(torch.export.export(model, (x,)), target="etir").buffer)
    kernels = [operator.full_name for operator in read_pte(data).execution_plan[0].operators]
    assert {"etir::convolution_add.out", "etir::linear_add.out", "etir::matmul_add.out"} <= set(kernels)
    (wanted,) = etir.runtime.load(data).forward(x)
    torch.testing.assert_close(wanted, model(x), rtol=1e-5, atol=1e-5)
    (result,) = Interpreter(read_program(data)).run([x.numpy()])
    np.testing.assert_allclose(np.asarray(result), wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def exported() -> tuple[torch.export.ExportedProgram, torch.Tensor]:
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    return torch.export.export(Pooled().eval(), (x,)), x


@pytest.mark.parametrize("recipe", [None, "static-int8", "dynamic-int8", "weight-int4"])
def test_a_file_is_interpreted_as_it_runs(
    exported: tuple[torch.export.ExportedProgram, torch.Tensor], recipe: str | None
) -> None:
    program, x = exported
    if recipe is None:
        compiled = etir.compile(program, target="etir")
    else:
        compiled = etir.quantize(program, recipe, target="etir", calibration=[(x,)]).compile()
    kernels = [operator.full_name for operator in read_pte(compiled.buffer).execution_plan[0].operators]
    assert any(not name.startswith("aten::") for name in kernels)
    (wanted,) = etir.runtime.load(compiled).forward(x)
    module = read_program(bytes(compiled.buffer))
    (result,) = Interpreter(module).run([x.numpy()])
    np.testing.assert_allclose(np.asarray(result), wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "functional"),
    [
        ("aten::add.out", "aten.add.Tensor"),
        ("etir::max_pool2d.out", "etir.max_pool2d.default"),
        ("quantized_decomposed::quantize_per_tensor.Tensor_out", "quantized_decomposed.quantize_per_tensor.tensor"),
        ("llama::gated_delta_rule.out", "llama.gated_delta_rule.default"),
    ],
)
def test_the_functional_operator_of_a_kernel(kernel: str, functional: str) -> None:
    own, found = KernelSchemas(()).of(kernel)
    assert own.qualified_name == kernel and found.op_name == functional
    assert found.signature_without_outs() == own.signature_without_outs()
    assert not any(argument.is_write for argument in (*found.arguments, *found.returns))
    assert len(found.returns) == len(own.out_arguments)


def test_what_nobody_knows() -> None:
    with pytest.raises(EtirError, match="the schema of kernel 'mine::f.out' is not known"):
        KernelSchemas(()).of("mine::f.out")
