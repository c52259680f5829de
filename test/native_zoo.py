"""The zoo's small entries as machine code of many processors, each against eager PyTorch.

    python test/native_zoo.py                                  every small entry, every processor
    python test/native_zoo.py mobilenet_v2 --processors aarch64,rv64gcv

A program has code for one processor alone, so that nothing else can have run; its operators outside of the delegate run
on kernels. Processors of this machine run here, others with et-run, built for their machine, under QEMU. The exit code
says whether all were within 1e-5 of eager, as largest difference over largest magnitude, every delegate had code, and
planned and temporary memory was at most what it is without the delegate (``MEMORY`` has the programs that take more).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import etir
import etir.runtime
from etir.backends.native.blob import read_blob
from etir.diagnostics import EtirError
from etir.progress import Progress

from etir_testing.exports import exported
from etir_testing.models.registry import relative_difference
from etir_testing.models.zoo_entry import Entry
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.native.blobs import blobs_of
from etir_testing.native.emulated import EMULATORS
from etir_testing.native.images import here
from etir_testing.runtime import builds

TOLERANCE = 1e-5
PROCESSORS = ("x86-64", "x86-64-v3", "aarch64", "rv64gcv", "riscv64")
MACHINES = {"aarch64": "aarch64", "rv64gcv": "riscv64", "riscv64": "riscv64"}
"""The preset that et-run is built with, by the processor."""


MEMORY: dict[str, float] = {}
"""What programs take more than without the delegate, and how many times as much they may."""


@cache
def runner(processor: str) -> list[str]:
    """The command of et-run for a processor of another machine."""
    defines = {"ETIR_TESTS": "OFF", "ETIR_INSTALL": "OFF", "CMAKE_EXE_LINKER_FLAGS": "-static"}
    folder = builds.build(MACHINES[processor], "etir_run", defines=defines)
    return (*EMULATORS[processor].command, str(folder / "runtime" / "tools" / "et-run"))


def run(program: etir.Program, inputs: Sequence[Any], processor: str) -> list[torch.Tensor]:
    """The tensors that a program gives, run where its code can run."""
    if processor in here():
        found = etir.runtime.load(program, native="trusted").forward(*inputs)
        return [torch.as_tensor(x) for x in pytree.tree_leaves(found)]
    with tempfile.TemporaryDirectory() as folder:
        program.save(f"{folder}/m.pte")
        command = [*runner(processor), f"{folder}/m.pte", "--native", "--outputs", f"{folder}/out"]
        for number, x in enumerate(inputs):
            np.save(f"{folder}/in{number}.npy", torch.as_tensor(x).contiguous().numpy())
            command += ["--input", f"{folder}/in{number}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode:
            raise RuntimeError(f"et-run ends with {done.returncode}: {done.stderr[-500:]}")
        files = sorted(Path(folder).glob("out*.npy"), key=lambda path: int(path.stem.removeprefix("out")))
        return [torch.from_numpy(np.load(path)) for path in files]


def memory_of(program: etir.Program) -> int:
    """Bytes of planned and temporary memory of all methods."""
    rows = [method.runtime for method in program.report().methods]
    return sum(sum(row.planned) + row.temp for row in rows if row is not None)


def without_code(program: etir.Program) -> str:
    """Why a delegate has no code, or empty."""
    blobs = [read_blob(data) for data in blobs_of(program.buffer)]
    if blobs and all(blob.variants for blob in blobs):
        return ""
    return "; ".join(warning.render() for warning in program.warnings) or "a delegate without code"


def check(entry: Entry, processors: Sequence[str]) -> list[str]:
    """A line for each processor; it starts with ``FAIL`` where the entry is not within the tolerance."""
    built = entry.build()
    with torch.no_grad():
        wanted = pytree.tree_leaves(entry.build().module(*built.inputs))
    expected = [torch.as_tensor(x).detach() for x in wanted if x is not None]
    inputs = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in pytree.tree_leaves(built.inputs)]
    kernels = memory_of(etir.compile(exported(entry), target="etir"))
    lines = []
    for processor in processors:
        start = time.monotonic()
        try:
            program = etir.compile(exported(entry), target="etir", delegates=[f"native{{cpus={processor}}}"])
            assert program.delegation is not None
            delegates = len(program.delegation.backends[0].partitions)
            difference = relative_difference(run(program, inputs, processor), expected)
            memory = memory_of(program) / max(1, kernels)
            missing = without_code(program)
            is_fine = difference <= TOLERANCE and memory <= MEMORY.get(entry.name, 1.0) and not missing
            word = "ok  " if is_fine else "FAIL"
            text = f"{difference:.1e}, {delegates} delegates, memory {memory:.3f}" + (missing and f", {missing}")
        except (EtirError, RuntimeError, subprocess.TimeoutExpired) as error:
            word, text = "FAIL", str(error)
        lines.append(f"{word} {entry.name:24} {processor:10} {text}, {time.monotonic() - start:.1f} s")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Walk over the entries; 0 when all are as eager is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="names of entries (default: all small ones)")
    parser.add_argument("--processors", default=",".join(PROCESSORS), metavar="NAME,...")
    arguments = parser.parse_args(argv)
    names = arguments.entries or [name for name, entry in ENTRIES.items() if entry.small]
    wanted = [name for name in arguments.processors.split(",") if name in here() or name in MACHINES]
    processors = [p for p in wanted if p in here() or EMULATORS[p].missing is None]
    failed = 0
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with Progress("native zoo") as progress:
        for number, name in enumerate(names, start=1):
            for line in check(ENTRIES[name], processors):
                failed += line.startswith("FAIL")
                print(line, flush=True)
            progress.say(f"{number} of {len(names)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
