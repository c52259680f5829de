"""Error ids of the target descriptions: E06xx."""

from etir.diagnostics import define

E0601 = define(
    "E0601",
    "unknown target",
    "Use one of the targets that the message lists.",
)
E0602 = define(
    "E0602",
    "malformed target manifest or query",
    "Correct the entry that the message names; the format is described in etir.targets.manifest.",
)

E0603 = define(
    "E0603",
    "the target has no kernel for an operator",
    "Decompose the operator, delegate it, or register the kernel in a library of your own.",
)
E0604 = define(
    "E0604",
    "the target's kernel does not take a call",
    "Insert the cast or copy that the message suggests, or decompose the operator.",
)
E0606 = define(
    "E0606",
    "the target's runtime has nothing for an option",
    'Give every dim an upper bound instead: torch.export.Dim("name", max=...) for an input, torch._check(size <= ...) '
    "for a size from data; or take the target that the message names.",
)
E0605 = define(
    "E0605",
    "a kernel is in a library that is not linked",
    "Link the library that the message names (for the wheel: import it), and pass its name: link_libraries=[...], or "
    "--link-library NAME.",
)
