"""Weights of delegates in a file beside the program, on the stock runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.runtime import Runtime
from torch import nn

import etir
from etir.emit.ptd.reader import read_ptd
from etir.emit.pte.reader import read_pte


class _Net(nn.Module):
    """Two delegates of XNNPACK's, which share weights, around a function it lacks; a weight of the method's own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(64, 64)
        self.table = nn.Embedding(16, 64)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.erf(self.fc(x))) + self.table(index)


INPUTS = (torch.linspace(-1, 1, 128).reshape(2, 64), torch.tensor([3, 15]))


@pytest.mark.parametrize("delegate", ["xnnpack", "executorch:xnnpack"])
def test_runs_with_its_data(delegate: str, tmp_path: Path) -> None:
    """The program has no weight in it, each is in the other file once, and the numbers are eager's."""
    program = etir.compile(torch.export.export(_Net().eval(), INPUTS), delegates=[delegate], external_weights="weights")
    program.save(tmp_path / "model.pte")
    inside = read_pte(program.buffer)
    assert len(inside.execution_plan[0].delegates) == 2 and not inside.named_data
    assert len(program.buffer) < 4 * 64 * 16
    data = read_ptd((tmp_path / "weights.ptd").read_bytes())
    sizes = sorted(len(item.data) for item in data.named_data.values())
    assert sizes == [4 * 64, 4 * 64 * 16, 4 * 64 * 64]
    loaded = Runtime.get().load_program(tmp_path / "model.pte", data_path=tmp_path / "weights.ptd")
    method = loaded.load_method("forward")
    assert method is not None
    torch.testing.assert_close(method.execute(list(INPUTS))[0], _Net().eval()(*INPUTS), rtol=1e-3, atol=1e-3)


def test_chosen_by_size_and_name() -> None:
    """What is small stays inside."""
    module = etir.import_program(torch.export.export(_Net().eval(), INPUTS))
    from etir.dialects.context import EtContext
    from etir.emit.to_pte import emit_program
    from etir.options import CompileOptions
    from etir.passes.backend.externalize_weights import ExternalizeWeightsPass
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    steps = list(pipeline(CompileOptions(delegates=("xnnpack",))))
    place = next(i for i, step in enumerate(steps) if step.name == "to-out-variant")
    steps.insert(place, ExternalizeWeightsPass("large", min_bytes=4096))
    run_pipeline(EtContext(), module, steps)
    emission = emit_program(module)
    assert [len(item.data) for item in read_pte(emission.pte()).named_data.values()] == [4 * 64]
    assert len(read_ptd(emission.ptd("large")).named_data) == 2
