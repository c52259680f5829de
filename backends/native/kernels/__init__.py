"""Micro-kernel templates: one file each, with legality, cost, C text and meaning of one operation of ``tile``.

A template is found by its operation's class (:func:`template_of`). A new one is a new file with a class that
``@template`` registers, and a test; docs/tutorial/micro_kernel.md writes one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from etir.backends.native.kernels.template import REGISTERED, Template
from etir.backends.native.tile import TemplateOp


@cache
def templates() -> dict[type[TemplateOp], Template]:
    """Every template by the class of its operation."""
    for name in sorted(info.name for info in iter_modules(__path__)):
        import_module(f"{__name__}.{name}")
    return REGISTERED


def template_of(op: TemplateOp) -> Template:
    """The template that executes ``op``."""
    return templates()[type(op)]
