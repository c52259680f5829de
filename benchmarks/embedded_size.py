"""Bytes of flash of whole programs on a Cortex-M55: start-up code, the C library's part, core, kernels; -Os.

    python benchmarks/embedded_size.py [core] [programs] [--check]

`core` is the code and constants of core, executor and all primitive operators in a program that loads and runs a method
(validation on, logging off), and the size of a stripped program for this machine without operators.

Three models, each with the kernels of its operators only: for every element type, and for those of its tensors. The
figures of the stock runtime are for the same models and flags, measured once with its sources of version 1.5.1; its
dtype-selective build makes programs larger. The model itself is in none of the figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import etir

from etir_testing.runtime.cross import MACHINES, build, code_bytes, mapped_bytes
from etir_testing.runtime.kernels import RUNTIME


class Add(nn.Module):
    """One operator."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(-1))


def _cnn() -> nn.Module:
    features = (nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*features, nn.Linear(8 * 7 * 7, 10), nn.Softmax(-1))


MODELS = {
    "add": (Add(), (torch.ones(4), torch.ones(4))),
    "mlp": (_mlp(), (torch.ones(1, 16),)),
    "cnn": (_cnn(), (torch.ones(1, 1, 14, 14),)),
}
STOCK = {"add": (34873, 37033), "mlp": (49105, 51505), "cnn": (75673, 79289)}
"""Bytes of text of the stock runtime: operators selected, and element types too."""


def sizes(name: str) -> tuple[int, int]:
    """Bytes of one model's program: operators selected, and element types too."""
    module, inputs = MODELS[name]
    program = etir.compile(torch.export.export(module.eval(), inputs), target="etir")
    machine = MACHINES["cortex-m55"]
    selected, typed = (build(machine, program, inputs, dtypes=dtypes) for dtypes in (False, True))
    return code_bytes(machine, selected, inputs), code_bytes(machine, typed, inputs)


class Same(nn.Module):
    """No operator at all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


CORE_BARS = {"cortex-m55, core and primitives": 20 * 1024, "host, runner without operators": 44 * 1024}
"""Bytes."""


def core_sizes() -> dict[str, int]:
    """What CORE_BARS are for."""
    inputs = (torch.ones(4),)
    program = etir.compile(torch.export.export(Same(), inputs), target="etir")
    primitives = sorted(json.loads((RUNTIME / "kernels" / "prim" / "kernels.json").read_text(encoding="utf-8")))
    program_and_core = build(MACHINES["cortex-m55"], program, inputs, operators=primitives)
    core = mapped_bytes(program_and_core, "libetir_core.a", "libetir_kernels.a")
    with tempfile.TemporaryDirectory() as name:
        runner = Path(name) / "runner"
        subprocess.run(["strip", "-s", build(MACHINES["host"], program, inputs), "-o", runner], check=True)
        return dict(zip(CORE_BARS, (core, runner.stat().st_size), strict=True))


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="core, programs (default: all)")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    arguments = parser.parse_args()
    what = arguments.what or ["core", "programs"]
    missed = False
    if "core" in what:
        for name, size in core_sizes().items():
            print(f"{name}: {size:,} bytes (bar {CORE_BARS[name]:,})", flush=True)
            missed = missed or size > CORE_BARS[name]
    if "programs" not in what:
        return int(arguments.check and missed)
    print(f"{'':6} {'operators':>12} {'and dtypes':>12} {'stock, operators':>18} {'and dtypes':>12} {'ratio':>7}")
    for name, stock in STOCK.items():
        operators, dtypes = sizes(name)
        ratio = dtypes / min(stock)
        print(f"{name:6} {operators:12,} {dtypes:12,} {stock[0]:18,} {stock[1]:12,} {ratio:7.2f}", flush=True)
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
