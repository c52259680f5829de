"""The phases of a compilation and the passes that lead into each.

A phase is a place to stop (``--compile-to=edge``), to look, or to start again from text (``--compile-from=backend``).
The table is the pipeline: the driver, the tools and the documentation read it. ``{target}`` stands for the target's
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from etir.dialects.et.payloads import DelegateOp
from etir.passes.infra.pipeline import value_text

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

PHASES: dict[str, tuple[str, ...]] = {
    "aten": (),
    "core": ("functionalize", "decompose-aten{target={target}}", "verify-core-aten{target={target}}"),
    "edge": (
        "aten-to-edge",
        "canonicalize",
        "fold-constants",
        "fold-batch-norm",
        "canonicalize",
        "share-sizes",
        "cse",
        "dce",
        "verify-edge",
    ),
    "backend": (
        "legalize-dim-order{target={target}}",
        "scatter-in-place",
        "transpose-small-side",
        "canonicalize",
        "elide-views",
        "share-sizes",
        "dce",
        "verify-link{target={target}}",
    ),
    "et": ("to-out-variant", "plan-memory", "verify-plan"),
}
"""Phase to the passes that lead into it from the phase before."""


PARTITIONING: tuple[str, ...] = (
    "release-kept{target={target} backend={delegates}}",
    "partition{backend={delegates}}",
    "release-kept{target={target}}",
    "verify-partitions",
    "outline-delegates",
)
"""What comes first behind the edge level when backends are named; they are ``{delegates}``."""

BLOBS: tuple[str, ...] = ("legalize-delegates", "lower-delegates")
"""What comes first behind the backend level when functions were outlined."""


def pipeline(
    *,
    start: str = "aten",
    stop: str = "et",
    target: str = "executorch",
    delegates: Sequence[str] = (),
    marked: bool = False,
) -> tuple[str, ...]:
    """The passes from phase ``start`` (already reached) to phase ``stop``, with the delegates in order of preference.

    ``marked`` says that the module has partitions or outlined functions already. Raises ``ValueError`` for unknown
    phases.
    """
    names = list(PHASES)
    for phase in (start, stop):
        if phase not in PHASES:
            raise ValueError(f"there is no phase '{phase}'; the phases are {', '.join(names)}")
    texts = ",".join(value_text(text) for text in delegates)
    passes: list[str] = []
    for name in names[names.index(start) + 1 : names.index(stop) + 1]:
        own = list(PHASES[name])
        if delegates and name == "core":
            own = [spec.replace("{target={target}}", f"{{target={{target}} delegates={texts}}}") for spec in own]
        elif delegates and name == "backend":
            own = [*PARTITIONING, *own]
        elif marked and name == "backend":
            own = [*PARTITIONING[-2:], *own]
        elif (delegates or marked) and name == "et":
            own = [*BLOBS, *own]
        passes += own
    return tuple(spec.replace("{target}", target).replace("{delegates}", texts) for spec in passes)


def phase_of(module: ModuleOp) -> str:
    """The phase that a module has reached, told by its operations: where its compilation goes on.

    Core ATen is a part of ATen, so such a module starts at ``aten``: what is decomposed already stays as it is.
    """
    from xdsl.dialects.builtin import SymbolRefAttr

    found = "aten"
    # A program that was imported with blobs in it calls them at every level.
    blobs = [SymbolRefAttr(op.sym_name.data) for op in module.body.block.ops if isinstance(op, DelegateOp)]
    for op in module.walk():
        if op.name == "et.method":
            return "et"
        if op.name.startswith("backend."):
            if op.name != "backend.call_delegate" or op.properties["callee"] not in blobs:
                found = "backend"
        elif op.name.startswith("edge.") and found == "aten":
            found = "edge"
    return found
