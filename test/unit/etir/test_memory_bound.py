"""What is left to the kernels so that a program fits: by what steps need, and how much of the work they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from etir.backends.api.memory import DelegateNeeds, InputNeed, Need, PlansOnly
from etir.emit.runtime_memory import RuntimeMemory
from etir.memory_bound import MOST_EFFORT, within_bound
from etir.options import CompileOptions
from etir.passes.delegation.report import BackendReport, DelegationReport, PartitionReport, Rejected
from etir.program import Program

MUCH = 10_000
"""A unit of work of which a hundred are too much for a little program."""
STEPS = (Need(60, (1, 2), 70 * MUCH), Need(90, (3,), 20 * MUCH), Need(60, (4,), 10 * MUCH))
"""A delegate whose second step needs more than the others; operators 1 and 2 are one."""


@dataclass
class Compiled:
    """What is asked of a program: its memory, what it was compiled with, its report."""

    bytes: int
    options: CompileOptions
    delegation: DelegationReport | None
    has_code: bool
    warnings: tuple[Any, ...] = ()

    def runtime_memory(self) -> dict[str, Any]:
        """One method."""
        return {"forward": cast("RuntimeMemory", _Memory((self.bytes,), 0))}


@dataclass
class _Memory:
    planned: tuple[int, ...]
    temp: int


class Compiler:
    """Compiles a program that needs 80 bytes on the kernels, and what its largest step needs with code."""

    def __init__(self, steps: tuple[Need, ...], inputs: tuple[InputNeed, ...] = (), *saved: int) -> None:
        self.steps = steps
        self.inputs = inputs
        self.saved = (0, *(saved or (0,)))
        """By the number of cuts, the bytes that they take off the largest step."""
        self.by_less = 0
        """The bytes that delegates save where they are to need less than the kernels."""
        self.by_leaving: dict[int, int] = {}
        """The bytes by which the program needs less without an operator."""
        self.effort = 0
        """What a plan with delegates takes."""
        self.codes = 0
        self.plans = 0

    def __call__(self, options: CompileOptions, plans: PlansOnly | None) -> Program:
        left = options.partition.leave
        steps = [s for s in self.steps if not any(f"forward_native:{n}" in left for n in s.operators)]
        if not options.delegates:
            return cast("Program", Compiled(80, options, None, True))
        size = max((step.bytes for step in steps), default=80) - self.saved[len(options.partition.cut)]
        size -= sum(bytes for n, bytes in self.by_leaving.items() if f"forward_native:{n}" in left)
        size -= self.by_less if plans is not None and plans.less else 0
        self.plans += 1
        if plans is not None:
            plans.effort.spent += self.effort
        has_code = plans is None or plans.makes_code(size)
        self.codes += has_code
        if plans is not None:
            late = [row for row in self.inputs if f"forward_native:{row.operator}" not in options.partition.cut]
            plans.needs["forward_native_0"] = DelegateNeeds(size, steps, inputs=late)
        part = PartitionReport("forward_native_0", "forward", {}, 1, 1, 4, 4, 0, 0, "EtirNativeBackend")
        rejected = [Rejected("aten.add.Tensor", len(left), "it is to be left to others", "")] if left else []
        backend = BackendReport("native", "EtirNativeBackend", "", {}, rejected, [part] if steps else [], [])
        return cast("Program", Compiled(size, options, DelegationReport(4, {}, [backend]), has_code))


def compiled(
    delegate: str, steps: tuple[Need, ...], inputs: tuple[InputNeed, ...] = (), *saved: int, **options: Any
) -> tuple[Compiled, Compiler]:
    compiler = Compiler(steps, inputs, *saved)
    return cast(
        "Compiled", within_bound(CompileOptions(target="etir", delegates=(delegate,), **options), compiler)
    ), compiler


@pytest.mark.parametrize("delegate", ["native", "native{arena=kernels}"])
def test_little_of_the_work_is_left(delegate: str) -> None:
    """The operators of the step that needs too much, and no others; code is made once, and the report says why."""
    found, compiler = compiled(delegate, STEPS)
    assert found.options.partition.leave == ("forward_native:3",)
    assert found.bytes == 60 and found.has_code and compiler.codes == 1
    assert "more memory than without the delegate; native{arena=free} has it" in str(found.delegation)


def test_much_of_the_work() -> None:
    """Then the program is as it is, and the report has the bytes; with ``arena=kernels`` it is left all the same."""
    steps = (STEPS[0], Need(90, (3,), 200 * MUCH))
    found, compiler = compiled("native", steps)
    assert found.options.partition.leave == () and found.bytes == 90 and compiler.codes == 1
    assert found.delegation is not None and found.delegation.memory.startswith("90 bytes")
    assert "10 more than without: native{arena=kernels} needs no more" in found.delegation.memory
    assert compiled("native{arena=kernels}", steps)[0].options.partition.leave == ("forward_native:3",)


def test_what_fits() -> None:
    """One compilation besides the one without delegates; nothing is left."""
    found, compiler = compiled("native", (STEPS[0], STEPS[2]))
    assert found.options.partition.leave == () and found.bytes == 60 and compiler.codes == 1


def test_nothing_may_be_left() -> None:
    """With ``fallback="refuse"`` nothing goes to the kernels for the sake of memory."""
    found, _ = compiled("native", STEPS, fallback="refuse")
    assert found.options.partition.leave == () and found.bytes == 90


def small(by_less: int = 0, **by_leaving: int) -> tuple[Compiled, Compiler]:
    """A program whose highest step is most of its work."""
    return of_work(MUCH, by_less, **by_leaving)


def of_work(unit: int, by_less: int = 0, **by_leaving: int) -> tuple[Compiled, Compiler]:
    """The same where 250 units are all of the work."""
    compiler = Compiler((Need(90, (1,), 200 * unit), Need(60, (2,), 30 * unit), Need(60, (3,), 20 * unit)))
    compiler.by_less, compiler.by_leaving = by_less, {int(n[1:]): bytes for n, bytes in by_leaving.items()}
    options = CompileOptions(target="etir", delegates=("native",))
    return cast("Compiled", within_bound(options, compiler)), compiler


def test_delegates_of_a_small_program_save_more() -> None:
    """Where that is enough, nothing is left."""
    found, compiler = small(10)
    assert found.options.partition.leave == () and found.bytes == 80 and compiler.codes == 1
    assert small(9)[0].bytes == 90


def test_little_of_a_small_program() -> None:
    """Operators of little work are left if that helps, one or several, as long as most of the work stays."""
    assert small(_2=10)[0].options.partition.leave == ("forward_native:2",)
    assert small(_2=10)[0].bytes == 80
    assert small(_3=4, _2=6)[0].options.partition.leave == ("forward_native:3", "forward_native:2")
    assert small(_2=9)[0].options.partition.leave == ()
    assert small(_1=10)[0].options.partition.leave == ()


@pytest.mark.parametrize(("effort", "plans"), [(0, 7), (MOST_EFFORT // 8, 7), (MOST_EFFORT, 4)])
def test_a_small_program_that_took_much(effort: int, plans: int) -> None:
    """Nothing is left one after another where plans have taken much effort so far; with one thing that would help."""
    compiler = Compiler((Need(90, (1,), 200 * MUCH), Need(60, (2,), 30 * MUCH), Need(60, (3,), 20 * MUCH)))
    compiler.by_leaving, compiler.effort = {2: 10}, effort
    within_bound(CompileOptions(target="etir", delegates=("native",)), compiler)
    assert compiler.plans == plans


HALVES = (Need(90, (1,), 110), Need(60, (2,), 70), Need(60, (3,), 70))
"""Steps of which the one that needs too much is less than half of the work."""


@pytest.mark.parametrize(("unit", "is_left"), [(32, True), (256, True), (524, True), (525, False)])
def test_half_of_a_little_program(unit: int, is_left: bool) -> None:
    """Where all work is as little as 131,072 operations, half of it may be left for the program to fit."""
    steps = tuple(Need(step.bytes, step.operators, step.work * unit) for step in HALVES)
    found, _ = compiled("native", steps)
    assert found.options.partition.leave == (("forward_native:1",) if is_left else ())
    assert found.bytes == (60 if is_left else 90)


LATE = (InputNeed(40, 4),)
"""An input that the last step reads first."""


def test_a_cut_is_enough() -> None:
    """Where an input that is made later makes the program fit, nothing is left to the kernels."""
    found, compiler = compiled("native", STEPS, LATE, 30)
    assert found.options.partition.cut == ("forward_native:4",) and found.options.partition.leave == ()
    assert found.bytes == 60 and found.has_code and compiler.codes == 1


TWO_PEAKS = tuple(Need(bytes, (n + 1,), work * MUCH) for n, (bytes, work) in enumerate([(90, 40), (20, 10)] * 2))
LATE_AT_BOTH = (InputNeed(5, 2), InputNeed(5, 4))
"""Inputs of which both have to be late for both peaks to fit, as far as steps tell: that takes two cuts."""


@pytest.mark.parametrize(
    ("saved", "cuts", "bytes"),
    [((15, 15), 2, 75), ((15, 5), 1, 75), ((5, 8), 2, 82), ((8, 5), 1, 82), ((8, 8), 1, 82), ((0, 0), 0, 90)],
)
def test_fewer_cuts_may_need_less(saved: tuple[int, int], cuts: int, bytes: int) -> None:
    """A cut more is a call more, whose inputs and outputs take bytes as well: all cuts are taken where they are enough,
    and else as many as the program needs least with. 10 bytes have to be saved.
    """
    found, compiler = compiled("native", TWO_PEAKS, LATE_AT_BOTH, *saved)
    assert found.options.partition.cut == ("forward_native:2", "forward_native:4")[:cuts]
    assert found.options.partition.leave == ()  # What needs too much is most of the work.
    assert found.bytes == bytes and compiler.codes == 1


def test_a_cut_that_is_not_enough() -> None:
    """What it saves is kept; a cut that saves nothing is not made."""
    steps = (STEPS[0], Need(100, (3,), 200 * MUCH), STEPS[2])
    found, _ = compiled("native", steps, LATE, 10)
    assert found.options.partition.cut == ("forward_native:4",) and found.options.partition.leave == ()
    assert found.bytes == 90
    assert compiled("native", steps, LATE)[0].options.partition.cut == ()


def test_no_cut_where_it_fits() -> None:
    """Nothing is planned for the sake of a cut then."""
    found, compiler = compiled("native", (STEPS[0], STEPS[2]), LATE, 30)
    assert found.options.partition.cut == () and compiler.plans == 1
