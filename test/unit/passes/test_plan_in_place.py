"""Programs whose results lie over operands: the same values as with memory of their own, whatever was there before."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp
from etir.dialects.text import parse_module
from etir.interpret.executable import ExecutableMethod
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import memory_of
from etir.passes.infra.manager import run_pipeline

TARGETS = ("etir", "executorch")


@st.composite
def methods(draw: st.DrawFn) -> str:
    """Elementwise operators over earlier values, views and parts of them, sums that broadcast, and branches."""
    shapes = {"%x": (8,)}
    definitions = ["  %x = et.buffer : tensor<8xf32>", "  %p = et.scalar true"]
    body = ["  et.inputs %x, %p"]
    for index in range(draw(st.integers(2, 14))):
        name = f"%v{index}"
        operand = draw(st.sampled_from(list(shapes)[-3:]))
        shape = shapes[operand]
        kind = draw(st.sampled_from(["unary", "binary", "binary", "twice", "view", "part", "row", "branch", "softmax"]))
        type = f"tensor<{'x'.join(map(str, shape))}xf32>"
        if kind == "view" or (kind == "part" and shape != (8,)):
            shapes[name] = (2, 4) if shape == (8,) else (8,) if shape == (2, 4) else shape
            wanted = "x".join(map(str, shapes[name]))
            definitions.append(f"  {name} = et.view {operand} : tensor<{wanted}xf32>")
            continue
        if kind == "part":
            shapes[name] = (4,)
            definitions.append(f"  {name} = et.view {operand} at {draw(st.sampled_from([0, 16]))} : tensor<4xf32>")
            continue
        shapes[name] = shape
        definitions.append(f"  {name} = et.buffer : {type}")
        call = {
            "unary": f'  et.call "aten::neg.out"({operand}, {name}) -> {name}',
            "twice": f'  et.call "aten::mul.out"({operand}, {operand}, {name}) -> {name}',
            "softmax": f'  et.call "aten::_softmax.out"({operand}, -1, false, {name}) -> {name}',
        }
        if kind == "branch":
            body += [
                f"  et.jump_false %p, ^else{index}, ^then{index}",
                f"^then{index}:",
                f'  et.call "aten::sigmoid.out"({operand}, {name}) -> {name}',
                f"  et.jump ^end{index}",
                f"^else{index}:",
                f'  et.call "aten::tanh.out"({operand}, {name}) -> {name}',
                f"  et.next ^end{index}",
                f"^end{index}:",
            ]
        elif kind in ("binary", "row"):
            # A row of four is broadcast to all of a matrix.
            fitting = [n for n, s in shapes.items() if n != name and (s == shape or (shape == (2, 4) and s == (4,)))]
            other = draw(st.sampled_from(fitting))
            first, second = (operand, other) if draw(st.booleans()) else (other, operand)
            if shapes[first] == shape or shapes[second] == shape:
                body.append(f'  et.call "aten::add.out"({first}, {second}, 1, {name}) -> {name}')
        else:
            body.append(call[kind])
    outputs = draw(st.lists(st.sampled_from(list(shapes)), min_size=1, max_size=2, unique=True))
    return "\n".join(["et.method @forward {", *definitions, *body, f"  et.return {', '.join(outputs)}", "}"])


def outputs_of(text: str, pipeline: str, flag: bool, *, poison: bool) -> list[bytes]:
    """The outputs of the second of two runs; with ``poison`` the memory is NaN before each."""
    module = parse_module(text)
    if pipeline:
        run_pipeline(EtContext(), module, pipeline)
    method = module.body.block.first_op
    assert isinstance(method, MethodOp)
    executable = ExecutableMethod(Interpreter(module, "numpy"), method)
    found: list[bytes] = []
    for scale in (1.0, -3.0):
        if poison:
            for arena in executable.arenas:
                arena[:] = 0xFF
        x = (np.arange(8, dtype=np.float32) / 4 - 1) * np.float32(scale)
        found = [np.asarray(out).tobytes() for out in executable.run([x, flag])]
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", [False, True])
@settings(max_examples=60, deadline=None)
@given(methods(), st.booleans())
def test_same_values_in_poisoned_memory(target: str, schedule: bool, text: str, flag: bool) -> None:
    """The plan verifies, and nothing reads a byte that another value has taken or that nobody wrote."""
    # A number that no instruction reads may not be another one than the program's.
    flag = flag or len(re.findall(r"%p\b", text)) == 2
    pipeline = f"plan-memory{{target={target}}},verify-plan{{target={target}}}"
    if schedule:
        pipeline = f"schedule-instructions{{target={target}}},{pipeline}"
    planned = outputs_of(text, pipeline, flag, poison=True)
    apart = outputs_of(text, "plan-memory{algorithm=naive},verify-plan", flag, poison=False)
    assert planned == apart


def places(text: str, target: str = "etir") -> dict[str | None, int]:
    """The offset of every buffer under a target's plan, which verifies."""
    module = parse_module(text)
    run_pipeline(EtContext(), module, f"plan-memory{{target={target}}},verify-plan{{target={target}}}")
    ops = (op for op in module.walk() if isinstance(op, BufferOp) and op.place is not None)
    return {op.result.name_hint: op.place[1] for op in ops if op.place is not None}


SIZES = ' dynamic {{et.sizes = "{}, 4"}}'
"""What a buffer says of sizes that change."""

METHOD = """
et.method @forward {{
  %x = et.buffer : tensor<8x4xf32>
  %a = et.buffer{a} : tensor<{type}>
  %b = et.buffer{b} : tensor<{other}>
  %y = et.buffer{y} : tensor<{result}>
  et.inputs %x, %b
  {make}
  {call} -> %y
  et.return {outputs}
}}
"""


def method(**changes: str) -> str:
    """A method that adds %b to %a, over which the sum can be written, with some of that changed."""
    parts = {
        "a": "",
        "b": "",
        "y": "",
        "type": "8x4xf32",
        "other": "8x4xf32",
        "result": "8x4xf32",
        "make": 'et.call "aten::neg.out"(%x, %a) -> %a',
        "call": 'et.call "aten::add.out"(%a, %b, 1, %y)',
        "outputs": "%y, %x",
    }
    return METHOD.format(**{**parts, **changes})


def test_in_place() -> None:
    """The sum lies over the operand that dies."""
    found = places(method())
    assert found["y"] == found["a"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"outputs": "%y, %x, %a, %b"}, id="the operands are outputs"),
        pytest.param({"call": 'et.call "aten::mm.out"(%a, %b, %y)', "other": "4x4xf32"}, id="a kernel that cannot"),
        pytest.param({"result": "8x4xi32", "call": 'et.call "aten::lt.Tensor_out"(%a, %b, %y)'}, id="another dtype"),
        pytest.param({"a": " dynamic", "y": " dynamic", "other": "1x4xf32"}, id="sizes that may differ"),
        pytest.param({"a": SIZES.format("s0"), "y": SIZES.format("s1"), "b": SIZES.format("s1")}, id="other sizes"),
    ],
)
def test_apart(changes: dict[str, str]) -> None:
    """The result has bytes of its own."""
    found = places(method(**changes))
    read = ("a", "x") if "b" in changes else ("a", "b", "x")
    assert found["y"] not in [found[name] for name in read]


def test_over_an_input() -> None:
    """The caller's values are copied into the program's memory before each run: an input may be written over."""
    found = places(method(outputs="%y, %x, %a"))
    assert found["y"] == found["b"]


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_are_the_same(target: str) -> None:
    """Dynamic tensors that are said to have one size are written over one another, also through a view."""
    sizes = SIZES.format("s0")
    found = places(method(a=sizes, y=sizes, b=sizes), target)
    assert found["y"] == found["a"]
    view = f"%v = et.view %a late{sizes} : tensor<8x4xf32>"
    make = 'et.call "aten::neg.out"(%x, %a) -> %a\n  et.call "executorch_prim::et_view.default"(%a, ints[-1, 4], %v)'
    text = method(a=" dynamic", y=sizes, b=sizes, make=make, call='et.call "aten::add.out"(%v, %b, 1, %y)')
    found = places(text.replace("  %b =", f"  {view}\n  %b ="), target)
    assert found["y"] == found["a"]


CAT = """
et.method @forward {{
  %x = et.buffer : tensor<1x8x4xf32>
  %a = et.buffer : tensor<1x8x4xf32>
  %b = et.buffer : tensor<1x4x4xf32>
  %s = et.view %x : tensor<1x4x4xf32>
  %y = et.buffer : tensor<{shape}xf32>
  et.inputs %x
  et.call "aten::neg.out"(%x, %a) -> %a
  et.call "aten::exp.out"(%s, %b) -> %b
  et.call "aten::cat.out"(tensors[{items}], {dim}, %y) -> %y
  et.return %y{outputs}
}}
"""


def shares(text: str, target: str) -> list[tuple[str, str, int]]:
    """What a target's kernels could write over one another: operand, result and displacement."""
    module = parse_module(text)
    method = module.body.block.first_op
    assert isinstance(method, MethodOp)
    memory = memory_of(EtContext(), method, in_place=in_place_kernels(target))
    names = [op.result.name_hint or "" for op in memory.buffers]
    return [(names[s.operand], names[s.result], s.displacement) for s in memory.problem.shares]


@pytest.mark.parametrize("target", TARGETS)
def test_concatenation(target: str) -> None:
    """Operands are made where the result has them: rows of 128 and 64 bytes, in either order."""
    text = CAT.format(shape="1x12x4", items="%a, %b", dim=1, outputs="")
    assert shares(text, target)[-2:] == [("a", "y", 0), ("b", "y", -128)]
    text = CAT.format(shape="1x12x4", items="%b, %a", dim=-2, outputs="")
    assert shares(text, target)[-2:] == [("b", "y", 0), ("a", "y", -64)]
    # 128 bytes beside an input of 64 are enough: %b is made from %a.
    text = text.replace('exp.out"(%s,', 'exp.out"(%a,').replace("8x4x", "4x4x").replace("12x4x", "8x4x")
    found = places(text, target)
    assert (found["b"], found["a"]) == (found["y"], found["y"] + 64)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("changes", "inside"),
    [
        pytest.param({"shape": "1x12x4", "items": "%a, %s", "dim": 1}, [("a", "y", 0)], id="part of a buffer"),
        pytest.param({"shape": "2x8x4", "items": "%a, %a", "dim": 0}, [], id="twice"),
        pytest.param({"shape": "1x8x8", "items": "%a, %a", "dim": 2}, [], id="rows in turns"),
        pytest.param(
            {"shape": "1x16x4", "items": "%x, %a", "dim": 1}, [("x", "y", 0), ("a", "y", -128)], id="an input"
        ),
        pytest.param(
            {"shape": "1x12x4", "items": "%a, %b", "dim": 1, "outputs": ", %a"}, [("b", "y", -128)], id="kept"
        ),
    ],
)
def test_concatenation_apart(changes: dict[str, str], inside: list[tuple[str, str, int]]) -> None:
    """Whole buffers that die there and are there once, and none whose rows do not follow one another."""
    text = CAT.format(**{"outputs": "", **changes})
    assert [share for share in shares(text, "etir") if share[1] == "y"] == inside
    x = np.arange(32, dtype=np.float32).reshape(1, 8, 4)
    module = parse_module(text)
    run_pipeline(EtContext(), module, "plan-memory{target=etir},verify-plan{target=etir}")
    named = {"%x": x, "%a": -x, "%b": np.exp(x[:, :4]), "%s": x[:, :4]}
    wanted = np.concatenate([named[name] for name in changes["items"].split(", ")], int(changes["dim"]))
    np.testing.assert_allclose(Interpreter(module, "numpy").run([x])[0], wanted, rtol=1e-6)


SPLIT = """
et.method @forward {{
  %x = et.buffer : tensor<{shape}xf32>
  %a = et.buffer : tensor<{shape}xf32>
  %b = et.buffer : tensor<{part}xf32>
  %c = et.buffer : tensor<{part}xf32>
  et.inputs %x
  et.call "aten::neg.out"(%x, %a) -> %a
  et.call {call}, tensors[%b, %c]) -> tensors[%b, %c]
  et.return %b, %c
}}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("changes", "inside"),
    [
        ({"shape": "8x4", "part": "4x4", "call": '"aten::split_copy.Tensor_out"(%a, 4, 0'}, True),
        ({"shape": "1x8x4", "part": "1x4x4", "call": '"aten::split_with_sizes_copy.out"(%a, ints[4, 4], -2'}, True),
        ({"shape": "2x16", "part": "16", "call": '"aten::unbind_copy.int_out"(%a, 0'}, True),
        ({"shape": "4x8", "part": "4x4", "call": '"aten::split_copy.Tensor_out"(%a, 4, 1'}, False),
        ({"shape": "16x2", "part": "16", "call": '"aten::unbind_copy.int_out"(%a, 1'}, False),
    ],
)
def test_split(target: str, changes: dict[str, str], inside: bool) -> None:
    """Parts stay where the tensor has them."""
    text = SPLIT.format(**changes)
    wanted = [("a", "b", 0), ("a", "c", 64)] if inside else []
    assert [share for share in shares(text, target) if share[0] == "a"] == wanted
    found = places(text, target)
    if inside:
        assert (found["b"], found["c"]) == (found["a"], found["a"] + 64)  # type: ignore[operator]


def test_dynamic_sizes_of_one_operand() -> None:
    """A result of one operand has its sizes, also where they are known at run time only."""
    found = places(method(a=" dynamic", y=" dynamic", call='et.call "aten::neg.out"(%a, %y)'))
    assert found["y"] == found["a"]


def test_broadcast_operand() -> None:
    """The row is read for every row of the result, which is not written over it."""
    found = places(method(type="1x4xf32", make='et.call "aten::mean.out"(%x, ints[0], true, none, %a) -> %a'))
    assert not found["y"] <= found["a"] < found["y"] + 128


def test_a_target_that_does_not_say_so() -> None:
    """The same plan is refused for a target whose kernels do not work in place; without a target, any may."""
    module = parse_module(method(call='et.call "aten::special_zeta.out"(%a, %b, %y)'))
    run_pipeline(EtContext(), module, "plan-memory{target=etir},verify-plan{target=etir},verify-plan")
    with pytest.raises(EtirError) as refused:
        run_pipeline(EtContext(), module, "verify-plan{target=executorch}")
    assert refused.value.ids[0] == "E0714"


def test_the_interpreter_spoils_what_is_not_in_place() -> None:
    """A product written over one of its operands by hand: NaN, not the right numbers by luck."""
    text = """
    et.method @forward pools [0, 128] {
      %x = et.buffer at <1, 0> : tensor<4x4xf32>
      %a = et.buffer at <1, 64> : tensor<4x4xf32>
      %y = et.buffer at <1, 64> : tensor<4x4xf32>
      et.inputs %x
      et.call "aten::neg.out"(%x, %a) -> %a
      et.call "aten::mm.out"(%x, %a, %y) -> %y
      et.return %y
    }
    """
    (found,) = Interpreter(parse_module(text), "numpy").run([np.ones((4, 4), np.float32)])
    assert np.isnan(found).all()
    (found,) = Interpreter(parse_module(text.replace("aten::mm", "aten::mul")), "numpy").run(
        [np.ones((4, 4), np.float32)]
    )
    assert (found == -1).all()


@pytest.mark.parametrize(("columns", "moves"), [(32, True), (4, False)])
def test_the_interpreter_knows_kernels_that_move_elements(columns: int, moves: bool) -> None:
    """A permutation of long pieces inside of its operand's memory; one of short pieces is none that kernels do."""
    size = 24 * columns
    text = f"""
    et.method @forward pools [0, {2 * size}] {{
      %x = et.buffer at <1, 0> : tensor<2x3x{columns}xf32>
      %a = et.buffer at <1, {size}> : tensor<2x3x{columns}xf32>
      %y = et.buffer at <1, {size}> : tensor<3x2x{columns}xf32>
      et.inputs %x
      et.call "aten::neg.out"(%x, %a) -> %a
      et.call "aten::permute_copy.out"(%a, ints[1, 0, 2], %y) -> %y
      et.return %y
    }}
    """
    x = np.arange(6 * columns, dtype=np.float32).reshape(2, 3, columns)
    (found,) = Interpreter(parse_module(text), "numpy").run([x])
    assert np.array_equal(found, -x.transpose(1, 0, 2)) if moves else np.isnan(found).all()
