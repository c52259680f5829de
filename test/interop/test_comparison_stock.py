"""Comparisons of what the stock pipeline wrote, on the stock runtime; of quantized programs, which differ by steps."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import nn

import etir
from etir.devtools.comparison import compare

from etir_testing.devtools.programs import exported
from etir_testing.interop.quantized_classifier import Classifier, quantized
from etir_testing.nightly import cases


def stock_file(program: torch.export.ExportedProgram) -> bytes:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge_transform_and_lower(program, compile_config=config).to_executorch().buffer


@pytest.mark.parametrize("name", cases(["cond", "encoder", "recurrent"], nightly=["cond", "recurrent", "encoder"]))
def test_a_plain_file_of_the_stock_pipeline_on_both_runtimes(name: str) -> None:
    """Without source, trace and record: each instruction beside the interpreter, on the inputs that it had."""
    program, x = exported(name)
    found = compare(None, stock_file(program), inputs=[x], runtime="etir,stock")
    assert found.is_good, found
    assert [stage.name for stage in found.stages] == ["et/etir", "et/stock"]
    for stage in found.stages:
        assert not stage.failure and stage.compared > 0, found


@pytest.mark.nightly
@pytest.mark.parametrize("is_per_channel", [False, True])
@pytest.mark.parametrize("settings", [{}, {"delegates": "xnnpack"}, {"target": "etir", "delegates": "native"}], ids=str)
def test_quantized_programs_raise_no_alarm(settings: dict[str, str], is_per_channel: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16, 16)
    model: nn.Module = quantized(Classifier(), (x,), is_per_channel=is_per_channel)
    program = torch.export.export(model, (x,))
    runtime = "etir" if settings.get("target") == "etir" else "stock"
    found = compare(
        program, etir.compile(program, trace=True, **settings), inputs=[(x,), (x.flip(-1),)], runtime=runtime
    )
    assert found.is_good, found
