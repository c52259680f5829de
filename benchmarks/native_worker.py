"""One model on all peers, in this process: prepared one after the other, compared with eager, measured in turns."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import re
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from in_turns import Least, least_in_turns
from machine_limit import probes
from native_figures import Figures, PeerFigures
from native_models import KNOWN
from peers import PEERS
from peers.model import Model, Prepared
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from etir_testing.models.registry import relative_difference

_ESCAPES = re.compile("\x1b\\[[0-9;]*m")
WRONG = 1e-2
"""A peer that is farther from eager than this computes something else: it is a gap."""


def measure(
    name: str, peers: Sequence[str], seconds: float, starting: Callable[[str], None] = lambda name: None
) -> Figures:
    """The figures of one model on ``peers``; ``starting`` is told which peer is at work."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    starting("")
    model = Model(KNOWN[name].build)
    figures = Figures(name, flops=flops_of(model), moved=bytes_of(model), eager_error=eager_error(model))
    if {"native", "kernels"} & set(peers):
        _import_compiler()
    ready: dict[str, Prepared] = {}
    for peer in peers:
        starting(peer)
        prepared = _prepare(model, peer, figures)
        if prepared is not None:
            ready[peer] = prepared
    del model
    found = _least({peer: prepared.call for peer, prepared in ready.items()}, seconds, starting, figures)
    for peer in ready:
        least = found[peer]
        figures.peers[peer].seconds, figures.peers[peer].wall = least.seconds, least.wall
    return figures


def _least(
    calls: dict[str, Callable[[], Any]], seconds: float, starting: Callable[[str], None], figures: Figures
) -> dict[str, Least]:
    limits = probes()
    for limit, probe in limits.items():
        calls = {**calls, limit: probe.call}
    gc.collect()
    gc.freeze()
    gc.disable()
    found = least_in_turns(calls, seconds, starting=starting)
    gc.enable()
    figures.limits = {limit: probe.amount / found[limit].seconds for limit, probe in limits.items()}
    return found


def _import_compiler() -> None:
    """Compile something small: seconds of imports are not a compilation's."""
    own = importlib.import_module("peers.own")
    from etir_testing.models.zoo_entry import Built

    small = Model(lambda: Built(nn.Linear(4, 4).eval(), (torch.zeros(1, 4),)))
    with contextlib.suppress(Exception):  # what fails here fails again where it is noted
        own.kernels(small)
        own.native(small)


def _prepare(model: Model, peer: str, figures: Figures) -> Prepared | None:
    """The peer's call, or None with the reason in the figures."""
    missing = PEERS[peer].missing()
    row = figures.peers[peer] = PeerFigures()
    if missing:
        row.gap = f"{', '.join(missing)} not installed"
        return None
    model.export()
    start = cpu_seconds()
    try:
        prepared = PEERS[peer].prepare(model)
        row.prepare_seconds = cpu_seconds() - start
        row.error = relative_difference([t.detach() for t in prepared.outputs()], model.expected)
    except Exception as error:  # an engine may raise anything, and all of it is a gap
        row.gap = reason(error)
        return None
    row.notes = prepared.notes
    if not row.error <= WRONG:
        row.gap = f"computes something else: differs from eager by {row.error:.1e}"
        return None
    return prepared


def reason(error: BaseException) -> str:
    """What an error says, in one line of a readable length: the first cause, where one error led to another."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in _ESCAPES.sub("", str(error)).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0] if lines else ''}".replace("|", "\\|")
    return text if len(text) <= 160 else text[:157] + "..."


def cpu_seconds() -> float:
    """Processor seconds of this process and of those that it started and waited for: a compiler is one."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@contextlib.contextmanager
def _plain_operators() -> Iterator[None]:
    """Attention and recurrent layers as products, which the counter knows."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class _Counter(TorchDispatchMode):
    """Operations by torch's formulas. (Its own mode puts hooks on modules, which derivatives inside of them refuse.)"""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result


def flops_of(model: Model) -> float:
    """Floating-point operations of products and convolutions, two for a multiply-add, by torch's formulas."""
    counter = _Counter()
    module = model.module()
    with torch.no_grad(), _plain_operators(), counter:
        module(*model.arguments)
    return float(counter.flops)


def bytes_of(model: Model) -> float:
    """Bytes that no program can leave unread or unwritten: inputs, outputs, and weights once.

    Of an embedding's table only the rows that are looked up are read.
    """
    module = model.module()
    tables = {id(layer.weight) for layer in module.modules() if isinstance(layer, nn.Embedding)}
    read = 0

    def count(layer: nn.Module, given: Any, result: torch.Tensor) -> None:
        nonlocal read
        read += result.nbytes

    for layer in module.modules():
        if isinstance(layer, nn.Embedding):
            layer.register_forward_hook(count)
    with torch.no_grad():
        outputs = pytree.tree_leaves(module(*model.arguments))
    weights = [*module.parameters(), *module.buffers()]
    held = [weight for weight in weights if id(weight) not in tables]
    return float(read + sum(tensor.nbytes for tensor in [*held, *model.inputs, *outputs]))


def eager_error(model: Model) -> float | None:
    """How far eager itself is from the same computation in float64; None for a module that has none."""
    double = [t.double() if t.dtype == torch.float32 else t for t in model.inputs]
    arguments = pytree.tree_unflatten(double, pytree.tree_flatten(model.arguments)[1])
    try:
        with torch.no_grad():
            exact = [t.float() if t.dtype == torch.float64 else t
                     for t in pytree.tree_leaves(model.module().double()(*arguments))]  # fmt: skip
    except (RuntimeError, TypeError, ValueError):
        return None
    error = relative_difference(model.expected, exact)
    return error if error < float("inf") else None
