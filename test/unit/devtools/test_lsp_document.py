"""Reading text for an editor: all mistakes at once, nothing else said, and only what has changed read again."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from etir.devtools.lsp.completion import complete
from etir.devtools.lsp.document import Document, Place
from etir.devtools.lsp.hover import hover
from etir.devtools.lsp.names import Names
from etir.devtools.lsp.outline import outline
from etir.devtools.lsp.positions import apply_edits, from_units, to_units
from etir.diagnostics import EtirError
from etir.dialects.split import split_input
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.tools.context import ToolContext

from etir_testing import ROOT
from etir_testing.devtools.texts import chain

LIT = sorted((ROOT / "test" / "lit").rglob("*.mlir"))

RELU = "aten.relu.default(%{}) : (tensor<4xf32>) -> tensor<4xf32>"

MISTAKES = """\
sym.dim @s0 in [1, 8]
func.func @f(%x: tensor<4xf32>, %n: i1) -> tensor<4xf32> {
  %a = aten.relu.defalt(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = aten.relu.default(%b : (tensor<4xf32>) -> tensor<4xf32>
  %d = aten.relu.default(%b) : (tensor<4xf32>) -> tensor<?xf32>
  %e = aten.relu.default(%nowhere) : (tensor<4xf32>) -> tensor<4xf32>
  %e = aten.relu.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  §
  func.return %e : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = et.get_weight @nothing : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
func.func @h(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
"""


def found(text: str) -> list[tuple[int, str, str]]:
    """Line from 1, id and message of each problem."""
    problems = Document(text, ToolContext).problems
    return [(p.place.line + 1, p.diagnostic.id.id, p.diagnostic.message) for p in problems]


def test_all_mistakes_of_a_file_are_told_at_once_and_each_once() -> None:
    told = found(MISTAKES)
    assert [(line, id) for line, id, _ in told] == [
        (3, "E0102"),
        (5, "E0101"),
        (6, "E0301"),
        (7, "E0302"),
        (8, "E0101"),
        (9, "E0101"),
        (13, "E0303"),
        (18, "E0101"),
    ]
    assert "did you mean" in told[0][2] and "%nowhere" in told[3][2] and "already defined" in told[4][2]


def test_several_modules_are_read_each_on_its_own() -> None:
    text = "func.func @f()\n// -----\n  et.wrong\n// -----\nfunc.func @f() -> i1 {\n  func.return %x : i1\n}\n"
    assert [(line, id) for line, id, _ in found(text)] == [(3, "E0102"), (6, "E0302")]


@pytest.mark.parametrize("path", LIT[::15], ids=lambda path: path.stem)
def test_what_the_compiler_says_is_said_and_nothing_of_valid_text(path: Path) -> None:
    agree(path)


@pytest.mark.nightly
def test_every_file_of_the_tests_is_read_as_the_compiler_reads_it() -> None:
    for path in LIT:
        agree(path)


def agree(path: Path) -> None:
    for chunk in split_input(path.read_text(encoding="utf-8")):
        expected: list[tuple[int, str, str]] = []
        try:
            verify_module(parse_module(chunk.text, ToolContext(), name="text"))
        except EtirError as error:
            expected = [(d.location.line if d.location else 1, d.id.id, d.message) for d in error.diagnostics]
        told = found(chunk.text.replace("expected-", "foreseen-"))
        assert all(one in told for one in expected), (path, chunk.first_line, expected, told)
        assert expected or not told, (path, chunk.first_line, told)


def test_what_comments_expect_is_not_told() -> None:
    """Files that say what is wrong with them are right; another message, place or id is told."""
    for path in LIT:
        if path.name == "invalid.mlir":
            assert Document(path.read_text(encoding="utf-8"), ToolContext).problems == [], path
    comment = "// expected-error @below [E0302] {{no value %w}}"
    text = f"func.func @f(%x: tensor<4xf32>) {{\n  {comment}\n  %y = {RELU.format('w')}\n  func.return\n}}\n"
    assert found(text) == []
    assert [id for _, id, _ in found(text.replace("%w}}", "%v}}"))] == ["E0302"]
    assert [id for _, id, _ in found(text.replace("@below", "@above"))] == ["E0302"]
    assert [id for _, id, _ in found(text.replace("[E0302]", "[E0301]"))] == ["E0302"]
    assert found(text.replace("(%w)", "(%x)")) == [], "passes may give what the text by itself does not"
    assert [id for _, id, _ in found(text.replace("@below [E0302] {{no value %w}}", "below"))] == ["E0907", "E0302"]


PIECES = ["", "{", "}", "(", ")", "%", "@", '"', "\n", "%x = ", "\u2028", "\ud800", "//", "// -----\n", "aten.", "<"]
PIECES += ["^bb0:", "loc(", "#", ": tensor<", "x", "\x00", "\r", "-> (", "🦜"]


def attack(seed: int, count: int) -> None:
    rng = random.Random(seed)
    texts = [text for path in LIT if len(text := path.read_text(encoding="utf-8")) < 4000]
    for _ in range(count):
        text = rng.choice(texts)
        document = Document(text, ToolContext)
        for _ in range(4):
            start = rng.randrange(len(text) + 1)
            end = min(len(text), start + rng.choice([0, 0, 1, 3, 20]))
            text = text[:start] + rng.choice(PIECES) + text[end:]
            document.update(text)
            line = text.count("\n", 0, start)
            hover(document, line, 3, None)
            complete(document, line, 5)
            outline(document)
            document.definition(line, 4)
            document.references(line, 4)
            # What is kept of the last reading changes nothing.
            fresh = Document(text, ToolContext)
            assert document.problems == fresh.problems, text
            assert all(p.diagnostic.id.id != "E1430" for p in fresh.problems), text


def test_no_text_is_too_malformed() -> None:
    attack(1, 25)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 6))
def test_no_text_is_too_malformed_at_length(seed: int) -> None:
    attack(seed, 800)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "{" * 3000,
        "func.func @f() {\n" * 2000,
        "}" * 3000,
        "\ud800",
        "%a = " * 2000,
        "(" * 5000,
        "builtin.module {\n" + '  "x.y"() ({\n' * 800,
        "\x00" * 100,
        "// -----\n" * 500,
        "tensor<" * 3000,
        "%x = aten.relu.default(%x) : (tensor<" + "9" * 5000 + "xf32>) -> tensor<4xf32>",
    ],
    ids=range(13),
)
def test_hostile_texts_are_read(text: str) -> None:
    document = Document(text, ToolContext)
    assert len(document.problems) <= 1000
    hover(document, 0, 3, None)
    document.update(text + "\nfunc.func @g() {\n  func.return\n}\n")


def test_only_what_an_edit_has_changed_is_parsed() -> None:
    text = chain(300)
    document = Document(text, ToolContext)
    assert not document.problems and document.parts[0][1].memo.reused == 0
    lines = text.split("\n")
    lines[150] = lines[150].replace("aten.relu.default", "aten.sigmoid.default")
    document.update("\n".join(lines))
    assert not document.problems and document.parts[0][1].memo.reused >= 299 - 1
    assert [op.name for op in document.parts[0][1].module.walk()].count("aten.sigmoid.default") == 1
    lines.insert(10, "  // a comment")
    document.update("\n".join(lines))
    assert document.parts[0][1].memo.reused >= 297
    assert document.parts[0][1].spots[20].op.location.line.data == 22  # type: ignore[attr-defined]
    # A definition that goes away is missed by its use, which has not changed.
    del lines[50]
    document.update("\n".join(lines))
    assert [(p.place.line, p.diagnostic.id.id) for p in document.problems] == [(50, "E0302")]
    # A type that changes is wrong where it is used.
    document.update("\n".join(lines).replace("%x: tensor<4xf32>", "%x: tensor<5xf32>"))
    assert {p.diagnostic.id.id for p in document.problems} == {"E0101", "E0302"}


def test_what_depends_on_other_lines_is_parsed_again() -> None:
    text = (
        '#size = 4 : i64\nfunc.func @f() {\n  %0 = "arith.constant"() {value = #size} : () -> i64\n  func.return\n}\n'
    )
    document = Document(text, ToolContext)
    document.update(text.replace("4 : i64", "4 : i32"))
    assert [p.diagnostic.id.id for p in document.problems] == ["E0301"]


# --- names -----------------------------------------------------------------------------------------------------------

SCOPES = """\
func.func @f(%x: tensor<4xf32>, %n: i1) -> tensor<4xf32> {
  %y = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  "cf.cond_br"(%n)[^bb1, ^bb2] : (i1) -> ()
^bb1(%z: tensor<4xf32>):
  func.return %z : tensor<4xf32>
^bb2:
  func.return %y : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "func.call"(%x) {callee = @f, text = "%y @f // no"} : (tensor<4xf32>) -> tensor<4xf32> // %y
  func.return %y : tensor<4xf32>
}
"""


def at(text: str, word: str, number: int = 0) -> int:
    return [m.start() for m in re.finditer(re.escape(word), text)][number]


def test_names_belong_to_their_function() -> None:
    names = Names(SCOPES)

    def lines(word: str, number: int) -> list[int]:
        name = names.at(at(SCOPES, word, number) + 1)
        assert name is not None
        return [SCOPES.count("\n", 0, n.start) + 1 for n in names.references(name)]

    assert lines("%x", 0) == [1, 2] and lines("%x", 3) == [9, 10]
    assert lines("%y", 0) == [2, 7] and lines("%y", 2) == [10, 11]
    assert lines("@f", 0) == [1, 10] and lines("^bb1", 0) == [3, 4] and lines("%z", 1) == [4, 5]
    visible = {n.text for n in names.visible(at(SCOPES, "func.return", 2), "value")}
    assert visible == {"%x", "%y"}


def test_columns_of_every_encoding() -> None:
    line = 'a "é🦜" %x'
    for encoding, units in (("utf-8", 13), ("utf-16", 8), ("utf-32", 7)):
        assert to_units(line, line.index("%"), encoding) == units - 0 if encoding != "utf-8" else True
        assert from_units(line, to_units(line, 5, encoding), encoding) == 5
    assert to_units(line, 7, "utf-16") == 8 and to_units(line, 7, "utf-8") == 11 and to_units(line, 7, "utf-32") == 7
    assert apply_edits("aé🦜b\nc", [((0, 2, 0, 4), "-")], "utf-16") == "aé-b\nc"
    assert apply_edits("a\nb", [((7, 0, 9, 9), "c"), (None, "new"), ((0, 2, 0, 1), "!")], "utf-16") == "ne!w"


def test_places_of_diagnostics_are_those_of_names() -> None:
    document = Document("func.func @f(%x: i1) {\n  %y = aten.nonsense.default(%x) : (i1) -> i1\n  func.return\n}\n")
    assert [p.place for p in document.problems] == [Place(1, 7, 1, 28)]


def test_a_value_that_is_used_and_never_defined_is_shown() -> None:
    """An operation whose operands nothing gives, of a text that ends before that is an error."""
    text = "func.return %x, %n : tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i6 func.func @mixed(%x: i64) {"
    document = Document(text, ToolContext)
    assert document.problems
    for column in range(12):
        found = hover(document, 0, column, None)
        assert found is None or "func.return" in found[0]
    assert hover(document, 0, 3, None) is not None
