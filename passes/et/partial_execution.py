"""`partial-execution`: compute stretches of calls part by part, where that lowers the memory that the plan needs.

Before, the first layers of a network for images::

    et.call "aten::convolution.out"(%x, %w, %b, ..., %c) -> %c              // %c : tensor<1x64x32x32xf32>
    et.call "aten::relu.out"(%c, %r) -> %r
    et.call "aten::max_pool2d_with_indices.out"(%r, ..., %y, %i) -> ...     // %y : tensor<1x64x16x16xf32>

After, with two parts::

    et.call "aten::convolution.out"(%x, %w_0, %b_0, ..., %c) -> %c          // %c : tensor<1x32x32x32xf32>
    et.call "aten::relu.out"(%c, %r) -> %r
    et.call "aten::max_pool2d_with_indices.out"(%r, ..., %y_0, %i) -> ...   // %y_0 : the first 32 channels of %y
    et.call "aten::convolution.out"(%x, %w_1, %b_1, ..., %c) -> %c
    et.call "aten::relu.out"(%c, %r) -> %r
    et.call "aten::max_pool2d_with_indices.out"(%r, ..., %y_1, %i) -> ...

Each output channel of a convolution is computed by itself, and what follows until channels are mixed again is needed
for some channels at a time: the largest tensors of a network are never there as a whole. Rows of a matrix, heads of an
attention and images of a batch are parts just as well (``analysis/cuts.py``). Every number is computed as before, in
the same order. Weights that are cut become weights of their own, with the bytes that they had.

Stretches are looked for around the instructions where most bytes are live, in rounds: each round lowers all of them, or
nothing more can be won. A part takes as many calls as the stretch has, and tensors that say where it lies, so that a
method stays as it is unless its plan gets smaller by more than those take in the runtime. Only targets whose kernels
take as long for all parts as for the whole (feature ``parts`` of the manifest) do this: kernels that pack a weight or
use several processors for one call lose by it. (Liberis and Lane 2023, "Pex: Memory-efficient Microcontroller Deep
Learning through Partial Execution".)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.layout import tensor_of, with_dims
from etir.dialects.et.origin import handed_on
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.dialects.et.values import VALUE_OPS, BufferOp, ViewOp
from etir.dialects.et.weights import Blob, BlobAttr, payload_of
from etir.passes.analysis.cuts import WHOLE, leading, template_of
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import MethodMemory, memory_of, tensor_bytes
from etir.passes.analysis.plan_size import saved
from etir.passes.analysis.regions import Place, Region, Regions, place_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.targets.manifest import load

DEFAULT_WORK = 30_000
"""Instructions looked at, over all rounds of a method: two seconds at most, and one round of a longer method."""
PEAK_WORK = 100
"""Instructions that the search around a peak takes as long as."""
MOST_PEAKS = 64
"""Stretches that are computed in parts at once."""


def computes_parts(target: str) -> bool:
    """Whether the kernels of a target take as long for parts. Raises E0601 for an unknown one."""
    return "parts" in load(target).features


@register_pass
@dataclass(frozen=True)
class PartialExecutionPass(Pass):
    """Compute stretches of calls part by part where that lowers the memory that the plan needs.

    ``target`` is the runtime whose kernels compute parts; nothing changes unless its manifest has feature ``parts``.
    """

    name = "partial-execution"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        if not computes_parts(self.target):
            return
        weights = Weights(module)
        for method in [op for op in module.body.block.ops if isinstance(op, MethodOp)]:
            _Method(ctx, method, self.target, weights).run()


class Weights:
    """The weights of a module, who reads them, and those to be made of their parts."""

    def __init__(self, module: ModuleOp) -> None:
        self.ops = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, WeightOp)}
        self.alike = Counter(op.value for op in self.ops.values() if isinstance(op.value, BlobAttr))
        self.taken = {
            name.data: None
            for op in module.body.block.ops
            if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }
        self.readers: dict[str, int] = {}
        for op in module.walk():
            if isinstance(op, GetWeightOp):
                name = op.symbol.root_reference.data
                self.readers[name] = self.readers.get(name, 0) + 1
        self.parts: dict[str, list[WeightOp]] = {}
        """By name, what weights have been divided into by the method that is looked at."""

    def can_divide(self, op: GetWeightOp) -> bool:
        """Whether one call alone reads a weight, and its bytes are there and stay in the program."""
        weight = self.ops.get(op.symbol.root_reference.data)
        if weight is None or self.readers[weight.sym_name.data] != 1 or "external" in weight.attributes:
            return False
        if len(dict.fromkeys(use.operation for use in op.result.uses)) != 1:
            return False
        if isinstance(weight.value, BlobAttr):
            # A file has equal bytes once: parts of one of two that are equal would be there beside the other.
            return weight.value.data.has_data and self.alike[weight.value] == 1
        return dtype_of(tensor_of(op.result).element_type).numpy_name is not None

    def divide(self, op: GetWeightOp, count: int) -> list[GetWeightOp]:
        """Reads of the parts of a weight."""
        weight = self.ops[op.symbol.root_reference.data]
        type = part_type(tensor_of(op.result), count)
        size = tensor_bytes(type)
        data = payload_of(weight.value, tensor_of(op.result)).data
        parts = self.parts[weight.sym_name.data] = []
        found: list[GetWeightOp] = []
        for index in range(count):
            name = f"{weight.sym_name.data}_part{index}"
            while name in self.taken:
                name += "_"
            attributes = dict(weight.attributes)
            if isinstance(fqn := attributes.get("fqn"), StringAttr):
                attributes["fqn"] = StringAttr(f"{fqn.data}.part{index}")
            made = WeightOp(name, type, BlobAttr(Blob.of(data[index * size : (index + 1) * size])), attributes)
            made.location = weight.location
            parts.append(made)
            read = GetWeightOp(name, type)
            read.result.name_hint = part_name(op.result, index)
            read.location = handed_on(op.location)
            found.append(read)
        return found

    def keep(self) -> None:
        """Put parts where the weights were that were divided."""
        for name, parts in self.parts.items():
            weight = self.ops.pop(name)
            assert weight.parent is not None
            for part in parts:
                weight.parent.insert_op_before(part, weight)
                self.ops[part.sym_name.data] = part
                self.readers[part.sym_name.data] = 1
                self.taken[part.sym_name.data] = None
            weight.detach()
            weight.erase()
        self.parts = {}


class _Method:
    """One method, of which regions are computed in parts where most bytes are live, one after the other."""

    def __init__(self, ctx: EtContext, method: MethodOp, target: str, weights: Weights) -> None:
        self.ctx = ctx
        self.method = method
        self.in_place = in_place_kernels(target)
        self.weights = weights

    def run(self) -> None:
        before = memory = self._memory()
        old: MethodOp | None = None
        settled: dict[CallOp, None] = {}
        cost, work = 0, DEFAULT_WORK
        while work > 0:
            work -= len(self.method.instructions)
            regions = Regions(self.ctx, self.method, memory, self.in_place, self.weights.can_divide, settled)
            found = regions.at_peaks(MOST_PEAKS)
            if not found:
                break
            work -= PEAK_WORK * len(found)
            if old is None:
                old = self.method.clone()
            for region, count in found:
                cost += region.cost(count)
                settled |= dict.fromkeys(Parts(self.method, region, count, self.weights).make())
            memory = self._memory()
        if old is None:
            return
        if saved(memory, before) > cost:
            self.weights.keep()
            return
        self.weights.parts = {}
        assert self.method.parent is not None
        self.method.parent.insert_op_before(old, self.method)
        self.method.detach()
        self.method.erase()

    def _memory(self) -> MethodMemory:
        return memory_of(self.ctx, self.method, in_place=self.in_place)


class Parts:
    """The calls of one region, made in parts.

    They are of the same places in the source. A part is none of the values that a trace knows (``et/origin.py``).
    """

    def __init__(self, method: MethodOp, region: Region, count: int, weights: Weights) -> None:
        self.region = region
        self.count = count
        self.weights = weights
        self.entry = method.body.blocks[0]
        instruction = next(op for op in self.entry.ops if not isinstance(op, VALUE_OPS))
        self.instruction: Operation = instruction
        self.made = {buffer for row in region.rows for buffer in row.writes}
        self.buffers: dict[BufferOp, BufferOp] = {}
        """For what is made and read inside, the buffer of one part."""
        self.divided: dict[SSAValue, list[GetWeightOp]] = {}
        self.views: dict[tuple[Place, Attribute], SSAValue] = {}

    def make(self) -> Iterator[CallOp]:
        """Put calls on parts where the region was; gives them."""
        first = self.region.rows[0].op
        block = first.parent
        assert block is not None
        calls: list[CallOp] = []
        for index in range(self.count):
            for row in self.region.rows:
                roles = zip(row.op.arguments, row.cut.roles, strict=True)
                operands = [value if role == WHOLE else self._part(value, index) for value, role in roles]
                made = CallOp(row.op.kernel.data, template_of(row.op, row.cut, self.count), operands, None)
                made.returns = row.op.returns
                made.attributes.update(row.op.attributes)
                made.location = row.op.location
                block.insert_op_before(made, first)
                calls.append(made)
        for row in self.region.rows:
            row.op.detach()
            row.op.erase()
        self._move_outputs()
        self._clean()
        yield from calls

    def _part(self, value: SSAValue, index: int) -> SSAValue:
        """One part of what a call reads or writes."""
        type = part_type(tensor_of(value), self.count)
        if isinstance(value.owner, GetWeightOp):
            if value not in self.divided:
                self.divided[value] = self.weights.divide(value.owner, self.count)
                for read in self.divided[value]:
                    self._define(read)
            return self.divided[value][index].result
        place = place_of(value)
        if place.buffer in self.made:
            output = self.region.joined.get(place.buffer, place.buffer)
            if output not in self.region.outputs:
                return self._view(Place(self._inside(output)), type, value.name_hint)
            place = self.region.homes.get(output, Place(output))
        start = place.start + index * tensor_bytes(type)
        return self._view(Place(place.buffer, start), type, part_name(value, index))

    def _inside(self, buffer: BufferOp) -> BufferOp:
        if buffer not in self.buffers:
            made = self.buffers[buffer] = BufferOp(part_type(tensor_of(buffer.result), self.count))
            made.result.name_hint = buffer.result.name_hint
            made.location = handed_on(buffer.location)
            self._define(made)
        return self.buffers[buffer]

    def _view(self, place: Place, type: Attribute, name: str | None) -> SSAValue:
        base = place.buffer.result
        if not place.start and type == base.type:
            return base
        if (place, type) not in self.views:
            made = ViewOp(base, type, place.start)
            made.result.name_hint = name
            made.location = handed_on(place.buffer.location)
            self._define(made)
            self.views[place, type] = made.result
        return self.views[place, type]

    def _define(self, op: Operation) -> None:
        self.entry.insert_op_before(op, self.instruction)

    def _move_outputs(self) -> None:
        """What was read of outputs is read where they have been made."""
        for output, place in self.region.homes.items():
            base = place.buffer.result
            if not place.start and base.type == output.result.type:
                output.result.replace_all_uses_with(base)
                continue
            made = ViewOp(base, output.result.type, place.start)
            made.result.name_hint = output.result.name_hint
            made.location = handed_on(output.location)
            self.entry.insert_op_before(made, output)
            output.result.replace_all_uses_with(made.result)

    def _clean(self) -> None:
        """Take out what nobody uses any more: buffers, views of them, and weights."""
        dead: list[Operation] = [op for op in self.entry.ops if isinstance(op, ViewOp)]
        dead.reverse()
        dead += [*self.made, *(value.owner for value in self.divided if isinstance(value.owner, GetWeightOp))]
        for op in dead:
            if all(result.first_use is None for result in op.results):
                op.detach()
                op.erase()


def part_name(value: SSAValue, index: int) -> str | None:
    """What a part of a value is called in text."""
    return None if value.name_hint is None else f"{value.name_hint}_part{index}"


def part_type(type: TensorType[Attribute], count: int) -> TensorType[Attribute]:
    """The type of one of ``count`` parts along the first dim that is longer than 1."""
    shape = list(type.get_shape())
    dim = leading(shape)
    assert dim is not None
    shape[dim] //= count
    return with_dims(type, shape)
