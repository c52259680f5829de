"""Code that is linked: the keyword spotter of the examples as firmware, and what happens without the linked code."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from unittest import mock

import pytest
import torch
from torch import nn

import etir
from etir.emit.pte.reader import read_pte

from etir_testing import ROOT
from etir_testing.models.ds_cnn import SHAPE, DsCnn
from etir_testing.runtime.cross import MACHINES, build, run

MOST_CODE = 12 * 1024
"""Bytes of Cortex-M55 code of the keyword spotter."""


def skip_without(name: str) -> None:
    if MACHINES[name].missing is not None:
        pytest.skip(f"{MACHINES[name].missing} is not installed")


def test_the_keyword_spotter_runs_from_flash() -> None:
    name = "cortex-m55"
    skip_without(name)
    command = [sys.executable, ROOT / "examples" / "keyword_spotting.py", "--processor", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (code,) = re.findall(r"^code of the network +([\d,]+) bytes", done.stdout, flags=re.MULTILINE)
    assert 1024 < int(code.replace(",", "")) <= MOST_CODE
    assert "nothing allocates" in done.stdout


class Two(nn.Module):
    """Two parts for the delegate with a sort between them, and one weight in both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.sort(torch.relu(self.linear(x)))[0])


def test_several_functions_share_weights() -> None:
    """Also where the code could be loaded: what a build links needs no executable memory."""
    name = "aarch64"
    skip_without(name)
    module, x = Two().eval(), torch.randn(3, 12, generator=torch.Generator().manual_seed(0))
    delegates = [f"native{{cpus={name} linked=true}}"]
    program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=delegates)
    assert len(program.report().linked) == 2
    weights = program.build_files["etir_native_weights.c"].decode()
    assert len(re.findall(r"^ETIR_WEIGHT const float", weights, flags=re.MULTILINE)) == 2
    done = run(MACHINES[name], build(MACHINES[name], program, (x,)))
    assert done.code == 0, done.text
    got = torch.frombuffer(bytearray(done.outputs[0]), dtype=torch.float32).reshape(3, 12)
    torch.testing.assert_close(got, module(x).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("what", "place"), [("arena", 28), ("output", 64 + 36 + 4), ("inputs", 8)])
def test_linked_code_is_not_entered_with_other_tables(what: str, place: int) -> None:
    """The file asks for a function by its digest; an arena or an argument is not what it was made for."""
    name = "aarch64"
    skip_without(name)
    module, x = Two().eval(), torch.randn(3, 12, generator=torch.Generator().manual_seed(0))
    delegates = [f"native{{cpus={name} linked=true}}"]
    program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=delegates)
    data = bytearray(program.buffer)
    at = data.index(b"ETNC") + place
    (old,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, old - 1 if old > 0 else 64)
    with mock.patch.dict(vars(program), buffer=bytes(data)):
        executable = build(MACHINES[name], program, (x,))
    done = run(MACHINES[name], executable)
    assert (done.code, done.outputs) == (1, []) and "etir-error 808 " in done.text, what


def test_nothing_is_in_the_file_that_is_in_the_build() -> None:
    module, x = DsCnn().eval(), torch.zeros(SHAPE)
    delegates = ["native{cpus=cortex-m55 linked=true}"]
    program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=delegates)
    assert not read_pte(program.buffer).named_data and len(program.buffer) < 2048
    assert program.operators == []
