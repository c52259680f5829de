"""The ``tile`` dialect: what will be executed, as operations on memory with strides.

A function of this level works on memrefs of float32. ``tile.weight`` are packed bytes of the program, ``tile.buffer``
are places in the arena, ``memref.reinterpret_cast`` looks at the same bytes in another way (a broadcast operand has
strides of 0). Every other operation is one micro-kernel template of ``kernels/``, which has its legality, its cost, its
C and its meaning::

    func.func @forward_native_0(%x: memref<197x768xf32>, %y: memref<197x3072xf32>) {
      %w = tile.weight "fc.weight" panel 32 transposed 1 : memref<96x768x32xf32>
      %b = tile.weight "fc.bias" : memref<3072xf32>
      %e = memref.reinterpret_cast %b to ... : memref<197x3072xf32, strided<[0, 1]>>
      tile.brgemm %x, %w, %y(%e) schedule {tile = [14, 2], depth = 384} : memref<197x768xf32>, ... {
      ^bb0(%sum: f32, %bias: f32):
        %0 = arith.addf %sum, %bias : f32
        tile.yield %0 : f32
      }
      func.return
    }

A body computes one element from scalars with ``arith`` and ``math``; templates make vectors of it. Its first argument
is what the template has computed, if it computes something, the others are the elements of the extra operands at the
same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known, most
from etir.backends.native.sizes_attr import SizesAttr, shown
from etir.dialects.kept import kept

f32 = Float32Type()
COMBINATIONS = ("max", "min", "sum", "mean", "prod")
"""How reductions and windows combine their elements."""


def memref(shape: Sequence[int], strides: Sequence[int] | None = None) -> MemRefType[Attribute]:
    """The type of floats in memory; ``strides`` count floats, None is row-major."""
    if not is_known((*shape, *(strides or ()))):
        return MemRefType(f32, shown(shape), SizesAttr.of(shape, row_major(shape) if strides is None else strides))
    if strides is None or tuple(strides) == row_major(shape):
        return _dense(tuple(shape))
    return _strided(tuple(shape), tuple(strides))


@lru_cache(maxsize=10_000)
def _dense(shape: tuple[int, ...]) -> MemRefType[Attribute]:
    return MemRefType(f32, shape)


@lru_cache(maxsize=10_000)
def _strided(shape: tuple[int, ...], strides: tuple[int, ...]) -> MemRefType[Attribute]:
    return MemRefType(f32, shape, StridedLayoutAttr([*strides]))


def is_flags(type: Attribute) -> bool:
    """Whether a memref is of truth values (``flags.py``), a byte each."""
    return isinstance(type, MemRefType) and type.element_type == i1


def bytes_of(type: Attribute) -> int:
    """The bytes of a memref up to the end of its last element, the most where dims are known at run time only."""
    return (1 if is_flags(type) else 4) * most(extent_of(type))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor."""
    strides: list[int] = []
    size = 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


@kept
def strides_of(type: Attribute) -> tuple[int, ...]:
    """The strides of a memref, in floats."""
    assert isinstance(type, MemRefType)
    layout = type.layout
    if isinstance(layout, NoneAttr):
        return row_major(type.get_shape())
    if isinstance(layout, StridedLayoutAttr):
        return tuple([s.data for s in layout.strides if isinstance(s, IntAttr)])
    assert isinstance(layout, SizesAttr)
    return layout.rows[1]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The dims of a memref."""
    return dims_of_type(value.type)


@kept
def dims_of_type(type: Attribute) -> tuple[int, ...]:
    """The dims of a memref's type."""
    assert isinstance(type, MemRefType)
    layout = type.layout
    return layout.rows[0] if isinstance(layout, SizesAttr) else type.get_shape()


def lie_alike(one: Attribute, other: Attribute) -> bool:
    """Whether two memrefs have the same dims, and elements at the same distances from their first ones; strides of dims
    of length 1 say nothing.
    """
    dims = dims_of_type(one)
    if dims != dims_of_type(other):
        return False
    return all(a == b or n == 1 for n, a, b in zip(dims, strides_of(one), strides_of(other), strict=True))


def extent_of(type: Attribute) -> int:
    """The elements from the first one of a memref to the end of its last one."""
    shape = dims_of_type(type)
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides_of(type), strict=True))


def is_in_panels(columns: int, panels: int, panel: int) -> bool:
    """Whether ``panels`` are as many as the columns need."""
    return panel != 0 and panels == -(-columns // panel)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """What a body computes."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), TemplateOp):
            raise VerifyException("it ends the body of an operation that a template executes")


@irdl_op_definition
class WeightOp(IRDLOperation):
    """Bytes of the program in the order in which they are read. ``panel`` columns lie together where it is given: a
    matrix [k, n] is [n / panel, k, panel], padded with zeros. ``transposed`` says that the weight is [n, k]. A weight
    of windows [n, c, h, w] is a matrix [w c, n] for each of its h rows: [h, n / panel, w c, panel]; without
    ``transposed`` it is given as [c, n, h, w]. One of groups of channels has them as a dim before all others.

    ``winograd`` 2 are filters [n, c, 3, 3] as F(2x2, 3x3) reads them (``winograd.py``): [16, n / panel, c, panel].

    ``spread``: channels of the weight's first dim go round the groups, which are the first dim of the result: channel n
    of group g is number ``n groups + g``, as a pixel shuffle counts them.
    """

    name = "tile.weight"
    symbol = prop_def(StringAttr)
    panel = opt_prop_def(IntegerAttr)
    transposed = opt_prop_def(IntegerAttr)
    winograd = opt_prop_def(IntegerAttr)
    spread = opt_prop_def(UnitAttr)
    result = result_def(MemRefType)
    assembly_format = (
        "$symbol (`panel` $panel^)? (`transposed` $transposed^)? (`winograd` $winograd^)? (`spread` $spread^)? "
        "attr-dict `:` type($result)"
    )

    def __init__(
        self,
        symbol: str,
        type: Attribute,
        panel: int = 0,
        transposed: bool = False,
        winograd: int = 0,
        spread: bool = False,
    ):
        super().__init__(
            properties={
                "symbol": StringAttr(symbol),
                "panel": IntegerAttr(panel, i64) if panel else None,
                "transposed": IntegerAttr(1, i64) if transposed else None,
                "winograd": IntegerAttr(winograd, i64) if winograd else None,
                "spread": UnitAttr() if spread else None,
            },
            result_types=[type],
        )


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A place in the arena; ``at`` is its offset in bytes once it is planned."""

    name = "tile.buffer"
    at = opt_prop_def(IntegerAttr)
    result = result_def(MemRefType)
    assembly_format = "(`at` $at^)? attr-dict `:` type($result)"

    def __init__(self, type: Attribute, at: int | None = None):
        super().__init__(properties={"at": None if at is None else IntegerAttr(at, i64)}, result_types=[type])


class TemplateOp(IRDLOperation):
    """An operation that a template of ``kernels/`` executes."""

    schedule = opt_prop_def(DictionaryAttr)

    def reads(self) -> list[SSAValue]:
        """The memory that is read."""
        raise NotImplementedError

    def writes(self) -> list[SSAValue]:
        """The memory that is written."""
        raise NotImplementedError

    def makes(self) -> list[SSAValue]:
        """Of what is written, that which is not the operation's own memory."""
        return self.writes()


def verify_body(region: Region, count: int) -> None:
    """Raises VerifyException unless a body computes one number of ``count``."""
    block = region.block
    if len(block.args) != count or any(arg.type != f32 for arg in block.args):
        raise VerifyException(f"the body takes {count} numbers of f32")
    last = block.last_op
    if not isinstance(last, YieldOp) or len(last.values) != 1 or last.values[0].type != f32:
        raise VerifyException("the body ends with tile.yield of one f32")


@irdl_op_definition
class BrgemmOp(TemplateOp):
    """``c = body(a b, extra)``: a [..., m, k], b packed [..., n / panel, k, panel], c [..., m, n], extra as c.

    With ``taps`` the product is a sum of products over one dim or two: a [..., taps, m, k], b [..., taps, n / panel, k,
    panel]. A convolution is one whose a is an image with strides that overlap: a tap for each row of the window, k its
    columns and channels; or a tap for each row and column, where columns of the window lie apart.

    ``over``: c may be the memory of an extra operand, so that sums do not rest in c before the body: those of a tile
    lie on the stack before a long one.
    """

    name = "tile.brgemm"
    taps = opt_prop_def(ArrayAttr)
    over = opt_prop_def(UnitAttr)
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$a `,` $b `,` $c `(` $extra `)` (`over` $over^)? (`taps` $taps^)? (`schedule` $schedule^)? attr-dict `:` "
        "type($a) `,` type($b) `,` type($c) "
        "`(` type($extra) `)` $body"
    )

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        c: SSAValue,
        extra: Sequence[SSAValue],
        body: Region,
        taps: Sequence[int] = (),
    ):
        counts = ArrayAttr([IntegerAttr(count, i64) for count in taps]) if taps else None
        super().__init__(operands=[a, b, c, extra], properties={"taps": counts}, regions=[body])

    @property
    def tap_counts(self) -> tuple[int, ...]:
        """The dims of taps, outermost first."""
        given = () if self.taps is None else self.taps.data
        return tuple(cast("IntegerAttr[IntegerType]", item).value.data for item in given)

    def reads(self) -> list[SSAValue]:
        return [self.a, self.b, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, b, c = (shape_of(v) for v in (self.a, self.b, self.c))
        if self.taps is not None:
            if len(self.taps.data) not in (1, 2) or not all(isinstance(t, IntegerAttr) for t in self.taps.data):
                raise VerifyException("taps are one or two numbers")
            counts = self.tap_counts
            depth = len(counts)
            if len(b) != len(a) + 1 or a[-2 - depth : -2] != counts or b[-3 - depth : -3] != counts:
                raise VerifyException(f"a and b have taps of {list(counts)}")
            a, b = (*a[: -2 - depth], *a[-2:]), (*b[: -3 - depth], *b[-3:])
        if len(a) < 2 or len(b) != len(a) + 1 or len(c) != len(a) or not a[:-2] == b[:-3] == c[:-2]:
            raise VerifyException("a is [..., m, k], b [..., panels, k, panel] and c [..., m, n]")
        if a[-1] != b[-2] or a[-2] != c[-2] or not is_in_panels(c[-1], b[-3], b[-1]):
            raise VerifyException(f"dims of a {a}, b {b} and c {c} do not fit")
        if any(shape_of(e) not in (c, (*c[:-1], 1)) for e in self.extra):
            raise VerifyException("extra operands have the shape of c, or one column")
        verify_body(self.body, 1 + len(self.extra))


@irdl_op_definition
class DepthwiseOp(TemplateOp):
    """``c = body(sum a b, extra)`` for each channel: a [..., w, y, x, c], b [y, x, c], c [..., w, c]."""

    name = "tile.depthwise"
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$a `,` $b `,` $c `(` $extra `)` (`schedule` $schedule^)? attr-dict `:` type($a) `,` type($b) `,` type($c) "
        "`(` type($extra) `)` $body"
    )

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, extra: Sequence[SSAValue], body: Region):
        super().__init__(operands=[a, b, c, extra], regions=[body])

    def reads(self) -> list[SSAValue]:
        return [self.a, self.b, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, b, c = (shape_of(v) for v in (self.a, self.b, self.c))
        if len(a) < 4 or len(b) != 3 or a[-3:] != b or c != (*a[:-3], b[-1]):
            raise VerifyException("a is [..., w, taps, taps, c], b [taps, taps, c] and c [..., w, c]")
        if any(shape_of(e) != c for e in self.extra):
            raise VerifyException("extra operands have the shape of c")
        verify_body(self.body, 1 + len(self.extra))


class CombineOp(TemplateOp):
    """Combines elements of ``body(a, extra)`` as ``kind`` says, one of :data:`COMBINATIONS`."""

    kind = prop_def(StringAttr)
    a = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$kind $a `,` $c `(` $extra `)` (`schedule` $schedule^)? attr-dict `:` type($a) `,` type($c) "
        "`(` type($extra) `)` $body"
    )

    def __init__(self, kind: str, a: SSAValue, c: SSAValue, extra: Sequence[SSAValue], body: Region):
        super().__init__(operands=[a, c, extra], properties={"kind": StringAttr(kind)}, regions=[body])

    def reads(self) -> list[SSAValue]:
        return [self.a, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def _verify(self, extra: tuple[int, ...]) -> None:
        """The kind, the shape of the extra operands, and the body."""
        if self.kind.data not in COMBINATIONS:
            raise VerifyException(f"the kind is one of {', '.join(COMBINATIONS)}")
        if any(shape_of(e) != extra for e in self.extra):
            raise VerifyException(f"extra operands have the shape {extra}")
        verify_body(self.body, 1 + len(self.extra))


@irdl_op_definition
class PoolOp(CombineOp):
    """The largest or smallest number, the sum, mean or product, of ``body(a, extra)`` over windows: a [..., w, taps,
    taps, c], extra and c [..., w, c].
    """

    name = "tile.pool"

    def verify_(self) -> None:
        a, c = shape_of(self.a), shape_of(self.c)
        if len(a) < 4 or c != (*a[:-3], a[-1]):
            raise VerifyException("a is [..., w, taps, taps, c], c [..., w, c]")
        self._verify(c)


@irdl_op_definition
class ReduceOp(CombineOp):
    """The largest or smallest number, the sum, mean or product, of ``body(a, extra)`` along the last dim: a and extra
    [..., n], c [...].
    """

    name = "tile.reduce"

    def verify_(self) -> None:
        a = shape_of(self.a)
        if not a or shape_of(self.c) != a[:-1]:
            raise VerifyException("a is [..., n], c [...]")
        self._verify(a)


@irdl_op_definition
class PackOp(TemplateOp):
    """``to = from`` in panels: from [..., k, n] with any strides, to [..., n / panel, k, panel], padded with zeros."""

    name = "tile.pack"
    source = operand_def(MemRefType)
    to = operand_def(MemRefType)
    assembly_format = "$source `,` $to (`schedule` $schedule^)? attr-dict `:` type($source) `,` type($to)"

    def __init__(self, source: SSAValue, to: SSAValue):
        super().__init__(operands=[source, to])

    def reads(self) -> list[SSAValue]:
        return [self.source]

    def writes(self) -> list[SSAValue]:
        return [self.to]

    def verify_(self) -> None:
        source, to = shape_of(self.source), shape_of(self.to)
        if len(source) < 2 or len(to) != len(source) + 1 or (*source[:-2], source[-2]) != (*to[:-3], to[-2]):
            raise VerifyException(f"{to} are no panels of {source}")
        panels, panel, columns = to[len(to) - 3], to[len(to) - 1], source[len(source) - 1]
        if not is_in_panels(columns, panels, panel):
            raise VerifyException(f"{to} are no panels of {source}")


@irdl_op_definition
class MapOp(TemplateOp):
    """``out = body(inputs)`` element by element; inputs have the shape of the output, by strides of 0 if need be."""

    name = "tile.map"
    out = operand_def(MemRefType)
    inputs = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$out `(` $inputs `)` (`schedule` $schedule^)? attr-dict `:` type($out) `(` type($inputs) `)` $body"
    )

    def __init__(self, out: SSAValue, inputs: Sequence[SSAValue], body: Region):
        super().__init__(operands=[out, inputs], regions=[body])

    def reads(self) -> list[SSAValue]:
        return [*self.inputs]

    def writes(self) -> list[SSAValue]:
        return [self.out]

    def verify_(self) -> None:
        if any(shape_of(v) != shape_of(self.out) for v in self.inputs):
            raise VerifyException("inputs have the shape of the output")
        verify_body(self.body, len(self.inputs))


@irdl_op_definition
class SoftmaxOp(TemplateOp):
    """``out = softmax(x)`` along the last dim, or its logarithm. A row of minus infinities, of which there is no
    softmax, gives NaN, or zeros with ``safe``.

    With ``scale``, whose rows are one element each, ``out`` is not divided by the sum of its row: one over the sum is
    written there, for what reads ``out`` to multiply its own, shorter rows with.
    """

    name = "tile.softmax"
    x = operand_def(MemRefType)
    out = operand_def(MemRefType)
    scale = opt_operand_def(MemRefType)
    log = opt_prop_def(UnitAttr)
    safe = opt_prop_def(UnitAttr)
    assembly_format = (
        "(`log` $log^)? (`safe` $safe^)? $x `,` $out (`scale` $scale^)? (`schedule` $schedule^)? attr-dict "
        "`:` type($x) `,` type($out) (`,` type($scale)^)?"
    )

    def __init__(
        self, x: SSAValue, out: SSAValue, log: bool = False, scale: SSAValue | None = None, *, safe: bool = False
    ):
        said = {"log": UnitAttr() if log else None, "safe": UnitAttr() if safe else None}
        super().__init__(operands=[x, out, scale], properties=said)

    def reads(self) -> list[SSAValue]:
        return [self.x]

    def writes(self) -> list[SSAValue]:
        return [self.out] if self.scale is None else [self.out, self.scale]

    def verify_(self) -> None:
        shape = shape_of(self.x)
        if shape != shape_of(self.out) or not shape:
            raise VerifyException("input and output have one shape of at least one dim")
        if self.scale is not None and (self.log is not None or shape_of(self.scale) != (*shape[:-1], 1)):
            raise VerifyException("a softmax has one scale for every row")
        if self.log is not None and self.safe is not None:
            raise VerifyException("there is no logarithm of the zeros of a hidden row")


@irdl_op_definition
class NormOp(TemplateOp):
    """``out = (x - mean) / sqrt(variance + eps) * scale + shift`` along the last dim; scale and shift are [n]."""

    name = "tile.norm"
    x = operand_def(MemRefType)
    out = operand_def(MemRefType)
    parameters = var_operand_def(MemRefType)
    eps = prop_def(Attribute)
    assembly_format = (
        "$x `,` $out `(` $parameters `)` `eps` $eps (`schedule` $schedule^)? attr-dict `:` type($x) `,` type($out) "
        "`(` type($parameters) `)`"
    )

    def __init__(self, x: SSAValue, out: SSAValue, parameters: Sequence[SSAValue], eps: Attribute):
        super().__init__(operands=[x, out, parameters], properties={"eps": eps})

    def reads(self) -> list[SSAValue]:
        return [self.x, *self.parameters]

    def writes(self) -> list[SSAValue]:
        return [self.out]

    def verify_(self) -> None:
        shape = shape_of(self.x)
        if shape != shape_of(self.out) or not shape or len(self.parameters) not in (0, 2):
            raise VerifyException("input and output have one shape; there are scale and shift, or neither")
        if any(shape_of(p) != shape[-1:] for p in self.parameters):
            raise VerifyException("scale and shift have the last dim")


def body_of(count: int) -> Region:
    """An empty body of ``count`` numbers."""
    return Region(Block(arg_types=[f32] * count))


def identity() -> Region:
    """A body that is its argument."""
    region = body_of(1)
    region.block.add_op(YieldOp(region.block.args[0]))
    return region
