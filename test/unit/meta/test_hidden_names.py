"""No constant of the runtime hides another one of the same name.

Kernels lie in namespaces within each other, and headers are included in any order: where ``a`` and ``a::b`` both have a
constant, what a function of ``a::b`` reads depends on what was included before it. No compiler warns of that, and two
translation units that differ in it give the linker two versions of one inline function to pick from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from etir._checkout import ROOT

NOT_CODE = re.compile(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'')
NAMESPACE = re.compile(r"\s*(?:inline )?namespace ([\w:]*)\s*\{")
CONSTANT = re.compile(
    r"\s*(?:template <[^>]*>\s*)?(?:inline |static )*(?:constexpr|const)\b[^(]*?\b(\w+)\s*(?:\[[^]]*\]\s*)*[={]"
)


def constants(text: str) -> Iterator[tuple[str, str]]:
    """The constants at namespace scope of a file, as (namespace, name)."""
    spaces: list[tuple[int, str]] = []  # how deep in braces each begins, and its name
    depth = 0
    for line in text.splitlines():
        code = NOT_CODE.sub("", line)
        if entered := NAMESPACE.match(code):
            spaces.append((depth, entered[1]))
        elif depth == len(spaces) and (constant := CONSTANT.match(code)):
            yield "::".join(name for _, name in spaces), constant[1]
        depth += code.count("{") - code.count("}")
        while spaces and depth <= spaces[-1][0]:
            spaces.pop()


def hidden(files: dict[str, str]) -> list[str]:
    """Each constant that another one of a namespace around its own is hidden by, with the files of both."""
    found: dict[str, dict[str, str]] = {}
    for file, text in files.items():
        for space, name in constants(text):
            found.setdefault(name, {}).setdefault(space, file)
    return [
        f"{inner}::{name} ({inner_file}) hides {outer}::{name} ({outer_file})"
        for name, spaces in sorted(found.items())
        for inner, inner_file in sorted(spaces.items())
        for outer, outer_file in sorted(spaces.items())
        if inner.startswith(f"{outer}::")
    ]


def test_no_constant_hides_another() -> None:
    folder = Path(ROOT) / "runtime"
    files = {str(f.relative_to(folder)): f.read_text() for f in sorted(folder.rglob("*.h"))}
    assert sum(len(list(constants(text))) for text in files.values()) > 100
    assert hidden(files) == []


@pytest.mark.parametrize(
    ("inner", "hides"),
    [
        ("namespace etir::integer {\nnamespace detail {\nconstexpr int kRows = 6;  // rows\n}\n}\n", True),
        ("namespace etir::integer::detail {\ntemplate <typename T>\nconstexpr bool kRows = F<T>::value;\n}\n", True),
        ("namespace etir::other {\nconstexpr int kRows = 6;\n}\n", False),
        ("namespace etir::integer {\nvoid f() {\n  constexpr int kRows = 6;\n}\n}\n", False),
    ],
)
def test_what_hides(inner: str, hides: bool) -> None:
    """A constant of a namespace around it is hidden, one beside it or within a function is not."""
    outer = "namespace etir::integer {\n\nconstexpr int kRows = 16;\n\n}  // namespace etir::integer\n"
    assert bool(hidden({"outer.h": outer, "inner.h": inner})) == hides
