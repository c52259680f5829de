"""Functions of vectors that generated code calls (``vec.h``), on all kinds of floats, with every compiler there is."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from etir.backends.native.cc import FLAGS, LINK, compiler
from etir.backends.native.cpu import Cpu, family_of_host, of_family
from etir.backends.native.print_c import header
from etir.backends.native.tune import is_host

CALLS = """
__attribute__((visibility("default")))
void called(const float* x, float* sine, float* cosine, float* root, long count) {
  for (long i = 0; i < count; i += ETIR_VW) {
    vstore(sine + i, vsin(vload(x + i)));
    vstore(cosine + i, vcos(vload(x + i)));
    vstore(root + i, vsqrt(vload(x + i)));
  }
}
"""
COMPILERS = [name for name in ("clang", "gcc") if shutil.which(name)] + ["zig"] * (find_spec("ziglang") is not None)


def floats() -> NDArray[np.float32]:
    """Of ordinary sizes, next to multiples of pi/2, any bits at all, and those that are no numbers."""
    draw = np.random.default_rng(0)
    near = np.arange(1, 4000) * (np.pi / 2)
    some = np.concatenate([draw.uniform(-10, 10, 4000), near, -near, draw.uniform(-20000, 20000, 4000), [0.0, -0.0]])
    bits = draw.integers(0, 2**32, 16 * 600 - len(some) % 16, dtype=np.uint32)
    return np.concatenate([some.astype(np.float32), bits.view(np.float32)])


@pytest.mark.parametrize("target", of_family(family_of_host()), ids=lambda target: target.name)
@pytest.mark.parametrize("using", COMPILERS)
def test_functions_of_all_floats(target: Cpu, using: str, tmp_path: Path) -> None:
    """Errors are of absolute size: sines are at most 1. Signs of zeros are kept, and what has no sine gives NaN."""
    source, path = tmp_path / "called.c", tmp_path / "called.so"
    source.write_text(f"#define ETIR_VW {target.vector}\n{header()}\n{CALLS}")
    subprocess.run([*compiler(using).for_cpu(target), *FLAGS, *LINK, str(source), "-o", str(path)], check=True)
    if not is_host(target):
        pytest.skip("this machine compiles it, and cannot run it")
    x = floats()
    found = [np.empty_like(x) for _ in range(3)]
    given = [ctypes.c_void_p(array.ctypes.data) for array in (x, *found)]
    ctypes.CDLL(str(path)).called(*given, ctypes.c_long(x.size))
    with np.errstate(invalid="ignore"):
        exact = [f(x.astype(np.float64)) for f in (np.sin, np.cos, np.sqrt)]
    for got, want in zip(found[:2], exact, strict=False):
        np.testing.assert_allclose(got, want, rtol=0, atol=1.3e-7)
    np.testing.assert_array_equal(found[2], exact[2].astype(np.float32))
    zeros = x == 0
    np.testing.assert_array_equal(np.signbit(found[0][zeros]), np.signbit(x[zeros]))
