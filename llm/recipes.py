"""A language model on integers: the steps of a recipe, one after the other.

Each step is a recipe of ``etir.quantize``, and what is quantized already stays as it is. That is also what keeps the
integers of a GGUF file (:mod:`~etir.llm.kept_blocks`), which are written first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import AnyFloat, ModuleOp

from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.et.program import GetWeightOp
from etir.dialects.text import source_location
from etir.llm.checkpoint.blocks import Blocks
from etir.llm.errors import E1608
from etir.llm.kept_blocks import LINEAR, TABLE, keep_blocks, layers
from etir.llm.recipe_names import ModelRecipe
from etir.options import CompileOptions
from etir.passes.infra.base import methods
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.quantization.errors import E1502, E1506
from etir.quantization.passes.batched_products_to_layers import BatchedProductsToLayersPass
from etir.quantization.passes.experts_to_layers import ExpertsToLayersPass
from etir.quantization.passes.lower_expert_layers import LowerExpertLayersPass
from etir.quantization.passes.products_to_layers import ProductsToLayersPass
from etir.quantization.report import QuantizationReport

CHOICE = "aten.topk.default"
"""What chooses experts by the results of a layer."""
_FACTORS = ("_scales", "_zero_points")
"""Ends of names of what belongs to integers."""


@dataclass(frozen=True)
class Rounding:
    """How integers of weights are chosen, as ``etir.quantize`` says, and inputs to see for methods that look."""

    method: str | None = None
    samples: Sequence[Sequence[Any]] = ()


def quantize_model(
    module: ModuleOp, recipe: ModelRecipe, blocks: Mapping[str, Blocks], options: CompileOptions, rounding: Rounding
) -> tuple[ModuleOp, list[QuantizationReport], list[str]]:
    """The module, at the edge level, on integers as the recipe says; a report for each step, and remarks.

    ``blocks`` are weights that are integers already, by name; the head's and the table's among them. Raises E1608 where
    the target has no kernels for the recipe, else what ``etir.quantize`` does.
    """
    from etir.backends.api.registry import backend_dialects
    from etir.dialects.context import EtContext

    batched = BatchedProductsToLayersPass(options.target, options.link_libraries)
    run_pipeline(EtContext(), module, [ProductsToLayersPass(), batched, ExpertsToLayersPass()], PipelineOptions())
    head = _head(module)
    kept = {name: found for name, found in blocks.items() if _fits(name, found, recipe, options, head)}
    remarks: list[str] = []
    weights = dict.fromkeys(name for _, name in layers(module) if name in blocks)
    done = keep_blocks(module, kept, dynamic=recipe.layers == "8da4w")
    if weights:
        remarks.append(f"{len(done)} of {len(weights)} weights that are integers in the file stay as they are")
    routers = _routers(module)
    steps = (
        (recipe.layers, (*((head.module,) if head.module else ()), TABLE)),
        ("dynamic-int8" if options.delegates else recipe.head, (TABLE,)),
        ("weight-int8", ()),
    )
    reports: list[QuantizationReport] = []
    for step, (name, skip) in enumerate(steps):
        if name == recipe.head == recipe.layers:
            skip = ()
        found = _quantized(module, name, (*skip, *routers), options, rounding if step == 0 else Rounding())
        if found is None:
            continue
        module, report = found
        reports.append(report)
    # Of experts that no step has taken.
    lower = LowerExpertLayersPass(options.target, options.link_libraries)
    run_pipeline(EtContext(dialects=backend_dialects()), module, [lower], PipelineOptions())
    return module, reports, [*remarks, *_left(module)]


def _left(module: ModuleOp) -> list[str]:
    """What is said of matrices that no step has made integers, where a good part of the weights is in them: those of
    experts, above all, which are no linear layers.
    """
    reads = [op for method in methods(module) for op in method.walk() if isinstance(op, GetWeightOp)]
    types = {op.symbol.root_reference.data: tensor_of(op.results[0]) for op in reads}
    sizes = {name: prod(type.get_shape()) for name, type in types.items() if len(type.get_shape()) > 1}
    left = [name for name in sizes if isinstance(types[name].element_type, AnyFloat) and not name.endswith(_FACTORS)]
    numbers = sum(sizes[name] for name in left)
    if numbers * 10 <= sum(sizes.values()):
        return []
    return [
        f"{numbers:,} of {sum(sizes.values()):,} weights are floating point still, as those of "
        f"'{max(left, key=lambda name: sizes[name])}': only linear layers and tables become integers"
    ]


def _quantized(
    module: ModuleOp, name: str, skip: tuple[str, ...], options: CompileOptions, rounding: Rounding
) -> tuple[ModuleOp, QuantizationReport] | None:
    """What a recipe of ``etir.quantize`` makes; None where it leaves everything as it is."""
    from etir.diagnostics import EtirError
    from etir.quantized import quantize_program

    samples = rounding.samples if rounding.method in ("gptq", "awq") else ()
    try:
        found = quantize_program(
            module, name, skip=skip, rounding=rounding.method, calibration=samples, equalize=False, options=options
        )
    except EtirError as error:
        if error.ids == (E1506.id,):
            return None
        if E1502.id in error.ids:
            told = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
            raise E1608.error(f"recipe '{name}' on target '{options.target}': {told}") from error
        raise
    return found.module, found.report


def _routers(module: ModuleOp) -> tuple[str, ...]:
    """The modules of the layers whose results choose experts. They stay floating point, as in GGUF files: they are
    small, and another expert is another result.
    """
    found: dict[str, None] = {}
    for method in methods(module):
        chosen = [op for op in method.walk() if isinstance(op, EdgeOp) and op.op_name == CHOICE]
        seen: dict[EdgeOp, None] = dict.fromkeys(chosen)
        while chosen:
            for owner in (value.owner for value in chosen.pop().operands):
                if not isinstance(owner, EdgeOp) or owner in seen:
                    continue
                seen[owner] = None
                if owner.op_name != LINEAR:
                    chosen.append(owner)
                elif name := _module(owner):
                    found[name] = None
    return tuple(found)


@dataclass(frozen=True)
class _Head:
    """The last linear layer: its module in the source and its weight."""

    module: str = ""
    weight: str = ""


def _head(module: ModuleOp) -> _Head:
    linear = [(op, name) for op, name in layers(module) if op.op_name == LINEAR]
    if not linear:
        return _Head()
    op, name = linear[-1]
    return _Head(_module(op), name)


def _module(op: EdgeOp) -> str:
    place = source_location(op.location)
    return "" if place is None else place.module


def _fits(name: str, found: Blocks, recipe: ModelRecipe, options: CompileOptions, head: _Head) -> bool:
    """Whether a weight stays as it is in the file: no more bits than the recipe gives it, and in a form that the
    target's kernels take. XNNPACK wants scales of bfloat16, and none of them has minimums.
    """
    if options.delegates:
        return False
    is_table = name == head.weight or "embed_tokens" in name or name.endswith("wte.weight")
    return found.bits <= (8 if is_table else recipe.bits)
