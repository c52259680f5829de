"""One sample as a program whose sizes are dynamic, run at three of them.

Every dim of every tensor operand that has at least two elements is left to torch (``Dim.AUTO``), which gives it a
symbol, makes it the same symbol as another, or fixes it where the operator needs that. So dims vary that models usually
have as constants: those of a convolution's weight, the channels of a normalization, the last dim of attention.

What no bound is known for, as results of ``nonzero``, is allocated when the program runs.

The program runs at the sample's own sizes, at larger ones, and where each symbol has its lower bound. Tensors of other
sizes are drawn from the elements of the sample's. Sizes that eager does not take, as the arguments that are no tensors
stay what they are, do not count; neither do those that the exported program does not take, or at which it is not eager,
when torch itself runs it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError

from etir_testing.opinfo.op_samples import Sample, dtypes_of, samples
from etir_testing.opinfo.op_stages import (
    Outcome,
    compare,
    error_place,
    first_diagnostic,
    laid_out,
    one_line,
    stage_of_error,
)

ROUNDING = 2e-6
"""What results in single precision may differ by, of the largest element."""

LARGER = (3, 1, 2)
"""By how much the first, second, third symbol is larger than in the sample, over and over."""


def run_entry(name: str, limit: int, dtypes: int) -> list[Outcome]:
    """The outcomes of ``limit`` samples of an entry in each of its first ``dtypes`` dtypes."""
    outcomes: list[Outcome] = []
    for dtype in dtypes_of(name)[:dtypes]:
        try:
            outcomes += _outcomes(name, dtype, limit)
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            outcomes.append(Outcome(name, str(dtype)[6:], "", "eager", f"no samples: {one_line(error)}", "-"))
    return outcomes


def _outcomes(name: str, dtype: torch.dtype, limit: int) -> Iterator[Outcome]:
    """Of samples that have a dim to vary; the others are programs of the static walk."""
    taken = 0
    for sample in samples(name, dtype, 4 * limit):
        if not any(size > 1 for tensor in sample.tensors for size in tensor.shape):
            continue
        yield dynamic_outcome(sample)
        taken += 1
        if taken == limit:
            return


def dynamic_outcome(sample: Sample) -> Outcome:
    """Export one sample with dynamic sizes, compile it, and run it at three sizes."""
    outcome = Outcome(sample.entry, str(sample.dtype)[6:], sample.text, "ok", stock="-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome.stage, outcome.message = _stage_of(sample)
    return outcome


def _stage_of(sample: Sample) -> tuple[str, str]:
    try:
        expected = _eager(sample)
    except Exception as error:  # Whatever torch raises: the sample is no program.
        return "eager", one_line(error)
    try:
        program = torch.export.export(sample.module, sample.fresh(), dynamic_shapes=(_dims(sample),), strict=False)
        shapes = _shapes(program)
    except Exception as error:
        return "export", one_line(error)
    if not any(isinstance(size, torch.SymInt) for shape in shapes for size in shape):
        return "export", "torch fixes every size"
    try:
        method = etir.runtime.load(etir.compile(program, target="etir", unbounded="allocate").buffer)["forward"]
    except EtirError as error:
        return stage_of_error(error), first_diagnostic(error)
    except Exception as error:  # A traceback is a bug of the compiler, whatever its type.
        return "compile", f"{error_place(error)}: {one_line(error)}"
    for label, tensors in _sizes(sample, program, shapes):
        resized = dataclasses.replace(sample, tensors=tensors)
        if tensors is not sample.tensors:
            try:
                expected = _eager(resized)
            except Exception:  # Not all sizes go with the arguments that are baked in.
                continue
        stage, message = _run(method, resized, expected, program)
        if stage != "ok" and _is_torch_own(program, resized, expected):
            return stage, f"{label}: {message}"
    return "ok", ""


def _eager(sample: Sample) -> Any:
    torch.manual_seed(1)
    return sample.module(*sample.fresh())


def _run(method: Any, sample: Sample, expected: Any, program: ExportedProgram) -> tuple[str, str]:
    try:
        got = method(*(laid_out(t, info) for t, info in zip(sample.fresh(), method.inputs, strict=True)))
    except EtirError as error:
        return "run", first_diagnostic(error)
    found = compare(got, expected, program, sample)
    return ("ok", "") if found[0] == "match" and _is_near(got, expected) else found


def _is_near(got: Any, expected: Any) -> bool:
    """Whether results differ by rounding: larger sizes add up more, and ``assert_close`` has one tolerance for all."""
    wanted = pytree.tree_leaves(expected)
    for actual, value in zip(got, wanted, strict=True):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or not value.numel():
            return False
        result = torch.as_tensor(actual)
        if result.shape != value.shape or not bool((result - value).abs().max() <= ROUNDING * value.abs().max()):
            return False
    return True


def _is_torch_own(program: ExportedProgram, sample: Sample, expected: Any) -> bool:
    """Whether torch runs the exported program at these sizes, with eager's results as far as they are not random."""
    try:
        torch.manual_seed(1)
        results = pytree.tree_leaves(program.module()(*sample.fresh()))
    except Exception:  # Guards raise several types, and so do operators that were specialized.
        return False
    return compare(results, expected, program, sample)[0] == "ok"


# --- sizes ------------------------------------------------------------------------------------------------------------


def _dims(sample: Sample) -> tuple[dict[int, Any], ...]:
    """Dims of at least two elements are dynamic; torch takes 0 and 1 for constants anyway."""
    return tuple(
        {i: Dim.AUTO(max=2 * size + 6) for i, size in enumerate(tensor.shape) if size > 1} for tensor in sample.tensors
    )


def _shapes(program: ExportedProgram) -> list[Sequence[Any]]:
    """The sizes of the program's inputs: ints, and ``SymInt`` where they are dynamic."""
    names = dict.fromkeys(program.graph_signature.user_inputs)
    nodes = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]
    return [[_known(size) for size in n.meta["val"].shape] for n in nodes]


def _known(size: Any) -> Any:
    """A size that torch has fixed as an int: it may leave a ``SymInt`` of a number."""
    return int(size) if isinstance(size, torch.SymInt) and size.node.expr.is_number else size


def _sizes(
    sample: Sample, program: ExportedProgram, shapes: Sequence[Sequence[Any]]
) -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    """Three tuples of inputs with what to call them."""
    yield "at its own sizes", sample.tensors
    symbols: dict[Any, int] = {}
    for shape, tensor in zip(shapes, sample.tensors, strict=True):
        for size, hint in zip(shape, tensor.shape, strict=True):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                symbols.setdefault(size.node.expr, hint)
    ranges = program.range_constraints
    lowest = {s: int(ranges[s].lower) if s in ranges else hint for s, hint in symbols.items()}
    larger = {
        s: min(hint + LARGER[i % len(LARGER)], int(ranges[s].upper) if s in ranges else hint)
        for i, (s, hint) in enumerate(symbols.items())
    }
    for label, values in (("at larger sizes", larger), ("at the lower bounds", lowest)):
        resized: list[tuple[int, ...]] = []
        for shape in shapes:
            exprs = [size.node.expr.subs(values) if isinstance(size, torch.SymInt) else size for size in shape]
            if not all(isinstance(e, int) or e.is_Integer for e in exprs):
                break
            resized.append(tuple(int(e) for e in exprs))
        if len(resized) == len(shapes):
            yield label, tuple(_drawn(t, shape) for t, shape in zip(sample.tensors, resized, strict=True))


def _drawn(tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of another shape with elements of ``tensor``; itself where the shape is the same.

    Integers that ascend, as offsets do, ascend again.
    """
    if tuple(tensor.shape) == shape:
        return tensor
    count = int(torch.Size(shape).numel())
    if not tensor.numel():
        return torch.zeros(shape, dtype=tensor.dtype)
    source = torch.Generator().manual_seed(count)
    # Every element once before one is there twice: statistics of equal elements would be those of rounding errors.
    rounds = [torch.randperm(tensor.numel(), generator=source) for _ in range(-(-count // tensor.numel()))]
    chosen = torch.cat([torch.empty(0, dtype=torch.int64), *rounds])[:count]
    elements = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
    if tensor.dim() == 1 and not tensor.dtype.is_floating_point and torch.equal(elements, elements.sort().values):
        return elements[chosen].sort().values
    return elements[chosen].reshape(shape)
