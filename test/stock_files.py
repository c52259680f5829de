"""Run what the stock pipeline writes on etir's runtime: every entry of the zoo, in every form that people publish.

    python test/stock_files.py                          every entry and form: a table
    python test/stock_files.py resnet18 --form int8     some
    python test/stock_files.py --small --check          the small models; exit code 1 unless all agree

A file is written by ExecuTorch's own pipeline, runs on ExecuTorch's runtime and on etir's, becomes text and a file
again, and runs once more. What the stock pipeline or runtime cannot do is said and is no failure. Each entry has a
process of its own, which does its forms one after the other; where it ends early, the form that it was at has failed
and the others go on in a new one. ``--results`` keeps what was found in a file of JSON lines, from which a run that was
interrupted goes on, ``--files`` the files that the stock pipeline wrote.
"""

from __future__ import annotations

import argparse
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from etir_testing.interop.stock_forms import FORM_NAMES, Found, examine
from etir_testing.models.zoo_table import ENTRIES


def _lines(process: subprocess.Popen[str], limit: float) -> Iterator[str]:
    """Lines of a process, each within ``limit`` seconds of the one before."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(limit):
            line = process.stdout.readline()
            if not line:
                return
            if line.startswith("{"):
                yield line
    process.kill()
    raise TimeoutError


def run(name: str, forms: Sequence[str], limit: float, files: Path | None) -> Iterator[Found]:
    """What is found out about each form of an entry."""
    left = list(forms)
    while left:
        command = [sys.executable, __file__, name, "--here", *(part for form in left for part in ("--form", form))]
        if files is not None:
            command += ["--files", str(files)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        problem = ""
        try:
            for line in _lines(process, limit):
                found = Found(**json.loads(line))
                left.remove(found.form)
                yield found
        except TimeoutError:
            problem = f"no end after {limit:.0f} s"
        code = process.wait()
        if left and (problem or code):
            yield Found(name, left.pop(0), "process", problem or f"it ended with exit code {code}")


def table(rows: Sequence[Found]) -> str:
    """Rows of entries, columns of forms: the largest difference from the stock runtime, or what was in the way."""
    by_name: dict[str, dict[str, str]] = {}
    for row in rows:
        by_name.setdefault(row.name, {})[row.form] = row.shown()
    lines = [["entry", *FORM_NAMES]]
    lines += [[name, *(cells.get(form, "") for form in FORM_NAMES)] for name, cells in by_name.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _known(results: Path | None) -> dict[tuple[str, str], Found]:
    if results is None or not results.exists():
        return {}
    rows = [Found(**json.loads(line)) for line in results.read_text().splitlines()]
    return {(row.name, row.form): row for row in rows if not row.failed()}


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="entries of the zoo (default: all)")
    parser.add_argument("--form", action="append", choices=FORM_NAMES, help="only this form; may be given repeatedly")
    parser.add_argument("--small", action="store_true", help="the small entries")
    parser.add_argument("--limit", type=float, default=900, help="seconds that one form may take (default 900)")
    parser.add_argument("--results", type=Path, help="keep what is found here; what is there already is not run again")
    parser.add_argument("--files", type=Path, help="keep the stock pipeline's files in this folder, and take them")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every file agrees")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if unknown := [name for name in options.entries if name not in ENTRIES]:
        parser.error(f"unknown entry {unknown[0]!r}; known: {', '.join(ENTRIES)}")
    forms = options.form or list(FORM_NAMES)
    if options.here:
        for name in options.entries:
            for found in examine(ENTRIES[name], forms, options.files):
                print(json.dumps(asdict(found)), flush=True)
        return 0
    chosen = options.entries or [name for name, entry in ENTRIES.items() if entry.small or not options.small]
    for name in [name for name in chosen if ENTRIES[name].missing() or ENTRIES[name].shape_only]:
        print(f"{name}: left out, {'weights without bytes' if ENTRIES[name].shape_only else 'a package is missing'}")
        chosen.remove(name)
    start = time.monotonic()
    rows: list[Found] = []
    known = _known(options.results)
    for name in chosen:
        rows += [known[name, form] for form in forms if (name, form) in known]
        for found in run(name, [form for form in forms if (name, form) not in known], options.limit, options.files):
            rows.append(found)
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
            print(f"{name} {found.form}: {found.sentence()}", file=sys.stderr, flush=True)
    print(table(rows))
    failed = [row for row in rows if row.failed()]
    ran = [row for row in rows if row.stage == "done"]
    print(
        f"{len(ran) - sum(row.stage == 'done' for row in failed)} of {len(ran)} files agree, "
        f"{len(rows) - len(ran) - sum(row.stage != 'done' for row in failed)} are not written or not run by the "
        f"stock pipeline, {len(failed)} failed; {time.monotonic() - start:.0f} s",
        file=sys.stderr,
    )
    return int(options.check and bool(failed))


if __name__ == "__main__":
    sys.exit(main())
