"""Keyword spotting on a microcontroller: DS-CNN as C for a Cortex-M55, linked with the runtime, run in an emulator.

What `et-compile --native-c` writes is compiled with the runtime's core for the board MPS3 AN547, whose emulation is
QEMU's. The network has seeded random weights, so the words mean nothing; what counts is that the board's scores are
those of eager PyTorch. A difference above 1e-5 of the largest score makes the exit code 1, and so does code that
allocates memory.

It needs Debian's gcc-arm-none-eabi, libstdc++-arm-none-eabi-newlib and qemu-system-arm, cmake and ninja.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support import TEST_FOLDER, missing_packages, step

PACKAGES = {"etir": "'etir[torch]'", "torch": "torch==2.13.0"}
TOLERANCE = 1e-5
ALLOCATORS = {"malloc", "_malloc_r", "calloc", "realloc", "free", "_sbrk", "_sbrk_r", "_Znwj", "_Znaj", "_ZdlPv"}
"""What a program calls for memory, as the linker knows it."""


def spot(seed: int, processor: str) -> int:
    """The whole example: compile, build, run, compare with eager; returns the exit code."""
    with step("Loading PyTorch"):
        import torch

        import etir

        from etir_testing.models.ds_cnn import SHAPE, DsCnn
        from etir_testing.models.seeding import seed_weights
        from etir_testing.runtime.cross import MACHINES, build, run

    machine = MACHINES[processor]
    if machine.missing is not None:
        print(f"error: {machine.missing} is not installed", file=sys.stderr)
        return 1
    model = seed_weights(DsCnn(), seed)
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    with step("Compiling with etir"), torch.no_grad():
        expected = model(x)
        exported = torch.export.export(model, (x,))
        program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={processor} linked=true}}"])
    with step("Building the firmware"):
        firmware = build(machine, program, (x,))
    with step("Running it in the emulator"):
        done = run(machine, firmware)
    if done.code != 0:
        print(f"error: the program ends with {done.code}: {done.text}", file=sys.stderr)
        return 1
    (linked,) = program.report().linked
    objects = sorted((firmware.parent / "runtime/embedded/CMakeFiles/etir_embedded_native.dir").rglob("forward*.obj"))
    code = sum(_code_bytes(path) for path in objects)
    memory = program.runtime_memory()["forward"]
    print(f"{'code of the network':24} {code:8,} bytes")
    print(f"{'its weights':24} {linked.weights:8,} bytes")
    print(f"{'the .pte file':24} {len(program.buffer):8,} bytes")
    print(f"{'memory of the method':24} {memory.method_32:8,} bytes")
    print(f"{'planned memory':24} {sum(memory.planned):8,} bytes")
    print(f"{'temporary memory':24} {memory.temp:8,} bytes, {linked.arena:,} of them the network's")
    names = subprocess.run(["arm-none-eabi-nm", firmware], check=True, capture_output=True, text=True).stdout.split()
    allocators = sorted(ALLOCATORS & set(names))
    print(f"{'heap':24} {'0 bytes: nothing allocates' if not allocators else ', '.join(allocators)}")
    scores = torch.frombuffer(bytearray(done.outputs[0]), dtype=torch.float32).reshape(expected.shape)
    difference = ((scores - expected).abs().max() / expected.abs().max()).item()
    print(f"Largest difference from eager: {difference:.1e} of the largest score")
    return int(not difference <= TOLERANCE or bool(allocators))


def _code_bytes(path: Path) -> int:
    """Code and constants of an object file."""
    text = subprocess.run(["arm-none-eabi-size", path], check=True, capture_output=True, text=True).stdout
    return int(text.splitlines()[1].split()[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example with command-line arguments ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights and the sound (default 0)")
    processors = ("cortex-m55", "cortex-m4")
    parser.add_argument("--processor", choices=processors, default=processors[0], help="default cortex-m55")
    options = parser.parse_args(argv)
    if problem := missing_packages(PACKAGES):
        print(problem, file=sys.stderr)
        return 1

    from etir.diagnostics import EtirError

    sys.path.insert(0, str(TEST_FOLDER))
    try:
        return spot(options.seed, options.processor)
    except (EtirError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
