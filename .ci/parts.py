"""The tests in Python, in parts that run as steps of their own, two at a time.

pytest-xdist has every worker import and collect all files, and sends each result through another process: for 15,000
tests that is two minutes of the processor. A part collects what it runs, and prints its own slowest tests. Each has a
few minutes; what files have in common (torch's samples, transformers, the stock runtime) is imported once in a part.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PARTS: dict[str, tuple[str, ...]] = {
    "stock runtime": ("interop",),
    "quantization": ("interop/test_quant*.py", "interop/test_torchao*.py", "interop/test_xnnpack*.py"),
    "native runtime": ("runtime",),
    "models": ("models", "generated", "opinfo", "unit/llm", "unit/sweeps"),
    "tools": ("install", "unit/benchmarks", "unit/ci", "unit/docs", "unit/etir", "unit/meta", "unit/tools"),
    "developer tools": ("unit/devtools", "unit/native"),
    "compiler": (),
}
"""Files and folders of ``test/`` by the part; a file is its who names it most closely, and the last one's else."""


def collected() -> list[Path]:
    """All files of tests that ``pytest`` collects, sorted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders: list[str] = project["tool"]["pytest"]["ini_options"]["testpaths"]
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("test_*.py"))


def files_of(part: str) -> list[str]:
    """The files of a part, relative to the checkout."""
    return [str(path.relative_to(ROOT)) for path in collected() if _part_of(path) == part]


def _part_of(path: Path) -> str:
    """The part with the longest name that matches."""
    matches = {pattern: part for part in PARTS for pattern in _matching(part, path)}
    return matches[max(matches, key=len)] if matches else list(PARTS)[-1]


def _matching(part: str, path: Path) -> Iterator[str]:
    inside = path.relative_to(ROOT / "test")
    for pattern in PARTS[part]:
        if inside.match(pattern) or any(str(folder) == pattern for folder in inside.parents):
            yield pattern
