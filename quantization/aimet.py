"""Encodings as a file that others read and write: the JSON of AIMET (Qualcomm's AI Model Efficiency Toolkit).

Version 1.0.0 of its format has a list for activations and one for weights (``param_encodings``); older files have
objects by name. An entry has ``bw`` (bits), ``dtype``, ``enc_type``, ``is_sym``, ``scale`` and ``offset``: numbers are
``(q + offset) * scale`` with q from 0. Names are those of the modules that make values (``blocks.0.pointwise``, and for
weights ``blocks.0.pointwise:weight``) or of inputs, with ``#1`` and so on for the second one of a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from etir.backends.api.quantization import CLAMPS
from etir.diagnostics import did_you_mean
from etir.dialects.edge.base import EdgeOp
from etir.dialects.quant.ops import HIGH, LOW, ObserveOp, Uniform, UniformAttr
from etir.dialects.signatures import input_names
from etir.dialects.text import source_location
from etir.quantization.encodings import uniform
from etir.quantization.errors import E1508
from etir.quantization.layers import as_stored, encoding_of, integers_of, layers_with_weights, weight_of
from etir.quantization.parameters import Parameters

VERSION = "1.0.0"


def named_observers(module: ModuleOp) -> dict[str, ObserveOp]:
    """The observed values by the names that files have for them."""
    return dict(_numbered((_value_name(op.input), op) for op in module.walk() if isinstance(op, ObserveOp)))


def _numbered(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    counts: dict[str, int] = {}
    for name, found in pairs:
        count = counts[name] = counts.get(name, -1) + 1
        yield (f"{name}#{count}" if count else name), found


def _value_name(value: SSAValue) -> str:
    """The module that makes a value, clamps aside, or the input."""
    owner = value.owner
    if isinstance(owner, Block):
        func = owner.parent_op()
        index = getattr(value, "index", 0)
        return list(input_names(func))[index] if isinstance(func, FuncOp) else f"argument{index}"
    while isinstance(owner, EdgeOp) and owner.op_name in CLAMPS and isinstance(owner.operands[0].owner, EdgeOp):
        owner = owner.operands[0].owner
    return _layer_name(owner) if isinstance(owner, EdgeOp) else "value"


def _layer_name(op: EdgeOp) -> str:
    place = source_location(op.location)
    module = place.module if place is not None else ""
    return module or op.results[0].name_hint or op.op_name


def encodings_text(module: ModuleOp) -> str:
    """The JSON of a module whose values are observed and whose weights are marked."""
    activations = [
        _entry(name, 8, False, "PER_TENSOR", [op.encoding.data.scale or 1.0], [LOW - op.encoding.data.zero_point])
        for name, op in named_observers(module).items()
        if op.encoding is not None
    ]
    parameters = Parameters(module)
    weights: list[dict[str, Any]] = []
    for name, op in _numbered((f"{_layer_name(op)}:weight", op) for op in layers_with_weights(module)):
        how = encoding_of(op).data
        written = integers_of(op, parameters.store)
        if written is None and parameters.is_known(weight_of(op)):
            written = as_stored(op, parameters.array(weight_of(op)), parameters.store)
        if written is None:
            continue
        scales = [float(scale) for scale in written[1].reshape(-1)]
        kind = "PER_CHANNEL" if how.block is None else "PER_BLOCK"
        entry = _entry(name, how.bits, True, kind, scales, [-(1 << (how.bits - 1))] * len(scales))
        weights.append(entry if how.block is None else entry | {"block_size": how.block})
    found = {"version": VERSION, "activation_encodings": activations, "param_encodings": weights}
    return json.dumps(found, indent=2) + "\n"


def _entry(name: str, bits: int, symmetric: bool, kind: str, scales: list[float], offsets: list[int]) -> dict[str, Any]:
    named: dict[str, Any] = {"name": name, "bw": bits, "dtype": "INT", "enc_type": kind, "is_sym": symmetric}
    return named | {"scale": scales, "offset": offsets}


def read_encodings(path: str | PathLike[str], module: ModuleOp) -> int:
    """Give the observed values of ``module`` the encodings of a file; how many. Those that it does not name keep
    theirs, and weights have the scales that follow from their numbers.

    Raises E1508 for a file that cannot be read, that has a value which is not there, or what int8 does not hold.
    """
    observers = named_observers(module)
    read = 0
    for name, entry in _entries(Path(path)):
        op = observers.get(name)
        if op is None:
            raise E1508.error(f"'{path}': the program has no value '{name}'{did_you_mean(name, observers)}")
        op.properties["as"] = UniformAttr(_uniform(entry, name, path))
        read += 1
    if not read:
        raise E1508.error(f"'{path}' has no encodings of activations")
    return read


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise E1508.error(f"cannot read '{path}': {error}") from None
    given = found.get("activation_encodings") if isinstance(found, dict) else None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, dict):  # Before version 1: a list of encodings by name.
        for name, each in given.items():
            if isinstance(each, list) and len(each) > 1:
                raise E1508.error(f"'{path}': '{name}' has {len(each)} encodings; activations have one")
            pairs.append((name, each[0] if isinstance(each, list) and each else each))
    elif isinstance(given, list):
        pairs = [(each.get("name") if isinstance(each, dict) else None, each) for each in given]
    else:
        raise E1508.error(f"'{path}' has no list 'activation_encodings'")
    for name, entry in pairs:
        if not isinstance(name, str) or not isinstance(entry, dict):
            raise E1508.error(f"'{path}': an encoding without a name or without numbers")
        yield name, entry


def _uniform(entry: dict[str, Any], name: str, path: object) -> Uniform:
    """The scale and zero point of an entry: of its ``scale`` and ``offset``, else of its ``min`` and ``max``."""
    bits = entry.get("bw", entry.get("bitwidth", 8))
    if bits != 8:
        raise E1508.error(f"'{path}': '{name}' has {bits} bits; activations have 8")
    try:
        if "scale" in entry and "offset" in entry:
            scales, offsets = (np.asarray(entry[key], np.float64).reshape(-1) for key in ("scale", "offset"))
            if max(scales.size, offsets.size) > 1:
                count = max(scales.size, offsets.size)
                raise E1508.error(f"'{path}': '{name}' has {count} scales or offsets; activations have one")
            scale, offset = float(scales[0]), float(offsets[0])
            found = Uniform(float(np.float32(scale)), LOW - round(offset))
        else:
            found = uniform(float(entry["min"]), float(entry["max"]))
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise E1508.error(f"'{path}': '{name}' has no scale and offset, and no min and max: {error}") from None
    if found.scale is None or not 0 < found.scale < float("inf") or not LOW <= found.zero_point <= HIGH:
        offset = LOW - found.zero_point
        raise E1508.error(f"'{path}': '{name}' has scale {found.scale} and offset {offset}, which int8 does not hold")
    return found
