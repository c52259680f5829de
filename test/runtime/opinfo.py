"""Torch's own OpInfo samples on the runtime's kernels, against eager.

    python test/runtime/opinfo.py                     a bounded part of every operator's samples
    python test/runtime/opinfo.py --all               all of them
    python test/runtime/opinfo.py --kernel aten::add.out --verbose

Each forward sample of ``op_db`` runs in eager with every call of an ATen operator recorded. A recorded call whose out
variant is in the kernel manifest is repeated on that kernel, with the same arguments, and its results are compared at
the tolerances of ``torch.testing.assert_close``. So every operator is tested on the calls that torch itself makes,
composite ones through the operators that they consist of.

What a kernel refuses counts as a failure when the manifest claims it, and as *not claimed* otherwise. Samples that a
``.pte`` file cannot express are left out, by the reasons of ``EXCLUDED``.
"""

from __future__ import annotations

import argparse
import collections
import functools
import multiprocessing
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from kernels import DTYPES, KernelFailure, Kernels, build_kernels, dim_order, manifest
from torch.utils._python_dispatch import TorchDispatchMode

EXCLUDED = {
    "complex number": "a file has no complex Scalar",
    "memory format": "channels-last as an argument is not a value of the format; etir writes dim_order_ops instead",
    "layout": "sparse and strided results that are not dense",
    "dtype": "an element type that the format lacks",
    "generator": "random numbers drawn from a generator that is an argument",
    "rank": "tensors of more than 16 dims",
    "number": "a Python number in the place of a tensor, which etir's edge form does not have",
}
"""Why a sample is left out."""

RANDOM = ("rand", "randn", "randint", "randperm", "bernoulli", "native_dropout", "normal", "multinomial", "uniform")
"""Operators whose values are compared by shape and dtype only; their tests check distributions."""

UNDEFINED = ("empty", "empty_like", "empty_strided", "new_empty", "_empty_dim_order", "resize")
"""Operators whose values are whatever was in memory."""


class Excluded(Exception):
    """A call that cannot be expressed; the reason is a key of EXCLUDED."""


@dataclass
class Tally:
    """What became of the calls of one kernel."""

    passed: int = 0
    failed: int = 0
    not_claimed: collections.Counter[str] = field(default_factory=collections.Counter)
    excluded: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)
    dtypes: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, other: Tally) -> None:
        """Add the numbers of another part of the samples."""
        self.passed += other.passed
        self.failed += other.failed
        self.not_claimed += other.not_claimed
        self.excluded += other.excluded
        self.dtypes += other.dtypes
        self.failures = (self.failures + other.failures)[:20]


class _Recorder(TorchDispatchMode):
    """Collects the calls of ATen operators, with copies of their arguments from before the call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kernel_of(func) is None:
            return func(*args, **kwargs)
        copied = _copy(args), {name: _copy(value) for name, value in kwargs.items()}
        result = func(*args, **kwargs)
        self.calls.append((func, *copied, _copy(result)))
        return result


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.preserve_format)
    if isinstance(value, (list, tuple)):
        return type(value)(_copy(v) for v in value) if type(value) in (list, tuple) else tuple(map(_copy, value))
    return value


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    """The manifest."""
    return manifest()


@functools.cache
def kernel_of(func: Any) -> tuple[str, Any] | None:
    """The manifest row for the out variant of a functional operator, and that variant's schema."""
    schema = func._schema
    if schema.is_mutable or func.namespace != "aten":
        return None
    if any("Tensor" not in str(result.type) for result in schema.returns):
        return None
    base = schema.name.split("::")[1]
    names = {a.name for a in schema.arguments}
    for name in (base, f"{base}_copy"):
        packet = getattr(torch.ops.aten, name, None)
        if packet is None:
            continue
        best: tuple[int, str, Any] | None = None
        for overload in packet.overloads():
            row = f"aten::{name}" + ("" if overload == "default" else f".{overload}")
            if row not in rows():
                continue
            candidate = getattr(packet, overload)._schema
            inputs = [a for a in candidate.arguments if not a.is_out]
            if any(a.name not in names and not a.has_default_value() for a in inputs):
                continue
            missing = [a for a in schema.arguments if a.name not in {i.name for i in inputs}]
            if any(a.name not in _FACTORY for a in missing):
                continue
            types = {a.name: str(a.type) for a in schema.arguments}
            if any(a.name in types and types[a.name] != str(a.type) for a in inputs):
                continue
            score = len([a for a in inputs if a.name in names])
            if best is None or score > best[0]:
                best = (score, row, candidate)
        if best is not None:
            return best[1], best[2]
    return None


_FACTORY = ("dtype", "layout", "device", "pin_memory", "memory_format", "requires_grad", "non_blocking", "implicit")


def _tensor(value: torch.Tensor) -> torch.Tensor:
    if value.dtype not in DTYPES:
        raise Excluded("dtype")
    if value.layout != torch.strided or value.is_quantized:
        raise Excluded("layout")
    if value.dim() > 16:
        raise Excluded("rank")
    value = value.resolve_conj().resolve_neg()
    try:
        dim_order(value)
    except ValueError:
        return value.contiguous()
    if any(value.stride(d) == 0 and value.size(d) > 1 for d in range(value.dim())):
        return value.contiguous()
    return value


def _argument(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, complex):
        raise Excluded("complex number")
    if isinstance(value, torch.Generator):
        raise Excluded("generator")
    if isinstance(value, torch.memory_format) and value not in (torch.contiguous_format, torch.preserve_format):
        raise Excluded("memory format")
    if isinstance(value, torch.dtype) and value not in DTYPES:
        raise Excluded("dtype")
    if isinstance(value, torch.layout):
        if value != torch.strided:
            raise Excluded("layout")
        return None
    if isinstance(value, torch.device):
        return None
    if isinstance(value, (list, tuple)):
        return [_argument(v) for v in value]
    return value


def _arguments(schema: Any, func_schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The inputs of the out variant, by name, defaults filled in."""
    positional = [a for a in func_schema.arguments]
    given = dict(zip((a.name for a in positional), args, strict=False)) | kwargs
    for argument in positional:
        if argument.name not in given and argument.has_default_value():
            given[argument.name] = argument.default_value
    result = []
    for argument in schema.arguments:
        if argument.is_out:
            continue
        value = given.get(argument.name, argument.default_value)
        if str(argument.type) == "Tensor" and not isinstance(value, torch.Tensor):
            raise Excluded("number")
        if str(argument.type).startswith("List") and isinstance(value, (int, float)) and argument.N is not None:
            value = [value] * argument.N
        result.append(_argument(value))
    return result


@functools.cache
def _manifest_entry(name: str) -> Any:
    from etir.targets.manifest import _parse_entry

    return _parse_entry(name, rows()[name] | {"library": "etir"})


def claimed(name: str, schema: Any, arguments: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether the manifest says that the kernel takes such a call."""
    from etir.emit.scalar_type import ScalarType

    tensors: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    others: dict[str, Any] = {}
    inputs = [a for a in schema.arguments if not a.is_out]
    outs = [a for a in schema.arguments if a.is_out]
    for argument, value in [*zip(inputs, arguments, strict=True), *zip(outs, results, strict=True)]:
        if "Tensor" in str(argument.type):
            items = value if isinstance(value, (list, tuple)) else [value]
            present = [i for i in items if i is not None]
            numbers = [DTYPES[i.dtype] for i in present]
            of = [dim_order(i) for i in present]
            if isinstance(value, (list, tuple)):
                tensors[argument.name], orders[argument.name] = numbers, of
            else:
                tensors[argument.name] = numbers[0] if numbers else None
                orders[argument.name] = of[0] if of else None
        else:
            others[argument.name] = ScalarType(DTYPES[value]) if isinstance(value, torch.dtype) else value
    return _manifest_entry(name).check(tensors, orders, None, others) is None


def check_call(kernels: Kernels, name: str, schema: Any, call: tuple[Any, ...], tally: Tally) -> None:
    """Repeat one recorded call on the kernel and compare."""
    func, args, kwargs, expected = call
    results = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    outs_of = [a for a in schema.arguments if a.is_out]
    if len(outs_of) == 1 and str(outs_of[0].type).startswith("List"):
        results = [results]
    try:
        arguments = _arguments(schema, func._schema, args, kwargs)
        results = [[_tensor(i) for i in r] if isinstance(r, list) else _tensor(r) for r in results]
    except Excluded as reason:
        tally.excluded[str(reason)] += 1
        return
    base = name.split("::")[1].split(".")[0]
    try:
        got = kernels.call(name, arguments, results)
    except KernelFailure as failure:
        if not claimed(name, schema, arguments, results):
            tally.not_claimed[_describe_dtypes(arguments)] += 1
            return
        tally.failed += 1
        tally.failures.append(f"{_describe(arguments)}: refused: {failure}")
        return
    for actual, wanted in zip(_flat(got), _flat(results), strict=True):
        try:
            if base in UNDEFINED or base in RANDOM:
                assert actual.shape == wanted.shape, f"{actual.shape} {wanted.shape}"
            else:
                torch.testing.assert_close(actual, wanted, equal_nan=True)
        except AssertionError as error:
            tally.failed += 1
            message = " ".join(str(error).split())[:300]
            tally.failures.append(f"{_describe(arguments)}: {message}")
            return
    tally.passed += 1
    tally.dtypes[_describe_dtypes(arguments)] += 1


def _flat(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _describe(arguments: Sequence[Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype)[6:]}{list(value.shape)}"
        if isinstance(value, list):
            return f"[{', '.join(map(one, value))}]"
        return repr(value)

    return f"({', '.join(map(one, arguments))})"


def _describe_dtypes(arguments: Sequence[Any]) -> str:
    return next((str(v.dtype)[6:] for v in _flat(list(arguments)) if isinstance(v, torch.Tensor)), "none")


def calls_of(op: Any, dtype: torch.dtype, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """The recorded calls of one operator's samples in one dtype."""
    torch.manual_seed(0)
    count = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        if limit is not None and count >= limit:
            return
        count += 1
        for inference in (False, True):
            recorder = _Recorder()
            try:
                with torch.inference_mode(inference), recorder:
                    op.op(_copy(sample.input), *_copy(sample.args), **{k: _copy(v) for k, v in sample.kwargs.items()})
            except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError, AssertionError):
                continue  # Eager does not take the sample in this way, so there is nothing to compare with.
            # What inference mode adds is composite operators, which are seen whole in it.
            seen = dict.fromkeys(id(c) for c in recorder.calls)
            yield from (c for c in recorder.calls if id(c) in seen)


def run_op(index: int, only: str | None, limit: int | None) -> dict[str, Tally]:
    """All samples of the operator at one place of op_db."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    op = op_db[index]
    kernels = build_kernels()
    tallies: dict[str, Tally] = {}
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    for dtype in sorted(op.supported_dtypes("cpu"), key=str):
        if dtype not in DTYPES:
            continue
        try:
            for call in calls_of(op, dtype, limit):
                name, schema = kernel_of(call[0])  # type: ignore[misc]
                if only is not None and name != only:
                    continue
                seen[name, str(dtype)] += 1
                if limit is not None and seen[name, str(dtype)] > 3 * limit:
                    continue
                check_call(kernels, name, schema, call, tallies.setdefault(name, Tally()))
        except (ImportError, ModuleNotFoundError):
            continue  # The samples themselves need a package that is not installed.
    return tallies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every sample, not a bounded part")
    parser.add_argument("--kernel", help="only this kernel")
    parser.add_argument("--op", help="only the OpInfo entries whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print passes and dtypes too")
    arguments = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    build_kernels()
    limit = None if arguments.all else 6
    indices = [i for i, op in enumerate(op_db) if arguments.op is None or arguments.op in op.name]
    total: dict[str, Tally] = {}
    # Processes that were forked from one which has called torch hang; a child that dies takes its operator with it.
    context = multiprocessing.get_context("spawn")
    with context.Pool(arguments.jobs, maxtasksperchild=40) as pool:
        work = functools.partial(run_op, only=arguments.kernel, limit=limit)
        for tallies in pool.imap_unordered(work, indices):
            for name, tally in tallies.items():
                total.setdefault(name, Tally()).add(tally)
    report(total, arguments.verbose, arguments.kernel is None and arguments.op is None)
    return int(any(t.failed for t in total.values()))


def report(total: dict[str, Tally], verbose: bool, whole: bool) -> None:
    """Print what failed, what was left out, and the closing line."""
    for name, tally in sorted(total.items()):
        if tally.failed or verbose:
            print(f"{name}: {tally.passed} passed, {tally.failed} failed; dtypes {dict(sorted(tally.dtypes.items()))}")
        for failure in tally.failures[: 20 if verbose else 3]:
            print(f"    {failure}")
        if tally.not_claimed and verbose:
            print(f"    not claimed: {dict(sorted(tally.not_claimed.items()))}")
    excluded = sum((t.excluded for t in total.values()), collections.Counter[str]())
    for reason, count in sorted(excluded.items()):
        print(f"left out: {count} calls: {EXCLUDED[reason]}")
    not_claimed = {n: dict(sorted(t.not_claimed.items())) for n, t in sorted(total.items()) if t.not_claimed}
    for name, dtypes in not_claimed.items():
        print(f"not claimed: {name}: {dtypes}")
    if whole:
        silent = [name for name in rows() if name not in total]
        print(f"{len(silent)} kernels have no samples: {' '.join(silent)}")
    passed, failed = sum(t.passed for t in total.values()), sum(t.failed for t in total.values())
    print(f"{len(total)} kernels")
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    sys.exit(main())
