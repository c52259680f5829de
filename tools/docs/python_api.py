"""The reference of the Python interface: signatures and docstrings of the names that users and plug-ins import."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import zip_longest
from types import ModuleType
from typing import Any

from etir.tools.docs.text import inline, markdown, table

WIDTH = 88
"""A signature that is longer than this many columns has a line for each parameter."""

SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Compiling", "etir", ()),
    ("Running", "etir.runtime", ()),
    ("Text", "etir.dialects.text", ("parse_module", "print_module")),
    ("The IR's context", "etir.dialects.context", ("EtContext",)),
    ("Interpreting", "etir.interpret", ("run_module",)),
    ("Passes", "etir.passes.infra.base", ("Pass",)),
    ("Patterns", "etir.passes.infra.rewriting", ("Pattern", "PatternRewriter", "apply_patterns_greedily")),
    ("Pipelines", "etir.passes.infra.manager", ("run_pipeline",)),
    ("Plug-ins", "etir.plugins", ()),
    ("Building operations", "etir.lowering.build.builder", ("Builder",)),
    ("Backends", "etir.backends.api.interface", ()),
)
"""Title, module and names; without names, those of the module's ``__all__``, or else all that it defines."""


def python_api_part() -> str:
    """A section for each module, an entry for each name."""
    lines: list[str] = []
    for title, name, chosen in SECTIONS:
        module = import_module(name)
        lines += [f"## {title}: `{name}` {{ #{name} }}", ""]
        if not chosen:
            lines += [markdown(inspect.getdoc(module)), ""]
        for member in chosen or _public(module):
            lines += _entry(member, getattr(module, member), f"{name}.{member}")
    return "\n".join(lines)


def _public(module: ModuleType) -> list[str]:
    members: dict[str, Any] = vars(module)
    if "__all__" in members:
        return list(members["__all__"])
    own = [name for name, value in members.items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in own if not name.startswith("_")]


def _entry(name: str, value: Any, path: str) -> Iterator[str]:
    yield from (f'### `{name}` {{ #{path} data-toc-label="{name}" }}', "")
    if inspect.ismodule(value):
        yield from (f"The module [`{value.__name__}`](#{value.__name__}), below.", "")
        return
    match ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]:
        case ast.ClassDef() as node:
            yield from _class(name, node)
        case ast.FunctionDef() as node:
            yield from _function(name, node, method=False)
        case node:
            raise TypeError(f"{path} is neither a class nor a function but {type(node).__name__}")


def _class(name: str, node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if made is not None:
        yield from _block(_signature(f"class {name}", made.args, None))
    else:
        yield from _block(f"class {name}({bases})" if bases else f"class {name}")
    yield from (markdown(ast.get_docstring(node)), "")
    if made is not None and (text := ast.get_docstring(made)):
        yield from (markdown(text), "")
    yield from _fields(node)
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and (not member.name.startswith("_") or member.name == "__call__"):
            if any(_is_name(each, "property", "cached_property") for each in member.decorator_list):
                returned = f": `{ast.unparse(member.returns)}`" if member.returns is not None else ""
                yield from (f"**`{member.name}`**{returned}", "", markdown(ast.get_docstring(member)), "")
            elif not any(_is_name(each, "overload") for each in member.decorator_list):
                yield from _function(member.name, member, method=True)


def _is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _fields(node: ast.ClassDef) -> list[str]:
    """The annotated members of a class with the docstring after each."""
    rows: list[tuple[str, str, str]] = []
    for member, following in zip_longest(node.body, node.body[1:]):
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            name = member.target.id
            if name.startswith("_"):
                continue
            default = f" = {ast.unparse(member.value)}" if member.value is not None else ""
            text = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = inline(" ".join(str(following.value.value).split()))
            rows.append((f"`{name}`", f"`{ast.unparse(member.annotation)}{default}`", text))
    if not any(text for _, _, text in rows):
        return [*table(("field", "type"), [row[:2] for row in rows]), ""] if rows else []
    return [*table(("field", "type", "meaning"), rows), ""]


def _function(name: str, node: ast.FunctionDef, *, method: bool) -> Iterator[str]:
    kinds = ("staticmethod", "classmethod")
    kind = next(
        (f"@{each.id}\n" for each in node.decorator_list if isinstance(each, ast.Name) and each.id in kinds), ""
    )
    yield from _block(_signature(f"{kind}def {name}", node.args, node.returns, skip=method and "static" not in kind))
    if text := ast.get_docstring(node):
        yield from (markdown(text), "")


def _block(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def _signature(head: str, arguments: ast.arguments, returns: ast.expr | None, *, skip: bool = True) -> str:
    """A signature as it stands in the source; ``skip`` leaves out the first parameter (``self``)."""
    arrow = f" -> {ast.unparse(returns)}" if returns is not None else ""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    texts = [_parameter(*pair) for pair in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        texts.insert(len(arguments.posonlyargs), "/")
    texts = texts[1:] if skip else texts
    if arguments.vararg is not None:
        texts.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [_parameter(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg is not None:
        texts.append(f"**{_parameter(arguments.kwarg, None)}")
    one_line = f"{head}({', '.join(texts)}){arrow}"
    if len(one_line.rpartition("\n")[2]) <= WIDTH:
        return one_line
    return f"{head}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def _parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {ast.unparse(parameter.annotation)}" if parameter.annotation is not None else ""
    equals = " = " if annotation else "="
    return f"{parameter.arg}{annotation}" + (f"{equals}{ast.unparse(default)}" if default is not None else "")
