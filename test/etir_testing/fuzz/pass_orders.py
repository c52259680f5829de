"""Passes in an order that no pipeline has, against the interpreter.

Every pass that stays inside of the edge level promises to leave a program that means the same, whatever ran before it.
A case runs a dozen of them in random order, some of them twice; the interpreter computes the same as before, and what
the target makes of the result in the end does, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from xdsl.dialects.builtin import ModuleOp

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.interpret import run_module
from etir.passes.infra.manager import run_pipeline

PASSES = (
    "canonicalize",
    "cse",
    "cse-symbolic-sizes",
    "dce",
    "fold-constants",
    "fold-batch-norm",
    "commute-transpose-into-matmul",
    "legalize-dim-order",
    "reinplace-scatter",
    "verify-types",
)
"""Passes of the edge level that may run at any time."""


class Model(torch.nn.Module):
    """What each of the passes looks for."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(8, 5)
        self.register_buffer("seen", torch.zeros(4, 8))
        self.table = torch.nn.Parameter(torch.arange(8.0))

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Of tensors [n, 3, 8, 8] and [2] with indices below 4."""
        y = self.norm(self.convolution(x.to(memory_format=torch.channels_last)))
        pooled = torch.nn.functional.max_pool2d(y, 2).flatten(2).mean(-1)
        rows = self.linear(y.mean((1, 2))) @ self.linear.weight.t()[:5]
        constant = (self.table * 2).cumsum(0) + torch.ones(8)
        self.seen[i] = constant
        same = torch.relu(pooled) + torch.relu(pooled)
        return rows.t().contiguous().t(), same.view(-1), self.seen.sum(0) * 1 + 0, (x.permute(0, 2, 3, 1) * 1.0).sum(-1)


def edge_module() -> ModuleOp:
    """The model at the edge level, as its import leaves it."""
    torch.manual_seed(0)
    program = torch.export.export(
        Model().eval(),
        (torch.randn(3, 3, 8, 8), torch.tensor([0, 2])),
        dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=6)}, "i": {}},
    )
    module = etir.import_program(program)
    run_pipeline(EtContext(), module, "functionalize,decompose-aten,aten-to-edge")
    return module


def calls() -> list[tuple[torch.Tensor, ...]]:
    """Inputs of several calls."""
    return [(torch.randn(n, 3, 8, 8), torch.tensor([1, 3 - n % 3])) for n in (3, 2, 6)]


def check(seed: int, module: ModuleOp, calls: Sequence[tuple[torch.Tensor, ...]]) -> str:
    """Run passes in the order of a seed over a module at the edge level; what is wrong, empty for nothing."""
    chance = random.Random(seed)
    order = [chance.choice(PASSES) for _ in range(chance.randint(2, 12))]
    changed = module.clone()
    target = chance.choice(["executorch", "etir"])
    try:
        run_pipeline(EtContext(), changed, ",".join(order))
        text = print_module(changed)
        assert print_module(parse_module(text)) == text
        program = etir.compile(changed.clone(), target=target)
    except EtirError as error:
        return f"{order}: {error}"
    for call in calls[:1] if chance.random() < 0.7 else calls:
        wanted = run_module(module, call, evaluator="torch")
        for what, made in (("passes", changed), (target, program.module)):
            got = run_module(made, call, evaluator="torch")
            for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
                if a.shape != b.shape or not torch.allclose(a, b, 1e-4, 1e-4, equal_nan=True):
                    return f"{order}: output {index} differs after {what}"
    return ""
