"""Operators that rearrange: views, joins, selections and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import i1, ui8
from etir.dialects.et.layout import Dim, dims_of, order_of, tensor_type
from etir.dialects.sym.expr import sym_min
from etir.lowering.build.dims import (
    OperandError,
    agree,
    as_int_if_const,
    broadcast,
    exact_quotient,
    product,
    slice_length,
    wrap,
    wrap_all,
)
from etir.lowering.build.inference import Call, contiguous, like, rule, size_as_dim, tensor_type_of
from etir.lowering.build.promotion import common_type

Tensor = TensorType[Attribute]


def with_view(*op_names: str) -> list[str]:
    """The overloads, and the ``*_copy`` forms that the edge level has for them."""
    copies = [f"{packet}_copy.{overload}" for packet, overload in (n.rsplit(".", 1) for n in op_names)]
    return [*op_names, *copies]


@rule(*with_view("aten.alias.default", "aten.detach.default"), "aten.lift_fresh_copy.default")
def same(call: Call) -> Tensor:
    """The input's type."""
    return call.type()


@rule(*with_view("aten.view.default"), "aten.reshape.default", "aten._unsafe_view.default")
def view(call: Call) -> Tensor:
    """The given sizes; one of them may be -1."""
    return contiguous(
        call.element(), resolve_view(call.dims(), call["shape" if call.schema.name == "reshape" else "size"])
    )


def resolve_view(dims: Sequence[Dim], sizes: Sequence[Any]) -> list[Dim]:
    """The dims of a reshape: -1 is what is left of the elements."""
    result = [size_as_dim(size) for size in sizes]
    if -1 in result:
        rest = product([d for d in result if d != -1])
        result[result.index(-1)] = exact_quotient(product(dims), rest)
    agree(product(dims), product(result), "the tensor and the one with the given sizes")
    return result


@rule(*with_view("aten.expand.default"))
def expand(call: Call) -> Tensor:
    """The given sizes, aligned at the end; -1 keeps the input's."""
    dims = call.dims()
    sizes = call.sizes("size")
    if len(sizes) < len(dims):
        raise OperandError(f"{len(dims)} dims do not expand to {len(sizes)}")
    padded = (*(1,) * (len(sizes) - len(dims)), *dims)
    for size, dim in zip(sizes, padded, strict=True):
        if size != -1 and dim != 1:
            agree(dim, size, "a dim and what it expands to")
    return contiguous(call.element(), [d if s == -1 else s for s, d in zip(sizes, padded, strict=True)])


@rule(*with_view("aten.permute.default"))
def permute(call: Call) -> Tensor:
    """Dims in the given order."""
    dims = call.dims()
    return contiguous(call.element(), [dims[wrap(d, len(dims))] for d in call["dims"]])


@rule(*with_view("aten.transpose.int"))
def transpose(call: Call) -> Tensor:
    """Two dims exchanged."""
    dims = list(call.dims())
    first, second = wrap(call["dim0"], len(dims)), wrap(call["dim1"], len(dims))
    dims[first], dims[second] = dims[second], dims[first]
    return contiguous(call.element(), dims)


@rule(*with_view("aten.t.default"))
def transposed(call: Call) -> Tensor:
    """The dims of a matrix exchanged."""
    return contiguous(call.element(), call.dims()[::-1])


@rule(*with_view("aten.unsqueeze.default"))
def unsqueeze(call: Call) -> Tensor:
    """A new dim of size 1."""
    dims = list(call.dims())
    dims.insert(wrap(call["dim"], len(dims) + 1), 1)
    return contiguous(call.element(), dims)


@rule(*with_view("aten.squeeze.dim", "aten.squeeze.dims"))
def squeeze(call: Call) -> Tensor:
    """Without the given dims where their size is 1."""
    dims = call.dims()
    dim = call["dim"]
    dropped = wrap_all((dim,) if isinstance(dim, int) else dim, len(dims))
    return contiguous(call.element(), [d for i, d in enumerate(dims) if i not in dropped or d != 1])


@rule(*with_view("aten.select.int"))
def select(call: Call) -> Tensor:
    """Without the selected dim."""
    dims = list(call.dims())
    del dims[wrap(call["dim"], len(dims))]
    return contiguous(call.element(), dims)


@rule(*with_view("aten.slice.Tensor"))
def slice_(call: Call) -> Tensor:
    """A shorter dim."""
    dims = list(call.dims())
    dim = wrap(call["dim"], len(dims))
    start, end = call["start"], call["end"]
    dims[dim] = slice_length(
        dims[dim],
        None if start is None else size_as_dim(start),
        None if end is None else size_as_dim(end),
        int(call["step"]),
    )
    return contiguous(call.element(), dims)


@rule(*with_view("aten.split_with_sizes.default"))
def split_with_sizes(call: Call) -> list[Attribute]:
    """One part for each size."""
    dims = list(call.dims())
    dim = wrap(call["dim"], len(dims))
    return [contiguous(call.element(), [*dims[:dim], s, *dims[dim + 1 :]]) for s in call.sizes("split_sizes")]


@rule(*with_view("aten.unbind.int"))
def unbind(call: Call) -> list[Attribute]:
    """One part for each index of a dim."""
    dims = list(call.dims())
    count = dims.pop(wrap(call["dim"], len(dims)))
    if not isinstance(count, int):
        raise TypeError("the number of results of unbind is not known")
    return [contiguous(call.element(), dims)] * count


@rule(*with_view("aten.diagonal.default"))
def diagonal(call: Call) -> Tensor:
    """The diagonal as the last dim; of symbolic sizes it is assumed that one off the middle starts inside."""
    dims = list(call.dims())
    first, second = wrap(call["dim1"], len(dims)), wrap(call["dim2"], len(dims))
    rows, columns, offset = dims[first], dims[second], int(call["offset"])
    length: Dim
    if isinstance(rows, int) and isinstance(columns, int):
        length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    else:
        length = as_int_if_const(sym_min(rows + min(offset, 0), columns - max(offset, 0)))
    return contiguous(call.element(), [*(d for i, d in enumerate(dims) if i not in (first, second)), length])


@rule(*with_view("aten.as_strided.default"))
def as_strided(call: Call) -> Tensor:
    """The given sizes."""
    return contiguous(call.element(), call.sizes("size"))


@rule(*with_view("aten.unfold.default"))
def unfold(call: Call) -> Tensor:
    """Windows along a dim, their contents as a new last dim."""
    dims = list(call.dims())
    size, step = int(call["size"]), int(call["step"])
    if not dims:
        return contiguous(call.element(), [size])
    dim = wrap(call["dimension"], len(dims))
    dims[dim] = (dims[dim] - size) // step + 1
    return contiguous(call.element(), [*dims, size])


@rule("aten.cat.default")
def cat(call: Call) -> Tensor:
    """Sizes add up along one dim; 1-d tensors without elements do not count."""
    types = [tensor_type_of(t) for t in call["tensors"]]
    counted = [t for t in types if dims_of(t) != (0,)] or types[:1]
    dims = list(dims_of(counted[0]))
    dim = wrap(call["dim"], len(dims))
    for other in counted[1:]:
        agree(len(dims), other.get_num_dims(), "the shapes that are joined")
        for i, size in enumerate(dims_of(other)):
            if i == dim:
                dims[i] = dims[i] + size
            elif isinstance(size, int):
                agree(dims[i], size, f"dim {i} of the tensors that are joined")
                dims[i] = size
    return contiguous(common_type([t.element_type for t in types]), dims)


@rule("aten.stack.default")
def stack(call: Call) -> Tensor:
    """A new dim with one entry for each tensor."""
    types = [tensor_type_of(t) for t in call["tensors"]]
    dims = list(dims_of(types[0]))
    dims.insert(wrap(call["dim"], len(dims) + 1), len(types))
    return contiguous(common_type([t.element_type for t in types]), dims)


@rule("aten.repeat.default")
def repeat(call: Call) -> Tensor:
    """Sizes multiplied."""
    dims, repeats = call.dims(), call.sizes("repeats")
    padded = (*(1,) * (len(repeats) - len(dims)), *dims)
    return contiguous(call.element(), [d * r for d, r in zip(padded, repeats, strict=True)])


@rule("aten.constant_pad_nd.default")
def constant_pad(call: Call) -> Tensor:
    """Pairs of amounts before and after, for the last dim first."""
    return contiguous(call.element(), padded_dims(call.dims(), call.sizes("pad")))


@rule(*(f"aten.{kind}_pad{n}d.default" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def border_pad(call: Call) -> Tensor:
    """As a constant padding."""
    return contiguous(call.element(), padded_dims(call.dims(), call.sizes("padding")))


def padded_dims(dims: Sequence[Dim], pad: Sequence[Dim]) -> list[Dim]:
    """Dims grown by pairs of amounts, for the last dim first."""
    result = list(dims)
    for i in range(len(pad) // 2):
        result[-1 - i] = result[-1 - i] + pad[2 * i] + pad[2 * i + 1]
    return result


@rule(
    "aten.flip.default",
    "aten.roll.default",
    "aten.tril.default",
    "aten.triu.default",
    "aten.select_scatter.default",
    "aten.slice_scatter.default",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.index_put.default",
    "aten.masked_scatter.default",
    "aten.copy.default",
)
def self_type(call: Call) -> Tensor:
    """The dims and element type of the first tensor."""
    return contiguous(call.element(), call.dims())


@rule("aten.index_select.default")
def index_select(call: Call) -> Tensor:
    """One dim as long as the index."""
    dims = list(call.dims())
    if not dims:
        return contiguous(call.element(), dims)
    dims[wrap(call["dim"], len(dims))] = product(call.dims("index"))
    return contiguous(call.element(), dims)


@rule("aten.gather.default")
def gather(call: Call) -> Tensor:
    """The index's dims."""
    return contiguous(call.element(), call.dims("index"))


@rule("aten.embedding.default")
def embedding(call: Call) -> Tensor:
    """A row for each index."""
    agree(len(call.dims("weight")), 2, "the dims of the table, and of a matrix,")
    return contiguous(call.element("weight"), [*call.dims("indices"), call.dims("weight")[1]])


@rule("aten.index.Tensor")
def index(call: Call) -> Tensor:
    """The indices' broadcast dims, where the first index stands; in front when the indices are apart."""
    dims = call.dims()
    indices = [None if t is None else tensor_type_of(t) for t in call["indices"]]
    given = [i for i, t in enumerate(indices) if t is not None]
    if any(t is not None and t.element_type in (i1, ui8) for t in indices):
        raise TypeError("the number of elements that a mask selects is not known")
    shape = broadcast(*[dims_of(t) for t in indices if t is not None])
    rest = [d for i, d in enumerate(dims) if i not in given]
    together = given == list(range(given[0], given[-1] + 1))
    position = given[0] if together else 0
    return contiguous(call.element(), [*rest[:position], *shape, *rest[position:]])


@rule("aten.pixel_shuffle.default")
def pixel_shuffle(call: Call) -> Tensor:
    """Channels move into the image."""
    *batch, channels, height, width = call.dims()
    factor = int(call["upscale_factor"])
    return contiguous(call.element(), [*batch, channels // factor**2, height * factor, width * factor])


@rule("aten.pixel_unshuffle.default")
def pixel_unshuffle(call: Call) -> Tensor:
    """The image moves into the channels."""
    *batch, channels, height, width = call.dims()
    factor = int(call["downscale_factor"])
    return contiguous(call.element(), [*batch, channels * factor**2, height // factor, width // factor])


@rule("aten.glu.default")
def glu(call: Call) -> Tensor:
    """Half of one dim."""
    dims = list(call.dims())
    dim = wrap(call["dim"], len(dims))
    dims[dim] = dims[dim] // 2
    return contiguous(call.element(), dims)


@rule("aten.clone.default")
def clone(call: Call) -> Tensor:
    """The input's type, in the memory format asked for."""
    memory_format = call["memory_format"]
    return call.type() if memory_format in (None, "preserve") else in_format(call.type(), memory_format)


@rule("aten._to_copy.default", "aten.to.dtype")
def to_copy(call: Call) -> Tensor:
    """Another element type, memory format or both."""
    type = like(call.type(), call["dtype"])
    memory_format = call["memory_format"]
    return type if memory_format in (None, "preserve") else in_format(type, memory_format)


def in_format(type: Tensor, memory_format: str) -> Tensor:
    """The type in a memory format: ``contiguous``, ``channels_last`` or ``channels_last_3d``."""
    dims = dims_of(type)
    order = None if memory_format == "contiguous" else (0, *range(2, len(dims)), 1)
    return tensor_type(type.element_type, dims, order)


@rule("dim_order_ops._to_dim_order_copy.default", "dim_order_ops._clone_dim_order.default")
def to_dim_order(call: Call) -> Tensor:
    """Another element type, dim order or both."""
    type = call.type()
    dtype = call["dtype"] if "dtype" in call.schema.index else None
    order = call["dim_order"]
    return tensor_type(dtype or type.element_type, dims_of(type), order_of(type) if order is None else order)
