"""What a benchmark wrote into a page of the documentation: the text between two comments that name the benchmark. A
benchmark that ran in part replaces its own rows of the table there.
"""

from __future__ import annotations

from pathlib import Path


def put(page: Path, script: str, text: str) -> None:
    """Replace what is between the markers of ``script`` in ``page``. Raises ValueError for a page that has none."""
    before, _, after = _parts(page, script)
    begin, end = _markers(script)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def put_rows(page: Path, script: str, text: str) -> None:
    """Replace rows of the Markdown table between the markers by those of the table ``text`` with the same first cell;
    new ones come after the others. Raises ValueError for a page without markers, and for a table of other columns.
    """
    _, there, _ = _parts(page, script)
    if not there.strip():
        return put(page, script, text)
    (*head, rows), (*new_head, new) = _table(there), _table(text)
    if head != new_head:
        raise ValueError(f"{page} has a table of other columns: {head[0]}")
    lines = [line for some in (rows | new).values() for line in some]
    return put(page, script, "\n".join([*head, *lines]))


def _table(text: str) -> tuple[str, str, dict[str, list[str]]]:
    """The two lines of a table's head, and its rows by their first cell."""
    first, second, *lines = text.strip().splitlines()
    rows: dict[str, list[str]] = {}
    for line in lines:
        rows.setdefault(_first_cell(line), []).append(line)
    return first, second, rows


def _first_cell(line: str) -> str:
    return line.split("|")[1].strip()


def _markers(script: str) -> tuple[str, str]:
    return f"<!-- begin: benchmarks/{script} -->", f"<!-- end: benchmarks/{script} -->"


def _parts(page: Path, script: str) -> tuple[str, str, str]:
    begin, end = _markers(script)
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    there, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines '{begin}' and '{end}'")
    return before, there, after
