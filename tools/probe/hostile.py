"""``python -m etir.tools.probe.hostile``: call the kernels of the installed runtime with what nobody tests with.

For every sample of every kernel of a manifest: NaN and infinities, negative and extreme numbers, values far from zero
or with all the bits that the type has, operands of two types, dims of rank 0, empty and long tensors, other numbers for
every number. Each case runs in a child process and is compared with
PyTorch. What the manifest accepts, and the runtime gets wrong or ends the process on, is printed: an entry for the
``wrong`` of the kernel's row, or something to mend.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from etir.emit.formats.scalar_type import ScalarType
from etir.targets.manifest import KernelEntry, load
from etir.tools.probe.call import DATA_FILLS, Call, Case
from etir.tools.probe.check import samples_of
from etir.tools.probe.runner import Outcome, load_runtime, run_cases
from etir.tools.probe.sample import Argument, Fill, Sample, T

FILLS: tuple[Fill, ...] = ("special", "negative", "extreme", "offset", "precise", "zero")
"""Contents that a probe puts into the data of a sample."""
DTYPES = tuple(ScalarType[n] for n in ("FLOAT", "DOUBLE", "HALF", "BFLOAT16", "LONG", "INT", "CHAR", "BYTE", "BOOL"))
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (5,), (0, 3), (3, 0), (2, 1, 3), (2, 700))
INTS = (-(2**62), -9, -2, -1, 0, 1, 2, 9, 2**62)
FLOATS = (-1.5, 0.0, 0.5, 1e30, float("inf"), float("-inf"), float("nan"))
LISTS: tuple[tuple[int, ...], ...] = ((), (0,), (-1,), (0, 0), (0, 1), (1,))


@dataclass(frozen=True)
class Attempt:
    """A hostile sample of a kernel and what is hostile about it."""

    kernel: str
    what: str
    sample: Sample


@dataclass(frozen=True)
class Finding:
    """A call that the manifest accepts and the runtime does not get right."""

    attempt: Attempt
    dtypes: tuple[str, ...]
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.attempt.kernel}: {self.outcome.name} with {self.attempt.what}, {', '.join(self.dtypes)}"


def attempts(entry: KernelEntry) -> Iterator[Attempt]:
    """The hostile samples of a kernel: one thing of a sample is changed in each."""
    for number, sample in enumerate(samples_of(entry.name)):
        yield Attempt(entry.name, f"sample {number}", sample)
        for what, args in _changed(sample.args):
            yield Attempt(entry.name, f"sample {number}, {what}", replace(sample, args=tuple(args)))
        if sample.outs is None:
            for shape in SHAPES:
                args = _reshaped(sample.args, shape)
                if args is not None:
                    made = Sample(tuple(args))
                    yield Attempt(entry.name, f"sample {number}, shape {list(shape)}", made)
                    for what, others in _changed(args, fills=()):
                        yield Attempt(
                            entry.name, f"sample {number}, shape {list(shape)}, {what}", Sample(tuple(others))
                        )


def _reshaped(args: Sequence[Argument], shape: tuple[int, ...]) -> list[Argument] | None:
    """The arguments with every tensor in another shape, where all have one."""
    tensors = [a for a in args if isinstance(a, T)]
    if not tensors or len({t.shape for t in tensors}) > 1 or any(isinstance(a, tuple) and _has_tensor(a) for a in args):
        return None
    return [replace(a, shape=shape, dim_order=None) if isinstance(a, T) else a for a in args]


def _has_tensor(items: Sequence[Any]) -> bool:
    return any(isinstance(item, T) for item in items)


def _changed(args: Sequence[Argument], fills: Sequence[Fill] = FILLS) -> Iterator[tuple[str, list[Argument]]]:
    data = [i for i, a in enumerate(args) if isinstance(a, T) and a.fill in DATA_FILLS]
    places = [data, *([i] for i in data if len(data) > 1)]
    for fill in fills:
        for chosen in places if data else ():
            yield (
                f"{fill} values in {chosen}",
                [replace(a, fill=fill) if i in chosen and isinstance(a, T) else a for i, a in enumerate(args)],
            )
    for index, argument in enumerate(args):
        values: Sequence[Any] = ()
        if isinstance(argument, bool | ScalarType | str) or argument is None:
            continue
        if isinstance(argument, int):
            values = INTS
        elif isinstance(argument, float):
            values = FLOATS
        elif isinstance(argument, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in argument):
            values = LISTS
        for value in values:
            if value != argument:
                yield f"argument {index} = {value}", [value if i == index else a for i, a in enumerate(args)]


def _is_open(argument: Any) -> bool:
    """Whether a tensor's type is the probe's to choose."""
    return isinstance(argument, T) and (argument.fill in DATA_FILLS + FILLS) and argument.dtype is None


def _typed(sample: Sample, dtypes: Sequence[ScalarType]) -> Sample:
    """The sample with types for its data, the last one for all that are left."""
    left = list(dtypes)

    def typed(argument: Any) -> Any:
        if _is_open(argument):
            return replace(argument, dtype=left.pop(0) if len(left) > 1 else left[0])
        return tuple(map(typed, argument)) if isinstance(argument, tuple) else argument

    return replace(sample, args=tuple(map(typed, sample.args)))


def _dtypes(sample: Sample, dtypes: Sequence[ScalarType]) -> Iterator[tuple[ScalarType, ...]]:
    """One type for all data; two, in both orders, where the kernel may take operands of different types."""
    yield from ((dtype,) for dtype in dtypes)
    if 2 <= sum(map(_is_open, sample.args)) <= 3:
        yield from itertools.permutations(dtypes, 2)


def jobs(entry: KernelEntry, dtypes: Sequence[ScalarType] = DTYPES) -> Iterator[tuple[Attempt, Call, Case]]:
    """The calls to run: those that PyTorch runs and the manifest accepts, with results of the types that it gives."""
    seen: dict[str, None] = {}
    for attempt in attempts(entry):
        for chosen in _dtypes(attempt.sample, dtypes):
            sample = _typed(attempt.sample, chosen)
            if repr(sample) in seen:
                continue
            seen[repr(sample)] = None
            try:
                call = Call(entry.name, entry.schema, sample, is_prim=entry.kind == "prim")
                types = call.natural()
            except (ValueError, RuntimeError, IndexError, TypeError, OverflowError):
                continue
            orders = call.base.dim_orders
            reason = entry.check(call.by_name(types), call.by_name(orders), others=call.others, shapes=call.shapes)
            if reason is None and call.reference(types) is not None:
                yield attempt, call, Case(types, orders)


def probe(runtime: Any, entries: Sequence[KernelEntry]) -> Iterator[Finding]:
    """Everything that is accepted and not right."""
    for entry in entries:
        found = list(jobs(entry))
        outcomes = run_cases(runtime, [(call, case) for _, call, case in found])
        for (attempt, _, case), outcome in zip(found, outcomes, strict=True):
            if outcome in (Outcome.WRONG, Outcome.ABORT, Outcome.RUN_ERROR):
                yield Finding(attempt, tuple(d.name for d in case.dtypes), outcome)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if anything accepted ends the process."""
    parser = argparse.ArgumentParser(prog="python -m etir.tools.probe.hostile", description=__doc__)
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="this kernel (default: all)")
    parser.add_argument("--target", default="executorch", help="the manifest to check (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object for each finding")
    options = parser.parse_args(arguments)
    manifest = load(options.target)
    torch.set_num_threads(1)
    runtime = load_runtime([library for library, always in manifest.libraries.items() if not always])
    names = options.op or [name for name in manifest.kernels if samples_of(name)]
    aborts = count = 0
    for finding in probe(runtime, [manifest.kernels[name] for name in names]):
        count += 1
        aborts += finding.outcome is Outcome.ABORT
        row = (finding.attempt.kernel, finding.attempt.what, finding.dtypes, finding.outcome.name)
        print(json.dumps(row) if options.json else finding, flush=True)
    print(f"{len(names)} kernels: {count} findings, {aborts} of them end the process", file=sys.stderr)
    return 1 if aborts else 0


if __name__ == "__main__":
    sys.exit(main())
