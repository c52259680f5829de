"""``et-llm``: language models, from a checkpoint to a chat.

The first argument is a command. Every command is a module of :mod:`etir.tools.llm` with a parser of its own, so that
none of them waits for what another one imports.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from etir.diagnostics import did_you_mean
from etir.tools.common import ToolParser, run_tool
from etir.tools.llm import COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else ""
    if name in COMMANDS:
        module = import_module(f"etir.tools.llm.{name}")
        return run_tool(module.parser(), module.run, words[1:])
    parser = _parser()
    parser.parse_args(words[:1] if name.startswith("-") else [])
    if not name:
        parser.error("there is no command", f"there are {', '.join(COMMANDS)}")
    parser.error(f"'{name}' is no command{did_you_mean(name, COMMANDS)}", f"there are {', '.join(COMMANDS)}")


def _parser() -> ToolParser:
    width = max(map(len, COMMANDS), default=0)
    lines = [f"  {name:{width}}  {meaning}" for name, meaning in COMMANDS.items()]
    epilog = "\n".join(["commands:", *lines, "", "et-llm COMMAND --help lists the arguments of one."])
    return ToolParser("et-llm", "Language models, from a checkpoint to a chat.", epilog)
