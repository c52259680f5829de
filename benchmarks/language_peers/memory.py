"""No engine: how fast the bytes of a file can be read, as a product of one row reads weights, and nothing else done.

Each thread has a part of the file, which is mapped as the runtime maps it, and reads at four places of it at once, in
loads of 512 or 256 bits, asking for lines of the cache 2 KiB ahead. One time for each pass over the file.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from worker import Engine, serve

PASSES = 8
"""Passes over the file between two looks at the clock: threads are begun once for them."""

_READ = """
#if defined(__AVX512F__)
#define BYTES 64
#else
#define BYTES 32
#endif
typedef long long vec __attribute__((vector_size(BYTES)));
long long read_all(const char *from, long bytes, long passes) {
  vec sum = {0};
  const long part = bytes / 4 / 64 * 64;
  for (long pass = 0; pass < passes; ++pass) {
    for (long i = 0; i < part; i += 512) {
      for (int place = 0; place < 4; ++place) {
        const char *at = from + place * part + i;
        const long count = part - i < 512 ? part - i : 512;
        for (long k = 0; k < count; k += 64) {
          __builtin_prefetch(at + k + 2048, 0, 2);
          for (int b = 0; b < 64; b += BYTES) sum += *(const vec *)(at + k + b);
        }
      }
    }
  }
  return sum[0] + sum[1];
}
"""


class Memory:
    name = "reading"

    def __init__(self, path: str, threads: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "read.c", Path(folder) / "read.so"
            source.write_text(_READ, encoding="utf-8")
            subprocess.run(
                ["cc", "-O2", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)], check=True
            )
            self._read = ctypes.CDLL(str(library)).read_all
        with open(path, "rb") as file:
            # Private and writable for an address; nothing is written, and pages stay the file's.
            self._map = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        size = len(self._map) // threads // 64 * 64
        self._parts = [(base + index * size, size) for index in range(threads)]
        self._pool = ThreadPoolExecutor(threads)
        self._pass(1)

    def _pass(self, passes: int) -> float:
        def read(part: tuple[int, int]) -> None:
            self._read(ctypes.c_void_p(part[0]), ctypes.c_long(part[1]), ctypes.c_long(passes))

        start = time.perf_counter()
        list(self._pool.map(read, self._parts))
        return (time.perf_counter() - start) / passes

    def following(self, prompt: Sequence[int]) -> int:
        return -1

    def measure(self, prompt: Sequence[int], tokens: int) -> tuple[float, list[float]]:
        return 0.0, [self._pass(PASSES) for _ in range(tokens)]


def make(path: str, threads: int) -> Engine:
    return Memory(path, threads)


if __name__ == "__main__":
    serve(make)
