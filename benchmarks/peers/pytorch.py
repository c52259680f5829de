"""torch: eager, and ``torch.compile``, with its weights as inputs or frozen into the code; the faster one counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from peers.model import Model, Prepared, fastest


def _prepared(function: Callable[..., Any], mode: Callable[[], Any], model: Model) -> Prepared:
    arguments = model.arguments

    def call() -> Any:
        with mode():
            return function(*arguments)

    return Prepared(call, lambda: [value.clone() for value in pytree.tree_leaves(call())])


def eager(model: Model) -> Prepared:
    """The module, called."""
    return _prepared(model.module(), torch.inference_mode, model)


def compiled(model: Model) -> Prepared:
    """``torch.compile`` of the module for static sizes. Weights are only frozen under ``no_grad``."""
    from torch._inductor import config

    def compile(freezing: bool) -> Prepared:
        with config.patch(freezing=freezing):
            prepared = _prepared(torch.compile(model.module(), dynamic=False), torch.no_grad, model)
            prepared.call()
        return prepared

    return fastest({"freezing": lambda: compile(True), "default": lambda: compile(False)})
