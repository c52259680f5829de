"""The compiler as a list of passes: one function from options to pass instances.

``etir.compile``, ``et-compile`` and ``et-opt --compile-to`` run what :func:`pipeline` builds; ``--print-pipeline``
prints it as text for ``et-opt -p``, and the documentation's table of phases is made from it. Every phase is one
function: its passes in the order in which they run, each with the reason why it is there. It imports them itself, so
that a tool that stops at a phase does not load what comes after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from xdsl.passes import ModulePass

from etir.errors import E0908, E0914
from etir.options import CompileOptions
from etir.passes.errors import E0521, E0522
from etir.passes.infra.pipeline import PassSpec, make_pass, parse_pipeline, parse_specs, pipeline_text
from etir.passes.infra.registry import replacement
from etir.phases import PHASES


@dataclass(frozen=True)
class Step:
    """A pass of the pipeline, why it runs at that place, and the option without which it does not."""

    run: ModulePass
    why: str
    option: str = ""


@dataclass(frozen=True)
class Stage:
    """The passes that lead into a phase from the one before."""

    phase: str
    steps: tuple[Step, ...]


def pipeline(
    options: CompileOptions | None = None, start: str = "aten", stop: str = "et", *, marked: bool = False
) -> tuple[ModulePass, ...]:
    """The passes from phase ``start`` (already reached) to phase ``stop``.

    Without ``options`` they are the defaults; ``marked`` says that the module has partitions or outlined functions
    already. Raises what :func:`stages` does.
    """
    return tuple(step.run for stage in stages(options, start, stop, marked=marked) for step in stage.steps)


def stages(
    options: CompileOptions | None = None, start: str = "aten", stop: str = "et", *, marked: bool = False
) -> tuple[Stage, ...]:
    """The passes from phase ``start`` to phase ``stop``, by the phase that they lead into.

    Raises error E0908 for an unknown phase or a stop before the start, E0521 and E0522 for an optimizer or state
    methods after phase ``aten``, E0502 and E0503 for an unknown optimizer or wrong options of it, and for what the
    options name what :meth:`CompileOptions.resolved` does.
    """
    o = (options or CompileOptions()).resolved()
    for name in (start, stop):
        if name not in PHASES:
            raise E0908.error(f"there is no phase '{name}'; the phases are {', '.join(PHASES)}")
    first, last = PHASES.index(start), PHASES.index(stop)
    if last < first:
        raise E0908.error(f"phase '{stop}' comes before '{start}'; the order is {', '.join(PHASES)}")
    late = f"the module is at level '{start}' already; the pass works at level 'aten'"
    if o.optimizer is not None and start != "aten":
        raise E0521.error(late)
    if o.state_methods is not False and start != "aten":
        raise E0522.error(late)
    lead = {
        "core": lambda: _core(o),
        "edge": _edge,
        "backend": lambda: _backend(o, marked),
        "et": lambda: _et(o, marked, resumed=start == "backend"),
    }
    return tuple(Stage(phase, tuple(map(_current, lead[phase]()))) for phase in PHASES[first + 1 : last + 1])


def _current(step: Step) -> Step:
    """The step with the pass that was registered to replace etir's own, with the same options."""
    if replacement(step.run.name) is None:
        return step
    return replace(step, run=parse_pipeline(pipeline_text([step.run]))[0])


def _core(o: CompileOptions) -> Iterator[Step]:
    from etir.lowering.decompose_aten.driver import DecomposeAtenPass
    from etir.lowering.functionalize import FunctionalizePass
    from etir.lowering.verify_core_aten import VerifyCoreAtenPass
    from etir.passes.aten.freeze_fake_quantization import FreezeFakeQuantizationPass
    from etir.passes.aten.gather_quantized_rows import GatherQuantizedRowsPass
    from etir.passes.aten.integer_products_to_layers import IntegerProductsToLayersPass
    from etir.passes.aten.state_methods import StateMethodsPass

    yield Step(FreezeFakeQuantizationPass(), "what training pretended to quantize is quantized")
    yield Step(FunctionalizePass(), "in-place operators and views become values and explicit writes")
    if o.optimizer is not None:
        yield Step(_optimizer(o.optimizer), "the update of the parameters is a part of the program", "optimizer")
    if o.state_methods is not False:
        match = () if o.state_methods is True else o.state_methods
        yield Step(StateMethodsPass(match), "state is read and written from outside", "state_methods")
    yield Step(GatherQuantizedRowsPass(o.target, o.link_libraries), "only rows that are looked up are multiplied out")
    yield Step(
        IntegerProductsToLayersPass(o.target, o.delegates, o.link_libraries),
        "integer products that are written out are layers, which are one call",
    )
    yield Step(
        DecomposeAtenPass(target=o.target, delegates=o.delegates, libraries=o.link_libraries),
        "fewer operators for every later pass to know; what the target or a delegate has a kernel for is preserved",
    )
    yield Step(
        VerifyCoreAtenPass(target=o.target, delegates=o.delegates),
        "nothing is left that no target can be expected to know",
    )


def _edge() -> Iterator[Step]:
    from etir.lowering.aten_to_edge import AtenToEdgePass
    from etir.lowering.verify_edge import VerifyEdgePass
    from etir.passes.edge.fold_batch_norm import FoldBatchNormPass
    from etir.passes.edge.fold_constants import FoldConstantsPass
    from etir.passes.generic.canonicalize import CanonicalizePass
    from etir.passes.generic.cse import CsePass
    from etir.passes.generic.cse_symbolic_sizes import CseSymbolicSizesPass
    from etir.passes.generic.dce import DcePass

    yield Step(AtenToEdgePass(), "copies for views, dim orders for memory formats, no scalars in tensor slots")
    yield Step(CanonicalizePass(), "constants and views in the forms that the folding passes look for")
    yield Step(FoldConstantsPass(), "what does not depend on an input is computed now")
    yield Step(FoldBatchNormPass(), "batch normalization moves into the weights of the convolution before it")
    yield Step(CanonicalizePass(), "folding leaves operations that simplify")
    yield Step(CseSymbolicSizesPass(), "equal symbolic sizes are one value, so that `cse` sees what is equal")
    yield Step(CsePass(), "what is computed twice is computed once")
    yield Step(DcePass(), "what nobody reads is dropped, with the weights of it")
    yield Step(VerifyEdgePass(), "the rules of the edge level, which delegates and export rely on")


def _backend(o: CompileOptions, marked: bool) -> Iterator[Step]:
    from etir.backends.api.integer_kernels import fuses_pairs
    from etir.backends.api.registry import leave_integers
    from etir.passes.backend.add_in_product import AddInProductPass
    from etir.passes.backend.drop_unused_indices import DropUnusedIndicesPass
    from etir.passes.backend.elide_views import ElideViewsPass
    from etir.passes.backend.fuse_gelu import FuseGeluPass
    from etir.passes.edge.commute_transpose_into_matmul import CommuteTransposeIntoMatmulPass
    from etir.passes.edge.legalize_dim_order import LegalizeDimOrderPass
    from etir.passes.edge.reinplace_scatter import ReinplaceScatterPass
    from etir.passes.generic.canonicalize import CanonicalizePass
    from etir.passes.generic.cse_symbolic_sizes import CseSymbolicSizesPass
    from etir.passes.generic.dce import DcePass

    integers_first = leave_integers(o.delegates)
    if o.delegates:
        from etir.passes.delegation.decompose_preserved import DecomposePreservedPass
        from etir.passes.delegation.partition import PartitionPass
        from etir.passes.delegation.verify_fallback import VerifyFallbackPass
        from etir.passes.edge.normalize_quantization import NormalizeQuantizationPass

        p = o.partition
        shares = (o.shares_state and p.own_state) if p.share_state is None else p.share_state
        yield Step(
            NormalizeQuantizationPass(o.delegates), "integers in the form that delegates compute on", "delegates"
        )
        if integers_first:
            yield from _integers(o)
        yield Step(
            DecomposePreservedPass(target=o.target, backend=o.delegates, libraries=o.link_libraries),
            "what was preserved for a delegate that does not claim it is decomposed after all",
            "delegates",
        )
        yield Step(
            PartitionPass(
                backend=o.delegates,
                exclude=p.exclude,
                min_ops=p.min_ops,
                leave=p.leave,
                cut=p.cut,
                split=p.split,
                own_state=p.own_state,
                share_state=shares,
                what_if=p.what_if,
            ),
            "what goes to which",
            "delegates",
        )
        yield Step(
            DecomposePreservedPass(target=o.target, libraries=o.link_libraries),
            "the same for what is in no partition",
            "delegates",
        )
        yield Step(
            VerifyFallbackPass(o.fallback),
            "whether the fallback is allowed is known before the target is asked whether it could run it",
            "delegates",
        )
    if o.delegates or marked:
        from etir.passes.delegation.outline_delegates import OutlineDelegatesPass
        from etir.passes.delegation.verify_partitions import VerifyPartitionsPass

        yield Step(VerifyPartitionsPass(), "partitions may have been edited by hand", "delegates")
        yield Step(
            OutlineDelegatesPass(o.partition.shared_constants), "each partition is a function and a call", "delegates"
        )
    if not integers_first:
        yield from _integers(o)
    yield Step(DropUnusedIndicesPass(o.target, o.link_libraries), "pools without indices, where there is a kernel")
    if fuses_pairs(o.target, o.link_libraries):
        from etir.passes.delegation.decompose_preserved import DecomposePreservedPass

        yield Step(
            DecomposePreservedPass(target=o.target, libraries=o.link_libraries, fused=True),
            "the target has no kernels for the pairs of integers that are left",
            "link_libraries",
        )
    yield Step(FuseGeluPass(o.target), "one operator in place where models write out a formula")
    yield Step(LegalizeDimOrderPass(target=o.target), "copies where no kernel of the target takes a dim order")
    yield Step(ReinplaceScatterPass(), "parts of state are written with `index_put`, which has an in-place kernel")
    yield Step(CommuteTransposeIntoMatmulPass(), "of a product with a transposed matrix, what is small is transposed")
    yield Step(CanonicalizePass(), "copies that cancel out are gone before views are looked for")
    yield Step(AddInProductPass(o.target, o.link_libraries), "sums are written over what is added to a product")
    yield Step(ElideViewsPass(), "copies that move no byte become views")
    yield Step(CseSymbolicSizesPass(), "views compute sizes of their own")
    yield Step(DcePass(), "the copies that became views")
    yield Step(_link(o), "every operator has a kernel that takes it")


def _integers(o: CompileOptions) -> Iterator[Step]:
    from etir.passes.backend.fuse_quantized.driver import FuseQuantizedPass
    from etir.passes.edge.propagate_quantization import PropagateQuantizationPass

    yield Step(PropagateQuantizationPass(), "integers are moved as such, a fourth of the bytes")
    yield Step(
        FuseQuantizedPass(o.target, o.link_libraries), "what is between integers is computed on them, by a kernel"
    )
    if o.prefer == "speed":
        from etir.passes.edge.fold_constants import FoldConstantsPass
        from etir.passes.generic.dce import DcePass

        yield Step(FoldConstantsPass(expand=True), "weights that are left are multiplied out once, now", "prefer")
        yield Step(DcePass(), "their integers", "prefer")


def _et(o: CompileOptions, marked: bool, *, resumed: bool) -> Iterator[Step]:
    from etir.lowering.to_out_variant import ToOutVariantPass
    from etir.passes.backend.externalize_weights import ExternalizeWeightsPass
    from etir.passes.et.partial_execution import PartialExecutionPass, computes_parts
    from etir.passes.et.plan_memory import PlanMemoryPass
    from etir.passes.et.rematerialize import RematerializePass
    from etir.passes.et.schedule_instructions import ScheduleInstructionsPass
    from etir.passes.et.verify_plan import VerifyPlanPass

    external = [
        *((ExternalizeWeightsPass(file.tag, file.match), "external_weights") for file in o.external_weights),
        *((ExternalizeWeightsPass(file.tag, file.match, what="state"), "external_state") for file in o.external_state),
    ]
    if resumed:
        yield Step(_link(o), "the text may come from elsewhere")
    if o.delegates or marked:
        from etir.passes.delegation.legalize_delegates import LegalizeDelegatesPass
        from etir.passes.delegation.lower_delegates import LowerDelegatesPass

        for p, option in external:
            yield Step(p, "some delegates leave weights where they are", option)
        yield Step(LegalizeDelegatesPass(), "functions in the dialects of their backends", "delegates")
        yield Step(LowerDelegatesPass(), "functions become the bytes that backends run", "delegates")
    # Folding has made its constants by now; what is a weight here is a weight of the file.
    for p, option in external:
        yield Step(p, "kept beside the program, also what delegates made", option)
    yield Step(
        ToOutVariantPass(o.plan_inputs, o.plan_outputs, _checks(o.target), o.unbounded),
        "functional operators become kernel calls over buffers, regions become jumps; inputs are checked",
    )
    yield Step(ScheduleInstructionsPass(target=o.target), "what waits in memory is computed later, where that is less")
    yield Step(RematerializePass(target=o.target), "masks are computed again instead of kept, where that is less")
    if computes_parts(o.target):
        yield Step(PartialExecutionPass(target=o.target), "large tensors are made and read part by part")
    yield Step(PlanMemoryPass(share_state=o.shares_state, target=o.target), "a place for every buffer")
    yield Step(VerifyPlanPass(target=o.target), "places are checked by other code than made them")


def checks(o: CompileOptions, phase: str) -> Iterator[Step]:
    """What is asked of a module that is text before anything is made of it: what the importer and the passes before
    ``phase`` would have made true.
    """
    if phase != "et":
        from etir.lowering.verify_types import VerifyTypesPass

        yield Step(VerifyTypesPass(), "declared types follow from the operands")
        return
    from etir.passes.et.verify_calls import VerifyCallsPass
    from etir.passes.et.verify_plan import VerifyPlanPass

    yield Step(VerifyCallsPass(o.target, o.link_libraries), "instructions fit the kernels that they call")
    yield Step(VerifyPlanPass(target=o.target), "places may have been edited by hand")


def _link(o: CompileOptions) -> ModulePass:
    from etir.passes.backend.verify_link import VerifyLinkPass

    return VerifyLinkPass(o.target, o.link_libraries, o.link_backends)


def _checks(target: str) -> Literal["none", "kernel", "jump"]:
    """How a runtime can check what a program requires."""
    from etir.targets.manifest import load

    manifest = load(target)
    if manifest.lookup("etir::check_size") is not None:
        return "kernel"
    return "jump" if manifest.lookup("executorch_prim::ge.Scalar") is not None else "none"


def _optimizer(text: str) -> ModulePass:
    """The pass of ``sgd{lr=0.1}``."""
    name, brace, rest = text.partition("{")
    specs = parse_specs(f"{name}-step{brace}{rest}")
    if len(specs) != 1:
        raise E0914.error(f"option 'optimizer' takes one optimizer with its options, not {text!r}")
    options = tuple((option, values, None) for option, values, _ in specs[0].options)
    return make_pass(PassSpec(specs[0].name, options, None))  # Places in this text would tell the user nothing.
