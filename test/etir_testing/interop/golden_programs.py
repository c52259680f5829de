"""One small program for each thing that a program can hold."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch.export import Dim

from etir.driver import Program, compile_program

from etir_testing.interop.control_flow import chained, count_up, nested
from etir_testing.interop.program_runs import (
    Function,
    exported,
    f32,
)
from etir_testing.interop.signature_cases import DYNAMIC, OUTPUTS, STATE, Buffers


def _golden() -> dict[str, Any]:
    sizes = {"dynamic_shapes": ((({0: Dim("batch", min=1, max=8), 1: Dim("tokens", min=4, max=16)},)),)}
    torch.manual_seed(0)
    programs: dict[str, Any] = {
        "linear": (torch.nn.Linear(3, 4), (f32(2, 3),), {}),
        "convolution": (torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()), (f32(1, 3, 6, 6),), {}),
        "conds": (Function(chained), (f32(2, 3), f32(2, 3, seed=1)), {}),
        "nested_conds": (Function(nested), (f32(2, 3), f32(2, 3, seed=1)), {}),
        "loop": (Function(count_up), (f32(2, 3),), {}),
        "dynamic": (Function(DYNAMIC["sizes_as_outputs"]), (f32(3, 5, 4),), sizes),
        "dynamic_view": (Function(DYNAMIC["split_heads"]), (f32(3, 5, 4),), sizes),
    }
    for name in ("list_results", "none_and_numbers", "string", "empty", "constant"):
        programs[name] = (Function(OUTPUTS[name]), (f32(2, 3),), {})
    step, buffers = STATE["swap"]
    programs["state"] = (Buffers(step, **buffers), (f32(2, 3),), {})
    return programs


GOLDEN = _golden()


def golden(name: str, **options: Any) -> Program:
    """One of them, compiled."""
    module, args, export_options = GOLDEN[name]
    return compile_program(exported(module, args, **export_options), **options)


def digests() -> str:
    """The files of those that differ most, with the lines they come from, as digests on one line."""
    names = ("linear", "nested_conds", "dynamic", "state")
    return " ".join(hashlib.sha256(golden(name, debug_info=True).buffer).hexdigest() for name in names)
