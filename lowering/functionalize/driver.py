"""Pass ``functionalize``: in-place operators, mutated views, state and inputs as plain values.

Before::

    %cache = et.read_state @cache : tensor<4x8xf32>
    %row = aten.select.int(%cache, dim = 0, index = 1) : (tensor<4x8xf32>) -> tensor<8xf32>
    %0 = aten.add_.Tensor(%row, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    func.return %cache : tensor<4x8xf32>

After::

    %0 = aten.add.Tensor(%row, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = aten.select_scatter.default(%cache, %0, dim = 0, index = 1) : (...) -> tensor<4x8xf32>
    et.write_state @cache, %1 : tensor<4x8xf32>
    func.return %1 : tensor<4x8xf32>

One walk in program order: each operand becomes what its tensor holds at that point (``aliases.py``), each mutation a
functional operator and a write (``mutations.py``), each operator on storage one on its elements (``storage_reads.py``).
View operators stay; without mutation they only mean values. What is changed but was read as a weight of the user's
module becomes state. A method without any of that is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from etir.diagnostics import Diagnostic, EtirError, raise_if_errors
from etir.dialects.aten.opaque import operator_of
from etir.dialects.aten.recorded_layout import DIM_ORDERS
from etir.dialects.context import EtContext
from etir.dialects.et.layout import dims_of
from etir.dialects.et.program import (
    GetWeightOp,
    ReadStateOp,
    SchemaDeclOp,
    StateOp,
    UpdateInputOp,
    WeightOp,
    WriteStateOp,
)
from etir.dialects.schema import OpSchema, SchemaKind, parse_schema
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.build.builder import is_tensor
from etir.lowering.functionalize.aliases import AliasSets, Origin, Storage
from etir.lowering.functionalize.emitter import Emitter
from etir.lowering.functionalize.functional_variants import FunctionalVariants
from etir.lowering.functionalize.lists import take_lists_apart
from etir.lowering.functionalize.mutations import Mutations, mutates
from etir.lowering.functionalize.regions import CONTROL, Regions
from etir.lowering.functionalize.storage_reads import StorageReads, as_copies, reads_storage
from etir.lowering.functionalize.strides import Layouts, forget_inputs
from etir.lowering.functionalize.views import (
    gives_view,
    is_same_tensor,
    operand_index,
    viewed_argument,
)
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

_SIZE_OPERATORS = frozenset(
    {
        "sym_size",
        "sym_numel",
        "size",
        "numel",
        "dim",
        "is_same_size",
    }
)
"""Operators that read sizes and no elements."""


@register_pass
@dataclass(frozen=True)
class FunctionalizePass(Pass):
    """Make in-place operators and mutated views functional; changed state and inputs are stored at the end."""

    name = "functionalize"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change ``module`` in place. Raises error E0413 with every mutation that cannot be made functional."""
        for method in methods(module):
            if not _has_storage(method):
                forget_inputs(method)
        changing = [method for method in methods(module) if _has_storage(method)]
        if not changing:
            return
        weights = _Weights(module)
        variants = FunctionalVariants(_declared_schemas(module))
        problems: list[Diagnostic] = []
        for method in changing:
            problems.extend(_Method(method, weights, variants).run())
        raise_if_errors(problems)
        weights.promote()

    def recover(self, module: ModuleOp) -> bool:
        """Drop the mutations that are left; a result of the tensor's type stands for the tensor as it was."""
        for op in list(module.walk()):
            if not isinstance(op, SchemaOp) or not mutates(op):
                continue
            for result in op.results:
                same = next((operand for operand in op.operands if operand.type == result.type), None)
                if same is not None:
                    result.replace_all_uses_with(same)
            if all(result.first_use is None for result in op.results):
                Rewriter.erase_op(op)
        return True


def _has_storage(method: FuncOp) -> bool:
    """Whether it matters in a method that tensors share memory."""
    return any(isinstance(op, SchemaOp) and (mutates(op) or reads_storage(op)) for op in method.walk())


def _declared_schemas(module: ModuleOp) -> dict[str, OpSchema]:
    schemas = [parse_schema(op.schema.data) for op in module.body.block.ops if isinstance(op, SchemaDeclOp)]
    return {schema.op_name: schema for schema in schemas}


_OWN_KINDS = tuple(StringAttr(kind) for kind in ("parameter", "buffer", "constant"))
"""Kinds of weights that are tensors of the user's module: a change of one lasts, in eager mode as here."""


class _Weights:
    """The weights of the module; those that turn out to be changed become state."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.by_name = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, WeightOp)}
        self.changed: dict[str, WeightOp] = {}

    def claim(self, value: SSAValue) -> bool:
        """Whether the weight that ``value`` reads may be changed: it is a tensor of the user's module."""
        assert isinstance(value, OpResult) and isinstance(value.op, GetWeightOp)
        weight = self.by_name.get(value.op.symbol.root_reference.data)
        if weight is None or weight.attributes.get("kind") not in _OWN_KINDS:
            return False
        self.changed[weight.sym_name.data] = weight
        return True

    def promote(self) -> None:
        """Make the changed ones state, in every method."""
        for weight in self.changed.values():
            state = StateOp(weight.sym_name.data, weight.type, weight.value, weight.attributes)
            state.location = weight.location
            Rewriter.replace_op(weight, state)
        if not self.changed:
            return
        for method in methods(self.module):
            for op in list(method.walk()):
                if isinstance(op, GetWeightOp) and op.symbol.root_reference.data in self.changed:
                    read = ReadStateOp(op.symbol.root_reference.data, op.result.type)
                    read.location = op.location
                    read.attributes.update(op.attributes)
                    Rewriter.replace_op(op, read)


class _Method:
    """Functionalizes one method."""

    def __init__(self, method: FuncOp, weights: _Weights, variants: FunctionalVariants):
        self.method = method
        self.entry = method.body.block
        self.emit = Emitter()
        self.aliases = AliasSets(self.emit, self.entry)
        self.layouts = Layouts(self.aliases)
        self.views: list[Operation] = []
        self.storage_reads = StorageReads(self.aliases, self.layouts, self.views)
        self.mutations = Mutations(self.aliases, self.layouts, variants, weights.claim, self.storage_reads)
        self.regions = Regions(self.aliases, self.mutations.check_writable, self._block)
        self.first_reads: dict[str, SSAValue] = {}
        self.problems: list[Diagnostic] = []

    def run(self) -> list[Diagnostic]:
        """Rewrite the method; returns what could not be made functional."""
        self._gather_reads()
        take_lists_apart(self.method, self.emit)
        self._block(self.entry)
        if not self.problems:
            self._erase()
        return self.problems

    def _gather_reads(self) -> None:
        """One read for each state and each weight, at the top: all reads of one are one tensor."""
        for op in list(self.method.walk()):
            if not isinstance(op, (ReadStateOp, GetWeightOp)):
                continue
            if op.parent is not self.entry:
                op.detach()
                first = self.entry.first_op
                assert first is not None
                self.entry.insert_op_before(op, first)
            known = self.first_reads.setdefault(op.symbol.root_reference.data, op.result)
            if known is not op.result:
                op.result.replace_all_uses_with(known)
                Rewriter.erase_op(op)

    def _block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            following = op.next_op
            self.emit.at(op)
            try:
                self._operation(op)
            except EtirError as error:
                place = source_location(op.location)
                self.problems.extend(d.at(place).about(operator_of(op)) for d in error.diagnostics)
            op = following

    def _operation(self, op: Operation) -> None:
        if isinstance(op, SchemaOp):
            if op.SCHEMA.kind is not SchemaKind.FUNCTIONAL or mutates(op):
                self.mutations.replace(op)
            elif reads_storage(op) and self.storage_reads.replace(op):
                pass
            elif op.SCHEMA.name in _SIZE_OPERATORS:
                self.aliases.any_value(op)
            elif (source := viewed_argument(op.SCHEMA)) is not None:
                self._view(op, source)
            else:
                self.aliases.refresh(op)
        elif isinstance(op, CONTROL):
            self.regions.replace(op)
        elif isinstance(op, UpdateInputOp):
            self.aliases.refresh(op, start=1)
            self.aliases.alias(op.input).storage.declared = op
        elif isinstance(op, WriteStateOp):
            self.aliases.refresh(op)
            read = self.first_reads.get(op.symbol.root_reference.data)
            if read is not None:
                self.aliases.alias(read).storage.declared = op
        else:
            self.aliases.refresh(op)
            if isinstance(op, FuncReturnOp):
                self._store_changes(op)

    def _view(self, op: SchemaOp, source: str) -> None:
        viewed = op.arg(source)
        if not is_tensor(viewed):
            self.aliases.refresh(op)
            return
        parent = self.aliases.alias(viewed)
        self.aliases.refresh(op)
        shares = gives_view(op, parent, self.layouts)
        if shares is False:
            return
        self.views.append(op)
        self.aliases.view(
            op, parent, operand_index(op, source), op.results,
            same=is_same_tensor(op, parent.type), certain=shares is True,
        )  # fmt: skip

    def _store_changes(self, last: Operation) -> None:
        """Write what the changed states and inputs hold, before the method returns."""
        for storage in self.aliases.storages:
            if not storage.is_changed or storage.declared is not None:
                continue
            op = self._final_write(storage)
            if op is not None:
                self.aliases.current(storage.root)
                op.location = storage.location
                self.emit.insert(op)

    def _final_write(self, storage: Storage) -> Operation | None:
        original, value = storage.original, storage.root.value
        if 0 in dims_of(storage.root.type):
            return None  # there is nothing to write
        if storage.origin is Origin.INPUT:
            return UpdateInputOp(original, value)
        if storage.origin is Origin.STATE:
            assert isinstance(original, OpResult) and isinstance(original.op, (ReadStateOp, GetWeightOp))
            return WriteStateOp(original.op.symbol.root_reference.data, value)
        return None

    def _erase(self) -> None:
        """Erase the mutating operators, the views that nothing reads any more, and what was recorded of layouts."""
        for op in reversed(self.aliases.removed):
            Rewriter.erase_op(op)
        for op in reversed(self.views):
            if op.parent is not None and all(result.first_use is None for result in op.results):
                Rewriter.erase_op(op)
        for op in self.method.walk():
            op.attributes.pop(DIM_ORDERS, None)
        forget_inputs(self.method)
        as_copies(list(self.method.walk()))
