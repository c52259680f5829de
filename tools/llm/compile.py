"""``et-llm compile``: a checkpoint to a program, its tokenizer and what a chat needs.

::

    et-llm compile SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2.pte --recipe int4
    et-llm compile ./Qwen3-0.6B -o qwen3.pte --recipe 8da4w --target executorch --delegate xnnpack

Beside ``smollm2.pte`` it writes ``smollm2.tokenizer.json`` and ``smollm2.chat.json``. The program runs on etir's runner
and, with ``--target executorch``, on ExecuTorch's own.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, get_args

from etir.tools.common import OK, Console, ToolParser, check_output, read_text, usage_error, write_output

if TYPE_CHECKING:
    from etir.llm.compile import CompiledLanguageModel

ROUNDING = ("nearest", "mse", "hqq", "gptq", "awq")


def parser() -> ToolParser:
    """The arguments."""
    from etir.llm.passes.cache_types import CacheType
    from etir.llm.recipe_names import RECIPES

    recipes = "\n".join(f"  {name:6} {recipe.meaning}" for name, recipe in RECIPES.items())
    made = ToolParser(
        "et-llm compile",
        "Compile a language model: a GGUF file, or the folder of a Hugging Face checkpoint.",
        f"recipes (the head and the table of tokens have 8 bits in those of integers):\n{recipes}",
    )
    made.add_argument("checkpoint", help="a .gguf file, or a folder with config.json and *.safetensors")
    made.add_argument("-o", dest="output", metavar="FILE", required=True, help="the .pte file to write")
    made.add_argument("--recipe", default="int4", metavar="NAME", help="how weights are stored (default: int4)")
    made.add_argument("--target", default="etir", help="whose kernels to link against (default: etir)")
    made.add_argument("--delegate", action="append", default=[], metavar="NAME", help="a backend to hand work to")
    made.add_argument("--context", type=int, metavar="N", help="positions of the cache (default: 2048, or the model's)")
    made.add_argument("--max-prefill", type=int, metavar="N", help="tokens of a prompt in one call (default: 512)")
    made.add_argument(
        "--cache",
        choices=("auto", *get_args(CacheType)),
        default="auto",
        help="dtype of keys and values; auto: bfloat16 with 8da4w on etir's runtime, else float32",
    )
    made.add_argument("--tokenizer", metavar="FILE", help="a tokenizer.json to take instead of the checkpoint's")
    made.add_argument("--round-weights", choices=ROUNDING, help="how integers of weights are chosen")
    made.add_argument("--calibration", metavar="FILE.txt", help="a text to see, for gptq and awq")
    made.add_argument("--all-logits", action="store_true", help="logits of every position, not of the last one only")
    made.add_argument(
        "--attention",
        choices=("auto", "unfused"),
        default="auto",
        help="auto: end attention at the last position, by a kernel for that; unfused: go over the whole cache, for "
        "runtimes without the library custom_ops",
    )
    made.add_argument(
        "--report", nargs="?", const="text", choices=("text", "json"), help="print what became of each layer"
    )
    return made


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Compile and write the files. Raises E1601 to E1610, and what ``etir.compile`` does."""
    from pathlib import Path

    from etir.llm.recipe_names import recipe_of

    output = arguments.output
    if output == "-":
        raise usage_error("a language model is several files: name the first one, -o model.pte")
    recipe_of(arguments.recipe)
    check_output(output)
    calibration = None
    if arguments.calibration is not None:
        calibration = read_text(arguments.calibration, console, may_be_empty=False)[1]
    compiled = _compiled(arguments, calibration)
    data = compiled.program.buffer
    for path, contents in ((Path(output), data), *compiled.files(Path(output))):
        write_output(str(path), contents)
    for remark in compiled.remarks:
        print(f"et-llm compile: {remark}", file=sys.stderr)
    if arguments.report == "json":
        print("[" + ",\n".join(report.to_json() for report in compiled.reports) + "]")
    elif arguments.report == "text":
        for report in compiled.reports:
            print(report, end="\n\n")
        print(compiled.program.report())
    return OK


def _compiled(arguments: argparse.Namespace, calibration: str | None) -> CompiledLanguageModel:
    from etir.llm.checkpoint.load import load_checkpoint
    from etir.llm.compile import LanguageModelOptions, compile_language_model

    how = LanguageModelOptions(
        recipe=arguments.recipe,
        context=arguments.context,
        max_prefill=arguments.max_prefill,
        round_weights=arguments.round_weights,
        calibration=calibration,
        cache=arguments.cache,
        all_logits=arguments.all_logits,
        fuse_attention=arguments.attention == "auto",
    )
    checkpoint = load_checkpoint(arguments.checkpoint, arguments.tokenizer)
    return compile_language_model(checkpoint, how, target=arguments.target, delegates=arguments.delegate)
