"""From a checkpoint to the files that a runner takes: ``model.pte``, ``model.tokenizer.json``, ``model.chat.json``.

The contract of the program is that of ExecuTorch's ``TextLLMRunner`` (``extension/llm/runner``): a method ``forward``
of tokens and positions, caches that the program owns, and constant methods that tell a runner the rest. Own runners
take the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from etir.llm.checkpoint.blocks import Blocks
from etir.llm.checkpoint.checkpoint import Checkpoint
from etir.llm.errors import E1607, E1608, E1609
from etir.llm.passes.cache_types import CacheType
from etir.llm.recipe_names import ModelRecipe, recipe_of
from etir.llm.recipes import Rounding, quantize_model
from etir.options import CompileKeywords, CompileOptions, compile_options
from etir.quantization.report import QuantizationReport

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from xdsl.dialects.builtin import ModuleOp

    from etir.program import Program

CONTEXT = 2048
"""Positions of a program when nobody says how many: what the cache takes is memory from the start."""
PREFILL = 512
"""Tokens in a call: more in one call are hardly faster, and what is between the operators grows with them."""
_SAMPLE = 128
_MOST_SAMPLES = 64


@dataclass(frozen=True)
class LanguageModelOptions:
    """What a language model is compiled to.

    ``context`` is how many positions the cache has, ``max_prefill`` how many tokens a call takes at most; None are
    :data:`CONTEXT` and :data:`PREFILL`, or what the model has. ``round_weights`` is how integers of weights are chosen,
    ``calibration`` a text that ``gptq`` and ``awq`` see. ``cache`` is the dtype of keys and values; ``auto`` is that of
    the recipe where the target's attention reads it, float32 elsewhere. ``all_logits`` gives the logits
    of every position. ``fuse_attention`` lets attention end at the last position; without it, it goes over the whole
    cache.
    """

    recipe: str = "fp32"
    context: int | None = None
    max_prefill: int | None = None
    round_weights: str | None = None
    calibration: str | None = None
    cache: CacheType | Literal["auto"] = "auto"
    all_logits: bool = False
    fuse_attention: bool = True


@dataclass(frozen=True)
class CompiledLanguageModel:
    """A program, its tokenizer and what a chat needs; ``reports`` say what became of each layer."""

    program: Program
    tokenizer: str
    chat: dict[str, Any]
    reports: tuple[QuantizationReport, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    def files(self, path: Path) -> Iterator[tuple[Path, bytes]]:
        """The files beside the program ``path``, with their contents."""
        yield path.with_suffix(".tokenizer.json"), self.tokenizer.encode()
        chat = json.dumps(self.chat, indent=2, ensure_ascii=False)
        yield path.with_suffix(".chat.json"), f"{chat}\n".encode()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the program to ``path``, and the tokenizer and the chat beside it."""
        from etir.dialects.et.weights import write_atomically

        target = Path(path)
        self.program.save(target)
        for file, data in self.files(target):
            write_atomically(file, [data])


def compile_language_model(
    checkpoint: Checkpoint,
    how: LanguageModelOptions | None = None,
    *,
    options: CompileOptions | None = None,
    **keywords: Unpack[CompileKeywords],
) -> CompiledLanguageModel:
    """Compile a checkpoint's model for a target; the keywords are those of ``etir.compile``. The checkpoint's model may
    be changed.

    Raises E1607 for a context that the model does not have, E1608 for a recipe or a cache that the target cannot do,
    E1610 for a model that cannot be exported, and what ``etir.quantize`` and ``etir.compile`` do.
    """
    from etir.driver import compile_program
    from etir.llm.passes.pipeline import link_libraries

    how = how or LanguageModelOptions()
    recipe = recipe_of(how.recipe)
    _check(how, recipe)
    chosen = compile_options(options, keywords).resolved()
    cache = _cache(how, recipe, chosen.target)
    if how.fuse_attention:
        libraries = (*chosen.link_libraries, *link_libraries(chosen.target, cache))
        chosen = compile_options(chosen, {"link_libraries": tuple(dict.fromkeys(libraries))}).resolved()
    most = checkpoint.context
    context = how.context if how.context is not None else CONTEXT if most is None else min(CONTEXT, most)
    if most is not None and context > most:
        raise E1607.error(f"a context of {context}: the model has up to {most} positions")
    prefill = how.max_prefill if how.max_prefill is not None else min(PREFILL, context)
    remarks = [*checkpoint.remarks, *_positions(checkpoint, context)]
    program = _exported(checkpoint, recipe, context, prefill, how.all_logits)
    blocks = _blocks(checkpoint)
    metadata = _metadata(checkpoint, program, context, prefill, how)
    module = _imported(program, metadata, chosen, how, cache)
    if how.cache != "auto":
        remarks += _other_caches(module, cache, recipe)
    del program
    reports: list[QuantizationReport] = []
    if recipe.layers:
        from etir.backends.api.registry import backend_dialects
        from etir.dialects.context import EtContext
        from etir.passes.infra.manager import PipelineOptions, run_pipeline
        from etir.pipeline import pipeline

        ctx = EtContext(dialects=backend_dialects())
        run_pipeline(ctx, module, list(pipeline(chosen, "aten", "edge")), PipelineOptions(collect_errors=True))
        rounding = Rounding(how.round_weights, _samples(checkpoint, how.calibration, prefill))
        module, reports, told = quantize_model(module, recipe, blocks, chosen, rounding)
        remarks += told
    compiled = compile_program(_fused(module, chosen), chosen)
    chat = _with_segments(checkpoint.chat.as_dict(checkpoint.name, context))
    return CompiledLanguageModel(compiled, checkpoint.tokenizer, chat, tuple(reports), tuple(remarks))


def _with_segments(chat: dict[str, Any]) -> dict[str, Any]:
    """What a chat needs with the compiled form of its template, for runners without Python, if it has one."""
    from etir.diagnostics import EtirError
    from etir.llm.chat_description import ChatDescription
    from etir.llm.template import compile_template

    if not chat.get("chat_template"):
        return chat
    try:
        return {**chat, "segments": compile_template(ChatDescription.from_data(chat, "the chat"))}
    except EtirError:  # Such a template needs Jinja; what it renders is the same.
        return chat


def _check(how: LanguageModelOptions, recipe: ModelRecipe) -> None:
    if how.round_weights is not None and not recipe.layers:
        raise E1608.error(f"'{recipe.name}' has no integers to round")
    if how.round_weights in ("gptq", "awq") and how.calibration is None:
        raise E1608.error(
            f"'{how.round_weights}' looks at what goes through the layers",
            help="give it a text: --calibration FILE.txt",
        )


def _cache(how: LanguageModelOptions, recipe: ModelRecipe, target: str) -> CacheType:
    """What caches hold. Raises E1608 where attention cannot read that."""
    from etir.dialects.dtypes import BY_TORCH_NAME, f32
    from etir.dialects.llama import CUSTOM_SDPA
    from etir.llm.passes.kernels import missing_kernel
    from etir.llm.passes.pipeline import HALVED, link_libraries

    if not how.fuse_attention:
        if how.cache in ("auto", "float32"):
            return "float32"
        raise E1608.error(
            f"a cache of {how.cache}: attention that goes over the whole cache reads what the model computes",
            help="let attention end at the last position: --attention auto",
        )
    wanted = recipe.cache if how.cache == "auto" else how.cache
    if wanted not in HALVED or wanted == recipe.dtype:
        return wanted
    type = BY_TORCH_NAME[wanted].type
    missing = missing_kernel(CUSTOM_SDPA, f32, target, link_libraries(target, wanted), cache=type)
    if missing is None:
        return wanted
    if how.cache == "auto":
        return "float32"
    raise E1608.error(f"a cache of {wanted}: {missing}", help="float32 and int8 have kernels there: --cache int8")


def _positions(checkpoint: Checkpoint, context: int) -> list[str]:
    """Choose the frequencies of rotary positions; says so where they are not those of short texts."""
    from etir.llm.positions import fix_frequencies

    short = fix_frequencies(checkpoint.model, context)
    if short is None:
        return []
    return [
        f"every position is turned as in texts of more than {short:,} tokens, as the context is longer than that; a "
        f"context of up to {short:,} takes what the model has for shorter texts"
    ]


def _exported(checkpoint: Checkpoint, recipe: ModelRecipe, context: int, prefill: int, all: bool) -> ExportedProgram:
    import torch

    from etir.llm.export import export_decoder

    model = checkpoint.model.to(getattr(torch, recipe.dtype))
    return export_decoder(model, context, prefill, all_logits=all)


def _blocks(checkpoint: Checkpoint) -> dict[str, Blocks]:
    """The blocks by the names of the exported program's parameters. A parameter that has two names, a table that is the
    head as well, is found by both: which of them the export takes is its own affair.
    """
    known = {id(checkpoint.model.get_parameter(name)): found for name, found in checkpoint.blocks.items()}
    named = checkpoint.model.named_parameters(remove_duplicate=False)
    return {f"model.{name}": known[id(parameter)] for name, parameter in named if id(parameter) in known}


def _metadata(
    checkpoint: Checkpoint, program: ExportedProgram, context: int, prefill: int, how: LanguageModelOptions
) -> dict[str, object]:
    """The constant methods that runners ask."""
    from etir.llm.export import cached_layers, shortest_window

    found: dict[str, object] = {
        "get_max_seq_len": prefill,
        "get_max_context_len": context,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
        "use_sdpa_with_kv_cache": how.fuse_attention,
        "get_vocab_size": checkpoint.vocabulary,
        "get_n_layers": cached_layers(program),
    }
    window = shortest_window(checkpoint.model) if how.fuse_attention else None
    if window is not None and window + prefill <= context:
        # There may be rings (`ring-cache`). They have room for as many tokens beyond a window as a call takes.
        found |= {"sliding_window": window, "get_max_rewind": prefill}
    if checkpoint.chat.eos_ids:
        found["get_eos_ids"] = list(checkpoint.chat.eos_ids)
    if checkpoint.chat.bos_id is not None:
        found["get_bos_id"] = checkpoint.chat.bos_id
    return found


def _imported(
    program: ExportedProgram,
    metadata: dict[str, object],
    options: CompileOptions,
    how: LanguageModelOptions,
    cache: CacheType,
) -> ModuleOp:
    """The module at the first level, with the passes of language models run on it."""
    from etir.dialects.context import EtContext
    from etir.driver import module_of
    from etir.llm.passes.pipeline import language_model_passes
    from etir.passes.infra.manager import PipelineOptions, run_pipeline

    module = module_of(program, options, metadata)
    passes = language_model_passes(
        options.target, last_logits=not how.all_logits, attention=how.fuse_attention, cache=cache
    )
    run_pipeline(EtContext(), module, list(passes), PipelineOptions(collect_errors=True))
    return module


def _other_caches(module: ModuleOp, cache: CacheType, recipe: ModelRecipe) -> list[str]:
    """Says which caches do not hold what was asked for: passes leave alone what their attention could not read."""
    from xdsl.dialects.builtin import TensorType

    from etir.dialects.dtypes import BY_TORCH_NAME
    from etir.dialects.et.program import StateOp
    from etir.llm.passes.quantize_cache import SCALES, ZERO_POINTS

    wanted = BY_TORCH_NAME[cache].type
    states = [op for op in module.body.block.ops if isinstance(op, StateOp)]
    types = [op.type for op in states if not op.sym_name.data.endswith((SCALES, ZERO_POINTS))]
    # Of attention over latents, one for keys and values; what counts positions has no dims.
    caches = [type for type in types if isinstance(type, TensorType) and type.get_num_dims() == 4]
    others = [type for type in caches if type.element_type != wanted]
    if not others:
        return []
    why = "their attention is not the one that ends at the last position"
    if recipe.dtype != "float32":
        why = f"attention of a model that computes in {recipe.dtype}, as with recipe '{recipe.name}', reads no others"
    count = f"{len(others)} of {len(caches)} caches of keys and values"
    return [f"{count} do not hold {cache}, but what the model computes: {why}"]


def _fused(module: ModuleOp, options: CompileOptions) -> ModuleOp:
    """The module at the backend level, with as few operators for a token as the target has kernels for."""
    from etir.backends.api.registry import backend_dialects
    from etir.dialects.context import EtContext
    from etir.llm.fusing import fusing_passes
    from etir.passes.infra.manager import PipelineOptions, run_pipeline
    from etir.phases import phase_of

    if options.delegates:
        return module
    passes = list(fusing_passes(options, phase_of(module)))
    run_pipeline(EtContext(dialects=backend_dialects()), module, passes, PipelineOptions(collect_errors=True))
    return module


def _samples(checkpoint: Checkpoint, text: str | None, prefill: int) -> list[Sequence[Any]]:
    """Pieces of a text as inputs of the program, each from its own start."""
    if text is None:
        return []
    import numpy as np
    from tokenizers import Tokenizer

    try:  # The calibration runs the attention operator, which is ExecuTorch's.
        import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401 # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise E1609.error("executorch is not installed, whose attention the calibration runs") from None

    ids = Tokenizer.from_str(checkpoint.tokenizer).encode(text, add_special_tokens=False).ids
    size = min(_SAMPLE, prefill)
    starts = range(0, max(len(ids) - size, 0) + 1, size)[:_MOST_SAMPLES]
    pieces = [np.array([ids[start : start + size]], np.int64) for start in starts if ids]
    return [(piece, np.arange(piece.shape[1], dtype=np.int64)) for piece in pieces]
