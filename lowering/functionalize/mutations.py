"""What each mutating operator stores, as a functional operator and a write.

In-place operators keep dtype and shape of the tensor: ``x_f16.add_(y_f32)`` computes in f32 and casts back, ``copy_``
broadcasts. Filling and copying forget the old contents. Batch normalization in training changes its running statistics
although its schema does not say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.diagnostics import EtirError
from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import op_class
from etir.dialects.aten.table import load_table
from etir.dialects.dtypes import f64, i1
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.literals import ArgValue
from etir.dialects.schema import Argument, OpSchema, SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import sym_min
from etir.dialects.text import source_location
from etir.lowering.build.builder import is_tensor
from etir.lowering.build.dims import as_int_if_const
from etir.lowering.build.inference import infer
from etir.lowering.build.promotion import result_type
from etir.lowering.errors import E0413
from etir.lowering.functionalize.aliases import Alias, AliasSets, Origin, Storage
from etir.lowering.functionalize.emitter import Emitter, Tensor, tensor_of, with_element
from etir.lowering.functionalize.functional_variants import FunctionalVariants
from etir.lowering.functionalize.resizing import RESIZES, SETS, Resizing
from etir.lowering.functionalize.storage_reads import StorageReads
from etir.lowering.functionalize.strides import Layouts
from etir.lowering.functionalize.view_chain import Step
from etir.lowering.functionalize.views import (
    keeps_elements,
    put_back,
    repeats,
    viewed_argument,
)

_HIDDEN: dict[str, tuple[str, bool]] = {
    "aten.batch_norm.default": ("training", True),
    "aten.native_batch_norm.default": ("training", True),
    "aten._batch_norm_impl_index.default": ("training", False),
    "aten.cudnn_batch_norm.default": ("training", False),
    "aten.instance_norm.default": ("use_input_stats", True),
}
"""Operators that change running statistics without saying so: the flag that makes them, whether that is supported."""

_OTHER_NAMES_OF_POINTWISE = frozenset({"arctan2", "divide", "multiply", "subtract"})
"""Composite operators, which the table does not call pointwise, of operands that promote."""

_COMPARISONS = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
    }
)

_NO_EFFECT = frozenset({"detach_", "requires_grad_", "retain_grad", "record_stream"})
"""Operators that change no element and no size."""

_REPLACES_STORAGE = frozenset({"set_", "set_data", "_resize_output_", "sparse_resize_"})


def mutates(op: SchemaOp) -> bool:
    """Whether an operator changes a tensor that exists already."""
    return op.SCHEMA.kind is not SchemaKind.FUNCTIONAL or changes_statistics(op)


def changes_statistics(op: SchemaOp) -> bool:
    """Whether an operator changes running statistics without saying so."""
    hidden = _HIDDEN.get(op.name)
    return hidden is not None and bool(op.arg(hidden[0])) and bool(statistics_of(op))


def statistics_of(op: SchemaOp) -> list[SSAValue]:
    """The running statistics that a normalization was given."""
    return [v for v in (op.arg("running_mean"), op.arg("running_var")) if v is not None]


def written_tensors(op: SchemaOp) -> list[SSAValue]:
    """The tensors that an operator changes."""
    if op.SCHEMA.kind is SchemaKind.FUNCTIONAL:
        return statistics_of(op) if changes_statistics(op) else []
    if op.SCHEMA.name in _NO_EFFECT:
        return []
    return [v for a in op.SCHEMA.arguments if a.is_write for v in _tensors(op.arg(a.name))]


def _tensors(value: Any) -> list[SSAValue]:
    return [v for v in (value if isinstance(value, tuple) else (value,)) if is_tensor(v)]


class Mutations:
    """Replaces the mutating operators of one method."""

    def __init__(
        self,
        aliases: AliasSets,
        layouts: Layouts,
        variants: FunctionalVariants,
        claim_weight: Callable[[SSAValue], bool],
        storage_reads: StorageReads,
    ):
        self.aliases = aliases
        self.layouts = layouts
        self.variants = variants
        self.emit: Emitter = aliases.emit
        self._claim_weight = claim_weight
        self._storage_reads = storage_reads
        self._resizing = Resizing(aliases, storage_reads)

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, alias: Alias, value: SSAValue) -> None:
        """The tensor ``alias`` holds ``value`` (of its type) from now on, and with it all that shares its storage.

        Raises error E0413 for a view that cannot be put back, and for a weight.
        """
        self.check_writable(alias.storage)
        try:
            self._put_back(alias, value)
        except EtirError as refused:
            # What a view on the way has several times may be there once in the part that is written.
            direct = self._storage_reads.direct(alias)
            if direct is None:
                raise
            try:
                self._put_back(*direct(value))
            except EtirError:
                raise refused from None  # It names the view that the program has.

    def _put_back(self, alias: Alias, value: SSAValue) -> None:
        held = [(alias, value)]
        one = alias
        while one.view is not None:
            view, parent = one.view, one.view.parent
            value = put_back(
                Step(
                    self.emit,
                    one,
                    view,
                    self.aliases.current,
                    value,
                    self.layouts,
                    held[0],
                )
            )
            if repeats(one):
                del held[1:]  # what shows an element several times has it changed everywhere now
            one = parent
            held.append((one, value))
        self.aliases.store(alias.storage, held, alias.doubts)

    def check_writable(self, storage: Storage) -> None:
        """Raise error E0413 for a constant of the compiler's own; a weight of the user's module becomes state."""
        if storage.origin is not Origin.WEIGHT:
            return
        if self._claim_weight(storage.original):
            storage.origin = Origin.STATE
            return
        name = storage.original.owner.properties["symbol"].root_reference.data  # type: ignore[union-attr]
        raise E0413.error(
            f"'{self._name}' changes the weight @{name}, which is a constant of the program",
            source_location(self.emit.location),
            help="make it a buffer (register_buffer), or change a clone of it",
        )

    @property
    def _name(self) -> str:
        return "the end" if self.emit.point is None else self.emit.point.name

    def _error(self, why: str, help: str | None = None) -> EtirError:
        return E0413.error(f"'{self._name}' {why}", source_location(self.emit.location), help=help)

    # --- operators --------------------------------------------------------------------------------------------------

    def replace(self, op: SchemaOp) -> None:
        """Replace a mutating operator: emit what computes the new contents, and write them. Raises error E0413."""
        schema = op.SCHEMA
        if changes_statistics(op):
            self._batch_norm(op)
            return
        if schema.name in _NO_EFFECT:
            if op.results:
                self._bind_result(op.results[0], self.aliases.alias(op.arg("self")))
        elif op.name in RESIZES:
            self._bind_result(op.results[0], self._resizing.resize(op))
        elif op.name in SETS:
            self._bind_result(op.results[0], self._resizing.set(op))
        elif schema.name in _REPLACES_STORAGE and not self._keeps_size(op):
            raise self._error(
                "gives a tensor other memory or another size",
                "make a new tensor instead",
            )
        elif schema.name in _FILLS:
            alias = self.aliases.alias(op.arg("self"))
            self.write(alias, _FILLS[schema.name](self, op, alias))
            self._bind_result(op.results[0], alias)
        else:
            self._by_counterpart(op)
        self.aliases.removed.append(op)

    def _keeps_size(self, op: SchemaOp) -> bool:
        return (
            bool(op.results)
            and "resize" in op.SCHEMA.name
            and op.results[0].type == self.aliases.alias(op.operands[0]).type
        )

    def _bind_result(self, result: SSAValue, alias: Alias) -> None:
        self.aliases.bind(result, alias)
        if result.name_hint is not None and alias.value.name_hint is None:
            alias.value.name_hint = result.name_hint

    def _by_counterpart(self, op: SchemaOp) -> None:
        schema = op.SCHEMA
        if schema.name in _REPLACES_STORAGE:
            self._bind_result(op.results[0], self.aliases.alias(op.arg("self")))
            return
        functional = self.variants.find(schema)
        if functional is None:
            raise self._error(
                "has no functional overload",
                f"register {schema.namespace}::{schema.name.rstrip('_')} with the same arguments that returns the new "
                "contents of what it changes, after its own results",
            )
        if schema.kind is SchemaKind.INPLACE and viewed_argument(functional) is not None:
            alias = self.aliases.alias(op.arg(schema.arguments[0].name))
            kept = keeps_elements(functional, op, alias.type)
            if kept is None:
                new = self._resizing.view(op, functional, lambda alias: self._arguments(op, functional, [alias]))
                self._bind_result(op.results[0], new)
                return
            if kept:
                self._bind_result(op.results[0], alias)
                return
        written = {
            a.name: [self.aliases.alias(v) for v in _tensors(op.arg(a.name))] for a in schema.arguments if a.is_write
        }
        self.aliases.refresh(op)
        if schema.kind is SchemaKind.OUT:
            written = self._resized_outs(op, written)
        targets = [alias for group in written.values() for alias in group]
        arguments = self._arguments(op, functional, targets)
        own = [r for r in schema.returns if not r.is_write]
        own_results = _results_of(op, own)
        new_types = self._types(schema, functional, arguments, targets)
        hidden = _hidden_types(functional, len(own), len(written), own_results, targets)
        types = [*(r.type for r in own_results), *hidden, *new_types]
        made = self.emit.insert(op_class(functional).make(arguments, types, location=op.location))
        contents = made.results[len(types) - len(new_types) :]
        for alias, value in zip(targets, contents, strict=True):
            self.write(
                alias,
                self.emit.fit(value, alias.type, lambda alias=alias: self.aliases.current(alias)),
            )
        for old, new in zip(own_results, made.results, strict=False):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        self._bind_results(op, written)

    def _bind_results(self, op: SchemaOp, written: dict[str, list[Alias]]) -> None:
        by_set = {a.alias: written[a.name] for a in op.SCHEMA.arguments if a.is_write}
        results = iter(op.results)
        for returned in op.SCHEMA.returns:
            group = by_set.get(returned.alias) if returned.is_write else None
            if group is None:
                next(results, None)
                continue
            for alias, result in zip(group, results, strict=False):
                self._bind_result(result, alias)

    def _resized_outs(self, op: SchemaOp, outs: dict[str, list[Alias]]) -> dict[str, list[Alias]]:
        """The tensors that an ``out`` overload writes, with the sizes of the results. Raises error E0413."""
        results, sized = iter(op.results), {}
        for name, group in outs.items():
            types = [next(results, alias.value).type for alias in group]
            sized[name] = [
                self._resizing.out(op, alias, type)
                if isinstance(type, TensorType) and dims_of(type) != dims_of(alias.type)
                else alias
                for alias, type in zip(group, types, strict=True)
            ]
        return sized

    def _arguments(self, op: SchemaOp, functional: OpSchema, targets: Sequence[Alias]) -> dict[str, ArgValue]:
        """The arguments of the functional operator; the operands of ``op`` are current."""
        given = op.given_args()
        if op.SCHEMA.kind is SchemaKind.OUT:
            for argument in op.SCHEMA.out_arguments:
                given.pop(argument.name, None)
            if "dtype" in functional.index and "dtype" not in op.SCHEMA.index and len(targets) == 1:
                given["dtype"] = targets[0].type.element_type
            return given
        first, counterpart = op.SCHEMA.arguments[0].name, functional.arguments[0].name
        if first in given and first not in functional.index:
            given = {counterpart: given.pop(first), **given}
        # ``bernoulli_`` has a default where ``bernoulli`` has none.
        complete = op.args()
        for argument in functional.arguments:
            if argument.name not in given and not argument.has_default and argument.name in complete:
                given[argument.name] = complete[argument.name]
        return given

    def _types(
        self,
        schema: OpSchema,
        functional: OpSchema,
        arguments: dict[str, ArgValue],
        targets: Sequence[Alias],
    ) -> list[Attribute]:
        """The types of the new contents: the dims of the targets, the element type that the operator computes in."""
        if schema.kind is SchemaKind.MUTABLE and not schema.name.startswith("__i"):
            return [a.type for a in targets]
        if any(a.is_tensor_list for a in schema.arguments if a.is_write):
            return [a.type for a in targets]
        try:
            elements = [
                tensor.element_type for tensor in infer(functional, arguments) if isinstance(tensor, TensorType)
            ]
        except (LookupError, TypeError, ValueError):
            elements = [_element(functional, arguments, alias.type) for alias in targets]
        if len(elements) != len(targets):
            return [a.type for a in targets]
        return [with_element(a.type, e) for a, e in zip(targets, elements, strict=True)]

    def _batch_norm(self, op: SchemaOp) -> None:
        _, supported = _HIDDEN[op.name]
        statistics = [self.aliases.alias(v) for v in statistics_of(op)]
        if not supported or len(statistics) != 2:
            raise self._error(
                "changes running statistics",
                "use batch_norm, with both statistics or with none",
            )
        self.aliases.refresh(op)
        if op.SCHEMA.name == "instance_norm":
            self._instance_norm(op, statistics)
            return
        names = (
            "input",
            "weight",
            "bias",
            "running_mean",
            "running_var",
            "training",
            "momentum",
            "eps",
        )
        saved = tensor_type(statistics[0].type.element_type, dims_of(statistics[0].type))
        own = [r.type for r in op.results]
        types = [*own, *[saved] * (3 - len(own)), *(a.type for a in statistics)]
        results = self.emit.results(
            aten._native_batch_norm_legit_functional.default,
            {name: op.arg(name) for name in names},
            types,
        )
        for alias, value in zip(statistics, results[3:], strict=True):
            self.write(alias, value)
        for old, new in zip(op.results, results, strict=False):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        self.aliases.removed.append(op)

    def _instance_norm(self, op: SchemaOp, statistics: Sequence[Alias]) -> None:
        """The norm without statistics, and those of the batch's items averaged into the running ones."""
        given = op.given_args()
        x: SSAValue = op.arg("input")  # type: ignore[assignment]
        assert isinstance(x.type, TensorType)
        rank, kind = x.type.get_num_dims(), x.type.element_type
        items = tensor_type(kind, dims_of(x.type)[:2])
        apart = {"self": x, "dim": list(range(2, rank)), "correction": 1, "keepdim": False}
        seen = self.emit.results(aten.var_mean.correction, apart, [items, items])[::-1]
        momentum = op.arg("momentum")
        for alias, value in zip(statistics, seen, strict=True):
            averaged = tensor_type(kind, dims_of(x.type)[1:2])
            mean = self.emit.results(aten.mean.dim, {"self": value, "dim": [0], "keepdim": False}, [averaged])[0]
            mean = self.emit.fit(mean, alias.type, lambda alias=alias: self.aliases.current(alias))
            old = self.aliases.current(alias)
            lerp = {"self": old, "end": mean, "weight": momentum}
            self.write(alias, self.emit.results(aten.lerp.Scalar, lerp, [alias.type])[0])
        plain = {k: v for k, v in given.items() if k not in ("running_mean", "running_var")}
        new = self.emit.results(
            aten.instance_norm.default, {**plain, "running_mean": None, "running_var": None}, [op.results[0].type]
        )[0]
        new.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(new)
        self.aliases.removed.append(op)

    # --- fills ------------------------------------------------------------------------------------------------------

    def fill(self, op: SchemaOp, alias: Alias, value: ArgValue) -> SSAValue:
        """The contents after filling with a number or a tensor without dims."""
        if is_tensor(value):
            return self.copy(alias, value)  # type: ignore[arg-type]
        return self.emit.full(value, alias.type, lambda: self.aliases.current(alias))

    def copy(self, alias: Alias, source: SSAValue) -> SSAValue:
        """The contents after copying ``source``, which is a tensor of the program."""
        value = self.aliases.current(self.aliases.alias(source))
        try:
            return self.emit.fit(value, alias.type, lambda: self.aliases.current(alias))
        except ValueError as error:
            raise self._error(f"does not fit: {error}") from None

    def fill_diagonal(self, op: SchemaOp, alias: Alias) -> SSAValue:
        """The contents after ``fill_diagonal_`` of a matrix."""
        dims = dims_of(alias.type)
        known = [d for d in dims if isinstance(d, int)]
        wide = len(set(dims)) == 1 or (len(known) == 2 and known[0] <= known[1])
        if len(dims) != 2 or (op.arg("wrap") and not wide):
            raise self._error("is supported for matrices that do not wrap", "use index_put or where")
        contents = self.aliases.current(alias)
        diagonal = tensor_type(alias.type.element_type, [as_int_if_const(sym_min(*dims))])
        if len(known) == 2:
            fill = self.emit.full(op.arg("fill_value"), diagonal, lambda: alias.value)
        else:
            given = self.emit(aten.diagonal.default, diagonal, {"self": contents})
            fill = self.emit(aten.full_like.default, diagonal, {"self": given, "fill_value": op.arg("fill_value")})
        return self.emit(aten.diagonal_scatter.default, alias.type, {"self": contents, "src": fill})


_FILLS: dict[str, Callable[[Mutations, SchemaOp, Alias], SSAValue]] = {
    "copy_": lambda m, op, alias: m.fill(op, alias, op.arg("src")),
    "fill_": lambda m, op, alias: m.fill(op, alias, op.arg("value")),
    "zero_": lambda m, op, alias: m.fill(op, alias, 0),
    "fill_diagonal_": lambda m, op, alias: m.fill_diagonal(op, alias),
}
"""Operators whose new contents do not come from a functional variant."""


def _results_of(op: SchemaOp, own: Iterable[Argument]) -> list[SSAValue]:
    """The results that are not the written arguments themselves. They come first in every schema."""
    count = sum(1 for _ in own)
    return list(op.results[:count])


def _hidden_types(
    functional: OpSchema,
    own: int,
    written: int,
    own_results: Sequence[SSAValue],
    targets: Sequence[Alias],
) -> list[Attribute]:
    """Types of results that the functional operator has between the own ones and the new contents (QAT's mask)."""
    extra = len(functional.returns) - own - written
    if extra <= 0 or not own_results or any(r.is_list for r in functional.returns):
        return []
    return [with_element(tensor_of(own_results[0]), i1)] * extra


def _element(functional: OpSchema, arguments: dict[str, ArgValue], target: Tensor) -> Attribute:
    """The element type that an operator without an inference rule computes in."""
    if functional.name in _COMPARISONS or functional.name.startswith("logical_"):
        return i1
    if functional.name == "float_power":
        return f64
    if "p" not in load_table().flags(functional.op_name) and functional.name not in _OTHER_NAMES_OF_POINTWISE:
        return target.element_type
    operands: list[Any] = [
        value
        for argument in functional.arguments
        if (argument.is_tensor or argument.kind.value == "Scalar") and not argument.is_list
        if (value := arguments.get(argument.name)) is not None
    ]
    try:
        return result_type(operands)
    except (TypeError, ValueError):
        return target.element_type
