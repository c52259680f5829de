"""Methods as exported programs: signature, weights, state, inputs, outputs.

The inputs of the graph are in torch's order: parameters, buffers, constants, then what the caller gives; its outputs
are the mutations first, then what the method returns. A weight keeps its qualified name (attribute ``fqn``) and its
kind; one that a pass made is a constant under its symbol's name.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from etir.diagnostics import Diagnostic, EtirError, raise_if_errors
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f64, i1, i64
from etir.dialects.et.layout import order_of, tensor_type
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.program import (
    ConstantOp,
    GetWeightOp,
    NoneOp,
    NoneType,
    ReadStateOp,
    StateOp,
    StringOp,
    WeightOp,
    WriteStateOp,
    dense_bytes,
)
from etir.dialects.et.weights import payload_of
from etir.dialects.literals import scalar_of
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import ConstantOp as SymConstantOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.lowering.errors import E0407, E0408
from etir.lowering.export_fx.control import export_control
from etir.lowering.export_fx.nodes import GraphExporter, legal_name
from etir.lowering.export_fx.sizes import Sizes, inverse
from etir.lowering.export_fx.targets import AtenTargets
from etir.lowering.functionalize import FunctionalizePass
from etir.lowering.import_fx.trees import load_tree
from etir.lowering.import_fx.types import TORCH_DTYPES
from etir.passes.infra.base import is_private

_CONSTANT_OWNERS = (GetWeightOp, ConstantOp, SymConstantOp, NoneOp, StringOp)
_PREFIXES = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}
_SYMBOLIC = {i64: SymIntArgument, f64: SymFloatArgument, i1: SymBoolArgument}


@dataclass(frozen=True)
class Exported:
    """An exported program, and which operation of the module each node of its graph stands for."""

    program: ExportedProgram
    operations: dict[fx.Node, Operation]


def export_methods(module: ModuleOp, methods: Sequence[str] = ()) -> dict[str, ExportedProgram]:
    """See :func:`etir.lowering.export_fx.export_programs`."""
    if any(isinstance(op, SchemaOp) and op.SCHEMA.kind is not SchemaKind.FUNCTIONAL for op in module.walk()):
        module = module.clone()
        FunctionalizePass().run(EtContext(), module)
    found = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp) and not is_private(op)}
    missing = [name for name in methods if name not in found]
    if missing or not found:
        what = f"no method '{missing[0]}'" if missing else "no method above the executable level"
        raise E0408.error(f"there is {what}; the module has {', '.join(found) or 'none'}")
    programs: dict[str, ExportedProgram] = {}
    problems: list[Diagnostic] = []
    for name in methods or found:
        try:
            programs[name] = export_block(module, found[name].body.block).program
        except EtirError as error:
            problems += error.diagnostics
    raise_if_errors(problems)
    return programs


def export_block(
    module: ModuleOp,
    block: Block,
    targets: AtenTargets | None = None,
    verifiers: Sequence[Any] = (),
    *,
    blobs_as_inputs: bool = False,
) -> Exported:
    """One block as an exported program: a method's, an outlined function's, or a region's, whose inputs then are the
    values around it that it uses.

    ``targets`` is the dialect of the graph (default: ATen), ``verifiers`` the classes that check it (default: torch's).
    With ``blobs_as_inputs`` a delegate's blob, which torch cannot run, is left out: what it gives are further inputs.
    Raises E0407 with everything that has no form there.
    """
    problems: list[Diagnostic] = []
    found = _BlockExporter(module, block, targets or AtenTargets(), problems, blobs_as_inputs)
    try:
        exported = found.run(list(verifiers) or None)
    except EtirError as error:
        problems += error.diagnostics
        raise EtirError(problems) from error
    return exported


class _BlockExporter:
    def __init__(
        self, module: ModuleOp, block: Block, targets: AtenTargets, problems: list[Diagnostic], blobs_as_inputs: bool
    ):
        dims = [op for op in module.body.block.ops if isinstance(op, DimOp)]
        self.symbols: dict[str, Operation] = {}
        self.blobs = {op.sym_name.data for op in module.body.block.ops if isinstance(op, DelegateOp)}
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self.symbols[name.data] = op
        self.block = block
        self.problems = problems
        self.blobs_as_inputs = blobs_as_inputs
        ranges = {op.sym_name.data: op.range for op in dims}
        self.sizes = Sizes(ranges, {op.sym_name.data for op in dims if op.unbacked is not None})
        self.graph = GraphExporter(self.sizes, targets, self.symbols, problems, export_control)
        self.inputs: list[InputSpec] = []
        self.state_dict: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.by_symbol: dict[str, fx.Node] = {}
        self.input_nodes: dict[SSAValue, fx.Node] = {}
        parent = block.parent_op()
        self.func = parent if isinstance(parent, FuncOp) else None

    def run(self, verifiers: list[Any] | None) -> Exported:
        """Build the program."""
        self._data()
        for value in self._given():
            self._input(value)
        self.sizes.taking_inputs = False
        returned = self.graph.block(self.block)
        raise_if_errors(self.problems)
        outputs, specs = self._outputs(returned)
        output = self.graph.graph.output(tuple(outputs))
        output.meta["val"] = tuple(self.graph.fake(v) for v in outputs)
        in_spec, out_spec = self._specs(len(returned))
        entry = ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))
        try:
            program = ExportedProgram(
                self.graph.root,
                self.graph.graph,
                ExportGraphSignature(self.inputs, specs),
                self.state_dict,
                dict(self.sizes.shape_env.var_to_range),
                [entry],
                None,
                self.constants,
                verifiers=verifiers,
            )
        except (RuntimeError, ValueError, AssertionError) as error:  # what torch's and other verifiers raise
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise E0407.error(f"the program is not valid as an exported program: {message}") from error
        by_name = {node.name: op for node, op in self.graph.operations.items()}
        nodes = {node: by_name[node.name] for node in program.graph.nodes if node.name in by_name}
        return Exported(program, nodes)

    # --- inputs -----------------------------------------------------------------------------------------------------

    def _data(self) -> None:
        """The weights, mutable buffers and constants that the block reads, parameters first."""
        found: dict[str, tuple[InputKind, Operation]] = {}
        literal: list[ConstantOp] = []
        for value in self._read():
            owner = value.owner
            if isinstance(owner, ConstantOp):
                literal.append(owner)
            elif isinstance(owner, (GetWeightOp, ReadStateOp)):
                name = owner.symbol.root_reference.data
                found.setdefault(name, (self._kind(name), owner))
        for op in self.block.walk():
            if isinstance(op, WriteStateOp):
                name = op.symbol.root_reference.data
                found.setdefault(name, (InputKind.BUFFER, op))
        for kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            for name, (own, op) in found.items():
                if own is kind:
                    self._weight(name, kind, op)
        for value in self._read():
            if isinstance(value.owner, (GetWeightOp, ReadStateOp)):
                self.graph.values[value] = self.by_symbol[value.owner.symbol.root_reference.data]
        for position, op in enumerate(literal):
            type = op.value.get_type()
            assert isinstance(type, TensorType)
            tensor = _tensor(dense_bytes(op.value), type)
            node = self._placeholder(f"constant_{position}", InputKind.CONSTANT_TENSOR, tensor, type)
            self.graph.values[op.result] = node

        self._numbers()

    def _numbers(self) -> None:
        """The constant tensors that stand for numbers in calls, equal ones once."""
        made: dict[tuple[Attribute, Any, str], fx.Node] = {}
        for op in self.block.ops:
            found = self.graph.targets.as_tensor(op) if isinstance(op, SchemaOp) else None
            result = op.results[0].type if found is not None else None
            if found is None or not isinstance(result, TensorType):
                continue
            key = (result.element_type, found[2], type(found[2]).__name__)
            if key not in made:
                tensor = torch.tensor(found[2], dtype=TORCH_DTYPES[result.element_type])
                kind = tensor_type(result.element_type, ())
                made[key] = self._placeholder(f"number_{len(made)}", InputKind.CONSTANT_TENSOR, tensor, kind)
            self.graph.numbers[op] = made[key]

    def _read(self) -> list[SSAValue]:
        """The constants and buffers that the block reads, made inside or outside, and those of functions it calls."""
        blocks = [self.block]
        for op in self.block.walk():
            callee = op.properties.get("callee")
            called = None if callee is None else self.symbols.get(callee.root_reference.data)  # type: ignore[attr-defined]
            if isinstance(called, FuncOp):
                blocks.append(called.body.block)
        found: dict[SSAValue, None] = {}
        for block in blocks:
            for op in block.walk():
                if isinstance(op, (GetWeightOp, ConstantOp, ReadStateOp)):
                    found[op.result] = None
                outside = (v for v in op.operands if isinstance(v.owner, (*_CONSTANT_OWNERS, ReadStateOp)))
                for value in outside:
                    if isinstance(value.owner, SymConstantOp):
                        self.graph.values[value] = scalar_of(value.owner.value)
                    elif isinstance(value.owner, (NoneOp, StringOp)):
                        self.graph.values[value] = value.owner.value.data if isinstance(value.owner, StringOp) else None
                    elif isinstance(value.owner, (GetWeightOp, ConstantOp)) or value.owner.parent is self.block:
                        found[value] = None
        return list(found)

    def _kind(self, name: str) -> InputKind:
        op = self.symbols.get(name)
        if isinstance(op, StateOp):
            return InputKind.BUFFER
        if not isinstance(op, WeightOp):
            raise E0407.error(f"there is no weight or state @{name}")
        kind = op.attributes.get("kind")
        known = {"parameter": InputKind.PARAMETER, "buffer": InputKind.BUFFER}
        return known.get(kind.data if isinstance(kind, StringAttr) else "", InputKind.CONSTANT_TENSOR)

    def _weight(self, name: str, kind: InputKind, reader: Operation) -> None:
        op = self.symbols[name]
        assert isinstance(op, (WeightOp, StateOp)) and isinstance(op.type, TensorType)
        fqn = op.attributes.get("fqn")
        target = fqn.data if isinstance(fqn, StringAttr) else legal_name(name)
        try:
            data = None if op.value is None else payload_of(op.value, op.type).data
        except EtirError as error:
            raise EtirError([d.at(source_location(reader.location)) for d in error.diagnostics]) from None
        tensor = _tensor(data, op.type)
        if isinstance(op, StateOp):
            tensor = tensor.clone()
        self.by_symbol[name] = self._placeholder(target, kind, tensor, op.type)

    def _placeholder(self, target: str, kind: InputKind, tensor: torch.Tensor, type: TensorType[Attribute]) -> fx.Node:
        """A graph input for data of the program. Names that are taken, or that hold others, get a suffix."""
        held = {**self.state_dict, **self.constants}
        wanted, count = target, 0
        while any(k == wanted or k.startswith(f"{wanted}.") or wanted.startswith(f"{k}.") for k in held):
            count += 1
            wanted = f"{legal_name(target)}_{count}"
        node = self.graph.placeholder(_PREFIXES[kind] + wanted, self.sizes.tensor(type))
        if kind is InputKind.CONSTANT_TENSOR:
            self.constants[wanted] = tensor
        elif kind is InputKind.PARAMETER:
            self.state_dict[wanted] = torch.nn.Parameter(tensor, requires_grad=False)
        else:
            self.state_dict[wanted] = tensor
        persistent = True if kind is InputKind.BUFFER else None
        self.inputs.append(InputSpec(kind, TensorArgument(node.name), wanted, persistent))
        return node

    def _given(self) -> list[SSAValue]:
        """What the caller gives: the block's arguments, and for a region the values around it."""
        values: dict[SSAValue, None] = dict.fromkeys(self.block.args)
        if self.func is None:
            made = {v: None for op in self.block.walk() for v in op.results}
            inner = {a: None for op in self.block.walk() for r in op.regions for b in r.blocks for a in b.args}
            for op in self.block.walk():
                outside = [v for v in op.operands if v not in made and v not in inner]
                values.update((v, None) for v in outside if not isinstance(v.owner, _CONSTANT_OWNERS))
        if self.blobs_as_inputs:
            for op in self.block.walk():
                if isinstance(op, CallDelegateOp) and op.callee.root_reference.data in self.blobs:
                    values.update(dict.fromkeys(op.outputs))
        return list(values)

    def _input(self, value: SSAValue) -> None:
        position = len(self.input_nodes)
        name = self._input_name(value, position)
        type, fixed = value.type, self._fixed(value)
        if isinstance(type, TensorType):
            node = self.graph.placeholder(name, self.sizes.tensor(type))
            spec: Any = TensorArgument(node.name)
            self.graph.values[value] = node
        elif fixed is not None or isinstance(type, NoneType):
            node = self.graph.placeholder(name, fixed)
            spec = ConstantArgument(node.name, fixed)
            self.graph.values[value] = fixed
        elif type in _SYMBOLIC:
            node = self.graph.placeholder(name, self.sizes.input_number(type, name))
            spec = _SYMBOLIC[type](node.name)
            self.graph.values[value] = node
        else:
            raise E0407.error(f"input '{name}' is of type {type}, which torch has no form of")
        self.input_nodes[value] = node
        self.inputs.append(InputSpec(InputKind.USER_INPUT, spec, None))

    def _input_name(self, value: SSAValue, position: int) -> str:
        names = None if self.func is None else self.func.attributes.get("et.input_names")
        if isinstance(names, ArrayAttr) and position < len(names.data):
            name = names.data[position]
            assert isinstance(name, StringAttr)
            return name.data
        return value.name_hint or f"input_{position}"

    def _fixed(self, value: SSAValue) -> Any:
        """The value that an input was fixed to, None for one that is free."""
        attributes = None if self.func is None else self.func.arg_attrs
        if attributes is None or not isinstance(value, BlockArgument) or value.block is not self.block:
            return None
        given = attributes.data[value.index]
        fixed = given.data.get("et.value") if isinstance(given, DictionaryAttr) else None
        if fixed is None:
            return None
        return fixed.data if isinstance(fixed, StringAttr) else scalar_of(fixed)

    # --- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(self, returned: Sequence[Any]) -> tuple[list[Any], list[OutputSpec]]:
        outputs: list[Any] = []
        specs: list[OutputSpec] = []
        for store in self.graph.stores:
            node = self.graph.values[store.value]
            if node in outputs or node.op == "placeholder":
                # Every stored value is a node of its own: the signature names them.
                copy, how = self.graph.targets.in_default_order(self.graph.fake(node).dim())
                with self.sizes.mode:
                    node = self.graph.call(copy, [node], how, store)
            if isinstance(store, WriteStateOp):
                source = self.by_symbol[store.symbol.root_reference.data].name
                target = next(s.target for s in self.inputs if getattr(s.arg, "name", None) == source)
                specs.append(OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), target))
            else:
                target = self.input_nodes[store.input].name
                specs.append(OutputSpec(OutputKind.USER_INPUT_MUTATION, TensorArgument(node.name), target))
            outputs.append(node)
        terminator = next(op for op in reversed(list(self.block.ops)) if op.has_trait(IsTerminator))
        for position, (value, type) in enumerate(zip(returned, (v.type for v in terminator.operands), strict=True)):
            if not isinstance(value, fx.Node):
                spec: Any = ConstantArgument(f"output_{position}", value)
            elif isinstance(type, TensorType):
                spec = TensorArgument(value.name)
            else:
                spec = _SYMBOLIC[type](value.name)
            specs.append(OutputSpec(OutputKind.USER_OUTPUT, spec, None))
            outputs.append(value)
        return outputs, specs

    def _specs(self, outputs: int) -> tuple[Any, Any]:
        """The pytrees of inputs and outputs: those of the text, or flat ones."""
        count = len(self.input_nodes)
        in_spec, out_spec = self._spec("et.in_spec", count), self._spec("et.out_spec", outputs)
        flat_in = pytree.tree_structure(((0,) * count, {}))
        flat_out = pytree.tree_structure((0,) * outputs if outputs != 1 else 0)
        return in_spec or flat_in, out_spec or flat_out

    def _spec(self, attribute: str, leaves: int) -> Any:
        text = None if self.func is None else self.func.attributes.get(attribute)
        if not isinstance(text, StringAttr) or not text.data:
            return None
        try:
            spec = load_tree(text.data)
        except (ValueError, KeyError, TypeError, NotImplementedError) as error:
            raise E0407.error(f"attribute '{attribute}' is no pytree that torch knows: {error}") from None
        return spec if spec.num_leaves == leaves else None


def _tensor(data: memoryview | bytes | None, type: TensorType[Attribute]) -> torch.Tensor:
    """Bytes as a tensor that refers to them (never written), zeros without any; strides follow the dim order."""
    shape, order = type.get_shape(), order_of(type)
    dtype = TORCH_DTYPES[type.element_type]
    dense = [shape[d] for d in order]
    if data is None or not len(data):
        flat = torch.zeros(dense, dtype=dtype)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of any memory that cannot be written
            flat = torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(dense)
    return flat if list(order) == sorted(order) else flat.permute(inverse(order))
