"""``--compile-from`` and ``--compile-to``: named phases as pipelines, from the table ``lowering.pipeline.PHASES``."""

from __future__ import annotations

from etir.tools.errors import E0908


def phase_pipeline(start: str | None, stop: str | None, target: str) -> str:
    """The pipeline from phase ``start`` (the first one if None) to phase ``stop`` (the last one if None).

    Raises error E0908 for an unknown phase, or a stop that comes before the start.
    """
    from etir.lowering.pipeline import PHASES, pipeline

    names = list(PHASES)
    start, stop = start or names[0], stop or names[-1]
    for name in (start, stop):
        if name not in PHASES:
            raise E0908.error(f"there is no phase '{name}'; the phases are {', '.join(names)}")
    if names.index(stop) < names.index(start):
        raise E0908.error(f"phase '{stop}' comes before '{start}'; the order is {', '.join(names)}")
    return ",".join(pipeline(start=start, stop=stop, target=target))
