"""An ONNX model whose numbers go through ``QuantizeLinear`` and ``DequantizeLinear``: its graph without them, and what
they say.

A tensor's *source* is the one that some operator computes: quantization and operators that only move elements are
looked through. Scales and zero points belong to sources, so that it does not matter on which side of a reshape a tool
puts its pair, or how many pairs it puts on one tensor.

Numbers are ``(q - zero_point) * scale``, rounded half to even and saturated (ONNX, ``QuantizeLinear``). Of activations
uint8 and int8 are taken: uint8 is int8 with a zero point that is 128 less. Of weights every symmetric form is: int8 or
uint8 around 128, 4 bits, a scale for all, for each output or for each block of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from etir.dialects.quant.ops import HIGH, LOW, Uniform
from etir.quantization.errors import E1508

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
MOVES = frozenset(
    ("Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Slice", "Split", "Dropout")
)
"""Operators whose elements are those of their first input."""
CLAMPS = frozenset(("Relu", "Clip"))
LAYERS = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
"""Operators that multiply by their second input."""
INTEGERS = {"UINT8": 128, "INT8": 0}
"""Element types of activations, and by how much their zero points are above those of int8."""
WEIGHTS = INTEGERS | {"UINT4": 8, "INT4": 0}
"""Element types of weights, and the zero points of symmetric ones."""
ON_INTEGERS = ("QLinear", "ConvInteger", "MatMulInteger", "MatMulNBits", "QGemm")
"""How names of operators begin that compute on integers themselves."""


@dataclass(frozen=True)
class Node:
    """One operator of the model."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QdqLayer:
    """A layer: the tensors that it reads and gives, and its weight as the model stores it.

    ``integers`` are int8, of the shape that torch's weight has; ``scales`` has one for all, one for each index of dim
    ``axis``, or ``[rows, blocks]``. ``symmetric`` says whether zero is the integer 0.
    """

    node: Node
    weight: str
    integers: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray
    axis: int
    block: int | None
    bits: int

    @property
    def symmetric(self) -> bool:
        return not self.zeros.any()

    def numbers(self) -> np.ndarray:
        """What the integers stand for, float32."""
        scales, zeros = (self._along(values) for values in (self.scales, self.zeros))
        return ((self.integers.astype(np.float32) - zeros) * scales).astype(np.float32)

    def without_zero_scales(self) -> QdqLayer:
        """The same numbers with the scale 1 where a scale is 0, as tools write it for numbers that are all zero."""
        zeros = np.broadcast_to(self._along(self.zeros), self.integers.shape)
        integers = np.where(self._along(self.scales) == 0, zeros, self.integers).astype(np.int8)
        return replace(self, integers=integers, scales=np.where(self.scales == 0, np.float32(1), self.scales))

    def _along(self, values: np.ndarray) -> np.ndarray:
        if self.block is not None:
            return np.repeat(values, self.block, axis=1)[:, : self.integers.shape[1]]
        shape = [-1 if dim == self.axis and values.size > 1 else 1 for dim in range(self.integers.ndim)]
        return values.reshape(shape)


class QdqFile:
    """A model as its quantization needs it. Raises E1508 for a file that cannot be read or has no such operators."""

    def __init__(self, path: str | PathLike[str]):
        self.path = path
        model = self._loaded()
        graph = model.graph
        self.nodes = [self._node(node) for node in graph.node]
        self.types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
        self.outputs = [value.name for value in graph.output]
        self._initializers = {value.name: value for value in graph.initializer}
        self._initializers |= {n.outputs[0]: n.attributes["value"] for n in self.nodes if _is_constant(n)}
        self.types |= {name: value.data_type for name, value in self._initializers.items()}
        self.inputs = [value.name for value in graph.input if value.name not in self._initializers]
        self.makers = {name: node for node in self.nodes for name in node.outputs if name}
        self._check_kinds()
        self.readers: dict[str, list[Node]] = {}
        self._quantized: dict[str, list[Node]] = {}
        for node in self.nodes:
            self._index(node)

    def _index(self, node: Node) -> None:
        """Whether a node quantizes its first input, or which sources it reads."""
        if node.kind == QUANTIZE or (node.kind == DEQUANTIZE and self._is_stored(node.inputs[0])):
            self._quantized.setdefault(self.source(node.inputs[0]), []).append(node)
        elif node.kind not in MOVES and node.kind != DEQUANTIZE:
            for source in dict.fromkeys(self.source(name) for name in node.inputs if name):
                self.readers.setdefault(source, []).append(node)

    def _loaded(self) -> Any:
        try:
            import onnx
            from google.protobuf.message import DecodeError
        except ImportError:
            raise E1508.error(
                f"'{self.path}' is an ONNX model, and the package onnx is not installed",
                help="pip install 'etir[onnx]'",
            ) from None
        try:
            model = onnx.load(self.path)
        except (OSError, DecodeError, ValueError) as error:
            raise E1508.error(f"cannot read '{self.path}': {error}") from None
        if not model.graph.node:
            raise E1508.error(f"'{self.path}' is no ONNX model, or an empty one")
        return model

    @staticmethod
    def _node(node: Any) -> Node:
        import onnx

        known = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        return Node(node.op_type, node.name or node.output[0], tuple(node.input), tuple(node.output), known)

    def _check_kinds(self) -> None:
        other = next((node.kind for node in self.nodes if node.kind.startswith(ON_INTEGERS)), None)
        if other is not None:
            raise E1508.error(
                f"'{self.path}' computes on integers itself ({other})",
                help="write it with QuantizeLinear and DequantizeLinear: quantize_static(..., "
                "quant_format=QuantFormat.QDQ)",
            )
        if any(node.kind in (QUANTIZE, DEQUANTIZE) for node in self.nodes):
            return
        raise E1508.error(
            f"'{self.path}' is in floating point: it has no QuantizeLinear and no DequantizeLinear",
            help="quantize it (onnxruntime.quantization.quantize_static), or leave the file out and give calibration "
            "data",
        )

    def is_constant(self, name: str) -> bool:
        """Whether a tensor's numbers are in the file, as they are or as integers."""
        return self.source(name) in self._initializers

    def source(self, name: str) -> str:
        """The tensor whose elements those of ``name`` are."""
        while (node := self.makers.get(name)) is not None and (
            node.kind in MOVES or node.kind in (QUANTIZE, DEQUANTIZE)
        ):
            name = node.inputs[0]
        return name

    def _is_stored(self, name: str) -> bool:
        """Whether a tensor is integers that no operator of the model makes: an input of integers."""
        while (node := self.makers.get(name)) is not None and node.kind in MOVES:
            name = node.inputs[0]
        return name in self.inputs

    def encoding(self, source: str) -> Uniform | None:
        """How a source is stored; None where it stays in floating point. Raises E1508 for what int8 does not hold."""
        found = self._quantized.get(source)
        if not found:
            return None
        node = next((n for n in found if n.inputs[0] == source), found[0])
        scale, zero, kind = self._parameters(node)
        if kind not in INTEGERS:
            raise E1508.error(
                f"'{self.path}': '{source}' has elements of type {kind}; activations have 8 bits ({node.name})"
            )
        if scale.size != 1 or zero.size != 1:
            raise E1508.error(f"'{self.path}': '{source}' has {scale.size} scales; activations have one ({node.name})")
        step, point = float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]) - INTEGERS[kind]
        if not 0 < step < float("inf") or not LOW <= point <= HIGH:
            raise E1508.error(f"'{self.path}': '{source}' has scale {step} and zero point {point} ({node.name})")
        return Uniform(float(np.float32(step)), point)

    def _parameters(self, node: Node) -> tuple[np.ndarray, np.ndarray, str]:
        """Scale, zero point and the type of the integers of a pair's half."""
        inputs = [*node.inputs]
        scale = self._array(inputs[1], node)
        name = inputs[2] if len(inputs) > 2 else ""
        if name:
            return scale, self._array(name, node).astype(np.int64), self._type(name)
        kind = self._type(inputs[0]) if node.kind == DEQUANTIZE else self._output_type(node)
        return scale, np.zeros(scale.shape, np.int64), kind

    def _output_type(self, node: Node) -> str:
        import onnx

        given = node.attributes.get("output_dtype", 0)
        return onnx.TensorProto.DataType.Name(given) if given else "UINT8"

    def _type(self, name: str) -> str:
        """The element type of a constant or an input; UINT8, which is ONNX's default, of what operators make."""
        import onnx

        return onnx.TensorProto.DataType.Name(self.types[name]) if name in self.types else "UINT8"

    def _array(self, name: str, node: Node) -> np.ndarray:
        import onnx

        source = self.makers.get(name)
        while source is not None and source.kind == "Identity":
            name = source.inputs[0]
            source = self.makers.get(name)
        found = self._initializers.get(name)
        if found is None:
            raise E1508.error(
                f"'{self.path}': '{name}' of {node.name} is computed; scales and zero points are constants"
            )
        return np.asarray(onnx.numpy_helper.to_array(found))

    def layers(self) -> Iterator[QdqLayer]:
        """The layers whose weights are integers, in order. Raises E1508 for integers that are not known."""
        for node in self.nodes:
            if node.kind in LAYERS and len(node.inputs) > 1:
                found = self._weight(node)
                if found is not None:
                    yield found

    def _weight(self, layer: Node) -> QdqLayer | None:
        """The weight of a layer; None for one that is computed or in floating point."""
        name, turned = layer.inputs[1], layer.kind == "MatMul" or _is_turned(layer)
        half = self.makers.get(name)
        if half is not None and half.kind == "Transpose" and self.is_constant(name):
            turned, half = not turned, self.makers.get(half.inputs[0])
        if half is None or half.kind != DEQUANTIZE or not self.is_constant(half.inputs[0]):
            return None
        scales, zeros, kind = self._parameters(half)
        if kind not in WEIGHTS:
            raise E1508.error(f"'{self.path}': the weight of '{layer.name}' has elements of type {kind}")
        before = self.makers.get(half.inputs[0])
        if before is not None and before.kind == QUANTIZE:
            numbers = self._array(before.inputs[0], before)
            stored = _quantized(numbers, scales, zeros, half.attributes, kind)
        else:
            stored = self._array(half.inputs[0], half).astype(np.int64)
        if turned and stored.ndim != 2:
            return None  # A batch of matrices: no layer.
        axis, block = half.attributes.get("axis", 1), half.attributes.get("block_size", 0)
        axis += stored.ndim if axis < 0 else 0
        middle = WEIGHTS[kind]
        stored, zeros = stored - middle, zeros - middle
        if turned:
            stored, axis = stored.T, 1 - axis
            scales, zeros = (v.T if v.ndim == 2 else v for v in (scales, zeros))
        if block and (axis != 1 or stored.ndim != 2):
            raise E1508.error(f"'{self.path}': the weight of '{layer.name}' has blocks along its outputs")
        if not stored.size or not np.all(np.isfinite(scales)):
            raise E1508.error(f"'{self.path}': the weight of '{layer.name}' has no numbers, or a scale that is none")
        integers = np.ascontiguousarray(stored.astype(np.int8))
        bits = 4 if "4" in kind else 8
        found = QdqLayer(
            layer, self.source(name), integers, zeros, scales.astype(np.float32), axis, block or None, bits
        )
        return found if np.all(found.scales) else found.without_zero_scales()


def _is_constant(node: Node) -> bool:
    return node.kind == "Constant" and "value" in node.attributes


def _is_turned(node: Node) -> bool:
    """Whether a product's second input is [columns, rows] of torch's weight."""
    return node.kind == "Gemm" and not node.attributes.get("transB", 0)


def _quantized(
    numbers: np.ndarray, scales: np.ndarray, zeros: np.ndarray, attributes: dict[str, Any], kind: str
) -> np.ndarray:
    """The integers of a weight that the file has in floating point before its pair."""
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)

    def along(values: np.ndarray) -> np.ndarray:
        if block:
            cut = [slice(None)] * numbers.ndim
            cut[axis] = slice(numbers.shape[axis])
            return np.repeat(values, block, axis=axis)[tuple(cut)]
        shape = [-1 if dim == axis % numbers.ndim and values.size > 1 else 1 for dim in range(numbers.ndim)]
        return values.reshape(shape)

    bits = 4 if "4" in kind else 8
    low = 0 if kind.startswith("U") else -(1 << (bits - 1))
    steps = np.rint(numbers.astype(np.float32) / along(scales).astype(np.float32)) + along(zeros)
    return np.clip(steps, low, low + (1 << bits) - 1).astype(np.int64)
