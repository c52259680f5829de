"""The zoo's figures as a table and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etir_testing.models.zoo_entry import Entry
from etir_testing.models.zoo_table import ENTRIES
from etir_testing.models.zoo_worker import Figures

Row = Mapping[str, Figures]
"""Figures by compiler."""

MIB = 1 << 20


def failure(entry: Entry, figures: Figures) -> str | None:
    """Why etir's part of an entry failed, None when it did not."""
    if figures.error is not None:
        return f"{figures.stage}: {figures.error}"
    found = {"etir's runtime": figures.own_difference, "the wheel's runtime": figures.wheel_difference}
    far = [
        f"{where} is {value:.1e} from eager"
        for where, value in found.items()
        if value is not None and not value <= entry.tolerance  # so that NaN is far
    ]
    return ", ".join(far) or None


def _pair(first: str, second: str) -> str:
    return f"{first} / {second}"


def _number(value: float | None, scale: float = 1.0, digits: int = 1) -> str:
    return "–" if value is None else f"{value / scale:,.{digits}f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value * 1000:,.{0 if value >= 0.1 else 1 if value >= 0.001 else 3}f}"


def _difference(value: float | None) -> str:
    return "–" if value is None else f"{value:.0e}"


COLUMNS = (
    "entry",
    "parameters",
    "compile, s",
    "arena, KiB (own)",
    "file, MiB",
    "peak, MiB",
    "run, ms",
    "from eager",
    "the stock pipeline",
)


def cells(name: str, row: Row) -> list[str]:
    """One line of the table; figures of etir before the stroke, of the stock pipeline after it."""
    entry, own = ENTRIES[name], row["etir"]
    stock = row.get("stock", Figures(name, "stock"))
    problem = failure(entry, own)
    if "stock" not in row:
        remark = "not run"
    elif stock.error is not None:
        remark = first_line(stock.error)
    elif (stock.wheel_difference or 0) > entry.tolerance:
        remark = f"differs from eager by {stock.wheel_difference:.0e}"
    else:
        remark = ""
    if problem is not None:
        remark = f"etir: {first_line(problem)}; {remark}"
    own_arena = _number(own.own_arena_bytes, 1024)
    return [
        name,
        f"{own.parameters:,}",
        _pair(_number(own.compile_seconds, digits=2), _number(stock.compile_seconds, digits=2)),
        _pair(f"{_number(own.arena_bytes, 1024)} ({own_arena})", _number(stock.arena_bytes, 1024)),
        _pair(_number(own.file_bytes, MIB, 2), _number(stock.file_bytes, MIB, 2)),
        _pair(_number(own.peak_bytes, MIB, 0), _number(stock.peak_bytes, MIB, 0)),
        _pair(_seconds(own.own_run_seconds), _seconds(stock.wheel_run_seconds)),
        f"{_difference(own.own_difference)}, {_difference(own.wheel_difference)}",
        remark,
    ]


def first_line(text: str) -> str:
    """The first line of an error, short and without what a table cannot hold."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = line.replace("|", "/")
    return line if len(line) <= 160 else f"{line[:157]}..."


def table(rows: Mapping[str, Row]) -> str:
    """The table as text."""
    return _markdown([list(COLUMNS), *(cells(name, row) for name, row in rows.items())])


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 2), "---"], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def document(rows: Mapping[str, Row]) -> str:
    """The table with what its columns mean, and the entries' sources."""
    matched = sum(failure(ENTRIES[name], row["etir"]) is None for name, row in rows.items())
    tried = [name for name, row in rows.items() if "stock" in row and not ENTRIES[name].shape_only]
    refused = [name for name in tried if rows[name]["stock"].error is not None]
    sources = [["entry", "source", "tolerance", "on every landing"]]
    for name in rows:
        entry = ENTRIES[name]
        sources.append([name, entry.source, f"{entry.tolerance:.0e}", "yes" if entry.small else ""])
    return _DOCUMENT.format(
        count=len(rows),
        matched=matched,
        planned=sum(ENTRIES[name].shape_only for name in rows),
        tried=len(tried),
        refused=len(refused),
        table=table(rows),
        sources=_markdown(sources),
    )


_DOCUMENT = """\
# The model zoo

Written by `python test/zoo.py --document docs/guide/zoo.md`.

{matched} of {count} models compile, and match eager on both runtimes; {planned} of them are compiled by shapes
only, up to the memory plan, and do not run. Of the {tried} models that it was given, the stock pipeline does not do
{refused}.

Weights are random from a seed, with norms, biases and statistics that are not trivial; the models come from the
packages or papers below.

```text
python test/zoo.py resnet18                     some entries, beside the stock pipeline
python test/zoo.py --small --no-stock --check   what runs on every landing
make zoo                                        everything, with this document as result
```

* *compile*: processor seconds of one cold compilation for the stock runtime, from an `ExportedProgram` in memory to the
  bytes of the file, without imports; etir / the stock pipeline with default options.
* *arena*: planned memory of etir's file for the stock runtime, in brackets of its file for its own runtime / of the
  stock pipeline's file.
* *file*: etir's file for the stock runtime / the stock pipeline's.
* *peak*: most resident memory of the compiling process above what it had with the `ExportedProgram` in memory and the
  compiler imported.
* *run*: median processor milliseconds of one run, one thread; etir's file on etir's runtime / the stock pipeline's
  file on the stock runtime with its portable kernels, which are not made for speed.
* *from eager*: largest difference over the largest magnitude of an output, of etir's file on etir's runtime and of
  etir's file on the stock runtime.
* *the stock pipeline*: the first line of its error where it does not do the model; *not run* where it was left out.

{table}

## Where the models come from

{sources}
"""
