"""Which values of the imported module are those of which nodes of the FX graphs.

Names of SSA values are hints that passes and printers change; what wants to compare with eager torch needs the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from xdsl.ir import SSAValue

from etir.lowering.import_fx.structures import flatten


@dataclass
class NodeNames:
    """Filled by the importer: for each value, the nodes of its method's graph that it is an output of.

    A node is given by its name and the number of the output; ``getitem`` nodes are values of their own.
    """

    nodes: dict[SSAValue, list[tuple[str, int]]] = field(default_factory=dict[SSAValue, list[tuple[str, int]]])

    def add(self, values: Mapping[fx.Node, Any]) -> None:
        """Note what the nodes of one graph stand for."""
        for node, value in values.items():
            for index, part in enumerate(flatten([value])):
                if isinstance(part, SSAValue):
                    self.nodes.setdefault(part, []).append((node.name, index))
