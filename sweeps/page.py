"""The page of a sweep: one HTML file with the Pareto front of its rows, filters and a table, which needs no network.

It is made as the explorer's page is (:mod:`etir.devtools.page.document`): data, one script and one style sheet, and a
policy that forbids everything else. Colors are the explorer's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etir.devtools.page.document import FOLDER as EXPLORER
from etir.devtools.page.document import page_of
from etir.sweeps.model import Figure
from etir.sweeps.report import AXES, LARGER_IS_BETTER, changes, figure_names, is_time
from etir.sweeps.results import Row

FOLDER = Path(__file__).with_name("assets")


def sweep_page(rows: Sequence[Row], against: Sequence[Row] | None = None, title: str = "") -> str:
    """The page; ``against`` are the rows of another sweep. The same for the same rows."""
    names = [name for name in figure_names(rows) if name != "ran"]
    numbers = [name for name in names if any(isinstance(row.figures.get(name), int | float) for row in rows)]
    data: dict[str, Any] = {
        "title": title or (rows[0].sweep if rows else "sweep"),
        "axes": list(AXES),
        "figures": names,
        "numbers": numbers,
        "times": [name for name in numbers if is_time(name)],
        "larger": [name for name in LARGER_IS_BETTER if name in numbers],
        "compilers": list(dict.fromkeys(row.compiler for row in rows)),
        "rows": [_row(row, names) for row in rows],
        "changes": None,
    }
    if against is not None:
        data["changes"] = [
            {
                "name": change.name,
                "what": change.what,
                "before": _plain(change.before),
                "after": _plain(change.after),
                "better": change.better,
            }
            for change in changes(rows, against)
        ]
    style = (EXPLORER / "palette.css").read_text(encoding="utf-8") + _asset("sweep.css")
    return page_of(data, '"use strict";(() => {\n' + _asset("sweep.js") + "})();", style, _asset("sweep.html"))


def _row(row: Row, names: Sequence[str]) -> dict[str, Any]:
    return {
        "at": [getattr(row, axis) for axis in AXES],
        "status": row.status,
        "error": row.error,
        "message": row.message,
        "figures": [_plain(row.figures.get(name)) for name in names],
        "machine": row.machine(),
    }


def _plain(value: Figure) -> Figure:
    """JSON has no infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
