"""Which tensors of the module a program changes, and of which it reads the storage, by their qualified names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from etir.dialects.aten.table import load_table
from etir.lowering.functionalize.lists import LISTS, SINGLE
from etir.lowering.functionalize.views import viewed_argument
from etir.lowering.import_fx.structures import flatten

WEIGHT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
"""Inputs of a program that are tensors of the module."""

_STORED = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)

_STORAGE_OPERATORS = frozenset(
    f"aten.{name}"
    for name in (
        "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "_reshape_alias", "_reshape_alias_copy",
        "sym_stride", "stride", "sym_storage_offset", "storage_offset",
    )
)  # fmt: skip
"""Operators that torch defines on the storage of a tensor."""


def is_storage_operator(target: object) -> bool:
    """Whether a node calls an operator that is defined on the storage of its tensor."""
    return isinstance(target, torch._ops.OpOverload) and str(target).rpartition(".")[0] in _STORAGE_OPERATORS


def declared_mutations(program: ExportedProgram) -> list[str]:
    """Qualified names of what a functional program stores at its end."""
    # Not buffers_to_mutate, which is keyed by the stored node: one value may be stored into several buffers.
    specs = program.graph_signature.output_specs
    return list(dict.fromkeys(s.target for s in specs if s.kind in _STORED and s.target))


def mutated_tensors(program: ExportedProgram) -> list[str]:
    """Fully qualified names of what a program keeps and writes, in place or as a declared mutation.

    Mostly buffers. Parameters change in a training step, and a tensor that is only an attribute (of the module or of
    an object that it holds, like a cache) is a constant of the exported program that keeps its changes all the same.
    """
    written = dict.fromkeys(declared_mutations(program))
    _note_uses(program.graph_module, _tensors_of_module(program), written, {})
    return list(written)


def storage_read_tensors(program: ExportedProgram) -> list[str]:
    """Fully qualified names of the tensors whose storage an operator like ``as_strided`` reads."""
    read: dict[str, None] = {}
    _note_uses(program.graph_module, _tensors_of_module(program), {}, read)
    return list(read)


def trained_parameters(program: ExportedProgram) -> list[str]:
    """Fully qualified names of the parameters that a joint graph returns gradients of, in the order of those."""
    specs = program.graph_signature.output_specs
    return [s.target for s in specs if s.kind is OutputKind.GRADIENT_TO_PARAMETER and s.target]


def used_tensors(
    programs: Mapping[str, ExportedProgram], mutated: Mapping[str, None]
) -> tuple[dict[tuple[str, str], torch.Tensor], dict[tuple[str, str], torch.Tensor]]:
    """The tensors of the module that some method reads or changes, as each program has them, by method and name; and
    the others.
    """
    used: dict[str, None] = {}
    for program in programs.values():
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
            if spec.kind in WEIGHT_KINDS and spec.target and (node.users or spec.target in mutated):
                used[spec.target] = None
    tables = {name: {**program.constants, **program.state_dict} for name, program in programs.items()}
    tensors = {
        (name, fqn): table[fqn]
        for name, table in tables.items()
        for fqn in (*used, *(other for other in table if other not in used))
        if isinstance(table.get(fqn), torch.Tensor)
    }
    return (
        {key: tensor for key, tensor in tensors.items() if key[1] in used},
        {key: tensor for key, tensor in tensors.items() if key[1] not in used},
    )


def _tensors_of_module(program: ExportedProgram) -> dict[fx.Node, str]:
    signature = program.graph_signature
    by_name = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return {node: by_name[node.name] for node in placeholders if node.name in by_name}


def _note_uses(
    graph_module: fx.GraphModule, roots: dict[fx.Node, str], written: dict[str, None], read: dict[str, None]
) -> None:
    """Add to ``written`` what a graph changes, to ``read`` the tensors whose storage it reads.

    ``roots`` says which tensor of the module a node is, or is a view of.
    """
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, torch._ops.OpOverload):
            _note_operator(node, node.target, roots, written, read)
        elif getattr(node.target, "__name__", "") == "getitem":
            source = _viewed_by_item(node)
            if source in roots:
                roots[node] = roots[source]
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            _note_nested_uses(graph_module, node, roots, written, read)


def _viewed_by_item(item: fx.Node) -> fx.Node:
    """What one of the results of an operator may be a view of: of ``split``, ``unbind`` and ``chunk`` the tensor that
    the operator itself is a view of, of ``broadcast_tensors`` and its like the operand of the same number.
    """
    source, index = item.args
    assert isinstance(source, fx.Node)
    if str(source.target) not in LISTS:
        return source
    found = flatten(list(source.args))[int(index)]  # type: ignore[arg-type]
    return found if isinstance(found, fx.Node) else source


def _note_operator(
    node: fx.Node,
    target: torch._ops.OpOverload,
    roots: dict[fx.Node, str],
    written: dict[str, None],
    read: dict[str, None],
) -> None:
    values = {a.name: v for a, v in zip(target._schema.arguments, node.args, strict=False)} | dict(node.kwargs)
    hidden = _hidden_view(str(target))
    for argument in target._schema.arguments:
        for value in flatten([values.get(argument.name)]):
            if not isinstance(value, fx.Node) or value not in roots:
                continue
            if argument.alias_info is None and argument.name != hidden:
                continue
            roots.setdefault(node, roots[value])
            if argument.alias_info is not None and argument.alias_info.is_write:
                written[roots[value]] = None
    first = node.args[0] if node.args else None
    if is_storage_operator(target) and isinstance(first, fx.Node) and first in roots:
        read[roots[first]] = None


def _hidden_view(name: str) -> str | None:
    """The argument that a result may be a view of although torch's schema does not say so: ``dropout`` of inference.

    One that is none for the arguments given costs nothing but a state that could be a weight.
    """
    if name in SINGLE:
        return SINGLE[name][0]
    schema = load_table().get(name) if name in load_table() else None
    return None if schema is None else viewed_argument(schema)


def _note_nested_uses(
    graph_module: fx.GraphModule,
    node: fx.Node,
    roots: dict[fx.Node, str],
    written: dict[str, None],
    read: dict[str, None],
) -> None:
    """The same for the graphs that an operator calls: their placeholders are the last of its operands."""
    arguments = flatten(list(node.args))
    operands = [v for v in arguments if not (isinstance(v, fx.Node) and v.op == "get_attr")]
    for value in arguments:
        if not isinstance(value, fx.Node) or value.op != "get_attr":
            continue
        graph = getattr(graph_module, str(value.target), None)
        if not isinstance(graph, fx.GraphModule):
            continue
        inner = [n for n in graph.graph.nodes if n.op == "placeholder"]
        given = operands[len(operands) - len(inner) :]
        bound = zip(inner, given, strict=False)
        _note_uses(graph, {n: roots[v] for n, v in bound if isinstance(v, fx.Node) and v in roots}, written, read)
