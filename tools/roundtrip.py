"""``--verify-roundtrip``: what is printed reads back as the same module, in both forms, with its locations."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module, source_location
from etir.tools.errors import E0904


def verify_roundtrip(module: ModuleOp, ctx: EtContext) -> None:
    """Raise error E0904 when the printed module does not parse, parses to another module, or prints differently."""
    for generic in (False, True):
        form = "generic" if generic else "custom"
        again = _read_back(module, ctx, form)
        first, second = (print_module(m, generic=generic) for m in (module, again))
        if first != second:
            number, old, new = _first_difference(first, second)
            raise E0904.error(
                f"the {form} form changes when it is read and printed again",
                SourceLocation(f"<{form} form>", number),
                notes=[f"first:  {old}", f"second: {new}"],
            )
        if not module.is_structurally_equivalent(again):
            raise E0904.error(f"the {form} form loses something that it does not print")
        for op, other in zip(module.walk(), again.walk(), strict=True):
            if op.location != other.location and not isinstance(op.location, UnknownLoc):
                raise E0904.error(
                    f"the {form} form changes the location of '{op.name}' to {other.location}",
                    source_location(op.location),
                )


def _read_back(module: ModuleOp, ctx: EtContext, form: str) -> ModuleOp:
    text = print_module(module, generic=form == "generic", locations=True)
    try:
        return parse_module(text, ctx.clone(), name=f"<{form} form>")
    except EtirError as error:
        first = error.diagnostics[0]
        notes = [] if first.location is None else [text.split("\n")[first.location.line - 1].strip()]
        raise E0904.error(f"the {form} form does not parse: {first.message}", first.location, notes=notes) from None


def _first_difference(first: str, second: str) -> tuple[int, str, str]:
    """Number of the first line that differs, and what stands there in both texts."""
    lines, others = first.split("\n"), second.split("\n")
    number = next(
        (i for i, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b), min(len(lines), len(others))
    )
    return number + 1, "".join(lines[number : number + 1]).strip(), "".join(others[number : number + 1]).strip()
