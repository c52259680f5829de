"""Compile the models of the registry into a folder: one ``.pte`` each, and the text of every phase.

    python .ci/compile_models.py FOLDER

Part of the determinism check: run under several ``PYTHONHASHSEED``s, the folders must be the same. The model with
trained weights and the two large convolutional ones are left to the tests of whole models: what could depend on the
hash seed is the same in the others.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test"))

LARGE = ("minilm", "mobilenet_v2", "resnet18")


def main() -> None:
    """Compile all of them."""
    import etir

    from models.registry import MODELS

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    for name, case in MODELS.items():
        if name not in LARGE:
            program = etir.compile(case.export(), target="executorch", dump_dir=folder / name)
            program.save(folder / f"{name}.pte")


if __name__ == "__main__":
    main()
