"""Compile the models of the registry into a folder: one ``.pte`` each, and the text of every phase.

    python .ci/compile_models.py FOLDER

Part of the determinism check: run under several ``PYTHONHASHSEED``s, the folders must be the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test"))


def main() -> None:
    """Compile all of them."""
    import etir

    from etir_testing.exports import exported
    from etir_testing.models.registry import MODELS

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    for name, case in MODELS.items():
        program = etir.compile(exported(case), target="executorch", dump_dir=folder / name)
        program.save(folder / f"{name}.pte")


if __name__ == "__main__":
    main()
