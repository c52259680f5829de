"""Builds that several steps of the gate use: the libraries of the tests, and the fuzzer with its sanitizers.

Needs CMake, Ninja and compilers, and neither etir nor torch: the gate runs it while pip installs those.

    python .ci/native_builds.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

from etir_testing.runtime.builds import build

BUILDS = {
    "release": ("etir_kernel_test", "etir_executor_test"),
    "fuzz": ("etir_fuzz", "etir_bundled_fuzz", "etir_executor_test"),
}
"""Targets by the preset; see etir_testing/runtime/kernels.py, test/fuzz.py and .ci/sanitizers, which ask for them."""

if __name__ == "__main__":
    for preset, targets in BUILDS.items():
        print(build(preset, *targets))
