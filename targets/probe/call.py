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
_RESULT_TYPES = (ScalarType.Float, ScalarType.Long, ScalarType.Bool, ScalarType.Int, ScalarType.ComplexFloat)
_UNCHECKED = {"aten::rand.out", "aten::randn.out", "aten::empty.out", "aten::native_dropout.out"}

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
    """``sample`` of operator ``name``, whose signature is ``schema``.

    With ``grown`` the results have room for one more row than they need, and the kernel must give them their size.
    """

    def __init__(self, name: str, schema: str, sample: Sample, *, grown: bool = False):
        self.name = name
        self._grown = grown
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

    @property
    def base_orders(self) -> tuple[DimOrder, ...]:
        """The usual dim order of each tensor."""
        return tuple(t.spec.dim_order or tuple(range(len(t.spec.shape))) for t in self.tensors)

    def variant(self, case: Case) -> bytes:
        """The file for ``case``."""
        for i, (tensor, slot) in enumerate(zip(self.tensors, self._slots, strict=True)):
            data = None
            if tensor.is_input:
                data = _bytes(_contents(tensor.spec, i, case.dtypes[i]), case.dim_orders[i])
            self.program.set_tensor(slot, case.dtypes[i], case.dim_orders[i], data)
        return bytes(self.program.bytes)

    def reference(self, dtypes: Sequence[ScalarType]) -> list[torch.Tensor] | None:
        """What PyTorch's operator of the same name writes for these types, ``None`` where it refuses them.

        Many of PyTorch's operators take results of one type only, where the runtime casts; then PyTorch's result is
        cast here.
        """
        op = self._torch_op()
        if op is None or self.name in _UNCHECKED or any(d not in TORCH_DTYPES for d in dtypes):
            return None
        inputs = [_contents(t.spec, i, d) for i, (t, d) in enumerate(zip(self.tensors, dtypes, strict=True)) if t.is_input]
        results = [(t, d) for t, d in zip(self.tensors, dtypes, strict=True) if not t.is_input]
        found = self._run_torch(op, iter(inputs), _zeros(results))
        if found is not None or not results:
            return found
        wanted = [d for _, d in results]
        for natural in COMMON:
            types = [natural if d == wanted[0] else d for d in wanted]
            found = self._run_torch(op, iter(inputs), _zeros([(t, d) for (t, _), d in zip(results, types, strict=True)]))
            if found is not None:
                return [tensor.to(TORCH_DTYPES[d]) for tensor, d in zip(found, wanted, strict=True)]
        return None

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
        for combination in seen:
            if not any(d in t.spec.exclude for d, t in zip(combination, self.tensors, strict=True)):
                yield Case(combination, self.base_orders)

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
        shape = tensor.spec.shape
        if self._grown and shape and not tensor.is_input:
            shape, dynamic = (shape[0] + 1, *shape[1:]), True
        slot = TensorSlot(shape, tensor.is_input, tensor.is_written, dynamic)
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

    def _result_shapes(self) -> list[T]:
        """Shapes and usual types of the results, from the first types for which PyTorch takes empty ones."""
        results = [a for a in self.schema.arguments if _is_result(a)]
        op = self._torch_op()
        for dtypes in itertools.product(_RESULT_TYPES, repeat=len(results)):
            inputs = [_contents(t.spec, i, t.spec.base) for i, t in enumerate(self.tensors)]
            fresh = [torch.zeros(0, dtype=TORCH_DTYPES[d]) for d in dtypes]
            if self._run_torch(op, iter(inputs), fresh) is not None:
                return [T(tuple(out.shape), dtype=d) for out, d in zip(fresh, dtypes, strict=True)]
        raise ValueError(f"PyTorch does not run the sample of {self.name}")

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
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = value.clone()
                    written.append(value)
            elif "List" in str(argument.type):
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
        except (RuntimeError, NotImplementedError, IndexError, ValueError):
            return None
        return written


def _zeros(results: Sequence[tuple[Tensor, ScalarType]]) -> list[torch.Tensor]:
    return [torch.zeros(t.spec.shape, dtype=TORCH_DTYPES[d]) for t, d in results]


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
        case _:
            values = count % int(spec.fill.removeprefix("index"))
    return values.reshape(spec.shape).to(TORCH_DTYPES.get(dtype) or _STORED_AS.get(dtype, torch.uint8))


@lru_cache(maxsize=4096)
def _bytes(tensor: torch.Tensor, dim_order: DimOrder) -> bytes:
    stored = tensor.permute(dim_order).contiguous() if dim_order else tensor
    return stored.reshape(-1).view(torch.uint8).numpy().tobytes()
