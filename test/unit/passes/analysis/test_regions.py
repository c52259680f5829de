"""Where parts of what a region writes are made: over what dies, over each other, or apart; and the same values."""

from __future__ import annotations

import numpy as np
import pytest

from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.values import BufferOp
from etir.dialects.text import parse_module, print_module
from etir.interpret.executable import ExecutableMethod
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import memory_of
from etir.passes.analysis.regions import Region, Regions
from etir.passes.et.partial_execution import Parts, Weights
from etir.passes.infra.manager import run_pipeline

TARGET = "executorch"
TYPE = "tensor<8x16xf32>"


def method(body: str, *, values: str = "", outputs: str, order: str = "abcdy") -> str:
    """A method over buffers of one type; its input is copied to ``%k``, which nobody else needs."""
    lines = [f"  %{name} = et.buffer : {TYPE}" for name in ("x", "k", *order)]
    copy = '  et.call "aten::neg.out"(%x, %k) -> %k'
    return "\n".join(
        ["et.method @forward {", *lines, values, "  et.inputs %x", copy, body, f"  et.return {outputs}", "}"]
    )


def call(kernel: str, *operands: str) -> str:
    """An instruction that writes its last operand."""
    alpha = ", 1" if kernel == "add" else ""
    rest = ", -1, false" if kernel == "_softmax" else ""
    return f'  et.call "aten::{kernel}.out"({", ".join(operands[:-1])}{alpha}{rest}, {operands[-1]}) -> {operands[-1]}'


def region_of(text: str, first: int, last: int) -> tuple[MethodOp, Region | None, Weights]:
    """The region of some calls, which are counted from 0."""
    module = parse_module(text)
    found = next(op for op in module.body.block.ops if isinstance(op, MethodOp))
    in_place = in_place_kernels(TARGET)
    memory, weights = memory_of(EtContext(), found, in_place=in_place), Weights(module)
    regions = Regions(EtContext(), found, memory, in_place, weights.can_divide, {})
    indices = [i for i, op in enumerate(found.instructions) if isinstance(op, CallOp)][first : last + 1]
    if not all(regions.can_cut(i) for i in indices):
        return found, None, weights
    return found, regions.region(regions.window(indices[0]), indices[0], indices[-1]), weights


def values_of(found: MethodOp) -> list[bytes]:
    """The outputs of a planned method in poisoned memory."""
    module = found.parent_op()
    run_pipeline(EtContext(), module, f"plan-memory{{target={TARGET}}},verify-plan{{target={TARGET}}},verify-calls")
    executable = ExecutableMethod(Interpreter(module, "numpy"), found)
    for arena in executable.arenas:
        arena[:] = 0xFF
    return [np.asarray(v).tobytes() for v in executable.run([np.arange(128, dtype=np.float32).reshape(8, 16) - 60])]


def made_in(text: str, first: int, last: int) -> dict[str, str]:
    """Where what is written in a region is made: ``over k`` for a home, ``in y`` for joined; values are as before."""
    found, region, weights = region_of(text, first, last)
    assert region is not None
    assert 4 in list(region.counts())
    places = {b.result.name_hint: f"over {p.buffer.result.name_hint}" for b, p in region.homes.items()}
    places |= {b.result.name_hint: f"in {o.result.name_hint}" for b, o in region.joined.items()}
    list(Parts(found, region, 4, weights).make())
    printed = print_module(found.parent_op())
    assert print_module(parse_module(printed)) == printed
    whole, _, _ = region_of(text, first, last)
    assert values_of(found) == values_of(whole)
    return {str(name): place for name, place in places.items()}


def test_an_output_over_what_dies() -> None:
    """A chain of elementwise calls in the place of its operand; not if that is needed, or is the method's output."""
    chain = "\n".join([call("neg", "%k", "%a"), call("relu", "%a", "%b")])
    read = call("neg", "%b", "%y")
    assert made_in(method(f"{chain}\n{read}", outputs="%y"), 1, 2) == {"a": "in b", "b": "over k"}
    assert made_in(method(f"{chain}\n{read}", outputs="%y, %k"), 1, 2) == {"a": "in b"}
    assert made_in(method(f"{chain}\n{call('add', '%b', '%k', '%y')}", outputs="%y"), 1, 2) == {"a": "in b"}
    assert made_in(method(chain, outputs="%b"), 1, 2) == {"a": "in b"}


def test_an_output_that_is_defined_first() -> None:
    """A place of something that is defined later cannot be named."""
    lines = "\n".join([call("neg", "%y", "%a"), call("neg", "%a", "%b")])
    body = f"{call('relu', '%k', '%y')}\n{lines}"
    assert made_in(method(body, outputs="%b"), 2, 2) == {}
    assert made_in(method(body, outputs="%b", order="yabcd"), 2, 2) == {"a": "over y"}


def test_what_a_later_call_reads_is_not_written_over() -> None:
    """``%a`` is read once more by a call that writes elsewhere."""
    body = "\n".join([call("neg", "%k", "%a"), call("relu", "%a", "%b"), call("_softmax", "%a", "%c")])
    text = method(f"{body}\n{call('add', '%b', '%c', '%y')}", outputs="%y")
    assert made_in(text, 1, 3) == {}


def test_parts_of_different_sizes_are_apart() -> None:
    """The first part of a half is not where the first part of the whole is."""
    views = f"  %h = et.view %k at 256 : {TYPE.replace('8', '4')}\n  %u = et.buffer : {TYPE.replace('8', '4')}"
    body = "\n".join([call("neg", "%k", "%a"), call("relu", "%h", "%u")])
    rest = f'{call("neg", "%a", "%y")}\n  et.call "aten::neg.out"(%u, %w) -> %w'
    text = method(f"{body}\n{rest}", values=f"{views}\n  %w = et.buffer : {TYPE.replace('8', '4')}", outputs="%y, %w")
    assert "u" not in made_in(text, 1, 2)


def test_what_a_loop_reads_again_does_not_die() -> None:
    """The operand is read in each round: nothing may be made over it."""
    body = f"""  et.next ^body
^body:
{call("relu", "%k", "%a")}
{call("neg", "%a", "%b")}
  et.jump_false %p, ^body, ^end
^end:
{call("neg", "%b", "%y")}"""
    text = method(body, values="  %p = et.scalar true", outputs="%y")
    assert made_in(text, 1, 2) == {"a": "in b"}


@pytest.mark.parametrize(
    "line",
    [
        call("relu", "%k", "%k"),
        f"{call('neg', '%k', '%a')}\n  et.move %a to %b\n{call('relu', '%b', '%c')}",
    ],
)
def test_calls_that_cannot_be_cut(line: str) -> None:
    """A call over its own operand, and one that reads a handle, whose bytes are elsewhere."""
    last = line.count("et.call")
    assert region_of(method(line, outputs="%k"), last, last)[1] is None


def test_what_is_read_whole_is_not_made_inside() -> None:
    """A product needs all rows of its second operand; its first may be there part by part."""
    values = "  %t = et.buffer : tensor<16x16xf32>\n  %v = et.buffer : tensor<16x16xf32>"
    first = f"{call('neg', '%k', '%a')}\n{call('mm', '%a', '%t', '%y')}"
    second = f"{call('relu', '%t', '%v')}\n{call('mm', '%k', '%v', '%y')}"
    text = (
        method("{}", values=values, outputs="%y").replace("et.inputs %x", "et.inputs %x, %t").replace("8x16", "32x16")
    )
    assert region_of(text.replace("{}", first), 1, 2)[1] is not None
    assert region_of(text.replace("{}", second), 1, 2)[1] is None


def test_regions_that_touch_are_not_apart() -> None:
    """One reads what the other writes; both may read the same."""
    body = "\n".join(
        [call("neg", "%k", "%a"), call("relu", "%k", "%b"), call("relu", "%a", "%c"), call("neg", "%c", "%y")]
    )
    text = method(body, outputs="%y, %b, %k")
    module = parse_module(text)
    found = next(op for op in module.body.block.ops if isinstance(op, MethodOp))
    in_place = in_place_kernels(TARGET)
    memory = memory_of(EtContext(), found, in_place=in_place)
    regions = Regions(EtContext(), found, memory, in_place, Weights(module).can_divide, {})
    one, two, three = (regions.region(regions.window(i), i, i) for i in (2, 3, 4) if regions.can_cut(i))
    assert one is not None
    assert two is not None
    assert three is not None
    assert one.is_apart_from(two)
    assert not one.is_apart_from(three)
    assert not three.is_apart_from(one)
    assert {b.result.name_hint for b in one.changed} == {"a"}
    assert all(isinstance(b, BufferOp) for b in one.touched)


@pytest.mark.parametrize(
    ("units", "inside", "best", "fewest"), [(16, 16_384, 16, 8), (16, 1_600_000, 16, 16), (6, 960, 3, 2)]
)
def test_no_more_parts_than_help(units: int, inside: int, best: int, fewest: int) -> None:
    """Each part more takes instructions, in the runtime and in the file."""
    region = Region((), 0, {}, {}, {}, units, units, (), 0, 60_000, (inside,))
    assert region.fewest(best) == fewest
    assert region.live(fewest) <= 1.02 * region.live(best)
