"""``et-llm chat``: a conversation in a terminal, or one answer to ``--prompt``.

The whole conversation is rendered each time and given to the session, which feeds what it does not hold yet. What the
history has is what was said, so that it and the cache cannot come apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etir.diagnostics import EtirError
from etir.llm.drafting import SpeculativeSession
from etir.llm.errors import E1725
from etir.llm.session import LanguageModel, Sampling, Session
from etir.tools.common import OK, Console, ToolParser
from etir.tools.llm.arguments import add_drafting, add_model, add_sampling, drafting_of, load_model, sampling_of

COMMANDS = {
    "/reset": "forget the conversation",
    "/system TEXT": "set the system message, and forget the rest",
    "/save FILE": "write the conversation and its cache to FILE and FILE.messages.json",
    "/restore FILE": "read them back",
    "/stats": "counts and times of the last answer",
    "/help": "these lines",
    "/exit": "end, as the end of the input does",
}


def parser() -> ToolParser:
    """The arguments of ``et-llm chat``."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {command:{width}}  {meaning}" for command, meaning in COMMANDS.items())
    made = ToolParser(
        "et-llm chat",
        "Talk with a language model.\n\nCtrl-C ends an answer, twice or at the prompt the program.",
        f"in the conversation:\n{lines}",
    )
    add_model(made)
    made.add_argument("--prompt", metavar="TEXT", help="answer this and end; - reads standard input")
    made.add_argument("--system", metavar="TEXT", help="system message")
    made.add_argument("--raw", action="store_true", help="go on with the text itself, without the chat template")
    made.add_argument("--max-tokens", type=int, metavar="N", help="end an answer after N tokens")
    made.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end an answer at this text")
    made.add_argument("--json", action="store_true", help="answers are JSON objects")
    made.add_argument("--threads", type=int, metavar="N", help="threads of a run (default: all processors)")
    made.add_argument("--stats", action="store_true", help="print counts and times on standard error after each answer")
    add_sampling(made)
    add_drafting(made)
    return made


@dataclass
class Conversation:
    """What was said, and the session that holds it."""

    model: LanguageModel
    session: Session | SpeculativeSession
    arguments: argparse.Namespace
    sampling: Sampling
    messages: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def reset(self, system: str | None) -> None:
        """Begin anew."""
        self.messages = [{"role": "system", "content": system}] if system else []

    def prompt(self, text: str) -> list[int]:
        """The tokens of the whole conversation with a text at its end."""
        tokenizer = self.model.tokenizer
        if self.arguments.raw:
            return tokenizer.encode(text, add_special_tokens=True)
        self.messages.append({"role": "user", "content": text})
        return tokenizer.encode(self.model.render(self.messages))

    def answer(self, text: str) -> None:
        """Print an answer as it comes. A failure and Ctrl-C leave the conversation as it is without it."""
        arguments = self.arguments
        said: list[str] = []
        before = list(self.messages)
        generation = None
        try:
            generation = self.session.generate(
                self.prompt(text),
                self.sampling,
                arguments.max_tokens,
                arguments.stop,
                grammar="json" if arguments.json else None,
            )
            finish = None
            for token in generation:
                said.append(token.text)
                finish = token.finish
                print(token.text, end="", flush=True)
            if finish == "context":
                print("\n[the context is full: /reset begins anew]", file=sys.stderr)
        except KeyboardInterrupt:
            if generation is not None:
                generation.close()
            print("\n[ended]", file=sys.stderr)
        except EtirError:
            self.messages = before
            raise
        print()
        if not arguments.raw:
            self.messages.append({"role": "assistant", "content": "".join(said)})
        if arguments.stats:
            self.print_statistics()

    def print_statistics(self) -> None:
        """On standard error."""
        found = self.session.statistics
        fed = found.prompt_tokens - found.reused_tokens
        prefill = fed / found.prefill_seconds if found.prefill_seconds else 0
        decode = (found.generated_tokens - 1) / found.decode_seconds if found.decode_seconds else 0
        print(
            f"[prompt {found.prompt_tokens} tokens, {found.reused_tokens} of them held, {prefill:.1f} tokens/s; "
            f"answer {found.generated_tokens} tokens, {decode:.1f} tokens/s; "
            f"first after {found.first_token_seconds:.3f} s]",
            file=sys.stderr,
        )
        counts = self.session.counts if isinstance(self.session, SpeculativeSession) else None
        if counts is not None:
            print(f"[{counts.accepted} of {counts.drafted} guesses right, {counts.calls} calls]", file=sys.stderr)

    def save(self, path: Path) -> None:
        """The cache to a file and what was said to one beside it. Raises EtirError (E1725)."""
        self.session.save(path)
        beside = path.with_name(path.name + ".messages.json")
        try:
            beside.write_text(json.dumps(self.messages, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise E1725.error(f"'{beside}' cannot be written: {error.strerror}") from None

    def restore(self, path: Path) -> None:
        """Both back. Raises EtirError (E1725)."""
        beside = path.with_name(path.name + ".messages.json")
        try:
            messages = json.loads(beside.read_bytes())
        except (OSError, ValueError, RecursionError):
            raise E1725.error(f"'{beside}', which has what was said, cannot be read") from None
        rows: list[Any] = messages if isinstance(messages, list) else [None]
        for row in rows:
            if not (isinstance(row, dict) and {type(row.get(key)) for key in ("role", "content")} == {str}):
                raise E1725.error(f"'{beside}' holds no messages")
        self.session.restore(path)
        self.messages = rows

    def command(self, line: str) -> bool:
        """Obey a line that begins with a slash. False ends the conversation. Raises EtirError."""
        name, _, rest = line.partition(" ")
        match name:
            case "/exit" | "/quit":
                return False
            case "/reset":
                self.reset(self.arguments.system)
            case "/system":
                self.reset(rest.strip())
            case "/save" if rest.strip():
                self.save(Path(rest.strip()))
            case "/restore" if rest.strip():
                self.restore(Path(rest.strip()))
            case "/stats":
                self.print_statistics()
            case _:
                width = max(map(len, COMMANDS))
                for command, meaning in COMMANDS.items():
                    print(f"{command:{width}}  {meaning}", file=sys.stderr)
        return True


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Load, then answer. Raises EtirError for what is wrong with the files, the arguments and a single prompt."""
    model = load_model(arguments, arguments.threads)
    drafting = drafting_of(arguments, model, arguments.threads)
    session = model.session() if drafting is None else drafting.session()
    conversation = Conversation(model, session, arguments, sampling_of(arguments))
    conversation.reset(arguments.system)
    if arguments.prompt is not None:
        conversation.answer(sys.stdin.read() if arguments.prompt == "-" else arguments.prompt)
        return OK
    interactive = sys.stdin.isatty()
    if interactive:
        import readline  # noqa: F401  history and editing of lines

        print(f"{model.chat.name or arguments.model}, {model.context} tokens of context; /help lists commands")
    while True:
        try:
            line = input("> " if interactive else "")
            if line.startswith("/"):
                if not conversation.command(line):
                    return OK
            elif line.strip():
                conversation.answer(line)
        except EtirError as error:
            console.report(error.diagnostics)
        except (EOFError, KeyboardInterrupt):
            return OK
