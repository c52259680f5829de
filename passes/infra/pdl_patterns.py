"""Patterns written in PDL text as patterns of etir's rewrite driver.

xDSL has a PDL interpreter, but it is not used here: it knows neither default arguments nor which operand belongs to
which argument of a schema, takes any result of an operation for the one that the pattern names, demands result types
everywhere, and loses locations. This evaluator covers the same operations (single operands and results; no ranges, no
native functions) and is checked when the file is loaded, so that a pattern cannot fail half-way for its form.

For operators with a schema:

* operands fill the tensor arguments in order, optional ones when enough are given, a ``Tensor[]`` takes what is left;
  ``"operand_segments"`` names another assignment. A pattern matches calls with that assignment only: a pattern for
  ``aten.clamp.Tensor(%x, %low)`` does not match a call with only an upper bound.
* an argument that an operation leaves out has its default value, for matching and for passing on; a pattern constrains
  the arguments it names and no others, as in MLIR. That is a warning when the file is loaded: whoever writes
  ``aten.add.Tensor`` mostly means ``alpha = 1``.
* an operation that replaces another takes its result types when the pattern gives none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from xdsl.dialects import pdl
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from etir.diagnostics import Diagnostic, Severity, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.literals import ArgValue, bools_attr, literal_attr, literal_of, segments_attr
from etir.dialects.parse_errors import similar_operations
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SEGMENTS, SchemaOp
from etir.dialects.text import parse_module, source_location
from etir.dialects.verify import verify_module
from etir.passes.errors import E0508, E0510
from etir.passes.infra.rewriting import Pattern, PatternRewriter, fuse_locations

_MATCH_OPS = (pdl.OperandOp, pdl.OperationOp, pdl.ResultOp, pdl.AttributeOp, pdl.TypeOp, pdl.RewriteOp)
_REWRITE_OPS = (pdl.OperationOp, pdl.ResultOp, pdl.AttributeOp, pdl.TypeOp, pdl.ReplaceOp, pdl.EraseOp)

Bound = Operation | Attribute | SSAValue
"""What a value of a pattern stands for."""


def load_patterns(path: str | Path, ctx: EtContext) -> list[PdlPattern]:
    """The patterns of a file, those with a higher benefit first.

    Raises error E0508 for a file that cannot be read and for every pattern that cannot be run, E01xx and E03xx for text
    that is not a valid module. Adds warning E0510 to the context for every operation to match whose attributes the
    pattern does not name all.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise E0508.error(f"cannot read the patterns '{path}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise E0508.error(f"the patterns '{path}' are not UTF-8 text: {error}") from None
    module = parse_module(text, ctx, name=str(path))
    verify_module(module)
    found = [op for op in module.walk() if isinstance(op, pdl.PatternOp)]
    if not found:
        raise E0508.error(f"'{path}' has no pdl.pattern")
    raise_if_errors([problem for op in found for problem in _pattern_errors(op, ctx)])
    ctx.diagnostics += [warning for op in found for warning in _open_attributes(op, ctx)]
    patterns = [PdlPattern(op, ctx) for op in found]
    return sorted(patterns, key=lambda pattern: -pattern.benefit)


def _pattern_errors(pattern: pdl.PatternOp, ctx: EtContext) -> list[Diagnostic]:
    problems: list[Diagnostic] = []

    def report(op: Operation, message: str) -> None:
        problems.append(E0508.diagnostic(message, source_location(op.location)))

    rewrite = _rewrite_of(pattern)
    if rewrite.root is None or rewrite.name_ is not None or not rewrite.body.blocks:
        report(rewrite, "pdl.rewrite needs a root operation and a body, and takes no external function")
    for ops, kinds in ((pattern.body.block.ops, _MATCH_OPS), (rewrite.body.walk(), _REWRITE_OPS)):
        for op in ops:
            if not isinstance(op, kinds):
                report(op, f"'{op.name}' is not supported in this place")
            elif isinstance(op, pdl.OperationOp):
                name = None if op.opName is None else op.opName.data
                if name is not None and ctx.get_optional_op(name) is None:
                    report(op, f"there is no operation '{name}'{similar_operations(name, ctx)}")
                if any(isinstance(v.type, pdl.RangeType) for v in (*op.operand_values, *op.type_values)):
                    report(op, "ranges of values and types are not supported")
            elif isinstance(op, pdl.ReplaceOp) and op.repl_operation is None and not op.repl_values:
                report(op, "pdl.replace needs an operation or values; use pdl.erase to remove an operation")
    return problems


def _open_attributes(pattern: pdl.PatternOp, ctx: EtContext) -> Iterator[Diagnostic]:
    """A warning for each operation to match with attributes that the pattern does not constrain, and does not name."""
    for op in pattern.body.block.ops:
        if not isinstance(op, pdl.OperationOp) or op.opName is None:
            continue
        named = {name.data for name in op.attributeValueNames.data}
        names = [name for name in _attribute_names(ctx.get_op(op.opName.data)) if name not in named]
        if names:
            listed = ", ".join(f"'{name}'" for name in names)
            yield E0510.diagnostic(
                f"the pattern matches '{op.opName.data}' with any value of {listed}",
                source_location(op.location),
                severity=Severity.WARNING,
            )


def _attribute_names(cls: type[Operation]) -> list[str]:
    """The attributes that an operation's meaning depends on: arguments of a schema that are no tensors, properties."""
    if issubclass(cls, SchemaOp):
        return [argument.name for argument in cls.SCHEMA.arguments if not argument.is_tensor]
    return list(cls.get_irdl_definition().properties) if issubclass(cls, IRDLOperation) else []


def _rewrite_of(pattern: pdl.PatternOp) -> pdl.RewriteOp:
    last = pattern.body.block.last_op
    assert isinstance(last, pdl.RewriteOp)
    return last


class PdlPattern(Pattern):
    """One ``pdl.pattern``; its name is its symbol, or the file and line where it stands."""

    def __init__(self, pattern: pdl.PatternOp, ctx: EtContext):
        self._rewrite = _rewrite_of(pattern)
        self._ctx = ctx
        assert self._rewrite.root is not None
        self._root = cast(pdl.OperationOp, self._rewrite.root.owner)
        symbol = pattern.sym_name
        # Every instance has its own name and roots; Pattern declares them for classes.
        self.name = str(source_location(pattern.location)) if symbol is None else symbol.data  # pyright: ignore
        self.roots = () if self._root.opName is None else (self._root.opName.data,)  # pyright: ignore
        self.benefit = pattern.benefit.value.data

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Match from ``op`` through its operands, then run the rewrite's body."""
        match = _Match()
        if not match.operation(self._root, op):
            rewriter.notify_match_failure(match.reason)
            return
        rewriter.location = fuse_locations(match.operations())
        for step in self._rewrite.body.block.ops:
            self._run(step, match.bound, rewriter)

    def _run(self, step: Operation, bound: dict[SSAValue, Bound], rewriter: PatternRewriter) -> None:
        match step:
            case pdl.AttributeOp():
                bound[step.output] = cast(Attribute, step.value)
            case pdl.TypeOp():
                bound[step.result] = cast(Attribute, step.constantType)
            case pdl.ResultOp():
                owner = cast(Operation, bound[step.parent_])
                index = step.index.value.data
                if index >= len(owner.results):
                    self._fail(step, f"'{owner.name}' has no result {index}")
                bound[step.val] = owner.results[index]
            case pdl.OperationOp():
                bound[step.op] = rewriter.insert_op(self._build(step, bound))
            case pdl.ReplaceOp():
                old = cast(Operation, bound[step.op_value])
                values: Sequence[SSAValue] = [cast(SSAValue, bound[v]) for v in step.repl_values]
                if step.repl_operation is not None:
                    values = cast(Operation, bound[step.repl_operation]).results
                if len(values) != len(old.results):
                    self._fail(step, f"'{old.name}' has {len(old.results)} results, the replacement {len(values)}")
                rewriter.replace_op(old, values)
            case pdl.EraseOp():
                old = cast(Operation, bound[step.op_value])
                if any(result.first_use is not None for result in old.results):
                    self._fail(step, f"'{old.name}' cannot be erased: its results are used")
                rewriter.erase_op(old)
            case _:
                raise AssertionError(step.name)

    def _fail(self, step: Operation, message: str) -> NoReturn:
        raise E0508.error(f"pattern '{self.name}': {message}", source_location(step.location))

    def _build(self, step: pdl.OperationOp, bound: Mapping[SSAValue, Bound]) -> Operation:
        assert step.opName is not None
        cls = self._ctx.get_op(step.opName.data)
        operands = [cast(SSAValue, bound[v]) for v in step.operand_values]
        names = [name.data for name in step.attributeValueNames.data]
        attributes = {n: cast(Attribute, bound[v]) for n, v in zip(names, step.attribute_values, strict=True)}
        types = [cast(Attribute, bound[v]) for v in step.type_values] or _replaced_types(step, bound)
        try:
            if issubclass(cls, SchemaOp):
                op: Operation = _build_schema_op(cls, operands, attributes, types)
            else:
                known = cls.get_irdl_definition().properties if issubclass(cls, IRDLOperation) else {}
                op = cls.create(
                    operands=operands,
                    result_types=types,
                    properties={n: a for n, a in attributes.items() if n in known},
                    attributes={n: a for n, a in attributes.items() if n not in known},
                )
            op.verify_()
        except (TypeError, ValueError, VerifyException) as error:
            self._fail(step, f"'{cls.name}' cannot be made: {error}")
        return op


def _replaced_types(step: pdl.OperationOp, bound: Mapping[SSAValue, Bound]) -> list[Attribute]:
    """The result types of the operation that ``step`` replaces; none when it replaces nothing."""
    for use in step.op.uses:
        user = use.operation
        if isinstance(user, pdl.ReplaceOp) and user.repl_operation is step.op:
            return list(cast(Operation, bound[user.op_value]).result_types)
    return []


# --- schemas ---------------------------------------------------------------------------------------------------------


def default_segments(schema: OpSchema, count: int, literals: Collection[str] = ()) -> tuple[int, ...] | None:
    """How ``count`` operands spread over the tensor arguments of a schema, or None when they do not.

    ``literals`` names the arguments that are numbers, also in tensor slots.
    """
    open_arguments = [a for a in schema.arguments if a.is_tensor and a.name not in literals]
    spare = count - sum(1 for a in open_arguments if not a.is_tensor_list and not a.optional)
    segments: list[int] = []
    for argument in schema.arguments:
        if argument not in open_arguments:
            segments.append(0)
        elif argument.is_tensor_list:
            segments.append(max(spare, 0))
            spare = min(spare, 0)
        elif argument.optional:
            segments.append(1 if spare > 0 else 0)
            spare -= segments[-1]
        else:
            segments.append(1)
    return tuple(segments) if spare == 0 else None


def _build_schema_op(
    cls: type[SchemaOp], operands: Sequence[SSAValue], given: Mapping[str, Attribute], types: Sequence[Attribute]
) -> SchemaOp:
    index = cls.SCHEMA.index
    attributes = {n: a for n, a in given.items() if n not in index and n != SEGMENTS}
    if SEGMENTS in given:
        properties = {n: a for n, a in given.items() if n not in attributes}
        return cls.create(operands=operands, result_types=types, properties=properties, attributes=attributes)
    segments = default_segments(cls.SCHEMA, len(operands), given)
    if segments is None:
        raise TypeError(f'{len(operands)} operands do not fit {cls.SCHEMA}; give "{SEGMENTS}"')
    arguments: dict[str, ArgValue] = {}
    rest = iter(operands)
    for argument, count in zip(cls.SCHEMA.arguments, segments, strict=True):
        taken = [next(rest) for _ in range(count)]
        if argument.is_tensor_list and argument.name not in given:
            arguments[argument.name] = taken
        elif taken:
            arguments[argument.name] = taken[0]
        elif argument.name in given:
            arguments[argument.name] = literal_of(argument, given[argument.name])
    op = cls.make(arguments, types)
    op.attributes.update(attributes)
    return op


def _attribute_of(op: Operation, name: str) -> Attribute | None:
    """A property or attribute, or the default of a schema argument that is left out."""
    stored = op.get_attr_or_prop(name)
    if stored is None and isinstance(op, SchemaOp) and name in op.SCHEMA.index:
        argument = op.SCHEMA.arguments[op.SCHEMA.index[name]]
        if argument.has_default and not op.segments[op.SCHEMA.index[name]]:
            return literal_attr(argument, argument.default)
    return stored


def _segments_agree(op: SchemaOp, literals: Collection[str]) -> bool:
    """Whether the operands belong to the arguments that a pattern with these ``literals`` and no segments means."""
    segments = default_segments(op.SCHEMA, len(op.operands), literals)
    if segments is None or op.properties[SEGMENTS] != segments_attr(segments):
        return False
    masks = [a for a in op.SCHEMA.arguments if a.is_tensor_list and a.elements_optional]
    return all(
        op.properties.get(a.name) in (None, bools_attr([True] * count))
        for a, count in zip(masks, (segments[op.SCHEMA.index[a.name]] for a in masks), strict=True)
    )


# --- matching --------------------------------------------------------------------------------------------------------


class _Match:
    """One attempt: what each value of the pattern stands for, and why the attempt failed."""

    def __init__(self) -> None:
        self.bound: dict[SSAValue, Bound] = {}
        self.reason = ""

    def operations(self) -> list[Operation]:
        """The matched operations, each once."""
        return [op for op in self.bound.values() if isinstance(op, Operation)]

    def _no(self, reason: str) -> bool:
        self.reason = reason
        return False

    def _bind(self, value: SSAValue, target: Bound) -> bool:
        known = self.bound.setdefault(value, target)
        return known == target if isinstance(target, Attribute) else known is target

    def operation(self, pattern: pdl.OperationOp, op: Operation) -> bool:
        """Match an operation and everything that the pattern says about it."""
        if pattern.op in self.bound:
            return self.bound[pattern.op] is op or self._no(f"'{op.name}' is not the operation matched before")
        if pattern.opName is not None and op.name != pattern.opName.data:
            return self._no(f"'{op.name}' stands where '{pattern.opName.data}' is expected")
        names = [name.data for name in pattern.attributeValueNames.data]
        for name, value in zip(names, pattern.attribute_values, strict=True):
            stored = _attribute_of(op, name)
            if stored is None:
                return self._no(f"'{op.name}' has no attribute '{name}'")
            if not self._attribute(cast(pdl.AttributeOp, value.owner), stored):
                return self._no(f"'{name}' of '{op.name}' is {stored}")
        if len(op.operands) != len(pattern.operand_values):
            return self._no(f"'{op.name}' has {len(op.operands)} operands, not {len(pattern.operand_values)}")
        if isinstance(op, SchemaOp) and SEGMENTS not in names and not _segments_agree(op, names):
            return self._no(f"the operands of '{op.name}' belong to other arguments than the pattern's")
        for index, (expected, operand) in enumerate(zip(pattern.operand_values, op.operands, strict=True)):
            if not self._operand(expected, operand):
                self.reason = self.reason or f"operand {index} of '{op.name}' is another value or of another type"
                return False
        types = pattern.type_values
        if types and len(types) != len(op.results):
            return self._no(f"'{op.name}' has {len(op.results)} results, not {len(types)}")
        for expected, result in zip(types, op.results, strict=False):
            if not self._type(expected, result.type):
                return self._no(f"a result of '{op.name}' has type {result.type}")
        self.bound[pattern.op] = op
        return True

    def _operand(self, expected: SSAValue, operand: SSAValue) -> bool:
        owner = expected.owner
        if isinstance(owner, pdl.OperandOp):
            if owner.value_type is not None and not self._type(owner.value_type, operand.type):
                return False
            return self._bind(expected, operand)
        assert isinstance(owner, pdl.ResultOp)
        inner = cast(pdl.OperationOp, owner.parent_.owner)
        if not isinstance(operand, OpResult):
            name = "an operation" if inner.opName is None else f"'{inner.opName.data}'"
            return self._no(f"a block argument stands where a result of {name} is expected")
        if operand.index != owner.index.value.data:
            return self._no(f"result {operand.index} of '{operand.op.name}' is used, not {owner.index.value.data}")
        return self.operation(inner, operand.op) and self._bind(expected, operand)

    def _type(self, expected: SSAValue, type: Attribute) -> bool:
        constant = cast(pdl.TypeOp, expected.owner).constantType
        return (constant is None or constant == type) and self._bind(expected, type)

    def _attribute(self, expected: pdl.AttributeOp, stored: Attribute) -> bool:
        if expected.value is not None and expected.value != stored:
            return False
        if expected.value_type is not None:
            type = getattr(stored, "type", None)
            if not isinstance(type, Attribute) or not self._type(expected.value_type, type):
                return False
        return self._bind(expected.output, stored)
