"""Programs whose results lie over operands: the same values as with memory of their own, whatever was there before."""

from __future__ import annotations

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
@settings(max_examples=80, deadline=None)
@given(methods(), st.booleans())
def test_same_values_in_poisoned_memory(target: str, text: str, flag: bool) -> None:
    """The plan verifies, and nothing reads a byte that another value has taken or that nobody wrote."""
    pipeline = f"plan-memory{{target={target}}},verify-plan{{target={target}}}"
    planned = outputs_of(text, pipeline, flag, poison=True)
    apart = outputs_of(text, "plan-memory{algorithm=naive},verify-plan", flag, poison=False)
    assert planned == apart


def places(text: str, target: str = "etir") -> dict[str | None, int]:
    """The offset of every buffer under a target's plan, which verifies."""
    module = parse_module(text)
    run_pipeline(EtContext(), module, f"plan-memory{{target={target}}},verify-plan{{target={target}}}")
    ops = (op for op in module.walk() if isinstance(op, BufferOp) and op.place is not None)
    return {op.result.name_hint: op.place[1] for op in ops if op.place is not None}


METHOD = """
et.method @forward {{
  %x = et.buffer : tensor<8x4xf32>
  %a = et.buffer{a} : tensor<{type}>
  %b = et.buffer : tensor<{other}>
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
        pytest.param({"outputs": "%y, %x, %a"}, id="the operand is an output"),
        pytest.param({"call": 'et.call "aten::mm.out"(%a, %b, %y)', "other": "4x4xf32"}, id="a kernel that cannot"),
        pytest.param({"result": "8x4xi32", "call": 'et.call "aten::lt.Tensor_out"(%a, %b, %y)'}, id="another dtype"),
        pytest.param({"a": " dynamic", "y": " dynamic", "other": "1x4xf32"}, id="sizes that may differ"),
        pytest.param(
            {"make": 'et.call "aten::mul.out"(%x, %b, %a) -> %a', "call": 'et.call "aten::add.out"(%x, %b, 1, %y)'},
            id="inputs",
        ),
    ],
)
def test_apart(changes: dict[str, str]) -> None:
    """The result has bytes of its own."""
    found = places(method(**changes))
    # Where %a is not read at all, its bytes are free.
    read = ("b", "x") if "make" in changes else ("a", "b", "x")
    assert found["y"] not in [found[name] for name in read]


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
