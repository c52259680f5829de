"""Faults in models of the zoo, and the commands that the tutorial finds such faults with.

``python -m etir_testing.devtools.planted_models FOLDER SECTION...`` plants a slow kernel, a wrong decomposition and
overlapping buffers in a small Llama 2, under the names that the tutorial's files have, runs the tutorial's commands
over them as they stand in those sections, and writes what each printed to ``FOLDER/said.json``: by section a list of
command and output.
A process of its own, since plug-ins and libraries stay with a process.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import etir

from etir_testing import ROOT
from etir_testing.devtools.faults import planted
from etir_testing.docs.examples import blocks
from etir_testing.forked_tools import TOOLS
from etir_testing.models.families import llama_decoder

PAGE = ROOT / "docs" / "tutorial" / "slow_or_wrong.md"
SECTIONS = {"memory": "The memory is wrong", "wrong": "It is wrong", "slow": "It is slow"}
"""In this order: what the later ones load stays."""

KERNELS = r"""
#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/kernel.h"
#include "platform/isa.h"

namespace {

void slow_silu(etir::KernelContext& ctx) {
  const etir::Tensor& x = ctx.tensor(0);
  const etir::Tensor& out = ctx.tensor(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = x.ptr<const float>()[i];
    out.ptr<float>()[i] = v / (1.0f + std::exp(-v));
  }
}

const etir::Kernel kRows[] = {{"aten::silu.out", slow_silu, "T>T", 2}};
const etir::KernelTable kTable = {kRows, 1};

}  // namespace

extern "C" const etir::KernelTable* etir_kernel_table(uint32_t abi) {
  return abi == etir::kKernelAbi ? &kTable : nullptr;
}
"""

DECOMPOSITION = """
from etir.lowering.decompose_aten.families.attention import scaled_dot_product_attention
from etir.plugins import decomposition


@decomposition("aten.scaled_dot_product_attention.default", replace=True)
def forgetful(b, query, key, value, mask, dropout, is_causal, scale, enable_gqa):
    return scaled_dot_product_attention(b, query, key, value, None, dropout, is_causal, scale, enable_gqa)
"""


def commands(section: str) -> list[str]:
    """The tutorial's commands in a section that begin with one of the tools, as they stand there."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (own,) = (p for p in part if p.startswith(f"{SECTIONS[section]}\n"))
    lines = [line for block in blocks(own) if block.language == "console" for line in block.lines]
    return [line[2:] for line in lines if line.startswith("$ et-")]


def plant(folder: Path) -> None:
    """Write the faulty files: ``slow.pt2`` and ``kernels.so``, ``wrong.pt2`` and ``softclip.py``, ``overlap.pte``."""
    built = llama_decoder.decode(llama_decoder.LLAMA2_SMALL)  # the zoo's llama2_decode
    with torch.no_grad():
        program = torch.export.export(built.module, built.inputs, dynamic_shapes=built.dynamic_shapes)
    torch.export.save(program, folder / "slow.pt2")
    for name in ("slow", "wrong"):
        np.savez(folder / f"{name}.npz", *[x.numpy() for x in built.inputs])
    (folder / "wrong.pt2").write_bytes((folder / "slow.pt2").read_bytes())
    (folder / "softclip.py").write_text(DECOMPOSITION)
    (folder / "kernels.cc").write_text(KERNELS)
    options = ["-std=c++17", "-shared", "-fPIC", "-I", str(ROOT / "runtime")]
    subprocess.run(["c++", *options, str(folder / "kernels.cc"), "-o", str(folder / "kernels.so")], check=True)
    # A sum in the middle of a layer is put where the cache of keys is.
    with planted("verify-plan", r"(%add\w* = et\.buffer at <1, )\d+", r"\g<1>0"):
        etir.compile(program, target="etir").save(folder / "overlap.pte")


def run(command: str) -> str:
    """What a tool prints, on both streams. Filters and redirections after it only choose what of that is shown."""
    words = shlex.split(re.split(r" 2>&1| > /dev/null| \| ", command)[0])
    main = importlib.import_module(TOOLS[words[0]]).main
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(words[1:])
    return printed.getvalue()


def main(folder: Path, sections: list[str]) -> None:
    """Plant the faults and look for those of some sections."""
    os.chdir(folder)
    plant(folder)
    wanted = [section for section in SECTIONS if section in sections]
    said = {section: [(command, run(command)) for command in commands(section)] for section in wanted}
    Path("said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
