"""``--verify-roundtrip``: what is printed reads back as the same module, in both forms, with locations."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.tools.errors import E0904


def verify_roundtrip(module: ModuleOp, ctx: EtContext) -> None:
    """Raise error E0904 when the printed module does not parse, parses to another module, or prints differently."""
    for generic in (False, True):
        form = "generic" if generic else "custom"
        text = print_module(module, generic=generic, locations=True)
        try:
            again = parse_module(text, ctx.clone(), name=f"<{form} form>")
        except EtirError as error:
            first = error.diagnostics[0]
            line = text.split("\n")[first.location.line - 1] if first.location is not None else ""
            raise E0904.error(
                f"the {form} form does not parse: {first.message}", first.location, notes=[line.strip()]
            ) from None
        printed = print_module(again, generic=generic, locations=True)
        if printed != text:
            number, old, new = _first_difference(text, printed)
            raise E0904.error(
                f"the {form} form changes when it is read and printed again",
                SourceLocation(f"<{form} form>", number),
                notes=[f"first:  {old}", f"second: {new}"],
            )
        if not module.is_structurally_equivalent(again):
            raise E0904.error(f"the {form} form loses something that it does not print")


def _first_difference(first: str, second: str) -> tuple[int, str, str]:
    lines, others = first.split("\n"), second.split("\n")
    for number, (a, b) in enumerate(zip(lines, others, strict=False), 1):
        if a != b:
            return number, a.strip(), b.strip()
    number = min(len(lines), len(others)) + 1
    return number, "".join(lines[number - 1 : number]).strip(), "".join(others[number - 1 : number]).strip()
