"""What observed values look like: the program runs on one sample after the other, and nothing of them is kept but a
least number, a greatest one, and a histogram of 2,048 bins.

The bins lie around zero, from -R to R. A number outside doubles R until it is inside, and pairs of bins become one, so
that one pass over the data is enough. Of a large tensor, the least and the greatest of all numbers count, and every
so-many-th is in the histogram: what a sample's 16,384 numbers do not show, more samples do.

What was seen depends on the observed program and the samples alone. Who quantizes one program in several ways can keep
it under the digest of both: recipes that differ in how integers are chosen, and targets and delegates that observe the
same values, run the program once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import EtirError
from etir.dialects.et.program import UpdateInputOp
from etir.dialects.quant.ops import ObserveOp, Range, RangeAttr
from etir.dialects.text import print_module, source_location
from etir.interpret.evaluator import Evaluator
from etir.interpret.interpreter import Interpreter
from etir.quantization.errors import E1503, E1504, E1505
from etir.quantization.passes.annotate_quantization import FLOAT

BINS = 2048
_HALF = BINS // 2
COUNTED = 16384
"""Numbers of one sample's tensor that are in the histogram, more or less."""


@dataclass
class Statistics:
    """What has been seen of one value."""

    low: float = np.inf
    high: float = -np.inf
    samples: int = 0
    radius: float = 0.0
    bins: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, numbers: np.ndarray) -> None:
        """Look at one sample's numbers. Raises ``ValueError`` for one that is not finite."""
        if not numbers.size:
            return
        low, high = float(numbers.min()), float(numbers.max())
        if not np.isfinite(low) or not np.isfinite(high):
            raise ValueError("nan" if np.isnan(low) or np.isnan(high) else "inf")
        self.low, self.high, self.samples = min(self.low, low), max(self.high, high), self.samples + 1
        self._grow(max(-low, high))
        scale = np.float32(_HALF / self.radius)
        some = numbers.ravel(order="K")[:: _stride(numbers)]
        places = np.clip((some * scale).astype(np.int32) + _HALF - (some < 0), 0, BINS - 1)
        self.bins += np.bincount(places, minlength=BINS)

    def _grow(self, magnitude: float) -> None:
        """Bins that reach as far as ``magnitude``."""
        if not self.radius:
            self.radius = max(magnitude, 1e-30)
        while self.radius < magnitude:
            inner = self.bins.reshape(-1, 2).sum(1)
            self.bins = np.zeros(BINS, np.int64)
            self.bins[_HALF // 2 : _HALF // 2 + _HALF] = inner
            self.radius *= 2

    @property
    def centers(self) -> np.ndarray:
        """The number in the middle of each bin."""
        return (np.arange(BINS) - _HALF + 0.5) * (self.radius / _HALF)

    @property
    def range(self) -> Range:
        """What the text says."""
        return Range(self.low, self.high, self.samples)


Numbered = list[tuple[int, Statistics]]
"""What was seen of observers, by their place in the text."""


class Kept(Protocol):
    """What was seen, by the digest of program and samples: a dictionary, or what keeps it elsewhere."""

    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> Numbered: ...
    def __setitem__(self, key: str, value: Numbered, /) -> None: ...


def _stride(numbers: np.ndarray) -> int:
    """The distance of the numbers that are counted: one that has no factor in common with a dim, so that numbers of all
    indices are among them.
    """
    stride = max(numbers.size // COUNTED, 1)
    while stride > 1 and any(gcd(stride, size) > 1 for size in numbers.shape):
        stride += 1
    return stride


def calibrate(
    module: ModuleOp,
    samples: Iterable[Sequence[Any]],
    method: str = "forward",
    evaluator: str | Evaluator = "auto",
    kept: Kept | None = None,
) -> dict[ObserveOp, Statistics]:
    """Run ``method`` on every sample (its inputs) and write the ranges of what is observed into the text, merged with
    those that are there. Values are freed after their last use. ``kept`` has what was seen before: then nothing runs.

    Raises E1503 where there is no sample, E1504 for one that does not fit, E1505 for a value that is not finite.
    """
    if kept is None:
        found = _seen(module, samples, method, evaluator)
    else:
        listed = list(samples)
        key = f"{key_of(module, listed)}-{method}"
        observers = [op for op in module.walk() if isinstance(op, ObserveOp)]
        if key in kept:
            found = {observers[index]: statistics for index, statistics in kept[key]}
        else:
            found = _seen(module, listed, method, evaluator)
            kept[key] = [(i, found[op]) for i, op in enumerate(observers) if op in found]
    for op, statistics in found.items():
        if statistics.samples:
            seen = statistics.range
            if op.seen is not None:
                before = op.seen.data
                counted = before.samples + seen.samples
                seen = Range(min(before.low, seen.low), max(before.high, seen.high), counted)
            op.properties["seen"] = RangeAttr(seen)
    return found


def key_of(module: ModuleOp, samples: Sequence[Sequence[Any]]) -> str:
    """32 hexadecimal digits of a program, whose text names its weights by their digests, and of what it runs on.

    What becomes of a value after it was seen (``quant.float``) is no part of it.
    """
    marks = {op: op.attributes.pop(FLOAT) for op in module.walk() if FLOAT in op.attributes}
    try:
        found = hashlib.sha256(print_module(module).encode())
    finally:
        for op, mark in marks.items():
            op.attributes[FLOAT] = mark
    for sample in samples:
        for value in sample:
            array = np.asarray(value)
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        found.update(b";")
    return found.hexdigest()[:32]


def _seen(
    module: ModuleOp, samples: Iterable[Sequence[Any]], method: str, evaluator: str | Evaluator
) -> dict[ObserveOp, Statistics]:
    interpreter = Interpreter(module, evaluator)
    found: dict[ObserveOp, Statistics] = {}

    def observe(op: ObserveOp, value: Any) -> None:
        statistics = found.setdefault(op, Statistics())
        try:
            statistics.add(np.asarray(value, np.float32))
        except ValueError as error:
            raise E1505.error(
                f"sample {count} makes {error} of what is observed", source_location(op.location)
            ) from None

    count = 0
    for sample in samples:
        run_observed(interpreter, sample, method, observe, count)
        count += 1
    if not count:
        raise E1503.error("static-int8 needs to see inputs")
    return found


def run_observed(
    interpreter: Interpreter,
    sample: Sequence[Any],
    method: str,
    observe: Callable[[ObserveOp, Any], None],
    index: int = 0,
) -> list[Any]:
    """The outputs for one sample, which stays as it is if the method writes to its inputs. Raises E1504 for inputs that
    do not fit the method.
    """
    func = interpreter.symbols.get(method)
    writes = func is not None and any(isinstance(op, UpdateInputOp) for op in func.walk())
    interpreter.observe = observe
    try:
        return interpreter.run([deepcopy(value) for value in sample] if writes else list(sample), method)
    except EtirError as error:
        if not {"E1002", "E1004"} & set(error.ids):
            raise
        raise E1504.error(f"sample {index}: {error.diagnostics[0].message}") from None
    finally:
        interpreter.observe = None
