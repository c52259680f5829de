"""The documentation says the truth: its examples run, its links lead somewhere, its constraints are the verifiers'."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from etir_testing.docs.examples import ROOT, ExampleError, Page, blocks, pages

_LINK = re.compile(r"(?<!\!)\[[^\]\[]*\]\(([^)\s]+)\)")
SOURCES = ("MLIR", "LLVM", "PyTorch", "ExecuTorch", "TensorFlow", "IREE", "FlatBuffers", "etir", "literature", "graph")
"""Whose words the glossary has."""

_TAG = re.compile(r"\(([SLEBCM]\d)\)")


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_run(path: Path, tmp_path: Path) -> None:
    Page(path, tmp_path).run()


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in _LINK.findall(prose):
        if not target.startswith(("http://", "https://", "#")):
            assert (path.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_exist(path: Path) -> None:
    """`passes/generic/cse.py`, or a folder with its slash, in a page's prose."""
    prose = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for name in re.findall(r"`((?:\.ci|[a-z]+)/[\w./-]*)`", prose):
        if (ROOT / name.partition("/")[0]).is_dir() and "my_" not in name and "my-" not in name:
            assert (ROOT / name).exists() or name.startswith("build/"), name


def test_every_constraint_of_the_verifiers_is_documented() -> None:
    """A tag in a verifier's message is a row ``| S1 |`` in a dialect's page, and every row has a verifier."""
    sources = [*(ROOT / "dialects").rglob("*.py"), ROOT / "lowering" / "verify_edge.py"]
    checked = {tag for path in sources for tag in _TAG.findall(path.read_text(encoding="utf-8"))}
    text = "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "reference" / "dialects").glob("*.md"))
    )
    documented = set(re.findall(r"^\| ([SLEBCM]\d) \|", text, flags=re.MULTILINE))
    assert documented == checked


# --- the runner itself: an example that is wrong has to fail ----------------------------------------------------------


def _page(tmp_path: Path, text: str, *, update: bool = False) -> Page:
    path = ROOT / "docs" / "not-a-page.md"
    page = Page(path, tmp_path, update)
    for block, following in zip_longest(found := blocks(text), found[1:]):
        page._run(block, following)  # pyright: ignore[reportPrivateUsage]
    return page


MODULE = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "`echo one` gives\n    one\nnot\n    two"),
        ("```sh\net-opt no-such-file.mlir\n```\n", "cannot read 'no-such-file.mlir'"),
        ("```mlir\nfunc.func @f() {\n  nothing.known\n}\n```\n", "E0102"),
        (f"```mlir error=E0301\n{MODULE}```\n", "no error, expected E0301"),
        (f"```mlir pipeline=cse\n{MODULE}```\n```mlir result\nbuiltin.module {{}}\n```\n", "`cse` gives"),
        ("```python\nprint(1 + 1)\n```\n```text output\n3\n```\n", "the code prints\n    2\nnot\n    3"),
    ],
    ids=["console", "sh", "mlir", "error", "result", "output"],
)
def test_wrong_examples_fail(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match=re.escape(message)):
        _page(tmp_path, text)


def test_dots_stand_for_any_lines(tmp_path: Path) -> None:
    _page(tmp_path, "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\nc\n```\n")
    with pytest.raises(ExampleError):
        _page(tmp_path, "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\nd\n```\n")


def test_update_replaces_outputs(tmp_path: Path) -> None:
    page = _page(tmp_path, "text\n\n```console\n$ echo one\ntwo\nthree\n```\n", update=True)
    assert page.changes == {4: (3, ["$ echo one", "one"])}


def test_the_glossary_is_sorted_and_says_whose_each_word_is() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    sections = [re.findall(r"^\| (.+) \|$", section, flags=re.MULTILINE)[2:] for section in text.split("\n## ")[1:]]
    seen: list[str] = []
    for rows in sections:
        cells = [row.split(" | ") for row in rows]
        assert all(len(row) == 3 and all(row) for row in cells)
        words = [re.sub(r"[`.*]", "", row[0]).lower() for row in cells]
        assert words == sorted(words)
        seen += [word for row in words for word in row.split(", ")]
        for row in cells:
            assert row[2].startswith(SOURCES), row
    assert len(seen) == len(set(seen)), "a word is explained twice"
