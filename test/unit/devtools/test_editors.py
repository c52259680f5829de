"""The files in ``editors/``: that they fit together, and what the grammar of VS Code finds in a line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from etir_testing import ROOT

CODE = ROOT / "editors" / "vscode"
GRAMMAR = json.loads((CODE / "syntaxes" / "etir.tmLanguage.json").read_text(encoding="utf-8"))


def rules(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from rules(child)
    elif isinstance(node, list):
        for child in node:
            yield from rules(child)


def test_what_the_extension_names_is_there() -> None:
    package = json.loads((CODE / "package.json").read_text(encoding="utf-8"))
    contributed = package["contributes"]
    named = [package["main"], contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    assert all((CODE / name).is_file() for name in named)
    json.loads((CODE / "language-configuration.json").read_text(encoding="utf-8"))
    assert contributed["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    included = {rule["include"].removeprefix("#") for rule in rules(GRAMMAR) if "include" in rule}
    assert included == set(GRAMMAR["repository"])


def test_the_client_is_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is needed to check the client, and this machine has none")
    subprocess.run([node, "--check", str(CODE / "extension.js")], check=True)


@pytest.mark.parametrize(
    ("text", "scope", "found"),
    [
        ("  %y_1 = aten.add.Tensor(%x#2)", "variable.other.etir", ["%y_1", "%x#2"]),
        ("func.func @net.a(%x", "entity.name.function.etir", ["@net.a"]),
        ("^bb1(%z: i1):", "entity.name.label.etir", ["^bb1"]),
        ("(tensor<4xf32>, i64) -> bf16", "storage.type.etir", ["f32", "i64", "bf16"]),
        ("#et.layout<dims = [s0]>", "support.constant.attribute.etir", ["#et.layout"]),
        ("dim = -1, eps = 1.0e-05, x = 0xFF", "constant.numeric.etir", ["-1", "1.0e-05", "0xFF"]),
        ("// ----- \n", "markup.heading.module.etir", ["// ----- "]),
    ],
)
def test_what_the_grammar_finds(text: str, scope: str, found: list[str]) -> None:
    patterns = [rule["match"] for rule in rules(GRAMMAR) if rule.get("name") == scope and "match" in rule]
    places = sorted({(m.start(), m[0]) for p in patterns for m in re.finditer(p, text, re.M)})
    assert [word for _, word in places] == found


def test_expressions_are_closed() -> None:
    for rule in rules(GRAMMAR):
        for key in ("match", "begin", "end"):
            if isinstance(rule.get(key), str):
                re.compile(rule[key])
        assert ("begin" in rule) == ("end" in rule)
