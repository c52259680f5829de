"""``python -m etir``: where the parts of the installation are, for build systems.

::

    cmake -S . -B build -Detir_DIR=$(python -m etir --cmake-dir)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import etir
from etir.diagnostics import EtirError


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser("python -m etir", description="Say where the parts of etir are.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--version", action="version", version=f"etir {etir.__version__}")
    what.add_argument("--cmake-dir", action="store_true", help="the folder of the CMake package: -Detir_DIR=...")
    parser.parse_args(argv)
    try:
        print(etir.runtime.cmake_dir())
    except EtirError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
