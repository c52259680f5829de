"""Quantized programs as bytes: the module's text and the bytes that it names, for cells that share them, and what
became of the layers, which the rows of these cells say.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module, print_module
from etir.quantization.calibration import Numbered
from etir.quantization.recipes import recipe_of
from etir.quantization.report import KINDS, QuantizationReport
from etir.sweeps.identity import compiler_digest, digest_of
from etir.sweeps.store import Store

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


NAMED = 3
"""Layers that a row names."""


@dataclass(frozen=True)
class Said:
    """What a row says of a quantization: how many ``layers`` are stored how, and ``notes``: which are not stored as
    the recipe says, and what else was done."""

    layers: str
    notes: tuple[str, ...] = ()


class KeptStatistics:
    """What calibrations have seen, as artefacts: those of other jobs of this folder are found, too."""

    def __init__(self, store: Store):
        self._store = store

    def __contains__(self, key: object) -> bool:
        return self._store.has(_artefact(str(key)))

    def __getitem__(self, key: str) -> Numbered:
        return pickle.loads(self._store.read(_artefact(key)))

    def __setitem__(self, key: str, value: Numbered) -> None:
        self._store.write(_artefact(key), pickle.dumps(value))


def _artefact(key: str) -> str:
    return digest_of([compiler_digest(), "seen", key])


def said_of(report: QuantizationReport) -> Said:
    """The report in short."""
    counts = Counter(layer.stored for layer in report.layers)
    layers = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    wanted = recipe_of(report.recipe).stored
    weighted = [layer for layer in report.layers if layer.weight_bytes]
    others = [layer for layer in weighted if layer.stored != wanted]
    if not others:
        return Said(layers or "none", report.notes)
    named = [f"{layer.name or layer.operator} is {layer.stored}" for layer in others[:NAMED]]
    named += [f"{len(others) - NAMED} more"] if len(others) > NAMED else []
    note = f"{len(others)} of {len(weighted)} layers with weights are not {wanted}: {', '.join(named)}"
    return Said(layers, (note, *report.notes))


def module_bytes(module: ModuleOp, said: Said) -> bytes:
    """The module at whatever level, with its weights, and what is said of it."""
    found = {
        a.data.digest: bytes(a.data.data)
        for op in module.walk()
        for a in op.properties.values()
        if isinstance(a, BlobAttr)
    }
    what = {"text": print_module(module, locations=True), "blobs": list(found.values()), "said": said}
    return pickle.dumps(what)


def module_of_bytes(data: bytes) -> tuple[ModuleOp, Said]:
    """Both again."""
    state = pickle.loads(data)
    blobs = {blob.digest: blob for blob in map(Blob.of, state["blobs"])}
    module = parse_module(state["text"], name="<quantized program>")
    for op in module.walk():
        for attribute in op.properties.values():
            if isinstance(attribute, BlobAttr):
                attribute.data.attach(blobs[attribute.data.digest].data)
    return module, state["said"]
