"""Mutants of Python sources: where one can be made, and what it looks like.

A mutant is a replaced piece of text, so that its difference is one a person could have typed. What the syntax tree
offers at a place decides the kind:

==============  ===========================================================
kind            change
==============  ===========================================================
``compare``     ``<`` to ``>=``, ``==`` to ``!=``, ``is`` to ``is not``, ...
``boundary``    ``<`` to ``<=`` and back, ``>`` to ``>=`` and back
``logic``       ``and`` to ``or`` and back
``not``         ``not x`` to ``x``
``arithmetic``  ``+`` to ``-``, ``*`` to ``//``, ``&`` to ``|``, ...
``constant``    a number one off, ``True`` to ``False`` and back
``return``      the value negated where it is a condition, else ``None``
``delete``      a call, a ``raise``, an assignment to what exists, ``continue``
``condition``   ``if``, ``while`` or a comprehension's filter always or never
==============  ===========================================================

Not mutated: text (names of operators are looked up by tests of their own, messages are not behavior), annotations,
``assert``, what only type checkers read, the options of ``@dataclass``, and the log of rewrites that do not match.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from etir_testing.mutants.mutant import Mutant, sample

_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_BOUNDARY: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a source, in the order of the text."""
    tree = ast.parse(source)
    finder = _Finder(path, source)
    finder.visit(tree)
    return sorted(finder.found, key=lambda m: (m.start, m.end, m.kind, m.text))


def sources(root: Path, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The Python sources in the folders: path and text, in order of the paths."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield str(path.relative_to(root)), path.read_text()


def sample_of(files: Mapping[str, str], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants of the files, as ``seed`` decides. A larger sample begins with the smaller one.

    ``files`` has the text of every path.
    """
    mutants = [mutant for path, source in files.items() for mutant in mutants_of(path, source)]
    valid = sample(mutants, seed, lambda mutant: _is_python(mutant.apply(files[mutant.path])))
    return list(itertools.islice(valid, count))


def _says_no(node: ast.expr) -> bool:
    """``notify_match_failure("why")``, which returns None and writes to the log of rewrites."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("notify_match_failure")


def _is_python(source: str) -> bool:
    """No: an operator that was found in a comment between its operands, and the like."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Collects the mutants of a tree."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.source = source
        # The tree counts columns in bytes.
        self.lines = [line.encode() for line in source.splitlines(keepends=True)]
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.decode()))
        self.found: list[Mutant] = []

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1][:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def add(self, node: ast.expr | ast.stmt, kind: str, start: int, end: int, text: str) -> None:
        self.found.append(Mutant(self.path, node.lineno, node.end_lineno or node.lineno, kind, start, end, text))

    def replace(self, node: ast.expr | ast.stmt, kind: str, text: str) -> None:
        self.add(node, kind, *self.span(node), text)

    def between(self, node: ast.expr, kind: str, left: ast.expr, right: ast.expr, change: tuple[str, str]) -> None:
        """Replace the operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        at = self.source.find(change[0], start, end)
        if at >= 0:
            self.add(node, kind, at, at + len(change[0]), change[1])

    # --- what is passed over -------------------------------------------------------------------------------------

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A message."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """What the author knows anyway."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in self.text(node.annotation):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Types in ``cast(int | None, x)`` are none of the program's."""
        if isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar", "NewType"):
            return
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """``Sequence[int | None]`` as a value is a type."""
        if isinstance(node.value, ast.Name) and node.value.id in ("Sequence", "Callable", "Mapping", "Literal", "type"):
            return
        self.generic_visit(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for decorator in node.decorator_list:
            self.visit(decorator)
        for statement in node.body:
            self.visit(statement)

    visit_FunctionDef = _definition
    visit_AsyncFunctionDef = _definition

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            if "dataclass" not in self.text(decorator):
                self.visit(decorator)
        for statement in node.body:
            self.visit(statement)

    # --- expressions ---------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self.between(node, "compare", left, right, _COMPARE[type(operator)])
            if type(operator) in _BOUNDARY:
                self.between(node, "boundary", left, right, _BOUNDARY[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        change = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(node, "logic", left, right, change)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.replace(node, "not", f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(
            isinstance(part, ast.JoinedStr | ast.List | ast.Tuple)
            or (isinstance(part, ast.Constant) and (part.value is None or isinstance(part.value, str)))
            for part in (node.left, node.right)
        )
        # ``"..." % x`` and sums of lists: no other operator takes them, which any test sees.
        if not is_text and type(node.op) in _ARITHMETIC:
            self.between(node, "arithmetic", node.left, node.right, _ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self.replace(node, "constant", str(node.value + 1))
        elif isinstance(node.value, float):
            self.replace(node, "constant", repr(node.value + 1.0))

    def _condition(self, node: ast.expr, values: Sequence[str] = ("True", "False")) -> None:
        for value in values:
            self.replace(node, "condition", value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    # --- statements ----------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test) or "__name__" in self.text(node.test):
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._condition(node.test, ("False",))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        if _says_no(node.value):
            return
        is_condition = isinstance(node.value, ast.Compare | ast.BoolOp) or (
            isinstance(node.value, ast.UnaryOp) and isinstance(node.value.op, ast.Not)
        )
        if is_condition:
            self.replace(node, "return", f"return not ({self.text(node.value)})")
        elif not isinstance(node.value, ast.Constant):
            self.replace(node, "return", "return None")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "delete", "pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # A docstring.
        if isinstance(node.value, ast.Call) and not _says_no(node.value):
            self.replace(node, "delete", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "delete", "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # Without the only assignment to a name every use fails; an entry or a member may keep what it was.
        if all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets):
            self.replace(node, "delete", "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(node, "delete", "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self.replace(node, "delete", "pass")
