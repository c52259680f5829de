"""Calls of kernels as methods of one instruction, computed as a whole and in parts, on the stock runtime.

A case is a kernel with its arguments in the order of the schema, results left out: :class:`Input` and :class:`Weight`
are tensors, of which the caller gives the former, and everything else is a literal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.weights import synthetic_array
from etir.dialects.literals import format_scalar
from etir.dialects.text import parse_module
from etir.emit.to_pte import emit_program
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import memory_of
from etir.passes.analysis.regions import Region, Regions
from etir.passes.et.call_rules import functional_of
from etir.passes.et.partial_execution import Parts, Weights
from etir.passes.infra.manager import run_pipeline
from etir.targets.manifest import load

TARGET = "executorch"
_TYPES = {torch.float32: "f32", torch.float16: "f16", torch.int64: "i64", torch.bool: "i1", torch.int8: "i8"}


class Input:
    """A tensor that the caller gives: random numbers around 0."""

    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32):
        generator = torch.Generator().manual_seed(sum(shape))
        self.tensor = (torch.randn(shape, generator=generator) * 3).to(dtype)


class Weight:
    """A tensor of the program."""

    def __init__(self, *shape: int):
        self.seed = sum(shape)
        self.tensor = torch.from_numpy(np.array(synthetic_array(self.seed, shape, "float32")))


@dataclass
class Case:
    """A kernel and its arguments."""

    kernel: str
    arguments: tuple[Any, ...]

    @property
    def inputs(self) -> list[torch.Tensor]:
        """What the caller gives."""
        return [found.tensor for found in _flat(self.arguments) if isinstance(found, Input)]

    @property
    def expected(self) -> list[torch.Tensor]:
        """PyTorch's results."""
        schema = functional_of(load(TARGET).kernels[self.kernel].schema)
        assert schema is not None
        wanted = getattr(getattr(torch.ops.aten, schema.name), schema.overload or "default")
        given = [_tensors(value) for value in self.arguments]
        count = sum(1 for argument in wanted._schema.arguments if not argument.kwarg_only)
        rest = [argument.name for argument in wanted._schema.arguments if argument.kwarg_only]
        found = wanted(*given[:count], **dict(zip(rest, given[count:], strict=False)))
        return [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]

    def text(self) -> str:
        """The method, which returns all that the kernel writes."""
        weights: list[str] = []
        values: list[str] = []
        names: list[str] = []

        def said(value: Any) -> str:
            match value:
                case Input():
                    names.append(f"%x{len(names)}")
                    values.append(f"  {names[-1]} = et.buffer : {_type(value.tensor)}")
                    return names[-1]
                case Weight():
                    name = f"w{len(weights)}"
                    weights.append(f"et.weight @{name} : {_type(value.tensor)} = #et.synthetic<seed = {value.seed}>")
                    values.append(f"  %{name} = et.get_weight @{name} : {_type(value.tensor)}")
                    return f"%{name}"
                case None:
                    return "none"
                case bool() | str():
                    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
                case float() | int():
                    return format_scalar(value)
                case list():
                    kind = "tensors" if isinstance(value[0], Input) else "doubles" if _is_float(value) else "ints"
                    return f"{kind}[{', '.join(map(said, value))}]"
                case _:
                    raise TypeError(value)

        arguments = [said(value) for value in self.arguments]
        outs = [f"%y{i}" for i, _ in enumerate(self.expected)]
        values += [f"  {o} = et.buffer : {_type(t)}" for o, t in zip(outs, self.expected, strict=True)]
        slot = outs[0] if len(outs) == 1 else f"tensors[{', '.join(outs)}]"
        return "\n".join(
            [
                *weights,
                "et.method @forward {",
                *values,
                f"  et.inputs {', '.join(names)}",
                f'  et.call "{self.kernel}"({", ".join([*arguments, *outs])}) -> {slot}',
                f"  et.return {', '.join(outs)}",
                "}",
            ]
        )

    def region(self) -> tuple[Any, Region | None]:
        """The module, and its call as a region; None where it cannot be cut."""
        module = parse_module(self.text())
        regions, index = regions_of(module)
        if not regions.can_cut(index):
            return module, None
        return module, regions.region(regions.window(index), index, index)

    def run(self, count: int | None) -> list[torch.Tensor]:
        """What the stock runtime computes, in ``count`` parts or as a whole. The plan and the calls verify."""
        module, region = self.region()
        if count is not None:
            assert region is not None
            divide(module, region, count)
        return run_stock(module, self.inputs)


def regions_of(module: Any) -> tuple[Regions, int]:
    """The regions of the only method, and which instruction its first call is."""
    method = method_of(module)
    in_place = in_place_kernels(TARGET)
    memory = memory_of(EtContext(), method, in_place=in_place)
    regions = Regions(EtContext(), method, memory, in_place, Weights(module).can_divide, {})
    return regions, next(i for i, op in enumerate(method.instructions) if isinstance(op, CallOp))


def divide(module: Any, region: Region, count: int) -> None:
    """Compute a region in parts."""
    weights = Weights(module)
    list(Parts(method_of(module), region, count, weights).make())
    weights.keep()


def method_of(module: Any) -> MethodOp:
    """The only method."""
    return next(op for op in module.body.block.ops if isinstance(op, MethodOp))


def run_stock(module: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Plan, verify and emit a module, and run it on the stock runtime."""
    from etir.tools.probe.runner import load_runtime

    checks = f"verify-plan{{target={TARGET}}},verify-calls{{target={TARGET}}}"
    run_pipeline(EtContext(), module, f"plan-memory{{target={TARGET}}},{checks}")
    data = emit_program(module).pte()  # the runtime reads weights where they are
    program = load_runtime()._load_for_executorch_from_buffer(data)
    return [found.clone() for found in program.run_method("forward", list(inputs))]


def difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """How far two results are apart, beside the largest number; infinity where they differ in type, shape or NaN."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return float("inf")
    one, other = found.double(), wanted.double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return float("inf")
    finite = other.isfinite()
    largest = float(other[finite].abs().max()) if finite.any() else 0.0
    return float((one - other)[finite].abs().max()) / max(largest, 1.0) if finite.any() else 0.0


def rules() -> dict[str, None]:
    """The kernels of the stock runtime that can be cut."""
    from etir.passes.analysis.cuts import RULES

    return {name: None for name in RULES if load(TARGET).lookup(name) is not None}


def _flat(arguments: Sequence[Any]) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    return value.tensor if isinstance(value, (Input, Weight)) else value


def _type(tensor: torch.Tensor) -> str:
    dims = "x".join(map(str, [*tensor.shape, _TYPES[tensor.dtype]]))
    return f"tensor<{dims}>"


def _is_float(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], float)
