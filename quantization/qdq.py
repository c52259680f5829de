"""Scales, zero points and weights of an ONNX model on ``QuantizeLinear`` and ``DequantizeLinear``, for the program that
the model was exported from.

Exporters and optimizers name tensors as they like, fold batch norms and leave clamps out, so that names say little.
What stays are the weights: a layer of the model is the layer of the program whose numbers its integers stand for. From
there both graphs are walked side by side, forwards and backwards, over operators that are one in both; two values that
are met on the way are the same value. A model with a layer that the program does not have is of another program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CLAMPS, MOVES
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.program import GetWeightOp
from etir.dialects.quant.ops import ObserveOp, Uniform, UniformAttr
from etir.passes.infra.base import methods
from etir.quantization.errors import E1508
from etir.quantization.layers import COMPUTING, encoding_of, layers_with_weights, weight_of
from etir.quantization.parameters import Parameters
from etir.quantization.passes.annotate_quantization import DYNAMIC
from etir.quantization.passes.materialize_quantization import least_scales, write_weight
from etir.quantization.qdq_file import CLAMPS as THEIR_CLAMPS
from etir.quantization.qdq_file import Node, QdqFile, QdqLayer
from etir.quantization.report import sqnr
from etir.quantization.weights import BOUNDS

SAME = {8: 20.0, 4: 6.0}
"""dB from a layer's weight from which on integers of so many bits stand for it. Rounding leaves 30 and more, 11 with 4
bits; other numbers leave about -3, and a batch norm that is not folded 10.
"""

PARTNERS = {
    "aten.convolution.default": ("Conv", "ConvTranspose"),
    "aten.linear.default": ("Gemm", "MatMul"),
    "aten.bmm.default": ("MatMul",),
    "aten.add.Tensor": ("Add",),
    "aten.sub.Tensor": ("Sub",),
    "aten.mul.Tensor": ("Mul",),
    "aten.div.Tensor": ("Div",),
    "aten.cat.default": ("Concat",),
    "aten.mean.dim": ("ReduceMean", "GlobalAveragePool"),
    "aten._adaptive_avg_pool2d.default": ("GlobalAveragePool", "ReduceMean", "AveragePool"),
    "aten.avg_pool1d.default": ("AveragePool",),
    "aten.avg_pool2d.default": ("AveragePool", "GlobalAveragePool"),
    "aten.max_pool2d.default": ("MaxPool",),
    "aten.max_pool2d_with_indices.default": ("MaxPool",),
    "aten.sigmoid.default": ("Sigmoid",),
    "aten.tanh.default": ("Tanh",),
    "aten.gelu.default": ("Gelu",),
    "aten.elu.default": ("Elu",),
    "aten.leaky_relu.default": ("LeakyRelu",),
    "aten.hardsigmoid.default": ("HardSigmoid",),
    "aten.hardswish.default": ("HardSwish",),
    "aten._softmax.default": ("Softmax",),
    "aten.exp.default": ("Exp",),
    "aten.sqrt.default": ("Sqrt",),
    "aten.upsample_nearest2d.vec": ("Resize",),
    "aten.upsample_bilinear2d.vec": ("Resize",),
    "aten.constant_pad_nd.default": ("Pad",),
}
"""Operators of the program with those of a model that are the same operator."""
EITHER_WAY = frozenset(("aten.add.Tensor", "aten.mul.Tensor"))
"""Operators whose operands may change places."""


@dataclass
class QdqWeights:
    """The integers of layers that are written in place of float weights, by layer, and the path they are of."""

    path: str | PathLike[str]
    layers: dict[EdgeOp, QdqLayer]

    def write(self, module: ModuleOp) -> str:
        """Make them the weights of layers that are marked still; what to tell the user.

        Those with a zero point, or with scales that are too small for a bias of 32 bits, are left to the recipe.
        Raises E1508 for integers that the recipe does not have.
        """
        parameters = Parameters(module)
        written, anew = 0, 0
        for op in list(layers_with_weights(module)):
            found = self.layers.get(op)
            if found is None or not parameters.is_known(weight_of(op)):
                continue
            how = encoding_of(op).data
            scales = self._scales(found, how, op)
            if not found.symmetric or not self._is_kept(op, how, scales, least_scales(op, parameters.store)):
                anew += 1
                continue
            write_weight(op, found.integers, scales, how, parameters.store)
            written += 1
        told = f"weights of {written} layers of '{self.path}'"
        return (
            f"{told}; {anew} with zero points, or scales that the recipe does not have, rounded anew" if anew else told
        )

    def _is_kept(self, op: EdgeOp, how: Uniform, scales: np.ndarray, least: np.ndarray | None) -> bool:
        """Whether a layer can have these scales: below zero only where its blocks are multiplied out, and large enough
        for its bias.
        """
        if how.block is not None:
            return DYNAMIC not in op.attributes or bool(np.all(scales > 0))
        return bool(np.all(scales > 0)) and (least is None or bool(np.all(scales >= least)))

    def _scales(self, found: QdqLayer, how: Uniform, op: EdgeOp) -> np.ndarray:
        """The scales of a weight in the form that the recipe has."""
        low, high = BOUNDS[how.bits][0] - (how.bits == 8), BOUNDS[how.bits][1]
        rows = found.integers.shape[how.axis or 0]
        kind = "one scale" if found.scales.size == 1 else f"a scale for each index of dim {found.axis}"
        if found.block is not None:
            kind = f"blocks of {found.block} numbers"
        kind = f"{found.bits} bits and {kind}"
        if found.integers.min() < low or found.integers.max() > high:
            raise self._other_form(found, kind, how)
        if how.block is not None:
            if found.block == how.block:
                return found.scales
            if found.block is not None or (found.scales.size > 1 and found.axis != 0):
                raise self._other_form(found, kind, how)
            blocks = found.integers.shape[1] // how.block
            return np.repeat(np.broadcast_to(found.scales.reshape(-1), (rows,))[:, None], blocks, axis=1)
        if found.block is not None or (found.scales.size > 1 and found.axis != how.axis):
            raise self._other_form(found, kind, how)
        return np.ascontiguousarray(np.broadcast_to(found.scales.reshape(-1), (rows,)))

    def _other_form(self, found: QdqLayer, kind: str, how: Uniform) -> Exception:
        wanted = f"blocks of {how.block}" if how.block is not None else f"a scale for each index of dim {how.axis}"
        return E1508.error(
            f"'{self.path}': the weight '{found.weight}' has {kind}; the recipe has {how.bits} bits and {wanted}",
            help="weight-int4 with block=... takes weights of 4 bits in blocks, all other recipes a scale for each "
            "output",
        )


def read_qdq(path: str | PathLike[str], module: ModuleOp, *, activations: bool) -> tuple[int, QdqWeights]:
    """Give the observed values of ``module`` the scales of a model, how many, and the weights.

    Without ``activations`` none are wanted. Raises E1508 for a file that cannot be read, for a model in floating point
    or of another program, and for integers that are not of 8 bits.
    """
    walk = _Walk(QdqFile(path), module)
    taken = 0
    for op in module.walk() if activations else ():
        encoding = walk.encoding(op) if isinstance(op, ObserveOp) else None
        if encoding is not None:
            op.properties["as"] = UniformAttr(encoding)
            taken += 1
    if activations and not taken:
        raise E1508.error(f"'{path}' has no scale for a value that the program stores as integers")
    return taken, QdqWeights(path, walk.layers)


def _source(value: SSAValue) -> SSAValue:
    """The value whose elements those of ``value`` are."""
    while True:
        owner = value.owner
        if isinstance(owner, ObserveOp):
            value = owner.input
        elif isinstance(owner, EdgeOp) and owner.op_name in MOVES:
            value = owner.operands[0]
        else:
            return value


class _Walk:
    """Which values of a program are which sources of a model. Raises E1508 for a model of another program."""

    def __init__(self, file: QdqFile, module: ModuleOp):
        self.file = file
        self.same: dict[SSAValue, str] = {}
        self.nodes: dict[EdgeOp, Node] = {}
        self.taken: set[tuple[str, ...]] = set()
        self.parameters = Parameters(module)
        self.layers = self._match_layers(module)
        for func in methods(module):
            self._ends(func)
        self.ops = [op for func in methods(module) for op in func.walk() if isinstance(op, EdgeOp)]
        self._spread()

    # --- layers ------------------------------------------------------------------------------------------------------

    def _match_layers(self, module: ModuleOp) -> dict[EdgeOp, QdqLayer]:
        candidates = [
            op
            for func in methods(module)
            for op in func.walk()
            if isinstance(op, EdgeOp) and op.op_name in COMPUTING and self.parameters.is_known(op.arg("weight"))
        ]
        found: dict[EdgeOp, QdqLayer] = {}
        for layer in self.file.layers():
            alike = [op for op in candidates if op not in found and self._likeness(op, layer) >= SAME[layer.bits]]
            if not alike:
                raise self._no_layer(layer, [op for op in candidates if op not in found])
            found[alike[0]] = layer
            self._pair(alike[0], layer.node)
        if not found:
            raise E1508.error(f"'{self.file.path}' has no layer whose weight is integers")
        return found

    def _likeness(self, op: EdgeOp, layer: QdqLayer) -> float:
        weight = self.parameters.array(weight_of(op))
        is_kind = layer.node.kind in PARTNERS[op.op_name]
        return sqnr(weight, layer.numbers()) if is_kind and weight.shape == layer.integers.shape else -np.inf

    def _no_layer(self, layer: QdqLayer, candidates: Iterable[EdgeOp]) -> Exception:
        shape = "x".join(map(str, layer.integers.shape))
        told = f"'{self.file.path}': the program has no layer with the weight '{layer.weight}' ({shape}) of "
        told += f"'{layer.node.name}'"
        scaled = any(self._is_scaled(op, layer) for op in candidates)
        if scaled:
            return E1508.error(
                told + "; there is one whose channels have other sizes",
                help="fold batch norms before the model is quantized: "
                "onnxruntime.quantization.shape_inference.quant_pre_process",
            )
        return E1508.error(told, help="take the model that was exported from this program, with the same weights")

    def _is_scaled(self, op: EdgeOp, layer: QdqLayer) -> bool:
        """Whether a layer is the same but for a factor of each output."""
        weight = self.parameters.array(weight_of(op))
        if weight.shape != layer.integers.shape:
            return False
        ours, theirs = (w.reshape(len(w), -1).astype(np.float64) for w in (weight, layer.numbers()))
        sizes = np.maximum(np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1), 1e-30)
        return bool(np.median(np.abs((ours * theirs).sum(1)) / sizes) > 0.97)

    # --- values ------------------------------------------------------------------------------------------------------

    def _ends(self, func: FuncOp) -> None:
        """Inputs and outputs by their places, where both have as many."""
        arguments = func.body.block.args
        if len(arguments) == len(self.file.inputs):
            for argument, name in zip(arguments, self.file.inputs, strict=True):
                self._equal(argument, name)
        last = func.body.block.last_op
        if isinstance(last, ReturnOp) and len(last.operands) == len(self.file.outputs):
            for value, name in zip(last.operands, self.file.outputs, strict=True):
                self._equal(value, name)

    def _equal(self, value: SSAValue, name: str) -> bool:
        value, name = _source(value), self.file.source(name)
        if value in self.same or isinstance(value.owner, GetWeightOp) or not isinstance(value.type, TensorType):
            return False
        self.same[value] = name
        return True

    def _pair(self, op: EdgeOp, node: Node) -> None:
        """An operator is a node, which makes its operands and results the same."""
        self.nodes[op] = node
        self.taken.add(node.outputs)
        ours = [_source(v) for v in self._operands(op)]
        theirs = [self.file.source(n) for n in node.inputs if n and not self.file.is_constant(n)]
        if op.op_name in EITHER_WAY and len(ours) == len(theirs) == 2:
            crossed = self.same.get(ours[0]) == theirs[1] or self.same.get(ours[1]) == theirs[0]
            theirs = theirs[::-1] if crossed and theirs[0] != theirs[1] else theirs
        if len(ours) == len(theirs):
            for value, name in zip(ours, theirs, strict=True):
                self._equal(value, name)
        self._equal(op.results[0], node.outputs[0])

    def _operands(self, op: EdgeOp) -> list[SSAValue]:
        """What an operator computes on: no constants."""
        return [v for v in op.operands if not self.parameters.store.is_constant(_source(v))]

    def _spread(self) -> None:
        """Walk until nothing more is found. Each round finds something for an operator, or is the last one."""
        while sum(self._step(op) for op in self.ops):
            pass

    def _step(self, op: EdgeOp) -> bool:
        if op.op_name in CLAMPS:
            return self._clamp(op)
        kinds = PARTNERS.get(op.op_name, ())
        if op in self.nodes or not kinds:
            return False
        node = self._backward(op, kinds) or self._forward(op, kinds)
        if node is None:
            return False
        self._pair(op, node)
        return True

    def _backward(self, op: EdgeOp, kinds: tuple[str, ...]) -> Node | None:
        name = self.same.get(op.results[0])
        node = None if name is None else self.file.makers.get(name)
        return node if node is not None and node.kind in kinds and node.outputs not in self.taken else None

    def _forward(self, op: EdgeOp, kinds: tuple[str, ...]) -> Node | None:
        names = [self.same.get(_source(value)) for value in self._operands(op)]
        if not names or None in names:
            return None
        for node in self.file.readers.get(cast(str, names[0]), ()):
            if node.kind in kinds and node.outputs not in self.taken:
                read = [self.file.source(n) for n in node.inputs if n and not self.file.is_constant(n)]
                if sorted(read) == sorted(cast("list[str]", names)):
                    return node
        return None

    def _clamp(self, op: EdgeOp) -> bool:
        """A clamp that the model has, or has left out."""
        before, after = _source(op.operands[0]), op.results[0]
        if after in self.same and before not in self.same:
            node = self.file.makers.get(self.same[after])
            is_there = node is not None and node.kind in THEIR_CLAMPS
            return self._equal(before, node.inputs[0] if node is not None and is_there else self.same[after])
        if before in self.same and after not in self.same:
            name = self.same[before]
            readers = [n for n in self.file.readers.get(name, ()) if n.kind in THEIR_CLAMPS]
            return self._equal(after, readers[0].outputs[0] if readers else name)
        return False

    def encoding(self, op: ObserveOp) -> Uniform | None:
        """How the model stores an observed value."""
        name = self.same.get(_source(op.input))
        return None if name is None else self.file.encoding(name)
