"""Every operator that the code names exists: in quotes, in docstrings, and as an attribute of ``aten`` and ``edge``.

Names as data are not looked up before a program needs them, and one inside of a function not before it runs; a slip in
either is a rewrite that never fires.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from etir.dialects.aten import ops as aten
from etir.dialects.aten.table import load_table
from etir.dialects.edge import ops as edge
from etir.interpret.numpy_ops.registry import op as numpy_operator
from etir.lowering.build.inference import rule
from etir.lowering.decompose_aten.decomposition import decomposition

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    "backends",
    "benchmarks",
    "devtools",
    "dialects",
    "emit",
    "etir",
    "examples",
    "interpret",
    "lowering",
    "passes",
)
FILES = sorted(
    path for folder in (*FOLDERS, "runtime/python", "targets", "tools") for path in (ROOT / folder).rglob("*.py")
)
MODULES = {"aten": aten, "edge": edge}
NO_NAMES = ("aten.name.overload", "aten.random.from_")
"""What docstrings write for any operator, and how Python spells one."""
NAME = re.compile(r"\b(?:edge\.)?((?:aten|dim_order_ops)\.[A-Za-z_]\w*\.[A-Za-z_]\w*)")


def unknown_names(source: str) -> Iterator[str]:
    """``line: name`` of every operator in ``source`` that does not exist."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    imported = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("etir.dialects.aten", "etir.dialects.edge")
        for alias in node.names
        if alias.name == "ops"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            for name in NAME.findall(node.value):
                if name not in load_table() and name not in NO_NAMES:
                    yield f"{node.lineno}: '{name}'"
        elif isinstance(node, ast.Attribute) and (names := _chain(node))[0] in imported:
            try:
                _resolve(names)
            except AttributeError as error:
                yield f"{node.lineno}: {error}"


def _chain(node: ast.expr) -> list[str]:
    """``["edge", "aten", "bmm"]`` for ``edge.aten.bmm``; an empty name where it does not start with a name."""
    if isinstance(node, ast.Attribute):
        return [*_chain(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def _resolve(names: list[str]) -> None:
    value: object = MODULES[names[0]]
    for name in names[1:]:
        value = getattr(value, name)


@pytest.mark.parametrize("register", [decomposition, numpy_operator, rule])
def test_registering_for_an_operator_that_does_not_exist_is_an_error(register: Callable[..., Any]) -> None:
    """Also where the name is composed."""
    with pytest.raises(AttributeError, match="no operator 'aten.bmm.defualt'; did you mean 'aten.bmm.default'"):
        register("aten.bmm.defualt")(lambda *_: None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_operator_that_is_named_exists(path: Path) -> None:
    assert [f"{path}:{found}" for found in unknown_names(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        'NAMES = ("aten.relu.default", "aten.relu.defualt")',
        '"""An ``edge.aten.bnm.default``."""',
        "from etir.dialects.aten import ops as aten\nx = aten.wher.self",
        "from etir.dialects.edge import ops as edge\ndef f(op: edge.aten.bmm.defualt): ...",
        "from etir.dialects.edge import ops as edge\nx = isinstance(op, edge.aten.view.default)",
    ],
)
def test_a_name_that_does_not_exist_is_found(source: str) -> None:
    assert list(unknown_names(source)) != []


@pytest.mark.parametrize(
    "source", ["x = aten.anything.at_all", 'f"aten.{name}.default"', '"aten.add", "torch.aten.add"']
)
def test_other_names_are_left_alone(source: str) -> None:
    assert list(unknown_names(source)) == []
