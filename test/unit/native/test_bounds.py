"""Generated code touches its own memory only: under sanitizers, between guard pages, and when a number is changed."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64  # noqa: E402
from xdsl.dialects.func import FuncOp  # noqa: E402
from xdsl.dialects.memref import ReinterpretCastOp  # noqa: E402

from etir.backends.native.cpu import cpu  # noqa: E402
from etir.backends.native.passes.tile_schedule import choose_schedules  # noqa: E402
from etir.backends.native.passes.verify_tile import problems, verify_function  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.dialects.text import print_module, source_location  # noqa: E402

from etir_testing.native.functions import Tiled, functions_of, parsed_function  # noqa: E402
from etir_testing.native.guarded import Finding, paged, sanitized  # noqa: E402
from etir_testing.native.images import here, meaning  # noqa: E402
from etir_testing.native.mutations import of_function, of_text  # noqa: E402
from etir_testing.native.small import Small  # noqa: E402

MANY = int(os.environ.get("ETIR_NATIVE_MUTATIONS", "80"))
"""How many changes of each kind; one in ten is run."""


@cache
def small() -> Tiled:
    torch.manual_seed(0)
    (found,) = functions_of(torch.export.export(Small().eval(), (torch.randn(1, 3, 9, 7),)))
    return found


def inputs_of(func: FuncOp) -> list[np.ndarray]:
    args = func.body.block.args
    outputs = func.attributes["native.outputs"].value.data  # type: ignore[union-attr]
    numbers = np.random.default_rng(0)
    shapes = [arg.type.get_shape() for arg in args[: len(args) - outputs]]  # type: ignore[union-attr]
    return [numbers.standard_normal(shape).astype(np.float32) for shape in shapes]


def check(func: FuncOp, name: str, arena_bytes: int | None, *runs: object) -> None:
    """What code computes is what the function means."""
    tiled = small()
    given = inputs_of(func)
    wanted = meaning(func, given, tiled.weights)
    for run in runs:
        got = run(func.clone(), name, given, tiled.weights, arena_bytes)  # type: ignore[operator]
        for a, b in zip(got, wanted, strict=True):
            scale = max(1.0, float(np.nanmax(np.abs(b), initial=0)))
            np.testing.assert_allclose(a / scale, b / scale, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", here())
def test_every_template_stays_in_its_memory(name: str) -> None:
    """Buffers are set apart, with pages between them that nothing may touch."""
    check(small().func, name, None, sanitized, paged)


def test_every_operation_is_somewhere_in_the_source() -> None:
    """Casts, borders and copies, too: what the verifier says of them has a place."""
    ops = [*small().func.body.block.ops][:-1]
    assert ops and all(source_location(op.location) is not None for op in ops)


def test_an_access_outside_is_found() -> None:
    """By the verifier, and without it by both ways of running."""
    func = small().func.clone()
    choose_schedules(func, cpu("x86-64"))
    (*_, cast) = (op for op in func.body.block.ops if isinstance(op, ReinterpretCastOp) and op.source in func.args)
    base = cast.source.type
    cast.properties["static_offsets"] = DenseArrayBase.from_list(i64, [int(np.prod(base.get_shape())) - 1])  # type: ignore[attr-defined]
    assert {p.id.id for p in problems(func)} == {"E1166"}
    for run in (sanitized, paged):
        with pytest.raises(Finding):
            run(func.clone(), here()[0], inputs_of(func), small().weights)


def judged(func: FuncOp, what: str, counts: Counter[str], run: bool) -> None:
    """A changed function is refused with an id and a next step, or computes what it says in its own memory."""
    name = here()[-1]
    found = problems(func, cpu(name), small().shapes, small().arena_bytes)
    for problem in found:
        assert problem.help and problem.message, what
        counts[problem.id.id] += 1
    counts["refused" if found else "accepted"] += 1
    if not found and run:
        try:
            check(func, name, small().arena_bytes, sanitized, paged)
        except (AssertionError, Finding) as error:
            raise AssertionError(f"{what}: {error}") from error
        counts["run"] += 1


def test_a_changed_number_is_refused_or_harmless() -> None:
    func = small().func.clone()
    choose_schedules(func, cpu(here()[-1]))
    verify_function(func, cpu(here()[-1]), small().shapes, small().arena_bytes)
    counts: Counter[str] = Counter()
    for number, mutation in enumerate(itertools.islice(of_function(func, 0), MANY)):
        copy = func.clone()
        mutation.apply(copy)
        judged(copy, mutation.what, counts, number % 10 == 0)
    assert counts["run"] >= MANY // 80 and counts["refused"] >= MANY // 3, counts
    assert all(counts[id] for id in ("E1164", "E1166", "E1167", "E1168")), counts


def test_a_changed_literal_of_the_text_is_refused_or_harmless() -> None:
    func = small().func.clone()
    choose_schedules(func, cpu(here()[-1]))
    text = print_module(ModuleOp([func]))
    counts: Counter[str] = Counter()
    for number, (what, changed) in enumerate(itertools.islice(of_text(text, 0), MANY)):
        try:
            parsed = parsed_function(changed)
        except EtirError:
            counts["no text"] += 1
            continue
        judged(parsed, what, counts, number % 10 == 0)
    assert counts["no text"] and counts["refused"] and counts["accepted"], counts
