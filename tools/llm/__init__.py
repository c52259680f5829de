"""The commands of ``et-llm``, one to a file: each has ``parser()`` and ``run(arguments, console)``."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "compile": "a checkpoint to a program, its tokenizer and what a chat needs",
    "chat": "talk with a model",
    "bench": "measure how fast a model reads and writes",
    "perplexity": "how well a program predicts a text, on the runtime that will run it",
    "serve": "answer OpenAI's HTTP interface on this machine, with a page to try the model",
}
"""Command to what it does, in the order in which a user meets them; ``etir.tools.llm.NAME`` is its module."""
