"""What ``--list-passes`` and ``--list-dialects`` print."""

from __future__ import annotations

import inspect
from importlib import import_module

from etir.diagnostics import EtirError
from etir.dialects.aten.table import load_table
from etir.dialects.context import DIALECTS
from etir.passes.infra.pipeline import pass_options
from etir.passes.infra.registry import all_passes, find_pass
from etir.tools.context import ToolContext


def passes_text() -> str:
    """Every pass with its summary and its options: type and default, or that it is required."""
    lines: list[str] = []
    for name in all_passes():
        try:
            cls = find_pass(name)
        except EtirError as error:
            lines.append(f"{name}\n    ({error.diagnostics[0].message})")
            continue
        lines.append(name)
        summary = (inspect.getdoc(cls) or "").split("\n")[0]
        if summary:
            lines.append(f"    {summary}")
        for option in pass_options(cls):
            default = "required" if option.default is None else f"default {option.default}"
            lines.append(f"      {option.name}={option.type}  ({default})")
    return "\n".join(lines) + "\n"


def dialects_text() -> str:
    """Every dialect with its number of operations and its summary."""
    ctx = ToolContext()
    ctx.register_plugins()
    operators = list(load_table())
    lines: list[str] = []
    for name in sorted(ctx.registered_dialect_names):
        ctx.load_registered_dialect(name)
        dialect = next(d for d in ctx.loaded_dialects if d.name == name)
        count = len(list(dialect.operations))
        if name == "edge":
            count += len(operators)
        elif name == "aten":
            count += sum(1 for operator in operators if operator.startswith("aten."))
        lines.append(f"{name:<10}{count:>6} operations  {_dialect_summary(name)}".rstrip())
    return "\n".join(lines) + "\n"


def _dialect_summary(name: str) -> str:
    if name not in DIALECTS:
        return "(plug-in)"
    try:
        module = import_module(f"etir.dialects.{name}")
    except ModuleNotFoundError:
        return "xDSL's"
    return (inspect.getdoc(module) or "").split("\n")[0]
