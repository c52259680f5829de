"""The order of the folders, and that imports point down it.

:data:`LAYERS` is the architecture as a list, lowest first: a file imports only from its own layer and from those above
it in the list. Imports inside functions count, and so do those for type checkers; files form no cycle, whatever their
layer. ``docs/architecture.md`` draws the same list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from etir._checkout import FOLDERS, ROOT

LAYERS: tuple[tuple[str, str], ...] = (
    ("etir/diagnostics.py", "what an error is"),
    ("etir/extensions", "what plug-ins add, and what depends on it"),
    ("emit/errors.py", "ids of the file formats' errors"),
    ("emit/formats/buffers.py", "bytes that are not copied until they are written"),
    ("emit/flatbuffer", "FlatBuffers tables as data"),
    ("emit/formats", "what the file formats share"),
    ("emit/pte", "the program file"),
    ("emit/ptd", "the weights file"),
    ("emit/etdump", "the profile of a run"),
    ("emit/bundled", "a program with its test cases"),
    ("dialects", "what a program is made of"),
    ("runtime/python", "the runtime from Python"),
    ("targets", "what runtimes can execute, as data"),
    ("passes/errors.py", "ids of the passes' errors"),
    ("passes/infra", "what runs passes"),
    ("passes/analysis", "what passes ask of a module"),
    ("interpret", "what every level means, executable"),
    ("lowering/errors.py", "ids of the lowerings' errors"),
    ("lowering/build", "making operations"),
    ("backends/errors.py", "ids of the backends' errors"),
    ("backends/api", "what a backend declares"),
    ("emit", "between the executable level and files"),
    ("lowering", "import, and the steps from one level to the next"),
    ("passes", "rewrites inside one level"),
    ("backends", "delegates, one folder each"),
    ("quantization", "numbers become integers: what, with which scales, at what loss"),
    ("llm/errors.py", "ids of the errors of language models"),
    ("llm/passes", "rewrites that only language models need"),
    ("etir", "the compiler: pipeline, driver, report"),
    ("tools/errors.py", "ids of the command lines' errors"),
    ("devtools", "traces, profiles, and what is found with them"),
    ("llm", "language models: checkpoints, tokenizers, sessions, the server"),
    ("sweeps", "many programs, targets and recipes at once"),
    ("tools", "command lines"),
)
"""Path prefixes with what lives there; the longest prefix of a file is its layer."""

STARTS_TOOLS = (
    "etir/",
    "devtools/__init__.py",
    "tools/",
    "dialects/context.py",
    "backends/api/registry.py",
    "backends/bridge/__init__.py",
    "backends/native/backend.py",
    "backends/reference/backend.py",
    "backends/xnnpack/backend.py",
    "lowering/export_fx/__init__.py",
    "lowering/import_fx/__init__.py",
    "interpret/__init__.py",
    "interpret/evaluators.py",
    "llm/",
    "sweeps/",
)
"""Files that start with a tool or are asked for a name, and slices of which a tool uses a part: they import what they
need when it is needed."""

HEAVY = frozenset({"executorch", "numpy", "safetensors", "sympy", "torch", "transformers"})
"""Packages whose import a user should not wait for: what imports them may be imported in a function."""


@dataclass(frozen=True)
class Import:
    """``source`` imports ``target`` in ``line``; ``lazy`` inside of a function, ``typing`` for type checkers only."""

    source: str
    line: int
    target: str
    lazy: bool
    typing: bool

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


@cache
def modules() -> dict[str, str]:
    """Every module of the package to its file, as a path from the repository's root."""
    found: dict[str, str] = {}
    for package, folder in {"etir": "etir", **FOLDERS}.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *(inside[:-1] if inside[-1] == "__init__" else inside)))
            found[name] = path.relative_to(ROOT).as_posix()
    return found


def _statements(node: ast.AST, lazy: bool, typing: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, lazy, typing
        inside = lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        checked = isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"
        yield from _statements(child, inside, typing or checked)


@cache
def _statements_of(path: str) -> tuple[tuple[ast.Import | ast.ImportFrom, bool, bool], ...]:
    return tuple(_statements(ast.parse((ROOT / path).read_text(encoding="utf-8")), False, False))


def _named(module: str, path: str, statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that a statement names; ``from a import b`` is ``a.b`` where that is a module."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = statement.module or ""
    if statement.level:
        package = module.split(".") if path.endswith("__init__.py") else module.split(".")[:-1]
        parts = package[: len(package) - statement.level + 1]
        base = ".".join([*parts, *([base] if base else [])])
    for alias in statement.names:
        whole = f"{base}.{alias.name}"
        yield whole if whole in modules() else base


@cache
def imports() -> tuple[Import, ...]:
    """Every import of one of etir's files by another."""
    known = modules()
    found = {
        Import(path, statement.lineno, known[name], lazy, typing)
        for module, path in known.items()
        for statement, lazy, typing in _statements_of(path)
        for name in _named(module, path, statement)
        if name in known and known[name] != path
    }
    return tuple(sorted(found, key=lambda i: (i.source, i.line, i.target)))


def rank(path: str) -> int:
    """The place of a file's layer in :data:`LAYERS`, 0 for the lowest."""
    fits = [i for i, (prefix, _) in enumerate(LAYERS) if path == prefix or path.startswith(f"{prefix}/")]
    assert fits, f"{path} is in no layer"
    return max(fits, key=lambda i: len(LAYERS[i][0]))


def cycles(edges: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan, 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def test_imports_point_down() -> None:
    assert [str(i) for i in imports() if rank(i.target) > rank(i.source)] == []


def test_files_form_no_cycle() -> None:
    edges: dict[str, list[str]] = {}
    for i in imports():
        if not i.typing:
            edges.setdefault(i.source, []).append(i.target)
    assert cycles(edges) == []


def test_a_cycle_is_found() -> None:
    assert cycles({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}) == [["b", "c"]]


def test_every_layer_has_files() -> None:
    used = {rank(path) for path in modules().values()}
    assert [prefix for i, (prefix, _) in enumerate(LAYERS) if i not in used] == []


def _packages(path: str) -> set[str]:
    """The packages of others that a file imports when it is imported."""
    found: set[str] = set()
    for statement, lazy, typing in _statements_of(path):
        if not lazy and not typing:
            names = [a.name for a in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
            found |= {name.split(".")[0] for name in names}
    return found


@cache
def _loads(path: str) -> frozenset[str]:
    """The heavy packages that importing a file imports, through everything that it imports itself."""
    seen: set[str] = set()
    waiting = [path]
    edges: dict[str, list[str]] = {}
    for i in imports():
        if not i.lazy and not i.typing:
            edges.setdefault(i.source, []).append(i.target)
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting += edges.get(current, [])
            parents = [p for p in Path(current).parents if (ROOT / p / "__init__.py").is_file()]
            waiting += [(p / "__init__.py").as_posix() for p in parents]
    return frozenset().union(*(_packages(p) for p in seen)) & HEAVY


def test_lazy_imports_have_a_reason() -> None:
    """Inside of a function stands what a tool's start would wait for, or what imports a heavy package."""
    without = [
        str(i)
        for i in imports()
        if i.lazy and not i.typing and not i.source.startswith(STARTS_TOOLS) and _loads(i.target) <= _loads(i.source)
    ]
    assert without == []
