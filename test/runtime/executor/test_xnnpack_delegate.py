"""XNNPACK delegates on etir's runtime: nodes that no pipeline writes, and graphs that contradict themselves."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import etir.runtime
from etir.backends.xnnpack import schema
from etir.backends.xnnpack.blob_writer import write_blob
from etir.backends.xnnpack.datatypes import BY_NAME
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.dialects.et.weights import Blob
from etir.emit.pte import model, writer
from etir.runtime.errors import RuntimeFailure

from etir_testing.runtime.xnnpack_graphs import FP32, constant, floats, graphs, node, program

_NUMPY = {"fp32": np.float32, "fp16": np.float16, "qint8": np.int8, "quint8": np.uint8}


def run(graph: Graph, *inputs: np.ndarray) -> list[np.ndarray]:
    found = etir.runtime.load(program(graph)).forward(*inputs)
    outputs = found if isinstance(found, list | tuple) else [found]
    return [np.array(np.from_dlpack(output)) for output in outputs]


def failure(data: bytes, *inputs: np.ndarray) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as caught:
        etir.runtime.load(data).forward(*inputs)
    return caught.value


# --- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", graphs())
def test_every_kind_runs(name: str) -> None:
    """The graphs that the fuzzers start from."""
    graph = graphs()[name]
    inputs = [np.ones(graph.values[i].dims, _NUMPY[graph.values[i].datatype.name]) for i in graph.inputs]
    assert len(run(graph, *inputs)) == len(graph.outputs)


def test_graphs_have_every_kind_and_packed_datatype() -> None:
    values = [value for graph in graphs().values() for value in graph.values]
    kinds = {node.kind.name for graph in graphs().values() for node in graph.nodes}
    assert kinds == {kind.name for kind in schema.NODES if kind.runs}
    packed = {value.datatype.name for value in values if value.constant is not None}
    assert packed >= {"quint8", "qint8", "qcint8", "qcint4", "qbint4", "qcint32"}


def test_arg_max_pooling() -> None:
    image = floats(1, 4, 4, 2)
    graph = Graph(
        (Value(FP32, (1, 4, 4, 2)), Value(FP32, (1, 2, 2, 2)), Value(BY_NAME["int32"], (1, 2, 2, 2))),
        (node("arg_max_pooling2d", (0,), (1, 2), pooling_height=2, pooling_width=2),),
        (0,),
        (1, 2),
    )
    most, index = run(graph, image)
    windows = image.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 2, 2, 2, 4)
    assert np.array_equal(most, windows.max(-1)) and np.array_equal(index, windows.argmax(-1))


def test_bytes_outside_and_sizes_below_the_bound() -> None:
    """Unsigned bytes at the boundary, and fewer rows than the file has."""
    scaled = Value(BY_NAME["quint8"], (4, 3), None, PerTensor(0.5, 100))
    graph = Graph((scaled, scaled), (node("clamp", (0,), (1,), clamp=(-2.0, 10.0)),), (0,), (1,))
    given = np.array([[0, 96, 255], [100, 120, 121]], np.uint8)
    (got,) = run(graph, given)
    assert np.array_equal(got, np.clip(given, 96, 120))


def test_four_bits_have_the_even_column_below() -> None:
    """Rows of three columns end on a whole byte: the numbers are worked out by hand."""
    data = bytes([0x9 | 0x7 << 4, 0xA, 0x0 | 0xF << 4, 0x8])
    scales = (0.5, 2.0)
    weight = Value(BY_NAME["qcint4"], (2, 3), Constant(4, None, Blob.of(data)), PerChannel(0, scales, 2))
    graph = Graph(
        (Value(FP32, (1, 3)), weight, Value(FP32, (1, 2))),
        (node("fully_connected", (0, 1, None), (2,)),),
        (0,),
        (2,),
    )
    (got,) = run(graph, np.array([[1.0, 10.0, 100.0]], np.float32))
    # (1, -1, 2) times 0.5, and (-8, 7, 0) times 2.
    assert got.tolist() == [[0.5 * (1 - 10 + 200), 2.0 * (-8 + 70)]]


@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 7, 17])
@pytest.mark.parametrize("columns", [1, 31, 32, 95, 128])
@pytest.mark.parametrize("name", ["qcint8", "quint8", "qcint4", "qbint4"])
def test_packed_weights_of_all_widths(name: str, columns: int, vectors: int) -> None:
    """Whole steps and what is left of a row, alone and for several vectors at once: as numpy multiplies."""
    rows, random = 5, np.random.default_rng(columns)
    x = floats(vectors, columns, seed=vectors)
    scales = random.uniform(0.1, 1.0, rows).astype(np.float32)
    quantization: PerChannel | PerTensor | PerBlock = PerChannel(0, tuple(scales.tolist()), rows)
    zero, factors = 0, scales[:, None]
    if name == "quint8":
        zero, factors = 131, np.full((rows, 1), 0.25, np.float32)
        quantization = PerTensor(0.25, zero)
    elif name == "qbint4":
        block = 32 if columns % 32 == 0 else columns
        blocks = np.arange(1, rows * columns // block + 1, dtype=np.float32) / 16
        quantization = PerBlock(0, block, tuple(blocks.tolist()), len(blocks))
        factors = np.repeat(blocks.reshape(rows, -1), block, axis=1)
    if name.endswith("8"):
        signed = name == "qcint8"
        integers = random.integers(-128 if signed else 0, 128 if signed else 256, (rows, columns))
        data = integers.astype(np.int8 if signed else np.uint8)
    else:
        integers = random.integers(-8, 8, (rows, columns))
        stored = np.pad(integers + 8, ((0, 0), (0, columns % 2)), constant_values=9).astype(np.uint8)
        data = stored[:, ::2] | stored[:, 1::2] << 4
    blob = Blob.of(data.tobytes())
    weight = Value(BY_NAME[name], (rows, columns), Constant(len(blob.data), None, blob), quantization)
    bias = floats(rows)
    graph = Graph(
        (Value(FP32, (vectors, columns)), weight, constant(bias), Value(FP32, (vectors, rows))),
        (node("fully_connected", (0, 1, 2), (3,)),),
        (0,),
        (3,),
    )
    expected = x.astype(np.float64) @ ((integers - zero) * factors).T.astype(np.float64) + bias
    (got,) = run(graph, x)
    assert np.abs(got - expected).max() <= 1e-6 * max(1.0, np.abs(x).sum() * np.abs((integers - zero) * factors).max())


def test_a_bias_from_outside_has_all_its_numbers() -> None:
    graph = graphs()["linear_given_bias"]
    assert run(graph, floats(1, 8), floats(3))[0].shape == (1, 3)
    assert failure(program(graph), floats(1, 8), floats(2)).check == "GraphRun"


def test_tokens_have_scales_of_their_own() -> None:
    rows = np.array([[0.0, 255.0, 100.4], [0.0, 0.0, 0.0], [-1.0, 3.0, 0.3]], np.float32)
    graph = Graph(
        (Value(FP32, (3, 3)), Value(BY_NAME["qdint8"], (3, 3), None, PerToken(1)), Value(FP32, (3, 3))),
        (node("convert", (0,), (1,)), node("convert", (1,), (2,))),
        (0,),
        (2,),
    )
    (got,) = run(graph, rows)
    assert np.array_equal(got[:2], [[0.0, 255.0, 100.0], [0.0, 0.0, 0.0]])
    step = np.float32(4 / 255)
    assert np.allclose(got[2], np.round(rows[2] / step) * step, atol=1e-6)


@pytest.mark.parametrize(("stride", "expected"), [(1, [255.0, 2.55]), (2, [255.0, 3.0])])
def test_single_pixels_have_scales_of_their_own(stride: int, expected: list[float]) -> None:
    """What a convolution of one pixel reads, which XNNPACK makes a fully connected layer; not with a stride."""
    ones = {f"{one}_{side}": 1 for one in ("kernel", "dilation") for side in ("height", "width")}
    ones |= {f"subsampling_{side}": stride for side in ("height", "width")}
    graph = Graph(
        (
            Value(FP32, (1, 1, 3, 1)),
            Value(BY_NAME["qdint8"], (1, 1, 3, 1), None, PerToken(3)),
            constant(np.ones((1, 1, 1, 1), np.int8), "qcint8", PerChannel(0, (1.0,), 1)),
            Value(FP32, (1, 1, 3, 1)),
        ),
        (
            node("convert", (0,), (1,)),
            node("conv2d", (1, 2, None), (3,), group_input_channels=1, group_output_channels=1, groups=1, **ones),
        ),
        (0,),
        (3,),
    )
    (got,) = run(graph, np.array([255.0, 0.0, 2.55], np.float32).reshape(1, 1, 3, 1))
    assert np.allclose(got.reshape(-1)[[0, -1]], expected, atol=1e-5)


def test_the_inferred_dim_of_a_reshape_follows_the_input() -> None:
    graph = Graph(
        (Value(FP32, (4, 1, 3)), Value(FP32, (4, 3))),
        (node("static_reshape", (0,), (1,), new_shape=(0, 3)),),
        (0,),
        (1,),
    )
    for rows in (4, 1, 2):
        given = floats(rows, 1, 3)
        assert np.array_equal(run(graph, given)[0], given.reshape(rows, 3))


# --- what is refused --------------------------------------------------------------------------------------------------


def _sample() -> Graph:
    return Graph(
        (Value(FP32, (2, 4)), constant(floats(4)), Value(FP32, (2, 4)), Value(FP32, (2, 4))),
        (node("add", (0, 1), (2,)), node("tanh", (2,), (3,))),
        (0,),
        (3,),
    )


def _values(graph: Graph, at: int, value: Value) -> Graph:
    return replace(graph, values=(*graph.values[:at], value, *graph.values[at + 1 :]))


def _nodes(graph: Graph, *nodes: Node) -> Graph:
    return replace(graph, nodes=nodes)


_BROKEN: dict[str, tuple[str, Callable[[Graph], Graph]]] = {
    "a rank of seven": ("GraphDims", lambda g: _values(g, 2, Value(FP32, (1,) * 7))),
    "elements without end": ("GraphDims", lambda g: _values(g, 2, Value(FP32, (1 << 20, 1 << 20)))),
    "a constant that is too small": (
        "GraphConstantSize",
        lambda g: _values(g, 1, Value(FP32, (5,), g.values[1].constant)),
    ),
    "a constant by a name that there is not": (
        "GraphConstant",
        lambda g: _values(g, 1, Value(FP32, (4,), Constant(16, "nobody"))),
    ),
    "too few scales": (
        "GraphScales",
        lambda g: _values(g, 1, constant(np.zeros(4, np.int8), "qcint8", PerChannel(0, (1.0,), 1))),
    ),
    "a channel that is no dim": (
        "GraphScales",
        lambda g: _values(g, 1, constant(np.zeros(4, np.int8), "qcint8", PerChannel(3, (1.0,) * 4, 4))),
    ),
    "a negative scale": (
        "GraphScales",
        lambda g: _values(g, 2, Value(BY_NAME["qint8"], (2, 4), None, PerTensor(-1.0, 0))),
    ),
    "a zero point out of range": (
        "GraphScales",
        lambda g: _values(g, 2, Value(BY_NAME["qint8"], (2, 4), None, PerTensor(1.0, 128))),
    ),
    "scales for what has none": ("GraphScales", lambda g: _values(g, 2, Value(FP32, (2, 4), None, PerToken(1)))),
    "channels that are no constant": (
        "GraphDatatype",
        lambda g: _values(g, 2, Value(BY_NAME["qcint8"], (2, 4), None, PerChannel(0, (1.0, 1.0), 2))),
    ),
    "a cycle": ("GraphOperand", lambda g: _nodes(g, node("add", (0, 3), (2,)), node("tanh", (2,), (3,)))),
    "an operand that there is not": ("GraphOperand", lambda g: _nodes(g, node("add", (0, 9), (2,)))),
    "a value that is given twice": (
        "GraphResult",
        lambda g: _nodes(g, node("tanh", (0,), (3,)), node("tanh", (0,), (3,))),
    ),
    "a constant that is written": ("GraphResult", lambda g: _nodes(g, node("tanh", (0,), (1,)))),
    "an input that is written": ("GraphResult", lambda g: _nodes(g, node("tanh", (1,), (0,)))),
    "an output that nothing gives": ("GraphOutput", lambda g: _nodes(g, node("add", (0, 1), (2,)))),
    "an empty range": (
        "GraphAttribute",
        lambda g: _nodes(g, g.nodes[0], node("tanh", (2,), (3,), clamp=(2.0, 1.0))),
    ),
    "a flag that the node does not have": (
        "GraphAttribute",
        lambda g: _nodes(g, g.nodes[0], node("tanh", (2,), (3,), flags=1)),
    ),
    "an axis that is no dim": (
        "GraphAttribute",
        lambda g: _nodes(g, g.nodes[0], node("concatenate2", (2, 0), (3,), axis=2)),
    ),
    "a window of nothing": ("GraphAttribute", lambda g: _nodes(g, g.nodes[0], node("max_pooling2d", (2,), (3,)))),
    "a permutation of other dims": (
        "GraphAttribute",
        lambda g: _nodes(g, g.nodes[0], node("static_transpose", (2,), (3,), perm=(0,))),
    ),
    "a permutation that is none": (
        "GraphRun",
        lambda g: _nodes(g, g.nodes[0], node("static_transpose", (2,), (3,), perm=(0, 0))),
    ),
    "shapes that do not fit": (
        "GraphRun",
        lambda g: _nodes(_values(g, 1, constant(floats(3))), *g.nodes),
    ),
    "a result without room": ("GraphRun", lambda g: _values(g, 2, Value(FP32, (2, 3)))),
    "a slice over the end": (
        "GraphRun",
        lambda g: _nodes(g, g.nodes[0], node("static_slice", (2,), (3,), offsets=(0, 2), sizes=(2, 4))),
    ),
}


@pytest.mark.parametrize("case", _BROKEN)
def test_broken_graphs_are_refused(case: str) -> None:
    check, change = _BROKEN[case]
    graph = change(_sample())
    data = program(replace(_sample()), write_blob(graph)[0])
    assert failure(data, floats(2, 4)).check == check


def test_header_and_tables_are_checked() -> None:
    blob = write_blob(_sample())[0]
    assert run(_sample(), floats(2, 4))[0].shape == (2, 4)

    def check(changed: bytes) -> str:
        return failure(program(_sample(), changed), floats(2, 4)).check

    assert check(b"") == check(blob[:20]) == check(b"\0" * 64) == "BackendData"
    assert check(blob[:4] + b"XH01" + blob[8:]) == "BackendData"
    assert check(blob[:8] + struct.pack("<H", 29) + blob[10:]) == "BackendData"
    assert check(blob[:14] + struct.pack("<I", 1 << 31) + blob[18:]) == "BackendData"
    assert check(blob[:22] + struct.pack("<Q", 1 << 40) + blob[30:]) == "BackendData"
    assert check(blob[:36] + b"XN02" + blob[40:]) == "BackendData"
    assert check(blob[:32] + struct.pack("<I", 1 << 30) + blob[36:]) == "BackendData"


def test_changed_bytes_never_crash() -> None:
    """Any byte of the graph may be anything: it loads and runs, or is refused."""
    blob = bytearray(write_blob(_sample())[0])
    random = np.random.default_rng(0)
    for _ in range(400):
        changed = bytearray(blob)
        for at in random.integers(32, len(blob), size=int(random.integers(1, 4))):
            changed[at] = int(random.integers(256))
        try:
            etir.runtime.load(program(_sample(), bytes(changed))).forward(floats(2, 4))
        except RuntimeFailure as error:
            assert error.check != "None"


def test_other_arguments_are_refused() -> None:
    plan = etir.emit.pte.reader.read_pte(program(_sample()))
    (method,) = plan.execution_plan
    call = model.Chain((model.DelegateCall(0, (0,)),))
    data = writer.write_pte(replace(plan, execution_plan=(replace(method, chains=(call,)),)))
    assert failure(data, floats(2, 4)).check == "BackendArguments"
