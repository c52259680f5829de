"""xDSL's definitions of operations, with what it derives of them at every call derived once.

``OpDef.verify`` looks for variadic operands, options and kinds of constraints anew for every operation, and an accessor
such as ``op.lhs`` goes through three functions. :func:`quicken` gives a definition a verifier that has what there is to
check in tables. It accepts only what xDSL's own accepts; where it is not sure, that one decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias

from xdsl.dialects.builtin import StringAttr, SymbolNameConstraint
from xdsl.ir import Attribute, Operation, OpTrait, Region, SSAValues
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    BaseAttr,
    BeforeVariadicSingleAccessor,
    EqIntConstraint,
    IRDLOperation,
    OpDef,
    OperandDef,
    OptAttributeDef,
    OptionalDef,
    OptPropertyDef,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    RegionDef,
    ResultDef,
    SingleAttrAccessor,
    SingleBlockRegionDef,
    UniqueVariadicAccessor,
    VariadicDef,
    VarIRConstruct,
    VerificationContext,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from etir.dialects.walking import ops_of

# pyright: reportPrivateUsage=false

Check: TypeAlias = type[Attribute] | AttrConstraint | None
"""What an attribute has to be: of a class, what a constraint says, or anything at all."""


@cache
def quicken(cls: type[Operation]) -> None:
    """Give the definition of a class its quick verifier, if it is one that there is one for, and quick accessors."""
    if not issubclass(cls, IRDLOperation) or not hasattr(cls, "get_irdl_definition"):
        return
    definition = cls.get_irdl_definition()
    if "verify" not in vars(definition) and (quick := _verifier(definition)) is not None:
        # The `verify_` of the class calls this, and then what the class checks itself.
        vars(definition)["verify"] = quick.verify
    for base in cls.__mro__:
        for name, accessor in [*vars(base).items()]:
            is_first = isinstance(accessor, SingleAttrAccessor) and accessor.idx == 0
            if is_first or isinstance(accessor, BeforeVariadicSingleAccessor):
                setattr(base, name, _accessor(accessor))
            elif isinstance(accessor, UniqueVariadicAccessor) and accessor.construct is VarIRConstruct.OPERAND:
                setattr(base, name, _variadic_accessor(accessor))


def _accessor(accessor: BeforeVariadicSingleAccessor | SingleAttrAccessor) -> object:
    """What gives the same operand, result or region: the one at a place that nothing variadic is before."""
    at, index = tuple[Any, ...].__getitem__, accessor.idx
    match accessor.construct:
        case VarIRConstruct.OPERAND:
            return property(lambda op: at(op._operands, index))
        case VarIRConstruct.RESULT:
            return property(lambda op: at(op.results, index))
        case VarIRConstruct.REGION:
            return property(lambda op: op.regions[index])
        case _:
            return accessor


def _variadic_accessor(accessor: UniqueVariadicAccessor) -> object:
    """What gives the same operands: all but so many before and after them."""
    at, start, others = tuple[Any, ...].__getitem__, accessor.idx, accessor.num_defs - 1
    if not others:
        return property(lambda op: op._operands)
    return property(lambda op: SSAValues(at(op._operands, slice(start, start + len(op._operands) - others))))


class _Values:
    """What there is to check of the types of operands, or of results: one check for each, of which one may be for
    several values or for none.
    """

    def __init__(self, checks: Sequence[Check], variadic: int | None, is_optional: bool) -> None:
        self.checks, self.variadic, self.count = checks, variadic, len(checks)
        self.most = 0 if variadic is None or is_optional else None
        self.least = 0 if variadic is None else -1
        self.is_any = all(check is None for check in checks)

    def hold(self, values: Sequence[Any], context: VerificationContext) -> bool:
        """Whether the values have these types. May raise what constraints do."""
        more, checks, at = len(values) - self.count, self.checks, self.variadic
        if more < self.least or (self.most is not None and more > self.most):
            return False
        if self.is_any:
            return True
        if more and at is not None:
            checks = (*checks[:at], *((checks[at],) * (more + 1)), *checks[at + 1 :])
        for check, value in zip(checks, values, strict=True):
            if check is not None and not _holds(check, value._type, context):
                return False
        return True


class _Verifier:
    """The checks of a definition, in the order of xDSL's."""

    def __init__(self, definition: OpDef, operands: _Values, results: _Values) -> None:
        self.definition, self.operands, self.results = definition, operands, results
        self.regions = [isinstance(region, SingleBlockRegionDef) for _, region in definition.regions]
        self.properties = [
            (name, isinstance(given, OptPropertyDef), _check(given.constr))
            for name, given in definition.properties.items()
        ]
        self.attributes = [
            (name, isinstance(given, OptAttributeDef), _check(given.constr))
            for name, given in definition.attributes.items()
        ]
        self.known: Iterable[OpTrait] = ()
        self.traits: Sequence[OpTrait] = ()

    def verify(self, op: Operation) -> None:
        """Raise what ``OpDef.verify`` does."""
        try:
            holds = self._holds(op)
        except VerifyException:
            holds = False
        if not holds:
            OpDef.verify(self.definition, op)
            return
        if self.definition.traits.traits is not self.known:
            self.known = self.definition.traits.traits
            self.traits = [trait for trait in self.known if type(trait).verify is not OpTrait.verify]
        for trait in self.traits:
            if type(trait) is not IsolatedFromAbove or not _is_isolated(op):
                trait.verify(op)

    def _holds(self, op: Operation) -> bool:
        """Whether all is as the definition says, but for the traits."""
        context = VerificationContext()
        if not self.operands.hold(op._operands, context) or not self.results.hold(op.results, context):
            return False
        if len(op.regions) != len(self.regions) or op._successors:
            return False
        for region, is_single in zip(op.regions, self.regions, strict=True):
            if is_single and (region._first_block is None or region._first_block is not region._last_block):
                return False
        properties = op.properties
        found = 0
        for name, is_optional, check in self.properties:
            if name in properties:
                found += 1
                if check is not None and not _holds(check, properties[name], context):
                    return False
            elif not is_optional:
                return False
        if found != len(properties):
            return False
        for name, is_optional, check in self.attributes:
            if name in op.attributes:
                if check is not None and not _holds(check, op.attributes[name], context):
                    return False
            elif not is_optional:
                return False
        return True


def _holds(check: type[Attribute] | AttrConstraint, attribute: Attribute, context: VerificationContext) -> bool:
    if isinstance(check, type):
        return isinstance(attribute, check)
    check.verify(attribute, context)
    return True


def _check(constraint: AttrConstraint) -> Check:
    if type(constraint) is AnyAttr:
        return None
    if type(constraint) is SymbolNameConstraint:
        return StringAttr
    return constraint.attr if type(constraint) is BaseAttr else constraint


def _verifier(definition: OpDef) -> _Verifier | None:
    """A verifier, or None where sizes are in attributes, several operands or results are variadic, regions are, or what
    they begin with is constrained.
    """
    operands, results = _values(definition.operands), _values(definition.results)
    regions = [region for _, region in definition.regions]
    plain = all(type(r) in (RegionDef, SingleBlockRegionDef) and _range_check(r.entry_args) == (None,) for r in regions)
    if operands is None or results is None or not plain or definition.successors or definition.options:
        return None
    return _Verifier(definition, operands, results)


def _values(given: Sequence[tuple[str, OperandDef | ResultDef]]) -> _Values | None:
    variadic = [number for number, (_, one) in enumerate(given) if isinstance(one, VariadicDef)]
    checks = [_range_check(one.constr, is_one=not isinstance(one, VariadicDef)) for _, one in given]
    if len(variadic) > 1 or () in checks:
        return None
    is_optional = any(isinstance(one, OptionalDef) for _, one in given)
    return _Values([check for found in checks for check in found], variadic[0] if variadic else None, is_optional)


def _range_check(constraint: RangeConstraint, *, is_one: bool = False) -> tuple[Check] | tuple[()]:
    """The check for each of a range, which may have the length one; none where it is not of that kind."""
    if is_one and type(constraint) is RangeLengthConstraint and constraint.length == EqIntConstraint(1):
        constraint = constraint.constraint
    return (_check(constraint.constr),) if type(constraint) is RangeOf else ()


def _is_isolated(op: Operation) -> bool:
    """Whether everything that is read inside of an operation is defined there, outside of others that are isolated."""
    used: list[int] = []
    defined: set[int] = set()
    pending: list[Region] = [*op.regions]
    while pending:
        for block in pending.pop().blocks:
            defined.update(map(id, block._args))
            for nested in ops_of(block):
                used += map(id, nested._operands)
                defined.update(map(id, nested.results))
                if nested.regions and not nested.has_trait(IsolatedFromAbove):
                    pending += nested.regions
    return defined.issuperset(used)
