"""The reference of command lines: what each tool's argument parser says, as tables."""

from __future__ import annotations

import argparse
from importlib import import_module

from etir.tools.docs.text import table

COMMANDS: dict[str, str] = {
    "et-compile": "et_compile:_parser",
    "et-opt": "opt_arguments:OptParser",
    "et-translate": "et_translate:_parser",
    "et-run": "et_run:_parser",
    "et-inspect": "et_inspect:_parser",
    "et-bisect": "et_bisect:_parser",
    "et-compare": "et_compare:_parser",
    "et-reduce": "et_reduce:_parser",
    "et-lsp": "et_lsp:_parser",
    "et-explore": "et_explore:_parser",
    "et-llm": "et_llm:_parser",
    "et-llm perplexity": "llm.perplexity:parser",
    "et-llm serve": "llm.serve:parser",
    "et-llm compile": "llm.compile:parser",
    "et-llm chat": "llm.chat:parser",
    "et-llm bench": "llm.bench:parser",
    "et-sweep": "et_sweep:_parser",
    "et-sweep report": "et_sweep:_report_parser",
    "python -m etir.tools.select_kernels": "select_kernels:_parser",
}
"""Command to what makes its parser, ``module:function`` in ``etir.tools``."""


def commands_part() -> str:
    """Every command with its description and its arguments, in the groups of its parser."""
    lines: list[str] = []
    for command, place in COMMANDS.items():
        module, _, make = place.partition(":")
        parser: argparse.ArgumentParser = getattr(import_module(f"etir.tools.{module}"), make)()
        title = command.rpartition(".")[2]
        lines += [f"## `{title}`", ""]
        first, _, rest = (parser.description or "").partition("\n")
        lines += [first, ""]
        if rest.strip():
            lines += ["```text", rest.strip("\n"), "```", ""]
        if command != title:
            lines += [f"Runs as `{command}`.", ""]
        for group in parser._action_groups:  # pyright: ignore[reportPrivateUsage]
            actions = [
                action
                for action in group._group_actions  # pyright: ignore[reportPrivateUsage]
                if action.help is not argparse.SUPPRESS
            ]
            if actions:
                lines += [f"**{(group.title or '').capitalize()}**", ""]
                lines += [*table(("argument", "meaning"), [(_spelling(a), _help(parser, a)) for a in actions]), ""]
        if parser.epilog:
            lines += ["```text", parser.epilog.strip("\n"), "```", ""]
    return "\n".join(lines)


def _spelling(action: argparse.Action) -> str:
    names = action.option_strings or [str(action.metavar or action.dest)]
    value = ""
    if action.option_strings and action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else None
        metavar = action.metavar if isinstance(action.metavar, str) else None
        value = " " + (metavar or choices or action.dest.upper())
        value = f" [{value.strip()}]" if action.nargs == "?" else value
    return ", ".join(f"`{name}{value}`" for name in names)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return text.replace("<", "&lt;").replace("*", "\\*")
