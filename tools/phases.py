"""``--compile-from`` and ``--compile-to``: named phases as pipelines.

The table is ``lowering.pipeline.PHASES``: for each phase, the passes that lead into it from the one before.
"""

from __future__ import annotations

from etir.tools.errors import E0908


def phase_pipeline(start: str | None, end: str | None) -> str:
    """The pipeline from phase ``start`` (the first one if None) to phase ``end`` (the last one if None).

    Raises error E0908 for an unknown phase, or one that comes before the start.
    """
    from etir.lowering.pipeline import PHASES

    names = list(PHASES)
    for name in (start, end):
        if name is not None and name not in PHASES:
            raise E0908.error(f"there is no phase '{name}'; the phases are {', '.join(names)}")
    first = 0 if start is None else names.index(start)
    last = len(names) - 1 if end is None else names.index(end)
    if last < first:
        raise E0908.error(f"phase '{names[last]}' comes before '{names[first]}'; the order is {', '.join(names)}")
    return ",".join(spec for name in names[first + 1 : last + 1] for spec in PHASES[name])
