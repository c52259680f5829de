"""What the core itself does: multiply-adds that wait for nothing, and floats that are read from memory and from cache.

The loops are C for the widest vectors that this machine runs, compiled by the native backend's own compiler, but linked
for the system's loader: the images of the backend have their parts closer together than it takes. They are measured
beside what they are the limit of, in turns: a core that others use, or that lowers its clock, does so for all.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from etir.backends.native.cc import FLAGS, Compiler, compiler
from etir.backends.native.cpu import Cpu, cpu

from etir_testing.native.images import here

CHAINS = 12
"""Independent sums: more than latency times units of today's cores (4 x 2 or 5 x 2), and they stay in 16 registers."""
STEPS = 20_000
MEMORY_BYTES = 128 << 20
"""More than any cache that one core may fill."""
CACHE_FACTOR = 4
"""The second size is this many times the second-level cache: it lies in the last level."""
STREAMS = 8

_TEXT = """
typedef float vec __attribute__((vector_size({bytes}), aligned({bytes})));
#define EXPORT __attribute__((visibility("default")))

EXPORT void limit_fma(long steps, const vec *in, vec *out) {{
  const vec scale = in[0], shift = in[1];
  {declare}
  for (long i = 0; i < steps; ++i) {{
    {multiply}
  }}
  *out = {total};
}}

EXPORT void limit_read(long vectors, const vec *in, vec *out) {{
  {zero}
  for (long i = 0; i + {streams} <= vectors; i += {streams}) {{
    {add}
  }}
  *out = {read_total};
}}
"""


def text_of(target: Cpu) -> str:
    """The C of both loops."""
    chains, streams = range(CHAINS), range(STREAMS)
    return _TEXT.format(
        bytes=4 * target.vector,
        streams=STREAMS,
        declare=" ".join(f"vec a{i} = in[{2 + i}];" for i in chains),
        multiply=" ".join(f"a{i} = a{i} * scale + shift;" for i in chains),
        total=" + ".join(f"a{i}" for i in chains),
        zero=" ".join(f"vec s{i} = in[{i}] - in[{i}];" for i in streams),
        add=" ".join(f"s{i} += in[i + {i}];" for i in streams),
        read_total=" + ".join(f"s{i}" for i in streams),
    )


@dataclass(frozen=True)
class Probe:
    """A loop: one call does ``amount`` floating-point operations, or reads as many bytes."""

    call: Callable[[], None]
    amount: float


def aligned(floats: int, value: float) -> np.ndarray:
    """So many floats of one value, from a cache line's beginning on."""
    whole = np.full(floats + 32, value, np.float32)
    start = (-whole.ctypes.data % 128) // 4
    return whole[start : start + floats]


def loaded(text: str, target: Cpu, using: Compiler) -> ctypes.CDLL:
    """The library of C text. Raises ``subprocess.CalledProcessError`` when it cannot be compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "limit.c", Path(folder) / "limit.so"
        source.write_text(text, encoding="utf-8")
        command = [*using.for_cpu(target), *FLAGS, "-fPIC", "-shared", "-nostdlib", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


def probes() -> dict[str, Probe]:
    """The probes of this machine: ``multiply-adds``, ``memory`` and ``cache``. Raises EtirError without a compiler."""
    target = cpu(here()[-1])
    library = loaded(text_of(target), target, compiler())
    # 0.5 x + 1 goes to 2: no infinities, no denormal numbers, nothing that a core computes more slowly.
    given, out = aligned((CHAINS + 2) * target.vector, 0.5), aligned(target.vector, 0.0)
    given[target.vector : 2 * target.vector] = 1.0
    large = aligned(MEMORY_BYTES // 4, 1.0)

    def fma() -> None:
        library.limit_fma(ctypes.c_long(STEPS), ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(out.ctypes.data))

    def read(size: int) -> Probe:
        vectors = size // (4 * target.vector)

        def call() -> None:
            library.limit_read(
                ctypes.c_long(vectors), ctypes.c_void_p(large.ctypes.data), ctypes.c_void_p(out.ctypes.data)
            )

        return Probe(call, float(size))

    return {
        "multiply-adds": Probe(fma, 2.0 * STEPS * CHAINS * target.vector),
        "memory": read(MEMORY_BYTES),
        "cache": read(CACHE_FACTOR * target.l2),
    }


def processor() -> str:
    """The processor's own name with the widest vectors that this machine runs."""
    name = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = [line.partition(":") for line in cpuinfo.read_text(encoding="utf-8").splitlines()]
        found = {key.strip(): value.strip() for key, _, value in lines}
        name = found.get("model name", name)
        numbers = [found[key] for key in ("cpu family", "model") if key in found]
        name += f" (family {numbers[0]}, model {numbers[1]})" if len(numbers) == 2 else ""
    return f"{name}, {here()[-1]}"
