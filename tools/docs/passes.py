"""The reference of passes: what each does, its options, and its module's account of it."""

from __future__ import annotations

import inspect

from etir.tools.docs.text import markdown, table


def passes_part() -> str:
    """Every pass of the registry with its documentation and options."""
    from etir.passes.infra.pipeline import pass_options
    from etir.passes.infra.registry import ALIASES, find_pass, own_passes

    lines: list[str] = []
    for name in own_passes():
        cls = find_pass(name)
        module = inspect.getmodule(cls)
        lines += ["", f"## `{name}`", "", markdown(inspect.getdoc(cls))]
        if former := [f"`{old}`" for old, new in ALIASES.items() if new == name]:
            lines += [
                "",
                f"Once called {', '.join(former)}: that name still works, with a warning ([E0509](errors.md#E0509)).",
            ]
        options = [(f"`{o.name}`", f"`{o.type}`", _default_text(o.default)) for o in pass_options(cls)]
        if options:
            lines += ["", *table(("option", "type", "default"), options)]
        if module is not None and (text := inspect.getdoc(module)):
            lines += ["", f"From `{module.__name__}`:", "", markdown(text)]
    return "\n".join(lines) + "\n"


def _default_text(default: str | None) -> str:
    return "required" if default is None else f"`{default}`"
