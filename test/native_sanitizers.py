"""Generated code of the model zoo under AddressSanitizer and UndefinedBehaviorSanitizer, and between guard pages.

    python test/native_sanitizers.py                 every small entry
    python test/native_sanitizers.py resnet18 lstm   some entries
    python test/native_sanitizers.py --whole         every entry that has weights

Of every entry, each different function that the delegate ``native`` takes is compiled as C for every processor that
this machine is, with the inputs, outputs, weights and buffers each in memory of their own (``etir_testing.native``):
under sanitizers, and as the image that a program has, between pages that nothing can access. The results of each are
within 1e-5 of the largest number from what the operations mean in float64, or within four times what other last digits
of the inputs and weights make of that when each operation is rounded once: random inputs cancel more than those of a
model, and a softmax of scores of thousands multiplies what any order of sums leaves. Of functions of more than
``--most`` multiply-adds, float64 judges those whose results differ by more than 1e-5. The exit code is not 0 when
anything was found.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from etir.backends.native.cpu import cpu
from etir.backends.native.functions import outputs_of
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.tile_share import share_kernels
from etir.backends.native.passes.verify_tile import verify_function
from etir.backends.native.print_c import print_c
from etir.backends.native.print_sizes import given_sizes, is_dynamic
from etir.backends.native.sizes import most
from etir.backends.native.specialize import type_at
from etir.backends.native.tile import BrgemmOp, DepthwiseOp, TemplateOp, is_flags, shape_of
from etir.diagnostics import EtirError

from etir_testing.native.functions import Tiled, functions_of
from etir_testing.native.guarded import Finding, paged, sanitized
from etir_testing.native.images import here, meaning

TOLERANCE = 1e-5
NUDGES = 4
"""How many times what other last digits of inputs and weights make results may be off."""
TRIALS = 3
"""Other last digits that are tried: the largest change counts, since a single one may cancel."""


def work(tiled: Tiled) -> int:
    """About how many elements a function goes over, times the depth of products, at most."""
    total = 0
    for op in tiled.func.body.block.ops:
        if isinstance(op, TemplateOp):
            depth = most(shape_of(op.a)[-1]) if isinstance(op, (BrgemmOp, DepthwiseOp)) else 1
            total += depth * sum(most(math.prod(shape_of(v))) for v in op.writes())
    return total


def sizes_of(tiled: Tiled) -> Iterator[dict[str, int]]:
    """Values of the symbols of a function: their bounds, and something between them; none for one of static shapes."""
    if not is_dynamic(tiled.func):
        yield {}
        return
    ranges = given_sizes(tiled.func, outputs_of(tiled.func)).ranges
    chance = random.Random(0)
    yield {name: high for name, (_, high) in ranges.items()}
    yield {name: max(low, 1) for name, (low, _) in ranges.items()}
    yield {name: chance.randint(max(low, 1), high) for name, (low, high) in ranges.items()}


def inputs_of(tiled: Tiled, values: Mapping[str, int]) -> list[np.ndarray]:
    """Random inputs, of the sizes that symbols with these values say."""
    args = tiled.func.body.block.args
    numbers = np.random.default_rng(0)
    types = [type_at(arg.type, values) for arg in args[: len(args) - outputs_of(tiled.func)]]
    drawn = [(numbers.standard_normal(type.get_shape()), is_flags(type)) for type in types]
    return [array > 0 if of_flags else array.astype(np.float32) for array, of_flags in drawn]


def findings(tiled: Tiled, limit: int, pool: ThreadPoolExecutor) -> Iterator[str]:
    """What is wrong with the code of a function, for each processor and each way to run it."""
    for values in sizes_of(tiled):
        at = f" at {', '.join(f'{name} = {n}' for name, n in values.items())}" if values else ""
        for text in findings_at(tiled, inputs_of(tiled, values), limit, pool):
            yield f"{text}{at}"


def findings_at(tiled: Tiled, given: list[np.ndarray], limit: int, pool: ThreadPoolExecutor) -> Iterator[str]:
    """:func:`findings` for these inputs."""
    results: dict[str, list[np.ndarray]] = {}
    running: dict[str, Future[list[np.ndarray]]] = {}
    for name in here():
        scheduled = tiled.func.clone()
        choose_schedules(scheduled, cpu(name))
        share_kernels(scheduled, cpu(name))
        try:
            verify_function(scheduled, cpu(name), tiled.shapes, tiled.arena_bytes)
        except EtirError as error:
            yield f"{name}: {error}"
            continue
        for way, run in (("sanitizers", sanitized), ("pages", paged)):
            running[f"{name}, {way}"] = pool.submit(run, scheduled.clone(), name, given, tiled.weights)
    for name, job in running.items():
        try:
            results[name] = job.result()
        except Finding as error:
            yield f"{name}: {error}"
    if work(tiled) <= limit or not agree([*results.values()]):
        yield from far_from_exact(tiled, given, results)


def agree(results: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether all are the first one within the tolerance."""
    pairs = [pair for got in results[1:] for pair in zip(got, results[0], strict=True)]
    return all(difference(got, wanted) <= TOLERANCE for got, wanted in pairs)


def far_from_exact(
    tiled: Tiled, given: Sequence[np.ndarray], results: Mapping[str, Sequence[np.ndarray]]
) -> Iterator[str]:
    """Which results are further from what the operations mean in float64 than last digits make them."""
    exact = meaning(tiled.func, given, tiled.weights, "float64")
    moved: list[float] | None = None
    for name, got in results.items():
        for number, (a, b) in enumerate(zip(got, exact, strict=True)):
            off = difference(a, b)
            if off <= TOLERANCE:
                continue
            if moved is None:
                moved = moved_by_other_digits(tiled, given, exact)
            if not off <= NUDGES * moved[number]:
                yield f"{name} is off by {off:.1e}; other last digits make {moved[number]:.1e}"


def moved_by_other_digits(tiled: Tiled, given: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> list[float]:
    """How far from float64 the operations are, each rounded once, with other last digits of inputs and weights: at most
    of all trials.
    """
    found: list[list[float]] = []
    for seed in range(TRIALS):
        weights = dict(zip(tiled.weights, other_digits([*tiled.weights.values()], seed), strict=True))
        changed = meaning(tiled.func, other_digits(given, seed), weights)
        found.append([difference(a, b) for a, b in zip(changed, exact, strict=True)])
    return [max(row) for row in zip(*found, strict=True)]


def difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the largest number; infinite where other elements are none."""
    there = np.isfinite(wanted)
    if not np.array_equal(got[~there], wanted[~there], equal_nan=True) or not np.isfinite(got[there]).all():
        return math.inf
    largest = float(np.abs(wanted[there]).max(initial=0)) or 1.0
    return float(np.abs(got[there] - wanted[there]).max(initial=0)) / largest


def other_digits(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    """Numbers that differ in the last digit, up or down by chance."""
    numbers = np.random.default_rng(1 + seed)
    steps = [np.where(numbers.random(array.shape) < 0.5, np.inf, -np.inf).astype(np.float32) for array in arrays]
    pairs = zip(arrays, steps, strict=True)
    return [a if a.dtype == np.bool_ else np.nextafter(a, step).astype(np.float32) for a, step in pairs]


def functions(names: list[str]) -> Iterator[tuple[str, Tiled]]:
    """The different functions of entries of the zoo: those whose C differs."""
    from etir_testing.exports import exported
    from etir_testing.models.zoo_table import ENTRIES

    seen: dict[str, None] = {}
    for name in names:
        found = functions_of(exported(ENTRIES[name]))
        for tiled in found:
            scheduled = tiled.func.clone()
            choose_schedules(scheduled, cpu(here()[0]))
            share_kernels(scheduled, cpu(here()[0]))
            text = print_c(scheduled, cpu(here()[0])).text
            if text not in seen:
                seen[text] = None
                yield name, tiled


def main() -> int:
    """Run; 1 when anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", help="entries of the zoo (default: the small ones)")
    parser.add_argument("--whole", action="store_true", help="all entries that have weights")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time (default: 2)")
    parser.add_argument("--most", type=int, default=20_000_000, help="work of what is always compared with float64")
    arguments = parser.parse_args()
    from etir_testing.models.zoo_table import ENTRIES

    small = [name for name, entry in ENTRIES.items() if entry.small or (arguments.whole and not entry.shape_only)]
    warnings.simplefilter("ignore")
    start, count, wrong, last = time.monotonic(), 0, 0, ""

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for name, tiled in functions(arguments.entries or small):
            if name != last:
                print(f"[{time.monotonic() - start:.0f} s] {name}", flush=True)
                last = name
            count += 1
            for text in findings(tiled, arguments.most, pool):
                wrong += 1
                print(f"{name}: {text}", flush=True)
    ways = len(here()) * 2
    print(f"{count} functions, each run {ways} ways on {', '.join(here())}: {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
