"""One sample through the compiler and the runtime, and the stage at which it stops.

The stages: *eager* and *export* (torch's own; what stops there is no program), *import*, *decompose*, *link*,
*compile*, *run* and *match*. Errors are told apart by their ids. A sample whose program is refused when it runs, and
whose exported program torch itself cannot run on what it was exported with, stops at *export*.

Values are compared at the tolerances of ``torch.testing.assert_close``, where they are determined: random ones (two
runs of eager with different seeds disagree) and uninitialized memory by shape and dtype, indices of equal elements by
the elements, and factors that are not unique by what torch's own tests compare (``output_process_fn_grad``). A result
that is outside of the tolerance also matches when it is closer to eager in double precision than eager itself is.
"""

from __future__ import annotations

import math
import re
import traceback
import warnings
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError

from etir_testing.opinfo.op_samples import Sample

STAGES = ("eager", "export", "import", "decompose", "link", "compile", "run", "match", "ok")
"""Where a sample may stop, in order; ``ok`` is the end."""

_STAGE_OF_ERROR = (
    (r"E040\d", "import"),
    (r"E041[0-4]|E042\d|E05\d\d", "decompose"),
    (r"E0415|E06\d\d", "link"),
    (r"E12\d\d", "run"),
)

_UNDEFINED = re.compile(r"aten\.(new_)?(empty|empty_\w+|resize\w*)\.")
"""Operators whose values are whatever was in memory."""


@dataclass
class Outcome:
    """What became of a sample: the stage that it stopped at, and why."""

    entry: str
    dtype: str
    sample: str
    stage: str
    message: str = ""
    stock: str = ""
    """What the stock runtime's kernels lack; empty where the sample links, ``-`` where that was not asked."""


def outcome_of(sample: Sample, stock: bool, expected: tuple[Any] | None = None) -> Outcome:
    """Export, compile, run and compare one sample; with ``stock`` link it for the stock runtime too.

    ``expected`` has eager's result where that is known already.
    """
    outcome = Outcome(sample.entry, str(sample.dtype)[6:], sample.text, "ok", stock="-")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome.stage, outcome.message = _stage_of(sample, stock, outcome, expected)
    return outcome


def _stage_of(sample: Sample, stock: bool, outcome: Outcome, known: tuple[Any] | None) -> tuple[str, str]:
    try:
        torch.manual_seed(1)
        expected = sample.module(*sample.fresh()) if known is None else known[0]
    except Exception as error:  # Whatever torch raises: the sample is no program.
        return "eager", one_line(error)
    try:
        program = torch.export.export(sample.module, sample.fresh(), strict=False)
    except Exception as error:
        return "export", one_line(error)
    if stock:
        outcome.stock = _stock(program)
    try:
        method = etir.runtime.load(_compiled(program).buffer)["forward"]
        got = method(*(laid_out(t, info) for t, info in zip(sample.fresh(), method.inputs, strict=True)))
    except EtirError as error:
        stage = stage_of_error(error)
        refused = _refused_by_torch(program, sample) if stage == "run" else ""
        return ("export", refused) if refused else (stage, first_diagnostic(error))
    except Exception as error:  # A traceback is a bug of the compiler, whatever its type.
        return "compile", f"{error_place(error)}: {one_line(error)}"
    return compare(got, expected, program, sample)


def _refused_by_torch(program: Any, sample: Sample) -> str:
    """Why torch cannot run what it exported on the inputs that it was exported with; empty where it can."""
    try:
        program.module()(*sample.fresh())
    except Exception as error:  # Whatever torch raises.
        return f"the exported program: {one_line(error)}"
    return ""


def _compiled(program: Any) -> Any:
    """The program for etir's runtime; where a size that data gives has no bound, as the error says: at run time."""
    try:
        return etir.compile(program, target="etir")
    except EtirError as error:
        if all(str(d.id.id) != "E0416" for d in error.diagnostics):
            raise
    return etir.compile(program, target="etir", unbounded="allocate")


def _with_other_seed(sample: Sample) -> Any:
    """Eager once more; samples that set a seed themselves get another one too."""
    real = torch.manual_seed
    real(2)
    with mock.patch("torch.manual_seed", lambda seed: real(seed + 1)):
        return sample.module(*sample.fresh())


def stage_of_error(error: EtirError) -> str:
    ids = [str(d.id.id) for d in error.diagnostics]
    return next((stage for pattern, stage in _STAGE_OF_ERROR if re.fullmatch(pattern, ids[0])), "compile")


def first_diagnostic(error: EtirError) -> str:
    """The first diagnostic, without its place."""
    first = error.diagnostics[0]
    more = f" (+{len(error.diagnostics) - 1})" if len(error.diagnostics) > 1 else ""
    return f"{first.id.id} {first.message}{more}"


def _stock(program: Any) -> str:
    """What keeps a program from linking against the stock runtime."""
    from etir.dialects.context import EtContext
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    try:
        run_pipeline(EtContext(), etir.import_program(program), pipeline(stop="backend"))
    except EtirError as error:
        return first_diagnostic(error)
    except Exception as error:
        return f"{error_place(error)}: {one_line(error)}"
    return ""


def laid_out(tensor: torch.Tensor, info: Any) -> torch.Tensor:
    """A dense copy of an input in the dim order that the program has for it."""
    order = list(info.dim_order)
    inverse = [order.index(d) for d in range(len(order))]
    return tensor.resolve_conj().resolve_neg().permute(order).contiguous().permute(inverse)


# --- comparison -------------------------------------------------------------------------------------------------------


def compare(got: list[Any], expected: Any, program: Any, sample: Sample) -> tuple[str, str]:
    wanted, structure = pytree.tree_flatten(expected)
    if len(got) != len(wanted):
        return "match", f"{len(got)} outputs instead of {len(wanted)}"
    for actual, value in zip(got, wanted, strict=True):
        if isinstance(value, torch.Tensor):
            actual = torch.as_tensor(actual)
            if actual.dtype != value.dtype:
                return "match", f"dtype {str(actual.dtype)[6:]} instead of {str(value.dtype)[6:]}"
            if actual.shape != value.shape:
                return "match", f"shape {list(actual.shape)} instead of {list(value.shape)}"
    if len(wanted) == 1 and _orders(sample, got[0], wanted[0]):
        return "ok", ""
    if len(wanted) == 2 and _selects(sample, wanted) and _selects(sample, got):
        got, wanted = got[:1], wanted[:1]  # The indices of the first result; of equal elements any will do.
    undefined = _undefined_outputs(program)
    differences = {i: d for i, pair in enumerate(zip(got, wanted, strict=True)) if (d := _difference(*pair))}
    message = next((d for i, d in differences.items() if not undefined[i]), "")
    if message:
        # What another seed changes is random.
        second = pytree.tree_leaves(_with_other_seed(sample))
        fixed = [i for i, v in enumerate(wanted) if not isinstance(v, torch.Tensor) or _equal(v, second[i])]
        message = next((d for i, d in differences.items() if not undefined[i] and i in fixed), "")
    if not message:
        return "ok", ""
    if _is_closer(sample, got, wanted):
        return "ok", ""
    values = (pytree.tree_unflatten(got, structure), expected) if len(got) == structure.num_leaves else None
    if values is not None and not _difference_of_unique(sample, *values):
        return "ok", ""
    return "match", message


def _difference(actual: Any, value: Any) -> str:
    """How a result differs from eager's; empty when it does not."""
    if value is None:
        return "" if actual is None else "a result that eager does not have"
    if not isinstance(value, torch.Tensor):
        same = actual is value or _same_number(actual, value)
        return "" if same else f"a {type(value).__name__} is not what eager gives"
    value = value.resolve_conj().resolve_neg()
    try:
        torch.testing.assert_close(torch.as_tensor(actual), value, equal_nan=True, check_stride=False)
    except AssertionError as error:
        return re.sub(r"\d[\d.e+-]*", "N", one_line(error).split(" (up to")[0])
    return ""


def _is_closer(sample: Sample, got: list[Any], wanted: list[Any]) -> bool:
    """Whether every result is as close to eager in double precision as eager in single precision is, or closer."""
    doubles = tuple(t.double() if t.dtype == torch.float32 else t for t in sample.fresh())
    if all(t.dtype != torch.float64 for t in doubles):
        return False
    try:
        exact = pytree.tree_leaves(sample.module(*doubles))
    except (RuntimeError, TypeError, ValueError):
        return False
    for actual, value, reference in zip(got, wanted, exact, strict=False):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or reference.dtype != torch.float64:
            if _difference(actual, value):
                return False
            continue
        if not value.numel():
            continue
        errors = [(t.double() - reference).abs() for t in (actual, value)]
        if not all(bool(e.isfinite().all()) for e in errors) or bool(errors[0].amax() > errors[1].amax()):
            return False
    return True


def _difference_of_unique(sample: Sample, got: Any, expected: Any) -> str:
    try:
        pairs = [pytree.tree_leaves(sample.unique(value)) for value in (got, expected)]
    except (RuntimeError, TypeError, AttributeError):
        return "not comparable"
    if all(a is b for a, b in zip(pairs[1], pytree.tree_leaves(expected), strict=False)):
        return "unique"
    return next((d for a, b in zip(*pairs, strict=True) if (d := _difference(a, b))), "")


def _orders(sample: Sample, got: Any, wanted: Any) -> bool:
    """Whether two results are permutations that put the first input in the same order, of equal elements any."""
    source = sample.tensors[0] if sample.tensors else None
    if source is None or not isinstance(wanted, torch.Tensor) or wanted.dtype != torch.int64:
        return False
    if source.shape != wanted.shape or not source.numel():
        return False
    for d in range(source.dim()):
        every = torch.arange(source.size(d)).view([-1 if i == d else 1 for i in range(source.dim())]).expand_as(wanted)
        if all(torch.equal(torch.as_tensor(order).sort(d).values, every) for order in (got, wanted)):
            return torch.equal(source.gather(d, torch.as_tensor(got)), source.gather(d, wanted))
    return False


def _selects(sample: Sample, results: list[Any]) -> bool:
    """Whether the second of two results are positions in the first input where the first result's elements stand."""
    if any(r is None for r in results):
        return False
    values, indices = (torch.as_tensor(r) for r in results)
    source = sample.tensors[0] if sample.tensors else None
    if indices.dtype != torch.int64 or values.shape != indices.shape or source is None or source.dtype != values.dtype:
        return False
    for d in range(source.dim()):
        pairs = [(values, indices)]
        if source.dim() == values.dim() + 1:
            pairs = [(values.unsqueeze(d), indices.unsqueeze(d))]
        for value, index in pairs:
            if value.dim() != source.dim() or not index.numel():
                continue
            if index.min() < 0 or index.max() >= source.size(d):
                continue
            if any(value.size(i) > source.size(i) for i in range(value.dim()) if i != d):
                continue
            if torch.equal(source.gather(d, index), value):
                return True
    return False


def _same_number(actual: Any, value: Any) -> bool:
    if isinstance(value, float) and isinstance(actual, float):
        return math.isclose(actual, value, rel_tol=1e-6) or (math.isnan(actual) and math.isnan(value))
    return type(actual) is type(value) and actual == value


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))


def _undefined_outputs(program: Any) -> list[bool]:
    """Which outputs are uninitialized memory."""
    last = next(n for n in reversed(program.graph.nodes) if n.op == "output")
    specs = program.graph_signature.output_specs
    values = [v for v, s in zip(last.args[0], specs, strict=True) if s.kind.name == "USER_OUTPUT"]
    return [isinstance(v, torch.fx.Node) and _UNDEFINED.match(str(v.target)) is not None for v in values]


# --- text -------------------------------------------------------------------------------------------------------------


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if not isinstance(error, AssertionError) else text[:300]


def error_place(error: BaseException) -> str:
    """The innermost frame of etir."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if any(f"/{part}/" in f.filename for part in ("lowering", "passes", "emit", "dialects"))]
    return "?" if not ours else f"{ours[-1].filename.rsplit('/', 2)[-1]}:{ours[-1].lineno} in {ours[-1].name}"
