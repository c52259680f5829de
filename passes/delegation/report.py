"""What was delegated and why the rest was not: one form for every backend, as data, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.backends.api.patterns import operator_of
from etir.backends.api.registry import Delegate
from etir.dialects.et.program import GetWeightOp, ReadStateOp, WeightOp
from etir.dialects.et.weights import BlobAttr
from etir.dialects.text import source_location
from etir.passes.delegation.attributes import delegate_for, delegates_of, function_name, partition_of
from etir.passes.delegation.claim import computes
from etir.passes.delegation.graph import Ranges, tensor_bytes, used_values
from etir.passes.delegation.what_if import Saving, WhatIf, rank_savings
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import Observer


@dataclass(frozen=True)
class Rejected:
    """Operators that a backend rejects: which, how many for this reason, why, and where the first one is."""

    op: str
    count: int
    reason: str
    location: str


@dataclass(frozen=True)
class PartitionReport:
    """One partition. Bytes are those of the tensors that cross its boundary, of its constants and of the buffers that
    it owns; dynamic dims count at their upper bound. ``runtime_id`` is what the file calls the backend. ``on_kernels``
    says why the backend leaves all of it to the target's kernels after all; empty where it does not.
    """

    name: str
    method: str
    operators: dict[str, int]
    inputs: int
    outputs: int
    input_bytes: int
    output_bytes: int
    constant_bytes: int
    state_bytes: int
    runtime_id: str
    on_kernels: str = ""


@dataclass(frozen=True)
class BackendReport:
    """One backend: what it claimed, and what it was offered and rejected."""

    name: str
    runtime_id: str
    options: str
    claimed: dict[str, int]
    rejected: list[Rejected]
    partitions: list[PartitionReport]
    what_if: list[Saving]

    @property
    def operators(self) -> int:
        """How many operators the backend runs."""
        return sum(self.claimed.values())

    @property
    def boundary_bytes(self) -> int:
        """Bytes that cross the boundaries of its partitions in one run of all of them."""
        return sum(p.input_bytes + p.output_bytes for p in self.partitions)


@dataclass(frozen=True)
class SharedConstant:
    """A weight that several partitions, or a partition and the target's kernels, read."""

    name: str
    bytes: int
    readers: list[str]


@dataclass(frozen=True)
class DelegationReport:
    """The whole program. ``operators`` counts those that make a tensor, ``fallback`` those on the target's kernels."""

    operators: int
    fallback: dict[str, int]
    backends: list[BackendReport]
    shared_constants: list[SharedConstant] = field(default_factory=list[SharedConstant])
    memory: str = ""
    """How much memory the program needs, where that is more than without delegates whose backend looks after it."""

    @property
    def delegated(self) -> int:
        """How many operators run on backends."""
        return sum(b.operators for b in self.backends)

    def with_left(self, reasons: Mapping[str, str]) -> DelegationReport:
        """The report that says of partitions, by name, why they run on the kernels after all."""
        backends = [
            replace(b, partitions=[replace(p, on_kernels=reasons.get(p.name, "")) for p in b.partitions])
            for b in self.backends
        ]
        return replace(self, backends=backends)

    def summary(self) -> str:
        """One line: how much runs where."""
        parts = [
            f"{b.name} runs {b.operators} of {self.operators} operators in {len(b.partitions)} "
            f"delegate{'s' * (len(b.partitions) != 1)}"
            for b in self.backends
        ]
        return "; ".join([*parts, f"the target's kernels run {sum(self.fallback.values())}"])

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [self.summary()]
        for backend in self.backends:
            lines += _backend_lines(backend)
        for shared in self.shared_constants:
            lines.append(f"constant @{shared.name} ({shared.bytes:,} bytes) is read by {', '.join(shared.readers)}")
        if self.memory:
            lines.append(f"memory: {self.memory}")
        return "\n".join(lines)


def _backend_lines(backend: BackendReport) -> list[str]:
    lines = [
        f"delegate {backend.name}{backend.options}: {backend.operators} operators, {len(backend.partitions)} "
        f"partitions, {backend.boundary_bytes:,} bytes at their boundaries"
    ]
    for partition in backend.partitions:
        elsewhere = "" if partition.runtime_id == backend.runtime_id else f" on {partition.runtime_id}"
        owned = f", owns {partition.state_bytes:,} bytes of state" if partition.state_bytes else ""
        lines.append(
            f"  {partition.name}{elsewhere}: {sum(partition.operators.values())} operators, {partition.inputs} inputs "
            f"({partition.input_bytes:,} bytes), {partition.outputs} outputs ({partition.output_bytes:,} bytes), "
            f"{partition.constant_bytes:,} bytes of constants{owned}"
        )
        if partition.on_kernels:
            lines.append(f"    runs on the kernels: {partition.on_kernels}")
    for name, count in backend.claimed.items():
        lines.append(f"  claims  {count:5d} x {name}")
    for rejected in backend.rejected:
        where = f" ({rejected.location})" if rejected.location else ""
        lines.append(f"  rejects {rejected.count:5d} x {rejected.op}: {rejected.reason}{where}")
    for saving in backend.what_if:
        lines.append(f"  {saving}")
    return lines


class ReportBuilder:
    """Collects while `partition` runs."""

    def __init__(self, delegates: list[Delegate], ranges: Ranges, observer: Observer | None = None):
        self.observer = observer
        self.delegates = delegates
        self.ranges = ranges
        self.refined: dict[str, Delegate] = {}
        self.reasons: dict[str, dict[tuple[str, str], list[Operation]]] = {d.name: {} for d in delegates}
        self.what_ifs: dict[str, list[WhatIf]] = {d.name: [] for d in delegates}

    def refine(self, delegate: Delegate) -> Delegate:
        """Report a backend under the options that it chose for itself: the first ones, which are returned."""
        known = self.refined.setdefault(delegate.name, delegate)
        self.delegates = [known if d.name == known.name else d for d in self.delegates]
        return known

    def add_reasons(self, delegate: Delegate, func: FuncOp, reasons: Mapping[Operation, str]) -> None:
        """Note why ``delegate`` rejects operations of a method."""
        table = self.reasons[delegate.name]
        ordered = [op for op in func.walk() if op in reasons]
        for op in ordered:
            table.setdefault((operator_of(op), reasons[op]), []).append(op)
            if self.observer is not None:
                self.observer.on_refused(delegate.name, op, reasons[op])

    def add_what_if(self, question: WhatIf) -> None:
        """Note a block whose alternatives are to be reported."""
        self.what_ifs[question.delegate.name].append(question)

    def finish(self, module: ModuleOp) -> DelegationReport:
        """The report of a module whose operations are marked."""
        weights = {
            op.sym_name.data: op.value.data.size if isinstance(op.value, BlobAttr) else tensor_bytes(op.type, {})
            for op in module.body.block.ops
            if isinstance(op, WeightOp)
        }
        partitions: dict[tuple[str, str, int], list[Operation]] = {}
        runtime_ids: dict[tuple[str, str, int], str] = {}
        named = {**delegates_of(module), **{d.name: d for d in self.delegates}}
        fallback: Counter[str] = Counter()
        readers: dict[str, dict[str, None]] = {}
        total = 0
        for func in methods(module):
            for op in func.walk():
                place = partition_of(op)
                if computes(op):
                    total += 1
                    if place is None:
                        fallback[operator_of(op)] += 1
                reader = func.sym_name.data if place is None else function_name(func.sym_name.data, place)
                if place is not None:
                    key = (func.sym_name.data, *place)
                    partitions.setdefault(key, []).append(op)
                    if key not in runtime_ids:
                        runtime_ids[key] = delegate_for(func, place, named).runtime_id
                if not op.regions:
                    for value in op.operands:
                        if isinstance(value.owner, GetWeightOp):
                            readers.setdefault(value.owner.symbol.root_reference.data, {})[reader] = None
        backends = [self._backend(delegate, partitions, runtime_ids) for delegate in self.delegates]
        delegated = {p.name: None for b in backends for p in b.partitions}
        shared = [
            SharedConstant(name, weights.get(name, 0), list(used))
            for name, used in readers.items()
            if len(used) > 1 and any(reader in delegated for reader in used)
        ]
        return DelegationReport(total, dict(fallback.most_common()), backends, shared)

    def _backend(
        self,
        delegate: Delegate,
        partitions: Mapping[tuple[str, str, int], list[Operation]],
        runtime_ids: Mapping[tuple[str, str, int], str],
    ) -> BackendReport:
        found = [
            self._partition(function_name(method, (name, number)), method, ops, runtime_ids[method, name, number])
            for (method, name, number), ops in sorted(partitions.items(), key=lambda item: (item[0][0], item[0][2]))
            if name == delegate.name
        ]
        claimed: Counter[str] = Counter()
        for partition in found:
            claimed.update(partition.operators)
        rejected = [
            Rejected(name, len(ops), reason, str(source_location(ops[0].location) or ""))
            for (name, reason), ops in self.reasons[delegate.name].items()
        ]
        rejected.sort(key=lambda row: (-row.count, row.op))
        return BackendReport(
            delegate.name,
            delegate.runtime_id,
            delegate.text.removeprefix(delegate.name),
            dict(claimed.most_common()),
            rejected,
            found,
            rank_savings(self.what_ifs[delegate.name]),
        )

    def _partition(self, name: str, method: str, ops: list[Operation], runtime_id: str) -> PartitionReport:
        members = dict.fromkeys(ops)
        read = dict.fromkeys(v for op in ops for v in used_values(op) if v.owner not in members)
        tensors = [v for v in read if isinstance(v.type, TensorType)]
        constants = [v for v in tensors if isinstance(v.owner, GetWeightOp)]
        inputs = [v for v in tensors if v not in constants]
        made = [r for op in ops if not isinstance(op, ReadStateOp) for r in op.results]
        outputs = [r for r in made if any(use.operation not in members for use in r.uses)]
        size = self.ranges
        states = {op.symbol.root_reference.data: op.result.type for op in ops if isinstance(op, ReadStateOp)}
        return PartitionReport(
            name,
            method,
            dict(Counter(operator_of(op) for op in ops if computes(op)).most_common()),
            len(inputs),
            len(outputs),
            sum(tensor_bytes(v.type, size) for v in inputs),
            sum(tensor_bytes(v.type, size) for v in outputs),
            sum(tensor_bytes(v.type, size) for v in constants),
            sum(tensor_bytes(type, size) for type in states.values()),
            runtime_id,
        )
