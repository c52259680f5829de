"""Makes the explorer page of a file: a trace, a program file or an ETRecord, with what was seen of its runs.

etir.devtools.explore("m.trace", "m.html", profile="run.etdp")
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etir.devtools.errors import E1420
from etir.devtools.inspector import Inspector
from etir.devtools.page.compared import Compared, Comparison, compared
from etir.devtools.page.data import Collector, sizes_of
from etir.devtools.page.document import html_of
from etir.devtools.page.sources import default_roots
from etir.devtools.page.values import value_rows
from etir.devtools.profile.attribution import Program
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.profile.profile import Profile
from etir.devtools.trace.open import open_trace
from etir.devtools.trace.read import Trace
from etir.diagnostics import SourceLocation
from etir.dialects.et.weights import write_atomically

Source = str | Path
Several = Source | Profile | Sequence[Source | Profile] | None


def explore(
    trace: Source | Trace,
    path: Source | None = None,
    *,
    record: Source | None = None,
    profile: Several = None,
    values: Source | None = None,
    compare: Source | Comparison | None = None,
    sources: Sequence[Source] | None = None,
    title: str = "",
) -> str:
    """The page of a program as text, written to ``path`` if that is given.

    Args:
        trace: a trace, or a ``.pte`` file that anybody wrote, which has the executable level only.
        record: the ETRecord of a ``.pte`` file of the stock pipeline: its edge program becomes a level.
        profile: ETDump files (or profiles that were read), one for each method that ran.
        values: the file of values that was written together with the first profile.
        compare: what ``et-compare -o`` wrote, or what ``etir.devtools.compare`` gives.
        sources: folders in which the source files are looked for (default: the working directory, and the folders of
            installed packages); an empty list keeps all texts of sources out of the page.
        title: what the page is called (default: the file's name).

    Raises error E1420 for another file, E1421 and E1422 for compare results and values that do not fit, E1423 for a
    program too large for a page, and what reading a trace, a program and a profile does.
    """
    if not isinstance(trace, Trace):
        trace = open_trace(Path(trace).read_bytes(), str(trace), record)
    roots = default_roots() if sources is None else [Path(folder) for folder in sources]
    inspectors = inspectors_of(trace, profile)
    rows: dict[str, list[list[Any]]] = {}
    if values is not None:
        if not inspectors:
            raise E1420.error("values need the profile that was written with them", SourceLocation(str(values)))
        first = inspectors[0]
        buffer = _mapped(Path(values))
        rows[first.program.method_of(first.profile)] = value_rows(first.profile, buffer, str(values))
    differences = Compared() if compare is None else compared(compare, trace)
    data = Collector(trace, roots).page(inspectors, rows, differences, title)
    data["sizes"] = sizes_of(data)
    page = html_of(data)
    if path is not None:
        write_atomically(Path(path), [page.encode("utf-8")])
    return page


def _mapped(path: Path) -> bytes | mmap.mmap:
    """The bytes of a file, which may be more than there is memory."""
    if not path.stat().st_size:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def inspectors_of(trace: Trace, profile: Several) -> list[Inspector]:
    """Profiles with what a trace says of their program. Raises what reading a profile does, E1404 for another one."""
    given = [] if profile is None else [profile] if isinstance(profile, (str, Path, Profile)) else list(profile)
    found: list[Inspector] = []
    for one in given:
        read = one if isinstance(one, Profile) else read_profile(Path(one).read_bytes(), name=str(one))
        found.append(Inspector.of(read, Program(trace)))
    return found
