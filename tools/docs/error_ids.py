"""The reference of errors: every id that a package defines, with an anchor of its own."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from etir.tools.docs.text import table

PACKAGES = (
    "extensions",
    "dialects",
    "passes",
    "lowering",
    "backends",
    "emit",
    "quantization",
    "devtools",
    "tools",
    "interpret",
    "targets",
    "runtime",
    "llm",
    "sweeps",
)

ERROR_AREAS = {
    "E01": "Text and types",
    "E02": "Weights",
    "E03": "Verification",
    "E04": "Import, decomposition and lowering",
    "E05": "Passes",
    "E06": "Targets and the link check",
    "E07": "Memory planning",
    "E08": "`.pte` and `.ptd` files",
    "E09": "Tools",
    "E10": "Interpreter",
    "E11": "Delegates",
    "E12": "Runtime",
    "E13": "Plug-ins",
    "E14": "Developer tools",
    "E15": "Quantization",
    "E16": "Language models: checkpoints and compilation",
    "E17": "Language models: tokenizers, sessions and the server",
    "E19": "Sweeps",
}


def errors_part() -> str:
    """Every error id that any package defines."""
    from etir.diagnostics import REGISTRY

    import_error_modules()
    lines: list[str] = []
    for prefix, title in ERROR_AREAS.items():
        ids = [REGISTRY[id] for id in sorted(REGISTRY) if id.startswith(prefix)]
        if ids:
            rows = [(f'<a id="{e.id}"></a>{e.id}', e.title, e.help) for e in ids]
            lines += ["", f"## {title}", "", *table(("id", "what is wrong", "what to do"), rows)]
    return "\n".join(lines) + "\n"


def import_error_modules() -> None:
    """Import the ``errors`` module of every package, which fills the registry of ids."""
    import_module("etir.errors")
    for package in PACKAGES:
        module = import_module(f"etir.{package}")
        for found in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            if found.name.endswith(".errors"):
                import_module(found.name)
