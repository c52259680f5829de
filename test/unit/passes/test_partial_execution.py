"""Programs that are computed in parts: the values of the whole in poisoned memory, and what is left as it is."""

from __future__ import annotations

import re
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, StringAttr

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.program import WeightOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.text import parse_module, print_module, source_location
from etir.interpret.executable import ExecutableMethod
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis import regions
from etir.passes.infra.manager import run_pipeline

PARTS = "partial-execution{target=executorch}"
CHECKS = "verify-plan{target=executorch},verify-calls{target=executorch}"
PLAN = f"plan-memory{{target=executorch}},{CHECKS}"
ORDERS = ("", "schedule-instructions{target=executorch},rematerialize{target=executorch},")

SHAPE = (1, 32, 8, 8)
MATRIX = (32, 64)


def _type(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


@st.composite
def networks(draw: st.DrawFn) -> str:
    """Layers over earlier values: convolutions, pools, gates of channels, products, residuals, views, branches."""
    weights: list[str] = []
    shapes: dict[str, tuple[int, ...]] = {"%x": SHAPE, "%s": SHAPE}
    definitions = [f"  %x = et.buffer : {_type(SHAPE)}", f"  %s = et.buffer state @s : {_type(SHAPE)}"]
    definitions.append("  %p = et.scalar true")
    body = ["  et.inputs %x, %p"]

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights.append(f"et.weight @{name} : {_type(shape)} = #et.synthetic<seed = {len(weights) + 1}>")
        definitions.append(f"  %{name} = et.get_weight @{name} : {_type(shape)}")
        return f"%{name}"

    def made(index: int, shape: tuple[int, ...], suffix: str = "") -> str:
        name = f"%v{index}{suffix}"
        shapes[name] = shape
        definitions.append(f"  {name} = et.buffer : {_type(shape)}")
        return name

    def unary(kind: str, operand: str, result: str) -> str:
        return f'  et.call "aten::{kind}.out"({operand}, {result}) -> {result}'

    kinds = ["relu", "sigmoid", "conv", "depthwise", "pool", "gate", "add", "add", "view", "part", "mm", "softmax"]
    for index in range(draw(st.integers(3, 12))):
        operand = draw(st.sampled_from(list(shapes)[-4:]))
        shape = shapes[operand]
        kind = draw(st.sampled_from([*kinds, "branch", "store"]))
        is_image, is_matrix = len(shape) == 4, len(shape) == 2
        if kind in ("relu", "sigmoid"):
            body.append(unary(kind, operand, made(index, shape)))
        elif kind == "conv" and is_image:
            w, b = weight(draw(st.sampled_from([32, 64])), shape[1], 1, 1), weight(32)
            count = int(weights[-2].split("tensor<")[1].split("x")[0])
            bias = b if count == 32 else "none"
            y = made(index, (1, count, *shape[2:]))
            arguments = "ints[1, 1], ints[0, 0], ints[1, 1], false, ints[0, 0], 1"
            body.append(f'  et.call "aten::convolution.out"({operand}, {w}, {bias}, {arguments}, {y}) -> {y}')
        elif kind == "depthwise" and is_image:
            w = weight(shape[1], 1, 3, 3)
            y = made(index, shape)
            arguments = f"ints[1, 1], ints[1, 1], ints[1, 1], false, ints[0, 0], {shape[1]}"
            body.append(f'  et.call "aten::convolution.out"({operand}, {w}, none, {arguments}, {y}) -> {y}')
        elif kind == "pool" and is_image and shape[2] == 8:
            y = made(index, (1, shape[1], 4, 4))
            definitions.append(f"  {y}i = et.buffer : tensor<1x{shape[1]}x4x4xi64>")
            arguments = "ints[2, 2], ints[2, 2], ints[0, 0], ints[1, 1], false"
            body.append(
                f'  et.call "aten::max_pool2d_with_indices.out"({operand}, {arguments}, {y}, {y}i) '
                f"-> tensors[{y}, {y}i]"
            )
        elif kind == "gate" and is_image:
            mean = made(index, (1, shape[1], 1, 1), "m")
            body.append(
                f'  et.call "aten::mean.out"({operand}, ints[2, 3], true, none, {mean}) -> {mean}',
            )
            y = made(index, shape)
            body.append(f'  et.call "aten::mul.out"({operand}, {mean}, {y}) -> {y}')
        elif kind == "add":
            other = draw(st.sampled_from([n for n, s in shapes.items() if s == shape]))
            y = made(index, shape)
            body.append(f'  et.call "aten::add.out"({operand}, {other}, 1, {y}) -> {y}')
        elif kind == "view" and shape in (SHAPE, MATRIX):
            shapes[f"%v{index}"] = MATRIX if shape == SHAPE else SHAPE
            definitions.append(f"  %v{index} = et.view {operand} : {_type(shapes[f'%v{index}'])}")
        elif kind == "part" and shape == SHAPE:
            shapes[f"%v{index}"] = (1, 16, 8, 8)
            start = draw(st.sampled_from([0, 4096]))
            definitions.append(f"  %v{index} = et.view {operand} at {start} : {_type((1, 16, 8, 8))}")
        elif kind == "mm" and is_matrix:
            w = weight(shape[1], 64)
            y = made(index, (shape[0], 64))
            body.append(f'  et.call "aten::mm.out"({operand}, {w}, {y}) -> {y}')
        elif kind == "softmax":
            y = made(index, shape)
            body.append(f'  et.call "aten::_softmax.out"({operand}, -1, false, {y}) -> {y}')
        elif kind == "branch":
            y = made(index, shape)
            body += [
                f"  et.jump_false %p, ^else{index}, ^then{index}",
                f"^then{index}:",
                unary("sigmoid", operand, y),
                f"  et.jump ^end{index}",
                f"^else{index}:",
                unary("neg", operand, y),
                f"  et.next ^end{index}",
                f"^end{index}:",
            ]
        elif kind == "store" and shape == SHAPE and operand != "%s":
            body.append(f'  et.call "aten::copy_"(%s, {operand}, false) -> %s')
    outputs = draw(st.lists(st.sampled_from(list(shapes)[-5:]), min_size=1, max_size=2, unique=True))
    if outputs == ["%x"]:
        outputs = ["%x", "%s"]
    body += [f"  et.return {', '.join(outputs)}", "}"]
    states = [f"et.state @s : {_type(SHAPE)} = #et.synthetic<seed = 99>"]
    return "\n".join([*states, *weights, "et.method @forward {", *definitions, *body])


def outputs_of(text: str, pipeline: str, flag: bool, *, poison: bool) -> list[np.ndarray]:
    """The outputs of two runs; with ``poison`` the memory is NaN before each, but for the state."""
    module = parse_module(text)
    run_pipeline(EtContext(), module, pipeline)
    method = method_of(module)
    states = [op for op in method.walk() if isinstance(op, BufferOp) and op.state is not None and op.place is not None]
    executable = ExecutableMethod(Interpreter(module, "numpy"), method)
    found: list[np.ndarray] = []
    for scale in (1.0, -3.0):
        if poison:
            for memory, arena in enumerate(executable.arenas):
                kept = [(op.place[1], arena[op.place[1] :][:8192].copy()) for op in states if op.place[0] == memory]
                arena[:] = 0xFF
                for start, data in kept:
                    arena[start : start + data.size] = data
        x = (np.arange(2048, dtype=np.float32).reshape(SHAPE) / 512 - 1) * np.float32(scale)
        found += [np.array(out) for out in executable.run([x, flag])]
    return found


def method_of(module: ModuleOp) -> MethodOp:
    """The only method."""
    return next(op for op in module.body.block.ops if isinstance(op, MethodOp))


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=60, deadline=None)
@given(networks(), st.booleans())
def test_same_values_in_poisoned_memory(order: str, text: str, flag: bool) -> None:
    """Also where a part saves a few bytes: plan and calls verify, and nothing reads what it should not."""
    flag = flag or len(re.findall(r"%p\b", text)) == 2  # a number that nothing reads is the program's
    with mock.patch.object(regions, "VALUE_BYTES", 0), mock.patch.object(regions, "CALL_BYTES", 0):
        parts = outputs_of(text, f"{order}{PARTS},{PLAN}", flag, poison=True)
    apart = outputs_of(text, "plan-memory{algorithm=naive},verify-plan", flag, poison=False)
    for found, wanted in zip(parts, apart, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


def divided(module: ModuleOp | str) -> bool:
    """Whether the pass computes convolutions in parts. Plan and calls verify, and the text can be read again."""
    found = parse_module(module) if isinstance(module, str) else module
    whole = planned(found.clone())
    run_pipeline(EtContext(), found, PARTS)
    text = print_module(found)
    assert print_module(parse_module(text)) == text
    assert planned(found) <= whole
    return sum(isinstance(op, CallOp) and "convolution" in op.kernel.data for op in found.walk()) > 1


def planned(module: ModuleOp) -> int:
    """The bytes of a plan, which verifies."""
    run_pipeline(EtContext(), module, PLAN)
    return sum(method_of(module).pool_sizes or ())


IMAGE = """
et.weight @w : tensor<32x3x3x3xf32> = #et.synthetic<seed = 1>{external}
et.weight @b : tensor<32xf32> = #et.synthetic<seed = 2>
et.state @s : tensor<1x3x32x32xf32>
et.method @forward {{
  %w = et.get_weight @w : tensor<32x3x3x3xf32>
  %b = et.get_weight @b : tensor<32xf32>
  %x = et.buffer{x} : tensor<1x3x32x32xf32>
  %c = et.buffer{c} : tensor<1x32x32x32xf32>
  %r = et.buffer{r} : tensor<1x32x32x32xf32>
  %y = et.buffer{y} : tensor<1x32x16x16xf32>
  %i = et.buffer : tensor<1x32x16x16xi64>
  %z = et.buffer : tensor<32x3x3x3xf32>
  %p = et.scalar true
  {values}
  et.inputs %x
  {before}
  et.call "aten::convolution.out"(%x, %w, %b, {same}, false, ints[0, 0], 1, %c) -> %c
  {between}
  et.call "aten::relu.out"(%c, %r) -> %r
  et.call "aten::max_pool2d_with_indices.out"(%r, {pool}, %y, %i) -> tensors[%y, %i]
  {after}
  et.return {outputs}
}}
"""


def image(**changes: str) -> str:
    """Layers that are computed in parts, with some of that changed."""
    parts = dict.fromkeys(("external", "x", "c", "r", "y", "values", "before", "between", "after"), "")
    parts["same"] = "ints[1, 1], ints[1, 1], ints[1, 1]"
    parts["pool"] = "ints[2, 2], ints[2, 2], ints[0, 0], ints[1, 1], false"
    return IMAGE.format(**{**parts, "outputs": "%y", **changes})


def test_layers_are_divided() -> None:
    """As they are, with the indices and the wide result as outputs, and with the image in a state."""
    assert divided(image())
    assert divided(image(outputs="%y, %i"))
    assert divided(image(x=" state @s").replace("et.inputs %x", "et.inputs"))


NEG = 'et.call "aten::neg.out"(%w, %z) -> %z'


@pytest.mark.parametrize(
    "changes",
    [
        {"external": ' {external = "weights"}'},
        {"after": NEG, "outputs": "%y, %z"},
        {"before": NEG, "outputs": "%y, %z"},
        {"outputs": "%y, %w"},
        {"c": " dynamic"},
        {"c": " caller"},
        {"c": " dynamic unbound"},
        {"values": "%v = et.buffer : tensor<1x32x32x32xf32>", "between": "et.move %c to %v", "outputs": "%y, %v"},
        {"values": "%v = et.view %c : tensor<1x3x3x3xf32>", "between": 'et.call "aten::relu.out"(%v, %v) -> %v'},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_what_is_left_as_it_is(changes: dict[str, str]) -> None:
    """Weights that others read or that are elsewhere, sizes that change, the caller's memory, aliases."""
    assert not divided(image(**changes))


def test_targets_without_the_feature() -> None:
    """Kernels of etir's runtime pack weights and share a call among threads."""
    module = parse_module(image())
    before = print_module(module)
    run_pipeline(EtContext(), module, "partial-execution{target=etir}")
    assert print_module(module) == before
    with pytest.raises(EtirError, match="E0601"):
        run_pipeline(EtContext(), module, "partial-execution{target=other}")


def test_a_loop_that_reads_before_it_writes() -> None:
    """What the round before left is read in the next one: not the same bytes for all parts."""
    loop = image(
        before="""et.next ^body
^body:
  et.call "aten::relu.out"(%r, %q) -> %q""",
        values="%q = et.buffer : tensor<1x32x32x32xf32>",
        after="et.jump_false %p, ^body, ^end\n^end:",
        outputs="%y, %q",
    )
    assert divided(
        loop.replace("(%r, %q)", "(%x, %q)").replace("%q = et.buffer : tensor<1x32", "%q = et.buffer : tensor<1x3")
    )
    module = parse_module(loop)
    run_pipeline(EtContext(), module, PARTS)
    calls = [op.kernel.data for op in method_of(module).walk() if isinstance(op, CallOp)]
    assert calls.count("aten::relu.out") == 2


def with_bytes(text: str, data: dict[str, bytes | None]) -> ModuleOp:
    """A program whose weights have these bytes; None for those that were not loaded."""
    module = parse_module(text)
    for op in module.body.block.ops:
        if isinstance(op, WeightOp) and op.sym_name.data in data:
            found = data[op.sym_name.data]
            op.value = BlobAttr(Blob.of(found) if found is not None else Blob("sha256:" + "0" * 32, 3456))
    return module


def test_parts_have_the_bytes_of_the_weight() -> None:
    """In order, with its names and attributes, where the weight was; names that are taken are left alone."""
    data = np.arange(864, dtype=np.float32).tobytes()
    taken = "et.weight @w_part0 : tensor<32x3x3x3xf32> = #et.synthetic<seed = 7>\n"
    module = with_bytes(image().replace("et.weight @b", f"{taken}et.weight @b"), {"w": data})
    weight = next(op for op in module.body.block.ops if isinstance(op, WeightOp))
    weight.attributes["fqn"] = StringAttr("conv.weight")
    assert divided(module)
    parts = [op for op in module.body.block.ops if isinstance(op, WeightOp) and "fqn" in op.attributes]
    assert [op.sym_name.data for op in parts[:2]] == ["w_part0_", "w_part1"]
    assert [op.attributes["fqn"] for op in parts] == [StringAttr(f"conv.weight.part{i}") for i in range(len(parts))]
    assert b"".join(op.value.data.data for op in parts if isinstance(op.value, BlobAttr)) == data


def test_weights_that_cannot_be_divided() -> None:
    """Bytes that are not there, and those that another weight has, too: a file has equal bytes once."""
    data = np.arange(864, dtype=np.float32).tobytes()
    assert not divided(with_bytes(image(), {"w": None}))
    twin = "et.weight @twin : tensor<32x3x3x3xf32> = #et.synthetic<seed = 7>\n"
    assert not divided(with_bytes(twin + image(), {"w": data, "twin": data}))
    assert divided(with_bytes(twin + image(), {"w": data}))


def test_calls_know_where_they_come_from() -> None:
    """Each part has the place in the source and the attributes of the call that it is of."""
    module = parse_module(image(), name="model.mlir")
    lines = {op.kernel.data: source_location(op.location) for op in method_of(module).walk() if isinstance(op, CallOp)}
    assert divided(module)
    for op in method_of(module).walk():
        if isinstance(op, CallOp):
            assert source_location(op.location) == lines[op.kernel.data]


def test_what_does_not_pay_is_left() -> None:
    """A part costs tensors and calls in the runtime: small layers stay, and so does what another peak hides."""
    small = image().replace("32x32xf32", "4x4xf32").replace("16x16x", "2x2x")
    assert not divided(small)
    zeros = 'et.call "aten::zeros.out"(ints[1, 96, 32, 32], %h) -> %h'
    assert not divided(image(values="%h = et.buffer : tensor<1x96x32x32xf32>", after=zeros, outputs="%y, %h"))
