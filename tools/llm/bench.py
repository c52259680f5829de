"""``et-llm bench``: how fast a model reads a prompt and writes an answer, and how fast the machine lets it.

Every token that is written reads every weight, so that memory is the limit: its bandwidth is measured beside the
decoding, by summing an array as large as the file with as many threads.

With drafts (``--lookup``, ``--draft``) a prompt's answer is made twice, with and without them: what they save depends
on the text, which ``--text`` gives.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from etir.llm.drafting import Drafting
from etir.llm.errors import E1732
from etir.llm.session import LanguageModel
from etir.tools.common import OK, Console, ToolParser, read_text
from etir.tools.llm.arguments import add_drafting, add_model, drafting_of, load_model

MOST_BANDWIDTH_BYTES = 256 << 20


def parser() -> ToolParser:
    """The arguments of ``et-llm bench``."""
    made = ToolParser("et-llm bench", "Measure a language model: tokens per second, memory, time to the first token.")
    add_model(made)
    made.add_argument(
        "--prefill", type=_counts, default=[128], metavar="N,N", help="lengths of prompts in tokens (default: 128)"
    )
    made.add_argument("--decode", type=int, default=32, metavar="N", help="tokens to write after each (default: 32)")
    made.add_argument(
        "--threads", type=_counts, default=[1], metavar="N,N", help="numbers of threads to measure with (default: 1)"
    )
    made.add_argument("--repeat", type=int, default=3, metavar="N", help="runs, of which the best counts (default: 3)")
    made.add_argument(
        "--text", metavar="FILE", help="prompts are the beginning of this text (default: any tokens, which say nothing)"
    )
    made.add_argument("--json", action="store_true", help="print JSON")
    add_drafting(made)
    return made


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers above 0 as 128,1024 is")
    return [int(part) for part in parts]


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure and print. Raises EtirError: E1732 for lengths that do not fit, and what loading raises."""
    results: list[dict[str, Any]] = []
    text = None if arguments.text is None else read_text(arguments.text, console)[1]
    for threads in arguments.threads:
        started = time.perf_counter()
        model = load_model(arguments, threads)
        loaded = time.perf_counter() - started
        _check(arguments, model)
        session = model.session()
        next(session.generate([0], max_tokens=1))
        first = time.perf_counter() - started
        drafting = drafting_of(arguments, model, threads)
        prompts = [_prompt(model, text, length) for length in arguments.prefill]
        rows = [_measure(arguments, model, ids) for ids in prompts]
        if drafting is not None:
            for row, ids in zip(rows, prompts, strict=True):
                row["drafts"] = _drafted(arguments, drafting, ids)
        results.append(
            {
                "threads": threads,
                "isa": model.isa,
                "load_seconds": loaded,
                "load_to_first_token_seconds": first,
                "bandwidth_bytes_per_second": bandwidth(threads, model.memory()["file"]),
                "lengths": rows,
                "memory": model.memory() | _resident(),
            }
        )
    report = {"model": str(arguments.model), "runs": results}
    print(json.dumps(report, indent=2) if arguments.json else _text(report))
    return OK


def _check(arguments: argparse.Namespace, model: LanguageModel) -> None:
    longest = max(arguments.prefill) + arguments.decode
    if longest > model.context or arguments.decode < 1 or arguments.repeat < 1:
        raise E1732.error(
            f"a prompt of {max(arguments.prefill)} and {arguments.decode} tokens more, {arguments.repeat} times, "
            f"in a context of {model.context}"
        )


def _prompt(model: LanguageModel, text: str | None, length: int) -> list[int]:
    """The tokens of a prompt. Raises EtirError (E1732) for a text that is too short."""
    if text is None:
        return [1 + index * 7 % (model.vocabulary_size - 1) for index in range(length)]
    ids = model.tokenizer.encode(text)
    if len(ids) < length:
        raise E1732.error(f"a prompt of {length} tokens, and the text has {len(ids)}")
    return ids[:length]


def _drafted(arguments: argparse.Namespace, drafting: Drafting, ids: list[int]) -> dict[str, Any]:
    """The greedy answer to a prompt with drafts and without, in turns, the best of some runs; the caches hold the
    prompt, so that the time is the answer's.
    """
    session, plain = drafting.session(), drafting.model.session()
    rates: dict[bool, float] = {True: 0.0, False: 0.0}
    for turn in range(1 + arguments.repeat):
        for drafts, asked in ((True, session), (False, plain)):
            started = time.perf_counter()
            count = sum(1 for _ in asked.generate(ids, max_tokens=arguments.decode))
            if turn > 0:
                rates[drafts] = max(rates[drafts], count / (time.perf_counter() - started))
    counts = session.counts
    assert counts is not None
    return {
        "decode_tokens_per_second": rates[True],
        "decode_tokens_per_second_without": rates[False],
        **asdict(counts),
    }


def _measure(arguments: argparse.Namespace, model: LanguageModel, ids: list[int]) -> dict[str, Any]:
    """The best of some runs, each in a cache that holds nothing."""
    length = len(ids)
    session = model.session()
    prefill: list[float] = []
    decode: list[float] = []
    for _ in range(arguments.repeat):
        session.rewind(len(session.tokens))
        started = time.perf_counter()
        session.prefill(ids)
        prefill.append(time.perf_counter() - started)
        # One token at a time, whatever the model would choose: an answer that ends early measures nothing.
        for index in range(arguments.decode):
            started = time.perf_counter()
            session.prefill([1 + index])
            decode.append(time.perf_counter() - started)
    # The fastest tokens in a row: a busy machine only adds.
    window = min(8, arguments.decode)
    runs = [sum(decode[at : at + window]) / window for at in range(len(decode) - window + 1)]
    return {
        "prompt_tokens": length,
        "prefill_tokens_per_second": length / min(prefill),
        "decode_tokens_per_second": 1 / min(runs),
        "decode_tokens_per_second_mean": len(decode) / sum(decode),
    }


def bandwidth(threads: int, size: int) -> float:
    """Bytes per second that ``threads`` threads read of an array of up to 256 MiB, the best of five times."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    array = np.ones(max(1 << 20, min(size, MOST_BANDWIDTH_BYTES)) // 8, dtype=np.int64)
    parts = np.array_split(array, threads)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(np.max, parts))
            best = min(best, time.perf_counter() - started)
    return array.nbytes / best


def _resident() -> dict[str, int]:
    """Bytes of this process in memory: all, and those that no file backs (Linux)."""
    found = {"resident": 0, "anonymous": 0}
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            for key, name in (("VmRSS:", "resident"), ("RssAnon:", "anonymous")):
                if line.startswith(key):
                    found[name] = int(line.split()[1]) * 1024
    except OSError:
        pass
    return found


def _text(report: dict[str, Any]) -> str:
    lines: list[str] = []
    for result in report["runs"]:
        memory = result["memory"]
        count = result["threads"]
        lines += [
            f"{count} thread{'s' * (count > 1)}, {result['isa']} kernels: loaded in {result['load_seconds']:.3f} s, "
            f"first token after {result['load_to_first_token_seconds']:.3f} s",
            f"  memory: file {memory['file'] / 1e6:.1f} MB, session {memory['session'] / 1e6:.1f} MB, "
            f"resident {memory['resident'] / 1e6:.1f} MB of which {memory['anonymous'] / 1e6:.1f} MB are no file's",
            f"  reading memory: {result['bandwidth_bytes_per_second'] / 1e9:.1f} GB/s, at most "
            f"{result['bandwidth_bytes_per_second'] / memory['file']:.1f} tokens/s if a token reads the whole file",
            "  prompt  prefill tokens/s  decode tokens/s",
        ]
        lines += [
            f"  {row['prompt_tokens']:6}  {row['prefill_tokens_per_second']:16.1f}"
            f"  {row['decode_tokens_per_second']:15.1f}"
            for row in result["lengths"]
        ]
        for row in result["lengths"]:
            drafts = row.get("drafts")
            if drafts is not None:
                lines.append(
                    f"  an answer to {row['prompt_tokens']} tokens: {drafts['decode_tokens_per_second']:.1f} tokens/s "
                    f"with drafts, {drafts['decode_tokens_per_second_without']:.1f} without; "
                    f"{drafts['generated']} tokens in {drafts['calls']} calls, "
                    f"{drafts['accepted']} of {drafts['drafted']} guesses right"
                )
    return "\n".join(lines)
