"""Values from eager torch: what the nodes of an exported program's graph are when it runs as it was exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etir.devtools.errors import E1413
from etir.devtools.values.arrays import dtype_name
from etir.devtools.values.interpreted import as_array
from etir.devtools.values.room import Room
from etir.diagnostics import EtirError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from etir.devtools.values.arrays import Array


@dataclass
class EagerRun:
    """``values`` by the name of the node and the number of its output, outputs as the user gets them, and by name what
    the run leaves in buffers.
    """

    values: dict[tuple[str, int], Array] = field(default_factory=dict)
    dtypes: dict[tuple[str, int], str] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    states: dict[str, Array] = field(default_factory=dict)


def eager_run(program: ExportedProgram, inputs: Sequence[Any]) -> EagerRun:
    """Run an exported program once, from the state that it has, which stays as it is.

    ``inputs`` are flat, arrays or torch tensors. Raises error E1413 when there are too many or too few, or torch
    refuses them, E1415 when the values do not fit into memory.
    """
    import torch
    from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
    from torch.fx import Interpreter, Node

    found = EagerRun()
    room = Room()
    specs = program.graph_signature.input_specs
    wanted = sum(spec.kind is InputKind.USER_INPUT for spec in specs)
    if len(inputs) != wanted:
        raise E1413.error(f"the exported program takes {wanted} inputs, {len(inputs)} given")
    given = iter(inputs)

    def argument(spec: Any) -> Any:
        if spec.kind is InputKind.USER_INPUT:
            value = next(given)
            if not isinstance(spec.arg, TensorArgument):
                return value.item() if hasattr(value, "item") else value
            return value.clone() if isinstance(value, torch.Tensor) else _tensor(value)
        state: dict[str, Any] = {**program.constants, **program.state_dict}
        value = state.get(spec.target)
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    class Watching(Interpreter):
        def run_node(self, n: Node) -> Any:
            result = super().run_node(n)
            for index, value in enumerate(result if isinstance(result, (tuple, list)) else [result]):
                if isinstance(value, torch.Tensor) and n.op != "output" and n.name:
                    room.take(value.nbytes, f"node '{n.name}'")
                    found.values[n.name, index] = as_array(value.clone())
                    found.dtypes[n.name, index] = dtype_name(value)
            return result

    try:
        with torch.no_grad():
            held = [argument(spec) for spec in specs]
            results = Watching(program.graph_module).run(*held, enable_io_processing=False)
    except EtirError:
        raise
    except Exception as error:  # whatever an operator raises
        words = str(error).strip().splitlines()
        raise E1413.error(f"eager torch cannot run the program: {words[0] if words else error!r}") from None
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    # A graph that writes into its buffers leaves them as they are after the run; one that does not returns them.
    for spec, value in zip(specs, held, strict=True):
        if spec.kind is InputKind.BUFFER and isinstance(value, torch.Tensor) and spec.target:
            found.states[spec.target] = as_array(value)
    for spec, value in zip(program.graph_signature.output_specs, results, strict=True):
        if spec.kind is OutputKind.BUFFER_MUTATION and isinstance(value, torch.Tensor) and spec.target:
            found.states[spec.target] = as_array(value)
        if spec.kind is OutputKind.USER_OUTPUT:
            found.outputs.append(as_array(value) if isinstance(value, torch.Tensor) else value)
    return found


def _tensor(value: Any) -> Any:
    import numpy as np
    import torch

    return torch.from_numpy(np.array(value)) if isinstance(value, (np.ndarray, np.generic)) else value
