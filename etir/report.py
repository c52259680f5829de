"""What a compiled program consists of, as data, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from etir.dialects.et.payloads import DelegateOp
    from etir.emit.runtime_memory import RuntimeMemory
    from etir.passes.delegation.report import DelegationReport


@dataclass(frozen=True)
class MethodReport:
    """One method. Sizes are in bytes; ``pools`` are the planned memories by memory id.

    ``runtime`` is what the method takes on etir's own runtime, when that is the target.
    """

    name: str
    instructions: int
    operators: dict[str, int]
    delegates: dict[str, int]
    pools: dict[int, int]
    pools_lower_bound: dict[int, int]
    peak: list[str]
    inputs: list[str]
    outputs: list[str]
    state_bytes: int
    runtime: RuntimeMemory | None = None
    allocated: tuple[str, ...] = ()
    """Tensors without an upper bound, which are allocated at run time: no plan counts their bytes."""


@dataclass(frozen=True)
class LinkedReport:
    """The code of one delegate that a client's build links: bytes of flash and of the arena (in planned memory).

    ``code`` is of the object that ``compiler`` makes, None when there was none; ``weights`` may be shared with others.
    """

    delegate: str
    processor: str
    code: int | None
    weights: int
    arena: int
    compiler: str

    def __str__(self) -> str:
        code = "code of unknown size (no compiler)" if self.code is None else f"{self.code:,} bytes of code"
        made = f" by {self.compiler}" if self.compiler else ""
        return (
            f"linked {self.delegate} for {self.processor}: {code}{made}, {self.weights:,} bytes of weights, "
            f"an arena of {self.arena:,} bytes"
        )


@dataclass(frozen=True)
class Report:
    """The whole program. ``constants`` counts distinct contents; ``passes`` are names with seconds;
    ``delegation`` says what went to which backend, when backends were asked.
    """

    target: str
    file_bytes: int
    constants: int
    constant_bytes: int
    methods: list[MethodReport]
    passes: list[tuple[str, float]]
    delegation: DelegationReport | None = None
    linked: tuple[LinkedReport, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [
            f"program for {self.target}: {self.file_bytes:,} bytes, {self.constants} constants "
            f"({self.constant_bytes:,} bytes)"
        ]
        for method in self.methods:
            lines.append(
                f"method {method.name}: {method.instructions} instructions, {len(method.operators)} operators, "
                f"{sum(method.delegates.values())} delegate calls"
            )
            lines.append(f"  inputs   {', '.join(method.inputs) or 'none'}")
            lines.append(f"  outputs  {', '.join(method.outputs) or 'none'}")
            for pool, size in method.pools.items():
                bound = method.pools_lower_bound.get(pool, 0)
                gap = f", lower bound {bound:,}" if bound != size else ", which is the lower bound"
                lines.append(f"  memory {pool}: {size:,} bytes{gap}")
            if method.allocated:
                planned = sum(method.pools.values())
                lines.append(
                    f"  allocated at run time: {len(method.allocated)} tensors without an upper bound, besides "
                    f"{planned:,} planned bytes: {', '.join(method.allocated)}"
                )
            if method.state_bytes:
                lines.append(f"  state    {method.state_bytes:,} bytes")
            if method.runtime is not None:
                memory = method.runtime
                lines.append(
                    f"  runtime  {memory.method:,} bytes of method memory ({memory.method_32:,} on 32-bit machines), "
                    f"{sum(memory.planned):,} planned, {memory.temp:,} temp"
                )
            lines += [f"  at the peak: {text}" for text in method.peak]
            lines += [f"  {count:5d} x {name}" for name, count in method.operators.items()]
            lines += [f"  {count:5d} x delegate {name}" for name, count in method.delegates.items()]
        lines += [str(row) for row in self.linked]
        if self.delegation is not None:
            lines.append(str(self.delegation))
        seconds = sum(time for _, time in self.passes)
        lines.append(f"{len(self.passes)} passes in {seconds:.2f} s")
        return "\n".join(lines)


def summary_lines(module: ModuleOp, target: str) -> list[str]:
    """Three lines on a module at the executable level: how much of what, its methods, its bytes."""
    from etir.dialects.et.executable import MethodOp
    from etir.dialects.et.instructions import CallOp, DelegateCallOp, InputsOp, ReturnOp

    methods = [op for op in module.body.block.ops if isinstance(op, MethodOp)]
    ops = [op for method in methods for op in method.instructions]
    calls = [op for op in ops if isinstance(op, (CallOp, DelegateCallOp))]
    delegated = sum(1 for op in calls if isinstance(op, DelegateCallOp))
    sizes = _constants(module)
    names: list[str] = []
    for method in methods:
        taken = [len(op.arguments) for op in method.instructions if isinstance(op, InputsOp)]
        given = [len(op.arguments) for op in method.instructions if isinstance(op, ReturnOp)]
        names.append(f"{method.sym_name.data} ({_count(sum(taken[:1]), 'input')}, {_count(sum(given[:1]), 'output')})")
    if len(names) > 4:
        names[3:] = [f"and {len(names) - 3} more"]
    planned = sum(sum((method.pool_sizes or (0,))[1:]) for method in methods)
    return [
        f"Program for {target}: {_count(len(methods), 'method')}, {_count(len(calls) - delegated, 'kernel call')}, "
        f"{_count(delegated, 'delegate call')}",
        f"  {', '.join(names) or 'no methods'}",
        f"  {planned:,} bytes of planned memory, {_count(len(sizes), 'constant')} of {sum(sizes.values()):,} bytes",
    ]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _constants(module: ModuleOp) -> dict[str, int]:
    """Bytes of every distinct content of a weight, by digest."""
    from etir.dialects.et.program import WeightOp
    from etir.dialects.et.weights import BlobAttr

    return {
        op.value.data.digest: op.value.data.size
        for op in module.body.block.ops
        if isinstance(op, WeightOp) and isinstance(op.value, BlobAttr)
    }


def make_report(
    module: ModuleOp,
    target: str,
    file_bytes: int,
    passes: Sequence[tuple[str, float]],
    memory: Mapping[str, RuntimeMemory],
    delegation: DelegationReport | None = None,
) -> Report:
    """The report of a module at the executable level; ``memory`` is by the method's name, empty when not known."""
    from etir.dialects.et.executable import MethodOp
    from etir.dialects.et.payloads import DelegateOp

    blobs = _constants(module)
    methods = [_method(module, op, memory, target) for op in module.body.block.ops if isinstance(op, MethodOp)]
    linked = tuple(
        _linked(op) for op in module.body.block.ops if isinstance(op, DelegateOp) and "linked" in op.attributes
    )
    return Report(target, file_bytes, len(blobs), sum(blobs.values()), methods, list(passes), delegation, linked)


def _linked(op: DelegateOp) -> LinkedReport:
    from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr

    found = op.attributes["linked"]
    entries = found.data if isinstance(found, DictionaryAttr) else {}
    numbers = {key: value.value.data for key, value in entries.items() if isinstance(value, IntegerAttr)}
    texts = {key: value.data for key, value in entries.items() if isinstance(value, StringAttr)}
    return LinkedReport(
        op.sym_name.data,
        texts.get("processor", ""),
        numbers.get("code"),
        numbers.get("weights", 0),
        numbers.get("arena", 0),
        texts.get("compiler", ""),
    )


def _method(module: ModuleOp, method: Any, runtime: Mapping[str, RuntimeMemory], target: str) -> MethodReport:
    from etir.dialects.context import EtContext
    from etir.dialects.et.instructions import CallOp, DelegateCallOp, InputsOp, NextOp, ReturnOp
    from etir.dialects.et.values import BufferOp
    from etir.passes.analysis.in_place import in_place_kernels
    from etir.passes.analysis.memory_effects import memory_of, tensor_bytes
    from etir.passes.analysis.planning.lower_bound import lower_bound

    kernels: Counter[str] = Counter()
    delegates: Counter[str] = Counter()
    inputs: list[str] = []
    outputs: list[str] = []
    count = 0
    for op in method.instructions:
        match op:
            case InputsOp():
                inputs = [f"%{v.name_hint or i}: {v.type}" for i, v in enumerate(op.arguments)]
            case ReturnOp():
                outputs = [f"%{v.name_hint or i}: {v.type}" for i, v in enumerate(op.arguments)]
            case NextOp():
                pass
            case _:
                count += 1
                if isinstance(op, CallOp):
                    kernels[op.kernel.data] += 1
                elif isinstance(op, DelegateCallOp):
                    delegates[op.delegate.root_reference.data] += 1
    buffers = [op for op in method.body.blocks[0].ops if isinstance(op, BufferOp)]
    fixed: dict[Operation, tuple[int, int]] = {
        op: (op.place[0], op.place[1]) for op in buffers if op.place is not None and op.place[0] != 1
    }
    memory = memory_of(EtContext(), method, fixed=fixed, in_place=in_place_kernels(target))
    bounds = lower_bound(memory.problem)
    peak = []
    if 1 in bounds:
        for key in bounds[1].alive[:8]:
            buffer = memory.problem.by_key[key]
            peak.append(f"{buffer.size:,} bytes {buffer.name}")
    sizes = method.pool_sizes or (0,)
    return MethodReport(
        method.sym_name.data,
        count,
        dict(kernels.most_common()),
        dict(delegates.most_common()),
        {pool: size for pool, size in enumerate(sizes) if pool},
        {pool: bound.bytes for pool, bound in bounds.items()},
        peak,
        inputs,
        outputs,
        sum(tensor_bytes(op.result.type) for op in buffers if op.state is not None),
        runtime.get(method.sym_name.data),
        tuple(
            f"%{op.result.name_hint or index}, {op.result.type.element_type} of rank {op.result.type.get_num_dims()}"
            for index, op in enumerate(buffers)
            if op.is_allocated
        ),
    )
