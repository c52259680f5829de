"""What programs with and without delegates have in common is compiled once, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir import common_stages
from etir.diagnostics import EtirError
from etir.lowering.decompose_aten.driver import DecomposeAtenPass
from etir.lowering.errors import E0402
from etir.passes.backend.verify_link import VerifyLinkPass
from etir.passes.edge.fold_batch_norm import FoldBatchNormPass
from etir.passes.infra.instrumentation import Instrument, PassRun, watching


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of two passes, each time that they run."""
    found: list[str] = []
    for cls in (DecomposeAtenPass, FoldBatchNormPass):

        def run(self: Any, ctx: Any, module: Any, real: Any = cls.run) -> None:
            found.append(self.name)
            real(self, ctx, module)

        monkeypatch.setattr(cls, "run", run)
    return found


def _exported(module: nn.Module) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export(module.eval(), (torch.randn(1, 3, 8, 8),))


def test_the_same_module_goes_through_a_stage_once(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = _exported(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
    once = etir.compile(program, target="etir", delegates=["native"])
    assert ran.count("decompose-aten") == 2 and ran.count("fold-batch-norm") == 1
    monkeypatch.setattr(common_stages, "COMMON", ())
    ran.clear()
    twice = etir.compile(program, target="etir", delegates=["native"])
    assert ran.count("decompose-aten") == ran.count("fold-batch-norm") > 1
    assert once.buffer == twice.buffer
    assert [name for name, _ in once.passes] == [name for name, _ in twice.passes]
    assert (once.pipeline, once.warnings) == (twice.pipeline, twice.warnings)


def test_another_module_goes_through_it_by_itself(ran: list[str]) -> None:
    etir.compile(_exported(nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU())), target="etir", delegates=["native"])
    assert ran.count("decompose-aten") == 2


def test_whoever_watches_sees_all_passes(ran: list[str]) -> None:
    class Names(Instrument):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def after_pass(self, run: PassRun, module: object) -> None:
            self.names.append(run.name)

    program = _exported(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    with watching(names := Names()):
        etir.compile(program, target="etir", delegates=["native"])
    assert names.names.count("fold-batch-norm") == ran.count("fold-batch-norm") > 1


def test_errors_are_those_of_all_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, ctx: Any, module: Any) -> None:
        raise E0402.error(f"{self.name} refuses")

    monkeypatch.setattr(FoldBatchNormPass, "run", refuse)
    monkeypatch.setattr(FoldBatchNormPass, "recover", lambda self, module: True)
    monkeypatch.setattr(VerifyLinkPass, "run", refuse)
    program = _exported(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    said: list[list[tuple[Any, ...]]] = []
    for delegates in ([], ["native"]):
        with pytest.raises(EtirError) as error:
            etir.compile(program, target="etir", delegates=delegates)
        said.append([(d.id, d.message, d.notes, d.pass_name) for d in error.value.diagnostics])
    assert said[0] == said[1]
    assert [message for _, message, *_ in said[0]] == ["fold-batch-norm refuses", "verify-link refuses"]
