"""What a benchmark wrote into a page of the documentation: the text between two comments that name the benchmark."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, script: str, text: str) -> None:
    """Replace what is between the markers of ``script`` in ``page``. Raises ValueError for a page that has none."""
    begin, end = f"<!-- begin: benchmarks/{script} -->", f"<!-- end: benchmarks/{script} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines '{begin}' and '{end}'")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
