"""An XNNPACK graph as plain data: what a blob says, without where its bytes are.

Values are numbered from 0 in the order of :attr:`Graph.values`; nodes refer to them by number. Inputs and outputs are
lists of values in the order in which a delegate call passes them. Instances are immutable and compare by content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from etir.backends.xnnpack.datatypes import Datatype
from etir.backends.xnnpack.schema import NodeKind
from etir.dialects.et.weights import Blob


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant bytes of ``size`` bytes: looked up by ``key`` when a program is loaded, or inside the blob (no key).

    ``data`` is None when the blob was read without the named data that it refers to.
    """

    size: int
    key: str | None = None
    data: Blob | None = None


@dataclass(frozen=True, slots=True)
class PerTensor:
    """One scale and zero point: ``real = scale * (stored - zero_point)``."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class PerToken:
    """Scales chosen at run time, one for each index of the leading dims; ``nonbatch_dims`` dims share one."""

    nonbatch_dims: int


@dataclass(frozen=True, slots=True)
class PerChannel:
    """One f32 scale for each index of ``channel_dim``: a constant, or numbers inside the FlatBuffer."""

    channel_dim: int
    scales: Constant | tuple[float, ...]
    count: int


@dataclass(frozen=True, slots=True)
class PerBlock:
    """One bf16 scale for each ``block_size`` consecutive elements of a channel, row by row (f32 numbers if inside)."""

    channel_dim: int
    block_size: int
    scales: Constant | tuple[float, ...]
    count: int


Quantization: TypeAlias = PerTensor | PerToken | PerChannel | PerBlock


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: ``dims`` are upper bounds where they change at run time, in the order in which elements lie."""

    datatype: Datatype
    dims: tuple[int, ...]
    constant: Constant | None = None
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``operands`` has None for an absent optional one; ``attributes`` has every attribute of the kind.

    ``clamp`` is the range of the output; ``debug_handle`` names the node in a profile.
    """

    kind: NodeKind
    operands: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, int | float | tuple[int, ...]]
    clamp: tuple[float, float] | None = None
    debug_handle: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """All of a blob."""

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def canonical(self) -> Graph:
        """The same graph with values numbered by inputs, then by first use in the order of the nodes.

        Values that nothing uses are left out, and so are constants' bytes from comparison when they have a key.
        """
        number: dict[int, int] = {}
        for value in self.inputs:
            number.setdefault(value, len(number))
        for node in self.nodes:
            for value in (*node.operands, *node.outputs):
                if value is not None:
                    number.setdefault(value, len(number))
        for value in self.outputs:
            number.setdefault(value, len(number))
        nodes = tuple(
            replace(
                node,
                operands=tuple(None if v is None else number[v] for v in node.operands),
                outputs=tuple(number[v] for v in node.outputs),
            )
            for node in self.nodes
        )
        return Graph(
            tuple(self.values[old] for old in number),
            nodes,
            tuple(number[v] for v in self.inputs),
            tuple(number[v] for v in self.outputs),
        )

    def keys(self) -> list[str]:
        """The names of the constants that are looked up by name, and whose bytes are known, in order."""
        found: dict[str, None] = {}
        for value in self.values:
            scales = value.quantization.scales if isinstance(value.quantization, PerChannel | PerBlock) else None
            for constant in (value.constant, scales):
                if isinstance(constant, Constant) and constant.key is not None and constant.data is not None:
                    found[constant.key] = None
        return list(found)
