"""Arguments that commands about a compiled model share."""

from __future__ import annotations

import argparse

from etir.llm.drafting import Drafting
from etir.llm.session import LanguageModel, Sampling
from etir.llm.speculative import AHEAD
from etir.tools.common import ToolParser, usage_error


def add_model(parser: ToolParser) -> None:
    """The model and what belongs to it."""
    parser.add_argument("model", metavar="MODEL.pte", help="what et-llm compile wrote, or ExecuTorch's exporter")
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="tokenizer.json, .gguf, .model or .tiktoken (default: MODEL.tokenizer.json)"
    )
    parser.add_argument("--chat", metavar="FILE", help="description of the chat (default: MODEL.chat.json)")
    parser.add_argument("--isa", metavar="NAME", help="instruction set of the kernels (default: the best)")
    parser.add_argument("--trust-native-code", action="store_true", help="run machine code that the file has")


def add_sampling(
    parser: ToolParser, defaults: Sampling | None = None, about: str | None = None, *, seed: bool = True
) -> None:
    """How tokens are chosen. ``defaults`` hold for what is not said, ``about`` tells of the group; ``seed`` False
    leaves the seed to others.
    """
    group = parser.add_argument_group("sampling", about)
    defaults = defaults or Sampling()
    for name, kind, meaning in (
        ("temperature", float, "0 takes the most likely token"),
        ("top_k", int, "only the k most likely tokens; 0: all"),
        ("top_p", float, "only the most likely tokens with this probability together"),
        ("min_p", float, "only tokens with this part of the highest probability"),
        ("repetition_penalty", float, "what logits of tokens in the window are divided by"),
        ("repetition_window", int, "tokens of the answer that count"),
        *((("seed", int, "same seed, same answer"),) if seed else ()),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            default=getattr(defaults, name),
            metavar="N" if kind is int else "X",
            help=f"{meaning} (default: {getattr(defaults, name)})",
        )


def sampling_of(arguments: argparse.Namespace) -> Sampling:
    """The settings of a command line."""
    return Sampling(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
        repetition_window=arguments.repetition_window,
        seed=getattr(arguments, "seed", 0),
    )


def add_drafting(parser: ToolParser) -> None:
    """Where guesses of speculative decoding come from."""
    group = parser.add_argument_group(
        "speculative decoding", "guess tokens, check them in one call; for files of et-llm compile --all-logits"
    )
    chosen = group.add_mutually_exclusive_group()
    chosen.add_argument("--lookup", action="store_true", help="guess what followed the same words earlier in the text")
    chosen.add_argument("--draft", metavar="DRAFT.pte", help="guess with a smaller model of the same vocabulary")
    group.add_argument("--ahead", type=int, default=AHEAD, metavar="N", help=f"most guesses (default: {AHEAD})")


def drafting_of(arguments: argparse.Namespace, model: LanguageModel, threads: int | None) -> Drafting | None:
    """What a command line says about drafts of ``model``, or None. Raises EtirError: E1770, E1771, those of loading."""
    if arguments.ahead < 1:
        raise usage_error("--ahead has to be 1 or more")
    if arguments.lookup:
        return Drafting(model, None, arguments.ahead)
    if arguments.draft is None:
        return None
    draft = LanguageModel.load(
        arguments.draft,
        threads=threads,
        isa=arguments.isa,
        native_code="trusted" if arguments.trust_native_code else "refuse",
    )
    return Drafting(model, draft, arguments.ahead)


def load_model(arguments: argparse.Namespace, threads: int | None) -> LanguageModel:
    """The model of a command line. Raises EtirError."""
    return LanguageModel.load(
        arguments.model,
        tokenizer=arguments.tokenizer,
        chat=arguments.chat,
        threads=threads,
        isa=arguments.isa,
        native_code="trusted" if arguments.trust_native_code else "refuse",
    )
