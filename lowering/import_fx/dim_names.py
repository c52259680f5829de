"""The names that the user gave to dims, ``Dim("batch")``, for torch's symbols.

An exported program does not keep the dims that it was exported with; the environment of its symbols does, as long as
the program has not been saved. Where it does not know, torch's own names stay.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from etir.dialects.sym.atoms import KEYWORDS

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_TORCH = re.compile(r"(s|u|zuf|zf)\d+")


def user_names(program: ExportedProgram) -> dict[str, str]:
    """The user's names of symbols; derived dims such as ``batch + 1`` have none."""
    environment = _environment(program)
    if environment is None:
        return {}
    given: dict[str, str] = environment.source_name_to_debug_name
    found: dict[str, str] = {}
    for symbol, sources in environment.var_to_sources.items():
        names = [given.get(source.name, "") for source in sources]
        plain = [n for n in names if _PLAIN.fullmatch(n) and not _TORCH.fullmatch(n) and n not in KEYWORDS]
        if plain:
            found[str(symbol)] = plain[0]
    return found


def _environment(program: ExportedProgram) -> Any:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None
