"""``et-llm perplexity``: how well a program predicts a text, on the runtime that will run it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.tools.common import OK, Console, ToolParser, read_text, usage_error

if TYPE_CHECKING:
    from etir.llm.perplexity import Report, Scorer

_DESCRIPTION = """\
Measure how well a program predicts a text: the file itself, on the runtime that will run it.

  et-llm perplexity model.pte --text wiki.txt
  et-llm perplexity model.pte --text wiki.txt --runtime stock --reference checkpoint.gguf

A file that was compiled with --all-logits needs a call for many tokens, any other file one for each.
"""


def parser() -> ToolParser:
    """The command line."""
    from etir.tools.llm.arguments import add_model

    parser = ToolParser("et-llm perplexity", _DESCRIPTION)
    add_model(parser)
    parser.add_argument("--text", required=True, metavar="FILE", help="the text, UTF-8; - is standard input")
    parser.add_argument(
        "--window", type=int, metavar="N", help="tokens that are seen at once (default: 512, or the context)"
    )
    parser.add_argument("--stride", type=int, metavar="N", help="tokens between windows (default: half a window)")
    parser.add_argument("--most", type=int, metavar="N", help="only the first N tokens of the text")
    parser.add_argument(
        "--runtime", choices=("etir", "stock"), default="etir", help="which one runs it (default: etir)"
    )
    parser.add_argument("--reference", metavar="CHECKPOINT", help="a GGUF file or a folder, in float32 beside it")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that compute (default: all processors)")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure and print."""
    from etir.llm.perplexity import measure
    from etir.tools.llm.arguments import load_model

    for name in ("window", "stride", "most", "threads"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise usage_error(f"--{name} has to be 1 or more")
    _, text = read_text(arguments.text, console)
    model = load_model(arguments, arguments.threads)
    ids = model.tokenizer.encode(text, add_special_tokens=True, parse_special=False)[: arguments.most]
    window = min(512, model.context) if arguments.window is None else arguments.window
    if window > model.context:
        from etir.llm.errors import E1762

        raise E1762.error(f"a window of {window} tokens, and a context of {model.context}")
    scorer = _scorer(model, arguments)
    reference = None
    if arguments.reference is not None:
        from etir.llm.reference import ReferenceDecoder

        reference = ReferenceDecoder.load(arguments.reference)
    report = measure(scorer, ids, window, arguments.stride, reference=reference)
    name = Path(arguments.model).name
    found = {"model": name, "runtime": arguments.runtime, "window": window, **_numbers(report)}
    print(json.dumps(found, indent=2) if arguments.json else _text(found))
    return OK


def _scorer(model: Any, arguments: argparse.Namespace) -> Scorer:
    if arguments.runtime == "stock":
        from etir.llm.stock import StockDecoder

        return StockDecoder(arguments.model)
    from etir.llm.perplexity import SessionScorer

    return SessionScorer(model.session(), model.vocabulary_size, all_positions=model.every_position, piece=model.piece)


def _numbers(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tokens": report.program.tokens,
        "calls": report.calls,
        "perplexity": report.program.perplexity,
        "error": report.program.error,
        "likeliest": report.program.accuracy,
    }
    if report.reference is not None:
        found |= {
            "reference": report.reference.perplexity,
            "ratio": report.program.perplexity / report.reference.perplexity,
            "divergence": report.divergence,
            "same_likeliest": report.agreement,
        }
    return found


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"perplexity {found['perplexity']:.4f} +- {found['error']:.4f} on {found['tokens']} tokens, "
        f"windows of {found['window']} ({found['model']}, runtime {found['runtime']})"
    ]
    if found["calls"] >= found["tokens"]:
        lines.append(f"{found['calls']} calls, one for each token: the file gives only the last position's logits")
    if "reference" in found:
        lines.append(f"reference  {found['reference']:.4f}, ratio {found['ratio']:.4f}")
        lines.append(
            f"divergence from it {found['divergence']:.5f} nats a token, "
            f"the same likeliest token at {found['same_likeliest']:.1%} of the positions"
        )
    return "\n".join(lines)
