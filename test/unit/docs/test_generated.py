"""The generated parts of the documentation: each can be made, has a place, and is complete."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from etir.tools import docs
from etir.tools.docs import decisions, error_ids, figures, levels, text
from etir.tools.docs.__main__ import main

from etir_testing.docs.examples import ROOT, pages


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator reads files of the checkout, as mkdocs runs in its root."""
    monkeypatch.chdir(ROOT)


@cache
def made(name: str) -> str:
    return docs.part(name)


def test_every_part_has_a_place() -> None:
    found = {place["name"] for path in pages() for place in docs.PLACE.finditer(path.read_text(encoding="utf-8"))} - {
        None
    }
    assert found == set(docs.PARTS)


@pytest.mark.parametrize("name", docs.PARTS)
def test_a_part_is_the_same_every_time(name: str) -> None:
    assert made(name) == docs.part(name)
    assert made(name).strip()


def test_a_place_is_filled() -> None:
    page = "before\n\n<!-- begin generated: decisions -->\ninstead\n<!-- end generated -->\n\nafter\n"
    assert docs.fill(page) == f"before\n\n{made('decisions')}\nafter\n"


def test_a_place_in_an_example_stays() -> None:
    page = "```text\n<!-- begin generated: decisions -->\ninstead\n<!-- end generated -->\n```\n"
    assert docs.fill(page) == page


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError):
        docs.fill("<!-- begin generated: weather -->\n<!-- end generated -->\n")


def test_the_command_prints_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decisions"]) == 0
    assert capsys.readouterr().out == made("decisions")


# --- each part is complete --------------------------------------------------------------------------------------------


def test_every_pass_has_an_entry_with_its_options() -> None:
    from etir.passes.infra.registry import own_passes

    assert re.findall(r"^## `([\w-]+)`$", made("passes"), re.MULTILINE) == list(own_passes())
    assert "| `algorithm` | `auto|naive|greedy|best_fit|search|in_time` | `auto` |" in made("passes")


def test_every_id_is_in_the_table_of_its_area() -> None:
    """An id outside of the known areas would be left out of the page."""
    from etir.diagnostics import REGISTRY

    error_ids.import_error_modules()
    assert re.findall(r'id="(E\d{4})"', made("errors")) == sorted(REGISTRY)


def test_every_module_of_errors_is_in_a_package_that_is_looked_into() -> None:
    """Whichever modules other tests have loaded: ids of a package that is left out would be missing from the page."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"etir"}
    assert packages and {name for name in packages if any((ROOT / name).rglob("errors.py"))} <= set(error_ids.PACKAGES)


def test_every_kernel_of_every_target_has_a_row() -> None:
    from etir.targets.manifest import available, load

    page = re.sub(r"^### Calls that .*?(?=^## |\Z)", "", made("kernels"), flags=re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert rows == [name for target in available() for name in load(target).kernels]


def test_every_kernel_with_wrong_calls_is_in_the_table_of_them() -> None:
    from etir.targets.manifest import available, load

    tables = "".join(re.findall(r"^### Calls that .*?(?=^## |\Z)", made("kernels"), re.MULTILINE | re.DOTALL))
    rows = re.findall(r"^\| `([^`]+)` \|", tables, re.MULTILINE)
    assert rows == [name for target in available() for name, row in load(target).kernels.items() for _ in row.wrong]


def test_an_operator_has_its_decomposition_and_its_kernel() -> None:
    assert "| `aten.silu.default` | pointwise | `out` | `silu` |  |" in made("operators")
    assert re.search(r"^\| `aten.add.Tensor` \| core, pointwise \| `out` \| [^|]*\| portable", made("operators"), re.M)


def test_every_console_script_has_its_options() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    headings = re.findall(r"^## `([\w-]+)`$", made("commands"), re.MULTILINE)
    assert set(project["scripts"]) <= set(headings)
    assert "| `-p TEXT`, `--pass-pipeline TEXT` |" in made("commands")


def test_every_public_name_has_an_entry() -> None:
    import etir
    import etir.runtime

    for module in (etir, etir.runtime):
        for name in module.__all__:
            assert f"{{ #{module.__name__}.{name} " in made("python-api")


def test_the_levels_are_those_of_the_pipeline() -> None:
    assert [level.name for level in levels.LEVELS] == list(levels.steps())
    folders = {path.name for path in (ROOT / "dialects").iterdir()} | {"xnn"}
    for level in levels.LEVELS:
        assert set(level.dialects) <= folders
        for step in levels.steps()[level.name]:
            assert f"| [`{step.name}`](passes.md#{step.name}) |" in made("levels")
            assert f">{step.name}</text>" in made("figure-levels")


def test_the_levels_have_every_pass_that_an_option_adds() -> None:
    """What the documentation shows is the longest pipeline: no single option gives a pass that it has not."""
    from etir.options import CompileOptions, ExternalFile
    from etir.pipeline import pipeline

    shown = {step.name for steps in levels.steps().values() for step in steps}
    for options in (
        CompileOptions(),
        CompileOptions(delegates=("reference",)),
        CompileOptions(optimizer="sgd"),
        CompileOptions(state_methods=True),
        CompileOptions(external_weights=(ExternalFile("w"),), external_state=(ExternalFile("s"),)),
    ):
        assert {each.name for each in pipeline(options)} <= shown


def test_every_layer_is_in_the_figure() -> None:
    drawn = re.findall(r'<text class="code "[^>]*>([^<]+)</text>', made("figure-layers"))
    assert drawn == 2 * [path for path, _ in reversed(figures.layers())]


# --- decisions --------------------------------------------------------------------------------------------------------


def test_records_are_numbered_without_gaps() -> None:
    numbers = [record.number for record in decisions.records()]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_superseding_is_said_on_both_sides() -> None:
    found = {record.number: record for record in decisions.records()}
    for record in found.values():
        assert (record.status == "superseded") == bool(record.superseded_by)
        if record.supersedes:
            assert found[record.supersedes].superseded_by == record.number
        if record.superseded_by:
            assert found[record.superseded_by].supersedes == record.number


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("0002-x.md", "# 0001 Title\n\n*Status: accepted*\n"),
        ("0001-x.md", "# 0001 Title\n\n*Status: undecided*\n"),
        ("0001-x.md", "# Title\n\n*Status: accepted*\n"),
        ("first.md", "# 0001 Title\n\n*Status: accepted*\n"),
    ],
)
def test_a_malformed_record_is_an_error(name: str, head: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(head, encoding="utf-8")
    with pytest.raises(ValueError, match="NNNN Title"):
        decisions.records(tmp_path)


def test_a_record_knows_what_it_supersedes(tmp_path: Path) -> None:
    head = "# 0002 New way\n\n*Status: accepted, supersedes 0001*\n\nText.\n"
    (tmp_path / "0002-new-way.md").write_text(head, encoding="utf-8")
    (record,) = decisions.records(tmp_path)
    assert record == decisions.Record("0002-new-way.md", "0002", "New way", "accepted", "0001", "")


# --- docstrings as markdown -------------------------------------------------------------------------------------------


def test_a_docstring_becomes_markdown() -> None:
    docstring = "What :func:`run` does with ``x``.\n\nBefore::\n\n    %0 = a.b(%x)\n\n      %1 = c.d\n\nAfter, nothing."
    assert text.markdown(docstring) == (
        "What `run` does with `x`.\n\nBefore:\n\n```mlir\n%0 = a.b(%x)\n\n  %1 = c.d\n```\n\nAfter, nothing."
    )


def test_a_transcript_has_commands_and_outputs() -> None:
    from pygments.token import Token

    from etir.tools.docs.lexer import TranscriptLexer

    tokens = list(TranscriptLexer().get_tokens("$ et-opt x.mlir\n%0 = a.b\n"))
    assert tokens[0] == (Token.Generic.Prompt, "$ ")
    assert tokens[-1] == (Token.Generic.Output, "%0 = a.b\n")


def test_mlir_has_colors() -> None:
    from pygments.token import Token

    from etir.tools.docs.lexer import MlirLexer

    line = "%0 = aten.add.Tensor(%x, 1.5) : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>) -> tensor<4xi64>  // why\n"
    tokens = list(MlirLexer().get_tokens(line))
    assert "".join(text for _, text in tokens) == line
    kinds = dict((text, kind) for kind, text in tokens)
    assert kinds["%0"] is kinds["%x"] is Token.Name.Variable
    assert kinds["aten.add.Tensor"] is Token.Name.Builtin
    assert kinds["1.5"] is kinds["?x4x"] is Token.Literal.Number
    assert kinds["f32"] is kinds["tensor"] is Token.Keyword.Type
    assert kinds["#et.layout"] is Token.Name.Decorator
    assert kinds["// why"] is Token.Comment.Single
