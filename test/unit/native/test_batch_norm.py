"""Batch norms that no convolution takes: code does them with what stands around them, in one delegate."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from xdsl.dialects.func import FuncOp

import etir
import etir.runtime
from etir.backends.native.batch_norm import spell_out_batch_norms
from etir.diagnostics import EtirError
from etir.dialects.text import parse_module
from etir.memory_bound import bytes_of


def normed(norm: nn.Module) -> nn.Module:
    """With statistics, factors and summands that are none of 0 and 1."""
    for name, low, high in (("running_mean", -2, 2), ("running_var", 0.1, 3), ("weight", -1, 1), ("bias", -1, 1)):
        value = getattr(norm, name)
        if value is not None:
            nn.init.uniform_(value, low, high)
    return norm


class Grown(nn.Module):
    """Images that are joined to what is made of them, as in a DenseNet: the norm stands before the activation."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norms = nn.ModuleList(normed(nn.BatchNorm2d(channels + 6 * i, affine=i != 1)) for i in range(3))
        self.layers = nn.ModuleList(nn.Conv2d(channels + 6 * i, 6, 3, padding=1) for i in range(3))
        self.last = normed(nn.BatchNorm2d(channels + 18))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = torch.cat([x, layer(torch.relu(norm(x)))], 1)
        return torch.relu(self.last(x)).mean((2, 3))


class Rows(nn.Module):
    """Norms of rows and of signals, after activations."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.rows = nn.Linear(12, 40), normed(nn.BatchNorm1d(40))
        self.signal, self.channels = nn.Conv1d(4, 16, 3), normed(nn.BatchNorm1d(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.rows(torch.nn.functional.gelu(self.wide(x)))
        return self.channels(torch.tanh(self.signal(rows.unflatten(1, (4, 10)))))


CASES = {"grown": (Grown, (2, 3, 12, 12)), "rows": (Rows, (3, 12))}


@pytest.mark.parametrize("name", list(CASES))
def test_one_delegate(name: str) -> None:
    """All of it is code, images in no more memory; code and the kernels in its place compute what eager does."""
    torch.manual_seed(0)
    build, shape = CASES[name]
    model, x = build().eval(), torch.randn(shape)
    exported = torch.export.export(model, (x,))
    program = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    assert program.delegation is not None
    (backend,) = program.delegation.backends
    assert len(backend.partitions) == 1 and not program.delegation.fallback
    assert "batch_norm" in str(program.delegation)
    if name == "grown":
        assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        want = model(x)
    for policy in ("trusted", "refuse"):
        (got,) = etir.runtime.load(program, native=policy).forward(x)
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)


def test_dims_that_are_known_at_run_time_only() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(normed(nn.BatchNorm2d(3)), nn.ReLU(), nn.Conv2d(3, 8, 3, padding=1)).eval()
    height = torch.export.Dim("height", min=2, max=20)
    exported = torch.export.export(model, (torch.randn(1, 3, 9, 7),), dynamic_shapes=({2: height},))
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert program.delegation is not None and not program.delegation.fallback
    loaded = etir.runtime.load(program)
    for size in (2, 9, 20):
        x = torch.randn(1, 3, size, 7)
        with torch.no_grad():
            torch.testing.assert_close(torch.as_tensor(loaded.forward(x)[0]), model(x), rtol=1e-5, atol=1e-5)


def test_statistics_that_are_no_constants() -> None:
    """They stay with the kernels; text that gives them to the delegate is an error."""
    module = parse_module(
        "func.func private @f(%x: tensor<1x2x3x3xf32>, %m: tensor<2xf32>) -> tensor<1x2x3x3xf32> "
        'attributes {backend.delegate = "native"} {\n'
        "  %y, %a, %b = edge.aten._native_batch_norm_legit_no_training.default(%x, none, none, %m, %m, "
        "momentum = 0.1, eps = 1.0e-05) : (tensor<1x2x3x3xf32>, tensor<2xf32>, tensor<2xf32>) -> "
        "(tensor<1x2x3x3xf32>, tensor<0xf32>, tensor<0xf32>)\n"
        "  func.return %y : tensor<1x2x3x3xf32>\n}"
    )
    (func,) = module.body.block.ops
    assert isinstance(func, FuncOp)
    with pytest.raises(EtirError, match="E1106"):
        spell_out_batch_norms(func, {})
