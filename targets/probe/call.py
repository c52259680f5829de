"""A sample call made concrete: its tensors by name, the file that makes the call, and what PyTorch gives for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch

from etir.targets.dtypes import ScalarType
from etir.targets.probe.program import BoolList, DoubleList, IntList, OneOpProgram, TensorList, TensorSlot, Value
from etir.targets.probe.samples import Sample, T

TORCH_DTYPES: dict[ScalarType, torch.dtype] = {
    ScalarType.Byte: torch.uint8,
    ScalarType.Char: torch.int8,
    ScalarType.Short: torch.int16,
    ScalarType.Int: torch.int32,
    ScalarType.Long: torch.int64,
    ScalarType.Half: torch.float16,
    ScalarType.Float: torch.float32,
    ScalarType.Double: torch.float64,
    ScalarType.ComplexHalf: torch.complex32,
    ScalarType.ComplexFloat: torch.complex64,
    ScalarType.ComplexDouble: torch.complex128,
    ScalarType.Bool: torch.bool,
    ScalarType.BFloat16: torch.bfloat16,
    ScalarType.UInt16: torch.uint16,
    ScalarType.UInt32: torch.uint32,
    ScalarType.UInt64: torch.uint64,
}
COMMON = (
    ScalarType.Byte,
    ScalarType.Char,
    ScalarType.Short,
    ScalarType.Int,
    ScalarType.Long,
    ScalarType.Half,
    ScalarType.Float,
    ScalarType.Double,
    ScalarType.Bool,
    ScalarType.BFloat16,
    ScalarType.ComplexHalf,
    ScalarType.ComplexFloat,
)
"""Types that a probe combines freely."""
RARE = (ScalarType.ComplexDouble, ScalarType.UInt16, ScalarType.UInt32, ScalarType.UInt64, ScalarType.Bits16, ScalarType.QInt8)
"""Types that a probe tries where all tensors have them or one tensor has."""
DATA_FILLS = ("data", "small", "unit")
_STORED_AS = {ScalarType.Bits16: torch.uint16}
_UNCHECKED = {"aten::rand.out", "aten::randn.out", "aten::empty.out", "aten::native_dropout.out"}
_NO_VALUE = {"dim_order_ops::_empty_dim_order.out"}

DimOrder = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a call: ``name`` is the argument's, ``item`` counts inside a list argument."""

    name: str
    item: int | None
    spec: T
    is_input: bool
    is_written: bool


@dataclass(frozen=True)
class Case:
    """A scalar type and a dim order for each tensor of a call."""

    dtypes: tuple[ScalarType, ...]
    dim_orders: tuple[DimOrder, ...]


class Call:
    """``sample`` of operator ``name``, whose signature is ``schema``."""

    def __init__(self, name: str, schema: str, sample: Sample):
        self.name = name
        self.sample = sample
        self.schema = torch._C.parse_schema(schema)
        self.tensors: list[Tensor] = []
        self._slots: list[TensorSlot] = []
        self._values: list[Value] = []
        self._args: list[int] = []
        inputs = [a for a in self.schema.arguments if not _is_result(a)]
        results = [a for a in self.schema.arguments if _is_result(a)]
        if len(inputs) != len(sample.args):
            raise ValueError(f"sample of {name} has {len(sample.args)} arguments, its schema {len(inputs)}")
        for argument, value in zip(inputs, sample.args, strict=True):
            self._add_input(argument, value)
        self.base = tuple(t.spec.base for t in self.tensors)
        shapes = sample.outs if sample.outs is not None else self._result_shapes()
        for argument, shape in zip(results, shapes, strict=True):
            self._add_result(argument, shape)
        self.base = tuple(t.spec.base for t in self.tensors)
        self._finish()

    def variant(self, case: Case) -> bytes:
        """The file for ``case``."""
        for i, (tensor, slot) in enumerate(zip(self.tensors, self._slots, strict=True)):
            data = None
            if tensor.is_input:
                data = _bytes(_contents(tensor.spec, i, case.dtypes[i]), case.dim_orders[i])
            self.program.set_tensor(slot, case.dtypes[i], case.dim_orders[i], data)
        return bytes(self.program.bytes)

    def reference(self, dtypes: Sequence[ScalarType]) -> list[torch.Tensor] | None:
        """What PyTorch's operator of the same name writes for these types, ``None`` where it refuses them."""
        op = self._torch_op()
        if op is None or self.name in _UNCHECKED or any(d not in TORCH_DTYPES for d in dtypes):
            return None
        tensors = iter(
            _contents(t.spec, i, d) if t.is_input else torch.zeros(t.spec.shape, dtype=TORCH_DTYPES[d])
            for i, (t, d) in enumerate(zip(self.tensors, dtypes, strict=True))
        )
        return self._run_torch(op, tensors)

    def dtype_cases(self, limit: int) -> Iterator[Case]:
        """Combinations of scalar types: all of the common ones if at most ``limit``, else all near a plain one.

        A plain combination gives every data tensor the same type and every index or mask tensor its usual one; near
        means up to two tensors with another type. Rare types take part in plain combinations and one step from them.
        """
        count = len(self.tensors)
        seen: dict[tuple[ScalarType, ...], None] = {}
        if len(COMMON) ** count <= limit:
            seen.update(dict.fromkeys(itertools.product(COMMON, repeat=count)))
        else:
            seen.update(dict.fromkeys(self._near(COMMON, COMMON, steps=2)))
        seen.update(dict.fromkeys(self._near((*COMMON, *RARE), RARE, steps=1)))
        seen.update(dict.fromkeys(self._near(RARE, (*COMMON, *RARE), steps=1)))
        orders = tuple(tuple(range(len(t.spec.shape))) for t in self.tensors)
        for combination in seen:
            yield Case(combination, orders)

    def _near(
        self, plain: Sequence[ScalarType], other: Sequence[ScalarType], steps: int
    ) -> Iterator[tuple[ScalarType, ...]]:
        for dtype in plain:
            start = tuple(dtype if t.spec.fill in DATA_FILLS else b for t, b in zip(self.tensors, self.base, strict=True))
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
            yield Case(self.base, combination)

    @property
    def results(self) -> list[int]:
        """Indices into ``tensors`` of what the call writes."""
        return [i for i, t in enumerate(self.tensors) if t.is_written]

    def _add(self, tensor: Tensor, dynamic: bool = False) -> int:
        self.tensors.append(tensor)
        slot = TensorSlot(tensor.spec.shape, tensor.is_input, tensor.is_written, dynamic)
        self._slots.append(slot)
        self._values.append(slot)
        return len(self._values) - 1

    def _add_value(self, value: Value) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def _add_input(self, argument: Any, value: Any) -> None:
        kind = str(argument.type)
        written = argument.alias_info is not None and argument.alias_info.is_write
        if isinstance(value, T):
            index = self._add(Tensor(argument.name, None, value, True, written))
        elif isinstance(value, tuple) and "Tensor" in kind:
            items = tuple(
                -1 if v is None else self._add(Tensor(argument.name, i, v, True, False)) for i, v in enumerate(value)
            )
            index = self._add_value(TensorList(items, optional="Optional" in kind))
        elif isinstance(value, tuple):
            index = self._add_value(self._list(kind, value))
        elif isinstance(value, ScalarType):
            index = self._add_value(int(value))
        else:
            index = self._add_value(value)
        self._args.append(index)

    def _list(self, kind: str, value: tuple[Any, ...]) -> Value:
        if "float" in kind:
            return DoubleList(value)
        if "bool" in kind:
            return BoolList(value)
        return IntList(tuple(self._add_value(v) for v in value))

    def _add_result(self, argument: Any, shape: T | tuple[T, ...]) -> None:
        if isinstance(shape, tuple):
            items = tuple(self._add(Tensor(argument.name, i, s, False, True)) for i, s in enumerate(shape))
            self._args.append(self._add_value(TensorList(items)))
        else:
            self._args.append(self._add(Tensor(argument.name, None, shape, False, True), self.sample.dynamic))

    def _finish(self) -> None:
        args = list(self._args)
        written = [i for i, v in enumerate(self._values) if isinstance(v, TensorSlot) and v.mutable]
        returned = self.schema.returns
        if len(returned) > 1:
            args.append(self._add_value(TensorList(tuple(written))))
        elif len(returned) == 1:
            args.append(written[0])
        else:
            args.append(self._args[-1])
        self.program = OneOpProgram(self.name, self._values, args, written)

    def _torch_op(self) -> Any:
        namespace, _, rest = self.name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace), base, None)
        return None if packet is None else getattr(packet, overload or "default", None)

    def _result_shapes(self) -> list[Any]:
        results = [a for a in self.schema.arguments if _is_result(a)]
        if not results:
            return []
        op = self._torch_op()
        inputs = iter(_contents(t.spec, i, t.spec.base) for i, t in enumerate(self.tensors))
        outs: list[Any] = []
        for argument in results:
            if "List" in str(argument.type):
                outs.append([torch.zeros(0) for _ in range(self._list_length())])
            else:
                outs.append(torch.zeros(0, dtype=torch.float32))
        for dtypes in itertools.product((ScalarType.Float, ScalarType.Long, ScalarType.Bool, ScalarType.ComplexFloat), repeat=len(results)):
            tensors = list(_contents(t.spec, i, t.spec.base) for i, t in enumerate(self.tensors))
            fresh: list[Any] = [
                [torch.zeros(0) for _ in out] if isinstance(out, list) else torch.zeros(0, dtype=TORCH_DTYPES[d])
                for out, d in zip(outs, dtypes, strict=True)
            ]
            if self._run_torch(op, iter(tensors), fresh) is not None:
                return [
                    tuple(T(tuple(o.shape)) for o in out) if isinstance(out, list) else T(tuple(out.shape), dtype=d)
                    for out, d in zip(fresh, dtypes, strict=True)
                ]
        raise ValueError(f"PyTorch does not run the sample of {self.name}")

    def _list_length(self) -> int:
        # The three operators with a list of results split dimension ``dim`` of their first argument.
        shape = self.tensors[0].spec.shape
        arguments = dict(zip((a.name for a in self.schema.arguments), self.sample.args, strict=False))
        if "split_sizes" in arguments:
            return len(arguments["split_sizes"])
        return shape[arguments["dim"]] // arguments.get("split_size", 1)

    def _run_torch(self, op: Any, tensors: Iterator[torch.Tensor], outs: list[Any] | None = None) -> list[torch.Tensor] | None:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        written: list[torch.Tensor] = []
        samples = iter(self.sample.args)
        fresh = iter(outs) if outs is not None else None
        for argument in self.schema.arguments:
            value: Any
            if _is_result(argument):
                if fresh is not None:
                    value = next(fresh)
                elif "List" in str(argument.type):
                    value = [next(tensors) for t in self.tensors if t.name == argument.name]
                else:
                    value = next(tensors)
                written.extend(value if isinstance(value, list) else [value])
            else:
                value = _torch_value(next(samples), tensors)
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = value.clone()
                    written.append(value)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        if "memory_format" in keywords and keywords["memory_format"] is not None:
            keywords["memory_format"] = torch.contiguous_format
        try:
            op(*positional, **keywords)
        except (RuntimeError, NotImplementedError, IndexError, ValueError):
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


def _is_result(argument: Any) -> bool:
    alias = argument.alias_info
    return bool(argument.kwarg_only and alias is not None and alias.is_write)


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
        case "small":
            values = 1 + (count * 5 + slot) % 3
        case "unit":
            values = (count + slot) % 2
        case "mask":
            values = (count + 1) % 2
        case "zero":
            values = count * 0
        case "positions":
            values = count
        case _:
            values = count % int(spec.fill.removeprefix("index"))
    return values.reshape(spec.shape).to(TORCH_DTYPES.get(dtype) or _STORED_AS.get(dtype, torch.uint8))


@lru_cache(maxsize=4096)
def _bytes(tensor: torch.Tensor, dim_order: DimOrder) -> bytes:
    stored = tensor.permute(dim_order).contiguous() if dim_order else tensor
    return stored.reshape(-1).view(torch.uint8).numpy().tobytes()
