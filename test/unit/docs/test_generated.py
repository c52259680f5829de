"""The generated pages are those that the generator writes now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etir.tools import docs

from etir_testing.docs.examples import ROOT

GENERATED = ROOT / "docs" / "generated"


@pytest.mark.parametrize("name", docs.PAGES)
def test_page_is_up_to_date(name: str) -> None:
    expected = docs.HEADER + docs.PAGES[name]()
    assert (GENERATED / name).read_text(encoding="utf-8") == expected, "run `make docs`"


def test_no_other_pages() -> None:
    assert sorted(path.name for path in GENERATED.iterdir()) == sorted(docs.PAGES)


def test_check_fails_for_a_changed_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in docs.PAGES:
        (tmp_path / name).write_text((GENERATED / name).read_text(encoding="utf-8"), encoding="utf-8")
    page = tmp_path / "errors.md"
    page.write_text(page.read_text(encoding="utf-8").replace("# Errors", "# Faults"), encoding="utf-8")
    assert docs.main([str(tmp_path), "--check"]) == 1
    assert "errors.md is out of date" in capsys.readouterr().out


def test_every_id_is_in_the_table_of_its_area() -> None:
    """An id outside of the known areas would be left out of the page."""
    from etir.diagnostics import REGISTRY

    docs.import_error_modules()
    text = (GENERATED / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r'id="(E\d{4})"', text) == sorted(REGISTRY)
