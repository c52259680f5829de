"""A sample call made concrete: its tensors by name, the file that makes the call, and what PyTorch gives for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import torch

from etir.dialects.schema import Argument, OpSchema
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model, write_pte
from etir.targets.rules import DimOrder, Literal
from etir.tools.probe.sample import Sample, T

TORCH_DTYPES: dict[ScalarType, torch.dtype] = {
    ScalarType.BYTE: torch.uint8,
    ScalarType.CHAR: torch.int8,
    ScalarType.SHORT: torch.int16,
    ScalarType.INT: torch.int32,
    ScalarType.LONG: torch.int64,
    ScalarType.HALF: torch.float16,
    ScalarType.FLOAT: torch.float32,
    ScalarType.DOUBLE: torch.float64,
    ScalarType.COMPLEXHALF: torch.complex32,
    ScalarType.COMPLEXFLOAT: torch.complex64,
    ScalarType.COMPLEXDOUBLE: torch.complex128,
    ScalarType.BOOL: torch.bool,
    ScalarType.BFLOAT16: torch.bfloat16,
    ScalarType.UINT16: torch.uint16,
    ScalarType.UINT32: torch.uint32,
    ScalarType.UINT64: torch.uint64,
}
_UNSIGNED = (ScalarType.BYTE, ScalarType.UINT16, ScalarType.UINT32, ScalarType.UINT64)
_STORED_AS = {ScalarType.BITS16: torch.uint16}
COMMON = tuple(
    ScalarType[n]
    for n in [
        "BYTE",
        "CHAR",
        "SHORT",
        "INT",
        "LONG",
        "HALF",
        "FLOAT",
        "DOUBLE",
        "BOOL",
        "BFLOAT16",
        "COMPLEXHALF",
        "COMPLEXFLOAT",
    ]
)
"""Types that a probe combines freely."""
RARE = tuple(ScalarType[n] for n in ["COMPLEXDOUBLE", "UINT16", "UINT32", "UINT64", "BITS16", "QINT8"])
"""Types that a probe tries where all tensors have them, but for one with a usual type, and the other way round."""
TYPICAL = (ScalarType.LONG, ScalarType.HALF, ScalarType.FLOAT, ScalarType.BOOL)
STORED = (*COMMON[:-2], ScalarType.UINT16, ScalarType.BITS16)
"""Types that quantized data and its parameters are stored in, and others for contrast."""
USUAL = (ScalarType.LONG, ScalarType.FLOAT)
DATA_FILLS = ("data", "signed", "small", "sparse", "unit")
_RESULT_TYPES = (ScalarType.FLOAT, ScalarType.LONG, ScalarType.BOOL, ScalarType.INT, ScalarType.COMPLEXFLOAT)
_WITHOUT_REFERENCE = (
    *("aten::rand.out", "aten::randn.out", "aten::empty.out", "aten::native_dropout.out"),  # not determined
    *("llama::", "preprocess::"),  # PyTorch would run the very same kernels
    *("executorch_prim::", "aten::sym_", "aten::_local_scalar_dense"),  # the result is no tensor
)
_FUNCTIONAL_OVERLOADS = {"out": "default", "Tensor_out": "tensor", "dtype_out": "dtype"}
_REFUSALS = (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError, AssertionError)
_PLANNED_BYTES_PER_ELEMENT = 16


@dataclass(frozen=True)
class Tensor:
    """One tensor of a call: ``name`` is the argument's, ``value`` the index in the value table of the file."""

    name: str
    value: int
    spec: T
    is_input: bool
    is_written: bool


@dataclass(frozen=True)
class Case:
    """A scalar type and a dim order for each tensor of a call."""

    dtypes: tuple[ScalarType, ...]
    dim_orders: tuple[DimOrder, ...]


class Call:
    """``sample`` of the operator that the runtime calls ``name`` and that has ``schema``.

    With ``grown`` the results have room for one more row than they need, and the kernel must give them their size;
    the attribute says whether there is any result with rows.
    """

    def __init__(self, name: str, schema: OpSchema, sample: Sample, *, grown: bool = False, is_prim: bool = False):
        self.name = name
        self.schema = schema
        self.sample = sample
        self.grown = False
        self._grow = grown
        self._is_prim = is_prim
        self.tensors: list[Tensor] = []
        self._values: list[model.EValue] = []
        self._args: list[int] = []
        self._inputs = [a for a in schema.arguments if not _is_result(a)]
        self._result_arguments = [a for a in schema.arguments if _is_result(a)]
        for argument, value in zip(self._inputs, sample.args, strict=True):
            self._add_input(argument, value)
        shapes = sample.outs if sample.outs is not None else self._result_shapes()
        for argument, shape in zip(self._result_arguments, shapes, strict=True):
            self._add_result(argument, shape)
        self.base = Case(
            tuple(t.spec.base for t in self.tensors),
            tuple(t.spec.dim_order or tuple(range(len(t.spec.shape))) for t in self.tensors),
        )
        self._finish()

    @property
    def results(self) -> list[int]:
        """Indices into ``tensors`` of what the call writes."""
        return [i for i, t in enumerate(self.tensors) if t.is_written]

    @property
    def others(self) -> dict[str, Literal]:
        """The arguments that are no tensors, by name."""
        return {a.name: v for a, v in zip(self._inputs, self.sample.args, strict=True) if not a.is_tensor}  # type: ignore[misc]

    @property
    def shapes(self) -> dict[str, Any]:
        """The shapes of the tensors, as :meth:`by_name`."""
        return self.by_name([t.spec.shape for t in self.tensors])

    def by_name(self, items: Sequence[Any]) -> dict[str, Any]:
        """One item per tensor of the call as one per argument, in the form that the manifest takes."""
        found: dict[str, Any] = {}
        for argument in self.schema.arguments:
            if argument.is_tensor:
                own = [item for t, item in zip(self.tensors, items, strict=True) if t.name == argument.name]
                found[argument.name] = own if argument.is_list else own[0] if own else None
        return found

    def file(self, case: Case) -> bytes:
        """The ``.pte`` file that makes the call with the types and dim orders of ``case``."""
        values = list(self._values)
        constants: list[Buffer] = [b""]
        initial: list[Buffer] = [b""]
        for i, tensor in enumerate(self.tensors):
            planned = values[tensor.value]
            assert isinstance(planned, model.Tensor)
            index = 0
            if tensor.is_input:
                store = initial if tensor.is_written else constants
                index = len(store)
                store.append(_bytes(_contents(tensor.spec, i, case.dtypes[i]), case.dim_orders[i]))
            values[tensor.value] = replace(
                planned, scalar_type=case.dtypes[i], dim_order=case.dim_orders[i], data_buffer_idx=index
            )
        plan = replace(self._plan, values=tuple(values))
        mutable = tuple(initial) if len(initial) > 1 else ()
        return write_pte(model.Program((plan,), tuple(constants), mutable))

    def natural(self) -> tuple[ScalarType, ...]:
        """The types of ``base``, with those that PyTorch's functional operator gives its results: what programs have.

        Those of ``base`` where there is no such operator.
        """
        inputs = [_contents(t.spec, i, t.spec.base) for i, t in enumerate(self.tensors) if t.is_input]
        packet = getattr(getattr(torch.ops, self.schema.namespace), self.schema.name)
        names = [a.name for a in self._inputs]
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if [a.name for a in op._schema.arguments] != names or any(a.alias_info for a in op._schema.arguments):
                continue
            tensors = iter(inputs)
            values = {a.name: _torch_value(v, tensors) for a, v in zip(self._inputs, self.sample.args, strict=True)}
            try:
                found = op(**values)
            except _REFUSALS:
                continue
            results = [
                r for r in (found if isinstance(found, tuple | list) else (found,)) if isinstance(r, torch.Tensor)
            ]
            if len(results) != len(self.results):
                continue
            known = {own: scalar for scalar, own in TORCH_DTYPES.items()}
            types = list(self.base.dtypes)
            for index, result in zip(self.results, results, strict=True):
                types[index] = known[result.dtype]
            return tuple(types)
        return self.base.dtypes

    def reference(self, dtypes: Sequence[ScalarType]) -> list[torch.Tensor] | None:
        """What PyTorch's operator of the same name writes for these types, ``None`` where it refuses them.

        Many of PyTorch's operators take results of one type only, where the runtime casts; then PyTorch's result is
        cast here.
        """
        if self.name.startswith(_WITHOUT_REFERENCE) or any(d not in TORCH_DTYPES for d in dtypes):
            return None
        inputs = [
            _contents(t.spec, i, d) for i, (t, d) in enumerate(zip(self.tensors, dtypes, strict=True)) if t.is_input
        ]
        results = [(t, d) for t, d in zip(self.tensors, dtypes, strict=True) if not t.is_input]
        if self.schema.namespace == "quantized_decomposed":
            return self._functional_reference(inputs, results)
        op = self._torch_op(self.schema.overload or "default")
        found = self._run_torch(op, iter(inputs), _zeros(results))
        if found is not None or not results:
            return found
        wanted = [d for _, d in results]
        for natural in COMMON:
            types = [natural if d == wanted[0] else d for d in wanted]
            changed = [(t, d) for (t, _), d in zip(results, types, strict=True)]
            found = self._run_torch(op, iter(inputs), _zeros(changed))
            if found is not None:
                return [tensor.to(TORCH_DTYPES[d]) for tensor, d in zip(found, wanted, strict=True)]
        return None

    def _functional_reference(
        self, inputs: Sequence[torch.Tensor], results: Sequence[tuple[Tensor, ScalarType]]
    ) -> list[torch.Tensor] | None:
        """From the functional operator: PyTorch's out variants of these run the runtime's own kernels."""
        op = self._torch_op(_FUNCTIONAL_OVERLOADS[self.schema.overload])
        tensors = iter(inputs)
        values = {a.name: _torch_value(v, tensors) for a, v in zip(self._inputs, self.sample.args, strict=True)}
        positional = [values[a.name] for a in self._inputs if not a.kwarg_only]
        try:
            found = op(*positional, **{a.name: values[a.name] for a in self._inputs if a.kwarg_only})
        except _REFUSALS:
            return None
        found = found if isinstance(found, tuple) else (found,)
        return [tensor.reshape(t.spec.shape).to(TORCH_DTYPES[d]) for tensor, (t, d) in zip(found, results, strict=True)]

    def dtype_cases(self, limit: int) -> Iterator[Case]:
        """Combinations of scalar types: all of the common ones if at most ``limit``, else all near a plain one.

        A plain combination gives every data tensor the same type and every index or mask tensor its usual one; near
        means one tensor with another type, or two for some plain ones. Of rare types there are few combinations.
        """
        count = len(self.tensors)
        seen: dict[tuple[ScalarType, ...], None] = {}
        if len(COMMON) ** count <= limit:
            seen.update(dict.fromkeys(itertools.product(COMMON, repeat=count)))
        else:
            seen.update(dict.fromkeys(self._near(COMMON, COMMON, steps=1)))
            seen.update(dict.fromkeys(self._near(TYPICAL, COMMON, steps=2)))
        seen.update(dict.fromkeys(self._near(RARE, USUAL, steps=1)))
        seen.update(dict.fromkeys(self._near(USUAL, RARE, steps=1)))
        for combination in seen:
            if not any(d in t.spec.exclude for d, t in zip(combination, self.tensors, strict=True)):
                yield Case(combination, self.base.dim_orders)

    def near_base(self, steps: int) -> Iterator[Case]:
        """The usual types with up to ``steps`` of them changed: for kernels whose tensors play different roles."""
        seen = {self.base.dtypes: None}
        for places in itertools.combinations(range(len(self.tensors)), min(steps, len(self.tensors))):
            for types in itertools.product(STORED, repeat=len(places)):
                changed = list(self.base.dtypes)
                for place, new in zip(places, types, strict=True):
                    changed[place] = new
                seen[tuple(changed)] = None
        for combination in seen:
            yield Case(combination, self.base.dim_orders)

    def _near(
        self, plain: Sequence[ScalarType], other: Sequence[ScalarType], steps: int
    ) -> Iterator[tuple[ScalarType, ...]]:
        for dtype in plain:
            pairs = zip(self.tensors, self.base.dtypes, strict=True)
            start = tuple(dtype if t.spec.fill in DATA_FILLS else base for t, base in pairs)
            yield start
            for places in itertools.combinations(range(len(start)), min(steps, len(start))):
                for types in itertools.product(other, repeat=len(places)):
                    changed = list(start)
                    for place, new in zip(places, types, strict=True):
                        changed[place] = new
                    yield tuple(changed)

    def dim_order_cases(self) -> Iterator[Case]:
        """Every combination of plain, channels-last and last-two-swapped orders, with the usual dtypes."""
        choices = [dim_orders(len(t.spec.shape)) for t in self.tensors]
        for combination in itertools.product(*choices):
            yield Case(self.base.dtypes, combination)

    def _add_tensor(self, name: str, spec: T, *, is_input: bool, is_written: bool) -> int:
        shape, dynamic = spec.shape, self.sample.dynamic and not is_input
        if self._grow and shape and not is_input:
            self.grown = True
            shape, dynamic = (shape[0] + 1, *shape[1:]), True
        dynamism = model.TensorShapeDynamism.DYNAMIC_BOUND if dynamic else model.TensorShapeDynamism.STATIC
        index = self._add_value(
            model.Tensor(ScalarType.FLOAT, shape, tuple(range(len(shape))), shape_dynamism=dynamism)
        )
        self.tensors.append(Tensor(name, index, spec, is_input, is_written))
        return index

    def _add_value(self, value: model.EValue) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _add_input(self, argument: Argument, value: Any) -> None:
        if isinstance(value, T):
            index = self._add_tensor(argument.name, value, is_input=True, is_written=argument.is_write)
        elif argument.is_tensor_list:
            items = tuple(
                -1 if v is None else self._add_tensor(argument.name, v, is_input=True, is_written=False) for v in value
            )
            kind = model.OptionalTensorList if argument.elements_optional else model.TensorList
            index = self._add_value(kind(items))
        elif isinstance(value, tuple):
            index = self._add_value(self._list(argument, value))
        else:
            index = self._add_value(_literal(value))
        self._args.append(index)

    def _list(self, argument: Argument, value: tuple[Any, ...]) -> model.EValue:
        base = argument.type_text.partition("[")[0]
        if base == "float":
            return model.DoubleList(value)
        if base == "bool":
            return model.BoolList(value)
        return model.IntList(tuple(self._add_value(model.Int(v)) for v in value))

    def _add_result(self, argument: Argument, shape: T | tuple[T, ...]) -> None:
        if isinstance(shape, tuple):
            items = tuple(self._add_tensor(argument.name, s, is_input=False, is_written=True) for s in shape)
            self._args.append(self._add_value(model.TensorList(items)))
        else:
            self._args.append(self._add_tensor(argument.name, shape, is_input=False, is_written=True))

    def _finish(self) -> None:
        """Plan the written tensors, with room for any type, and make the method that the cases vary."""
        args = list(self._args)
        written = [t.value for t in self.tensors if t.is_written]
        offset = 0
        for index in written:
            tensor = self._values[index]
            assert isinstance(tensor, model.Tensor)
            self._values[index] = replace(tensor, allocation_info=model.AllocationDetails(1, offset))
            offset += max(prod(tensor.sizes), 1) * _PLANNED_BYTES_PER_ELEMENT
        outputs = tuple(written)
        if self._is_prim and not written:
            outputs = (self._add_value(model.Int(0)),)
            args += outputs
        elif len(self.schema.returns) > 1:
            args.append(self._add_value(model.TensorList(tuple(written))))
        elif not self._is_prim:
            args.append(written[0] if self.schema.returns else args[-1])
        base, _, overload = self.name.partition(".")
        self._plan = model.ExecutionPlan(
            name="forward",
            values=tuple(self._values),
            inputs=(),
            outputs=outputs,
            chains=(model.Chain((model.KernelCall(0, tuple(args)),)),),
            operators=(model.Operator(base, overload),),
            non_const_buffer_sizes=(0, offset) if offset else (0,),
        )

    def _torch_op(self, overload: str) -> Any:
        return getattr(getattr(getattr(torch.ops, self.schema.namespace), self.schema.name), overload)

    def _result_shapes(self) -> list[T]:
        """Shapes and usual types of the results, from the first types for which PyTorch takes empty ones."""
        op = self._torch_op(self.schema.overload or "default")
        for dtypes in itertools.product(_RESULT_TYPES, repeat=len(self._result_arguments)):
            inputs = [_contents(t.spec, i, t.spec.base) for i, t in enumerate(self.tensors)]
            fresh = [torch.zeros(0, dtype=TORCH_DTYPES[d]) for d in dtypes]
            if self._run_torch(op, iter(inputs), fresh) is not None:
                return [T(tuple(out.shape), dtype=d) for out, d in zip(fresh, dtypes, strict=True)]
        raise ValueError(f"PyTorch does not run the sample {self.sample} of {self.name}")

    def _run_torch(
        self, op: Any, inputs: Iterator[torch.Tensor], results: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """Run PyTorch's ``op`` on this sample, writing to ``results``; ``None`` if it refuses."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        written: list[torch.Tensor] = []
        samples = iter(self.sample.args)
        fresh = iter(results)
        for argument in self.schema.arguments:
            value: Any
            if not _is_result(argument):
                value = _torch_value(next(samples), inputs)
                if argument.is_write:
                    value = value.clone()
                    written.append(value)
            elif argument.is_list:
                value = [next(fresh) for t in self.tensors if t.name == argument.name]
                written.extend(value)
            else:
                value = next(fresh)
                written.append(value)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        if keywords.get("memory_format") is not None:
            keywords["memory_format"] = torch.contiguous_format
        try:
            op(*positional, **keywords)
        except _REFUSALS:
            return None
        return written


def dim_orders(rank: int) -> tuple[DimOrder, ...]:
    """The orders a probe tries for a tensor of this rank: plain, the last two swapped, channels last."""
    plain = tuple(range(rank))
    if rank < 2:
        return (plain,)
    orders = [plain, (*plain[:-2], plain[-1], plain[-2])]
    if rank in (4, 5):
        orders.append((0, *plain[2:], 1))
    return tuple(orders)


def _is_result(argument: Argument) -> bool:
    return argument.is_write and argument.kwarg_only


def _literal(value: Any) -> model.EValue:
    match value:
        case None:
            return model.Null()
        case bool():
            return model.Bool(value)
        case int():
            return model.Int(int(value))
        case float():
            return model.Double(value)
        case _:
            return model.String(value)


def _zeros(results: Sequence[tuple[Tensor, ScalarType]]) -> list[torch.Tensor]:
    return [torch.zeros(t.spec.shape, dtype=TORCH_DTYPES[d]) for t, d in results]


def _torch_value(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, T):
        return next(tensors)
    if isinstance(value, tuple):
        return [_torch_value(v, tensors) for v in value]
    if isinstance(value, ScalarType):
        return TORCH_DTYPES[value]
    return value


@lru_cache(maxsize=4096)
def _contents(spec: T, slot: int, dtype: ScalarType) -> torch.Tensor:
    count = torch.arange(prod(spec.shape))
    match spec.fill:
        case "data":
            values = 1 + (count * 5 + slot) % 4
        case "signed":
            values = ((count * 5 + slot) % 9 - 4) / 2
            if dtype in _UNSIGNED:
                values = values.abs()
        case "sparse":
            values = (count % 8 == 3).long()
        case "small":
            values = 1 + (count * 5 + slot) % 3
        case "unit":
            values = (count + slot) % 2
        case "mask":
            values = (count + 1) % 2
        case "zero":
            values = count * 0
        case "special" | "negative" | "extreme" | "offset" | "precise":
            return _hostile(spec, slot, dtype)
        case _:
            values = count % int(spec.fill.removeprefix("index"))
    return values.reshape(spec.shape).to(TORCH_DTYPES.get(dtype) or _STORED_AS.get(dtype, torch.uint8))


_PRECISE: dict[ScalarType, list[float]] = {
    ScalarType.DOUBLE: [1 + 2.0**-40, 3.0 - 2.0**-44, 1e30, 2.5, 1 - 2.0**-45],
    ScalarType.LONG: [2**53 + 1, -(2**53) - 3, 2**24 + 1, 5, -(2**54) + 2],
    ScalarType.INT: [2**24 + 1, -(2**24) - 3, 2**26 + 7, 5, -(2**25) + 1],
}


def _hostile(spec: T, slot: int, dtype: ScalarType) -> torch.Tensor:
    """Contents that kernels are not written with in mind, by the type that holds them."""
    own = TORCH_DTYPES.get(dtype, torch.uint8)
    is_float = own.is_floating_point or own.is_complex
    count = prod(spec.shape)
    table: list[float]
    match spec.fill:
        case "special" if is_float:
            table = [1.0, float("nan"), -0.0, float("inf"), -2.5, 0.0, float("-inf"), 3.0]
        case "extreme" if is_float:
            table = [torch.finfo(own).max / 64, torch.finfo(own).tiny * 64, -torch.finfo(own).max / 64, 1.0, 0.0]
        case "extreme" if own is not torch.bool:
            low, high = torch.iinfo(own).min, torch.iinfo(own).max
            numbers = [low, high, 0, low + 1, 1, high - 1]
            return torch.tensor([numbers[(i + slot) % len(numbers)] for i in range(count)], dtype=own).reshape(
                spec.shape
            )
        case "precise" if dtype in _PRECISE:
            own_values = [_PRECISE[dtype][(i * 3 + slot) % 5] for i in range(count)]
            return torch.tensor(own_values, dtype=own).reshape(spec.shape)
        case "offset":
            base = (
                60 if own in (torch.int8, torch.uint8) else 1000 if own in (torch.float16, torch.bfloat16) else 100_000
            )
            table = [base, base + 1, base + 3, base + 2]
        case _:
            table = [-7.0, -1.0, -3.0, -2.0, -5.0]
            table = [abs(v) for v in table] if dtype in _UNSIGNED else table
    numbers = [table[(i * 3 + slot) % len(table)] for i in range(count)]
    return torch.tensor(numbers, dtype=torch.float64).reshape(spec.shape).to(own)


@lru_cache(maxsize=4096)
def _bytes(tensor: torch.Tensor, dim_order: DimOrder) -> bytes:
    stored = tensor.permute(dim_order).contiguous() if dim_order else tensor
    return stored.reshape(-1).view(torch.uint8).numpy().tobytes()
