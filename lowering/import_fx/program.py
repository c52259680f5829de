"""Exported programs as modules: signature, weights, state, symbolic dims, and one ``func.func`` for each method.

Every parameter and buffer that a method uses becomes a symbol under its fully qualified name; what any method writes
becomes state. Inputs that ``torch.export`` fixed to a value (numbers, strings, None) stay arguments of the
method, with the value as attribute ``et.value``. In-place operations are imported as they are: ``functionalize`` turns
a change of state or of an input into ``et.write_state`` and ``et.update_input``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from etir.diagnostics import Diagnostic, EtirError, raise_if_errors
from etir.dialects.aten import ops as aten
from etir.dialects.aten.recorded_layout import DIM_ORDERS
from etir.dialects.et.layout import LayoutAttr, dims_of, order_of, tensor_type
from etir.dialects.et.program import (
    GetWeightOp,
    ReadStateOp,
    SchemaDeclOp,
    StateOp,
    UpdateInputOp,
    WeightOp,
    WriteStateOp,
)
from etir.dialects.et.weights import Blob
from etir.dialects.literals import scalar_attr
from etir.dialects.signatures import SIZE, number_input
from etir.dialects.sym.expr import symbol as symbol_expr
from etir.dialects.sym.ops import DimOp
from etir.dialects.sym.text import parse
from etir.lowering.errors import E0402, E0403, E0404
from etir.lowering.import_fx.changed_tensors import (
    WEIGHT_KINDS,
    declared_mutations,
    mutated_tensors,
    storage_read_tensors,
    trained_parameters,
    used_tensors,
)
from etir.lowering.import_fx.constant_methods import Training, constant_method
from etir.lowering.import_fx.data_sizes import implied_bounds
from etir.lowering.import_fx.dim_names import user_names
from etir.lowering.import_fx.guards import add_guards
from etir.lowering.import_fx.layouts import changes_tensors, input_attributes, reads_storage, recorded_order
from etir.lowering.import_fx.lowered import LoweredModules
from etir.lowering.import_fx.node_names import NodeNames
from etir.lowering.import_fx.nodes import INNER_TENSOR, NodeImporter, WrappedTensor
from etir.lowering.import_fx.number_inputs import rename_numbers, varying_number
from etir.lowering.import_fx.numbers import asserted_orders
from etir.lowering.import_fx.shared_storage import Group, groups_of, view_into
from etir.lowering.import_fx.structures import as_number
from etir.lowering.import_fx.transforms import without_transforms
from etir.lowering.import_fx.trees import dump_arguments, dump_tree
from etir.lowering.import_fx.types import type_of_tensor, type_of_value
from etir.lowering.import_fx.weights import BlobPool
from etir.runtime.structure import arguments_of, leaf_names, parse_structure

Range = tuple[int, "int | None"]


def import_programs(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, object],
    nodes: NodeNames | None = None,
) -> ModuleOp:
    """See :func:`etir.lowering.import_fx.import_program`."""
    programs = {"forward": program} if isinstance(program, ExportedProgram) else program
    if not isinstance(programs, Mapping) or not programs:
        raise E0402.error(f"expected an ExportedProgram or a dict of them by method name, got {type(program).__name__}")
    for name, one in programs.items():
        if not isinstance(one, ExportedProgram):
            raise E0402.error(f"method '{name}' is a {type(one).__name__}, not an ExportedProgram")
    for name in constant_methods:
        if name in programs:
            raise E0402.error(f"method '{name}' is both an exported program and a constant method")
    return _ModuleImporter(without_transforms(programs), constant_methods, nodes).run()


@dataclass
class _Symbols:
    """Symbols of the module: weights and states by name, with the operations that define them."""

    ops: dict[str, WeightOp | StateOp]
    taken: dict[str, None]

    def unique(self, wanted: str) -> str:
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken[name] = None
        return name


class _ModuleImporter:
    def __init__(
        self, programs: dict[str, ExportedProgram], constant_methods: Mapping[str, object], nodes: NodeNames | None
    ):
        self.programs = programs
        self.nodes = nodes
        self.constants = dict(constant_methods)
        self.pool = BlobPool()
        self.symbols = _Symbols({}, dict.fromkeys([*programs, *constant_methods]))
        self.lowered = LoweredModules(self.symbols.unique)
        self.by_fqn: dict[str, list[tuple[Blob, str]]] = {}
        self.schemas: dict[str, str] = {}
        self.ranges: dict[str, Range] = {}
        self.unbacked: dict[str, None] = {}
        self.mutated = dict.fromkeys(
            f for p in programs.values() for f in (*mutated_tensors(p), *trained_parameters(p))
        )
        self.problems: list[Diagnostic] = []
        read = [f for p in programs.values() for f in storage_read_tensors(p)]
        used, unread = used_tensors(programs, self.mutated)
        self.groups = groups_of(used, self.mutated, read, unread)

    def run(self) -> ModuleOp:
        functions: list[FuncOp] = []
        for name, program in self.programs.items():
            try:
                importer = _MethodImporter(self, name, program)
                functions.append(importer.run())
                if importer.training is not None:
                    self.constants |= importer.training.methods(name)
            except EtirError as error:
                self.problems.extend(error.diagnostics)
        for name, value in self.constants.items():
            try:
                functions.append(constant_method(name, value, self.constant))
            except EtirError as error:
                self.problems.extend(error.diagnostics)
        raise_if_errors(self.problems)
        declarations: list[Operation] = [SchemaDeclOp(text) for text in self.schemas.values()]
        for op in declarations:
            op.location = NameLoc(StringAttr("schema"), UnknownLoc())
        for symbol, (low, high) in self.ranges.items():
            dim = DimOp(symbol, low, high, unbacked=symbol in self.unbacked)
            dim.location = NameLoc(StringAttr(symbol), UnknownLoc())
            declarations.append(dim)
        return ModuleOp([*declarations, *self.symbols.ops.values(), *self.lowered.ops, *functions])

    def weight(
        self, fqn: str, tensor: torch.Tensor, kind: str, is_state: bool | None = None
    ) -> tuple[str, bool, TensorType[Attribute]]:
        """The symbol of a parameter, buffer or constant, whether it is state, and its type."""
        is_state = fqn in self.mutated if is_state is None else is_state
        # Running the exported program, or the module, changes the tensor itself: the file has what it holds now.
        type, payload = self.pool.add(tensor.detach().clone() if is_state else tensor, fqn)
        named = self.by_fqn.setdefault(fqn, [])
        name = next((name for blob, name in reversed(named) if blob == payload.data), None)
        if name is None or self.symbols.ops[name].type != type:
            name = self.symbols.unique(_symbol_name(fqn))
            named.append((payload.data, name))
            cls = StateOp if is_state else WeightOp
            op = cls(name, type, payload, {"fqn": StringAttr(fqn), "kind": StringAttr(kind)})
            op.location = NameLoc(StringAttr(fqn), UnknownLoc())
            self.symbols.ops[name] = op
        return name, is_state, type

    def constant(self, tensor: torch.Tensor, name: str) -> GetWeightOp:
        """Read a tensor that is no part of the user's module."""
        symbol, _, type = self.weight(name, tensor, "constant")
        return GetWeightOp(symbol, type)


def _symbol_name(fqn: str) -> str:
    """``fqn`` as a bare symbol name: letters, digits, ``_``, ``$`` and ``.``, not starting with a digit."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_$.") else "_" for c in fqn)
    return name if name and (name[0].isalpha() or name[0] == "_") else f"_{name}"


class _MethodImporter:
    def __init__(self, module: _ModuleImporter, name: str, program: ExportedProgram):
        self.module = module
        self.name = name
        self.program = program
        self.block = Block()
        self.values: dict[fx.Node, Any] = {}
        self.inputs: dict[str, SSAValue] = {}
        self.states: dict[str, str] = {}
        self.reads: dict[str, SSAValue] = {}
        self.group_reads: dict[str, tuple[str, bool, SSAValue]] = {}
        self.training: Training | None = None
        self.argument_attributes: list[DictionaryAttr] = []
        graph = program.graph_module
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        specs = zip(placeholders, program.graph_signature.input_specs, strict=True)
        self.used = {spec.target: None for node, spec in specs if node.users and spec.target}
        self.with_layouts = changes_tensors(graph) or reads_storage(graph)

    def run(self) -> FuncOp:
        signature = self.program.graph_signature
        placeholders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            self._input(node, spec)
        if any(node.users and node not in self.values for node in placeholders):
            # What reads an input without a meaning has none.
            raise_if_errors(self.module.problems)
        ranges = {str(symbol): _range(bounds) for symbol, bounds in self.program.range_constraints.items()}
        numbers = {
            v: parse(t.data)
            for v, a in zip(self.inputs.values(), self.argument_attributes, strict=True)
            if isinstance(t := a.data.get(SIZE), StringAttr)
        }
        add_guards(
            self.program, self._argument_names() or (), self.inputs, self._input_names(), numbers, ranges, self.block
        )
        importer = NodeImporter(self._lifted_constant, self.module.lowered.symbol, with_layouts=self.with_layouts)
        outputs = importer.run(self.program.graph_module, self.values, self.block)
        results = self._outputs(outputs)
        if self.module.nodes is not None:
            self.module.nodes.add(self.values)
        for schema in importer.schemas.values():
            self.module.schemas.setdefault(schema.op_name, schema.text)
        function_type = FunctionType.from_lists([a.type for a in self.block.args], [v.type for v in results])
        region = Region(self.block)
        func = FuncOp(self.name, function_type, region, arg_attrs=ArrayAttr(self.argument_attributes))
        if all(not attributes.data for attributes in self.argument_attributes):
            func.properties.pop("arg_attrs", None)
        func.attributes.update(self._metadata())
        func.location = NameLoc(StringAttr(self.name), UnknownLoc())
        self._declare_dims(func)
        return func

    # --- inputs -----------------------------------------------------------------------------------------------------

    def _input(self, node: fx.Node, spec: Any) -> None:
        kind = spec.kind
        if kind in WEIGHT_KINDS:
            if node.users or spec.target in self.module.mutated:
                self._weight(node, spec)
            else:
                # Nothing reads it: the program does not carry it.
                self.values[node] = None
            return
        argument = spec.arg
        if kind is not InputKind.USER_INPUT or isinstance(argument, CustomObjArgument):
            if node.users or kind is InputKind.USER_INPUT:
                self.module.problems.append(self._unknown_input(node, spec))
            return
        value: Any = argument.value if isinstance(argument, ConstantArgument) else node.meta.get("val")
        attributes: dict[str, Attribute] = {}
        if isinstance(argument, TensorArgument):
            type: Attribute = type_of_tensor(value, keep_order=True)
            if self.with_layouts:
                attributes |= input_attributes(value, order_of(type))
        elif isinstance(argument, (SymIntArgument, SymFloatArgument, SymBoolArgument)):
            type = type_of_value(value)
            attributes |= varying_number(value)
        elif value is None or isinstance(value, (bool, int, float, str)):
            type = type_of_value(value)
            if isinstance(value, str):
                attributes["et.value"] = StringAttr(value)
            elif value is not None:
                attributes["et.value"] = scalar_attr(value)
        else:
            self.module.problems.append(
                E0403.diagnostic(
                    f"method '{self.name}': input '{node.name}' is a {value.__class__.__name__}, which no .pte can hold"
                )
            )
            return
        block_argument = self.block.insert_arg(type, len(self.block.args), NameLoc(StringAttr(node.name), UnknownLoc()))
        if SSAValue.is_valid_name(node.name):
            block_argument.name_hint = node.name
        self.argument_attributes.append(DictionaryAttr(attributes))
        self.inputs[node.name] = block_argument
        # The graph was specialized on a fixed value: it stands for itself where the graph still names it.
        self.values[node] = value if isinstance(argument, ConstantArgument) else block_argument

    def _unknown_input(self, node: fx.Node, spec: Any) -> Diagnostic:
        what = getattr(spec.arg, "class_fqn", None)
        if what == "torch._C.Generator":
            return E0403.diagnostic(
                f"method '{self.name}': input '{node.name}' is a torch.Generator",
                help="leave the 'generator' of random operators out: a program draws from the runtime's own generator; "
                "for the same numbers in each run, draw them outside and pass them as an input",
            )
        kind = f"an object of class {what}" if what else f"of kind {spec.kind.name.lower()}"
        return E0403.diagnostic(f"method '{self.name}': input '{node.name}' is {kind}")

    def _weight(self, node: fx.Node, spec: Any) -> None:
        fqn = spec.target
        tensor = self._tensor(fqn)
        if node.users and all(str(user.target) == INNER_TENSOR for user in node.users):
            self.values[node] = WrappedTensor(fqn, tensor)
            return
        kind = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}.get(spec.kind, "constant")
        group = self.module.groups.get((self.name, fqn))
        location = NameLoc(StringAttr(fqn), UnknownLoc())
        if group is None:
            name, is_state, value = self._read(fqn, tensor, kind, None)
            known = recorded_order(tensor, None) if self.with_layouts else None
            if known is not None:
                value.owner.attributes[DIM_ORDERS] = ArrayAttr([known])  # type: ignore[union-attr]
        else:
            name, is_state, base = self._group_read(group, kind)
            last = self.block.last_op
            value = view_into(group, tensor, base, self.block)
            while (last := last.next_op if last is not None else None) is not None:
                last.location = location
        if SSAValue.is_valid_name(node.name) and value.name_hint is None:
            value.name_hint = node.name
        self.values[node] = value
        if is_state:
            self.states[fqn] = name
            self.reads[fqn] = value

    def _read(self, fqn: str, tensor: torch.Tensor, kind: str, is_state: bool | None) -> tuple[str, bool, SSAValue]:
        """Read a tensor of the module: its symbol, whether that is state, and the value."""
        name, is_state, type = self.module.weight(fqn, tensor, kind, is_state)
        op = ReadStateOp(name, type) if is_state else GetWeightOp(name, type)
        op.location = NameLoc(StringAttr(fqn), UnknownLoc())
        self.block.add_op(op)
        return name, is_state, op.result

    def _group_read(self, group: Group, kind: str) -> tuple[str, bool, SSAValue]:
        """Read the memory that several tensors share, once in a method."""
        fqn, tensor = group.base
        known = self.group_reads.get(fqn)
        if known is None:
            is_state = any(name in self.module.mutated for name in group.names)
            known = self.group_reads[fqn] = self._read(fqn, tensor, kind, is_state)
        return known

    def _tensor(self, fqn: str) -> torch.Tensor:
        for table in (self.program.state_dict, self.program.constants):
            tensor: object = table.get(fqn)
            if isinstance(tensor, torch.Tensor):
                return tensor
        raise E0403.error(f"method '{self.name}': there is no tensor named '{fqn}' in the program")

    def _lifted_constant(self, tensor: torch.Tensor, target: str) -> Operation:
        name, _, type = self.module.weight(target, tensor, "constant")
        return GetWeightOp(name, type)

    # --- outputs ----------------------------------------------------------------------------------------------------

    def _outputs(self, outputs: Any) -> list[SSAValue]:
        results: list[SSAValue] = []
        gradients: list[int] = []
        self.output_names: list[str] = []
        flat = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        for spec, value in zip(self.program.graph_signature.output_specs, flat, strict=True):
            op: Operation
            match spec.kind:
                case OutputKind.BUFFER_MUTATION | OutputKind.PARAMETER_MUTATION:
                    op = self._store(spec.target or "", value)
                case OutputKind.USER_INPUT_MUTATION:
                    op = UpdateInputOp(self.inputs[spec.target or ""], value)
                case OutputKind.TOKEN:
                    continue
                case _:
                    if spec.kind is OutputKind.GRADIENT_TO_PARAMETER:
                        gradients.append(len(results))
                    last = self.block.last_op
                    results.append(as_number(value, self.block))
                    if self.block.last_op is not last:
                        self.block.last_op.location = NameLoc(StringAttr("output"), UnknownLoc())  # type: ignore[union-attr]
                    self.output_names.append(spec.arg.name or f"output_{len(results) - 1}")
                    continue
            op.location = _store_location(spec.target or "", value)
            self.block.add_op(op)
        if gradients:
            self._check_trained()
            # An optimizer on the device changes the parameters, which are state: they are handed out, too.
            trained = {fqn: self.states[fqn] for fqn in trained_parameters(self.program)}
            self.training = Training(gradients[0], len(results), trained)
            results += [self.reads[fqn] for fqn in trained]
            self.output_names += trained
        op = FuncReturnOp(*results)
        op.location = NameLoc(StringAttr("return"), UnknownLoc())
        self.block.add_op(op)
        return results

    def _check_trained(self) -> None:
        for fqn in trained_parameters(self.program):
            group = self.module.groups.get((self.name, fqn))
            if group is not None and not isinstance(self.reads[fqn].owner, ReadStateOp):
                raise E0404.error(f"the trained parameter '{fqn}' shares memory: {', '.join(group.names)}")

    def _store(self, fqn: str, value: SSAValue) -> Operation:
        """What stores a declared mutation at the end: into the state, or into the part of it that the tensor is."""
        read, group = self.reads[fqn], self.module.groups.get((self.name, fqn))
        if group is None:
            return WriteStateOp(self.states[fqn], value)
        others = [n for n in group.names if n != fqn and (n in self.used or n in declared_mutations(self.program))]
        if others:
            raise E0404.error(
                f"method '{self.name}' stores '{fqn}' at its end and uses {', '.join(others)}, which share its memory: "
                "a program without mutation does not say what they hold in between",
                help="pass what torch.export.export gave, without run_decompositions",
            )
        return aten.copy_.default.make({"self": read, "src": value}, [read.type])

    def _metadata(self) -> dict[str, Attribute]:
        call = self.program.call_spec
        in_spec, out_spec = dump_arguments(call.in_spec, self._argument_names()), dump_tree(call.out_spec)
        inputs = self._input_names()
        outputs = leaf_names(parse_structure(out_spec), len(self.output_names), "output")
        return {
            "et.in_spec": StringAttr(in_spec),
            "et.out_spec": StringAttr(out_spec),
            "et.input_names": _names(inputs, self.inputs),
            "et.output_names": _names(outputs, self.output_names),
            **({} if self.training is None else {"et.training": self.training.attribute}),
        }

    def _input_names(self) -> list[str]:
        """What the inputs are called, one name for each."""
        in_spec = dump_arguments(self.program.call_spec.in_spec, self._argument_names())
        names = leaf_names(arguments_of(parse_structure(in_spec)), len(self.inputs), "input")
        return [name or other for name, other in zip(names, self.inputs, strict=True)]

    def _argument_names(self) -> Sequence[str] | None:
        """What the user's ``forward`` calls its arguments: as torch recorded it, else as the graph calls its inputs."""
        for entry in self.program.module_call_graph:
            if entry.fqn == "" and entry.signature is not None and entry.signature.forward_arg_names is not None:
                return entry.signature.forward_arg_names
        spec = self.program.call_spec.in_spec
        flat = (
            spec is not None and spec.num_children == 2 and all(child.is_leaf() for child in spec.child(0).children())
        )
        return list(self.inputs) if flat else None

    # --- symbolic dims ----------------------------------------------------------------------------------------------

    def _declare_dims(self, func: FuncOp) -> None:
        used = dict.fromkeys(
            symbol
            for value in _all_values(func)
            if isinstance(value.type, TensorType) and isinstance(value.type.encoding, LayoutAttr)
            for dim in value.type.encoding.data.dims or ()
            for symbol in dim.symbols
        )
        sizes = [
            size for number in range(len(func.body.block.args)) if (size := number_input(func, number)) is not None
        ]
        used |= dict.fromkeys(symbol for size in sizes for symbol in size.symbols)
        constraints = {str(symbol): _range(bounds) for symbol, bounds in self.program.range_constraints.items()}
        ranges = {symbol: constraints.get(symbol, (0, None)) for symbol in used}
        implied, names = implied_bounds(func, ranges, asserted_orders(self.program.graph)), user_names(self.program)
        renamed: dict[str, str] = {}
        own: list[str] = []
        for symbol, (low, high) in ranges.items():
            most = implied.get(symbol)
            high = most if high is None else high if most is None else min(high, most)
            name = names.get(symbol, symbol)
            while name in own or (name in self.module.ranges and self.module.ranges[name] != (low, high)):
                name += "_"
            while name not in self.module.ranges and name in self.module.symbols.taken:
                name += "_"
            own.append(name)
            if symbol.startswith(("u", "zuf")):
                self.module.unbacked[name] = None
            self.module.ranges[name] = (max(low, 0), high)
            self.module.symbols.taken.setdefault(name)
            if name != symbol:
                renamed[symbol] = name
        if renamed:
            _rename_symbols(func, renamed)


def _names(found: Sequence[str | None], others: Iterable[str]) -> ArrayAttr[StringAttr]:
    """The names of values; those of the graph where the user's program has none."""
    return ArrayAttr([StringAttr(name or other) for name, other in zip(found, others, strict=True)])


def _store_location(target: str, value: Any) -> NameLoc:
    """The name of the buffer or input that is stored into, over the source line of the stored value."""
    inner: Attribute = UnknownLoc()
    if isinstance(value, SSAValue) and isinstance(value.owner, Operation):
        inner = value.owner.location
    while isinstance(inner, NameLoc):
        inner = inner.location
    return NameLoc(StringAttr(target), inner)


def _range(bounds: Any) -> Range:
    """torch's range of a symbol; one without a lower end starts at 0."""
    return _bound(bounds.lower) or 0, _bound(bounds.upper)


def _bound(value: Any) -> int | None:
    """An end of a value range as an int; None for infinity and for torch's stand-in for it."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return None if abs(number) >= 2**62 else number


def _all_values(func: FuncOp) -> list[SSAValue]:
    values: list[SSAValue] = list(func.body.block.args)
    for op in func.walk():
        values.extend(op.results)
        for region in op.regions:
            for block in region.blocks:
                values.extend(block.args)
    return list(dict.fromkeys(values))


def _rename_symbols(func: FuncOp, renamed: dict[str, str]) -> None:
    from xdsl.rewriter import Rewriter

    mapping = {old: symbol_expr(new) for old, new in renamed.items()}
    for value in _all_values(func):
        type = value.type
        if not isinstance(type, TensorType) or not isinstance(type.encoding, LayoutAttr):
            continue
        dims = [d if isinstance(d, int) else d.substitute(mapping) for d in dims_of(type)]
        new = Rewriter.replace_value_with_new_type(value, tensor_type(type.element_type, dims, order_of(type)))
        if isinstance(value, BlockArgument) and isinstance(new, BlockArgument):
            new.location = value.location
    rename_numbers(func, mapping)
    block = func.body.block
    last = block.last_op
    assert last is not None
    func.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in last.operands])
