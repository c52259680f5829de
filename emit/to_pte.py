"""From the executable level to a ``.pte`` file: numbering of values, literals, constants, jump targets.

Numbering: first the value definitions of a method in order, then literals in the order of their first use. Equal
literals are one value, since no instruction may write one; lists of equal items are one value too. Constants and
initial bytes are stored once per content, methods in the order of their names, as ExecuTorch does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, NameLoc, StringAttr, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.arguments import OPERAND, Item, ListArg, Template
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import (
    CallOp,
    DelegateCallOp,
    FreeOp,
    InputsOp,
    JumpFalseOp,
    JumpOp,
    MoveOp,
    NextOp,
    ReturnOp,
)
from etir.dialects.et.layout import order_of
from etir.dialects.et.origin import plain
from etir.dialects.et.payloads import BESIDE, DelegateOp, NamedDataOp
from etir.dialects.et.program import GetWeightOp, NoneOp, StateOp, StringOp, WeightOp
from etir.dialects.et.values import BufferOp, ScalarOp, ViewOp
from etir.dialects.et.weights import Blob, payload_of
from etir.dialects.literals import dense_values, scalar_of
from etir.dialects.payloads import require_payloads
from etir.dialects.text import source_location
from etir.emit.errors import E0861, E0862, E0867, E0868
from etir.emit.formats.buffers import ReservedPool
from etir.emit.formats.checks import file_name_error
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.writer import ptd_parts
from etir.emit.pte import model
from etir.emit.pte.writer import pte_parts

_DYNAMISM = {
    None: model.TensorShapeDynamism.STATIC,
    "bound": model.TensorShapeDynamism.DYNAMIC_BOUND,
    "unbound": model.TensorShapeDynamism.DYNAMIC_UNBOUND,
}


@dataclass(frozen=True)
class EmitOptions:
    """``debug_info`` writes the source line of every instruction into the file; alignments are in bytes.

    ``constant_alignment`` is by default 16, as ExecuTorch's, and 64 in programs with kernels of :data:`LINE_READERS`.
    """

    debug_info: bool = False
    segment_alignment: int = 128
    constant_alignment: int | None = None
    delegate_alignment: int = 16


LINE_READERS = frozenset(
    {
        "etir::int8_conv2d",
        "etir::int8_conv_transpose2d",
        "etir::int8_dynamic_linear",
        "etir::int8_float_conv2d",
        "etir::int8_float_linear",
        "etir::int8_linear",
    }
)
"""Kernels that read packed weights by lines of the cache, 64 bytes: vectors and tiles that lie in two lines take twice
as long to load.
"""
_LINE = 64


@dataclass(frozen=True)
class Emission:
    """What is written: the program, and one file of external weights for each tag."""

    program: model.Program
    external: Mapping[str, FlatTensor] = field(default_factory=dict)

    def pte(self) -> bytes:
        """The bytes of the ``.pte`` file; the weights are copied once, into the result."""
        return b"".join(pte_parts(self.program))

    def ptd(self, tag: str) -> bytes:
        """The bytes of the ``.ptd`` file of one tag."""
        return b"".join(ptd_parts(self.external[tag]))


def emit_program(module: ModuleOp, options: EmitOptions | None = None) -> Emission:
    """Translate a module at the executable level.

    Raises error E0861 for a module that is not planned or not at the executable level, E0201 and E0202 for weights
    without bytes, and the errors of :mod:`etir.emit.pte.validate`.
    """
    options = options or EmitOptions()
    pools = _Pools(module)
    methods = sorted(
        (op for op in module.body.block.ops if isinstance(op, MethodOp)), key=lambda method: method.sym_name.data
    )
    if not methods:
        raise E0861.error("the module has no et.method: it is not at the executable level")
    require_payloads(module)
    plans = tuple(_MethodEmitter(method, pools, options).run() for method in methods)
    alignment = options.constant_alignment
    if alignment is None:
        reads_lines = any(operator.name in LINE_READERS for plan in plans for operator in plan.operators)
        alignment = _LINE if reads_lines else model.FileLayout().constant_alignment
    program = model.Program(
        plans,
        tuple(pools.constants.items),
        tuple(pools.mutable.items) if len(pools.mutable.items) > 1 else (),
        pools.named_data(),
        layout=model.FileLayout(options.segment_alignment, alignment, options.delegate_alignment),
    )
    return Emission(program, {tag: FlatTensor(dict(items)) for tag, items in pools.external.items()})


class _Pools:
    """What methods share: constants, initial bytes of state, external weights, named data, delegates."""

    def __init__(self, module: ModuleOp):
        self.symbols: dict[str, Operation] = {}
        self.named: list[NamedDataOp] = []
        beside: dict[str, None] = {}
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self.symbols[name.data] = op
            if isinstance(op, NamedDataOp):
                self.named.append(op)
            if isinstance(op, DelegateOp) and isinstance(symbols := op.attributes.get(BESIDE), ArrayAttr):
                beside.update((ref.root_reference.data, None) for ref in symbols if isinstance(ref, SymbolRefAttr))
        self.constants = ReservedPool()
        self.mutable = ReservedPool()
        self.external: dict[str, dict[str, NamedTensor]] = {}
        self._keys: dict[str, tuple[Blob, TensorLayout]] = {}
        for name in beside:
            source = self.symbols.get(name)
            if isinstance(source, WeightOp | StateOp) and source.value is not None and "external" in source.attributes:
                assert isinstance(source.type, TensorType)
                self.outside(source, payload_of(source.value, source.type))

    def constant(self, blob: Blob) -> int:
        """The index of a constant's bytes."""
        return self.constants.add(blob.data)

    def initial(self, blob: Blob) -> int:
        """The index of a state's initial bytes."""
        return self.mutable.add(blob.data)

    def outside(self, op: WeightOp | StateOp, blob: Blob) -> model.ExtraTensorInfo:
        """Put the bytes of a weight or of a state into the file of its tag; how the program finds them there.

        The name is the fully qualified one, or the symbol where another tensor has that name.
        """
        tag, fqn = op.attributes["external"], op.attributes.get("fqn")
        assert isinstance(tag, StringAttr)
        symbol = op.sym_name.data
        tensor = _tensor(op.type, None, None, 0)
        layout = TensorLayout(tensor.scalar_type, tensor.sizes, tensor.dim_order)
        wanted = [fqn.data if isinstance(fqn, StringAttr) else symbol, symbol]
        key = next((key for key in wanted if self._keys.setdefault(key, (blob, layout)) == (blob, layout)), None)
        assert key is not None, "symbols are unique"
        self._file(tag.data)[key] = NamedTensor(blob.data, layout)
        return model.ExtraTensorInfo(fully_qualified_name=key, location=model.TensorDataLocation.EXTERNAL)

    def named_data(self) -> dict[str, model.NamedData]:
        """Data that delegates look up by name, without what is in files beside the program.

        Raises E0867 where such a file has a weight of the same name.
        """
        inside: dict[str, model.NamedData] = {}
        for op in self.named:
            key, data = op.key.data, op.value.data.data
            alignment = 1 if op.alignment is None else op.alignment.value.data
            tag = op.attributes.get("external")
            if not isinstance(tag, StringAttr):
                inside[key] = model.NamedData(data, alignment)
                continue
            if key in self._keys:
                raise E0867.error(f"'{tag.data}.ptd' is to hold a weight and a delegate's data as '{key}'")
            self._file(tag.data)[key] = NamedTensor(data, None, alignment)
        return inside

    def _file(self, tag: str) -> dict[str, NamedTensor]:
        """What is in the file ``TAG.ptd``. Raises error E0868 for a tag that names no file beside the program."""
        if tag not in self.external and (problem := file_name_error(tag)) is not None:
            raise E0868.error(f"the tag of external data {problem}")
        return self.external.setdefault(tag, {})


class _MethodEmitter:
    def __init__(self, method: MethodOp, pools: _Pools, options: EmitOptions):
        self.method = method
        self.pools = pools
        self.options = options
        self.values: list[model.EValue] = []
        self.index: dict[SSAValue, int] = {}
        self.literals: dict[object, int] = {}
        self.operators: dict[str, int] = {}
        self.delegates: list[model.BackendDelegate] = []

    def run(self) -> model.ExecutionPlan:
        name = self.method.sym_name.data
        if self.method.pool_sizes is None:
            raise E0861.error(f"method '{name}' has no memory plan: run plan-memory first")
        for op in self.method.body.blocks[0].ops:
            if op.results:
                self.index[op.results[0]] = len(self.values)
                self.values.append(self._definition(op))
        operations = self.method.instructions
        starts = self._block_starts(operations)
        inputs: tuple[int, ...] = ()
        outputs: tuple[int, ...] = ()
        instructions: list[model.Instruction] = []
        for op in operations:
            if isinstance(op, InputsOp):
                inputs = tuple(self.index[v] for v in op.arguments)
            elif isinstance(op, ReturnOp):
                outputs = tuple(self.index[v] for v in op.arguments)
            elif not isinstance(op, NextOp):
                instructions.append(self._instruction(op, starts))
        # A file that was read with its source lines is written with them again.
        debug_info = self.options.debug_info or "stacktrace" in self.method.attributes
        chain = model.Chain(tuple(instructions), stacktrace=source_frames(self.method) if debug_info else None)
        meta = None
        if self.method.in_spec is not None or self.method.out_spec is not None:
            specs = (self.method.in_spec, self.method.out_spec)
            meta = model.ContainerMetadata(*("" if s is None else s.data for s in specs))
        return model.ExecutionPlan(
            name,
            tuple(self.values),
            inputs,
            outputs,
            (chain,),
            tuple(operator_of(kernel) for kernel in self.operators),
            tuple(self.delegates),
            self.method.pool_sizes,
            self._devices(),
            meta,
        )

    def _devices(self) -> tuple[model.NonConstBufferDevice, ...]:
        if self.method.devices is None:
            return ()
        flat = [int(v) for v in dense_values(self.method.devices)]
        return tuple(
            model.NonConstBufferDevice(flat[i], model.DeviceType(flat[i + 1]), flat[i + 2])
            for i in range(0, len(flat), 3)
        )

    @staticmethod
    def _block_starts(operations: Iterable[Operation]) -> dict[Block, int]:
        """The index of the first instruction at or after the start of every block."""
        starts: dict[Block, int] = {}
        position = 0
        for op in operations:
            block = op.parent
            assert block is not None
            starts.setdefault(block, position)
            if not isinstance(op, (InputsOp, ReturnOp, NextOp)):
                position += 1
        return starts

    # --- values -----------------------------------------------------------------------------------------------------

    def _definition(self, op: Operation) -> model.EValue:
        match op:
            case BufferOp():
                return self._buffer(op)
            case ViewOp():
                return self._view(op)
            case GetWeightOp():
                return self._weight(op)
            case ScalarOp():
                return _number(scalar_of(op.value))
            case NoneOp():
                return model.Null()
            case StringOp():
                return model.String(op.value.data)
            case _:
                raise E0861.error(f"'{op.name}' does not define a value of a .pte file", source_location(op.location))

    def _buffer(self, op: BufferOp) -> model.Tensor:
        place = op.place
        if place is None and op.caller is None and not op.is_allocated:
            raise E0861.error(
                f"buffer %{op.result.name_hint or ''} of method '{self.method.sym_name.data}' is not planned",
                source_location(op.location),
            )
        if op.state is not None:
            state = self.pools.symbols.get(op.state.root_reference.data)
            if isinstance(state, StateOp) and state.value is not None:
                assert isinstance(state.type, TensorType)
                blob = payload_of(state.value, state.type)
                if "external" in state.attributes:
                    return _tensor(op.result.type, op.dynamic, place, 0, self.pools.outside(state, blob))
                # The stock runtime does not find initial bytes that there are none of.
                initial = self.pools.initial(blob) if blob.size else 0
                return _tensor(op.result.type, op.dynamic, place, initial)
        return _tensor(op.result.type, op.dynamic, place, 0)

    def _view(self, op: ViewOp) -> model.Tensor:
        place = None
        if op.late is None:
            offset = op.offset.value.data
            owner = op.base.owner
            while isinstance(owner, ViewOp):
                offset += owner.offset.value.data
                owner = owner.base.owner
            if not isinstance(owner, BufferOp) or owner.place is None:
                raise E0861.error("a view has no place: its base is not planned", source_location(op.location))
            place = (owner.place[0], owner.place[1] + offset)
        return _tensor(op.result.type, op.dynamic, place, 0)

    def _weight(self, op: GetWeightOp) -> model.Tensor:
        name = op.symbol.root_reference.data
        weight = self.pools.symbols.get(name)
        if not isinstance(weight, WeightOp) or not isinstance(weight.type, TensorType):
            raise E0861.error(f"there is no weight @{name}", source_location(op.location))
        blob = payload_of(weight.value, weight.type)
        if "external" in weight.attributes:
            return _tensor(op.result.type, None, None, 0, self.pools.outside(weight, blob))
        return _tensor(op.result.type, None, None, self.pools.constant(blob))

    def _literal(self, item: Item | ListArg) -> int:
        key: object = (type(item), item)
        if isinstance(item, float):
            key = (float, struct.pack("<d", item))
        elif isinstance(item, ListArg):
            key = (item.kind, tuple((type(v), struct.pack("<d", v) if isinstance(v, float) else v) for v in item.items))
        known = self.literals.get(key)
        if known is None:
            value = self._list(item, ()) if isinstance(item, ListArg) else _number_or_text(item)
            known = self.literals[key] = len(self.values)
            self.values.append(value)
        return known

    def _list(self, item: ListArg, operands: tuple[SSAValue, ...]) -> model.EValue:
        rest = iter(operands)
        match item.kind:
            case "doubles":
                return model.DoubleList(tuple(float(v) for v in item.items))  # type: ignore[arg-type]
            case "bools":
                return model.BoolList(tuple(bool(v) for v in item.items))
            case "ints":
                return model.IntList(
                    tuple(self.index[next(rest)] if v is OPERAND else self._literal(v) for v in item.items)
                )
            case "tensors":
                return model.TensorList(tuple(self.index[next(rest)] for _ in item.items))
            case _:
                return model.OptionalTensorList(tuple(-1 if v is None else self.index[next(rest)] for v in item.items))

    def _arguments(self, template: Template, operands: Iterable[SSAValue]) -> tuple[int, ...]:
        rest = iter(operands)
        indices: list[int] = []
        for item in template:
            if item is OPERAND:
                indices.append(self.index[next(rest)])
            elif isinstance(item, ListArg):
                own = tuple(next(rest) for v in item.items if v is OPERAND)
                indices.append(self._list_value(item, own) if own else self._literal(item))
            else:
                indices.append(self._literal(item))
        return tuple(indices)

    def _list_value(self, item: ListArg, operands: tuple[SSAValue, ...]) -> int:
        key = (item, tuple(self.index[v] for v in operands))
        known = self.literals.get(key)
        if known is None:
            value = self._list(item, operands)
            known = self.literals[key] = len(self.values)
            self.values.append(value)
        return known

    # --- instructions -----------------------------------------------------------------------------------------------

    def _instruction(self, op: Operation, starts: dict[Block, int]) -> model.Instruction:
        match op:
            case CallOp():
                operator = self.operators.setdefault(op.kernel.data, len(self.operators))
                return model.KernelCall(operator, self._arguments(op.full_template, op.arguments))
            case DelegateCallOp():
                index = len(self.delegates)
                self.delegates.append(self._delegate(op))
                return model.DelegateCall(index, self._arguments(op.template.data, op.arguments))
            case MoveOp():
                return model.MoveCall(self.index[op.source], self.index[op.target])
            case FreeOp():
                return model.FreeCall(self.index[op.value])
            case JumpFalseOp():
                return model.JumpFalseCall(self.index[op.condition], starts[op.target])
            case JumpOp():
                return model.JumpFalseCall(self._literal(False), starts[op.target])
            case _:
                raise E0861.error(f"'{op.name}' is not an instruction", source_location(op.location))

    def _delegate(self, op: DelegateCallOp) -> model.BackendDelegate:
        name = op.delegate.root_reference.data
        delegate = self.pools.symbols.get(name)
        if not isinstance(delegate, DelegateOp):
            raise E0862.error(f"there is no delegate @{name}", source_location(op.location))
        specs = tuple(model.CompileSpec(key, value) for key, value in delegate.compile_specs)
        return model.BackendDelegate(
            delegate.backend.data, delegate.value.data.data, specs, inline=delegate.inline is not None
        )


def _tensor(
    type: Attribute,
    dynamic: StringAttr | None,
    place: tuple[int, int] | None,
    data: int,
    extra: model.ExtraTensorInfo | None = None,
) -> model.Tensor:
    assert isinstance(type, TensorType)
    return model.Tensor(
        ScalarType(dtype_of(type.element_type).number),
        type.get_shape(),
        order_of(type),
        None if place is None else model.AllocationDetails(*place),
        data,
        _DYNAMISM[None if dynamic is None else dynamic.data],
        extra_tensor_info=extra,
    )


def _number(value: object) -> model.EValue:
    if isinstance(value, bool):
        return model.Bool(value)
    if isinstance(value, int):
        return model.Int(value)
    assert isinstance(value, float), value
    return model.Double(value)


def _number_or_text(item: Item) -> model.EValue:
    if item is None:
        return model.Null()
    if isinstance(item, str):
        return model.String(item)
    return _number(item)


def instructions_of(method: MethodOp) -> list[Operation]:
    """The operations of a method that become instructions of the file, in order."""
    return [op for op in method.instructions if not isinstance(op, (InputsOp, ReturnOp, NextOp))]


def source_frames(method: MethodOp) -> tuple[model.FrameList, ...]:
    """Where each instruction of a method comes from."""
    return tuple(map(_frames, instructions_of(method)))


def operator_of(kernel: str) -> model.Operator:
    name, _, overload = kernel.partition(".")
    return model.Operator(name, overload if overload != "default" or not name.startswith("aten::") else "")


def _frames(op: Operation) -> model.FrameList:
    location = plain(op.location)
    path = location.desc.data if isinstance(location, NameLoc) else ""
    place = source_location(location)
    if place is None:
        return model.FrameList(())
    return model.FrameList((model.Frame(place.file, place.line, path, ""),))
