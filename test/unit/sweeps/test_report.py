"""Reports: the table, CSV, the front, differences, and the page in headless Chromium."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from etir.sweeps import Cell, Results, Row
from etir.sweeps.jobs import Outcome
from etir.sweeps.page import sweep_page
from etir.sweeps.report import AXES, changes, csv_text
from etir.tools import et_sweep

from etir_testing import ROOT
from etir_testing.devtools.browser import Browser
from etir_testing.sweeps.processes import is_gone

EVIL = "</script><img src=x onerror=alert(1)>"

# delegates, recipe: latency in seconds, accuracy, bytes. By hand: of all six nothing beats (none, int8), which is the
# smallest, (xnnpack, int8), which is the quickest, and (none, float32), which is the most accurate.
POINTS = {
    ("none", "float32"): (0.004, 97.0, 4000),
    ("none", "int8"): (0.003, 95.0, 1000),
    ("none", "int4"): (0.005, 90.0, 1000),
    ("xnnpack", "float32"): (0.004, 96.5, 4100),
    ("xnnpack", "int8"): (0.001, 95.0, 1100),
    ("xnnpack", "int4"): (0.003, 90.0, 1200),
}
FRONT = {("none", "float32"), ("none", "int8"), ("xnnpack", "int8")}


def _row(delegates: str, recipe: str, **more: Any) -> Row:
    latency, accuracy, size = POINTS[delegates, recipe]
    figures = {"bytes": size, "accuracy": accuracy, "latency": latency, "ran": True}
    row = Row(
        "0", "tiny", "digits", "etir", delegates, recipe, "default", "ok", "", "", figures, 1.0, 1, "here", "a", "1", 1
    )  # type: ignore[arg-type]
    return replace(row, **more)


ROWS = [
    *(_row(*key) for key in POINTS),
    _row("none", "int8", program=EVIL, status="error", error="E1102", message="no backend\nmore", figures={}),
]


def test_changes() -> None:
    before = [_row(*key) for key in POINTS if key != ("none", "int4")]
    slower = dict(before[0].figures) | {"latency": 0.008, "bytes": 3900}
    elsewhere = dict(before[1].figures) | {"latency": 9.0, "accuracy": 94.0}
    after = [
        replace(before[0], figures=slower),
        replace(before[1], figures=elsewhere, host="there"),
        replace(before[2], status="wrong"),
        *before[4:],
        _row("none", "int4"),
    ]
    found = [(c.name.split("/")[2:4], c.what, c.better) for c in changes(after, before)]
    assert found == [
        (["none", "float32"], "latency", False),
        (["none", "int8"], "accuracy", False),  # its latency is another machine's
        (["xnnpack", "float32"], "status", False),
        (["none", "int4"], "status", None),  # new
        (["xnnpack", "int8"], "status", None),  # gone
        (["none", "float32"], "bytes", True),
    ]
    assert changes(before, before) == []


def test_compilations_are_compared_on_the_machine_that_compiled() -> None:
    """A cell of a cluster that was compiled on one node and timed on another."""
    here = _row("none", "int8")
    before = replace(here, figures={**here.figures, "compile_seconds": 1.0})
    after = replace(before, figures={**before.figures, "compile_seconds": 9.0, "compiled_on": "there, a"})
    assert [c.what for c in changes([after], [before])] == []
    assert [
        c.what for c in changes([replace(after, host="new")], [replace(after, figures=before.figures, host="there")])
    ] == ["compile_seconds"]


def test_what_is_no_number_and_the_user_s_own_seconds() -> None:
    here = _row("none", "int8")
    good, bad = ({**here.figures, "accuracy": value, "load_seconds": 1.0} for value in (90.0, float("nan")))
    one, other = replace(here, figures=good), replace(here, figures=bad)
    assert [(c.what, c.better) for c in changes([other], [one])] == [("accuracy", False)]
    assert [(c.what, c.better) for c in changes([one], [other])] == [("accuracy", True)]
    assert changes([other], [other]) == []
    slow = replace(here, figures={**good, "load_seconds": 5.0})
    assert [(c.what, c.better) for c in changes([slow], [one])] == [("load_seconds", False)]
    assert changes([replace(slow, host="there")], [one]) == []


def test_csv_of_names_and_messages_of_any_kind() -> None:
    names = ['a,b "c"', "größe; 模型", "=1+1", "<script>"]
    message = "first\r\nsecond\rthird\n, and\u2028more"
    text = csv_text([replace(_row("none", "int8"), program=name, message=message) for name in names])
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["program"] for row in found] == names
    assert {row["message"] for row in found} == {"first\nsecond\nthird\n, and\u2028more"}
    assert csv_text([]).count("\n") == 1


def test_names_with_slashes_are_not_mixed_up() -> None:
    one = _row("none", "int8", program="a/b", target="c")
    assert [c.what for c in changes([replace(one, program="a", target="b/c")], [one])] == ["status", "status"]


# --- the command ------------------------------------------------------------------------------------------------------


def _write(path: Path, rows: list[Row], factor: float = 1.0) -> None:
    with Results(path) as results:
        for i, row in enumerate(rows):
            cell = Cell(row.program, row.target, row.delegates, row.recipe, row.options)
            figures = {**row.figures, **({"bytes": int(row.figures["bytes"] * factor)} if row.figures else {})}  # type: ignore[operator]
            outcome = Outcome(row.status, figures, row.error, row.message, 1.0, row.host, row.processor)
            results.add("tiny", f"{i}", cell, outcome, 1, "1")


def test_the_command_s_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, old = tmp_path / "new.sqlite", tmp_path / "old.sqlite"
    _write(new, ROWS)
    _write(old, ROWS, 2.0)
    assert et_sweep.main(["report", str(new), "--only", "digits/*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["delegates", "recipe", "status", "bytes", "accuracy", "latency"]
    assert lines[1].split() == ["none", "float32", "ok", "4,000", "97", "4.000", "ms"] and len(lines) == 7
    assert et_sweep.main(["report", str(new), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["latency"] for row in rows if row["delegates"] == "xnnpack"] == ["0.004", "0.003", "0.001"]
    assert {row["error"] for row in rows} == {"", "E1102"}
    assert et_sweep.main(["report", str(new), "--against", str(old)]) == 0
    text = capsys.readouterr().out
    assert "better  digits/etir/none/float32/default  bytes: 8,000 -> 4,000 (-50.0 %)" in text
    assert text.endswith("7 cells against 7: 0 worse, 6 better, 6 changes\n")
    assert et_sweep.main(["report", str(new), "--against", str(old), "--format", "csv"]) == 1
    assert "E0901" in capsys.readouterr().err
    assert et_sweep.main(["report", str(new), "-o", str(tmp_path / "p.html"), "--title", "mine"]) == 0
    assert "<title>mine</title>" in (tmp_path / "p.html").read_text()
    assert et_sweep.main(["report", str(tmp_path / "none.sqlite")]) == 1
    assert "E1905" in capsys.readouterr().err


def test_the_command_runs_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'function = "etir_testing.sweeps.cells:figures"\n[[programs]]\nname = "a"\n'
        '[[programs]]\nname = "b"\narguments = { kind = "raise" }\n'
    )
    results = str(tmp_path / "r.sqlite")
    assert et_sweep.main([str(plan), "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{p}/executorch/none/float32/default" for p in "ab"]
    assert et_sweep.main([str(plan), "-o", results, "--jobs", "1", "--check", "--store", str(tmp_path / "store")]) == 1
    told = capsys.readouterr()
    assert told.out == "2 cells: 0 read, 2 run (1 error, 1 ok)\n"
    assert "b/executorch/none/float32/default: error, error[E1912]" in told.err
    arguments = [str(plan), "--output", results, "--quiet", "--jobs", "0"]
    assert et_sweep.main([*arguments, "--only", "a/*", "--check"]) == 0
    assert capsys.readouterr() == ("1 cells: 1 read, 0 run\n", "")
    assert et_sweep.main([*arguments, "--retry"]) == 0
    assert capsys.readouterr().out == "2 cells: 1 read, 1 run (1 error)\n"
    assert et_sweep.main([*arguments, "--shared-store"]) == 1
    assert "E0901" in capsys.readouterr().err
    assert et_sweep.main([str(plan), "-o", results, "--retry", "--ray", "127.0.0.1:1"]) == 1
    assert "E1907" in capsys.readouterr().err


def test_a_sweep_that_is_stopped_by_ctrl_c(tmp_path: Path) -> None:
    """The command ends at once with its workers; the same one goes on where it was."""
    plan, log = tmp_path / "plan.toml", tmp_path / "log"
    names = json.dumps([f"p{i}" for i in range(6)])
    plan.write_text(
        f'function = "etir_testing.sweeps.cells:noted"\n[[programs]]\neach = {names}\n'
        f"arguments = {{ seconds = 0.3, log = {json.dumps(str(log))} }}\n"
    )
    command = [sys.executable, "-m", "etir.tools.et_sweep", str(plan), "-o", str(tmp_path / "r.sqlite"), "--jobs", "1"]
    options: dict[str, Any] = {"text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT / "test")}}
    # A shell's job in the background has SIGINT ignored, and so has what it starts.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heed, **options) as running:
        assert running.stderr is not None and running.stderr.readline().startswith("p0/")
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130 and said.endswith("goes on with the others\n") and "Traceback" not in said
    worker = int(log.read_text().split()[2])
    assert is_gone(worker)
    done = subprocess.run(command, capture_output=True, check=True, **options).stdout
    assert done.startswith("6 cells: ") and done.endswith(" ok)\n") and not done.startswith("6 cells: 0 read")


def test_the_rows_of_a_plan_that_was_changed_and_changed_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last row of a cell is of the plan between; the report of a plan, and --check, look at its own."""
    plan, results = tmp_path / "plan.toml", str(tmp_path / "r.sqlite")
    text = 'function = "etir_testing.sweeps.cells:figures"\n[[programs]]\nname = "a"\n'
    for changed in ("", 'arguments = { kind = "raise" }\n', ""):
        plan.write_text(text + changed)
        assert et_sweep.main([str(plan), "-o", results, "--jobs", "0", "--quiet", "--check"]) == bool(changed)
    assert capsys.readouterr().out.endswith("1 cells: 1 read, 0 run\n")
    assert et_sweep.main(["report", results, "--format", "csv"]) == 0
    assert "no such thing" in capsys.readouterr().out
    assert et_sweep.main(["report", results, "--format", "csv", "--plan", str(plan)]) == 0
    assert "no such thing" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["report"]])
def test_common_options(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for option, said in (("--help", "usage: et-sweep"), ("--version", "et-sweep")):
        with pytest.raises(SystemExit) as ended:
            et_sweep.main([*words, option])
        assert ended.value.code == 0 and said in capsys.readouterr().out
    assert et_sweep.main([*words, "none.toml", "--debug", "--color", "never"]) == 1
    assert "\x1b" not in capsys.readouterr().err


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("page")
    against = [replace(row, figures={**row.figures, "bytes": 999}) if row.figures else row for row in ROWS]
    (folder / "p.html").write_text(sweep_page(ROWS, against, EVIL))
    with Browser(1300, 900) as running:
        running.open(folder / "p.html")
        yield running
        assert running.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in running.requests)


def test_the_page_shows_the_front(browser: Browser) -> None:
    assert browser.evaluate("document.title") == EVIL
    best = browser.evaluate("[...document.querySelectorAll('.point.best')].map(e => e.getAttribute('aria-label'))")
    assert sorted(best) == sorted(f"digits, etir, {d}, {r}, default" for d, r in FRONT)
    assert browser.evaluate("document.querySelectorAll('#table tbody tr:not(.why)').length") == len(ROWS)
    assert "3 on the front · 1 not ok" in browser.evaluate("document.getElementById('facts').textContent")
    # Points are where their figures say: the quickest is the leftmost, the most accurate the highest.
    x = "document.querySelector('[aria-label=\"digits, etir, %s, %s, default\"]').%s.baseVal.value"
    at = {key: [browser.evaluate(x % (*key, c)) for c in ("cx", "cy")] for key in POINTS}
    assert min(at, key=lambda key: at[key][0]) == ("xnnpack", "int8")
    assert min(at, key=lambda key: at[key][1]) == ("none", "float32")
    assert browser.evaluate("document.querySelectorAll('#changes tbody tr').length") == 6


def test_the_front_is_what_nothing_beats(browser: Browser) -> None:
    """Points of few different figures, so that many are equal in some of them: against all pairs."""

    def beats(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and a != b

    random = Random(1)
    groups = [[(*(random.randrange(5) for _ in range(3)),) for _ in range(random.randrange(30))] for _ in range(200)]
    # The page's figures are bytes, accuracy (of which more is better) and latency.
    given = [[{"at": ["p"], "status": "ok", "machine": "", "figures": [a, -b, c]} for a, b, c in g] for g in groups]
    names = '["bytes", "accuracy", "latency"]'
    best = f"{json.dumps(given)}.map(g => {{ const b = etir.best(g, {names}); return g.map(r => b.has(r)); }})"
    wanted = [[not any(beats(q, p) for q in points) for p in points] for points in groups]
    assert browser.evaluate("etir.data.figures.join()") == "bytes,accuracy,latency"
    assert browser.evaluate(best) == wanted


def test_the_page_filters_and_sorts(browser: Browser) -> None:
    box = "[...document.querySelectorAll('.choice')].find(e => e.textContent === 'xnnpack').click()"
    browser.evaluate(box)
    assert browser.evaluate("document.querySelectorAll('.point').length") == 3
    assert browser.evaluate("document.querySelectorAll('#table tbody tr:not(.why)').length") == 4
    browser.evaluate(box)
    head = "[...document.querySelectorAll('th button')].find(e => e.textContent.startsWith('latency')).click()"
    browser.evaluate(head)
    first = "document.querySelector('#table tbody tr').textContent"
    assert "xnnpack" in browser.evaluate(first) and "1.00 ms" in browser.evaluate(first)
    browser.evaluate(head)
    assert "5.00 ms" in browser.evaluate(first)
    browser.evaluate("const s = document.getElementById('x'); s.value = 'bytes'; s.dispatchEvent(new Event('change'))")
    assert browser.evaluate("document.querySelectorAll('.point.best').length") == 2


def test_the_page_by_keyboard_and_pointer(browser: Browser) -> None:
    browser.evaluate(
        "const y = document.getElementById('x'); y.value = 'latency'; y.dispatchEvent(new Event('change'))"
    )
    browser.evaluate("document.getElementById('plot').focus()")
    tip = "document.getElementById('tip').hidden ? '' : document.querySelector('#tip b').textContent"
    browser.key("ArrowRight")
    assert browser.evaluate(tip) == "digits / etir / xnnpack / int8 / default"
    browser.key("End")
    assert browser.evaluate(tip) == "digits / etir / none / int4 / default"
    browser.key("Escape")
    assert browser.evaluate(tip) == ""
    place = browser.evaluate(
        "(() => { const b = document.querySelector('.point.best').getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(*place)
    assert browser.evaluate(tip) != ""
    browser.move(5, 5)
    assert browser.evaluate(tip) == ""
    before = browser.evaluate("document.documentElement.dataset.theme")
    browser.key("t")
    assert {before, browser.evaluate("document.documentElement.dataset.theme")} == {"light", "dark"}
    browser.size(390, 800)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.size(1300, 900)


def test_names_that_would_be_markup(tmp_path: Path) -> None:
    """Every text that a row has is shown as it is: names, messages, figures, hosts, those of the other sweep."""
    evil = [f"{EVIL}{i}" for i in range(9)] + [
        "\"' onload='alert(1)' `${alert(1)}` <!-- ]]> <style>*{display:none}</style>"
    ]
    *at, error, figure, value, host, quoted = evil
    row = replace(_row("none", "int8"), **dict(zip(AXES, at, strict=True)), error=error, host=host, processor=quoted)  # type: ignore[arg-type]
    rows = [
        replace(row, message=f"{quoted}\n{value}{'x' * 300}", figures={figure: value, quoted: 2.0, "__proto__": 1.0}),
        replace(row, program="plain", figures={**row.figures, quoted: 3.0, "__proto__": 2.0}),
    ]
    before = [replace(rows[0], status="wrong", figures={figure: quoted, quoted: 1.0}), replace(row, program=quoted)]
    (tmp_path / "p.html").write_text(sweep_page(rows, before, quoted))
    with Browser(1300, 900) as browser:
        browser.open(tmp_path / "p.html")
        for key in ("Home", "End"):
            browser.evaluate("document.getElementById('plot').focus()")
            browser.key(key)
            seen = browser.evaluate("document.documentElement.innerText + document.getElementById('tip').textContent")
            assert all(text in seen for text in (*at[1:], host, quoted))
        seen = browser.evaluate("document.body.textContent")
        assert all(text in seen for text in evil) and "x" * 300 in seen
        markup = (
            "document.querySelectorAll('img, iframe, [onload], [onerror], script:not(#data, :last-of-type)').length"
        )
        assert browser.evaluate(markup) == 0 and browser.evaluate("document.querySelectorAll('style').length") == 1
        assert browser.complaints == [] and all(url.startswith("file:") for url in browser.requests)


# --- pages of other kinds ---------------------------------------------------------------------------------------------


def test_rows_that_have_no_figures_or_no_numbers(tmp_path: Path) -> None:
    """Nothing at all, one row, rows that failed, and figures that are no numbers: sorted after those that are."""
    odd = [
        _row("none", "float32", figures={"bytes": 10, "latency": float("inf"), "accuracy": 1.0}),
        _row("none", "int8", figures={"bytes": 20, "latency": float("nan"), "accuracy": 2.0}),
        _row("none", "int4", figures={"bytes": 30, "latency": 0.002, "accuracy": 3.0}),
        _row("xnnpack", "int4", figures={"bytes": 40, "latency": 0.001, "accuracy": 4.0}),
        _row("xnnpack", "int8", status="crash", error="E1908", message="gone", figures={}),
    ]
    plot = "document.getElementById('plot').textContent"
    points = "document.querySelectorAll('.point').length"
    with Browser(1300, 900) as browser:
        for name, rows in (("none", []), ("one", odd[2:3]), ("failed", odd[4:]), ("odd", odd)):
            (tmp_path / f"{name}.html").write_text(sweep_page(rows))
            browser.open(tmp_path / f"{name}.html")
            assert browser.complaints == []
            assert browser.evaluate("document.querySelectorAll('#table tbody tr:not(.why)').length") == len(rows)
            assert browser.evaluate(points) == {"one": 1, "odd": 2}.get(name, 0)
            wanted = {"none": "there are no rows", "failed": "no cell has these figures"}.get(name)
            assert wanted is None or browser.evaluate(plot) == wanted
        assert "3 without these figures" in browser.evaluate("document.getElementById('facts').textContent")
        head = "[...document.querySelectorAll('th button')].find(e => e.textContent.startsWith('latency')).click()"
        column = "[...document.querySelectorAll('th')].findIndex(e => e.textContent.startsWith('latency'))"
        cells = f"[...document.querySelectorAll('#table tbody tr:not(.why)')].map(e => e.cells[{column}].textContent)"
        browser.evaluate(head)
        assert browser.evaluate(cells) == ["1.00 ms", "2.00 ms", "inf", "nan", ""]
        browser.evaluate(head)
        assert browser.evaluate(cells) == ["nan", "inf", "2.00 ms", "1.00 ms", ""]


def test_ten_thousand_rows(tmp_path: Path) -> None:
    """As many lines of the table as are looked at; kinds beyond the colors have other shapes; words find cells."""
    rows = [
        replace(
            _row("none", "int8"),
            program=f"p{i // 20}",
            recipe=f"r{i % 20}",
            figures={"bytes": 100 + i, "accuracy": i * 7919 % 10_007, "latency": 1 + i * 31 % 977},
        )
        for i in range(10_000)
    ]
    (tmp_path / "p.html").write_text(sweep_page(rows))
    lines = "document.querySelectorAll('#table tbody tr:not(.why)').length"
    with Browser(1300, 900) as browser:
        browser.open(tmp_path / "p.html")
        assert browser.complaints == []
        assert browser.evaluate(lines) == 200
        assert browser.evaluate("document.getElementById('more').textContent") == "9800 more rows"
        browser.evaluate("document.getElementById('more').click()")
        assert browser.evaluate(lines) == 400
        browser.evaluate("etir.scrollTo(etir.rows[1234])")
        assert browser.evaluate("document.querySelector('#table tr.now').textContent").startswith("p61")
        kinds = "[...document.querySelectorAll('#legend .swatch')].map(e => e.className + e.style.background)"
        found = browser.evaluate(kinds)
        assert len(found) == len(set(found)) == 20
        assert browser.evaluate("document.querySelectorAll('polygon.point').length") == 6000
        find = "(f => { f.value = '%s'; f.dispatchEvent(new Event('input')); })(document.getElementById('find'))"
        browser.evaluate(find % "P77 r1")
        assert browser.evaluate(lines) == 11 and browser.evaluate("document.getElementById('more').hidden")
        browser.evaluate(find % "p499 nothing")
        assert browser.evaluate(lines) == 0
