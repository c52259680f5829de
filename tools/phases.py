"""``--compile-from`` and ``--compile-to``: named phases as pipelines, from the table ``lowering.pipeline.PHASES``."""

from __future__ import annotations

from collections.abc import Sequence

from etir.tools.errors import E0908


def phase_pipeline(
    start: str | None, stop: str | None, target: str, delegates: Sequence[str] = (), *, marked: bool = False
) -> str:
    """The pipeline from phase ``start`` (the first one if None) to phase ``stop`` (the last one if None).

    ``delegates`` are backends as ``xnnpack{option=value}``; ``marked`` says that the module has partitions or outlined
    functions already. Raises error E0908 for an unknown phase, or a stop that comes before the start, and E1101, E1107
    and E1110 for wrong delegates.
    """
    from etir.backends.api.registry import parse_delegate
    from etir.lowering.pipeline import PHASES, pipeline

    names = list(PHASES)
    start, stop = start or names[0], stop or names[-1]
    for name in (start, stop):
        if name not in PHASES:
            raise E0908.error(f"there is no phase '{name}'; the phases are {', '.join(names)}")
    if names.index(stop) < names.index(start):
        raise E0908.error(f"phase '{stop}' comes before '{start}'; the order is {', '.join(names)}")
    texts = [parse_delegate(text).text for text in delegates]
    return ",".join(pipeline(start=start, stop=stop, target=target, delegates=texts, marked=marked))
