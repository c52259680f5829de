"""Broken text: whatever is done to a valid file, the answer is a module or diagnostics with places, soon."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.split import split_input
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module

DIALECT_TESTS = Path(__file__).resolve().parents[2] / "lit" / "dialects"
SEEDS = [
    re.sub(r"^\s*//.*$", "", chunk.text, flags=re.M)
    for path in sorted(DIALECT_TESTS.glob("*/*.mlir"))
    for chunk in split_input(path.read_text())
]
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
ODD = ["", '"', "-1", "99999999999999999999", "1e400", "@", "%", "^", "#", "!", ".", "`", "\\", "\0", "é", "^bb0", "{}"]


def mutate(text: str, rng: random.Random) -> str:
    """A few tokens deleted, replaced, doubled or moved."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(5):
            case 0:
                del tokens[i]
            case 1:
                tokens[i] = rng.choice(ODD)
            case 2:
                tokens.insert(i, tokens[j])
            case 3:
                tokens[i:i] = tokens[j : j + 10]
            case _:
                tokens[i], tokens[j] = tokens[j], tokens[i]
        tokens = tokens or [""]
    return "".join(tokens)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_text_gives_a_module_or_diagnostics(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = mutate(rng.choice(SEEDS), rng)
        try:
            module = parse_module(text, EtContext())
        except EtirError as error:
            assert all(d.location is not None and d.location.line >= 1 for d in error.diagnostics), text
            continue
        try:
            verify_module(module)
        except EtirError:
            continue
        for generic in (False, True):
            again = parse_module(print_module(module, generic=generic), EtContext())
            assert module.is_structurally_equivalent(again), text


def test_a_missing_quote_is_found_in_linear_time() -> None:
    with pytest.raises(EtirError) as caught:
        parse_module('et.schema "' + "word " * 100_000, EtContext())
    assert caught.value.ids == ("E0101",)
    assert caught.value.diagnostics[0].location is not None
    assert caught.value.diagnostics[0].location.column == 11


@pytest.mark.parametrize("text", ["", "\n\n", "// only a comment", "builtin.module {\n}"])
def test_text_without_operations_is_an_empty_module(text: str) -> None:
    assert len(list(parse_module(text, EtContext()).walk())) == 1


def test_every_undefined_value_is_named_where_it_is_used() -> None:
    body = "  %0 = sym.neg %a : (i64) -> i64\n  %1 = sym.add %a, %b : (i64, i64) -> i64\n  func.return\n"
    text = "func.func @f() {\n" + body + "}"
    with pytest.raises(EtirError) as caught:
        parse_module(text, EtContext(), name="m")
    assert [(str(d.location), d.message) for d in caught.value.diagnostics] == [
        ("m:2:16", "there is no value %a here"),
        ("m:3:20", "there is no value %b here"),
    ]


def test_deep_nesting_is_a_diagnostic() -> None:
    with pytest.raises(EtirError):
        parse_module("builtin.module {" * 5000, EtContext())
