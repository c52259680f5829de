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
