"""Where constants lie in the file: at lines of the cache for kernels that read weights so, as before for others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
from etir.emit.pte import read_pte, write_pte
from etir.emit.to_pte import EmitOptions, emit_program


def _program() -> tuple[torch.export.ExportedProgram, list[torch.Tensor]]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 36, 7)).eval()
    samples = [torch.randn(1, 3, 8, 8) for _ in range(2)]
    return torch.export.export(net, (samples[0],)), samples


def _alignment(data: bytes) -> int:
    return read_pte(bytes(data)).layout.constant_alignment


def test_weights_that_are_read_by_lines_lie_at_lines() -> None:
    program, samples = _program()
    quantized = etir.quantize(program, "static-int8", calibration=[(x,) for x in samples], target="etir").compile()
    assert _alignment(quantized.buffer) == 64
    again = write_pte(read_pte(bytes(quantized.buffer)))
    assert again == bytes(quantized.buffer)


def test_other_programs_have_the_usual_alignment() -> None:
    program, samples = _program()
    assert _alignment(etir.compile(program, target="etir").buffer) == 16
    delegated = etir.quantize(program, calibration=[(x,) for x in samples], delegates=["xnnpack"]).compile()
    assert _alignment(delegated.buffer) == 16
    weights = etir.quantize(program, "weight-int8", target="etir").compile()
    assert _alignment(weights.buffer) == 16


@pytest.mark.parametrize("alignment", [16, 256])
def test_an_alignment_may_be_asked_for(alignment: int) -> None:
    program, samples = _program()
    quantized = etir.quantize(program, "static-int8", calibration=[(x,) for x in samples], target="etir").compile()
    data = emit_program(quantized.module, EmitOptions(constant_alignment=alignment)).pte()
    assert _alignment(data) == alignment


def test_bytes_may_lie_anywhere() -> None:
    program, samples = _program()
    quantized = etir.quantize(program, "static-int8", calibration=[(x,) for x in samples], target="etir").compile()
    wanted = etir.runtime.load(quantized).forward(samples[0])[0]
    for offset in (0, 1, 16, 48):
        memory = memoryview(bytes(offset) + bytes(quantized.buffer)).toreadonly()[offset:]
        assert torch.equal(etir.runtime.load(memory).forward(samples[0])[0], wanted)
