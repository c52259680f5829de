"""What is known of an operator when the call of a kernel on int8 is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from etir.backends.api.integer_kernels import FLOAT_RESULTS
from etir.dialects.dtypes import f32, i8
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import (
    IMAGE_ORDER,
    Encoding,
    Stored,
    as_line,
    as_row,
    bias_of,
    in_order,
    is_image,
    one_row,
    row_of,
    weight_of,
)
from etir.passes.infra.rewriting import PatternRewriter

Made: TypeAlias = "SSAValue | str"
"""The integers of a result, or why there are none."""


class Call:
    """What is known of an operator when its kernel's call is made."""

    def __init__(self, kernels: Kernels, kernel: str, root: EdgeOp, op: EdgeOp, rewriter: PatternRewriter):
        self.kernels, self.kernel, self.root, self.op, self.rewriter = kernels, kernel, root, op, rewriter
        self.gives_float = kernel in FLOAT_RESULTS.values()

    def make(
        self, arguments: dict[str, Any], out: Encoding, order: tuple[int, ...], dims: Sequence[Any] | None = None
    ) -> SSAValue:
        """The call of a kernel that ends with the zero point and the limits of its result, if that is int8."""
        return self.made({**arguments, **self.limits(out)}, order, dims)

    def limits(self, out: Encoding) -> dict[str, int]:
        """The last arguments of kernels that give int8."""
        return {} if self.gives_float else {"zero_point": out.zero_point, "low": out.low, "high": out.high}

    def layer(self, x: Encoding, out: Encoding) -> tuple[np.ndarray, np.ndarray, np.ndarray] | str:
        """The integers of the weight ``[outputs, inputs of the group, ...]``, of the bias without zero points, and the
        factor of each output.
        """
        is_transposed = "transposed" in self.root.SCHEMA.index and bool(self.root.arg("transposed"))
        weight = weight_of(self.root.arg("weight"), self.kernels.store, 1 if is_transposed else 0)
        if isinstance(weight, str):
            return weight
        numbers, scales = weight
        if is_transposed:
            groups, (inputs, outputs, *window) = int(self.root.arg("groups")), numbers.shape
            numbers = numbers.reshape(groups, inputs // groups, outputs, *window).swapaxes(1, 2)
            numbers, scales = numbers.reshape(groups * outputs, inputs // groups, *window), np.tile(scales, groups)
        bias = bias_of(self.root.arg("bias"), numbers.shape[0], self.kernels.store)
        if bias is None:
            return "the bias is no constant"
        products = x.scale * scales
        with np.errstate(all="ignore"):
            factors = products / out.scale
            whole = np.rint(bias / products)
            single = factors.astype(np.float32)
        sums = (
            np.abs(numbers.astype(np.int64)).reshape(len(numbers), -1).sum(1) if numbers.size else np.zeros(len(bias))
        )
        if not np.isfinite(single).all() or not np.isfinite(whole).all():
            return "the scale of a channel is too small or too large"
        # What the kernel adds up stays within 32 bits.
        too_large = np.abs(whole) + 255.0 * sums >= 2.0**31
        if too_large.any():
            return f"the bias of channel {int(np.argmax(too_large))} does not fit 32 bits"
        return numbers, whole.astype(np.int64), factors

    def made(self, arguments: dict[str, Any], order: tuple[int, ...], dims: Sequence[Any] | None = None) -> SSAValue:
        """The call, with the dims of the operator's result, or with others."""
        element = f32 if self.gives_float else i8
        type = tensor_type(element, dims_of(tensor_of(self.op.results[0])) if dims is None else dims, order)
        return self.kernels.make(self.kernel, arguments, type, self.rewriter, weight_name(self.root))

    def convolved(self, arguments: dict[str, Any]) -> SSAValue:
        """The call of a convolution's kernel, which is one of images; of a line, its one row."""
        dims = dims_of(tensor_of(self.op.results[0]))
        if len(dims) == 4:
            return self.made(arguments, IMAGE_ORDER)
        return as_line(self.made(arguments, IMAGE_ORDER, one_row(dims)), self.rewriter)

    def matrices(self, given: list[Stored]) -> list[SSAValue]:
        """Operands as ``[batch, rows, columns]``: matrices alone get a batch of one."""
        values: list[SSAValue] = []
        for value in (in_order(g.value, tuple(range(tensor_of(g.value).get_num_dims())), self.rewriter) for g in given):
            dims = dims_of(tensor_of(value))
            values.append(value if len(dims) == 3 else self.viewed(value, [1, *dims]))
        return values

    def product(self, arguments: dict[str, Any]) -> SSAValue:
        """The call of a kernel for batches of matrices, with the dims of the operator's result."""
        dims = dims_of(tensor_of(self.op.results[0]))
        if len(dims) == 3:
            return self.made(arguments, (0, 1, 2))
        return self.viewed(self.made(arguments, (0, 1, 2), [1, *dims]), dims)

    def viewed(self, value: SSAValue, dims: Sequence[Any]) -> SSAValue:
        """``value`` with a dim of one number more or less in front."""
        type = tensor_type(tensor_of(value).element_type, dims)
        is_more = len(dims) > tensor_of(value).get_num_dims()
        cls = edge.aten.unsqueeze_copy.default if is_more else edge.aten.squeeze_copy.dims
        made = cls.make({"self": value, "dim": 0 if is_more else [0]}, [type])
        self.rewriter.insert_op(made)
        return made.results[0]

    def side_by_side(self, given: list[Stored]) -> tuple[list[SSAValue], tuple[int, ...]]:
        """Operands of the result's shape whose elements are in one order, that of images if one of them has it."""
        images = any(is_image(g.value) for g in given)
        order = IMAGE_ORDER if images else order_of(tensor_of(self.op.results[0]))
        dims = dims_of(tensor_of(self.op.results[0]))
        return [self.expanded(in_order(g.value, order, self.rewriter), dims) for g in given], order

    def expanded(self, value: SSAValue, dims: Sequence[Any]) -> SSAValue:
        """``value`` with its numbers repeated along dims that are 1 and not 1 in ``dims``."""
        type = tensor_of(value)
        if tuple(dims_of(type)) == tuple(dims):
            return value
        arguments = {"self": value, "size": list(dims)}
        made = edge.aten.expand_copy.default.make(arguments, [tensor_type(type.element_type, dims, order_of(type))])
        self.rewriter.insert_op(made)
        return made.results[0]

    def pairwise(self, given: list[Stored], arguments: dict[str, Any], out: Encoding) -> SSAValue:
        """The call of a kernel whose operands ``a`` and ``b`` are in one order; on images of one row, if one of them is
        a line that a convolution has made as such.
        """
        if any(row_of(g.value) is not None for g in given):
            dims = one_row(dims_of(tensor_of(self.op.results[0])))
            a, b = (self.expanded(as_row(g.value, self.rewriter), dims) for g in given)
            return as_line(self.make({"a": a, "b": b, **arguments}, out, IMAGE_ORDER, dims), self.rewriter)
        (a, b), order = self.side_by_side(given)
        return self.make({"a": a, "b": b, **arguments}, out, order)


def in_planes(numbers: np.ndarray) -> np.ndarray:
    """The filters of a line as those of an image."""
    return numbers if numbers.ndim == 4 else numbers[:, :, None]


def window_of(root: EdgeOp) -> dict[str, list[int]] | None:
    """Kernel, stride, padding and dilation of a convolution as one in two dims; None where they are not numbers."""
    weight = root.arg("weight")
    lists = {"kernel": tensor_of(weight).get_shape()[2:]}
    lists |= {name: root.arg(name) for name in ("stride", "padding", "dilation")}
    return in_two_dims(root, lists)


def in_two_dims(root: EdgeOp, lists: dict[str, Any]) -> dict[str, list[int]] | None:
    """Lists of a number for each dim of a convolution, that a line lacks in front; None where one is computed."""
    if not all(isinstance(n, int) for values in lists.values() for n in values):
        return None
    dims = tensor_of(root.arg("weight")).get_num_dims() - 2
    nothing = {"padding": 0, "output_padding": 0}
    whole = {name: [*values, *values][:dims] for name, values in lists.items()}
    return {name: [nothing.get(name, 1)] * (2 - dims) + values for name, values in whole.items()}
