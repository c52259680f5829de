"""Pipelines as text: reading back what is written, and an error with its place for everything that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import Diagnostic, EtirError, Severity
from etir.dialects.context import EtContext
from etir.passes.infra import registry
from etir.passes.infra.base import Pass
from etir.passes.infra.pipeline import (
    PIPELINE_FILE,
    parse_pipeline,
    parse_specs,
    pass_options,
    pass_text,
    pipeline_text,
)


@dataclass(frozen=True)
class OptionsPass(Pass):
    """One option of every type."""

    name: ClassVar[str] = "options"

    number: int = 0
    ratio: float = 0.5
    fast: bool = False
    word: str = "a"
    words: tuple[str, ...] = ()
    pair: tuple[int, bool] = (1, True)
    level: Literal["low", "high", 3] = "low"
    limit: int | None = None
    label: str | None = None
    max_size: int = 0

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class NeedyPass(Pass):
    """Two required options, one of them checked by the pass itself."""

    name: ClassVar[str] = "needy"

    file: str
    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("'count' is not negative")

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def _passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {"options": OptionsPass, "needy": NeedyPass})
    monkeypatch.setattr(registry, "PACKAGES", ())
    monkeypatch.setattr(registry, "ALIASES", {"choices": "options"})
    monkeypatch.setattr(registry, "installed_plugins", dict)
    for cached in (registry._files, registry.own_passes):
        monkeypatch.setattr(registry, cached.__name__, cached.__wrapped__)


def one(text: str) -> Any:
    """The only pass of a pipeline."""
    (p,) = parse_pipeline(text)
    return p


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("options", OptionsPass()),
        ("options{}", OptionsPass()),
        ("options{number=-3}", OptionsPass(number=-3)),
        ("options{ratio=1e-5}", OptionsPass(ratio=1e-5)),
        ("options{ratio=2}", OptionsPass(ratio=2.0)),
        ("options{fast}", OptionsPass(fast=True)),
        ("options{fast=true}", OptionsPass(fast=True)),
        ("options{fast=0}", OptionsPass(fast=False)),
        ("options{word=aten.silu.default}", OptionsPass(word="aten.silu.default")),
        ("options{word=/tmp/a-b.mlir}", OptionsPass(word="/tmp/a-b.mlir")),
        ('options{word="a, b"}', OptionsPass(word="a, b")),
        ("options{word=7}", OptionsPass(word="7")),
        ("options{words=a,b,c}", OptionsPass(words=("a", "b", "c"))),
        ("options{words=a}", OptionsPass(words=("a",))),
        ("options{words}", OptionsPass(words=())),
        ("options{pair=4,false}", OptionsPass(pair=(4, False))),
        ("options{level=high}", OptionsPass(level="high")),
        ("options{level=3}", OptionsPass(level=3)),
        ("options{limit=7}", OptionsPass(limit=7)),
        ("options{limit=none}", OptionsPass(limit=None)),
        ('options{label="none"}', OptionsPass(label="none")),
        ("  options {\n  number = 1\n  fast\n}", OptionsPass(number=1, fast=True)),
        ("builtin.module(options{number=1})", OptionsPass(number=1)),
    ],
)
def test_values_are_read_as_the_type_of_their_option(text: str, expected: OptionsPass) -> None:
    assert one(text) == expected


def test_hyphens_and_underscores_are_the_same() -> None:
    assert one("options{max-size=3}") == one("options{max_size=3}") == OptionsPass(max_size=3)
    assert pass_text(OptionsPass(max_size=3)) == "options{max-size=3}"


_TEXT = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=8)


@given(
    st.builds(
        OptionsPass,
        number=st.integers(),
        ratio=st.floats(allow_nan=False),
        fast=st.booleans(),
        word=_TEXT,
        words=st.lists(_TEXT, max_size=3).map(tuple),
        pair=st.tuples(st.integers(), st.booleans()),
        level=st.sampled_from(["low", "high", 3]),
        limit=st.none() | st.integers(),
        label=st.none() | _TEXT,
    )
)
def test_what_is_written_reads_back(p: OptionsPass) -> None:
    assert parse_pipeline(pass_text(p)) == (p,)
    assert parse_pipeline(pipeline_text([p, OptionsPass()], with_defaults=True)) == (p, OptionsPass())


def test_only_what_differs_from_the_default_is_written() -> None:
    assert pass_text(OptionsPass()) == "options"
    assert pass_text(OptionsPass(words=("a", "b"), limit=3)) == "options{words=a,b limit=3}"
    assert pass_text(OptionsPass(), with_defaults=True) == (
        "options{number=0 ratio=0.5 fast=false word=a words pair=1,true level=low limit=none label=none max-size=0}"
    )


def test_options_are_described_for_users() -> None:
    described = {option.name: (option.type, option.default) for option in pass_options(OptionsPass)}
    assert described["words"] == ("str,...", "[]")
    assert described["level"] == ("low|high|3", "low")
    assert described["limit"] == ("int|none", "none")
    assert {option.name: option.default for option in pass_options(NeedyPass)} == {"file": None, "count": None}


@pytest.mark.parametrize(
    ("text", "id", "line", "column", "words"),
    [
        ("optoins", "E0502", 1, 1, "did you mean options?"),
        ("options,  nothing", "E0502", 1, 11, "'nothing'"),
        ("options{nummer=1}", "E0503", 1, 9, "did you mean 'number'?"),
        ("options{number=x}", "E0503", 1, 9, "takes int, not 'x'"),
        ("options{number=1.5}", "E0503", 1, 9, "takes int, not '1.5'"),
        ("options{number=1,2}", "E0503", 1, 9, "takes int, not '1,2'"),
        ("options{number}", "E0503", 1, 9, "takes int, and has no value"),
        ("options{fast=yes}", "E0503", 1, 9, "takes bool, not 'yes'"),
        ("options{level=middle}", "E0503", 1, 9, "takes low|high|3, not 'middle'"),
        ("options{pair=1}", "E0503", 1, 9, "takes int,bool, not '1'"),
        ("options{limit=a}", "E0503", 1, 9, "takes int|none, not 'a'"),
        ("options{fast\n  fast}", "E0503", 2, 3, "is given twice"),
        ("needy{file=a}", "E0503", 1, 1, "needs option 'count' (int)"),
        ("needy{file=a count=-1}", "E0503", 1, 1, "'count' is not negative"),
        ("options,,options", "E0506", 1, 9, "expected the name of a pass, found ','"),
        ("options,", "E0506", 1, 9, "expected the name of a pass, found the end"),
        (",options", "E0506", 1, 1, "expected the name of a pass, found ','"),
        ("options options", "E0506", 1, 9, "expected ',' between passes, found 'options'"),
        ("options{", "E0506", 1, 9, "expected an option or '}', found the end"),
        ("options{number=}", "E0506", 1, 16, "expected a value, found '}'"),
        ("options{=1}", "E0506", 1, 9, "expected an option or '}', found '='"),
        ("options}", "E0506", 1, 8, "found '}'"),
        ('options{word="a}', "E0506", 1, 14, "a quoted value is not closed"),
        ('"options"', "E0506", 1, 1, "expected the name of a pass"),
        ("builtin.module(options", "E0506", 1, 23, "expected ',' or ')', found the end"),
        ("builtin.module options", "E0506", 1, 16, "expected '(' after an operation that passes are nested in"),
        ("builtin.module(options))", "E0506", 1, 24, "found ')'"),
    ],
)
def test_errors_have_their_place(text: str, id: str, line: int, column: int, words: str) -> None:
    with pytest.raises(EtirError) as caught:
        parse_pipeline(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.id.id == id
    assert diagnostic.location is not None
    assert (diagnostic.location.file, diagnostic.location.line, diagnostic.location.column) == (
        PIPELINE_FILE,
        line,
        column,
    )
    assert words in diagnostic.message


def test_all_wrong_options_are_reported_together() -> None:
    with pytest.raises(EtirError) as caught:
        parse_pipeline("options{number=x fats ratio=y}, nothing, needy")
    assert caught.value.ids == ("E0503", "E0503", "E0503", "E0502", "E0503", "E0503")


@given(st.text(alphabet='ab{}=,"() \n\\.', max_size=30))
def test_any_text_gives_passes_or_a_diagnostic(text: str) -> None:
    try:
        parse_specs(text)
    except EtirError as error:
        assert error.ids == ("E0506",)


def test_an_empty_pipeline_has_no_passes() -> None:
    assert parse_pipeline("") == parse_pipeline("  ") == parse_pipeline("builtin.module()") == ()


def test_a_former_name_is_a_warning() -> None:
    found: list[Diagnostic] = []
    assert parse_pipeline("options,choices{number=2}", found) == (OptionsPass(), OptionsPass(number=2))
    (warning,) = found
    assert (warning.id.id, warning.severity, str(warning.location)) == ("E0509", Severity.WARNING, "<pipeline>:1:9")
    assert warning.message == "pass 'choices' is called 'options' now"
