"""etir: machine code, and its kernels."""

from __future__ import annotations

import torch

import etir
import etir.runtime
from peers.model import Model, Prepared


def _prepared(model: Model, delegates: list[str]) -> Prepared:
    program = etir.compile(model.export(), target="etir", delegates=delegates)
    method = etir.runtime.load(program)["forward"]
    inputs = model.inputs
    notes = {"file bytes": f"{len(program.buffer)}"}
    if program.delegation is not None:
        taken = sum(backend.operators for backend in program.delegation.backends)
        notes |= {"delegated": f"{taken}", "operators": f"{program.delegation.operators}"}
    return Prepared(lambda: method(*inputs), lambda: [torch.as_tensor(value) for value in method(*inputs)], notes)


def native(model: Model) -> Prepared:
    """With the delegate ``native``, trusted because it was compiled here."""
    return _prepared(model, ["native"])


def kernels(model: Model) -> Prepared:
    """Without delegates."""
    return _prepared(model, [])
