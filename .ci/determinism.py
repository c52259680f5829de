"""The same program must give the same bytes under any hash seed: texts of phases, ``.pte`` files, traces and pages.

    python .ci/determinism.py            import two small models, compile all of the registry from text
    python .ci/determinism.py --whole    export, import and compile all of them, in one process for each seed

What a seed can change is found by comparing processes that differ in ``PYTHONHASHSEED`` alone. Exporting and importing
take most of the time, and do for a large model what they do for a small one. So all models are imported once, under
the first seed, and compiled from that text, with their weights, under every seed.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (0, 1, 4242)
SMALL = ("llama_block", "dynamic_encoder")
"""Models that are imported under every seed: between them they have state, attention, a mask and symbolic sizes."""


def main() -> int:
    """Make the files under every seed, and compare them; 0 when they are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="import all models under every seed, and compile those")
    whole: bool = parser.parse_args().whole
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        imported, compiled = folder / "imported", folder / "compiled"
        for seed in SEEDS:
            if whole:
                run_under(seed, "whole", compiled / str(seed))
                continue
            run_under(seed, "import", imported / str(seed), *(() if seed == SEEDS[0] else SMALL))
            run_under(seed, "compile", compiled / str(seed), imported / str(SEEDS[0]))
        compared = [different_files(compiled), *([] if whole else [different_files(imported, of_last=True)])]
    for line in (line for _, lines in compared for line in lines):
        print(line)
    if any(lines for _, lines in compared):
        return 1
    print(f"{sum(count for count, _ in compared)} files are the same under {len(SEEDS)} hash seeds")
    return 0


def run_under(seed: int, *command: str | Path) -> None:
    """Run the other half of the check in a process with a hash seed."""
    other_half = Path(__file__).with_name("compile_models.py")
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    subprocess.run([sys.executable, other_half, *command], env=environment, check=True)


def different_files(folder: Path, *, of_last: bool = False) -> tuple[int, list[str]]:
    """How many files were compared, and a line for each that differs between seeds or that one of them lacks.

    ``of_last`` compares the files that the last seed has, not all that any has.
    """
    folders = [folder / str(seed) for seed in SEEDS]
    files = [{str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} for root in folders]
    names = sorted(files[-1] if of_last else set().union(*files))
    assert names, f"there is nothing to compare in {folder}"
    found: list[str] = []
    for name in names:
        missing = [root for root, has in zip(folders, files, strict=True) if name not in has]
        if missing:
            found.append(f"{name}: not made under seed {', '.join(root.name for root in missing)}")
            continue
        first, *others = (root / name for root in folders)
        seeds = [
            root.name for root, path in zip(folders[1:], others, strict=True) if not filecmp.cmp(first, path, False)
        ]
        if seeds:
            found.append(f"{name}: seed {', '.join(seeds)} gives other bytes than seed {SEEDS[0]}")
    return len(names), found


if __name__ == "__main__":
    sys.exit(main())
