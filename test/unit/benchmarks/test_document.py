"""What benchmarks write into pages: between their markers alone, and rows of a table in place of those of the same
first cell.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from document import put, put_rows

BEGIN, END = "<!-- begin: benchmarks/some.py -->", "<!-- end: benchmarks/some.py -->"
HEAD = "| task | a |\n| --- | --- |"


def _page(tmp_path: Path, table: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\n{table}\n{END}\nafter | not a row |\n")
    return page


def test_put(tmp_path: Path) -> None:
    page = _page(tmp_path, f"{HEAD}\n| x | 1 |")
    put(page, "some.py", "text")
    assert page.read_text() == f"before\n{BEGIN}\ntext\n{END}\nafter | not a row |\n"
    with pytest.raises(ValueError, match="has no lines"):
        put(page, "other.py", "text")


def test_rows(tmp_path: Path) -> None:
    """Of a task all rows are replaced, where they were; a new task comes last."""
    page = _page(tmp_path, f"{HEAD}\n| x | 1 |\n| x | 2 |\n| y | 3 |")
    put_rows(page, "some.py", f"{HEAD}\n| z | 6 |\n| x | 5 |")
    assert page.read_text() == f"before\n{BEGIN}\n{HEAD}\n| x | 5 |\n| y | 3 |\n| z | 6 |\n{END}\nafter | not a row |\n"
    with pytest.raises(ValueError, match="other columns"):
        put_rows(page, "some.py", "| task | b |\n| --- | --- |\n| x | 1 |")


def test_rows_of_an_empty_page(tmp_path: Path) -> None:
    page = _page(tmp_path, "")
    put_rows(page, "some.py", f"{HEAD}\n| x | 1 |")
    assert f"{BEGIN}\n{HEAD}\n| x | 1 |\n{END}" in page.read_text()
