"""The tool that measures the tests (``test/mutants.py``): which mutants it makes, and that tests see them."""

from __future__ import annotations

import importlib
import importlib.machinery
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from etir_testing.mutants import cpp_mutants, document, python_mutants, survivors
from etir_testing.mutants.applying import LoadedFunctions, import_mutated
from etir_testing.mutants.measuring import Measured
from etir_testing.mutants.mutant import Mutant
from etir_testing.mutants.python_mutants import sample_of
from etir_testing.mutants.suites import ForkedTests, Lost, in_fork, pytest_in_process


def _changes(mutants: list[Mutant], source: str) -> set[tuple[str, str]]:
    """Kind and mutated line."""
    return {(m.kind, m.apply(source).splitlines()[m.line - 1].strip()) for m in mutants}


@pytest.mark.parametrize(
    "line, expected",
    [
        ("x = a < b", {("compare", "x = a >= b"), ("boundary", "x = a <= b")}),
        ("x = a is None", {("compare", "x = a is not None")}),
        ("x = a in b and c", {("compare", "x = a not in b and c"), ("logic", "x = a in b or c")}),
        ("x = f(not a)", {("not", "x = f((a))")}),
        ("x = a + é * b", {("arithmetic", "x = a - é * b"), ("arithmetic", "x = a + é // b")}),
        (
            "x = f(1, True, 0.5)",
            {("constant", f"x = f({v})") for v in ("2, True, 0.5", "1, False, 0.5", "1, True, 1.5")},
        ),
        ("x[a] = b", {("delete", "pass")}),
        ("x += b", {("delete", "pass")}),
        ("f(a)", {("delete", "pass")}),
        ("raise E(a)", {("delete", "pass")}),
        ("return f(a)", {("return", "return None")}),
        ("return a or b", {("return", "return not (a or b)"), ("logic", "return a and b")}),
        ("x = b if a else c", {("condition", "x = b if True else c"), ("condition", "x = b if False else c")}),
        ("x = [a for a in b if a]", {("condition", f"x = [a for a in b if {v}]") for v in (True, False)}),
    ],
)
def test_kinds(line: str, expected: set[tuple[str, str]]) -> None:
    source = f"def f(a, b, c):\n    {line}\n"
    assert _changes(python_mutants.mutants_of("m.py", source), source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Of 3 < 4."""',
        "x: tuple[int | None, 3]",
        "X: TypeAlias = int | None",
        "def f(a: int | None = None) -> int | None: ...",
        "assert a < 3, 4",
        'x = f"{a + 1}"',
        'x = "a" + b',
        "if TYPE_CHECKING:\n    x = 1",
        "@dataclass(frozen=True)\nclass A: ...",
        "def f():\n    return b.notify_match_failure(3 < a)",
        "return",
    ],
)
def test_what_is_not_mutated(source: str) -> None:
    """Texts, types, what only people read: nothing there is behavior."""
    found = python_mutants.mutants_of("m.py", source)
    assert not [m for m in found if "3 <" not in source or m.kind == "return"]


def test_samples_are_valid_reproducible_and_grow() -> None:
    source = "x = [\n" + "".join(f"    a{i} < (  # <\n        {i}),\n" for i in range(40)) + "]\n"
    files = {"m.py": source, "n.py": "y = 1 + 2\n"}
    found = sample_of(files, 30, 7)
    assert found == sample_of(files, 30, 7) != sample_of(files, 30, 8)
    assert found[:10] == sample_of(files, 10, 7)
    assert len({(m.path, m.line) for m in found}) == 30
    assert all(compile(m.apply(files[m.path]), m.path, "exec") for m in found)
    assert all(m.diff(files[m.path]).startswith("-") and "\n+" in m.diff(files[m.path]) for m in found)


SOURCE = """
import functools

LIMIT = 3

def compare(x):
    return x < LIMIT

@functools.cache
def cached(x):
    return [y for y in range(x) if y % 2 == 0]

def closure(k):
    def add(x):
        return x + k
    return add

add_two = closure(2)

class A:
    scale = 10

    @property
    def value(self):
        return self.scale * 2

def with_default(x=1):
    return x
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "mutated_sample.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "mutated_sample", raising=False)
    return importlib.import_module("mutated_sample")


@pytest.mark.parametrize(
    "before, after, value",
    [
        ("x < LIMIT", "x <= LIMIT", lambda m: m.compare(3)),
        ("if y % 2 == 0", "if False", lambda m: m.cached(3) == []),
        ("x + k", "x - k", lambda m: m.add_two(1) == -1 and m.closure(1)(3) == 2),
        ("self.scale * 2", "self.scale // 2", lambda m: m.A().value == 5),
    ],
)
def test_functions_are_mutated_where_they_are_kept(
    module: ModuleType, tmp_path: Path, before: str, after: str, value: Callable[[Any], bool]
) -> None:
    """Under a cache, in a closure that exists, as a property."""
    assert not value(module)
    module.cached.cache_clear()
    assert LoadedFunctions(tmp_path).mutate("mutated_sample.py", SOURCE, SOURCE.replace(before, after))
    assert value(module)


@pytest.mark.parametrize(
    "before, after", [("LIMIT = 3", "LIMIT = 4"), ("scale = 10", "scale = 11"), ("x=1", "x=2"), ("x + k", "x")]
)
def test_what_ran_at_import_is_not_mutated(module: ModuleType, tmp_path: Path, before: str, after: str) -> None:
    """Nor a function that needs another closure; the caller imports anew for those."""
    functions = LoadedFunctions(tmp_path)
    assert not functions.mutate("mutated_sample.py", SOURCE, SOURCE.replace(before, after))
    assert (module.LIMIT, module.A.scale, module.with_default(), module.add_two(1)) == (3, 10, 1, 3)


def test_a_mutant_is_imported(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = importlib.machinery.SourceFileLoader
    monkeypatch.setattr(loader, "get_code", loader.get_code)
    import_mutated(tmp_path, "mutated_sample.py", SOURCE.replace("LIMIT = 3", "LIMIT = 4"))
    monkeypatch.delitem(sys.modules, "mutated_sample")
    assert importlib.import_module("mutated_sample").LIMIT == 4 and module.LIMIT == 3


def test_forks_report_until_they_end_or_hang() -> None:
    def counts(report: Callable[[Any], None]) -> None:
        report(1)
        report(["two"])

    def ends(report: Callable[[Any], None]) -> None:
        report(1)
        os._exit(3)

    def hangs(report: Callable[[Any], None]) -> None:
        report(1)
        time.sleep(60)

    assert list(in_fork(counts, lambda _: 30.0)) == [1, ["two"]]
    assert list(in_fork(ends, lambda _: 30.0)) == [1, Lost("the process ended")]
    assert list(in_fork(hangs, lambda last: 30.0 if last is None else 0.2)) == [1, Lost("timeout")]


def test_tests_run_in_forks(tmp_path: Path) -> None:
    """In the order that is asked for, with what fails told apart."""
    path = tmp_path / "test_sample.py"
    path.write_text(
        dedent(
            """
            import pytest

            @pytest.mark.parametrize("x", [1, 2])
            def test_small(x):
                assert x < 2

            @pytest.mark.xfail(strict=True)
            def test_expected():
                assert False

            @pytest.fixture
            def broken():
                raise ValueError

            def test_fixture(broken):
                pass
            """
        )
    )

    def body(report: Callable[[Any], None]) -> None:
        def inner(tests: ForkedTests) -> None:
            for name, passed, _ in tests.run(list(reversed(tests.names()))):
                report([name.partition("::")[2], passed])

        pytest_in_process([str(path)], ForkedTests(inner, with_lit=False))

    expected = [["test_fixture", False], ["test_expected", True], ["test_small[2]", False], ["test_small[1]", True]]
    assert list(in_fork(body, lambda _: 60.0)) == expected


def test_tests_of_a_line_are_the_fastest_first() -> None:
    measured = Measured(imported={"a.py": [1]})
    measured.add("slow", 2.0, {"a.py": [2, 3]})
    measured.add("fast", 0.1, {"a.py": [3]})
    measured.add("other", 0.0, {"a.py": [9], "b.py": [3]})
    assert [measured.names[i] for i in measured.tests_of("a.py", 2, 3)] == ["fast", "slow"]
    assert [measured.names[i] for i in measured.tests_of("a.py", 2, 2)] == ["slow"]
    assert measured.is_imported("a.py", 1, 2) and not measured.is_imported("a.py", 2, 2)


def test_native_mutants() -> None:
    source = dedent(
        """\
        #include <vector>
        // if (a < 3)
        std::vector<int> f(const uint8_t* p, int a) {
          if (a < 3 && !p) return fail("a < 3");
          count_ = 0;
          for (int i = 0; i < 4; ++i) p += a;
          return {};
        }
        """
    )
    changes = _changes(cpp_mutants.mutants_of("m.cc", source), source)
    assert changes == {
        ("compare", 'if (a >= 3 && !p) return fail("a < 3");'),
        ("boundary", 'if (a <= 3 && !p) return fail("a < 3");'),
        ("logic", 'if (a < 3 || !p) return fail("a < 3");'),
        ("not", 'if (a < 3 && p) return fail("a < 3");'),
        ("constant", 'if (a < 4 && !p) return fail("a < 3");'),
        ("condition", 'if (true) return fail("a < 3");'),
        ("condition", 'if (false) return fail("a < 3");'),
        ("constant", "count_ = 1;"),
        ("delete", ";"),
        ("compare", "for (int i = 0; i >= 4; ++i) p += a;"),
        ("boundary", "for (int i = 0; i <= 4; ++i) p += a;"),
        ("constant", "for (int i = 1; i < 4; ++i) p += a;"),
        ("constant", "for (int i = 0; i < 5; ++i) p += a;"),
        ("arithmetic", "for (int i = 0; i < 4; --i) p += a;"),
        ("arithmetic", "for (int i = 0; i < 4; ++i) p -= a;"),
    }


def test_the_page_is_current() -> None:
    """``python test/mutants.py --write`` writes it."""
    runs = document.load()
    assert document.PAGE.read_text(encoding="utf-8") == document.page(list(runs.values()))
    for run in runs.values():
        assert all(entry.kind in document.KINDS and entry.reason for entry in run.survivors)


def test_the_sources_are_found() -> None:
    """Neither tests nor fuzzers are mutated."""
    root = Path(__file__).resolve().parents[3]
    native = [path for path, _ in cpp_mutants.sources(root)]
    assert "runtime/executor/validator.cc" in native and not any("_test" in path for path in native)
    first = list(itertools.islice(python_mutants.sources(root, ["emit"]), 3))
    assert first and all(path.startswith("emit/") and text for path, text in first)


def test_survivors_are_found_where_their_lines_are_now() -> None:
    """Of equal lines the one nearest to the old place; what is not there any more is gone."""
    survivor = document.Survivor("a.py:5:delete:0a1b2c", "-    x = 1\n-    y = 2\n+    pass", "hole", "")
    source = "def f():\n    x = 1\n    y = 2\n\n\n\ndef g():\n    x = 1\n    y = 2\n"
    found = survivors.located(survivor, source)
    assert found is not None and (found.path, found.line, found.last_line, found.kind) == ("a.py", 2, 3, "delete")
    assert found.apply(source) == "def f():\n    pass\n\n\n\ndef g():\n    x = 1\n    y = 2\n"
    assert survivors.located(survivor, source.replace("y = 2", "y = 3")) is None
