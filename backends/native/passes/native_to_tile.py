"""``native-to-tile``: groups become micro-kernels over memory.

Before::

    %y = native.group "product" (%x, %w, %b) { ... linear, gelu ... } : ...

After, in a module of its own::

    func.func @forward_native_0(%x: memref<197x768xf32>, %y: memref<197x3072xf32>) {
      %w = tile.weight "fc1.weight" panel 32 transposed 1 : memref<96x768x32xf32>
      %b = tile.weight "fc1.bias" : memref<3072xf32>
      %e = memref.reinterpret_cast %b to ... : memref<197x3072xf32, strided<[0, 1]>>
      tile.brgemm %x, %w, %y (%e) : ... { ... }

Arguments are the inputs of the delegate and then its outputs. Views are other strides (``places.py``); the result of a
group is written to where the function returns it when that is the only reader, else to a buffer of the arena.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.cpu import of_family
from etir.backends.native.dialect import GroupOp
from etir.backends.native.elementwise import ELEMENTWISE, Body
from etir.backends.native.kernels.brgemm import panel_of
from etir.backends.native.memory import Memory, is_image
from etir.backends.native.places import Place
from etir.backends.native.tile import (
    BrgemmOp,
    BufferOp,
    DepthwiseOp,
    MapOp,
    NormOp,
    PackOp,
    PoolOp,
    SoftmaxOp,
    YieldOp,
    body_of,
    f32,
    memref,
    row_major,
)
from etir.dialects.context import EtContext
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.schema_op import SchemaOp
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

OUTPUTS = "native.outputs"


def pair(given: Sequence[int]) -> tuple[int, int]:
    """A number for each of height and width; one stands for both."""
    return given[0], given[-1]


def constant_name(number: int) -> str:
    """What ``tile`` calls a constant of the function, which has no symbol."""
    return f"constant:{number}"


def lower_function(func: FuncOp, panel: int) -> ModuleOp:
    """The ``tile`` level of a function of groups. ``panel`` is the number of columns of a panel."""
    return _Lowering(func, panel).module()


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cast("TensorType[Attribute]", value.type).get_shape()


class _Lowering(Memory):
    def __init__(self, func: FuncOp, panel: int):
        self.func, self.panel = func, panel
        source = func.body.block
        self.returned = cast(ReturnOp, source.last_op)
        types = [memref(_shape(v)) for v in (*source.args, *self.returned.arguments)]
        super().__init__(Block(arg_types=types))
        self.places: dict[SSAValue, Place] = {}
        self.weights: dict[SSAValue, str] = {}
        self.packed: dict[tuple[Any, ...], SSAValue] = {}
        self.outputs: dict[SSAValue, SSAValue] = {}
        count = len(source.args)
        for arg, target in zip(source.args, self.block.args, strict=False):
            self.places[arg] = Place(target, _shape(arg), row_major(_shape(arg)))
        for value, target in zip(self.returned.arguments, self.block.args[count:], strict=True):
            self.outputs.setdefault(value, target)
            target.name_hint = value.name_hint
        for arg, target in zip(source.args, self.block.args, strict=False):
            target.name_hint = arg.name_hint

    def module(self) -> ModuleOp:
        constants = 0
        for op in self.func.body.block.ops:
            if isinstance(op, GetWeightOp):
                self.weights[op.result] = op.symbol.root_reference.data
            elif isinstance(op, ConstantOp):
                self.weights[op.result] = constant_name(constants)
                constants += 1
            elif isinstance(op, GroupOp):
                self._group(op)
            elif isinstance(op, SchemaOp):
                self._view(op)
        self._return()
        self.block.add_op(ReturnOp())
        types = [arg.type for arg in self.block.args]
        func = FuncOp(self.func.sym_name.data, (types, []), Region(self.block))
        func.attributes[OUTPUTS] = IntegerAttr(len(self.returned.arguments), i64)
        func.location = self.func.location
        return ModuleOp([func])

    def result(self, value: SSAValue) -> Place:
        """Where a group writes: the output that it is, or a buffer."""
        shape = _shape(value)
        if value in self.outputs:
            place = Place(self.outputs[value], shape, row_major(shape))
        else:
            place = self._through_views(value) or self.buffer(shape)
        self.places[value] = place
        return place

    def _through_views(self, value: SSAValue) -> Place | None:
        """The output that a tensor is after reshapes alone."""
        current = value
        while True:
            users = list(dict.fromkeys(use.operation for use in current.uses))
            if len(users) != 1 or not isinstance(users[0], SchemaOp):
                return None
            if operator_of(users[0]) not in ("aten.view_copy.default", "aten.unsqueeze_copy.default"):
                return None
            current = users[0].results[0]
            if current in self.outputs:
                whole = Place(self.outputs[current], _shape(current), row_major(_shape(current)))
                return whole.viewed(_shape(value))

    def _return(self) -> None:
        """Copy to the outputs what no group has written there."""
        count = len(self.func.body.block.args)
        for value, target in zip(self.returned.arguments, self.block.args[count:], strict=True):
            place = self.place(value)
            if place.base is not target or place.offset or not place.is_dense:
                self.copy(place, Place(target, _shape(value), row_major(_shape(value))))

    def place(self, value: SSAValue) -> Place:
        """Where a tensor is; a weight that is read as it lies is one of the program's."""
        if value not in self.places:
            shape = _shape(value)
            base = self.weight(self.weights[value], memref(shape))
            self.places[value] = Place(base, shape, row_major(shape))
        return self.places[value]

    # --- views ------------------------------------------------------------------------------------------------------

    def _view(self, op: SchemaOp) -> None:
        result = op.results[0]
        source: SSAValue = op.arg("self")
        if source in self.weights and operator_of(op) in ("aten.t_copy.default", "aten.permute_copy.default"):
            self.place(source)
        place = self.place(source)
        shape = _shape(result)
        rank = len(place.shape)
        match operator_of(op).split(".")[1]:
            case "permute_copy":
                found: Place | None = place.permuted([d % rank for d in op.arg("dims")])
            case "transpose_copy":
                order = [*range(rank)]
                first, second = op.arg("dim0") % rank, op.arg("dim1") % rank
                order[first], order[second] = second, first
                found = place.permuted(order)
            case "t_copy":
                found = place.permuted([*reversed(range(rank))])
            case "expand_copy":
                found = place.broadcast(shape)
            case "select_copy":
                dim = op.arg("dim") % rank
                found = place.selected(dim, op.arg("index") % place.shape[dim])
            case "slice_copy":
                dim = op.arg("dim") % rank
                start = op.arg("start") or 0
                start = max(0, min(start + place.shape[dim] if start < 0 else start, place.shape[dim]))
                found = place.sliced(dim, start, shape[dim], op.arg("step"))
            case "clone" | "alias_copy":
                found = place
            case _:
                found = place.viewed(shape)
        if found is None:
            found = self.copy(place, like=op).viewed(shape)
        if found is None:  # rows of the copy have gaps
            dense = Place(self.add(BufferOp(memref(place.shape))).results[0], place.shape, row_major(place.shape))
            found = self.copy(place, dense, op).viewed(shape)
        assert found is not None
        self.places[result] = found

    # --- groups -----------------------------------------------------------------------------------------------------

    def _group(self, group: GroupOp) -> None:
        outside: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
        match group.kind.data:
            case "product":
                self._product(group, outside)
            case "depthwise":
                self._convolution(group, outside)
            case "pool":
                self._pool(group, outside)
            case "map":
                self._map(group, outside)
            case "softmax":
                self._rows(group, outside)
            case _:
                self._norm(group, outside)

    def _members(self, group: GroupOp) -> list[SchemaOp]:
        return [op for op in group.body.block.ops if isinstance(op, SchemaOp)]

    def _extras(self, group: GroupOp, known: Sequence[SSAValue], members: Sequence[SchemaOp]) -> list[SSAValue]:
        """The tensors from outside that ``members`` read, each once, as arguments of the group's block."""
        inside = {result for op in group.body.block.ops for result in op.results} | {*known}
        found = dict.fromkeys(v for op in members for v in op.operands if v not in inside)
        return [v for v in found if isinstance(v.type, TensorType)]

    def _body(self, values: Mapping[SSAValue, int], count: int, members: Sequence[SchemaOp], after: Any) -> Region:
        """A body of ``members``; ``values`` are the arguments by tensor, ``after`` makes the first member's result."""
        region = body_of(count)
        args = region.block.args
        body = Body(region.block, {v: args[i] for v, i in values.items()})
        if after is not None:
            body.values[members[0].results[0]] = after(body, args)
            members = members[1:]
        for op in members:
            body.values[op.results[0]] = ELEMENTWISE[operator_of(op)](body, op)
        last = members[-1].results[0] if members else None
        result = body.values[last] if last is not None else next(reversed(body.values.values()))
        region.block.add_op(YieldOp(result))
        return region

    def _map(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        members = self._members(group)
        extras = self._extras(group, [], members)
        images = [
            p for p in (self.place(outside[v]) for v in extras) if is_image(p) and p.shape == _shape(group.outputs[0])
        ]
        target = self.image(group.outputs[0]) if images else self.result(group.outputs[0])
        inputs = [self.memref(self.place(outside[v]).broadcast(target.shape)) for v in extras]
        region = self._body({v: i for i, v in enumerate(extras)}, len(extras), members, None)
        self.add(MapOp(self.memref(target), inputs, region), group)

    # --- images -----------------------------------------------------------------------------------------------------

    def image(self, value: SSAValue) -> Place:
        """Where a group writes an image: channels side by side, with the border of zeros that its readers want."""
        place = self.new_image(_shape(value), self._border(value), 0.0)
        self.places[value] = place
        return place

    def _border(self, value: SSAValue) -> tuple[int, int]:
        """The zeros above and beside an image that the convolutions which read it want, the most of any."""
        most = (0, 0)
        for use in value.uses:
            group = use.operation
            if isinstance(group, GroupOp) and operator_of(group.root) == "aten.convolution.default":
                inner = group.body.block.args[use.index]
                if cast(SchemaOp, group.root).arg("input") is inner:
                    border = pair(cast(SchemaOp, group.root).arg("padding"))
                    most = (max(most[0], border[0]), max(most[1], border[1]))
        return most

    def _convolution(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        members = self._members(group)
        root = members[0]
        weight = outside[root.arg("weight")]
        out, _, kh, kw = _shape(weight)
        x = self.with_border(self.place(outside[root.arg("input")]), pair(root.arg("padding")), 0.0, root)
        bias = root.arg("bias")
        extras = self._extras(group, [], members[1:])
        if bias is not None:
            extras = list(dict.fromkeys([bias, *extras]))
        target = self.image(group.outputs[0]).permuted([0, 2, 3, 1])
        n, h, w, c = x.shape[0], *target.shape[1:3], x.shape[3]
        places: list[Place] = []
        for value in extras:
            place = self.place(outside[value])
            if value is bias and len(place.shape) == 1:
                places.append(place.broadcast(target.shape))
                continue
            place = place.broadcast(_shape(group.outputs[0])).permuted([0, 2, 3, 1])
            places.append(place if place.strides[-1] in (0, 1) else self._image_copy(place, root))
        step = pair(root.arg("stride"))
        _, row, column, _ = x.strides

        def after(body: Body, args: Sequence[SSAValue]) -> SSAValue:
            return args[0] if bias is None else body.add(args[0], body.values[bias])

        region = self._body({v: i + 1 for i, v in enumerate(extras)}, 1 + len(extras), members, after)
        symbol = self.weights[weight]
        if group.kind.data == "depthwise":
            strides = (x.strides[0], step[0] * row, step[1] * column, row, column, 1)
            a = Place(x.base, (n, h, w, kh, kw, c), strides, x.offset)
            flat = self.weight(symbol, memref((1, kh * kw, c)), c, True)
            b = self.memref(Place(flat, (kh, kw, c), row_major((kh, kw, c))))
            operands = [self.memref(p) for p in places]
            self.add(DepthwiseOp(self.memref(a), b, self.memref(target), operands, region), group)
            return
        panels = -(-out // self.panel)
        if (kh, kw) == (1, 1):
            a = Place(x.base, (n, h, w, c), (x.strides[0], step[0] * row, step[1] * column, 1), x.offset)
            b = self.weight(symbol, memref((panels, c, self.panel)), self.panel, True)
            merged = [p.viewed((n * h * w, p.shape[-1])) for p in (a, target, *places)]
            if all(p is not None for p in merged):
                a, target, *places = cast("list[Place]", merged)
            else:
                shared = Place(b, (n, h, panels, c, self.panel), (0, 0, *row_major((panels, c, self.panel))))
                b = self.memref(shared)
            taps = 0
        else:
            k = kw * c
            strides = (x.strides[0], step[0] * row, row, step[1] * column, 1)
            a = Place(x.base, (n, h, kh, w, k), strides, x.offset)
            dense = (kh, panels, k, self.panel)
            packed = self.weight(symbol, memref(dense), self.panel, True)
            b = self.memref(Place(packed, (n, h, *dense), (0, 0, *row_major(dense))))
            taps = kh
        operands = [self.memref(p) for p in places]
        self.add(BrgemmOp(self.memref(a), b, self.memref(target), operands, region, taps), group)

    def _image_copy(self, place: Place, like: Operation) -> Place:
        """A copy of (n, h, w, c) with channels side by side."""
        target = self.buffer(place.shape)
        return self.copy(place, target, like)

    def _pool(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        (root,) = self._members(group)
        name = operator_of(root).split(".")[1]
        source = self.place(outside[root.arg("self")])
        _, _, height, width = source.shape
        if name in ("mean", "_adaptive_avg_pool2d"):
            size, step, border, kind, value = (height, width), (1, 1), (0, 0), "mean", 0.0
        else:
            size = pair(root.arg("kernel_size"))
            step = pair(root.arg("stride") or size)
            border = pair(root.arg("padding"))
            kind, value = ("max", -math.inf) if name.startswith("max") else ("mean", 0.0)
        x = self.with_border(source, border, value, root)
        shape = _shape(root.results[0])
        if name in ("mean", "_adaptive_avg_pool2d"):
            n, c = source.shape[:2]
            made = self.new_image((n, c, 1, 1), (0, 0), 0.0)
            found = made.viewed(shape)
            assert found is not None
            self.places[group.outputs[0]] = found
            target = made.permuted([0, 2, 3, 1])
        else:
            target = self.image(group.outputs[0]).permuted([0, 2, 3, 1])
        n, h, w, c = target.shape
        _, row, column, _ = x.strides
        strides = (x.strides[0], step[0] * row, step[1] * column, row, column, 1)
        a = Place(x.base, (n, h, w, *size, c), strides, x.offset)
        self.add(PoolOp(kind, self.memref(a), self.memref(target)), group)

    def _rows(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        (op,) = self._members(group)
        x = self.side_by_side(self.place(outside[op.arg("self")]), op)
        target = self.result(group.outputs[0])
        self.add(SoftmaxOp(self.memref(x), self.memref(target)), group)

    def _norm(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        op = self._members(group)[0]
        x = self.side_by_side(self.place(outside[op.arg("input")]), op)
        target = self.result(group.outputs[0])
        parameters: list[SSAValue] = []
        for name in ("weight", "bias"):
            if op.arg(name) is not None:
                place = self.place(outside[op.arg(name)])
                parameters.append(self.memref(place if place.is_dense else self.copy(place)))
        self.add(NormOp(self.memref(x), self.memref(target), parameters, FloatAttr(float(op.arg("eps")), f32)), group)

    def _product(self, group: GroupOp, outside: Mapping[SSAValue, SSAValue]) -> None:
        members = self._members(group)
        root = members[0]
        name = operator_of(root).split(".")[1]
        if name == "convolution":
            self._convolution(group, outside)
            return
        bias: SSAValue | None = None
        match name:
            case "linear":
                left, right, bias = root.arg("input"), root.arg("weight"), root.arg("bias")
            case "addmm":
                left, right, bias = root.arg("mat1"), root.arg("mat2"), root.arg("self")
            case _:
                left, right = root.arg("self"), root.arg("mat2")
        a = self.side_by_side(self.place(outside[left]), root)
        extras = self._extras(group, [], members[1:])
        if bias is not None:
            extras = list(dict.fromkeys([bias, *extras]))
        target = self.result(group.outputs[0])
        places = [self.place(outside[v]).broadcast(target.shape) for v in extras]
        a, target_view, places = self._as_matrices(a, target, places, batched=name == "bmm", like=root)
        places = [p if p.strides[-1] in (0, 1) else self.copy(p, like=root) for p in places]
        b = self._panels(outside[right], transposed=name == "linear", like=root)

        def after(body: Body, args: Sequence[SSAValue]) -> SSAValue:
            return args[0] if bias is None else body.add(args[0], body.values[bias])

        region = self._body({v: i + 1 for i, v in enumerate(extras)}, 1 + len(extras), members, after)
        self.add(BrgemmOp(self.memref(a), b, self.memref(target_view), [self.memref(p) for p in places], region), group)

    def _as_matrices(
        self, a: Place, c: Place, extras: Sequence[Place], batched: bool, like: Operation
    ) -> tuple[Place, Place, list[Place]]:
        """Operands of a product with one matrix of weights as matrices: leading dims become rows."""
        if batched:
            return a, c, [*extras]
        rows = math.prod(a.shape[:-1])

        def flat(place: Place) -> Place:
            shape = (rows, place.shape[-1])
            found = place.viewed(shape)
            if found is None:
                dense = Place(self.add(BufferOp(memref(place.shape))).results[0], place.shape, row_major(place.shape))
                found = self.copy(place, dense, like).viewed(shape)
            assert found is not None
            return found

        return flat(a), flat(c), [flat(p) for p in extras]

    def _panels(self, value: SSAValue, transposed: bool, like: Operation) -> SSAValue:
        """A right operand in panels: packed ahead of time if it is a weight, else by an operation, once."""
        if value in self.weights and len(_shape(value)) == 2:
            n, k = _shape(value)[::-1] if not transposed else _shape(value)
            panels = -(-n // self.panel)
            return self.weight(self.weights[value], memref((panels, k, self.panel)), self.panel, transposed)
        place = self.place(value)
        rank = len(place.shape)
        if transposed:
            place = place.permuted([*range(rank - 2), rank - 1, rank - 2])
        key = (place.base, place.shape, place.strides, place.offset)
        if key not in self.packed:
            *batch, k, n = place.shape
            to = self.buffer((*batch, -(-n // self.panel), k, self.panel))
            self.packed[key] = self.memref(to)
            self.add(PackOp(self.memref(place), self.packed[key]), like)
        return self.packed[key]


@register_pass
@dataclass(frozen=True)
class NativeToTilePass(Pass):
    """Lower groups to micro-kernels: what is left is the functions of ``tile``, for processors of ``family``"""

    name = "native-to-tile"
    family: str = "x86-64"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1160 for a family that no processor is of."""
        panel = panel_of(of_family(self.family)[0])
        block = module.body.block
        found = [op for op in block.ops if isinstance(op, FuncOp) and "backend.delegate" in op.attributes]
        made = [lower_function(func, panel) for func in found]
        for op in list(block.ops)[::-1]:
            block.erase_op(op, safe_erase=False)
        for part in made:
            func = part.body.block.first_op
            assert func is not None
            func.detach()
            block.add_op(func)
