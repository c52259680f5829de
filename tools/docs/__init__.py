"""The parts of the documentation that are made from what the program itself reads.

Passes come from the registry, errors from the ids that the packages define, operators from the schema table and the
decompositions, kernels from the manifests, command lines from their argument parsers, the Python interface from its
docstrings, levels and figures from the pipeline and the list of layers. None of it is in the repository: a page has the
place of a part between two comments,

    <!-- begin generated: passes -->
    what a reader of the file sees instead
    <!-- end generated -->

and :mod:`etir.tools.docs.hook` puts the part there when the site is built (``make site``). ``python -m etir.tools.docs
passes`` prints one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module

PARTS: dict[str, str] = {
    "passes": "passes:passes_part",
    "errors": "error_ids:errors_part",
    "operators": "operators:operators_part",
    "kernels": "kernels:kernels_part",
    "commands": "commands:commands_part",
    "python-api": "python_api:python_api_part",
    "levels": "levels:levels_part",
    "decisions": "decisions:decisions_part",
    "figure-levels": "figures:levels_figure",
    "figure-layers": "figures:layers_figure",
    "figure-runtime": "figures:runtime_figure",
}
"""Name of a part to ``module:function``; the function takes nothing and returns markdown."""

PLACE = re.compile(
    r"^```.*?^```$|^<!-- begin generated: (?P<name>[\w-]+) -->\n.*?^<!-- end generated -->\n", re.DOTALL | re.MULTILINE
)
"""A place, or a fenced block: one in an example is no place."""


def part(name: str) -> str:
    """The markdown of a part. Raises ``KeyError`` for a name that is not one of :data:`PARTS`."""
    module, _, function = PARTS[name].partition(":")
    make: Callable[[], str] = getattr(import_module(f"{__name__}.{module}"), function)
    return make()


def fill(text: str) -> str:
    """A page with its parts in their places. Raises ``KeyError`` for an unknown part."""
    return PLACE.sub(lambda place: place[0] if place["name"] is None else part(place["name"]), text)
