"""The passes of language models as a list, to be run on an imported program before it is compiled.

::

    module = import_program(program)
    run_pipeline(EtContext(), module, language_model_passes("etir"))
    etir.compile(module, target="etir")

They work on values without in-place changes, hence ``functionalize`` comes first. ``etir.compile`` runs none of them:
what a program without them compiles to does not depend on them.

Those that come later, around what lowers a program to the backend level, are in ``llm/fusing.py``, since the compiler's
own passes are among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.passes import ModulePass

from etir.llm.passes.absorb_latents import AbsorbLatentsPass
from etir.llm.passes.attend_by_position import AttendByPositionPass
from etir.llm.passes.cache_types import CacheType
from etir.llm.passes.fuse_eager_attention import FuseEagerAttentionPass
from etir.llm.passes.halve_cache import HalfType, HalveCachePass
from etir.llm.passes.last_logits import LastLogitsPass
from etir.llm.passes.quantize_cache import QuantizeCachePass
from etir.llm.passes.ring_cache import RingCachePass
from etir.llm.passes.sequence_first_cache import SequenceFirstCachePass
from etir.lowering.functionalize import FunctionalizePass
from etir.passes.generic.dce import DcePass
from etir.targets.manifest import load

HALVED: dict[CacheType, HalfType] = {"float16": "f16", "bfloat16": "bf16"}
"""Caches of two bytes beside queries of float32, with the ``dtype`` of ``halve-cache``."""
_LIBRARIES: dict[CacheType, tuple[str, ...]] = {
    "float32": ("custom_ops",),
    **dict.fromkeys(HALVED, ("custom_ops",)),
    "int8": ("custom_ops", "quantized"),
}
"""The libraries in which the stock runtime has the kernels."""


def link_libraries(target: str, cache: CacheType = "float32") -> tuple[str, ...]:
    """The libraries of a target that programs with these passes call: what ``link_libraries`` of the compiler takes.

    Raises E0601 for an unknown target.
    """
    known = load(target).libraries
    return tuple(name for name in _LIBRARIES[cache] if not known.get(name, True))


def language_model_passes(
    target: str,
    *,
    last_logits: bool = True,
    attention: bool = True,
    cache: CacheType = "float32",
    libraries: tuple[str, ...] | None = None,
) -> tuple[ModulePass, ...]:
    """What is run on a module at level ``aten``, in order.

    ``last_logits`` computes the logits of the last position only, ``[1, V]``. ``attention`` lets attention over caches
    end at the last position; ``cache`` is what the caches of such attention hold. ``libraries`` are those of the
    target's libraries that are linked; None: :func:`link_libraries`. Raises E0601 for an unknown target.
    """
    linked = link_libraries(target, cache) if libraries is None else libraries
    return tuple(_passes(target, linked, last_logits, attention, cache))


def _passes(
    target: str, libraries: tuple[str, ...], last_logits: bool, attention: bool, cache: CacheType
) -> Iterator[ModulePass]:
    yield FunctionalizePass()
    if last_logits:
        yield LastLogitsPass()
    if attention:
        yield FuseEagerAttentionPass()
        yield AbsorbLatentsPass(target, libraries)
        yield AttendByPositionPass(target, libraries)
        yield RingCachePass(target, libraries)
        yield DcePass()  # what attention was computed by before: it reads whole caches
        yield SequenceFirstCachePass()
        if cache in HALVED:
            yield HalveCachePass(target, libraries, HALVED[cache])
        elif cache == "int8":
            yield QuantizeCachePass(target, libraries)
    yield DcePass()  # masks that nothing reads any more, and what they were computed from
