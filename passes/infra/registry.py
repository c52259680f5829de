"""Passes by name. A pass is imported when it is first asked for, so that starting a tool imports none.

Plug-ins add passes and dialects through the entry-point group ``etir.plugins``: each entry point names a
:class:`Plugin`. docs/tutorial/pass.md shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from etir.passes.errors import E0502

PASSES: dict[str, str] = {
    "verify-edge": "etir.lowering.verify_edge:VerifyEdgePass",
    "decompose-aten": "etir.lowering.decompose_aten.driver:DecomposeAtenPass",
    "externalize-weights": "etir.passes.backend.externalize_weights:ExternalizeWeightsPass",
    "share-sizes": "etir.passes.generic.share_sizes:ShareSizesPass",
    "verify-core-aten": "etir.lowering.verify_core_aten:VerifyCoreAtenPass",
    "legalize-dim-order": "etir.passes.edge.legalize_dim_order:LegalizeDimOrderPass",
    "verify-link": "etir.passes.backend.verify_link:VerifyLinkPass",
    "fold-batch-norm": "etir.passes.edge.fold_batch_norm:FoldBatchNormPass",
    "fold-constants": "etir.passes.edge.fold_constants:FoldConstantsPass",
    "canonicalize": "etir.passes.generic.canonicalize:CanonicalizePass",
    "apply-pdl": "etir.passes.generic.apply_pdl:ApplyPdlPass",
    "cse": "etir.passes.generic.cse:CsePass",
    "dce": "etir.passes.generic.dce:DcePass",
    "functionalize": "etir.lowering.functionalize:FunctionalizePass",
    "aten-to-edge": "etir.lowering.aten_to_edge:AtenToEdgePass",
    "elide-views": "etir.passes.backend.elide_views:ElideViewsPass",
    "plan-memory": "etir.passes.et.plan_memory:PlanMemoryPass",
    "verify-plan": "etir.passes.et.verify_plan:VerifyPlanPass",
    "partition": "etir.passes.delegation.partition:PartitionPass",
    "verify-fallback": "etir.passes.delegation.verify_fallback:VerifyFallbackPass",
    "verify-partitions": "etir.passes.delegation.verify_partitions:VerifyPartitionsPass",
    "outline-delegates": "etir.passes.delegation.outline_delegates:OutlineDelegatesPass",
    "release-kept": "etir.passes.delegation.release_kept:ReleaseKeptPass",
    "legalize-delegates": "etir.passes.delegation.legalize_delegates:LegalizeDelegatesPass",
    "lower-delegates": "etir.passes.delegation.lower_delegates:LowerDelegatesPass",
    "scatter-in-place": "etir.passes.edge.scatter_in_place:ScatterInPlacePass",
    "transpose-small-side": "etir.passes.edge.transpose_small_side:TransposeSmallSidePass",
    "sgd-step": "etir.passes.training.sgd_step:SgdStepPass",
    "adam-step": "etir.passes.training.adam_step:AdamStepPass",
    "adamw-step": "etir.passes.training.adam_step:AdamwStepPass",
    "state-methods": "etir.passes.aten.state_methods:StateMethodsPass",
    "to-out-variant": "etir.lowering.to_out_variant:ToOutVariantPass",
}
"""Pass name to ``module:Class``."""


@dataclass(frozen=True)
class Plugin:
    """What a plug-in adds: passes as ``module:Class`` or as classes, dialects as functions that load them."""

    passes: Mapping[str, str | type[ModulePass]] = field(default_factory=dict[str, "str | type[ModulePass]"])
    dialects: Mapping[str, Callable[[], Dialect]] = field(default_factory=dict[str, Callable[[], Dialect]])


@cache
def plugins() -> tuple[Plugin, ...]:
    """The installed plug-ins, in the order of their entry points' names."""
    from importlib.metadata import entry_points  # slow to import, and most runs need no plug-in

    found = sorted(entry_points(group="etir.plugins"), key=lambda entry: entry.name)
    return tuple(entry.load() for entry in found)


def all_passes() -> dict[str, str | type[ModulePass]]:
    """Every pass by name: etir's own, then those of plug-ins. A plug-in cannot replace a pass."""
    passes: dict[str, str | type[ModulePass]] = dict(PASSES)
    for plugin in plugins():
        for name, target in plugin.passes.items():
            passes.setdefault(name, target)
    return passes


def find_pass(name: str) -> type[ModulePass]:
    """The class of a pass. Raises error E0502 for an unknown name, with the nearest known ones."""
    target = PASSES.get(name) or all_passes().get(name)
    if target is None:
        from difflib import get_close_matches

        near = get_close_matches(name, all_passes(), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise E0502.error(f"there is no pass '{name}'{hint}")
    if not isinstance(target, str):
        return target
    module, _, cls = target.partition(":")
    return getattr(import_module(module), cls)
