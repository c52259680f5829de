"""What the passes of delegation see of a partitioner and the backends that it hands work to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from etir.backends.api.interface import Artifact, Backend, Outlined, Proposal
from etir.backends.api.patterns import Row, operator_of
from etir.backends.bridge.partitioners import (
    PREFIX,
    Preprocessed,
    Spec,
    ask,
    check_name,
    find_partitioner,
    not_decomposed,
    preprocess,
    preprocess_together,
    transformed,
)
from etir.backends.errors import E1107
from etir.dialects.edge.base import EdgeOp
from etir.dialects.schema_op import SchemaOp

if TYPE_CHECKING:
    from torch.export import ExportedProgram


_ORDER_COPIES = ("dim_order_ops._to_dim_order_copy.default", "dim_order_ops._clone_dim_order.default")


@dataclass(frozen=True)
class BridgeOptions:
    """``arguments`` are the partitioner's own, as ``name=literal`` texts.

    ``backend`` and ``specs`` (``key=hexadecimal``) are what the partitioner hands its partitions to; `partition` writes
    them, so that an outlined function says it too.
    """

    arguments: tuple[str, ...] = ()
    backend: str = ""
    specs: tuple[str, ...] = ()


class BridgedBackend(Backend):
    """A partitioner of ExecuTorch's under the name ``executorch:NAME``. Raises E1101 for an unknown one."""

    runtime_id = ""
    version = ""
    Options = BridgeOptions
    contiguous_boundary = True

    def __init__(self, partitioner: str):
        check_name(partitioner)
        self.partitioner = partitioner
        self.name = PREFIX + partitioner  # type: ignore[misc]  # of the instance, not of the class
        self._whole: WeakKeyDictionary[FuncOp, tuple[frozenset[str], dict[Operation, bool]]] = WeakKeyDictionary()

    def runtime_id_of(self, options: BridgeOptions) -> str:
        """What the partitioner named."""
        return options.backend

    def prepare(self, program: ExportedProgram, options: BridgeOptions) -> ExportedProgram:
        """What the partitioner's `transform_for_pre_decomposition` makes of the program."""
        return transformed(find_partitioner(self.partitioner, options.arguments), self.partitioner, program)

    def rows(self, options: BridgeOptions) -> Sequence[Row]:
        """None: the partitioner decides."""
        return ()

    def preserves(self, op: Operation, options: BridgeOptions) -> bool:
        """Ask the partitioner, once for each method: what it wants preserved, and for which calls."""
        func: Operation | None = op
        while func is not None and not isinstance(func, FuncOp):
            func = func.parent_op()
        if not isinstance(op, SchemaOp) or func is None:
            return False
        if func not in self._whole:
            self._whole[func] = self._ask_what_to_keep(func, options)
        operators, calls = self._whole[func]
        return op.SCHEMA.op_name in operators and calls.get(op, True)

    def _ask_what_to_keep(self, func: FuncOp, options: BridgeOptions) -> tuple[frozenset[str], dict[Operation, bool]]:
        # First of all, since without executorch and torch nothing else can be imported either.
        partitioner = find_partitioner(self.partitioner, options.arguments)
        from etir.lowering.export_fx.program import export_block

        module = func.parent_op()
        assert isinstance(module, ModuleOp)
        exported = export_block(module, func.body.block, blobs_as_inputs=True)
        operators, wanted = not_decomposed(partitioner, self.partitioner, exported.program)
        calls: dict[Operation, bool] = {}
        for node, op in exported.operations.items():
            if wanted is not None and str(node.target) in operators:
                calls[op] = bool(wanted(node))
        return operators, calls

    def propose(self, module: ModuleOp, block: Block, options: BridgeOptions) -> Proposal:
        """Show the partitioner a block. Operations under one tag are one partition."""
        partitioner = find_partitioner(self.partitioner, options.arguments)
        from etir.backends.bridge.edge import export_edge

        exported = export_edge(module, block)
        by_name = {node.name: op for node, op in exported.operations.items()}
        tagged = ask(partitioner, self.partitioner, exported.program)
        tag_of: dict[Operation, str] = {}
        for name, tag in tagged.tags.items():
            op = by_name.get(name)
            if op is not None:
                tag_of.setdefault(op, tag)
        groups: dict[str, list[Operation]] = {}
        for op in block.ops:
            if op in tag_of:
                groups.setdefault(tag_of[op], []).append(op)
        left = {op: f"the partitioner does not tag '{operator_of(op)}'" for op in by_name.values() if op not in tag_of}
        for tag, ops in list(groups.items()):
            passing = _passing(ops)
            left |= dict.fromkeys(
                passing, "it changes the dim order alone, and only the default one crosses the boundary"
            )
            groups[tag] = [op for op in ops if op not in passing]
            if not groups[tag]:
                del groups[tag]
        found = tuple(replace(options, **_options(tagged.specs[tag])) for tag in groups)
        return Proposal(tuple(map(tuple, groups.values())), options, left, found)

    def preprocess(self, outlined: Outlined, options: BridgeOptions) -> Artifact:
        """Hand the function to the backend as an edge program of its own."""
        spec, program = self._program(outlined, options)
        return _artifact(preprocess(spec, program), spec)

    def preprocess_all(self, functions: Sequence[tuple[str, Outlined, Any]]) -> list[Artifact]:
        """Hand all functions of all methods to a backend that wants them together, one by one to any other."""
        asked = [(method, *self._program(outlined, options)) for method, outlined, options in functions]
        return [_artifact(found, spec) for found, (_, spec, _) in zip(preprocess_together(asked), asked, strict=True)]

    def _program(self, outlined: Outlined, options: BridgeOptions) -> tuple[Spec, ExportedProgram]:
        """What the backend is given. Raises E1107 for a function that names no backend."""
        spec = _spec(options)
        if not spec.backend:
            raise E1107.error(
                f"@{outlined.name} does not say which backend it is for: let `partition` mark its operations, or write "
                f'"{self.name}{{backend=NAME}}"'
            )
        # Backends are found among the classes that are imported: importing the partitioner has imported its own.
        find_partitioner(self.partitioner, options.arguments)
        from etir.backends.bridge.edge import export_edge, first_handle

        handle = first_handle(outlined)
        return spec, export_edge(outlined.module, outlined.func.body.block, first_handle=handle).program

    def disassemble(self, blob: bytes | memoryview, named_data: Mapping[str, bytes | memoryview]) -> str:
        """The blob's size: what is in it is the backend's."""
        return f"{len(blob)} bytes of '{self.name}'\n"


def _passing(ops: Sequence[Operation]) -> dict[Operation, None]:
    """The copies into other dim orders between an input and an output of a partition.

    At the boundary both are in the default order, so that the delegate would hand its input through, which backends
    refuse. What comes first in a partition can be removed from it: no path from inside leads there.
    """
    members = dict.fromkeys(ops)
    found: dict[Operation, None] = {}
    for op in ops:
        if all(use.operation in members for result in op.results for use in result.uses):
            continue
        chain: list[Operation] = []
        source: Operation | Block = op
        while isinstance(source, EdgeOp) and source in members and _only_orders(source):
            chain.append(source)
            source = source.operands[0].owner
        if source not in members:
            found.update(dict.fromkeys(chain))
    return found


def _only_orders(op: EdgeOp) -> bool:
    """Whether an operator copies a tensor as it is into some dim order."""
    types = [value.type for value in (*op.operands[:1], *op.results)]
    elements = [type.element_type for type in types if isinstance(type, TensorType)]
    return op.SCHEMA.op_name in _ORDER_COPIES and len(elements) == 2 and elements[0] == elements[1]


def _artifact(made: Preprocessed, spec: Spec) -> Artifact:
    from etir.lowering.import_fx.lowered import stored_blobs

    return Artifact(made.blob, {} if made.named_data is None else stored_blobs(made.named_data), spec.specs)


def _options(spec: Spec) -> dict[str, Any]:
    return {"backend": spec.backend, "specs": tuple(f"{key}={value.hex()}" for key, value in spec.specs)}


def _spec(options: BridgeOptions) -> Spec:
    pairs: list[tuple[str, bytes]] = []
    for text in options.specs:
        key, _, value = text.rpartition("=")
        try:
            pairs.append((key, bytes.fromhex(value)))
        except ValueError:
            raise E1107.error(f"compile spec '{text}' is not of the form key=hexadecimal") from None
    return Spec(options.backend, tuple(pairs))
