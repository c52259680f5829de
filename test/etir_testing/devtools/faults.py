"""Planted faults: a pass that does its work and then changes one thing, and a runtime whose kernel is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from etir.devtools.comparison.levels import Blobs
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.passes.infra.registry import find_pass


def rewritten(module: ModuleOp, pattern: str, by: str) -> bool:
    """Replace the first match of a regular expression in the text of a module; False when there is none."""
    from etir.backends.api.registry import backend_dialects

    text, count = re.subn(pattern, by, print_module(module, locations=True), count=1)
    if not count:
        return False
    made = parse_module(text, EtContext(dialects=backend_dialects()))
    Blobs([module]).give(made)
    module.body.detach_block(module.body.block)
    module.body.add_block(made.body.detach_block(made.body.block))
    return True


@contextmanager
def planted(pass_name: str, pattern: str, by: str) -> Iterator[None]:
    """While it lasts, the first run of the pass over a program that has the pattern leaves it changed."""
    cls = find_pass(pass_name)
    own: Callable[..., Any] = cls.apply

    def wrong(self: Any, ctx: Any, op: ModuleOp) -> None:
        own(self, ctx, op)
        rewritten(op, pattern, by)

    cls.apply = wrong
    try:
        yield
    finally:
        cls.apply = own
