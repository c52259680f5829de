"""The kernels for integers built for one of the variants of their inner loops, so that each is tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir_testing.runtime import builds
from etir_testing.runtime.kernels import Kernels, build_kernels, manifest

VARIANTS = {
    "portable": "",
    "avx2": "-march=x86-64-v3 -DETIR_INT8_VNNI=0",
    "vnni": "-march=x86-64-v3 -DETIR_INT8_AMX=0",
    "amx": "-march=x86-64-v3",
}
"""Flags of the compiler that make each variant of the inner loops."""

_FLAGS = {"avx2": "avx2", "vnni": "avx512_vnni", "amx": "amx_int8"}
_BESIDES = (
    "aten::erf.out",
    "aten::exp.out",
    "aten::gelu.out",
    "aten::log.out",
    "aten::mish.out",
    "aten::sigmoid.out",
    "aten::silu.out",
    "aten::tanh.out",
    "etir::int4_group_linear.out",
    "etir::int8_group_linear.out",
    "quantized_decomposed::quantize_per_tensor.out",
)


def integer_kernels(variant: str) -> Kernels:
    """The kernels of family ``integer``, those of float32 that read the same weights, and some on float32 numbers that
    have vectors of 512 bits (``kernels/util/wide.h``) in the same variants. Skips the test where the processor has no
    such instructions.
    """
    flags = VARIANTS[variant]
    if not flags:
        return build_kernels("integer")
    if _FLAGS[variant] not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"the processor has no {_FLAGS[variant]}")
    names = [name for name, row in manifest().items() if row["family"] == "integer"]
    defines = {"ETIR_ONLY_OPS": builds.selection([*names, *_BESIDES]), "ETIR_ISAS": "", "CMAKE_CXX_FLAGS": flags}
    folder = builds.build(builds.preset_of_tests(), "etir_kernel_test", defines=defines)
    (found,) = (folder / "runtime" / "testing").glob("libetir_kernel_test.*")
    return Kernels(found)
